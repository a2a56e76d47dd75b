/* SPDX-License-Identifier: MIT */
/*
 * Streams and events of the fake GPUs, and what is put on them: into a capture where the stream is
 * in one, else a task behind the stream's latest.
 */
#include "common/device/fake/fake_parts.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

static std::set<CUstream_st *> streams; /* that are open */
static std::set<CUevent_st *> events;
static std::map<std::pair<int, uint64_t>, CUstream_st *>
    implicit; /* by device, thread; 0 means legacy */

static CUstream_st *implicit_stream(uint64_t thread)
{
    CUstream_st *&stream = implicit[{ls_fake_current(), thread}];
    if (!stream)
        stream = new CUstream_st{ls_fake_current(), true, nullptr, nullptr, {}};
    return stream;
}

CUstream_st *fake_stream(cudaStream_t handle)
{
    if (!handle || handle == cudaStreamLegacy)
        return implicit_stream(0);
    if (handle == cudaStreamPerThread)
        return implicit_stream(fake_thread());
    if (!streams.count(handle))
        ls_fake_refuse("a stream is used that is not open");
    return handle;
}

/* What a task on this stream comes after, beside the stream's latest: the legacy stream and the
 * device's other blocking ones wait for each other. */
static void order_blocking(const CUstream_st *stream, std::vector<fake_task_ref> *after)
{
    const bool legacy = implicit[{stream->device, 0}] == stream;
    for (const auto &other : implicit)
        if (stream->blocking && other.second && other.second != stream &&
            other.first.first == stream->device && (legacy || !other.first.second))
            after->push_back(other.second->last);
    for (const CUstream_st *other : streams)
        if (legacy && other->blocking && other->device == stream->device)
            after->push_back(other->last);
}

/* Adds a task to a stream that is not captured. */
static fake_task_ref append(CUstream_st *stream, fake_job_ref job, const fake_task_ref &also)
{
    std::vector<fake_task_ref> after = {stream->last, also};
    order_blocking(stream, &after);
    return stream->last = fake_add(std::move(job), after);
}

cudaError_t fake_put(CUstream_st *stream, fake_job_ref job)
{
    if (!stream->capture) {
        append(stream, std::move(job), nullptr);
        return cudaSuccess;
    }
    fake_capture &capture = *stream->capture;
    if (capture.invalid)
        return cudaErrorStreamCaptureInvalidated;
    capture.nodes.push_back({std::move(job), stream->nodes});
    stream->nodes = {capture.nodes.size() - 1};
    return cudaSuccess;
}

int ls_fake_enqueue(void *handle, const ls_fake_work *work)
{
    if (ls_fake_device_of(handle) != ls_fake_current())
        return fake_error(cudaErrorInvalidResourceHandle);
    return ls_fake_enqueue_anywhere(handle, work);
}

int ls_fake_enqueue_anywhere(void *handle, const ls_fake_work *work)
{
    const auto lock = fake_enter();
    CUstream_st *stream = fake_stream((cudaStream_t)handle);
    void *kept = nullptr;
    if (posix_memalign(&kept, 64, work->bytes + 1))
        return fake_error(cudaErrorMemoryAllocation);
    memcpy(kept, work->context, work->bytes);
    const std::shared_ptr<void> context(kept, free);
    const auto run = work->run;
    const auto ready = work->ready;
    fake_job job = {work->name, stream->device, 0, false, [=] { run(context.get()); }, nullptr};
    job.devices = work->devices | 1u << stream->device | fake_peers(stream->device);
    if (ready)
        job.ready = [=] { return ready(context.get()); };
    return fake_error(fake_put(stream, std::make_shared<fake_job>(std::move(job))));
}

int ls_fake_device_of(void *handle)
{
    const auto lock = fake_enter();
    return fake_stream((cudaStream_t)handle)->device;
}

bool ls_fake_captured(void *handle)
{
    const auto lock = fake_enter();
    return fake_stream((cudaStream_t)handle)->capture != nullptr;
}

