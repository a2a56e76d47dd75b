/* SPDX-License-Identifier: MIT */
/*
 * Where the time of the timed steps went: the queues read the clock after each operation and record
 * it. All timed steps are accounted, one replay call at a time, if that costs next to nothing;
 * otherwise extra steps after them (trial_profile.c). Steps that are not yet steady are excluded. A
 * device's parts come from its own readings: from its first operation to its last, plus the wait
 * until the steps ended everywhere. Nothing forces their sum to equal the steps' time by the
 * records, which are separate readings: the residual is the difference.
 */
#include "bench/train/trial.h"
#include "bench/train/world.h"
#include "common/base/grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Cost of accounting one operation and its waits: clock readings of 30 ns (results/README.md). */
static const double noted_ns = 50, most_cost = 0.01; /* fraction of the step */

static void count_op(void *context, const ls_op *op)
{
    (void)op;
    ++*(size_t *)context;
}

/* With no warm-up nothing is known of the first step's time: it is noted in case. */
bool ls_account_wanted(ls_trial *trial)
{
    ls_accounts *a = &trial->accounts;
    const ls_session *session = &trial->session;
    const bool gpu = trial->plan->devices->kind == LS_DEVICE_GPU;
    const bool wanted = trial->workplace->request->waterfall && !gpu;
    size_t ops = 0;
    if (a->which != LS_ACCOUNTS_UNKNOWN)
        return a->which == LS_ACCOUNTS_ALL;
    if (trial->latest_ms <= 0)
        return wanted;
    session->run->kind->each_op(session->run, count_op, &ops);
    const double each = (double)ops / (double)session->device_count;
    const bool cheap = each * noted_ns <= most_cost * trial->latest_ms * 1e6;
    a->which = wanted && cheap ? LS_ACCOUNTS_ALL : LS_ACCOUNTS_NONE;
    return a->which == LS_ACCOUNTS_ALL;
}

ls_status ls_account_begin(ls_trial *trial, uint64_t steps)
{
    const ls_session *session = &trial->session;
    return ls_world_agree(session->job.comm, session->run->kind->profile(session->run, steps));
}

ls_status ls_account_end(ls_trial *trial)
{
    return ls_account_begin(trial, 0);
}

static ls_status make_room(ls_accounts *a, size_t devices)
{
    LS_TRY(ls_grow("account", &a->lots, a->count, sizeof *a->lots));
    return ls_grow("account", &a->parts, a->count, devices * sizeof *a->parts);
}

ls_status ls_account_add(ls_trial *trial, uint64_t steps, uint64_t mark_ns, uint64_t end_ns)
{
    const ls_session *session = &trial->session;
    ls_accounts *a = &trial->accounts;
    const size_t devices = session->device_count;
    ls_status status = make_room(a, devices);
    if (!status)
        status = session->run->kind->parts(session->run, devices, mark_ns, end_ns,
                                           a->parts + a->count * devices);
    LS_TRY(ls_world_agree(session->job.comm, status));
    a->lots[a->count++] = (ls_account){steps, (double)(end_ns - mark_ns) * 1e-6};
    return LS_OK;
}

/* A batch of replays with both excluded and counted steps is split by the steps' times. */
void ls_account_take(ls_trial *trial, const double *step_ms, uint64_t left_out)
{
    ls_accounts *a = &trial->accounts;
    const size_t numbers = trial->session.device_count * LS_TIME_USES;
    for (size_t i = 0; i < a->count; i++) {
        const uint64_t steps = a->lots[i].steps, out = left_out < steps ? left_out : steps;
        const uint64_t *ns = a->parts[i * trial->session.device_count].ns;
        double share = out < steps ? 1 : 0;
        for (uint64_t s = 0; s < out && out < steps; s++)
            share = fmax(share - step_ms[s] / a->lots[i].ms, 0);
        left_out -= out;
        step_ms += step_ms ? out : 0;
        for (size_t k = 0; k < numbers; k++)
            a->ns[k] += share * (double)ns[k];
        a->steps += steps - out;
        a->ms += share * a->lots[i].ms;
    }
    a->count = 0;
}

ls_status ls_account_open(ls_accounts *a, size_t devices)
{
    return ls_allocate("account", &a->ns, devices * LS_TIME_USES, sizeof *a->ns);
}

void ls_account_close(ls_accounts *a)
{
    free(a->lots);
    free(a->parts);
    free(a->ns);
    *a = (ls_accounts){0};
}
