/* SPDX-License-Identifier: MIT */
/*
 * Gate: checks that a case computes what it should, in a separate pass before anything is timed.
 * Candidate and judges start from the same values on their own devices; after each step losses and
 * parameters are compared. compared.md has the rules.
 */
#pragma once

#include "bench/train/session.h"

#include <jansson.h>

typedef struct ls_gate {
    const char *grade; /**< "exact", "bounded" or "none" */
    bool compared;     /**< false if `oracle` has the reason */
    bool checked;      /**< not compared; of `steps` steps what else must hold (gate_arrival.c,
                            gate_alone.c) */
    bool replayed;     /**< checked by a replay of the strategy's own definition */
    bool pass;
    bool interrupted; /**< before all steps were compared */
    uint64_t steps;   /**< how many were compared */
    uint32_t max_ulp; /**< of parameters against `single`, over all compared steps */
    double max_rel;
    double loss_first, loss_last; /**< of the compared steps */
    double step_s;                /**< of the steps enqueued by one call; 0 if none were */
    double bound; /**< on the first step's gradient against `single`; 0 means bits are compared */
    double gradient_rel;  /**< its value; NaN if not compared */
    uint64_t exchanges;   /**< compared ones, after which all replicas must be equal */
    bool replicas_differ; /**< after one they were not */
    double library_rel;   /**< largest distance of a library's sum; NaN if none was compared */
    double kernels_rel; /**< of the first gradients against plain C kernels; NaN if not compared */
    double precision_rel;       /**< with bf16: of the first gradients against unrounded ones, if
                                     kernels_compared */
    bool copies;                /**< stored in bfloat16: were compared with their masters */
    char kernels_compared[160]; /**< with what; "" */
    char digest[33];            /**< of the candidate after the last compared step */
    char reference_digest[33];  /**< of `single`; "" unless all steps were compared */
    char oracle[256];           /**< "same bits", or what differed first */
    char
        diverged[LS_REASON_SIZE]; /**< where the candidate stopped being finite; "" means nowhere */
    json_t *kernels;              /**< of the candidate's step; NULL if nothing was compared */
    float *parameters;            /**< of the candidate after the last step, where verify saves
                                       them; or NULL */
} ls_gate;

/** A failed comparison is not a failure of this function: look at out->pass. */
ls_status ls_gate_run(ls_workplace *workplace, const ls_plan_of_case *plan, ls_gate *out);

/** Frees what a gate holds; a zero-filled one holds nothing. */
void ls_gate_close(ls_gate *gate);

/* ---- Bounds --------------------------------------------------------------------------------- */

/** Bound of the first loss, which differs by rounding only, far less than the effect of losing one
 * sample of thousands. */
static const double ls_gate_loss_bound = 1e-4;
/** Share of the gate's time that is spent comparing step by step. */
static const double ls_gate_alone_share = 0.8;
/** Steps enqueued at once in the second pass: few, so that an interrupt takes effect soon. */
enum { LS_GATE_AT_ONCE = 32 };

/* ---- Parts of it ---------------------------------------------------------------------------- */

/** Copies the candidate's parameters to rank 0 if the request is to verify and save them. All
 * processes call it. */
ls_status ls_gate_keep(const ls_workplace *workplace, ls_session *candidate, ls_gate *gate);

/** The gate does not pass, and why: what differed first. */
void ls_gate_wrong(ls_gate *gate, const char *why, ...) __attribute__((format(printf, 2, 3)));

/** The judge in a message: the oracle, or `single`. */
const char *ls_gate_judge_name(bool oracle);

enum { LS_GATE_BY = 64 };

/** How far two sides are apart, for a message: "by 0.31 relative, bound 0.02". */
const char *ls_gate_difference(double rel, double bound, char text[LS_GATE_BY]);

/** Judges a library's sums of a step, in any order, by how far they are from the judge's. */
void ls_gate_library(uint64_t step, double rel, const char *differs, ls_gate *gate);

/** A step's loss against the whole batch's in one piece, which differs by rounding only. */
void ls_gate_whole_loss(const ls_plan_of_case *plan, uint64_t step, double loss, double whole,
                        ls_gate *gate);

