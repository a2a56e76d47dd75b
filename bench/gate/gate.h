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
    bool checked;      /**< not compared; of `steps` steps what else must hold */
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

/** How far two sides are apart, for a message: " (relative difference 0.31, allowed 0.02)". */
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

/** `single` is the reference; for several replicas in fast mode the oracle judges, and alone where
 * they update alone. */
enum { LS_CANDIDATE, LS_ORACLE, LS_SINGLE, LS_SIDES };

/** The candidate and its judges (gate.c). */
typedef struct ls_comparison {
    ls_workplace *workplace;
    const ls_plan_of_case *plan;
    const ls_variables *variables;
    ls_comm *comm;            /**< of the processes */
    bool judges;              /**< true on rank 0 */
    bool library;             /**< a library computes the candidate's sums, or means */
    bool alone;               /**< replicas update alone */
    bool changes;             /**< the steps compared are those around a change of members */
    float *given;             /**< [elements] the candidate's reduced gradient */
    ls_session run[LS_SIDES]; /**< zero-filled if not open, as judges in other processes */
    /* NULL where neither a judge is, nor replicas update alone: */
    float *own[LS_SIDES];          /**< [elements] parameters of each; of replica 0 if alone */
    const float *values[LS_SIDES]; /**< [elements] parameters that each has reached */
    float *other;                  /**< [elements] for values of a replica, or of a state's array */
    float *whole;                  /**< [elements] the first gradient of the batch in one piece */
    float *at_once;                /**< [elements] candidate's, after steps enqueued by one call */
    ls_session_found found;        /**< in the candidate after the latest step, unless alone */
    double loss[LS_SIDES], whole_loss;
    /* Hashes of parameters of replicas that update alone: */
    uint64_t *hashes;   /**< [devices] this process's, after the latest step */
    uint64_t *all;      /**< [all devices] all processes' */
    uint64_t *stepwise; /**< [all devices] after the last of successive steps */
} ls_comparison;

/** Runs and compares a step on all ranks, and shares the outcome with all. */
ls_status ls_gate_compare_step(ls_comparison *c, uint64_t step, ls_gate *gate);
/** As above, from the initial parameters: a kind of step that the first ones do not include. */
ls_status ls_gate_compare_at(ls_comparison *c, uint64_t step, ls_gate *gate);
/** What the steps leave besides parameters: optimizer state and averages. Not of a library's sums,
 * which leave other bits. */
ls_status ls_gate_compare_state(ls_comparison *c, ls_gate *gate);

/* What the gate checks besides the results of steps (gate_sides.c): their order, and evaluation. */

/** Candidate and oracle go on with other members where that is due (bench/train/change.h); the new
 * steps are checked. */
ls_status ls_gate_switch_members(ls_comparison *c, ls_gate *gate);

/** Compares the steps before and after each change of members that is due behind the first `steps`,
 * from the initial values. */
ls_status ls_gate_check_changes(ls_comparison *c, uint64_t steps, ls_gate *gate);

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

/* Replicas that update alone (gate_alone.c). All ranks call the functions. */

/** Whether all replicas are on devices of one kind: others do not have the same bits. */
ls_status ls_gate_are_alike(const ls_plan_of_case *plan, bool *out);

/** The parts of ls_gate_compare_step: hashes the candidate's replicas, and gives all ranks the
 * hashes of all; compares them and the loss with the oracle's, where it is; and with each other,
 * what they have exchanged. */
ls_status ls_gate_hash_replicas(ls_comparison *c, uint64_t step, ls_gate *gate);
ls_status ls_gate_judge_replicas(ls_comparison *c, uint64_t step, ls_gate *gate);
ls_status ls_gate_judge_exchange(ls_comparison *c, uint64_t step, ls_gate *gate);

/** What is compared after the first `steps` steps. */
ls_status ls_gate_compare_replicas(ls_comparison *c, uint64_t steps, ls_gate *gate);

/** As ls_gate_run, for servers in order of arrival: checks for `steps` steps from
 * the initial values what must hold for any order. All ranks call it. */
ls_status ls_gate_arrival(ls_workplace *workplace, const ls_plan_of_case *plan, uint64_t steps,
                          ls_gate *gate);

/**
 * Evaluates the candidate and its judge, if any, which have the same parameters, on some samples of
 * the test set: what the model makes of them must have the same bits. After the last compared step.
 * All ranks call it.
 */
ls_status ls_gate_evaluation(ls_comparison *c, ls_gate *gate);

/** The kernels of the case against plain C's (gate_kernels.c). Rank 0 compares; all ranks call it,
 *  after their candidate is closed. */
ls_status ls_gate_kernels(ls_workplace *workplace, const ls_plan_of_case *plan, ls_gate *gate);

/** Frees what is known of them. */
void ls_gate_kernels_close(ls_workplace *workplace);

/* ---- The first samples of the first batch as a separate data set (first_samples.c) ----------- */

typedef struct ls_first_samples {
    ls_data data;
    float *initial; /**< [elements] of the plan; lifted, in separate memory */
    bool lifted;    /**< some samples or variables were lifted */
} ls_first_samples;

/**
 * Copies `count` samples. `lift`: multiplies each sample, or target, whose largest magnitude is
 * below 2^-100 and not 0 by the power of two that brings it to 1/2 or more; and scales each
 * variable of the initial values in the same way. 2^-100: gradients divided by the batch, which
 * products are made with, are often below 2^-20. Close also on failure.
 */
ls_status ls_first_samples_open(const ls_plan_of_case *plan, size_t count, bool lift,
                                ls_first_samples *out);
void ls_first_samples_close(ls_first_samples *samples);

/** The plan, to train on the samples in their order: one batch. Borrows both. */
ls_plan_of_case ls_first_samples_plan(const ls_plan_of_case *plan, const ls_first_samples *samples);

/** Opens the oracle of the plan's strategy: a ls_session_opener. */
ls_status ls_gate_open_oracle(const ls_plan_of_case *plan, const ls_job *job, ls_run **out);

/** The first gradient [elements] and loss of the whole batch in one piece, by `single`. */
ls_status ls_gate_whole(const ls_workplace *workplace, const ls_plan_of_case *plan, float *gradient,
                        double *loss);

/** If samples or variables can be lifted, or were rounded to bfloat16: how far their first
 * gradient, in float32, summed over slices (shards, in exact mode), is from the gradient of the
 * whole batch in one piece, with what may have been flushed allowed for. Otherwise *rel stays. */
ls_status ls_gate_first_again(const ls_workplace *workplace, const ls_plan_of_case *plan,
                              double *rel);

/** How many values of a pass with `rows` samples may have been flushed: its products, forward and
 * backward. */
double ls_gate_products(const ls_plan_of_case *plan, int64_t rows);
