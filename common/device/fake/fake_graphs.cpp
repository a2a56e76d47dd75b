/* SPDX-License-Identifier: MIT */
/*
 * Captures and graphs of the fake GPUs: what a capture forbids, the rules for joining one, and
 * replays, whose nodes run in any order that their edges allow.
 */
#include "common/device/fake/fake_parts.h"

#include <algorithm>
#include <set>

enum { LAUNCHES_MOST = 1000 }; /* that wait at once; then a launch waits for room, as on a GPU */

static thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
static std::vector<fake_capture_ref> open_ones;
static std::set<CUgraph_st *> graphs;
static std::set<CUgraphExec_st *> execs;
static std::vector<fake_task_ref> launches;

void fake_spoil(const fake_capture_ref &capture)
{
    capture->invalid = true;
}

bool fake_allowed()
{
    bool allowed = true;
    for (const fake_capture_ref &capture : open_ones) {
        const bool mine =
            capture->thread == fake_thread() && capture->mode != cudaStreamCaptureModeRelaxed;
        const bool global = capture->mode == cudaStreamCaptureModeGlobal;
        if ((mode == cudaStreamCaptureModeGlobal && (mine || global)) ||
            (mode == cudaStreamCaptureModeThreadLocal && mine)) {
            fake_spoil(capture);
            allowed = false;
        }
    }
    return allowed;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *exchanged)
{
    std::swap(mode, *exchanged);
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, enum cudaStreamCaptureStatus *out)
{
    const auto lock = fake_enter();
    const CUstream_st *stream = fake_stream(handle);
    *out = !stream->capture           ? cudaStreamCaptureStatusNone
           : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                      : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode wanted)
{
    const auto lock = fake_enter();
    CUstream_st *stream = fake_stream(handle);
    if (stream->capture || handle == cudaStreamLegacy || !handle)
        return fake_error(cudaErrorStreamCaptureUnsupported);
    stream->capture = std::make_shared<fake_capture>();
    stream->capture->streams = {stream};
    stream->capture->thread = fake_thread();
    stream->capture->mode = wanted;
    stream->nodes.clear();
    open_ones.push_back(stream->capture);
    return cudaSuccess;
}

/* Whether every stream's latest nodes come before, or are, those of the first stream. */
static bool is_joined(const fake_capture &capture)
{
    std::set<size_t> reached;
    std::vector<size_t> stack = capture.streams[0]->nodes;
    while (!stack.empty()) {
        const size_t node = stack.back();
        stack.pop_back();
        if (reached.insert(node).second)
            for (const size_t before : capture.nodes[node].after)
                stack.push_back(before);
    }
    for (const CUstream_st *stream : capture.streams)
        for (const size_t node : stream->nodes)
            if (!reached.count(node))
                return false;
    return true;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *out)
{
    const auto lock = fake_enter();
    const CUstream_st *stream = fake_stream(handle);
    const fake_capture_ref capture = stream->capture;
    *out = nullptr;
    if (!capture)
        return fake_error(cudaErrorIllegalState);
    if (capture->streams[0] != stream) {
        fake_spoil(capture);
        return fake_error(cudaErrorStreamCaptureUnmatched);
    }
    if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != fake_thread())
        return fake_error(cudaErrorStreamCaptureWrongThread);
    const cudaError_t error = capture->invalid       ? cudaErrorStreamCaptureInvalidated
                              : !is_joined(*capture) ? cudaErrorStreamCaptureUnjoined
                                                     : cudaSuccess;
    capture->ended = true;
    for (CUstream_st *one : capture->streams) {
        one->capture = nullptr;
        one->nodes.clear();
    }
    open_ones.erase(std::find(open_ones.begin(), open_ones.end(), capture));
    if (error != cudaSuccess)
        return fake_error(error);
    *out = new CUgraph_st{capture->nodes};
    graphs.insert(*out);
    return cudaSuccess;
}

/* ---- Graphs ---------------------------------------------------------------------------------- */

static CUgraph_st *known(cudaGraph_t graph)
{
    if (!graphs.count(graph))
        ls_fake_refuse("a graph is used that is not there");
    return graph;
}

static CUgraphExec_st *known(cudaGraphExec_t exec)
{
    if (!execs.count(exec))
        ls_fake_refuse("an executable graph is used that is not there");
    return exec;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *, size_t *count)
{
    const auto lock = fake_enter();
    *count = known(graph)->nodes.size();
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long)
{
    const auto lock = fake_enter();
    *out = new CUgraphExec_st{std::make_shared<const std::vector<fake_node>>(known(graph)->nodes),
                              nullptr};
    execs.insert(*out);
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    const auto lock = fake_enter();
    known(exec);
    return fake_stream(stream)->capture ? fake_error(cudaErrorStreamCaptureUnsupported)
                                        : cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    const auto lock = fake_enter();
    graphs.erase(known(graph));
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    const auto lock = fake_enter();
    if (known(exec)->last && !exec->last->done)
        ls_fake_refuse("an executable graph is destroyed before its launches have ended");
    execs.erase(exec);
    delete exec;
    return cudaSuccess;
}

/* A launch becomes a task for each node when its turn has come; `end` comes after all of them. */
static void expand(const std::vector<fake_node> &nodes, const fake_task_ref &end, uint64_t wanted)
{
    std::vector<fake_task_ref> tasks;
    for (const fake_node &node : nodes) {
        std::vector<fake_task_ref> after;
        for (const size_t before : node.after)
            after.push_back(tasks[before]);
        tasks.push_back(fake_add(node.job, after));
        tasks.back()->wanted = wanted;
        fake_depend(end, tasks.back());
    }
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle)
{
    const auto lock = fake_enter();
    CUstream_st *stream = fake_stream(handle);
    known(exec);
    if (stream->capture) {
        fake_spoil(stream->capture);
        return fake_error(cudaErrorStreamCaptureUnsupported);
    }
    launches.erase(std::remove_if(launches.begin(), launches.end(),
                                  [](const fake_task_ref &one) { return one->done; }),
                   launches.end());
    if (launches.size() >= LAUNCHES_MOST)
        fake_wait(launches.front());
    const fake_task_ref begin = fake_add(nullptr, {stream->last, exec->last});
    fake_job job = {"a launch of a graph", stream->device, 0, false, nullptr, nullptr};
    const fake_task_ref end = fake_add(std::make_shared<fake_job>(std::move(job)), {begin});
    const auto nodes = exec->nodes;
    begin->expand = [=](const fake_task &self) { expand(*nodes, end, self.wanted); };
    stream->last = exec->last = end;
    launches.push_back(end);
    return cudaSuccess;
}
