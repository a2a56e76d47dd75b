/* SPDX-License-Identifier: MIT */
/* CPU queues under a watch: how the host waits for them, and what they execute; see watch.h. */
#include "common/device/cpu/cpu.h"

#include <stdio.h>

/* Between two looks for a signal. */
static const uint64_t heed_ns = 100000000;

ls_status ls_cpu_await(ls_device *device, ls_signal *signal, uint64_t target, bool heeds)
{
    ls_watch *watch = device->watch;
    bool (*asked)(void) = heeds ? device->asked : NULL;
    if (!watch && !asked) {
        ls_signal_wait(signal, target, 0);
        return LS_OK;
    }
    const uint64_t patience_ns = watch ? ls_watch_patience_ns(watch) : heed_ns;
    const uint64_t each_ns = asked && heed_ns < patience_ns ? heed_ns : patience_ns;
    for (uint64_t waited_ns = each_ns; !ls_signal_wait_for(signal, target, 0, each_ns);
         waited_ns += each_ns) {
        if (asked && asked()) {
            ls_device_lose(device);
            return ls_fail(LS_CODE_INTERRUPTED, "device", device->info.text,
                           "the run was interrupted while this device worked");
        }
        if (watch && waited_ns >= patience_ns) {
            waited_ns = 0;
            LS_TRY(ls_watch_look(watch));
        }
    }
    return LS_OK;
}

static void look_at_wait(const ls_device *for_device, ls_activity *out)
{
    out->kind = LS_AT_WAIT;
    snprintf(out->what, sizeof out->what, "an event of %s", for_device->info.text);
}

/* Only the host frees what a command points to, and only the host calls this. */
void ls_cpu_queue_activity(const ls_queue *base, ls_activity *out)
{
    cpu_queue *queue = (cpu_queue *)base; /* only read */
    const cpu_command *at = atomic_load_explicit(&queue->at, memory_order_acquire);
    *out = (ls_activity){.kind = LS_AT_REST,
                         .command = at,
                         .done = ls_signal_value(&queue->consumed),
                         .replays = atomic_load_explicit(&queue->replays, memory_order_acquire)};
    if (out->done == ls_signal_value(&queue->produced))
        return;
    out->kind = LS_AT_WORK;
    if (at && (at->kind == CPU_RUN || at->kind == CPU_UNLESS)) {
        out->kind = at->op->use == LS_TIME_COMMUNICATION ? LS_AT_WAIT : LS_AT_WORK;
        snprintf(out->what, sizeof out->what, "%s", at->op->name);
        if (at->op->awaits)
            at->op->awaits(at->op, out->what, sizeof out->what);
    } else if (at && at->kind == CPU_WAIT) {
        look_at_wait(at->event->base.device, out);
    } else if (at && at->kind == CPU_AWAIT) {
        look_at_wait(at->edge->device, out);
    }
}

/* Reads only the command's address, so any thread may call it. */
uint64_t ls_cpu_queue_progress(const ls_queue *base)
{
    cpu_queue *queue = (cpu_queue *)base; /* only read */
    const uint64_t at = (uintptr_t)atomic_load_explicit(&queue->at, memory_order_relaxed);
    const uint64_t replays = atomic_load_explicit(&queue->replays, memory_order_relaxed);
    return at + ls_signal_value(&queue->consumed) * UINT64_C(0x9e3779b97f4a7c15) +
           replays * UINT64_C(0xc2b2ae3d27d4eb4f);
}
