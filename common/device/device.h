/* SPDX-License-Identifier: MIT */
/*
 * Device, queue, event, program: CUDA's model, on every back end. A device has its own memory and
 * any number of queues. A queue runs operations one after another, in the order in which they were
 * enqueued, asynchronously to the host. Events order queues. A program is what was captured from a
 * queue (and from the queues that joined it through events); one call of the host replays the whole
 * of it any number of times.
 *                 CPU device                             GPU
 *     device      a set of cores, and memory             the GPU, or a logical part of it
 *     queue       a thread bound to those cores          a stream
 *     event       a counter that threads wait for        cudaEvent_t
 *     program     a recorded list of operations          cudaGraphExec_t
 * What varies between replays (step number, position in the data, learning rate) is not an
 * argument: operations read it from a block in device memory (kernel.h, ls_step_state), and an
 * operation of the program advances it. So the host can launch many replays at once. Threads: one
 * host thread at a time may use a queue or a program; different threads may use different queues.
 * Failure: an operation that fails brings its queue into a failed state; the queue then skips every
 * operation except event records (and calls ls_op.abandon of operations that others wait for), so
 * nothing waits for ever. A queue that waits for such a record fails, too (ls_status_follows), so
 * none uses results that were never computed. ls_queue_sync reports the failure, and ends the
 * failed state.
 */
#pragma once

#include "common/base/status.h"
#include "common/device/device_memory.h"
#include "common/device/device_name.h"
#include "common/device/machine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Cores, or a GPU or a part of it, with its memory. */
typedef struct ls_device ls_device;
/** Operations of one device, in order. */
typedef struct ls_queue ls_queue;
/** A point in a queue, which others wait for. */
typedef struct ls_event ls_event;
/** What was captured, to be replayed. */
typedef struct ls_program ls_program;

/* ---- Memory ------------------------------------------------------------------------------- */

/**
 * Zero-filled device memory, 64-byte aligned, first touched by the device's own thread. Zero
 * bytes give a valid pointer. LS_CODE_MISSING says how many bytes were asked for, for what, and
 * what the policy left. Not for a step: it waits for the device.
 */
ls_status ls_device_allocate(ls_device *device, ls_memory_use use, size_t bytes, void **out);

/** Takes NULL. */
void ls_device_release(ls_device *device, void *memory);

/** What the device holds; safe while it runs. */
ls_memory_ledger ls_device_ledger(const ls_device *device);

/** The pieces that the device has allocated and not released, by address. The caller frees them. */
ls_status ls_device_pieces(const ls_device *device, ls_memory_piece **out, size_t *count);

/**
 * Makes host memory readable by the device's operations (a data set, a table): by its own address
 * on a CPU; by a copy in device memory on a GPU. Undone with ls_device_unshare, which takes NULL.
 */
ls_status ls_device_share(ls_device *device, const void *host, size_t bytes, const void **out);
/** Ends the sharing; takes NULL. */
void ls_device_unshare(ls_device *device, const void *shared);

/** Lets other processes of this host map the pages that hold a piece of the device's memory, until
 * the device closes. *file: a descriptor of this process, in which address a is at offset a; a
 * process that may see this one's files opens it as /proc/PID/fd/FILE. The pages keep their
 * contents. Call it before the first step: no operation may use the pages meanwhile.
 * LS_CODE_MISSING if the system refuses. */
ls_status ls_device_register(ls_device *device, void *memory, size_t bytes, int *file);

/* ---- Device ------------------------------------------------------------------------------- */

/** What a device is. */
typedef struct ls_device_info {
    ls_device_name name;    /**< the name with which it was opened */
    char text[32];          /**< "cpu:0" */
    int cores[64];          /**< operating-system numbers; the first core_count of them */
    int core_count;         /**< 0 for a GPU */
    size_t capacity;        /**< bytes */
    char pci[16];           /**< of the GPU or the part of it; "" for CPUs */
    int multiprocessors;    /**< that its queues may use; 0 for a CPU */
    bool flushes_denormals; /**< on every thread of the device */
    bool huge_pages;        /**< large allocations ask for them */
} ls_device_info;

/** Opens a device of the machine, which must outlive it. A CPU device sets glibc's malloc (mallopt)
 *  to keep what it has, for the whole process, so that no step gives memory back to the system. */
