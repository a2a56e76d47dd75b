/* SPDX-License-Identifier: MIT */
/*
 * `lockstep run` and `lockstep verify`.
 *
 * All cases are resolved first, so that every refusal comes before any training. Then each case is
 * gated; those that pass are opened, warmed up, and trained in blocks that take turns in a random
 * order, so that a drift of the machine favours none. A row is committed to the results file, then
 * printed, when its case ends.
 */
#include "bench/command.h"
#include "bench/exact_cost.h"
#include "bench/format_parts.h"
#include "bench/gate.h"
#include "bench/gate_kernels.h"
#include "bench/interrupt.h"
#include "bench/print_step.h"
#include "bench/reference.h"
#include "bench/results_db.h"
#include "bench/roof.h"
#include "bench/row.h"
#include "bench/row_ranks.h"
#include "bench/statistics.h"
#include "bench/team.h"

#include "common/base/digest.h"
#include "common/base/philox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct case_run {
    ls_plan_of_case plan;
    ls_gate gate;
    ls_trial trial;
    bool gated, trained;  /* the gate ran; the trial is open */
    bool ended;           /* it has its row */
    size_t baseline;      /* case whose step this one's is compared with; its own number: none */
    double ms_per_sample; /* median step over its samples; 0: not known */
    ls_status error;      /* why it could not run */
} case_run;

typedef struct command_run {
    const ls_request *request;
    ls_workplace place;
    ls_case *configs; /* the request's cases, then baselines that were not among them */
    case_run *cases;
    size_t count;
    ls_results *results; /* NULL: none */
    ls_writer *writer;
    const ls_processes *processes;
    char lost[512];    /* how the processes lost each other; "": they have not */
    char over[512];    /* why no further case can run; "": they can */
    ls_code code;      /* worst so far */
    ls_status unsaved; /* first row that could not be committed or printed */
} command_run;

static void worsen(command_run *run, ls_code code)
{
    /* 130 beats 1 beats 3 beats 0. */
    static const ls_code order[] = {LS_CODE_INTERRUPTED, LS_CODE_CHECK, LS_CODE_MISSING};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        if (run->code == order[i])
            return;
        if (code == order[i]) {
            run->code = code;
            return;
        }
    }
}

/* ---- Ranks ---------------------------------------------------------------------------------- */

/* Whether another rank runs the case, which is for one alone: the baseline's. */
static bool is_elsewhere(const command_run *run, const case_run *c)
{
    return !c->plan.job.comm && run->processes->rank > 0;
}

/* Whether a session was left with a device that it has lost. */
static bool is_left(const command_run *run)
{
    return run->place.left && *run->place.left;
}

/* The case's error is what all its ranks have to say of this part of it. */
static void settle(command_run *run, case_run *c, ls_status status)
{
    c->error = ls_team_agree(c->plan.job.comm, status);
    if (c->error && ls_processes_lost(run->processes) && !*run->lost)
        snprintf(run->lost, sizeof run->lost, "%s", ls_status_text(c->error));
    if (ls_status_is_final(c->error) && !*run->over)
        snprintf(run->over, sizeof run->over, "%s", ls_status_text(c->error));
}

/* All ranks see an interrupt at the same place. A device that fell over ends the sweep, too. */
static bool is_interrupted(const command_run *run)
{
    uint64_t number = 0;
    bool stop = ls_interrupted() || *run->over;
    ls_status_free(ls_team_turn(run->processes->comm, LS_OK, &number, &stop));
    return stop;
}

/* ---- Rows ----------------------------------------------------------------------------------- */

static ls_status emit(command_run *run, case_run *c)
{
    ls_row_facts facts = {.place = &run->place,
                          .plan = &c->plan,
                          .gate = c->gated ? &c->gate : NULL,
                          .trial = c->trained ? &c->trial : NULL,
                          .error = c->error ? ls_status_text(c->error) : NULL,
                          .baseline_ms = run->cases[c->baseline].ms_per_sample};
    facts.shared = run->count > 1;
    json_t *row;
    if (c->trained && c->trial.timed_done && !c->trial.failed && !c->error) {
        ls_device *device = c->trial.session.devices[0];
        /* A row is not lost for what stands beside it: without a roof it has no mfu. */
        if (ls_session_leads(&c->trial.session)) {
            ls_workplace_busy(&run->place, true);
            ls_status_free(ls_harness_cost(device, &facts.harness_ns));
            ls_status_free(ls_roof_get(run->place.machine, device, c->plan.job.math,
                                       ls_row_reached(&facts), &facts.roof_flops));
            ls_workplace_busy(&run->place, false);
        }
        if (c->plan.job.exact && !c->trial.interrupted)
            ls_status_free(ls_exact_cost(&run->place, &c->trial, &facts.exact_cost));
    }
    if (facts.harness_ns > 0)
        ls_log_line(&run->request->log, LS_LOG_VERBOSE,
                    "the harness takes %.0f ns of a step (a clock reading and a record)",
                    facts.harness_ns);
    ls_status built = ls_row_build(&facts, &row);
    if (c->plan.job.comm) /* ranks that have lost each other: rank 0's part is kept */
        ls_status_free(ls_row_join(run->processes, built ? NULL : row));
    LS_TRY(built);
    ls_workplace_busy(&run->place, true);
    ls_status saved = run->results ? ls_results_append(run->results, row) : LS_OK;
    ls_workplace_busy(&run->place, false);
    if (saved)
        ls_row_mark_error(row, ls_status_text(saved));
    worsen(run, c->trained && c->trial.interrupted ? LS_CODE_INTERRUPTED : ls_row_code(row));
    ls_status printed = ls_writer_row(run->writer, row); /* also where it could not be saved */
    json_decref(row);
    return ls_status_first(saved, printed);
}

