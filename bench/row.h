/* SPDX-License-Identifier: MIT */
/* Row: the figures of a case as one JSON object, schema 1. A field that does not apply is absent.
 */
#ifndef LS_BENCH_ROW_H
#define LS_BENCH_ROW_H

#include "bench/gate.h"
#include "bench/row_id.h"
#include "bench/trial.h"

#include <jansson.h>

enum { LS_ROW_SCHEMA = 1 };

/** What a row is made of; borrowed. `trial` is NULL where the case never trained. */
typedef struct ls_row_facts {
    const ls_workplace *place;
    const ls_plan_of_case *plan;
    const ls_gate *gate; /**< NULL: never got there */
    ls_trial *trial;     /**< its times are sorted here */
    const char *error;   /**< why the case could not run; NULL: it could */
    double baseline_ms;  /**< median step of `single` on one like device, per sample; 0: none */
    double roof_flops;   /**< 0: not known */
    double harness_ns;   /**< of a step; 0: not known */
    double exact_cost;   /**< exact mode's median step over fast mode's; 0: not known */
    bool shared;         /**< other cases ran in the same process, too */
} ls_row_facts;

/** The rate at which each whole device did the model's FLOPs in the tenth percentile of the steps,
 *  floating-point operations per second; 0 where an algorithm may have had fewer of them to do than
 *  are counted (Winograd's, or a library's choice), so that it says nothing of the roof. */
double ls_row_reached(const ls_row_facts *facts);

/** Which kernel each operation of a step got: {operation: kernel, ...}, owned by the caller. */
json_t *ls_row_kernels(const ls_run *run);

/** A new row, owned by the caller (json_decref). */
ls_status ls_row_build(const ls_row_facts *facts, json_t **out);

/** Makes a row one that could not be had: status "error" with this reason, and no timing. */
void ls_row_mark_error(json_t *row, const char *reason);

/** Whether the row is ok, failed a check, or could not run: its share in the exit status. */
ls_code ls_row_code(const json_t *row);

#endif