ls_status ls_device_open(const ls_machine *machine, const ls_device_name *name,
                         const ls_memory_policy *policy, ls_device **out);

/** After its queues and programs are freed. Takes NULL. */
void ls_device_close(ls_device *device);

/** Whether the device's threads have been moved since it was opened (taskset, a control group),
 * so that they no longer run on exactly the cores that ls_device_describe lists. */
bool ls_device_moved(const ls_device *device);

/** The device's description; owned by the device. */
const ls_device_info *ls_device_describe(const ls_device *device);

/**
 * Declares the device's work as never ending, so that nobody waits for it: from here on every call
 * on a device of the same GPU fails at once, with a final failure, and closing leaves its resources
 * to the process's end. Threads of the process may still use memory and queues of the device, so
 * none may be freed. On a CPU, whose queues end, the call is only recorded.
 */
void ls_device_lose(ls_device *device);

/** From here on a wait of the host for the device's work ends soon after `asked` returns true, with
 * LS_CODE_INTERRUPTED, and the device is lost: its threads go on. On CPUs; steps of GPUs are short,
 * and are waited for. */
void ls_device_heed(ls_device *device, bool (*asked)(void));

/** Whether ls_device_lose was called on this device. */
bool ls_device_is_lost(const ls_device *device);

/** Whether its watch (watch.h) has found that a device of the process hangs: waits fail from then
 * on, and it is still to be reported what the others wait for. */
bool ls_device_stalls(const ls_device *device);

/**
 * Runs `call` on a thread set up as the device's own (its cores, its OpenMP team, denormals
 * flushed), and waits. For set-up that depends on the thread, such as creating oneDNN primitives.
 */
ls_status ls_device_call(ls_device *device, ls_status (*call)(void *context), void *context);

/* ---- Operations and queues ---------------------------------------------------------------- */

/** What a queue's time goes to; a row's division of the step time follows from that. */
typedef enum ls_time_use {
    LS_TIME_COMPUTE,  /**< operations of none of the other kinds */
    LS_TIME_BACKWARD, /**< computation of a backward pass */
    LS_TIME_WEIGHTS,  /**< computation of a separate weight pass */
    LS_TIME_OPTIMIZER,
    LS_TIME_COMMUNICATION, /**< of a communicator, once its peer is there */
    LS_TIME_COPY,
    LS_TIME_GATHER, /**< of a batch's samples: a copy, within the device */
    LS_TIME_WAIT,   /**< for a peer, within an operation of a communicator */
    LS_TIME_DELAY,  /**< on purpose, so that others wait */
    LS_TIME_IDLE,   /**< for events, for something to do */
    LS_TIME_HARNESS,
    LS_TIME_USES
} ls_time_use;

/** Where a queue's time went. */
typedef struct ls_time_profile {
    uint64_t ns[LS_TIME_USES]; /**< nanoseconds by use */
} ls_time_profile;

/** What a queue did in a stretch of time. */
typedef enum ls_stretch_kind {
    LS_STRETCH_OP,    /**< ran an operation */
    LS_STRETCH_COPY,  /**< made a copy */
    LS_STRETCH_EVENT, /**< waited for an event */
    LS_STRETCH_PEER   /**< waited for a peer, within the operation whose stretch comes next */
} ls_stretch_kind;

/** A stretch of a queue's time, by ls_clock_ns. */
typedef struct ls_stretch {
    uint64_t begin_ns;      /**< when it began */
    uint64_t end_ns;        /**< when it ended */
    const struct ls_op *op; /**< that ran; NULL if none */
    ls_stretch_kind kind;   /**< what it did */
} ls_stretch;

/** A queue's stretches, in order. The caller owns the memory. */
typedef struct ls_time_log {
    ls_stretch *items; /**< [capacity] */
    size_t count;      /**< so far */
    size_t capacity;   /**< at most */
    size_t peers;      /**< room left for waits for peers, whose number is not known beforehand */
    size_t lost;       /**< stretches that there was no room for */
} ls_time_log;

/** Memory that a run of an operation touches: addresses of this process, or of its GPU. What is
 *  written may be read, too. */
typedef struct ls_access {
    const void *memory; /**< its first byte */
    size_t bytes;       /**< of it */
    bool writes;        /**< else only reads */
} ls_access;

