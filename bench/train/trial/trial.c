/* SPDX-License-Identifier: MIT */
/* Trial: warm-up, timed blocks, and the outcome of training; see trial.h. */
#include "bench/train/trial/trial.h"

#include "bench/progress/progress.h"
#include "bench/train/interrupt.h"
#include "bench/train/time_steps.h"
#include "bench/train/world.h"

#include "common/base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Steps enqueued by one call last about this long, so that an interrupt takes effect soon. */
static const double chunk_ms = 50.0;
/* Independent workers wait for each other at the end of a chunk, so their chunks are longer. */
static const double chunk_alone_ms = 1000.0;
/* Freed pieces of one size that a thread's cache in glibc keeps. */
enum { HEAP_CACHES = 7 };

/* Makes room for the figures of `count` more timed steps. */
static ls_status expect(ls_trial *trial, uint64_t count)
{
    LS_TRY(ls_timed_expect(&trial->timed, count));
    if (trial->workplace->request->log.level < LS_LOG_VERBOSE)
        return LS_OK;
    return ls_learned_expect(&trial->learned, count);
}

ls_status ls_trial_open(ls_workplace *workplace, const ls_plan_of_case *plan, ls_trial *out)
{
    *out = (ls_trial){.workplace = workplace,
                      .timed = ls_timed_begin(plan, workplace->request),
                      .learned = ls_learned_begin(),
                      .profile = ls_profile_begin(),
                      .chunk = 1,
                      .fresh = true};
    ls_status status =
        ls_session_open(workplace, plan, (ls_opening){.delayed = true}, &out->session);
    if (!status)
        status = expect(out, (uint64_t)plan->timed);
    if (!status)
        status = ls_account_open(&out->accounts, out->session.device_count);
    if (!status)
        status = ls_step_times_open(plan->job.records, &out->latest);
    if (status)
        ls_trial_close(out);
    return status;
}

void ls_trial_close(ls_trial *trial)
{
    ls_session_close(&trial->session);
    ls_step_times_close(&trial->latest);
    ls_timed_close(&trial->timed);
    ls_learned_close(&trial->learned);
    ls_account_close(&trial->accounts);
    ls_noise_close(&trial->noise);
    ls_reported_close(&trial->reported);
    ls_profile_close(&trial->profile);
    *trial = (ls_trial){0};
}

