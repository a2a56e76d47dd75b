/* SPDX-License-Identifier: MIT */
/* The memory of a trial's devices, counted and by formula; see row.h. */
#include "bench/row/row.h"
#include "bench/rows/put.h"
#include "bench/train/session.h"

json_t *ls_row_add_memory(json_t *row, const char *name, const ls_memory_ledger *ledger,
                          const size_t formula[LS_MEMORY_USES])
{
    json_t *device = ls_row_make(row, LS_G_memory_devices);
    size_t peak = 0;
    ls_put_memory_devices_device(device, name);
    for (int use = 0; use < LS_MEMORY_USES; use++) {
        ls_row_put_int(device, (ls_field_number)(LS_F_memory_devices_parameters + use),
                       (int64_t)ledger->in_use[use]);
        ls_row_put_int(device, (ls_field_number)(LS_F_memory_devices_formula_parameters + use),
                       (int64_t)formula[use]);
        peak += formula[use];
    }
    ls_put_memory_devices_formula_peak(device, peak);
    for (int type = 0; type < LS_MEMORY_TYPES; type++)
        ls_row_put_int(device, (ls_field_number)(LS_F_memory_devices_types_float32 + type),
                       (int64_t)ledger->of_type[type]);
    ls_put_memory_devices_reserved(device, ledger->reserved);
    ls_put_memory_devices_peak(device, ledger->in_use_peak);
    return device;
}

void ls_row_put_memory(const ls_row_facts *f, json_t *row)
{
    const ls_trial *trial = f->trial;
    ls_run *run = trial->session.run;
    for (size_t i = 0; i < trial->session.device_count; i++) {
        const ls_memory_formula formula = run->functions->memory(run, i);
        json_t *device = ls_row_add_memory(row, ls_device_describe(trial->session.devices[i])->text,
                                           &trial->reported.ledgers[i], formula.bytes);
        ls_put_memory_devices_allocations(device, trial->reported.ledgers[i].allocations);
    }
    if (trial->timed.done)
        ls_put_memory_growth_per_step(row, ls_growth_per_step(&trial->growth));
    if (trial->reported.rss_peak && !f->shared)
        ls_put_memory_rss_peak(row, trial->reported.rss_peak);
}
