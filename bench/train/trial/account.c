/* SPDX-License-Identifier: MIT */
/* Accounts of the devices' time; see account.h. */
#include "bench/train/trial/account.h"

#include "bench/train/world.h"
#include "common/base/grow.h"

#include <math.h>
#include <stdlib.h>

/* Cost of accounting one operation and its waits: clock readings of 30 ns (results/README.md). */
static const double noted_ns = 50, most_cost = 0.01; /* fraction of the step */

static void count_op(void *context, const ls_op *op)
{
    (void)op;
    ++*(size_t *)context;
}

/* With no warm-up nothing is known of the first step's time: it is noted in case. */
bool ls_account_wanted(ls_accounts *a, const ls_session *session, bool waterfall, double step_ms)
{
    const bool wanted = waterfall && session->plan->devices->kind != LS_DEVICE_GPU;
    size_t ops = 0;
    if (a->which != LS_ACCOUNTS_UNKNOWN)
        return a->which == LS_ACCOUNTS_ALL;
    if (step_ms <= 0)
        return wanted;
    session->run->functions->each_op(session->run, count_op, &ops);
    const double each = (double)ops / (double)session->device_count;
    const bool cheap = each * noted_ns <= most_cost * step_ms * 1e6;
    a->which = wanted && cheap ? LS_ACCOUNTS_ALL : LS_ACCOUNTS_NONE;
    return a->which == LS_ACCOUNTS_ALL;
}

void ls_account_skip(ls_accounts *a)
{
    a->count = 0;
}

ls_status ls_account_begin(const ls_session *session, uint64_t steps)
{
    return ls_world_agree(session->job.ranks.comm,
                          session->run->functions->profile(session->run, steps));
}

ls_status ls_account_add(ls_accounts *a, const ls_session *session, const ls_step_times *steps)
{
    const uint64_t end_ns = steps->records[steps->count - 1].end_ns;
    ls_status status = ls_grow("account", &a->calls, a->count, sizeof *a->calls);
    if (!status)
        status = ls_grow("account", &a->parts, a->count, a->devices * sizeof *a->parts);
    if (!status)
        status = session->run->functions->parts(session->run, a->devices, steps->mark_ns, end_ns,
                                                a->parts + a->count * a->devices);
    LS_TRY(ls_world_agree(session->job.ranks.comm, status));
    a->calls[a->count++] = (ls_account){steps->count, (double)(end_ns - steps->mark_ns) * 1e-6};
    return LS_OK;
}

/* A batch of replays with both excluded and counted steps is split by the steps' times. */
void ls_account_take(ls_accounts *a, const double *step_ms, size_t left_out)
{
    for (size_t i = 0; i < a->count; i++) {
        const uint64_t steps = a->calls[i].steps, out = left_out < steps ? left_out : steps;
        const uint64_t *ns = a->parts[i * a->devices].ns;
        double share = out < steps ? 1 : 0;
        for (uint64_t s = 0; s < out && out < steps; s++)
            share = fmax(share - step_ms[s] / a->calls[i].ms, 0);
        left_out -= out;
        step_ms += step_ms ? out : 0;
        for (size_t k = 0; k < a->devices * LS_TIME_USES; k++)
            a->ns[k] += share * (double)ns[k];
        a->steps += steps - out;
        a->ms += share * a->calls[i].ms;
    }
    a->count = 0;
}

ls_status ls_account_open(ls_accounts *a, size_t devices)
{
    *a = (ls_accounts){.devices = devices};
    return ls_allocate("account", &a->ns, devices * LS_TIME_USES, sizeof *a->ns);
}

ls_status ls_account_renew(ls_accounts *a, size_t devices)
{
    const ls_accounts before = *a;
    ls_account_close(a);
    LS_TRY(ls_account_open(a, devices));
    a->which = before.which;
    return LS_OK;
}

void ls_account_close(ls_accounts *a)
{
    free(a->calls);
    free(a->parts);
    free(a->ns);
    *a = (ls_accounts){0};
}