bool ls_trial_stopped(const ls_trial *trial)
{
    return trial->interrupted || trial->verdict.failed;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

/* How many of the `left` steps to enqueue next: about chunk_ms of them, but not past the next
 * epoch's end (if checked there) or a planted fault. The first step after opening runs alone: the
 * heap grows once in it, which is not growth per step. */
static uint64_t next_chunk(const ls_trial *trial, uint64_t left)
{
    const uint64_t most = trial->fresh ? 1 : trial->chunk;
    uint64_t chunk = left < most ? left : most;
    if (trial->session.plan->config->target_kind == LS_TARGET_ACCURACY) {
        uint64_t per_epoch = ls_job_steps_per_epoch(&trial->session.job);
        uint64_t until = per_epoch - trial->session.step % per_epoch;
        chunk = chunk < until ? chunk : until;
    }
    const ls_fault *fault = &trial->session.plan->config->fault;
    if (ls_fault_strikes(fault) && (uint64_t)fault->step > trial->session.step) {
        uint64_t until = (uint64_t)fault->step - trial->session.step;
        chunk = chunk < until ? chunk : until;
    }
    chunk = ls_saved_until(&trial->saved, trial->workplace, &trial->session, chunk);
    chunk = ls_change_until(&trial->session, chunk);
    return chunk < trial->session.job.records ? chunk : trial->session.job.records;
}

/* How many steps of `ms` each fit into all_ms; `most` if `ms` is unknown. */
static double fitting(double all_ms, double ms, double most)
{
    const double count = ms > 0 ? all_ms / ms : most;
    return count < most ? count : most;
}

/* The chunk of independent workers follows the fastest worker, so that a slow one does not delay
 * the others at the ends of many small chunks. It is limited so that workers that have finished do
 * not take a slow one for lost. Sorts the latest times. */
static void adapt_chunk(ls_trial *trial)
{
    const ls_job *job = &trial->session.job;
    const ls_step_times *latest = &trial->latest;
    const bool alone = ls_ps_by_arrival(&job->ps);
    const double most = (double)trial->chunk * (alone && latest->count > 1 ? 256 : 4);
    const double all_ms = alone ? (double)job->ranks.timeout_ns * 1e-6 / 4 : chunk_ms;
    double chunk = fitting(all_ms, latest->mean_ms, most);
    if (alone) {
        ls_statistics_sort(latest->ms, latest->count);
        chunk = fitting(chunk_alone_ms, latest->ms[latest->count / 10], chunk);
    }
    trial->chunk = chunk < 1 ? 1 : (uint64_t)chunk;
}

static void show_progress(ls_trial *trial)
{
    const ls_plan_of_case *plan = trial->session.plan;
    const uint64_t begin = plan->job.start, warmup = (uint64_t)plan->warmup;
    const uint64_t step = trial->session.step - begin;
    uint64_t samples = ls_job_samples(&trial->session.job, trial->session.step) -
                       ls_job_samples(&trial->session.job, begin + warmup);
    double rate = trial->timed.ms > 0 ? (double)samples / trial->timed.ms * 1e3 : NAN;
    const double share = step <= warmup ? (double)step / (double)warmup
                                        : (double)(step - warmup) / (double)trial->timed.planned;
    ls_progress_update(trial->workplace->progress, share, rate, trial->learned.loss_last);
}

/* Plants the fault if it is this rank's and its step has come. */
static ls_status strike(const ls_trial *trial)
{
    const ls_fault *fault = &trial->session.plan->config->fault;
    const ls_processes *processes = trial->workplace->request->processes;
    const bool is_target = (processes->size == 1 || fault->target == processes->rank) &&
                           !trial->session.plan->config->shrinks; /* then the rank alone is gone */
    if (!ls_fault_strikes(fault) || !is_target || (uint64_t)fault->step != trial->session.step)
        return LS_OK;
    if (fault->kind == LS_FAULT_HANG && ls_plan_can_hang(trial->session.plan))
        return ls_session_hang(&trial->session, fault->target);
    if (trial->session.plan->config->ranks > processes->size) { /* a thread: it has no process */
        char rank[32];
        snprintf(rank, sizeof rank, "%d", fault->target);
        return ls_fail(LS_CODE_MISSING, "rank", rank,
                       "--inject killed this rank before step %lld; to continue without the rank, "
                       "use --on-failure shrink with --strategy mirrored or hybrid",
                       (long long)fault->step);
    }
    ls_fault_perform(fault->kind);
    return LS_OK;
}

/* Trains `count` steps by one call. */
static ls_status train_chunk(ls_trial *trial, uint64_t count, bool timed, bool accounted)
{
    ls_session *session = &trial->session;
    ls_step_times *latest = &trial->latest;
    if (accounted) /* reads idle queues, before a device is made to hang */
        LS_TRY(ls_account_begin(session, count));
    else
        trial->accounts.count = 0; /* the first step's, noted in case */
    LS_TRY(strike(trial));
    latest->memory = timed && !trial->fresh;
    LS_TRY(ls_time_steps(session, count, accounted, latest));
    if (accounted)
        LS_TRY(ls_account_add(&trial->accounts, session, latest));
    if (latest->memory)
        ls_growth_add(&trial->growth, latest->before, latest->after, count);
    if (timed)
        ls_timed_add(&trial->timed, latest);
    ls_learned_add(&trial->learned, session->plan->config, latest, timed);
    ls_check_losses(latest, &trial->verdict);
    trial->fresh = false;
    adapt_chunk(trial);
    return ls_learned_look(&trial->learned, session);
}

/* ---- Blocks --------------------------------------------------------------------------------- */

static void begin_block(ls_trial *trial)
{
    trial->block_first = trial->session.step;
    ls_noise_begin(&trial->noise, trial->session.devices, trial->session.device_count);
}

static ls_status end_block(ls_trial *trial)
{
    ls_timed *timed = &trial->timed;
    size_t left_out;
    ls_noise_end(&trial->noise);
    LS_TRY(ls_timed_unsteady(timed, trial->session.step - trial->block_first, &left_out));
    ls_account_take(&trial->accounts, ls_timed_block_ms(timed), left_out);
    ls_timed_end_block(timed, trial->block_first, left_out);
    return LS_OK;
}

/* Goes on with other members where that is due; what is timed before and after are two blocks. */
static ls_status change_members(ls_trial *trial, bool timed)
{
    const bool begun = timed && trial->session.step > trial->block_first;
    if (!ls_change_is_due(&trial->session))
        return LS_OK;
    if (begun)
        LS_TRY(end_block(trial));
    ls_status status = ls_change_members(trial->workplace, &trial->session, &trial->changes);
    if (ls_status_code(status) == LS_CODE_CHECK && trial->session.run) {
        ls_verdict_fail(&trial->verdict, "%s", ls_status_text(status));
        ls_status_free(status);
        status = LS_OK;
    }
    LS_TRY(status);
    trial->fresh = true;
    const ls_accounts before = trial->accounts; /* of other devices: is dropped */
    ls_account_close(&trial->accounts);
    LS_TRY(ls_account_open(&trial->accounts, trial->session.device_count));
    trial->accounts.which = before.which;
    if (timed)
        begin_block(trial);
    return LS_OK;
}

static ls_status train(ls_trial *trial, uint64_t steps, bool timed)
{
    const bool waterfall = trial->workplace->request->waterfall;
    while (steps && !ls_trial_stopped(trial)) {
        bool interrupted = ls_interrupted();
        LS_TRY(change_members(trial, timed));
        const bool wanted = timed && ls_account_wanted(&trial->accounts, &trial->session, waterfall,
                                                       trial->latest.mean_ms);
        uint64_t answer = 2 * next_chunk(trial, steps) + wanted;
        LS_TRY(ls_world_turn(trial->session.job.ranks.comm, LS_OK, &answer, &interrupted));
        trial->interrupted = interrupted;
        if (interrupted)
            break;
        LS_TRY(train_chunk(trial, answer / 2, timed, answer % 2));
        LS_TRY(ls_saved_write(&trial->saved, trial->workplace, &trial->session, false,
                              &trial->verdict));
        show_progress(trial);
        steps -= answer / 2;
    }
    return LS_OK;
}

ls_status ls_trial_warm_up(ls_trial *trial)
{
    LS_TRY(train(trial, (uint64_t)trial->session.plan->warmup, false));
    return ls_report_warm(&trial->session, &trial->reported);
}

/* Timed steps before a block. A block that is longer than the job's period has whole periods, so
 * that each has its share of averages. */
static int64_t steps_before(const ls_plan_of_case *plan, int64_t index, int64_t blocks)
{
    const int64_t steps = plan->timed * index / blocks, period = plan->job.update.period;
    const bool longer = period > 1 && plan->timed / blocks >= period;
    return longer && index < blocks ? steps / period * period : steps;
}

ls_status ls_trial_block(ls_trial *trial, int64_t index, int64_t blocks)
{
    ls_session *session = &trial->session;
    uint64_t count = (uint64_t)(steps_before(session->plan, index + 1, blocks) -
                                steps_before(session->plan, index, blocks));
    if (index >= blocks) { /* rank 0's times decide */
        /* an added block has whole periods */
        const uint64_t like = (uint64_t)(trial->session.plan->timed / blocks);
        const double most = 1e6,
                     fits = fitting(LS_ADDED_BLOCK_MS, ls_timed_mean_ms(&trial->timed), most);
        const uint64_t steps = like > (uint64_t)fits ? like : (uint64_t)fits + 1;
        const uint64_t period = (uint64_t)trial->session.plan->job.update.period;
        count = period > 1 ? (steps + period - 1) / period * period : steps;
        LS_TRY(ls_world_turn(session->job.ranks.comm, LS_OK, &count, NULL));
        LS_TRY(ls_world_agree(session->job.ranks.comm, expect(trial, count)));
    }
    if (index && count && !ls_trial_stopped(trial)) {
        const uint64_t begin_ns = ls_clock_ns();
        LS_TRY(ls_session_reopen(trial->workplace, &trial->session));
        trial->reopen_ns += ls_clock_ns() - begin_ns;
        trial->reopened++;
        trial->fresh = true;
    }
    begin_block(trial);
    LS_TRY(train(trial, count, true));
    return end_block(trial);
}

/* ---- The end -------------------------------------------------------------------------------- */

/* A larger heap may be a library's single allocation, or pieces kept in malloc's caches, which
 * count as allocated. So if the heap grew, some extra steps are run that are not part of the row:
 * by then the caches are full. */
static ls_status confirm_growth(ls_session *session, ls_growth *growth)
{
    bool grew = growth->calls && growth->heap_most > 0;
    uint64_t each = growth->calls ? growth->steps / growth->calls : 0;
    LS_TRY(ls_world_turn(session->job.ranks.comm, LS_OK, &each, &grew));
    if (!grew || growth->steps < LS_GROWTH_STEPS)
        return LS_OK;
    if (growth->steps < 2 * HEAP_CACHES)
        LS_TRY(ls_session_steps(session, HEAP_CACHES + 1));
    growth->calls = 0;
    for (int i = 0; i < 2; i++) {
        const ls_memory_in_use held = ls_memory_in_use_by(session);
        LS_TRY(ls_session_steps(session, each));
        ls_growth_add(growth, held, ls_memory_in_use_by(session), each);
    }
    return LS_OK;
}

/* Writes the parameters to --save, before further steps. Rank 0 decides and writes; all give it
 * what they have. */
static ls_status save_parameters(ls_trial *trial)
{
    const char *path = trial->workplace->request->save;
    uint64_t saves = trial->saves && !trial->verdict.failed;
    if (!path)
        return LS_OK;
    LS_TRY(ls_world_turn(trial->session.job.ranks.comm, LS_OK, &saves, NULL));
    if (!saves)
        return LS_OK;
    ls_workplace_busy(trial->workplace, true);
    trial->unsaved =
        ls_session_save(&trial->session, ls_session_leads(&trial->session) ? path : NULL);
    ls_workplace_busy(trial->workplace, false);
    return LS_OK;
}

ls_status ls_trial_finish(ls_trial *trial)
{
    ls_session *session = &trial->session;
    const ls_request *request = trial->workplace->request;
    ls_status profiled = LS_OK;
    LS_TRY(ls_report_memory(session, &trial->reported));
    LS_TRY(ls_check_trained(session, &trial->verdict, &trial->checked));
    LS_TRY(save_parameters(trial));
    LS_TRY(ls_saved_write(&trial->saved, trial->workplace, session, true, &trial->verdict));
    if (!ls_trial_stopped(trial))
        LS_TRY(ls_learned_evaluate(&trial->learned, session,
                                   ls_plan_evaluated(session->plan, session->step)));
    trial->interrupted |= trial->learned.stopped;
    LS_TRY(ls_learned_norm(&trial->learned, session));
    LS_TRY(ls_report_servers(session, request->ps_record, &trial->reported));
    if (!trial->timed.done || ls_trial_stopped(trial))
        return LS_OK;
    LS_TRY(confirm_growth(session, &trial->growth));
    if (request->waterfall)
        profiled = ls_profile_take(&trial->timed, trial->chunk, session, &trial->accounts,
                                   &trial->latest, &trial->profile);
    ls_report_busy(session, &trial->reported);
    if (ls_status_is_final(profiled))
        return profiled;
    ls_status_free(profiled); /* then the row has no waterfall */
    return LS_OK;
}
