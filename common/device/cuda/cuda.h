/* SPDX-License-Identifier: MIT */
/*
 * The CUDA back end's own types, shared by its files: streams, events and graphs of CUDA's run-time
 * library behind device.h. Every call of the library is checked by ls_cuda_check.
 *
 * A device that fails (an illegal address, say) stays failed: CUDA answers every further call on
 * the device with the same error, nothing waits for it, and ls_queue_sync reports the error each
 * time.
 */
#pragma once

#include "common/device/backend.h"
#include "common/device/cuda/cuda_check.h"
#include "common/device/cuda/cuda_error.h"
#include "common/device/cuda/cuda_fault.h"
#include "common/device/machine_gpus.h"
#include "common/device/watch.h"

#include <cuda_runtime_api.h>

typedef enum cuda_reach { CUDA_NOT_ASKED, CUDA_PEER, CUDA_STAGED } cuda_reach;

typedef struct cuda_device {
    ls_device base;
    int gpu;                        /* CUDA's number of it */
    ls_arena *arena;                /* entered; NULL if not yet */
    cudaStream_t service;           /* zero-filling */
    cuda_reach peers[LS_GPUS_MOST]; /* how copies from and to other GPUs go */
} cuda_device;

/* A queue's words in pinned memory, which the GPU writes, too. */
typedef struct cuda_pinned {
    char staging[(size_t)1 << 20]; /* for reads and writes */
    unsigned fault;                /* a kernel's complaint: ls_cuda_fault, or 0 if none */
    unsigned pulse;                /* counted up by kernels: a sign of life */
    unsigned steps;                /* that have ended: the low bits of the next one's number */
} cuda_pinned;

typedef struct cuda_queue {
    ls_queue base;
    cudaStream_t stream;
    cuda_pinned *pinned;
    uint64_t begun_ns;      /* of the capture that began here; 0 if none */
    uint32_t first;         /* number of the first step after ls_cuda_queue_begin */
    uint32_t enqueued;      /* replays enqueued since then */
    uint64_t ops;           /* enqueued under a watch */
    cudaEvent_t windows[2]; /* ends of the latest two windows of WINDOW_OPS operations, or NULL */
    bool counted;           /* its steps count in pinned->steps */
    bool busy;              /* at the latest look */
} cuda_queue;

typedef struct cuda_event {
    ls_event base;
    cudaEvent_t event;
} cuda_event;

typedef struct cuda_program {
    ls_program base;
    cuda_queue *queue; /* the origin */
    cudaGraphExec_t graph;
} cuda_program;

/* cuda_device.c */
/* Makes the device the calling thread's; before every other call. Fails on one that was lost. */
ls_status ls_cuda_use(const ls_device *device);
/* As ls_cuda_use, for functions that close: false if the device was lost. (CPU devices, on which
 * tests run the kernels, are never lost.) */
bool ls_cuda_reaches(const ls_device *device);

/* cuda_queue.c */
ls_status ls_cuda_queue_open(ls_device *device, const char *name, ls_queue **out);
void ls_cuda_queue_close(ls_queue *queue);
void *ls_cuda_queue_native(const ls_queue *queue);
ls_status ls_cuda_queue_put(ls_queue *queue, ls_op *op);
bool ls_cuda_queue_captured(const ls_queue *queue);
ls_status ls_cuda_queue_copy(ls_queue *queue, void *to, const ls_device *to_device,
                             const void *from, const ls_device *from_device, size_t bytes);
ls_status ls_cuda_queue_read(ls_queue *queue, void *host, const void *device, size_t bytes);
ls_status ls_cuda_queue_write(ls_queue *queue, void *device, const void *host, size_t bytes);
ls_status ls_cuda_queue_sync(ls_queue *queue);
/* Where the kernels of this queue write a fault: device-visible. */
unsigned *ls_cuda_queue_fault(const ls_queue *queue);
/* Where kernels of this queue count, to show the host its progress: device-visible. */
unsigned *ls_cuda_queue_pulse(const ls_queue *queue);
ls_status ls_cuda_queue_idle(const ls_queue *queue, bool *out);

/* cuda_watch.c */
/* Wait until the queue is empty; for an event; and, under a watch, until the queue has room for one
 * more replay, or for one more operation. */
ls_status ls_cuda_await_stream(cuda_queue *queue);
ls_status ls_cuda_await_event(const cuda_event *event);
ls_status ls_cuda_await_replay(cuda_queue *queue);
ls_status ls_cuda_await_window(cuda_queue *queue);
/* Where the last operation of a step on this queue writes the number of the next one:
 * device-visible. NULL if it is a CPU's. */
unsigned *ls_cuda_queue_steps(ls_queue *queue);
void ls_cuda_queue_begin(ls_queue *queue, uint64_t step);
void ls_cuda_queue_activity(const ls_queue *queue, ls_activity *out);
uint64_t ls_cuda_queue_progress(const ls_queue *queue);

/* cuda_program.c */
/* LS_CODE_USAGE, with `why`, if the queue is being captured. */
ls_status ls_cuda_not_capturing(const cuda_queue *queue, const char *why);
ls_status ls_cuda_event_open(ls_device *device, ls_event **out);
void ls_cuda_event_close(ls_event *event);
ls_status ls_cuda_queue_record(ls_queue *queue, ls_event *event);
ls_status ls_cuda_queue_wait(ls_queue *queue, ls_event *event);
ls_status ls_cuda_event_sync(ls_event *event);
ls_status ls_cuda_program_begin(ls_queue *queue);
ls_status ls_cuda_program_end(ls_queue *queue, ls_program **out);
ls_status ls_cuda_program_launch(ls_program *program, uint64_t times);
void ls_cuda_program_close(ls_program *program);
