/* SPDX-License-Identifier: MIT */
/*
 * What the files of the fake GPU share. One lock protects all of it; work runs under the lock, in
 * the thread that waits for something, with no other memory of devices in reach than its own.
 */
#pragma once

#include "common/device/fake/fake.h"

#include <cuda_runtime_api.h>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

enum { FAKE_MOST = 8 };

/* What a task, or a node of a graph, does. */
struct fake_job {
    std::string name;
    int device;
    unsigned devices; /* bits of the devices whose memory it may touch */
    bool on_host;     /* a host function: in a separate thread, without memory of devices */
    std::function<void()> run; /* both may be empty */
    std::function<bool()> ready;
};
using fake_job_ref = std::shared_ptr<const fake_job>;

struct fake_task;
using fake_task_ref = std::shared_ptr<fake_task>;

/* A job that waits for others and then for its turn. */
struct fake_task {
    fake_job_ref job;                              /* NULL means only a point in time */
    std::function<void(const fake_task &)> expand; /* adds tasks that `end` waits for */
    std::vector<fake_task_ref> after, before;
    unsigned waits = 0;  /* for so many of `after` */
    uint64_t wanted = 0; /* by the wait of that number */
    bool done = false;
};

struct fake_node {
    fake_job_ref job;
    std::vector<size_t> after;
};

struct fake_capture {
    std::vector<fake_node> nodes;
    std::vector<CUstream_st *> streams; /* the first one began it */
    uint64_t thread;
    cudaStreamCaptureMode mode;
    bool invalid = false, ended = false;
};
using fake_capture_ref = std::shared_ptr<fake_capture>;

struct CUstream_st {
    int device;
    bool blocking; /* orders itself with the device's legacy stream */
    fake_task_ref last;
    fake_capture_ref capture;
    std::vector<size_t> nodes; /* what its next node of the capture comes after */
};

struct CUevent_st {
    int device;
    fake_task_ref task; /* NULL if nothing to wait for */
    fake_capture_ref capture;
    std::vector<size_t> nodes;
};

struct CUgraph_st {
    std::vector<fake_node> nodes;
};

struct CUgraphExec_st {
    std::shared_ptr<const std::vector<fake_node>> nodes;
    fake_task_ref last; /* end of its latest launch */
};

/* Holds the lock for a call of the run-time library. */
std::unique_lock<std::recursive_mutex> fake_enter();

/* ---- fake_work.cpp: tasks -------------------------------------------------------------------- */

/* A task that comes after others; NULL among them counts as done. */
fake_task_ref fake_add(fake_job_ref job, const std::vector<fake_task_ref> &after);
void fake_depend(const fake_task_ref &task, const fake_task_ref &on);
/* Runs work, in a random order that is allowed, until the task is done; gives up the lock where
 * another thread has to act. */
void fake_wait(const fake_task_ref &task);
/* Runs a few tasks. */
void fake_progress();
/* Whether a device has work that has not run. */
bool fake_busy(int device);
void fake_drain();
/* Whether a function of the host has held up a stream. */
bool fake_held_up();
/* The job that runs now; NULL if there is none. */
const fake_job *fake_running();

/* ---- fake_memory.cpp ------------------------------------------------------------------------- */

/* Lets code touch the memory of the devices whose bits are set, and of no others. */
void fake_reach(unsigned devices);
bool fake_is_pinned(const void *memory, size_t bytes);
int fake_leaks();

/* ---- fake_streams.cpp ------------------------------------------------------------------------ */

/* The stream that a handle names; legacy and per-thread ones are made when first used. */
CUstream_st *fake_stream(cudaStream_t stream);
cudaError_t fake_put(CUstream_st *stream, fake_job_ref job);

/* ---- fake_graphs.cpp ------------------------------------------------------------------------- */

/* Whether a call that a capture forbids may be made by this thread; if not, its captures are
 * invalid. */
bool fake_allowed();
void fake_spoil(const fake_capture_ref &capture);

/* ---- fake_devices.cpp ------------------------------------------------------------------------ */

int fake_count();
/* Keeps the thread's latest error, and returns it. */
cudaError_t fake_error(cudaError_t error);
unsigned fake_peers(int device);
uint64_t fake_thread();
