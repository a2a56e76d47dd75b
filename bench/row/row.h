/* SPDX-License-Identifier: MIT */
/* Row: a case's figures as one JSON object (bench/rows/row.h). What does not apply is absent. */
#pragma once

#include "bench/gate/gate.h"
#include "bench/row/roof.h"
#include "bench/train/trial/trial.h"

#include <jansson.h>

/** What a row is made of; borrowed. `trial` is NULL where the case never trained. */
typedef struct ls_row_facts {
    const ls_workplace *workplace;
    const ls_plan_of_case *plan;
    const ls_gate *gate; /**< NULL if never got there */
    const ls_trial *trial;
    const ls_verdict *verdict; /**< of the trial's checks, and the command's */
    ls_statistics steps;       /**< of the trial's timed steps, where it has some */
    double ci95[2];            /**< of their median; NaN if there is none */
    ls_sample_ms pace;
    double rate, rate_ci95[2]; /**< samples per second over all of them; NaN without an interval */
    const char *error;         /**< why the case could not run; NULL if it could */
    ls_sample_ms baseline;     /**< of `single` on one like device; 0 if none */
    const double *baseline_parts; /**< [LS_WATERFALL_PARTS] of its step, per sample; NULL if none */
    double roof_flops;            /**< 0 if not known */
    double harness_ns;            /**< of a step; 0 if not known */
    double exact_cost;            /**< exact mode's median step over fast mode's; 0 if not known */
    bool unfinished;              /**< interrupted after the gate, before the first step */
    size_t group, groups;         /**< the command's cases took turns in so many groups; its own */
    bool shared;                  /**< other cases ran in the same process, too */
} ls_row_facts;

/** A new row with an id, its time and what it was made by; owned by the caller (json_decref).
 * LS_CODE_MISSING where the system gives no time or no random bits. `label` may be NULL or "". */
ls_status ls_row_begin(const char *command, const char *label, json_t **out);

/** A new row, owned by the caller (json_decref). */
ls_status ls_row_build(const ls_row_facts *facts, json_t **out);

/** Sets the group `case`: what distinguishes the case from others. */
void ls_row_put_case(const ls_row_facts *facts, json_t *row);

/** Sets what training reached: `exchange`, `train`, `checkpoint`, `elastic` (row_train.c). */
void ls_row_put_trained(const ls_row_facts *facts, json_t *row);

/** The group `case` alone; owned by the caller. */
json_t *ls_row_case(const ls_row_facts *facts);

/** Sets the group of a pipeline: the idle share of the stages (bench/train/trial/profile.h),
 * measured, by the schedule from their measured times, and for equal stages (p - 1) / (m + p - 1);
 * and how unequal they are. Nothing if none was measured. */
void ls_row_put_pipeline(json_t *row, const ls_job *job, const ls_bubble *bubble);

/** Sets what a step sent, and what it should have. */
void ls_row_put_traffic(json_t *row, const ls_traffic *sent, const ls_traffic *formula);

/** Adds a device's memory to the row, and what it should be; returns the new element, borrowed. */
json_t *ls_row_add_memory(json_t *row, const char *device, const ls_memory_ledger *ledger,
                          const size_t formula[LS_MEMORY_USES]);

/** Sets the group `memory` of a trial's row. */
void ls_row_put_memory(const ls_row_facts *facts, json_t *row);

/** The rate of each whole device in the tenth percentile of the steps, in the model's FLOPs per
 * second. 0 if an algorithm may do fewer operations than are counted (Winograd's, or a library's
 * choice), since the rate then says nothing about the roof. */
ls_reached ls_row_reached(const ls_row_facts *facts);

/** Sets result.notes, where there is something to say about the times; called by ls_row_build. */
void ls_row_note(const ls_row_facts *facts, json_t *row);

/** Sets the group `noise`, of a trial's row. */
void ls_row_put_noise(const ls_row_facts *facts, json_t *row);

/** Adds the warnings that follow from the row's figures (see bench/row.schema.json), and the note
 * on noise. Call it after the rows of several ranks have been joined. */
void ls_row_add_warnings(json_t *row);

/** Marks a row if something that belongs to it, as a trace, could not be stored: status "error"
 * with this reason. Its figures stay. */
void ls_row_mark_error(json_t *row, const char *reason);

/** The exit status that the row's status asks for: ok, failed a check, interrupted, or could not
 * run. */
ls_code ls_row_code(const json_t *row);

/**
 * Joins the rows that the ranks built for their own devices; all call it. Rank 0's row gets the
 * other ranks' devices after its own, in the order of ranks, with each rank's host and cores, and
 * whether any cores are shared. What of the environment, or of oneDNN's instruction set, differs
 * between ranks is said with the ranks: "1 (ranks 0-2), unset (ranks 3)".
 */
ls_status ls_row_join(const ls_processes *processes, json_t *row);

/** As above, for rows that this process has (an array): joins them into the first one by the table
 * of fields (ls_join). `hosts`: of each row; NULL if they are not known: then nothing is said of
 * hosts, nor of cores that ranks share. */
ls_status ls_rows_join(const json_t *rows, const json_t *hosts);

/* ---- Findings: properties of a series of times that a median and its interval hide ----------- */

/**
 * Drift: of the medians [n] of blocks, in order of time, the mean of the last third differs by more
 * than 3% from the mean of the first third (*change: their ratio minus 1), and such a trend occurs
 * by chance in at most 0.3% (Mann, "Nonparametric tests against trend", Econometrica 13, 1945).
 * False for n below 8.
 */
bool ls_find_drift(const double *medians, size_t n, double *change);

/**
 * Two modes: the sorted times [n], without the outermost 1%, are split where the variance within
 * the parts is least. True if that is at most 12% of the total variance (normal: 36%, uniform:
 * 25%), each part has at least 10% of the times, and their means differ by more than 10%. Sets the
 * means, and the share of the slower part. False for n below 20.
 */
bool ls_find_modes(const double *sorted, size_t n, double means[2], double *slower);

/** Autocorrelation: the correlation of neighbouring `medians` [n], *by, is over 0.5, and over 2.5 /
 * sqrt(n), which occurs by chance in 1%. False for n below 8. */
bool ls_find_autocorrelation(const double *medians, size_t n, double *by);
