/* SPDX-License-Identifier: MIT */
/* Losses, accuracy and targets; see trial.h. */
#include "bench/train/trial/trial.h"

#include "bench/train/session.h"
#include "common/base/grow.h"

#include <math.h>
#include <stdlib.h>

enum { LOSS_TARGET_STEPS = 10 };

ls_learned ls_learned_begin(void)
{
    return (ls_learned){.accuracy = NAN, .gradient_norm = NAN};
}

void ls_learned_close(ls_learned *learned)
{
    free(learned->losses);
    free(learned->step_ms);
    *learned = (ls_learned){0};
}

ls_status ls_learned_expect(ls_learned *learned, uint64_t count)
{
    const size_t steps = learned->losses_kept + count + 1, room = steps + learned->room;
    if (steps <= learned->room)
        return LS_OK;
    LS_TRY(ls_enlarge("trial", &learned->step_ms, room, sizeof *learned->step_ms));
    LS_TRY(ls_enlarge("trial", &learned->losses, room, sizeof *learned->losses));
    learned->room = room;
    return LS_OK;
}

static void reach_target(ls_learned *learned, uint64_t steps)
{
    if (learned->target_reached)
        return;
    learned->target_reached = true;
    learned->steps_to_target = steps;
    learned->ms_to_target = learned->ms;
}

static void look_at_loss(ls_learned *learned, const ls_case *config, uint64_t step, double loss)
{
    if (config->target_kind != LS_TARGET_LOSS)
        return;
    learned->target_sum += loss;
    learned->target_steps++;
    if ((step + 1) % LOSS_TARGET_STEPS)
        return;
    /* a run that goes on from a checkpoint may begin between two looks */
    if (learned->target_steps == LOSS_TARGET_STEPS &&
        learned->target_sum / LOSS_TARGET_STEPS <= config->target)
        reach_target(learned, step + 1);
    learned->target_sum = 0;
    learned->target_steps = 0;
}

void ls_learned_add(ls_learned *learned, const ls_case *config, const ls_step_times *steps,
                    bool timed)
{
    for (uint64_t i = 0; i < steps->count; i++) {
        const double loss = steps->records[i].loss;
        if (learned->trained++ == 0)
            learned->loss_first = loss;
        learned->loss_last = loss;
        learned->step_last = steps->first + i;
        learned->ms += steps->ms[i];
        look_at_loss(learned, config, steps->first + i, loss);
        if (!timed || !learned->losses)
            continue;
        learned->step_ms[learned->losses_kept] = steps->ms[i];
        learned->losses[learned->losses_kept++] = loss;
    }
}

ls_status ls_learned_norm(ls_learned *learned, const ls_session *session)
{
    const ls_run *run = session->run;
    if (session->job.update.period)
        LS_TRY(run->functions->exchanged(run, &learned->exchanged));
    return session->job.update.clip > 0 && learned->trained
               ? run->functions->norm(run, &learned->gradient_norm)
               : LS_OK;
}

ls_status ls_learned_evaluate(ls_learned *learned, ls_session *session, uint64_t samples)
{
    ls_evaluation found;
    learned->accuracy = NAN;
    learned->evaluated = 0;
    if (!samples)
        return LS_OK;
    LS_TRY(ls_session_evaluate(session, samples, false, &found));
    learned->stopped = found.stopped;
    if (found.stopped)
        return LS_OK;
    learned->accuracy = found.accuracy;
    learned->evaluated = samples;
    return LS_OK;
}

ls_status ls_learned_look(ls_learned *learned, ls_session *session)
{
    const ls_case *config = session->plan->config;
    if (config->target_kind != LS_TARGET_ACCURACY || learned->target_reached ||
        session->step % ls_job_steps_per_epoch(&session->job))
        return LS_OK;
    LS_TRY(ls_learned_evaluate(learned, session, session->plan->data->test.samples));
    learned->stopped = false; /* training stops, too */
    if (learned->accuracy >= config->target)
        reach_target(learned, session->step);
    return LS_OK;
}
