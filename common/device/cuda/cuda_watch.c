/* SPDX-License-Identifier: MIT */
/*
 * GPU queues under a watch: how the host waits for them, and what they execute; see watch.h.
 * Hanging and slow streams are also emulated (test_watch_emulated). A call that waits for a
 * hanging stream never returns. So under a watch the host only polls: whether a stream or
 * event is done, and a word in pinned memory, which the last operation of each step sets to the
 * number of finished steps. CUDA limits the launches in a stream to some thousand; beyond, the
 * enqueueing call blocks. So the host limits itself: to MOST_REPLAYS replays beyond that word, and
 * to two windows of operations enqueued one by one, with an event at the end of each window. CUDA's
 * limit is not documented; 512 replays are a guess. Not limited: programs whose steps end on
 * another queue than the one that launches them.
 */
#include "common/base/clock.h"
#include "common/device/cuda/cuda.h"

#include <stdio.h>

/* Most replays that the host may be ahead; operations per window, each possibly several launches.
 */
enum { MOST_REPLAYS = 512, WINDOW_OPS = 64 };

/* The host first polls for this long without a pause; then it sleeps a fraction of the time waited
 * so far, at most 0.2 ms. */
static const uint64_t awake_ns = 100000, part = 16, nap_ns = 200000;

/* ---- Waiting --------------------------------------------------------------------------------- */

typedef struct cuda_wait {
    cuda_queue *queue;
    cudaEvent_t event;
} cuda_wait;

typedef cudaError_t cuda_look(const cuda_wait *wait);

static uint32_t steps_done(const cuda_queue *queue)
{
    return __atomic_load_n(&queue->pinned->steps, __ATOMIC_ACQUIRE) - queue->first;
}

static cudaError_t look_at_stream(const cuda_wait *wait)
{
    return cudaStreamQuery(wait->queue->stream);
}

static cudaError_t look_at_event(const cuda_wait *wait)
{
    return cudaEventQuery(wait->event);
}

/* An empty stream has done everything, whatever its word says. */
static cudaError_t look_for_room(const cuda_wait *wait)
{
    cuda_queue *queue = wait->queue;
    if (queue->enqueued - steps_done(queue) < MOST_REPLAYS)
        return cudaSuccess;
    const cudaError_t error = cudaStreamQuery(queue->stream);
    if (error == cudaSuccess)
        queue->enqueued = steps_done(queue);
    return error;
}

static ls_status await(const ls_device *device, const char *doing, const cuda_wait *wait,
                       cuda_look *look)
{
    const uint64_t begin_ns = ls_clock_ns();
    uint64_t looked_ns = begin_ns;
    cudaError_t error;
    while ((error = look(wait)) == cudaErrorNotReady) {
        const uint64_t now_ns = ls_clock_ns(), nap = (now_ns - begin_ns) / part;
        if (now_ns - looked_ns >= ls_watch_patience_ns(device->watch)) {
            looked_ns = now_ns;
            LS_TRY(ls_watch_look(device->watch));
        }
        if (now_ns - begin_ns > awake_ns)
            ls_clock_sleep(nap < nap_ns ? nap : nap_ns);
    }
    cudaGetLastError(); /* "not ready" is not a failure */
    return ls_cuda_check(device->info.text, doing, error);
}

ls_status ls_cuda_await_stream(cuda_queue *queue)
{
    const ls_device *device = queue->base.device;
    if (!device->watch)
        return ls_cuda_check(device->info.text, queue->base.name,
                             cudaStreamSynchronize(queue->stream));
    return await(device, queue->base.name, &(cuda_wait){.queue = queue}, look_at_stream);
}

ls_status ls_cuda_await_event(const cuda_event *event)
{
    static const char doing[] = "wait for an event";
    const ls_device *device = event->base.device;
    if (!device->watch)
        return ls_cuda_check(device->info.text, doing, cudaEventSynchronize(event->event));
    return await(device, doing, &(cuda_wait){.event = event->event}, look_at_event);
}

ls_status ls_cuda_await_replay(cuda_queue *queue)
{
    if (queue->base.device->watch && queue->counted)
        LS_TRY(await(queue->base.device, queue->base.name, &(cuda_wait){.queue = queue},
                     look_for_room));
    queue->enqueued++;
    return LS_OK;
}

ls_status ls_cuda_await_window(cuda_queue *queue)
{
    const ls_device *device = queue->base.device;
    cudaEvent_t *event = &queue->windows[queue->ops / WINDOW_OPS % 2];
    if (!device->watch || ++queue->ops % WINDOW_OPS || ls_cuda_queue_captured(&queue->base))
        return LS_OK;
    if (!*event)
        LS_TRY(ls_cuda_check(device->info.text, "create an event",
                             cudaEventCreateWithFlags(event, cudaEventDisableTiming)));
    LS_TRY(await(device, queue->base.name, &(cuda_wait){.event = *event}, look_at_event));
    return ls_cuda_check(device->info.text, "record an event",
                         cudaEventRecord(*event, queue->stream));
}

/* ---- What a queue is at ---------------------------------------------------------------------- */

unsigned *ls_cuda_queue_steps(ls_queue *base)
{
    cuda_queue *queue = (cuda_queue *)base;
    if (base->device->info.name.kind != LS_DEVICE_GPU)
        return NULL;
    queue->counted = true;
    return &queue->pinned->steps;
}

void ls_cuda_queue_begin(ls_queue *base, uint64_t step)
{
    cuda_queue *queue = (cuda_queue *)base;
    queue->first = (uint32_t)step;
    queue->enqueued = 0;
    __atomic_store_n(&queue->pinned->steps, queue->first, __ATOMIC_RELEASE);
}

/* Never calls CUDA for a lost device: its queues keep their last activity. */
void ls_cuda_queue_activity(const ls_queue *base, ls_activity *out)
{
    cuda_queue *queue = (cuda_queue *)base; /* only read */
    if (ls_cuda_reaches(base->device) && !ls_cuda_queue_captured(base)) {
        queue->busy = cudaStreamQuery(queue->stream) == cudaErrorNotReady;
        cudaGetLastError(); /* the next wait reports a failed device */
    }
    *out = (ls_activity){.kind = queue->busy ? LS_AT_WORK : LS_AT_REST,
                         .done = __atomic_load_n(&queue->pinned->pulse, __ATOMIC_ACQUIRE) +
                                 queue->ops + queue->enqueued,
                         .replays = queue->counted ? steps_done(queue) : UINT64_MAX};
    snprintf(out->what, sizeof out->what, "queue %s", base->name);
}

/* Any thread may call this, since it does not call CUDA. */
uint64_t ls_cuda_queue_progress(const ls_queue *base)
{
    const cuda_pinned *pinned = ((const cuda_queue *)base)->pinned;
    return __atomic_load_n(&pinned->steps, __ATOMIC_RELAXED) +
           __atomic_load_n(&pinned->pulse, __ATOMIC_RELAXED) * UINT64_C(0x9e3779b97f4a7c15);
}
