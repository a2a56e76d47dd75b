/* SPDX-License-Identifier: MIT */
/* Traffic: what communicators have counted, of all processes, and of that one step's part. */
#ifndef LS_IMPL_TRAFFIC_H
#define LS_IMPL_TRAFFIC_H

#include "common/comm/comm.h"

/** The sum over `processes` (NULL: this one alone), which all call it. */
ls_status ls_traffic_collect(ls_comm *processes, ls_traffic mine, ls_traffic *sum);

/**
 * Of what steps[0] full steps and steps[1] smaller ones have counted, the part of one full step:
 * less `tail` for each smaller one; rounded away from `formula`, so that a difference in one step
 * alone shows, too.
 */
ls_traffic ls_traffic_of_step(const ls_traffic *all, const ls_traffic *tail, const uint64_t *steps,
                              const ls_traffic *formula);

#endif