static bool same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/* Where the gate compared every step, the timed run must end where the checked one did; but for a
 * library's sums, which may not repeat. The first loss is known before any sum. */
static void compare_digests(case_run *c)
{
    const ls_job *job = &c->plan.job;
    const bool repeats = !c->plan.strategy->reduces || job->exact || job->allreduce->oracle;
    const char *differs = NULL;
    if (c->trial.interrupted || c->trial.failed || !c->gate.compared || !c->gate.steps)
        return;
    if (!same_bits(c->trial.loss_first, c->gate.loss_first))
        differs = "began with another loss";
    else if (repeats && *c->gate.reference_digest && strcmp(c->trial.digest, c->gate.digest) != 0)
        differs = "ended with other parameters";
    else if (repeats && *c->gate.reference_digest &&
             !same_bits(c->trial.loss_last, c->gate.loss_last))
        differs = "ended with another loss";
    if (!differs)
        return;
    c->trial.failed = true;
    snprintf(c->trial.reason, sizeof c->trial.reason, "the timed run %s than the checked one",
             differs);
}

/* Replicas that are kept equal must be so on every rank. */
static ls_status compare_ranks(case_run *c)
{
    int other;
    const char *digest = c->trial.digest;
    if (!c->plan.strategy->equivalent)
        return LS_OK;
    LS_TRY(ls_team_differs(c->plan.job.comm, ls_hash64(digest, strlen(digest)), &other));
    if (other < 0 || c->trial.failed)
        return LS_OK;
    c->trial.failed = true;
    snprintf(c->trial.reason, sizeof c->trial.reason,
             "rank %d ended with other parameters than rank 0", other);
    return LS_OK;
}

static void note_median(case_run *c)
{
    ls_statistics s;
    if (!c->trained || c->error || c->trial.failed || !c->trial.timed_done)
        return;
    ls_statistics_compute(c->trial.step_ms, c->trial.samples, &s);
    c->ms_per_sample = s.median / (double)c->plan.job.batch;
}

/* A case that was under way when a device fell over. */
static void give_up(command_run *run, case_run *c)
{
    if (*run->over && c->trained && !c->error)
        c->error = ls_fail(LS_CODE_MISSING, "run", "not finished", "in another case %s", run->over);
}

/* Of a case that was asked for: a baseline that was added is not what the user saves. verify has
 * what the gate reached. */
static ls_status save_parameters(command_run *run, const case_run *c)
{
    const bool asked = (size_t)(c - run->cases) < run->request->case_count;
    const float *values = c->trained ? c->trial.parameters : c->gate.parameters;
    if (!run->request->save || !asked || !c->gate.pass || *c->gate.diverged || c->trial.failed ||
        run->processes->rank > 0)
        return LS_OK;
    if (!values)
        return ls_fail(LS_CODE_MISSING, "option", "--save",
                       "verify compares nothing of %s, and so trains nothing; run works",
                       c->plan.strategy->name);
    ls_workplace_busy(&run->place, true);
    ls_status status =
        ls_variables_save(&c->plan.model->graph->variables, run->request->save, values);
    ls_workplace_busy(&run->place, false);
    return status;
}

