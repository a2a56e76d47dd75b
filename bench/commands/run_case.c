/* SPDX-License-Identifier: MIT */
/* A case of `run` and `verify`, from the check to its row; see run_parts.h. */
#include "bench/commands/forecast.h"
#include "bench/commands/run_parts.h"
#include "bench/row/roof.h"
#include "bench/statistics/statistics.h"
#include "bench/train/interrupt.h"
#include "bench/train/time_steps.h"
#include "bench/train/world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void ls_run_raise_code(command_run *run, ls_code code)
{
    /* 130 overrides 1, which overrides 3, then 0. */
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

bool ls_run_is_of_other_rank(const command_run *run, const case_run *c)
{
    return !c->plan.job.ranks.comm && run->processes->rank > 0;
}

bool ls_run_is_left(const command_run *run)
{
    return run->workplace.left && *run->workplace.left;
}

void ls_run_agree(command_run *run, case_run *c, ls_status status)
{
    c->error = ls_world_agree(c->plan.job.ranks.comm, status);
    if (c->error && ls_processes_lost(run->processes) && !*run->lost)
        snprintf(run->lost, sizeof run->lost, "%s", ls_status_text(c->error));
    if (ls_status_is_final(c->error) && !*run->over)
        snprintf(run->over, sizeof run->over, "%s", ls_status_text(c->error));
}

/* ---- Progress ------------------------------------------------------------------------------- */

void ls_run_expect(command_run *run, const case_run *c, double step_s)
{
    char title[LS_MODEL_TEXT + 64];
    double seconds[LS_PHASES];
    if (!run->workplace.progress)
        return;
    const ls_costs costs = ls_estimate_count(&run->workplace, &c->plan, step_s);
    const size_t own = (size_t)(c - run->cases);
    ls_estimate_phases(&run->workplace, &c->plan, &costs, seconds);
    if (seconds[LS_PHASE_CHECKING] > 0)
        seconds[LS_PHASE_CHECKING] += ls_estimate_kernels(run->configs, own);
    /* "mirrored 2 cpu", after the model if there are several. */
    const ls_plan_of_case *plan = &c->plan;
    const bool models = strcmp(run->configs[0].model, run->configs[run->count - 1].model) != 0;
    snprintf(title, sizeof title, "%s%s%s %d %s", models ? plan->config->model : "",
             models ? " " : "", plan->strategy->name, plan->all_devices,
             plan->devices->kind == LS_DEVICE_GPU ? "gpu" : "cpu");
    ls_progress_expect(run->workplace.progress, own, title, seconds, step_s > 0);
}

void ls_run_enter(command_run *run, const case_run *c, ls_phase phase)
{
    ls_progress_enter(run->workplace.progress, (size_t)(c - run->cases), phase);
}

/* ---- Rows ----------------------------------------------------------------------------------- */

enum { BLOCKS = 5, MOST_STEPS = 40, WARM_STEPS = 3 }; /* per block; before the first block */

/* The median step; if an epoch's last batch is smaller, the two are at other places of an epoch,
 * and the mean time of a sample is compared. */
static ls_status take_turns(ls_session *const sessions[2], uint64_t count, ls_step_times *times,
                            double *out)
{
    double ms[2][BLOCKS * MOST_STEPS];
    uint64_t trained[2];
    ls_statistics statistics[2];
    for (int s = 0; s < 2; s++) {
        LS_TRY(ls_session_steps(sessions[s], count < WARM_STEPS ? count : WARM_STEPS));
        trained[s] = ls_job_samples(&sessions[s]->job, sessions[s]->step);
    }
    for (uint64_t block = 0; block < BLOCKS; block++)
        for (int s = 0; s < 2; s++) {
            LS_TRY(ls_time_steps(sessions[s], count, false, times));
            memcpy(ms[s] + block * count, times->ms, count * sizeof *times->ms);
        }
    for (int s = 0; s < 2; s++) {
        ls_statistics_compute(ms[s], BLOCKS * count, &statistics[s]);
        trained[s] = ls_job_samples(&sessions[s]->job, sessions[s]->step) - trained[s];
    }
    *out = ls_job_tail(&sessions[0]->job)
               ? statistics[0].mean / (double)trained[0] / (statistics[1].mean / (double)trained[1])
               : statistics[0].median / statistics[1].median;
    return LS_OK;
}

/* What exact mode costs: the session's median step over the median step of the same case in fast
 * mode, from alternating blocks of at most `at_once` steps. Trains the session further. */
static ls_status find_exact_cost(ls_workplace *workplace, ls_session *session, uint64_t at_once,
                                 double *out)
{
    ls_case fast = *session->plan->config;
    ls_comm *comm = session->job.ranks.comm;
    ls_plan_of_case plan;
    ls_session other = {0};
    ls_step_times times;
    uint64_t count = at_once < MOST_STEPS ? at_once : MOST_STEPS;
    count = count < session->job.records ? count : session->job.records;
    fast.reduce = LS_REDUCE_FAST;
    strncpy(fast.allreduce, "auto", sizeof fast.allreduce);
    LS_TRY(ls_world_turn(comm, LS_OK, &count, NULL));
    ls_status status = ls_plan_open(workplace, &fast, &plan);
    if (!status)
        status = ls_plan_draw(workplace, &plan); /* the case's own values */
    status = ls_status_first(status, ls_step_times_open(MOST_STEPS, &times));
    status = ls_world_agree(comm, status);
    if (!status)
        status = ls_session_open(workplace, &plan, (ls_opening){0}, &other);
    if (!status)
        status = take_turns((ls_session *const[]){session, &other}, count, &times, out);
    ls_session_close(&other);
    ls_step_times_close(&times);
    if (!*workplace->left) /* unless threads of a lost device still use it */
        ls_plan_close(&plan);
    return status;
}

/* Measures further figures of a timed case's row: roof, harness, exact cost. After an interrupt
 * they would take too long. */
static void measure_extras(command_run *run, case_run *c, ls_row_facts *facts)
{
    ls_device *device = c->trial.session.devices[0];
    if (c->trial.interrupted)
        return;
    /* Failures here do not lose the row: without a roof it just has no mfu. */
    if (ls_session_leads(&c->trial.session)) {
        ls_workplace_busy(&run->workplace, true);
        ls_status_free(ls_harness_cost(device, &facts->harness_ns));
        const ls_reached reached = ls_row_reached(facts);
        ls_status_free(ls_roof_get(run->workplace.machine, device, c->plan.job.kernels.math,
                                   &reached, &facts->roof_flops));
        ls_workplace_busy(&run->workplace, false);
    }
    if (c->plan.job.exact.on && !c->plan.phases && run->request->waterfall)
        ls_status_free(find_exact_cost(&run->workplace, &c->trial.session, c->trial.chunk,
                                       &facts->exact_cost));
}

/* `unfinished`: an interrupt came between the check and the first timed step. */
static ls_status make_row(command_run *run, case_run *c, bool unfinished)
{
    ls_row_facts facts = {.workplace = &run->workplace,
                          .plan = &c->plan,
                          .gate = c->gated ? &c->gate : NULL,
                          .trial = c->trained && c->trial.session.run ? &c->trial : NULL,
                          .verdict = &c->verdict,
                          .error = c->error ? ls_status_text(c->error) : NULL,
                          .unfinished = unfinished,
                          .group = c->group,
                          .groups = run->groups,
                          .shared = run->count > 1};
    json_t *row;
    if (c->baseline != SIZE_MAX) {
        const case_run *base = &run->cases[c->baseline];
        facts.baseline = base->per_sample;
        if (base->group != c->group) /* of another time: no interval says how far off that is */
            facts.baseline.ci95[0] = facts.baseline.ci95[1] = NAN;
        facts.baseline_parts = base != c && base->has_parts ? base->parts_per_sample : NULL;
    }
    if (facts.trial && c->trial.timed.done && !c->verdict.failed && !c->error) {
        LS_TRY(ls_timed_statistics(&c->trial.timed, &facts.steps, facts.ci95));
        LS_TRY(ls_timed_sample_ms(&c->trial.timed, &facts.pace));
        LS_TRY(ls_timed_rate(&c->trial.timed, &facts.rate, facts.rate_ci95));
        measure_extras(run, c, &facts);
    }
    if (facts.harness_ns > 0)
        ls_log_line(
            &run->request->log, LS_LOG_VERBOSE,
            "the measurement adds %.0f ns to each step (to read the clock and to store a record)",
            facts.harness_ns);
    ls_status built = ls_row_build(&facts, &row);
    if (c->plan.job.ranks.comm) /* if ranks have lost each other, rank 0's part is kept */
        ls_status_free(ls_row_join(run->processes, built ? NULL : row));
    LS_TRY(built);
    ls_row_add_warnings(row);
    if (c->unsaved && ls_row_code(row) == LS_CODE_OK)
        ls_row_mark_error(row, ls_status_text(c->unsaved));
    else if (c->unsaved)
        ls_log_stderr("%s", ls_status_text(c->unsaved));
    c->row = row;
    c->interrupted = unfinished || (c->trained && c->trial.interrupted);
    return LS_OK;
}

static ls_status commit(command_run *run, case_run *c)
{
    ls_workplace_busy(&run->workplace, true);
    ls_status saved = run->results ? ls_results_append(run->results, c->row) : LS_OK;
    ls_workplace_busy(&run->workplace, false);
    if (saved)
        ls_row_mark_error(c->row, ls_status_text(saved));
    run->parts += c->interrupted;
    run->finished += !c->interrupted && !saved && ls_row_code(c->row) != LS_CODE_MISSING;
    ls_run_raise_code(run, c->interrupted ? LS_CODE_INTERRUPTED : ls_row_code(c->row));
    ls_progress_pause(run->workplace.progress);
    ls_status printed = ls_writer_row(run->writer, c->row); /* even if it could not be saved */
    json_decref(c->row);
    c->row = NULL;
    return ls_status_first(saved, printed);
}

void ls_run_commit(command_run *run, size_t group, bool all)
{
    for (size_t i = 0; i < run->count; i++) {
        case_run *c = &run->cases[i];
        if (c->group != group)
            continue;
        if (!c->ended && !all)
            return;
        if (c->row)
            run->unsaved = ls_status_first(run->unsaved, commit(run, c));
    }
    if (!all)
        return;
    ls_progress_pause(run->workplace.progress);
    run->unsaved = ls_status_first(run->unsaved, ls_writer_flush(run->writer));
}

static bool same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/* If the gate compared every step, the timed run must end with the same digest, except with a
 * library's sums, which need not be reproducible. The first loss precedes any sum, and must always
 * be equal. */
static void compare_digests(case_run *c)
{
    const ls_job *job = &c->plan.job;
    const bool repeats =
        !ls_strategy_reduces(c->plan.strategy) || job->exact.on || job->exchange.allreduce->oracle;
    const char *differs = NULL;
    const bool longer = c->trial.timed.done > (uint64_t)c->plan.timed; /* --until-precision */
    if (c->trial.interrupted || c->verdict.failed || longer || !c->gate.compared || !c->gate.steps)
        return;
    if (!same_bits(c->trial.learned.loss_first, c->gate.loss_first))
        differs = "began with another loss";
    else if (repeats && *c->gate.reference_digest &&
             strcmp(c->trial.checked.digest, c->gate.digest) != 0)
        differs = "ended with other parameters";
    else if (repeats && *c->gate.reference_digest &&
             !same_bits(c->trial.learned.loss_last, c->gate.loss_last))
        differs = "ended with another loss";
    if (differs)
        ls_verdict_fail(&c->verdict,
                        "the timed run %s than the run that was compared with the reference",
                        differs);
}

void ls_run_note_pace(case_run *c)
{
    if (!c->trained || c->error || c->trial.verdict.failed || !c->trial.timed.done)
        return;
    ls_status_free(
        ls_timed_sample_ms(&c->trial.timed, &c->per_sample)); /* then there is no speed-up */
}

/* Whether the parameters of a case are saved: of one that the user requested, not of an added
 * baseline. */
static bool is_saved(const command_run *run, const case_run *c)
{
    return run->request->save && c->asked && c->gate.pass && !*c->gate.diverged;
}

/* What the trial could not save; with verify, saves the gate's final parameters. */
static ls_status save_parameters(command_run *run, case_run *c)
{
    ls_status status = c->trial.unsaved;
    c->trial.unsaved = LS_OK;
    if (c->trained || !is_saved(run, c) || run->processes->rank > 0)
        return status;
    if (!c->gate.parameters && !c->gate.interrupted)
        return ls_fail(LS_CODE_MISSING, "option", "--save",
                       "with --strategy %s on devices of two kinds, lockstep verify trains no "
                       "step, so there are no trained parameters to save; use lockstep run",
                       c->plan.strategy->name);
    if (!c->gate.parameters)
        return ls_fail(LS_CODE_MISSING, "option", "--save",
                       "the run was interrupted before it had trained parameters to save; run the "
                       "command again");
    ls_workplace_busy(&run->workplace, true);
    status =
        ls_variables_save(&c->plan.model->graph->variables, run->request->save, c->gate.parameters);
    ls_workplace_busy(&run->workplace, false);
    return status;
}

/* A file that cannot be written loses no figure of the row. */
static void agree_saved(command_run *run, case_run *c, ls_status status)
{
    ls_run_agree(run, c, status);
    if (*run->lost || *run->over)
        return;
    c->unsaved = ls_status_first(c->unsaved, c->error);
    c->error = NULL;
}

void ls_run_end(command_run *run, case_run *c)
{
    const bool unfinished = !c->trained && !c->error && c->gate.pass && !run->request->verify;
    ls_interrupt_install();
    if (c->trained)
        ls_run_enter(run, c, LS_PHASE_EVALUATING);
    if (c->trained && !c->error) {
        ls_run_agree(run, c, ls_trial_finish(&c->trial));
        c->unsaved = c->trial.reported.unsaved;
        c->trial.reported.unsaved = LS_OK;
        c->verdict = c->trial.verdict;
        if (!c->error) {
            /* the waterfall's parts per sample */
            double sum = 0;
            ls_waterfall_parts(c->trial.profile.part_ms, c->parts_per_sample);
            for (int p = 0; p < LS_WATERFALL_PARTS; p++) {
                sum += c->parts_per_sample[p];
                c->parts_per_sample[p] /= ls_timed_step_samples(&c->trial.timed);
            }
            c->has_parts = sum > 0;
        }
    }
    if (!c->error && run->request->save && !unfinished &&
        !ls_run_is_of_other_rank(run, c)) /* all learn whether it could be saved */
        agree_saved(run, c, save_parameters(run, c));
    if (c->trained && !c->error && c->gated) {
        compare_digests(c);
        uint64_t failed = c->verdict.failed; /* rank 0 has the reference's */
        ls_run_agree(run, c, ls_world_turn(c->plan.job.ranks.comm, LS_OK, &failed, NULL));
        c->verdict.failed = failed;
    }
    if (!ls_run_is_of_other_rank(run, c))
        run->unsaved = ls_status_first(run->unsaved, make_row(run, c, unfinished));
    c->ended = true;
    ls_progress_end(run->workplace.progress, (size_t)(c - run->cases));
    if (c->trained)
        ls_trial_close(&c->trial);
    c->trained = false;
    ls_run_commit(run, c->group, false);
    if (ls_run_is_left(run) && !*run->over && !ls_interrupted()) { /* the row is valid */
        snprintf(run->over, sizeof run->over, "a device was lost after the last step");
        ls_run_raise_code(run, LS_CODE_MISSING);
    }
}

/* ---- Before the timed steps ----------------------------------------------------------------- */

void ls_run_gate(command_run *run, case_run *c)
{
    if (ls_run_is_of_other_rank(run, c))
        return;
    ls_run_enter(run, c, LS_PHASE_CHECKING);
    ls_run_agree(run, c, ls_gate_run(&run->workplace, &c->plan, &c->gate));
    if (c->gate.step_s > 0)
        ls_run_expect(run, c, c->gate.step_s);
    c->gated = !c->error;
    if (c->gated && c->gate.steps)
        ls_interrupt_install(); /* a check that passed is a row */
    if (c->gate.interrupted)
        return;
    if (c->error || !c->gate.pass || run->request->verify)
        ls_run_end(run, c);
}

void ls_run_open(command_run *run, case_run *c)
{
    if (ls_run_is_of_other_rank(run, c))
        return;
    ls_run_enter(run, c, LS_PHASE_OPENING);
    ls_status status = ls_trial_open(&run->workplace, &c->plan, &c->trial);
    c->trained = !status;
    c->trial.saves = !status && is_saved(run, c);
    c->trial.saved.wanted = !status && c->asked && run->request->checkpoint;
    ls_interrupt_install();
    ls_run_agree(run, c, status);
    if (c->error && c->trained) { /* on some ranks only, so there is no row */
        ls_trial_close(&c->trial);
        c->trained = false;
    }
    ls_run_enter(run, c, LS_PHASE_WARM_UP);
    if (!c->error)
        ls_run_agree(run, c, ls_trial_warm_up(&c->trial));
    if (c->error)
        ls_run_end(run, c);
}
