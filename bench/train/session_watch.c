/* SPDX-License-Identifier: MIT */
/* Watched sessions; see session.h. The printed lines are like the ones for processes
 * (mpi_autopsy.c), with devices instead of hosts. */
#include "bench/train/session.h"

#include "impl/delay.h"

#include <stdio.h>

/* Longer than any run. */
static const uint64_t for_ever_ns = UINT64_MAX / 4;

ls_status ls_session_watch(ls_session *session)
{
    const bool several = ls_plan_can_hang(session->plan) && session->device_count > 1;
    bool gpu = false;
    for (size_t i = 0; i < session->device_count; i++)
        gpu |= ls_device_describe(session->devices[i])->name.kind == LS_DEVICE_GPU;
    if (!several && !gpu)
        return LS_OK;
    LS_TRY(ls_watch_open(session->job.ranks.timeout_ns, &session->watch));
    for (size_t i = 0; i < session->device_count; i++)
        ls_device_watch(session->devices[i], session->watch);
    return LS_OK;
}

/* Number of devices per rank; 0 if the case has only one rank. */
static int devices_per_rank(const ls_plan_of_case *plan)
{
    return plan->config->ranks > 1 ? plan->all_devices / plan->config->ranks : 0;
}

/* Names the step (", step 37"), exactly if a replay is one step. */
static void name_step(const ls_session *session, const ls_activity *at, char text[64])
{
    const unsigned long long first = session->latest_first, count = session->latest_count;
    const bool counted = session->job.kernels.capture && session->job.ps.mode == LS_PS_SYNC;
    *text = 0;
    if (count == 1 || (counted && at->replays < count))
        snprintf(text, 64, ", step %llu", first + (count == 1 ? 0 : at->replays));
    else if (count)
        snprintf(text, 64, ", one of steps %llu to %llu", first, first + count - 1);
}

static void tell(const ls_session *session, size_t device)
{
    const ls_activity at = ls_watch_activity(session->watch, session->devices[device]);
    const double seconds = ls_watch_seconds(session->watch);
    char who[64], step[64];
    const int each = devices_per_rank(session->plan);
    const char *name = ls_device_describe(session->devices[device])->text;
    if (each && device < session->plan->device_count)
        snprintf(who, 64, "rank %d on %s", (int)device / each, name);
    else
        snprintf(who, 64, "device %s", name);
    name_step(session, &at, step);
    if (at.kind == LS_AT_WORK)
        fprintf(stderr,
                "lockstep: %s: silent: runs without progress%s%s, last sign of life %.1f s ago%s; "
                "find what stops the device, or raise --timeout, and start again\n",
                who, *at.what ? " in " : "", at.what, seconds, step);
    else if (at.kind == LS_AT_WAIT)
        fprintf(stderr, "lockstep: %s: waited %.1f s for %s%s\n", who, seconds, at.what, step);
    else if (ls_device_describe(session->devices[device])->name.kind == LS_DEVICE_CPU)
        fprintf(stderr, "lockstep: %s: did not wait for another device\n",
                who); /* a GPU may be in a program */
}

void ls_session_autopsy(const ls_session *session)
{
    for (int silent = 1; silent >= 0; silent--)
        for (size_t d = 0; d < session->device_count; d++) {
            const ls_activity at = ls_watch_activity(session->watch, session->devices[d]);
            if (silent == (at.kind == LS_AT_WORK))
                tell(session, d);
        }
}

ls_status ls_session_hang(const ls_session *session, int rank)
{
    const int each = devices_per_rank(session->plan), count = each ? each : 1;
    for (int d = rank * count; d < (rank + 1) * count; d++) {
        ls_op *hang; /* never freed: it runs for ever */
        LS_TRY(ls_delay_open(for_ever_ns, &hang));
        LS_TRY(ls_queue_enqueue(ls_watch_queue(session->watch, session->devices[d]), hang));
    }
    return LS_OK;
}