/* The end of a case: accuracy, digest, saved parameters, row. Frees its devices. */
static void end_case(command_run *run, case_run *c)
{
    if (c->trained && !c->error) {
        settle(run, c, ls_trial_finish(&c->trial));
        if (!c->error)
            settle(run, c, compare_ranks(c));
        if (c->trial.interrupted)
            snprintf(c->trial.reason, sizeof c->trial.reason,
                     "interrupted after %llu of %lld steps; the figures are of those",
                     (unsigned long long)c->trial.session.step,
                     (long long)(c->plan.warmup + c->plan.timed));
    }
    if (!c->error && run->request->save && !is_elsewhere(run, c)) /* all hear whether it could be */
        settle(run, c, save_parameters(run, c));
    if (c->trained && !c->error && c->gated) {
        compare_digests(c);
        uint64_t failed = c->trial.failed; /* rank 0 has the reference's */
        bool stop = false;
        settle(run, c, ls_team_turn(c->plan.job.comm, LS_OK, &failed, &stop));
        c->trial.failed = failed;
    }
    if (!is_elsewhere(run, c))
        run->unsaved = ls_status_first(run->unsaved, emit(run, c));
    c->ended = true;
    if (c->trained)
        ls_trial_close(&c->trial);
    c->trained = false;
    if (is_left(run) && !*run->over) { /* beside the row, which is good */
        snprintf(run->over, sizeof run->over, "a device was lost after the last step");
        worsen(run, LS_CODE_MISSING);
    }
}

/* ---- Cases ---------------------------------------------------------------------------------- */

static void gate_case(command_run *run, case_run *c)
{
    if (is_elsewhere(run, c))
        return;
    settle(run, c, ls_gate_run(&run->place, &c->plan, &c->gate));
    c->gated = !c->error;
    if (c->gate.interrupted)
        return;
    if (c->error || !c->gate.pass || run->request->verify)
        end_case(run, c);
}

static void open_case(command_run *run, case_run *c)
{
    if (is_elsewhere(run, c))
        return;
    ls_status status = ls_trial_open(&run->place, &c->plan, &c->trial);
    c->trained = !status;
    settle(run, c, status);
    if (c->error && c->trained) { /* not by all: no row has it */
        ls_trial_close(&c->trial);
        c->trained = false;
    }
    if (!c->error)
        settle(run, c, ls_trial_warm_up(&c->trial));
    if (c->error)
        end_case(run, c);
}

/* A random order of the cases, another one for each block. */
static void shuffle_order(size_t *order, size_t count, int64_t block)
{
    ls_random random = ls_random_stream((uint64_t)block, "block order");
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    for (size_t i = count; i > 1; i--) {
        size_t j = ls_random_bits(random, i) % i, keep = order[i - 1];
        order[i - 1] = order[j];
        order[j] = keep;
    }
}

static void take_turns(command_run *run, size_t *order)
{
    const ls_request *request = run->request;
    for (int64_t block = 0; block < request->blocks; block++) {
        shuffle_order(order, run->count, block);
        for (size_t i = 0; i < run->count; i++) {
            case_run *c = &run->cases[order[i]];
            if (!c->trained || c->error || c->trial.stopped || *run->over)
                continue;
            settle(run, c, ls_trial_block(&c->trial, block, request->blocks));
            bool last = block + 1 == request->blocks || c->trial.stopped;
            if (c->error || (last && !request->baseline))
                end_case(run, c);
        }
    }
    for (size_t i = 0; i < run->count; i++) /* who waits for a baseline: all are known now */
        note_median(&run->cases[i]);
    for (size_t i = 0; i < run->count; i++) {
        give_up(run, &run->cases[i]);
        if (run->cases[i].trained)
            end_case(run, &run->cases[i]);
    }
}

/* Of a sweep that a device ended, the cases that have no row. */
static void tell_left_out(const command_run *run)
{
    size_t left = 0;
    for (size_t i = 0; i < run->count; i++)
        left += !run->cases[i].ended;
    if (*run->over && left && run->processes->rank == 0)
        fprintf(stderr,
                "lockstep: run: %zu of %zu cases: not run, for a device has fallen over; "
                "the same command with these alone goes on\n",
                left, run->count);
}

static ls_status train_all(command_run *run)
{
    const size_t count = run->count;
    size_t *order = calloc(count, sizeof *order);
    if (!order)
        return ls_fail_memory("cases", count * sizeof *order);
    for (size_t i = 0; i < count && !is_interrupted(run); i++)
        gate_case(run, &run->cases[i]);
    for (size_t i = 0; i < count && !is_interrupted(run) && !run->request->verify; i++)
        if (!run->cases[i].error && run->cases[i].gate.pass)
            open_case(run, &run->cases[i]);
    take_turns(run, order);
    tell_left_out(run);
    if (ls_interrupted())
        worsen(run, LS_CODE_INTERRUPTED);
    free(order);
    return run->unsaved;
}

