/* SPDX-License-Identifier: MIT */
/*
 * Device back end: what `cpu` and `cuda` fill in behind device.h. Each entry is the function of
 * device.h that has its name; none may be NULL, unless it says so.
 */
#pragma once

#include "common/base/grow.h"
#include "common/device/device.h"
#include "common/device/pulse.h"

struct ls_activity;
struct ls_network;
struct ls_pool;
struct ls_watch;

typedef struct ls_device_backend {
    const char *name;
    ls_device_kind kind;
    /** Fills the back end's own part; `device` has its description and pool limits set. */
    ls_status (*open)(const ls_machine *machine, const ls_device_name *name,
                      const ls_memory_policy *policy, ls_device **out);
    void (*close)(ls_device *device);
    ls_status (*zero)(ls_device *device, void *memory, size_t bytes);
    /** Both may be NULL if the device reads host memory itself. */
    ls_status (*share)(ls_device *device, const void *host, size_t bytes, const void **out);
    void (*unshare)(ls_device *device, const void *shared);
    ls_status (*register_memory)(ls_device *device, void *memory, size_t bytes,
                                 int *file); /**< may be NULL */
    ls_status (*call)(ls_device *device, ls_status (*call)(void *context), void *context);
    void (*lose)(ls_device *device);        /**< may be NULL where queues always end */
    bool (*moved)(const ls_device *device); /**< may be NULL where threads stay */
    ls_status (*queue_open)(ls_device *device, const char *name, ls_queue **out);
    void (*queue_close)(ls_queue *queue);
    void *(*queue_native)(const ls_queue *queue); /**< may be NULL if there is none */
    ls_status (*queue_put)(ls_queue *queue, ls_op *op);
    ls_status (*queue_copy)(ls_queue *queue, void *to, const ls_device *to_device, const void *from,
                            const ls_device *from_device, size_t bytes);
    ls_status (*queue_read)(ls_queue *queue, void *host, const void *device, size_t bytes);
    ls_status (*queue_write)(ls_queue *queue, void *device, const void *host, size_t bytes);
    ls_status (*queue_sync)(ls_queue *queue);
    bool (*queue_captured)(const ls_queue *queue); /**< whether it is being captured */
    ls_status (*queue_idle)(const ls_queue *queue, bool *out);
    /** For a watch: the next step is number `step`, and replays are counted from it. The queue is
     * empty. May be NULL if replays are counted from the queue's opening. */
    void (*queue_begin)(ls_queue *queue, uint64_t step);
    /** For a watch, from the host thread that uses the queue. */
    void (*queue_activity)(const ls_queue *queue, struct ls_activity *out);
    ls_status (*queue_profile)(ls_queue *queue, ls_time_profile *profile,
                               ls_time_log *log); /**< may be NULL */
    ls_status (*event_open)(ls_device *device, ls_event **out);
    void (*event_close)(ls_event *event);
    ls_status (*queue_record)(ls_queue *queue, ls_event *event);
    ls_status (*queue_wait)(ls_queue *queue, ls_event *event);
    ls_status (*event_sync)(ls_event *event);
    ls_status (*program_begin)(ls_queue *queue);
    ls_status (*program_end)(ls_queue *queue, ls_program **out);
    ls_status (*program_launch)(ls_program *program, uint64_t times);
    void (*program_close)(ls_program *program);
} ls_device_backend;

/* Back ends embed ls_device and ls_queue first in their structs. */
struct ls_device {
    const ls_device_backend *backend;
    ls_device_info info;
    struct ls_pool *pool;
    struct ls_network *network; /**< that the device is plugged into; NULL if none */
    int port;                   /**< of that network */
    ls_copies copies;           /**< enqueued so far */
    struct ls_watch *watch;     /**< of its queues; NULL if none */
    ls_pulse *pulse;            /**< of all queues of its machine; NULL if none */
    uint64_t turns;             /**< begun (ls_device_turn) */
    bool lost;                  /**< ls_device_lose was called */
    ls_device *like; /**< whose library a virtual device's kernels use; NULL if its own */
    void *library;   /**< what all kernels of the device share; NULL if not open */
    void (*close_library)(void *library);
    bool (*asked)(void); /**< see ls_device_heed; NULL if nothing ends a wait */
};

struct ls_queue {
    ls_device *device;
    const char *name;
    const bool *skip;           /**< see ls_queue_skip; NULL if nothing is skipped */
    ls_time_profile *profile;   /**< NULL if not profiled */
    ls_time_log *log;           /**< NULL if none is kept */
    uint64_t waited_ns;         /**< within the current operation, if profiled */
    ls_pulse_entry pulse_entry; /**< in its machine's pulse */
};

/** Appends a stretch, or counts it as lost if the log is full. */
static inline void ls_time_log_add(ls_time_log *log, const ls_stretch *stretch)
{
    const bool peer = stretch->kind == LS_STRETCH_PEER;
    if (log->count == log->capacity || (peer && !log->peers)) {
        log->lost++;
        return;
    }
    log->peers -= peer;
    log->items[log->count++] = *stretch;
}

struct ls_event {
    ls_device *device;
};

struct ls_program {
    ls_device *device; /**< of the queue it was captured from */
    ls_program_info info;
};

extern const ls_device_backend ls_cpu_backend;
extern const ls_device_backend ls_cuda_backend; /* where LS_HAS_CUDA */

/** The back end of this build for devices of a kind; NULL if there is none. */
const ls_device_backend *ls_device_backend_find(ls_device_kind kind);
