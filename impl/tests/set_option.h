/* SPDX-License-Identifier: MIT */
/* Sets a strategy's option in a job, by its name. */
#pragma once

#include "common/base/tests/must.h"
#include "impl/strategy.h"

#include <string.h>

static inline void set_option(ls_job *job, const ls_strategy *strategy, const char *name,
                              const char *value)
{
    const ls_declared_option *const *option = strategy->options;
    while (strcmp((*option)->name, name) != 0)
        option++;
    must(ls_declared_set(&job->options, *option, value));
}