/* The request's cases, and with --baseline those of `single` that are not among them. */
static ls_status list_cases(command_run *run)
{
    const ls_request *request = run->request;
    size_t most = request->case_count * (request->baseline ? 2 : 1);
    run->configs = calloc(most, sizeof *run->configs);
    run->cases = calloc(most, sizeof *run->cases);
    if (!run->configs || !run->cases)
        return ls_fail_memory("cases", most * (sizeof *run->configs + sizeof *run->cases));
    memcpy(run->configs, request->cases, request->case_count * sizeof *run->configs);
    run->count = request->case_count;
    for (size_t i = 0; i < request->case_count; i++) {
        run->cases[i].baseline = i;
        if (!request->baseline)
            continue;
        const ls_case single = ls_reference_case(&run->configs[i]);
        size_t at = 0;
        while (at < run->count && memcmp(&run->configs[at], &single, sizeof single))
            at++;
        run->configs[at] = single;
        run->cases[i].baseline = run->cases[at].baseline = at;
        run->count = at == run->count ? at + 1 : run->count;
    }
    return LS_OK;
}

/* What a rank reads by itself must be what the others have read. */
static ls_status compare_data(command_run *run)
{
    ls_comm *comm = run->processes->comm;
    for (size_t i = 0; i < run->count && comm; i++) {
        const ls_plan_of_case *plan = &run->cases[i].plan;
        const size_t bytes = plan->model->graph->variables.elements * sizeof(float);
        LS_TRY(ls_team_same(comm, "data set", plan->data->digest, NULL));
        LS_TRY(ls_team_same(comm, "first parameters", ls_hash64(plan->initial, bytes), NULL));
    }
    return LS_OK;
}

/* What this rank can refuse; the files that are written are rank 0's. */
static ls_status resolve_all(command_run *run)
{
    const ls_request *request = run->request;
    const ls_format *format;
    LS_TRY(ls_format_find(request->format, &format));
    LS_TRY(ls_workplace_open(request, &run->place));
    LS_TRY(list_cases(run));
    for (size_t i = 0; i < run->count; i++) {
        LS_TRY(ls_plan_open(&run->place, &run->configs[i], &run->cases[i].plan));
        ls_plan_log(&run->place, &run->cases[i].plan);
    }
    const bool first = run->processes->rank == 0;
    if (request->save && first)
        LS_TRY(ls_tensors_writable(request->save));
    if (request->ps_record && first)
        LS_TRY(ls_ps_logs_writable(request->ps_record));
    if (request->results && first && !request->print_step) {
        ls_workplace_busy(&run->place, true); /* another program may hold the file's lock */
        ls_status status = ls_results_open(request->results, true, &run->results);
        ls_workplace_busy(&run->place, false);
        LS_TRY(status);
    }
    LS_TRY(ls_writer_open(format, stdout, &run->writer));
    if (request->verify)
        ls_writer_set_columns(run->writer, &ls_verify_columns);
    return LS_OK;
}

static ls_status open_command(command_run *run)
{
    LS_TRY(ls_team_agree(run->processes->comm, resolve_all(run)));
    return compare_data(run);
}

/* But for what the threads of a lost device may use: true where there is such. */
static bool close_command(command_run *run)
{
    for (size_t i = 0; run->cases && i < run->count; i++)
        if (run->cases[i].trained)
            ls_trial_close(&run->cases[i].trial);
    ls_results_close(run->results);
    if (is_left(run)) {
        ls_status_free(ls_processes_pulse(run->processes, NULL, NULL)); /* it looks at the place */
        return true;
    }
    for (size_t i = 0; run->cases && i < run->count; i++) {
        ls_status_free(run->cases[i].error);
        ls_gate_close(&run->cases[i].gate);
        ls_plan_close(&run->cases[i].plan);
    }
    free(run->cases);
    free(run->configs);
    ls_references_close(&run->place);
    ls_gate_kernels_close(&run->place);
    ls_workplace_close(&run->place);
    return false;
}

/* The steps of all cases, in place of training them. */
static ls_status print_all(command_run *run)
{
    for (size_t i = 0; i < run->count; i++)
        if (!is_elsewhere(run, &run->cases[i]))
            LS_TRY(ls_print_step(&run->place, &run->cases[i].plan));
    return LS_OK;
}

ls_status ls_command_run(const ls_request *request, int *exit_status)
{
    command_run run = {.request = request, .processes = request->processes};
    ls_interrupt_install();
    ls_status refused = open_command(&run);
    ls_status lost = refused ? LS_OK : request->print_step ? print_all(&run) : train_all(&run);
    if (run.writer)
        lost = ls_status_first(lost, ls_writer_close(run.writer));
    const bool left = close_command(&run);
    if (refused) {
        ls_status_free(lost);
        return refused;
    }
    if (lost) { /* rows that could not be printed or kept: said, and weighed with the others */
        fprintf(stderr, "lockstep: %s\n", ls_status_text(lost));
        worsen(&run, ls_status_code(lost));
        ls_status_free(lost);
    }
    *exit_status = (int)run.code | (*run.over || left ? LS_EXIT_AT_ONCE : 0);
    if (*run.lost)
        return ls_fail(LS_CODE_MISSING, NULL, NULL, "%s", run.lost);
    return LS_OK;
}
