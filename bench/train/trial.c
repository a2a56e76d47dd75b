/* SPDX-License-Identifier: MIT */
/* Trial: warm-up, timed blocks, and the outcome of training; see trial.h. */
#include "bench/train/trial.h"

#include "bench/train/interrupt.h"
#include "bench/train/session.h"
#include "bench/train/world.h"

#include "common/base/clock.h"
#include "common/base/grow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Steps enqueued by one call last about this long, so that an interrupt takes effect soon. */
static const double chunk_ms = 50.0;
/* Independent workers wait for each other at the end of a chunk, so their chunks are longer. */
static const double chunk_alone_ms = 1000.0;
enum { LOSS_TARGET_STEPS = 10 };
/* Freed pieces of one size that a thread's cache in glibc keeps. */
enum { HEAP_CACHES = 7 };

/* Grows the arrays of timed steps and blocks to `steps` steps; with `losses`, losses[], too. */
static ls_status make_room(ls_trial *trial, size_t steps, bool losses)
{
    double **const each[] = {&trial->step_ms, &trial->enqueue_ns, &trial->growth.heap,
                             &trial->losses};
    if (steps <= trial->room)
        return LS_OK;
    const size_t room = steps + trial->room;
    for (size_t i = 0; i < (losses ? 4 : 3); i++)
        LS_TRY(ls_enlarge("trial", each[i], room, sizeof **each[i]));
    LS_TRY(ls_enlarge("trial", &trial->ends, room, sizeof *trial->ends));
    LS_TRY(ls_enlarge("trial", &trial->work, room, sizeof *trial->work));
    trial->room = room;
    return LS_OK;
}

ls_status ls_trial_open(const ls_workplace *workplace, const ls_plan_of_case *plan, ls_trial *out)
{
    const ls_request *request = workplace->request;
    *out = (ls_trial){.record = request->ps_record,
                      .plan = plan,
                      .workplace = workplace,
                      .accuracy = NAN,
                      .chunk = 1,
                      .fresh = true,
                      .bubble = NAN,
                      .progress = workplace->progress,
                      .processes = request->processes};
    size_t timed = (size_t)plan->timed, elements = plan->model->graph->variables.elements;
    ls_status status = ls_session_open_delayed(workplace, plan, &out->session);
    out->planned = timed;
    if (request->precision > 0 && request->blocks < LS_STATISTICS_BLOCKS)
        out->planned = timed * LS_STATISTICS_BLOCKS / (uint64_t)request->blocks;
    if (!status)
        status = make_room(out, timed + 1, request->log.level >= LS_LOG_VERBOSE);
    if (!status)
        status = ls_account_open(&out->accounts, out->session.device_count);
    out->parameters = calloc(elements + 1, sizeof *out->parameters);
    out->ledgers = calloc(plan->device_count + 1, sizeof *out->ledgers);
    out->loads = calloc(plan->device_count + 1, sizeof *out->loads);
    out->records = calloc(plan->job.records, sizeof *out->records);
    out->chunk_ms = calloc(plan->job.records, sizeof *out->chunk_ms);
    if (!status &&
        (!out->parameters || !out->records || !out->chunk_ms || !out->ledgers || !out->loads))
        status = ls_fail_memory("trial", elements * sizeof *out->parameters);
    if (status)
        ls_trial_close(out);
    return status;
}

void ls_trial_close(ls_trial *trial)
{
    ls_session_close(&trial->session);
    free(trial->step_ms);
    free(trial->ends);
    free(trial->work);
    free(trial->enqueue_ns);
    free(trial->growth.heap);
    free(trial->losses);
    free(trial->records);
    free(trial->chunk_ms);
    free(trial->ledgers);
    free(trial->servers);
    free(trial->loads);
    free(trial->parameters);
    ls_account_close(&trial->accounts);
    ls_noise_close(&trial->noise);
    *trial = (ls_trial){0};
}

/* The caller has written the reason. */
static void stop(ls_trial *trial)
{
    trial->stopped = true;
    trial->failed = true;
}

/* ---- Divergence ----------------------------------------------------------------------------- */

bool ls_loss_diverged(double loss, uint64_t step, char reason[LS_REASON_SIZE])
{
    if (isfinite(loss))
        return false;
    snprintf(reason, LS_REASON_SIZE, "diverged: the loss is %s at step %llu",
             isnan(loss) ? "NaN" : "infinite", (unsigned long long)step);
    return true;
}

