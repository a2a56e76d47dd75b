/* SPDX-License-Identifier: MIT */
/* How fast a row is: the rate and the time of its median step or, where steps are not alike, of the
 * mean one; see format.h. */
#include "bench/output/format.h"
#include "impl/strategy.h"

#include <string.h>

/* An interval of width 0 comes from one sample, in older rows, and does not count. */
static bool read_interval(const json_t *row, ls_field_number value, ls_field_number ci95,
                          ls_interval *out)
{
    *out = (ls_interval){ls_row_real(row, value), ls_row_real_at(row, ci95, 0),
                         ls_row_real_at(row, ci95, 1)};
    return out->value > 0 && out->low > 0 && out->low < out->high;
}

bool ls_row_step(const json_t *row, ls_interval *out)
{
    return read_interval(row, LS_F_time_step_ms_median, LS_F_time_step_ms_ci95, out);
}

/* Steps from one average of the parameters to the next; 0 if the strategy has no period. Older rows
 * have no `period`, but the option that it follows from. */
static double period_of(const json_t *group)
{
    const json_t *period = json_object_get(group, "period");
    const char *own = json_string_value(json_object_get(group, "strategy"));
    const ls_strategy *strategy = own ? ls_registry_find(&ls_strategies, own, strlen(own)) : NULL;
    char name[64];
    if (!period && strategy && strategy->average.period) {
        ls_declared_field(strategy->average.period->name, name);
        period = json_object_get(group, name);
    }
    return json_number_value(period);
}

bool ls_case_is_uneven(const json_t *group)
{
    const char *mode = json_string_value(json_object_get(group, "ps_mode"));
    return (mode && strcmp(mode, "sync") != 0) || period_of(group) > 1;
}

bool ls_row_is_uneven(const json_t *row)
{
    const double batch = ls_row_real(row, LS_F_case_batch_global),
                 trained = ls_row_real(row, LS_F_time_samples_per_s_mean) *
                           ls_row_real(row, LS_F_time_step_ms_mean) * 1e-3;
    return strcmp(ls_row_string(row, LS_F_time_samples_per_s_of), "mean") == 0 ||
           ls_case_is_uneven(ls_row_group(row, LS_G_case)) ||
           (trained > 0 && trained < batch * (1 - 1e-6));
}

bool ls_row_rate(const json_t *row, bool mean, ls_interval *out)
{
    const double rate = ls_row_real(row, LS_F_time_samples_per_s);
    ls_interval step;
    if (mean)
        return read_interval(row, LS_F_time_samples_per_s_mean, LS_F_time_samples_per_s_mean_ci95,
                             out);
    *out = (ls_interval){rate, 0, 0};
    if (!(rate > 0 && ls_row_step(row, &step)))
        return false;
    out->low = rate * step.value / step.high;
    out->high = rate * step.value / step.low;
    return true;
}

bool ls_row_pace(const json_t *row, ls_interval *out)
{
    ls_interval rate;
    if (!ls_row_is_uneven(row))
        return ls_row_step(row, out);
    const bool known = ls_row_rate(row, true, &rate);
    const double mean = ls_row_real(row, LS_F_time_step_ms_mean);
    *out = (ls_interval){mean, 0, 0};
    if (known) {
        out->low = mean * rate.value / rate.high;
        out->high = mean * rate.value / rate.low;
    }
    return known && mean > 0;
}
