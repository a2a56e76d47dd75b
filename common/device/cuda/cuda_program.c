/* SPDX-License-Identifier: MIT */
/*
 * GPU events and programs: a capture of streams, instantiated as a CUDA graph. CUDA's rules for
 * joining a capture apply; the CPU back end has the same ones, so programs captured there have the
 * same shape. Nodes are the graph's nodes; records and waits become edges and are not counted. CUDA
 * does not report a graph's memory, so `bytes` is our own struct.
 */
#include "common/base/clock.h"
#include "common/device/cuda/cuda.h"

#include <stdlib.h>

ls_status ls_cuda_not_capturing(const cuda_queue *queue, const char *why)
{
    enum cudaStreamCaptureStatus state;
    const ls_queue *base = &queue->base;
    LS_TRY(ls_cuda_check(base->device->info.text, base->name,
                         cudaStreamIsCapturing(queue->stream, &state)));
    if (state == cudaStreamCaptureStatusNone)
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, "queue", base->name, "%s", why);
}

/* If a stream does not answer it has failed, which its next call reports. */
bool ls_cuda_queue_captured(const ls_queue *base)
{
    enum cudaStreamCaptureStatus state;
    if (cudaStreamIsCapturing(((const cuda_queue *)base)->stream, &state) == cudaSuccess)
        return state != cudaStreamCaptureStatusNone;
    cudaGetLastError();
    return false;
}

/* ---- Events ---------------------------------------------------------------------------------- */

ls_status ls_cuda_event_open(ls_device *device, ls_event **out)
{
    cuda_event *event;
    LS_TRY(ls_allocate("event", &event, 1, sizeof *event));
    event->base.device = device;
    ls_status status = ls_cuda_use(device);
    if (!status)
        status = ls_cuda_check(device->info.text, "create an event",
                               cudaEventCreateWithFlags(&event->event, cudaEventDisableTiming));
    if (status) {
        free(event);
        return status;
    }
    *out = &event->base;
    return LS_OK;
}

void ls_cuda_event_close(ls_event *base)
{
    cuda_event *event = (cuda_event *)base;
    if (ls_cuda_reaches(base->device))
        cudaEventDestroy(event->event);
    cudaGetLastError();
    free(event);
}

ls_status ls_cuda_queue_record(ls_queue *base, ls_event *base_event)
{
    LS_TRY(ls_cuda_use(base->device));
    return ls_cuda_check(
        base->device->info.text, "record an event",
        cudaEventRecord(((cuda_event *)base_event)->event, ((cuda_queue *)base)->stream));
}

ls_status ls_cuda_queue_wait(ls_queue *base, ls_event *base_event)
{
    LS_TRY(ls_cuda_use(base->device));
    return ls_cuda_check(
        base->device->info.text, "wait for an event",
        cudaStreamWaitEvent(((cuda_queue *)base)->stream, ((cuda_event *)base_event)->event, 0));
}

ls_status ls_cuda_event_sync(ls_event *base)
{
    LS_TRY(ls_cuda_use(base->device));
    return ls_cuda_await_event((const cuda_event *)base);
}

/* ---- Programs -------------------------------------------------------------------------------- */

ls_status ls_cuda_program_begin(ls_queue *base)
{
    cuda_queue *queue = (cuda_queue *)base;
    LS_TRY(ls_cuda_use(base->device));
    LS_TRY(ls_cuda_not_capturing(
        queue,
        "a capture (ls_program_begin) has already begun on this queue; call ls_program_end first"));
    const uint64_t now_ns = ls_clock_ns();
    /* Other threads may allocate while this one captures. */
    LS_TRY(ls_cuda_check(base->device->info.text, "begin a capture",
                         cudaStreamBeginCapture(queue->stream, cudaStreamCaptureModeThreadLocal)));
    queue->begun_ns = now_ns;
    return LS_OK;
}

/* Words why a step could not be captured, and what works. */
static ls_status fail_capture(const cuda_queue *queue, const char *doing, cudaError_t error)
{
    if (error != cudaErrorStreamCaptureUnjoined)
        return ls_cuda_fail(queue->base.device->info.text, doing, error, "use --capture no");
    cudaGetLastError();
    return ls_fail(
        LS_CODE_USAGE, "program", queue->base.name,
        "this queue began the capture, but does not wait for another queue that joined it; record "
        "an event on the other queue after its last operation, and wait for the event here");
}

static ls_status instantiate(cuda_program *program, cudaGraph_t graph)
{
    const cuda_queue *queue = program->queue;
    cudaError_t error = cudaGraphGetNodes(graph, NULL, &program->base.info.nodes);
    if (error != cudaSuccess)
        return fail_capture(queue, "count the nodes of the step", error);
    error = cudaGraphInstantiate(&program->graph, graph, 0);
    if (error != cudaSuccess)
        return fail_capture(queue, "instantiate the step", error);
    program->base.info.bytes = sizeof *program;
    program->base.info.build_ns = ls_clock_ns() - queue->begun_ns;
    /* Makes the first launch as fast as the others. */
    error = cudaGraphUpload(program->graph, queue->stream);
    return error == cudaSuccess ? LS_OK : fail_capture(queue, "upload the step", error);
}

ls_status ls_cuda_program_end(ls_queue *base, ls_program **out)
{
    cuda_queue *queue = (cuda_queue *)base;
    cudaGraph_t graph = NULL;
    if (!queue->begun_ns)
        return ls_fail(
            LS_CODE_USAGE, "program", base->name,
            "no capture has begun on this queue; call ls_program_begin before ls_program_end");
    LS_TRY(ls_cuda_use(base->device));
    const cudaError_t error = cudaStreamEndCapture(queue->stream, &graph);
    cuda_program *program = NULL;
    ls_status status = error != cudaSuccess ? fail_capture(queue, "capture the step", error)
                                            : ls_allocate("program", &program, 1, sizeof *program);
    if (!status) {
        program->base.device = base->device;
        program->queue = queue;
        status = instantiate(program, graph);
    }
    queue->begun_ns = 0;
    if (graph)
        cudaGraphDestroy(graph);
    if (status) {
        if (program)
            ls_cuda_program_close(&program->base);
        return status;
    }
    *out = &program->base;
    return LS_OK;
}

ls_status ls_cuda_program_launch(ls_program *base, uint64_t times)
{
    const cuda_program *program = (const cuda_program *)base;
    LS_TRY(ls_cuda_use(base->device));
    LS_TRY(ls_cuda_not_capturing(
        program->queue,
        "ls_program_launch cannot be called during a capture; call ls_program_end first"));
    for (uint64_t i = 0; i < times; i++) {
        LS_TRY(ls_cuda_await_replay(program->queue));
        LS_TRY(ls_cuda_check(base->device->info.text, "launch the program",
                             cudaGraphLaunch(program->graph, program->queue->stream)));
    }
    return LS_OK;
}

void ls_cuda_program_close(ls_program *base)
{
    cuda_program *program = (cuda_program *)base;
    if (program->graph && ls_cuda_reaches(base->device)) {
        cudaStreamSynchronize(program->queue->stream);
        cudaGraphExecDestroy(program->graph);
    }
    cudaGetLastError();
    free(program);
}
