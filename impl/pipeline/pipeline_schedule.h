/* SPDX-License-Identifier: MIT */
/*
 * The order of the passes of a pipeline's stages: which pass a stage runs after which, as a table
 * of kind, chunk and micro-batch.
 *
 * A model is cut into p V parts; part c p + i is chunk c of stage i. With V = 1 a stage has one
 * part. A schedule is a rule, an entry of a table. Forward pass number k of a stage has chunk
 * floor((k mod pV) / p) and micro-batch floor(k / pV) p + k mod p; backward passes have chunk V-1-c
 * instead. Stage i runs `ahead` (p - i - 1) + (V - 1) p forward passes, or all, then a forward and
 * a backward pass in turn, then the remaining backward passes. If a rule splits the backward pass
 * into a data pass and a weight pass, the weight pass of micro-batch j - `ahead` i is behind the
 * data pass of micro-batch j, and the remaining ones end the step, ascending.
 *
 * Leaves out: devices, and measuring times.
 */
#pragma once

#include "common/base/declared.h"
#include "common/base/registry.h"
#include "common/base/status.h"

#include <stdbool.h>

/** The option --pipeline-schedule, a row of options.def. */
extern const ls_declared_option ls_option_pipeline_schedule;

enum { LS_SCHEDULE_CHUNKS = 64 }; /**< most chunks of a stage */

typedef struct ls_schedule ls_schedule;

/** A rule for an order: an entry of a table. */
typedef struct ls_schedule_rule {
    const char *name, *help;
    bool fills;   /**< all forward passes come before the backward passes */
    bool chunked; /**< stages have several chunks */
    bool split;   /**< the backward pass is a data pass and a weight pass */
    int ahead;    /**< forward passes ahead of backward ones for each later stage */
} ls_schedule_rule;

#define RULE(name, ...) extern const ls_schedule_rule ls_schedule_##name;
#include "impl/pipeline/schedules.def"

/** Lists the ls_schedule_rule that a case can have, in the order of the option. */
extern const ls_registry ls_schedules;

/** The rule that a case's options name. */
const ls_schedule_rule *ls_schedule_rule_of(const ls_declared_values *options);

struct ls_schedule {
    int stages, microbatches;
    const ls_schedule_rule *rule;
    int chunks; /**< V; 0 means 1 */
};

typedef enum ls_pass_kind {
    LS_PASS_FORWARD,
    LS_PASS_BACKWARD, /**< backward, or, if split, its data pass: to the stage's inputs */
    LS_PASS_WEIGHTS,  /**< gradients of variables */
    LS_PASS_KINDS
} ls_pass_kind;

typedef struct ls_pass {
    int stage;
    ls_pass_kind kind;
    int chunk, microbatch;
} ls_pass;

/** Chunks of a stage: at least 1. */
static inline int ls_schedule_chunks(const ls_schedule *schedule)
{
    return schedule->chunks > 1 ? schedule->chunks : 1;
}

/** Most passes that a stage has. */
size_t ls_schedule_passes(const ls_schedule *schedule);

/** A stage's passes in order, at most ls_schedule_passes; returns how many. */
int ls_schedule_stage(const ls_schedule *schedule, int stage, ls_pass *out);

/** Whether a pass is the last one that needs its micro-batch's memory on its part. */
bool ls_schedule_frees(const ls_schedule *schedule, const ls_pass *pass);

/** All stages' passes in one order, each behind the passes that it needs: the neighbour's, and for
 * a backward pass its own forward pass. Owned by the caller (free). LS_CODE_USAGE if a rule's
 * stages wait for each other. */
ls_status ls_schedule_order(const ls_schedule *schedule, ls_pass **out, size_t *count);

/** The pass of the same micro-batch that a pass needs; false if there is none. */
bool ls_schedule_input(const ls_schedule *schedule, const ls_pass *pass, ls_pass *out);

/** A number of a pass among all, of all stages; how many numbers there are. */
size_t ls_schedule_number(const ls_schedule *schedule, const ls_pass *pass);
static inline size_t ls_schedule_numbers(const ls_schedule *schedule)
{
    return (size_t)(LS_PASS_KINDS * schedule->stages * ls_schedule_chunks(schedule)) *
           (size_t)schedule->microbatches;
}

/** What a chunk's backward pass has before it on its stage. A weight pass, which needs no
 * parameters, is only behind a data pass. */
typedef enum ls_pass_before {
    LS_BEFORE_FORWARD,  /**< a forward pass of the chunk */
    LS_BEFORE_BACKWARD, /**< a backward pass of the chunk */
    LS_BEFORE_OTHER,    /**< a pass of another chunk */
    LS_PASSES_BEFORE
} ls_pass_before;

ls_pass_before ls_pass_before_of(const ls_pass *pass, const ls_pass *before);

/** What a stage has at once, at most. */
typedef struct ls_schedule_most {
    int in_flight;                /**< forward passes whose backward (or data) pass has not ended */
    int weights_waiting;          /**< data passes whose weight pass has not ended */
    int held;                     /**< micro-batches of one chunk that it holds memory of */
    int before[LS_PASSES_BEFORE]; /**< not a maximum: the chunk's backward passes, by their
                                       predecessor */
} ls_schedule_most;

/** `held` counts for `chunk`. */
ls_status ls_schedule_count(const ls_schedule *schedule, int stage, int chunk,
                            ls_schedule_most *out);