/** A message that a run of an operation sends to, or receives from, another device. */
typedef struct ls_op_message {
    const void *channel; /**< the end of a communicator that it goes through */
    int from, to;        /**< ranks there */
    size_t bytes;        /**< payload */
} ls_op_message;

/**
 * An operation: a kernel with its arguments bound. Made by a kernel table (kernel.h), by a
 * communicator, or by whoever embeds this struct first in its own. Belongs to one device.
 */
typedef struct ls_op {
    const char *name; /**< static text: "dense_forward.packed" */
    /** Runs on the queue's thread (CPU), or launches on the queue's stream (GPU). No allocation. */
    ls_status (*run)(struct ls_op *op, ls_queue *queue);
    /** Called instead of run on a queue that has failed, and after a run that failed: wakes all
     * that wait for this operation on another queue. May be NULL. */
    void (*abandon)(struct ls_op *op);
    void (*destroy)(struct ls_op *op); /**< frees the op itself; NULL means free(op) will do */
    /** What a communicator's operation waits for, in words: "an exchange of 8 bytes, cpu:1". Called
     *  by another thread while it runs. NULL means its name says it. */
    void (*awaits)(const struct ls_op *op, char *text, size_t size);
    ls_time_use use;         /**< what its time counts as in a profile */
    double flops;            /**< floating-point operations of one run */
    double bytes;            /**< bytes read and written of one run */
    int reorders;            /**< passes of one run that only move values to another layout */
    size_t reordered_bytes;  /**< bytes that the reorders write */
    size_t workspace;        /**< bytes of device memory that this operation alone has */
    ls_access *accesses;     /**< memory that a run touches, without workspace; orders operations */
    size_t access_count;     /**< number of accesses */
    ls_op_message *messages; /**< of one run, in the order in which its peers expect them */
    size_t message_count;    /**< number of messages */
} ls_op;

/** Adds to op->accesses; empty ones are skipped, equal ones merged. ls_op_free frees them: after
 * this, do not call op->destroy yourself. */
ls_status ls_op_touches(ls_op *op, const ls_access *accesses, size_t count);

/** Adds to op->messages; ls_op_free frees them, as it does accesses. */
ls_status ls_op_sends(ls_op *op, const ls_op_message *message);

/** Takes NULL. */
void ls_op_free(ls_op *op);

/** `name` is static text, for traces and messages. The device owns the thread, the caller the
 * queue. */
ls_status ls_queue_open(ls_device *device, const char *name, ls_queue **out);

/** Waits for the operations in the queue. Takes NULL. */
void ls_queue_close(ls_queue *queue);

/** The device of the queue. */
ls_device *ls_queue_device(const ls_queue *queue);

/** The back end's own handle: cudaStream_t on a GPU; NULL on a CPU. */
void *ls_queue_native(const ls_queue *queue);

/** Enqueues an operation, which is borrowed: it must outlive the queue's work and every program
 * that holds it. May block the host until what was enqueued before the device's latest turn is
 * done, never for what was enqueued after it. */
ls_status ls_queue_enqueue(ls_queue *queue, ls_op *op);

/**
 * Begins a turn: what is enqueued so far, on any queue of the device, can end without what follows.
 * So the host is ahead by little more than a step, and queues keep the size of a step. Call it
 * between steps that are enqueued operation by operation, not within one, whose queues may wait for
 * each other in any order. Without turns, queues grow as far as memory allows. Called by the host
 * thread that uses the device's queues.
 */
void ls_device_turn(ls_device *device);

/** Enqueues a copy within this device's memory, or from or to another device's; over a link
 * (link.h) it takes the link's time. A GPU's queue also copies from and to a CPU device's memory,
 * which it pins; a CPU's queue does not. */
ls_status ls_queue_copy(ls_queue *queue, void *to, const ls_device *to_device, const void *from,
                        const ls_device *from_device, size_t bytes);

/**
 * Bytes of the copies between devices that were enqueued on a GPU's queues. A captured one counts
 * once, however often it is replayed; copies within a GPU do not count. All zero for a CPU.
 */
typedef struct ls_copies {
    uint64_t peer_bytes;   /**< from GPU to GPU, directly */
    uint64_t staged_bytes; /**< from GPU to GPU, through the host */
    uint64_t host_bytes;   /**< from or to a CPU device */
} ls_copies;

