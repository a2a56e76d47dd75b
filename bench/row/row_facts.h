/* SPDX-License-Identifier: MIT */
/* Facts that a row is made from. */
#pragma once

#include "bench/gate/gate.h"
#include "bench/train/trial.h"

#include <jansson.h>

/** Facts that a row is made from; borrowed. `trial` is NULL where the case never trained. */
typedef struct ls_row_facts {
    const ls_workplace *place;
    const ls_plan_of_case *plan;
    const ls_gate *gate; /**< NULL: it was not run */
    ls_trial *trial;
    ls_statistics steps; /**< of the trial's timed steps, where it has some */
    double ci95[2];      /**< of their median */
    const char *noise;   /**< noise of the machine, in words; NULL or "": none */
    const char *error;   /**< why the case could not run; NULL: it could */
    double baseline_ms;  /**< median step of `single` on one like device, per sample; 0: none */
    const double *baseline_parts; /**< [LS_WATERFALL_PARTS] of its step, per sample; NULL: none */
    double roof_flops;            /**< 0: not known */
    double harness_ns;            /**< of a step; 0: not known */
    double exact_cost;            /**< exact mode's median step over fast mode's; 0: not known */
    bool shared;                  /**< other cases ran in the same process, too */
} ls_row_facts;

/** The group `case`: the options of the case. Owned by the caller. */
json_t *ls_row_case(const ls_row_facts *facts);

/** Adds what parameter servers saw, where there are some: lead, staleness, dropped, server_load. */
void ls_row_put_ps(json_t *row, const ls_trial *trial);
