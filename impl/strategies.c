/* SPDX-License-Identifier: MIT */
/* The table of strategies; see strategy.h. */
#include "impl/strategies.h"

#include <stdio.h>
#include <string.h>

static const ls_strategy *const strategies[] = {
    &ls_strategy_single,
    &ls_strategy_independent,
    &ls_strategy_towers,
    NULL,
};

const ls_strategy *const *ls_strategies(void)
{
    return strategies;
}

ls_status ls_strategy_find(const char *name, const ls_strategy **out)
{
    char names[256] = "";
    size_t used = 0;
    for (size_t i = 0; strategies[i]; i++) {
        if (strcmp(strategies[i]->name, name) == 0) {
            *out = strategies[i];
            return LS_OK;
        }
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 strategies[i]->name);
    }
    return ls_fail(LS_CODE_USAGE, "strategy", name, "no strategy of this name; strategies are %s",
                   names);
}

uint64_t ls_job_steps_per_epoch(const ls_job *job)
{
    uint64_t samples = job->data->train.samples, batch = (uint64_t)job->batch;
    return samples / batch + (samples % batch != 0);
}

int64_t ls_job_tail(const ls_job *job)
{
    return job->epochs ? (int64_t)(job->data->train.samples % (uint64_t)job->batch) : 0;
}
