/* SPDX-License-Identifier: MIT */
/*
 * Run: what `run` and `verify` know of their cases, and how a case goes through gate and training
 * to its row.
 *
 * Cases take turns in groups of at most LS_GROUP_CASES, in the order of the request, the baselines
 * of a group behind it; when all of a group are done their rows are committed and printed in order.
 */
#pragma once

#include "bench/gate/gate.h"
#include "bench/output/format_parts.h"
#include "bench/output/results_db.h"
#include "bench/output/row_columns.h"
#include "bench/progress/progress.h"
#include "bench/row/noise.h"
#include "bench/row/row.h"
#include "bench/train/waterfall.h"

#include <jansson.h>

enum { LS_GROUP_CASES = 8 };

/** A case and how far it has come. */
typedef struct case_run {
    ls_plan_of_case plan;
    ls_gate gate;
    ls_trial trial;
    bool gated, trained;    /* the gate ran; the trial is open */
    ls_noise_reading quiet; /* when it was opened */
    bool measured;          /* it has had its last block */
    bool ended;             /* its row is made */
    json_t *row;            /* until it is committed; NULL: none */
    bool interrupted;       /* what the row is of */
    bool asked;             /* by the request; else it is a baseline that was added */
    size_t group;           /* number of those that take turns with it */
    size_t baseline;        /* case whose step this one's is compared with; SIZE_MAX: none */
    double ms_per_sample;   /* median step over its samples; 0: not known */
    double parts_per_sample[LS_WATERFALL_PARTS]; /* of the mean step, over its samples */
    bool has_parts;                              /* they are known */
    ls_status error;                             /* why it could not run */
} case_run;

/** The command. */
typedef struct command_run {
    const ls_request *request;
    ls_workplace place;
    ls_case *configs; /* the request's cases, and behind each group of them its baselines */
    case_run *cases;  /* [count] */
    size_t count;
    ls_results *results; /* NULL: none */
    ls_writer *writer;
    ls_chosen chosen; /* of --columns */
    const ls_processes *processes;
    char lost[512];    /* how the processes lost each other; "": they have not */
    char over[512];    /* why no further case can run; "": they can */
    ls_code code;      /* worst so far */
    ls_status unsaved; /* first row that could not be committed or printed */
} command_run;

/** A worse exit status replaces the one so far. */
void ls_run_worsen(command_run *run, ls_code code);

/** Whether another rank runs the case, which is for one alone: the baseline's. */
bool ls_run_is_elsewhere(const command_run *run, const case_run *c);

/** Whether a session was left with a device that it has lost. */
bool ls_run_is_left(const command_run *run);

/** The case's error is what all its ranks have to say of this part of it. */
void ls_run_settle(command_run *run, case_run *c, ls_status status);

/** What is expected of the case, for the progress; again, where `step_s` above 0 was measured. */
void ls_run_expect(command_run *run, const case_run *c, double step_s);

/** About what the case takes after its last block, in seconds. */
double ls_run_evaluation_s(const command_run *run, const case_run *c);

/** From here on the case is in this phase. */
void ls_run_enter(command_run *run, const case_run *c, ls_phase phase);

/** The check. The case ends here where nothing is to be trained. */
void ls_run_gate(command_run *run, case_run *c);

/** Opens the case and trains its warm-up; it ends where that cannot be done. */
void ls_run_open(command_run *run, case_run *c);

/** What the steps of others are compared with. */
void ls_run_note_median(case_run *c);

/** The end of a case: accuracy, digest, saved parameters, row. Frees its devices. */
void ls_run_end(command_run *run, case_run *c);

/** Commits the rows of the group in the order of the cases and prints them: as far as they are
 * made, or at its end (`all`) every one. */
void ls_run_commit(command_run *run, size_t group, bool all);

/* ---- In place of training ------------------------------------------------------------------- */

/** `run --print-step`: opens the case, prints what each of its processes does in a step, in order
 *  of ranks, to standard output, and closes it. By all processes of the case. */
ls_status ls_print_step(const ls_workplace *place, const ls_plan_of_case *plan);

/** `trace` refuses more than one case, and a file that cannot be written: before any training. */
ls_status ls_trace_check(const ls_request *request, bool leads);

/** The case's warm-up, then --trace-steps steps as they go without a trace, then the same traced.
 * All ranks of the case call it; rank 0 writes --out. */
ls_status ls_trace_case(const ls_workplace *place, const ls_plan_of_case *plan);
