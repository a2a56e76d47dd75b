/* SPDX-License-Identifier: MIT */
/* Validated rows of other machines, which are a part of the program; see validated.h. */
#include "bench/predict/validated.h"

#include "bench/rows/row.h"
#include "bench/statistics/statistics.h"
#include "validated_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

json_t *ls_embedded_rows(const char *lines)
{
    json_t *rows = json_array();
    for (const char *at = lines; *at; at += strspn(at, "\n")) {
        json_t *row = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL);
        if (row)
            json_array_append_new(rows, row);
        at += strcspn(at, "\n");
    }
    return rows;
}

json_t *ls_validated_table(void)
{
    return ls_embedded_rows(ls_validated_rows);
}

bool ls_validated_busy(const json_t *row)
{
    static const double most_computing = 1.0 / 3, most_messages = 1; /* a device and ms */
    const double devices = (double)ls_row_count(row, LS_F_case_devices);
    const double messages = ls_row_real(row, LS_F_traffic_messages_sent);
    return ls_row_real(row, LS_F_prediction_computing) > most_computing ||
           messages > most_messages * devices * ls_row_real(row, LS_F_time_step_ms_median);
}

double ls_validated_error(const json_t *table, bool shared, bool busy, const char *without,
                          size_t *count)
{
    double *errors = calloc(json_array_size(table) + 1, sizeof *errors), error = 0;
    *count = 0;
    for (size_t i = 0; errors && i < json_array_size(table); i++) {
        const char *machine = "";
        double predicted_ms, measured_ms;
        int is_shared = 0, is_busy = 0;
        if (json_unpack(json_array_get(table, i), "{s?b,s?b,s?s,s:F,s:F}", "shared", &is_shared,
                        "busy", &is_busy, "machine", &machine, "predicted_ms", &predicted_ms,
                        "measured_ms", &measured_ms) == 0 &&
            is_shared == shared && (!shared || is_busy == busy) &&
            !(without && strcmp(machine, without) == 0))
            errors[(*count)++] = fabs(log(measured_ms / predicted_ms));
    }
    if (errors && *count) {
        ls_statistics_sort(errors, *count);
        error = ls_statistics_quantile(errors, *count, 0.90);
    }
    free(errors);
    return error;
}