bool ls_values_diverged(const ls_variables *variables, const float *values, uint64_t steps,
                        char reason[LS_REASON_SIZE])
{
    size_t i = 0;
    while (i < variables->elements && isfinite(values[i]))
        i++;
    if (i == variables->elements)
        return false;
    const ls_variable *v = ls_variables_holding(variables, i);
    snprintf(reason, LS_REASON_SIZE, "diverged: %s element %zu is not finite after step %llu",
             v->name, i - v->offset, (unsigned long long)steps);
    return true;
}

/* ---- Targets -------------------------------------------------------------------------------- */

static void reach_target(ls_trial *trial, uint64_t steps)
{
    if (trial->target_reached)
        return;
    trial->target_reached = true;
    trial->steps_to_target = steps;
    trial->ms_to_target = trial->trained_ms;
}

/* Loss targets are checked against the mean of ten steps. */
static void look_at_loss(ls_trial *trial, uint64_t step, double loss)
{
    if (trial->plan->config->target_kind != LS_TARGET_LOSS)
        return;
    trial->target_sum += loss;
    if ((step + 1) % LOSS_TARGET_STEPS)
        return;
    if (trial->target_sum / LOSS_TARGET_STEPS <= trial->plan->config->target)
        reach_target(trial, step + 1);
    trial->target_sum = 0;
}

