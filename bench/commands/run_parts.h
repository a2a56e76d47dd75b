/* SPDX-License-Identifier: MIT */
/*
 * Run: the state of `run` and `verify`, and the steps of a case from gate through training to its
 * row. Cases take turns in groups of at most LS_GROUP_CASES, in the order of the request, each
 * group followed by its baselines. When a group is done, its rows are committed and printed in
 * order.
 */
#pragma once

#include "bench/gate/gate.h"
#include "bench/output/format.h"
#include "bench/output/results_db.h"
#include "bench/output/row_keys.h"
#include "bench/progress/progress.h"
#include "bench/row/row.h"
#include "bench/train/session.h"

#include <jansson.h>

enum { LS_GROUP_CASES = 8 };

/** A case and its state. */
typedef struct case_run {
    ls_plan_of_case plan;
    ls_gate gate;
    ls_trial trial;
    bool gated, trained; /* the gate ran; the trial is open */
    bool measured;       /* it has had its last block */
    bool ended;          /* its row is made */
    json_t *row;         /* until it is committed; else NULL */
    bool interrupted;    /* the case was interrupted */
    bool asked;          /* the request has it; else it is a baseline that was added */
    size_t group;        /* number of its group */
    size_t baseline;     /* case that its speed-up is relative to; SIZE_MAX if none */
    ls_verdict verdict;  /* of the trial's checks, then of the checks between runs and ranks */
    ls_sample_ms per_sample;
    double parts_per_sample[LS_WATERFALL_PARTS]; /* parts of the mean step, per sample */
    bool has_parts;                              /* they are known */
    ls_status error;                             /* why it could not run */
    ls_status unsaved; /* why a file of it, as of --save, could not be written */
} case_run;

/** The state of the command. */
typedef struct command_run {
    const ls_request *request;
    ls_workplace workplace;
    ls_case *configs; /* the request's cases, and behind each group of them its baselines */
    case_run *cases;  /* [count] */
    size_t count, groups;
    size_t finished, parts; /* rows that are kept; how many of them are interrupted */
    ls_results *results;    /* NULL if none */
    ls_writer *writer;
    ls_chosen chosen; /* of --columns */
    const ls_processes *processes;
    char lost[512];    /* how the processes lost each other; "" if they did not */
    char over[512];    /* why no further case can run; "" if they can */
    ls_code code;      /* worst so far */
    ls_status unsaved; /* first row that could not be committed or printed */
} command_run;

/** A worse exit status replaces the one so far. */
void ls_run_raise_code(command_run *run, ls_code code);

/** Whether the case is a baseline for one process, and another rank runs it. */
bool ls_run_is_of_other_rank(const command_run *run, const case_run *c);

/** Whether a session could not be closed, having lost a device. */
bool ls_run_is_left(const command_run *run);

/** Agrees on `status` with the case's ranks, and makes the outcome the case's error. */
void ls_run_agree(command_run *run, case_run *c, ls_status status);

/** Tells the progress how long the case will take; again with `step_s` above 0 once that is
 * measured. */
void ls_run_expect(command_run *run, const case_run *c, double step_s);

/** Tells the progress that the case enters this phase. */
void ls_run_enter(command_run *run, const case_run *c, ls_phase phase);

/** Runs the gate. The case ends here where nothing is to be trained. */
void ls_run_gate(command_run *run, case_run *c);

/** Opens the case's trial and trains its warm-up; the case ends where that fails. */
void ls_run_open(command_run *run, case_run *c);

/** Notes the time per sample, which other cases may be compared with. */
void ls_run_note_pace(case_run *c);

/** The end of a case: accuracy, digest, saved parameters, row. Frees its devices. */
void ls_run_end(command_run *run, case_run *c);

/** Commits the group's rows and prints them, in the order of the cases: rows that are made, or
 * at the group's end (`all`) every row. */
void ls_run_commit(command_run *run, size_t group, bool all);

/* ---- In place of training ------------------------------------------------------------------- */

/** `run --print-step`: opens the case, prints what each of its processes does in a step, in order
 *  of ranks, to standard output, and closes it. By all processes of the case. */
ls_status ls_print_step(ls_workplace *workplace, ls_plan_of_case *plan);

/** `trace` refuses more than one case, and a file that cannot be written: before any training. */
ls_status ls_trace_check(const ls_request *request, bool leads);

/** Trains the case's warm-up, then --trace-steps steps without a trace, then as many with one. All
 * ranks of the case call it; rank 0 writes --out. */
ls_status ls_trace_case(ls_workplace *workplace, const ls_plan_of_case *plan);
