/* SPDX-License-Identifier: MIT */
/* Parts of `ps`, in files of their own. */
#pragma once

#include "impl/strategy.h"

/** Its `build` if servers serve requests as they arrive (ps_arrival.c). */
void ls_ps_arrival_build(ls_step *step);

/** Its options, and the entries of its ls_strategy that read them (ps_options.c). */
extern const ls_declared_option *const ls_ps_declared[];
bool ls_ps_has(const ls_declared_values *values, int ranks, const ls_declared_option *option);
void ls_ps_resolve(ls_job *job, int ranks);
ls_status ls_ps_check(const ls_outline *outline);