/* ---- Streams --------------------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    const auto lock = fake_enter();
    *out = new CUstream_st{ls_fake_current(), flags != cudaStreamNonBlocking, nullptr, nullptr, {}};
    streams.insert(*out);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    const auto lock = fake_enter();
    if (fake_stream(stream)->capture)
        ls_fake_refuse("a stream of gpu:%d is destroyed while it is captured", stream->device);
    streams.erase(stream);
    delete stream;
    return cudaSuccess;
}

// Whether the host may look at a stream's work: not while it is captured, which ends the capture.
static bool may_look(CUstream_st *stream)
{
    if (stream->capture) {
        fake_spoil(stream->capture);
        return false;
    }
    return fake_allowed();
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle)
{
    const auto lock = fake_enter();
    CUstream_st *stream = fake_stream(handle);
    if (!may_look(stream))
        return fake_error(cudaErrorStreamCaptureUnsupported);
    fake_wait(stream->last);
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle)
{
    const auto lock = fake_enter();
    CUstream_st *stream = fake_stream(handle);
    if (!may_look(stream))
        return fake_error(cudaErrorStreamCaptureUnsupported);
    if (stream->last && !stream->last->done)
        fake_progress();
    return !stream->last || stream->last->done ? cudaSuccess : fake_error(cudaErrorNotReady);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void *context)
{
    const auto lock = fake_enter();
    CUstream_st *stream = fake_stream(handle);
    fake_job job = {"a host function",          stream->device, 0, true,
                    [=] { function(context); }, nullptr};
    return fake_error(fake_put(stream, std::make_shared<fake_job>(std::move(job))));
}

/* ---- Events ---------------------------------------------------------------------------------- */

static CUevent_st *known(cudaEvent_t event)
{
    if (!events.count(event))
        ls_fake_refuse("an event is used that is not open");
    return event;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned)
{
    const auto lock = fake_enter();
    *out = new CUevent_st{ls_fake_current(), nullptr, nullptr, {}};
    events.insert(*out);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    const auto lock = fake_enter();
    events.erase(known(event));
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle)
{
    const auto lock = fake_enter();
    const CUstream_st *stream = fake_stream(handle);
    if (known(event)->device != stream->device)
        return fake_error(cudaErrorInvalidResourceHandle);
    if (stream->capture && stream->capture->invalid)
        return fake_error(cudaErrorStreamCaptureInvalidated);
    event->capture = stream->capture;
    event->nodes = stream->nodes;
    event->task = stream->capture ? nullptr : stream->last;
    return cudaSuccess;
}

/* A stream that waits for an event of a capture joins it. */
static cudaError_t wait_in_capture(CUstream_st *stream, const CUevent_st *event)
{
    if (!event->capture || event->capture->ended) {
        fake_spoil(stream->capture);
        return cudaErrorStreamCaptureIsolation;
    }
    if (stream->capture && stream->capture != event->capture) {
        fake_spoil(stream->capture);
        fake_spoil(event->capture);
        return cudaErrorStreamCaptureMerge;
    }
    if (event->capture->invalid)
        return cudaErrorStreamCaptureInvalidated;
    if (!stream->capture) {
        stream->capture = event->capture;
        stream->nodes.clear();
        event->capture->streams.push_back(stream);
    }
    stream->nodes.insert(stream->nodes.end(), event->nodes.begin(), event->nodes.end());
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned)
{
    const auto lock = fake_enter();
    CUstream_st *stream = fake_stream(handle);
    known(event);
    if (stream->capture || (event->capture && !event->capture->ended))
        return fake_error(wait_in_capture(stream, event));
    if (event->capture) /* it was never recorded again */
        return fake_error(cudaErrorCapturedEvent);
    append(stream, nullptr, event->task);
    return cudaSuccess;
}

/* Whether the host may ask for an event. */
static cudaError_t may_ask(const CUevent_st *event)
{
    if (event->capture) {
        if (!event->capture->ended)
            fake_spoil(event->capture);
        return cudaErrorCapturedEvent;
    }
    return fake_allowed() ? cudaSuccess : cudaErrorStreamCaptureUnsupported;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    const auto lock = fake_enter();
    const cudaError_t error = may_ask(known(event));
    if (error != cudaSuccess)
        return fake_error(error);
    if (event->task && !event->task->done)
        fake_progress();
    return !event->task || event->task->done ? cudaSuccess : fake_error(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    const auto lock = fake_enter();
    const cudaError_t error = may_ask(known(event));
    if (error != cudaSuccess)
        return fake_error(error);
    fake_wait(event->task);
    return cudaSuccess;
}