/** Copies by this device's queues so far. */
ls_copies ls_device_copies(const ls_device *device);

/** Copies from or to host memory and waits until it is done. Not while capturing. */
ls_status ls_queue_read(ls_queue *queue, void *host, const void *device, size_t bytes);
/** As above, to the device. */
ls_status ls_queue_write(ls_queue *queue, void *device, const void *host, size_t bytes);

/**
 * Operations that are enqueued from here on are skipped in every run in which *skip is true when
 * they would start; event records and copies are not. The operation that sets *skip must precede
 * them, on this queue or on one that it has waited for. NULL ends this. `skip` is borrowed, as
 * operations are. LS_CODE_MISSING on a GPU.
 */
ls_status ls_queue_skip(ls_queue *queue, const bool *skip);

/** Whether the queue is empty. Not while capturing. */
ls_status ls_queue_idle(const ls_queue *queue, bool *out);

/** Waits until the queue is empty; returns the first failure of an operation, once. */
ls_status ls_queue_sync(ls_queue *queue);

/**
 * From here on the queue adds its time to `profile`, by a reading of the clock after every
 * operation, and its stretches to `log`, which may be NULL. A NULL profile ends this. The queue
 * must be empty; both may be read when it is empty again. LS_CODE_MISSING if the back end cannot
 * profile.
 */
ls_status ls_queue_profile(ls_queue *queue, ls_time_profile *profile, ls_time_log *log);

/** For operations that wait for a peer: the time, where the queue is profiled; else 0. */
uint64_t ls_queue_wait_begin(const ls_queue *queue);
/** Counts the time since `begin_ns` as waiting. */
void ls_queue_wait_end(ls_queue *queue, uint64_t begin_ns);
/** Counts the time from begin_ns to end_ns as waiting; none where it ends before it begins. */
void ls_queue_waited(ls_queue *queue, uint64_t begin_ns, uint64_t end_ns);
/** Called by an operation: sleeps until `ns`. Waking up late counts as waiting. */
void ls_queue_sleep_until(ls_queue *queue, uint64_t ns);

/* ---- Events ------------------------------------------------------------------------------- */

/** An event of the device's queues, owned by the caller (ls_event_close). */
ls_status ls_event_open(ls_device *device, ls_event **out);
/** After ls_queue_sync of every queue that recorded it or waits for it. Takes NULL. */
void ls_event_close(ls_event *event);

/** The event happens when the queue gets here. One record per event in a captured program. */
ls_status ls_queue_record(ls_queue *queue, ls_event *event);

/** The queue waits for the latest record of the event. If the record is part of a capture, the
 * queue joins the capture. Between a CPU's queue and a GPU's the host waits instead, in this call,
 * which cannot be captured. */
ls_status ls_queue_wait(ls_queue *queue, ls_event *event);

/** The host waits for the latest record; fails if the queue that recorded the event had failed.
 * Not for events recorded in a capture. */
ls_status ls_event_sync(ls_event *event);

/* ---- Programs ----------------------------------------------------------------------------- */

/** What a program consists of. */
typedef struct ls_program_info {
    size_t nodes;                     /**< operations, copies, records and waits */
    size_t reorders, reordered_bytes; /**< of its operations (ls_op); not counted on a GPU */
    size_t bytes;                     /**< host memory that the program takes */
    uint64_t build_ns;                /**< from begin to end of the capture */
} ls_program_info;

/**
 * From here on, what is enqueued on `queue` is recorded, not run; a queue that waits for an event
 * of the capture joins it. A queue that joined must be joined back (the origin waits for an event
 * recorded last on it) before the end: so one replay ends before the next begins.
 */
ls_status ls_program_begin(ls_queue *queue);

/** Ends the capture. LS_CODE_USAGE for a queue that was not joined back. */
ls_status ls_program_end(ls_queue *queue, ls_program **out);

/** Enqueues `times` replays, and does not wait for them. */
ls_status ls_program_launch(ls_program *program, uint64_t times);

/** What the program consists of. */
ls_program_info ls_program_describe(const ls_program *program);

/** Before its queues are closed; waits for its replays. Takes NULL. */
void ls_program_close(ls_program *program);