/* Accuracy targets are checked after each epoch, even if the epoch ends between two steps. */
static ls_status look_at_accuracy(ls_trial *trial)
{
    if (trial->plan->config->target_kind != LS_TARGET_ACCURACY || trial->target_reached ||
        trial->session.step % ls_job_steps_per_epoch(&trial->session.job))
        return LS_OK;
    ls_evaluation found = {0};
    LS_TRY(ls_session_evaluate(&trial->session, UINT64_MAX, &found));
    trial->accuracy = found.accuracy;
    if (trial->accuracy >= trial->plan->config->target)
        reach_target(trial, trial->session.step);
    return LS_OK;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

/* How many of the `left` steps to enqueue next: about chunk_ms of them, but not past the next
 * epoch's end (if checked there) or a planted fault. The first step after opening runs alone: the
 * heap grows once in it, which is not growth per step. */
static uint64_t next_chunk(const ls_trial *trial, uint64_t left)
{
    const uint64_t most = trial->fresh ? 1 : trial->chunk;
    uint64_t chunk = left < most ? left : most;
    if (trial->plan->config->target_kind == LS_TARGET_ACCURACY) {
        uint64_t per_epoch = ls_job_steps_per_epoch(&trial->session.job);
        uint64_t until = per_epoch - trial->session.step % per_epoch;
        chunk = chunk < until ? chunk : until;
    }
    const ls_fault *fault = &trial->plan->config->fault;
    if (ls_fault_strikes(fault) && (uint64_t)fault->step > trial->session.step) {
        uint64_t until = (uint64_t)fault->step - trial->session.step;
        chunk = chunk < until ? chunk : until;
    }
    return chunk < trial->session.job.records ? chunk : trial->session.job.records;
}

/* How many steps of `ms` each fit into all_ms; `most` if `ms` is unknown. */
static double fitting(double all_ms, double ms, double most)
{
    const double count = ms > 0 ? all_ms / ms : most;
    return count < most ? count : most;
}

/* `ms`: mean time of the last `count` steps. The chunk of independent workers follows the fastest
 * worker, so that a slow one does not delay the others at the ends of many small chunks. It is
 * limited so that workers that have finished do not take a slow one for lost. */
static void adapt_chunk(ls_trial *trial, uint64_t count, double ms)
{
    const ls_job *job = &trial->session.job;
    const bool alone = ls_ps_by_arrival(&job->ps);
    const double most = (double)trial->chunk * (alone && count > 1 ? 256 : 4);
    double chunk = fitting(alone ? (double)job->timeout_ns * 1e-6 / 4 : chunk_ms, ms, most);
    if (alone) {
        ls_statistics_sort(trial->chunk_ms, count);
        chunk = fitting(chunk_alone_ms, trial->chunk_ms[count / 10], chunk);
    }
    trial->chunk = chunk < 1 ? 1 : (uint64_t)chunk;
}

/* Adds the times of the last `count` steps, whose mean is `ms`, as samples. A sample is one step,
 * or on GPUs with a timer of 1 us the mean of enough steps to make its resolution negligible. */
static void take_samples(ls_trial *trial, uint64_t count, double ms)
{
    const bool gpu = trial->plan->devices->kind == LS_DEVICE_GPU;
    trial->samples +=
        ls_statistics_group(trial->chunk_ms, count, gpu ? ls_statistics_group_size(1e-3, ms) : 1,
                            trial->step_ms + trial->samples);
    trial->timed_ms += ms * (double)count;
}

/* Copies the records of the last `count` steps. */
static ls_status take_records(ls_trial *trial, uint64_t count, bool timed, bool accounted)
{
    const ls_step_record *records = trial->records;
    uint64_t mark_ns;
    LS_TRY(ls_session_records(&trial->session, count, trial->records, &mark_ns));
    uint64_t first = trial->session.step - count;
    double all_ms = 0;
    for (uint64_t i = 0; i < count; i++) {
        double ms = (double)(records[i].end_ns - (i ? records[i - 1].end_ns : mark_ns)) * 1e-6;
        double loss = records[i].loss;
        if (first + i == 0)
            trial->loss_first = loss;
        trial->loss_last = loss;
        all_ms += ms;
        trial->trained_ms += ms;
        trial->chunk_ms[i] = ms;
        look_at_loss(trial, first + i, loss);
        if (timed) {
            if (trial->losses)
                trial->losses[trial->timed_done] = loss;
            trial->timed_done++;
        }
        if (!trial->failed && ls_loss_diverged(loss, first + i, trial->reason))
            stop(trial);
    }
    trial->latest_ms = all_ms / (double)count;
    if (timed)
        take_samples(trial, count, trial->latest_ms);
    adapt_chunk(trial, count, trial->latest_ms);
    return accounted ? ls_account_add(trial, count, mark_ns, records[count - 1].end_ns) : LS_OK;
}

static void show_progress(ls_trial *trial)
{
    const ls_plan_of_case *plan = trial->plan;
    uint64_t samples = ls_job_samples(&trial->session.job, trial->session.step) -
                       ls_job_samples(&trial->session.job, (uint64_t)plan->warmup);
    double rate = trial->timed_ms > 0 ? (double)samples / trial->timed_ms * 1e3 : NAN;
    const uint64_t step = trial->session.step, warmup = (uint64_t)plan->warmup;
    const double share = step <= warmup ? (double)step / (double)warmup
                                        : (double)(step - warmup) / (double)trial->planned;
    ls_progress_update(trial->progress, share, rate, trial->loss_last);
}

/* Plants the fault if it is this rank's and its step has come. */
static ls_status strike(const ls_trial *trial)
{
    const ls_fault *fault = &trial->plan->config->fault;
    const bool mine = trial->processes->size == 1 || fault->target == trial->processes->rank;
    if (!ls_fault_strikes(fault) || !mine || (uint64_t)fault->step != trial->session.step)
        return LS_OK;
    if (fault->kind == LS_FAULT_HANG && ls_plan_can_hang(trial->plan))
        return ls_session_hang(&trial->session, fault->target);
    ls_fault_strike(fault->kind);
    return LS_OK;
}

static ls_status train(ls_trial *trial, uint64_t steps, bool timed)
{
    while (steps && !trial->stopped) {
        bool interrupted = ls_interrupted();
        uint64_t answer = 2 * next_chunk(trial, steps) + (timed && ls_account_wanted(trial));
        LS_TRY(ls_world_turn(trial->session.job.comm, LS_OK, &answer, &interrupted));
        const uint64_t count = answer / 2;
        const bool accounted = answer % 2;
        if (interrupted) {
            trial->stopped = trial->interrupted = true;
            break;
        }
        if (accounted) /* reads idle queues, before a device is made to hang */
            LS_TRY(ls_account_begin(trial, count));
        else
            trial->accounts.count = 0; /* the first step's, noted in case */
        LS_TRY(strike(trial));
        const ls_held held = ls_held_by(&trial->session);
        LS_TRY(ls_session_steps(&trial->session, count));
        if (timed && !trial->fresh)
            ls_growth_add(&trial->growth, held, ls_held_by(&trial->session), count);
        if (accounted)
            LS_TRY(ls_account_end(trial));
        if (timed)
            trial->enqueue_ns[trial->lots++] = trial->session.enqueue_ns;
        trial->fresh = false;
        LS_TRY(take_records(trial, count, timed, accounted));
        LS_TRY(look_at_accuracy(trial));
        show_progress(trial);
        steps -= count;
    }
    return LS_OK;
}

ls_status ls_trial_warm_up(ls_trial *trial)
{
    ls_status status = train(trial, (uint64_t)trial->plan->warmup, false);
    if (!status && ls_strategy_serves(trial->plan->strategy))
        status = ls_ps_report_collect(trial->session.run, &trial->warm_report);
    return status;
}

/* Number of steps of an added block. */
static uint64_t added_steps(const ls_trial *trial, int64_t blocks)
{
    const uint64_t like = (uint64_t)(trial->plan->timed / blocks);
    const double most = 1e6, fits = fitting(LS_ADDED_BLOCK_MS, ls_trial_mean_ms(trial), most);
    return like > (uint64_t)fits ? like : (uint64_t)fits + 1;
}

ls_status ls_trial_block(ls_trial *trial, int64_t index, int64_t blocks)
{
    uint64_t count = (uint64_t)(trial->plan->timed * (index + 1) / blocks) -
                     (uint64_t)(trial->plan->timed * index / blocks);
    bool stop = false;
    if (index >= blocks) { /* rank 0's times decide */
        count = added_steps(trial, blocks);
        LS_TRY(ls_world_turn(trial->session.job.comm, LS_OK, &count, &stop));
        LS_TRY(ls_world_agree(trial->session.job.comm,
                              make_room(trial, trial->timed_done + count + 1, trial->losses)));
        if (trial->planned < trial->timed_done + count)
            trial->planned = trial->timed_done + count;
    }
    const uint64_t first_step = trial->session.step;
    LS_TRY(ls_trial_begin_block(trial, index && count && !trial->stopped));
    LS_TRY(train(trial, count, true));
    ls_noise_end(&trial->noise);
    return ls_trial_end_block(trial, first_step);
}

/* ---- The end -------------------------------------------------------------------------------- */

/* Full steps must have sent what the formula says; without a full step nothing is checked. */
static ls_status check_traffic(ls_trial *trial)
{
    const ls_session *session = &trial->session;
    const ls_run *run = session->run;
    const ls_traffic *sent = &trial->sent, *formula = &trial->formula;
    uint64_t tails =
        ls_job_tail(&session->job) ? session->step / ls_job_steps_per_epoch(&session->job) : 0;
    const bool alone = trial->plan->all_devices == 1 && !ls_strategy_serves(run->strategy);
    if (alone || session->step == tails)
        return LS_OK;
    LS_TRY(run->kind->traffic(run, &trial->sent, &trial->formula));
    trial->counted = formula->messages_sent > 0; /* otherwise only a library knows */
    if (trial->failed ||
        (sent->bytes_sent == formula->bytes_sent && sent->messages_sent == formula->messages_sent))
        return LS_OK;
    snprintf(trial->reason, sizeof trial->reason,
             "traffic: %llu bytes and %llu messages a step, and the formula says %llu and %llu",
             (unsigned long long)sent->bytes_sent, (unsigned long long)sent->messages_sent,
             (unsigned long long)formula->bytes_sent, (unsigned long long)formula->messages_sent);
    stop(trial);
    return LS_OK;
}

/* Lists the servers of this process. */
static ls_status list_servers(ls_trial *trial)
{
    const ls_run *run = trial->session.run;
    ls_ps_server server;
    size_t count = 0;
    while (ls_ps_report_server(run, count, &server))
        count++;
    LS_TRY(ls_allocate("trial", &trial->servers, count, sizeof *trial->servers));
    for (size_t s = 0; s < count; s++)
        ls_ps_report_server(run, s, &trial->servers[s]);
    trial->server_count = count;
    return LS_OK;
}

/* Reads what the servers counted so far, and the order in which they served it, for the user. */
static ls_status take_report(ls_trial *trial)
{
    const ls_run *run = trial->session.run;
    LS_TRY(ls_ps_report_collect(run, &trial->report));
    LS_TRY(ls_world_agree(trial->session.job.comm, list_servers(trial)));
    return trial->record ? ls_ps_record(run, trial->record) : LS_OK;
}

/* All replicas of this process must still have the same parameters. Replicas of several processes
 * are compared by digest. */
static ls_status check_replicas(ls_trial *trial)
{
    char differs[LS_REASON_SIZE];
    const size_t bytes = trial->plan->model->graph->variables.elements * sizeof(float);
    float *other = malloc(bytes + 1);
    ls_status status =
        other ? ls_session_compare_replicas(&trial->session, trial->parameters, other, differs)
              : ls_fail_memory("trial", bytes);
    free(other);
    if (!status && *differs && !trial->failed) {
        snprintf(trial->reason, sizeof trial->reason, "after %llu steps: %.220s",
                 (unsigned long long)trial->session.step, differs);
        stop(trial);
    }
    return ls_world_agree(trial->session.job.comm, status);
}

/* Agrees on a failed check with all ranks: a failure of one fails the case. */
static ls_status share_failure(ls_trial *trial)
{
    ls_status failed =
        trial->failed ? ls_fail(LS_CODE_CHECK, NULL, NULL, "%s", trial->reason) : LS_OK;
    ls_status status = ls_world_agree(trial->session.job.comm, failed);
    if (ls_status_code(status) != LS_CODE_CHECK)
        return status;
    snprintf(trial->reason, sizeof trial->reason, "%s", ls_status_text(status));
    ls_status_free(status);
    stop(trial);
    return LS_OK;
}

/* A larger heap may be a library's single allocation, or pieces kept in malloc's caches, which
 * count as allocated. So if the heap grew, some extra steps are run that are not part of the row:
 * by then the caches are full. */
static ls_status confirm_growth(ls_trial *trial)
{
    ls_session *session = &trial->session;
    ls_growth *growth = &trial->growth;
    bool grew = false;
    for (size_t i = 0; i < growth->lots; i++)
        grew |= growth->heap[i] > 0;
    uint64_t each = growth->lots ? growth->steps / growth->lots : 0;
    LS_TRY(ls_world_turn(session->job.comm, LS_OK, &each, &grew));
    if (!grew || growth->steps < LS_GROWTH_STEPS)
        return LS_OK;
    if (growth->steps < 2 * HEAP_CACHES)
        LS_TRY(ls_session_steps(session, HEAP_CACHES + 1));
    growth->lots = 0;
    for (int i = 0; i < 2; i++) {
        const ls_held held = ls_held_by(session);
        LS_TRY(ls_session_steps(session, each));
        ls_growth_add(growth, held, ls_held_by(session), each);
    }
    return LS_OK;
}

ls_status ls_trial_finish(ls_trial *trial)
{
    const ls_plan_of_case *plan = trial->plan;
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        trial->rss_peak = (size_t)usage.ru_maxrss * 1024;
    for (size_t i = 0; i < trial->session.device_count; i++)
        trial->ledgers[i] = ls_device_ledger(trial->session.devices[i]);
    trial->ended = true;
    LS_TRY(ls_session_gather(&trial->session, trial->parameters));
    LS_TRY(check_replicas(trial));
    const ls_variables *variables = &plan->model->graph->variables;
    if (!trial->failed &&
        ls_values_diverged(variables, trial->parameters, trial->session.step, trial->reason))
        stop(trial);
    LS_TRY(check_traffic(trial));
    LS_TRY(share_failure(trial));
    LS_TRY(ls_world_agree(trial->session.job.comm,
                          ls_variables_digest(variables, trial->parameters, trial->digest)));
    ls_evaluation found = {.accuracy = trial->accuracy};
    if (ls_plan_tests(plan) && !trial->failed)
        LS_TRY(ls_session_evaluate(&trial->session, UINT64_MAX, &found));
    trial->accuracy = found.accuracy;
    if (ls_strategy_serves(plan->strategy))
        LS_TRY(take_report(trial));
    if (!trial->timed_done || trial->failed || trial->interrupted)
        return LS_OK;
    LS_TRY(confirm_growth(trial));
    const ls_status status = ls_trial_profile(trial);
    if (ls_status_is_final(status))
        return status;
    ls_status_free(status); /* then the row has no waterfall */
    return LS_OK;
}