/** Agrees on the verdict: one rank's failure fails all, with its reason. */
ls_status ls_gate_agree(ls_comm *comm, ls_gate *gate);

/** Where parameters are stored in bfloat16: that after step `step` the copy on this process's
 * device number `device` has the bits of the rounded masters, of a block of them. `other` has as
 * much room. What differs is said behind ls_gate_copies_differ. After sync. */
ls_status ls_gate_copies_of(const ls_session *candidate, int device, ls_range block,
                            const float *masters, float *other, uint64_t step, ls_gate *gate);
/** As above, for all devices that have the candidate's parameters. All processes call it. */
ls_status ls_gate_copies(ls_session *candidate, uint64_t step, ls_gate *gate);
extern const char ls_gate_copies_differ[];

/** What a full step sent, against the formula; without one, nothing. All ranks call it. */
ls_status ls_gate_traffic(const ls_run *run, ls_gate *gate);

/* What the gate checks besides the results of steps (gate_sides.c): their order, and evaluation. */

/** The candidate and its judge, in this process. Borrowed. */
typedef struct ls_gate_sides {
    const ls_workplace *workplace;
    ls_session *candidate;
    ls_session *oracle; /**< NULL means `single` judges, or this process does not */
    ls_session *single; /**< NULL means the oracle alone judges, or this process does not */
} ls_gate_sides;

/** Candidate and oracle go on with other members where that is due (bench/train/change.h); the new
 * steps are checked. */
ls_status ls_gate_switch_members(const ls_gate_sides *sides, ls_gate *gate);

/** Compares the steps before and after each change of members that is due behind the first `steps`,
 * from the initial values (gate_changes.c). */
ls_status ls_gate_check_changes(const ls_workplace *workplace, const ls_plan_of_case *plan,
                                uint64_t steps, const ls_gate_sides *sides, ls_gate *gate);

/** Enqueues the session's steps up to `steps`, at most `most` by one call, so that an interrupt is
 * answered between; `done` is the progress before them. All ranks call it. */
ls_status ls_gate_put(const ls_workplace *workplace, ls_session *session, uint64_t steps,
                      uint64_t most, double done, ls_gate *gate);

/** Checks the candidate's tasks (impl/step/run/run.h). Before any of them runs: tasks that nothing
 * orders may wait for each other for ever. All ranks call it. */
ls_status ls_gate_step(const ls_session *candidate, ls_gate *gate);

/** Checks the learning rate of the next step, number `step`, on this process's devices against the
 * schedule. After sync. */
ls_status ls_gate_rate(const ls_session *candidate, uint64_t step, ls_gate *gate);

/** Checks that each element of the model has exactly one owner, who updates it once in a step. All
 * ranks call it. */
ls_status ls_gate_owners(const ls_session *candidate, ls_gate *gate);

/** ls_gate_step for a strategy whose replicas update alone, and its first `steps` steps against
 * their replay (gate_alone.c). All ranks call it. */
ls_status ls_gate_alone(ls_workplace *workplace, const ls_plan_of_case *plan, uint64_t steps,
                        ls_gate *gate);

/** As ls_gate_run, for servers in order of arrival (gate_arrival.c): checks for `steps` steps from
 * the initial values what must hold for any order. All ranks call it. */
ls_status ls_gate_arrival(ls_workplace *workplace, const ls_plan_of_case *plan, uint64_t steps,
                          ls_gate *gate);

/**
 * Evaluates candidate and judge, which have the same parameters, on some samples of the test set:
 * what the model makes of them must have the same bits. After the last compared step. All ranks
 * call it.
 */
ls_status ls_gate_evaluation(const ls_gate_sides *sides, ls_gate *gate);

/** The kernels of the case against plain C's (gate_kernels.c). Rank 0 compares; all ranks call it,
 *  after their candidate is closed. */
ls_status ls_gate_kernels(ls_workplace *workplace, const ls_plan_of_case *plan, ls_gate *gate);

/** Frees what is known of them. */
void ls_gate_kernels_close(ls_workplace *workplace);
