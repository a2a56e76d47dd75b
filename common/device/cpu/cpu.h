/* SPDX-License-Identifier: MIT */
/*
 * The CPU back end's own types, shared by its files. A queue is a thread that runs commands from a
 * ring of segments; the host is the only producer. The nodes of a program are commands, too, so
 * replaying a list and draining the ring are the same loop.
 */
#pragma once

#include "common/base/signal.h"
#include "common/device/backend.h"
#include "common/device/watch.h"

#include <pthread.h>
#include <stdatomic.h>

enum { LS_CPU_SEGMENT = 256 };

typedef struct cpu_edge cpu_edge;
typedef struct cpu_list cpu_list;
typedef struct cpu_program cpu_program;

typedef enum cpu_kind {
    CPU_RUN,    /* an operation */
    CPU_UNLESS, /* an operation, unless `skip` holds */
    CPU_COPY,   /* bytes from one address to another */
    CPU_CARRY,  /* an operation over a link: it takes the link's time */
    CPU_ZERO,   /* bytes set to 0 */
    CPU_CALL,   /* a host function, waited for */
    CPU_POST,   /* an event happens: its signal's value is `count` */
    CPU_WAIT,   /* until the event's value is `count` */
    CPU_SIGNAL, /* a captured record: one more than last time */
    CPU_AWAIT,  /* a captured wait: one more than last time */
    CPU_LIST,   /* a recorded list, `count` times */
    CPU_STOP    /* the thread ends */
} cpu_kind;

typedef struct cpu_command {
    cpu_kind kind;
    uint16_t from_port, to_port; /* of CPU_CARRY, in the network of the queue's device */
    union {
        ls_op *op;
        void *to;
        struct cpu_event *event;
        cpu_edge *edge;
        cpu_list *list;
        ls_status (*call)(void *context);
    };
    union {
        const void *from;
        const bool *skip;
        void *context;
    };
    union {
        size_t bytes;
        uint64_t count;
    };
} cpu_command;

/* A piece of a queue's ring. */
typedef struct cpu_segment {
    _Atomic(struct cpu_segment *) next; /* the next one of the ring */
    _Atomic uint64_t first;             /* number of its first command */
    uint64_t end;                       /* the host's count of commands when it was full */
    cpu_command commands[LS_CPU_SEGMENT];
} cpu_segment;

/* What one queue does in a program. */
struct cpu_list {
    struct cpu_queue *queue;
    cpu_command *nodes;
    size_t count;
    uint64_t until; /* the queue's count of commands when the last launch is done */
};

/* A captured event record and its waits. Each wait counts its own replays. */
struct cpu_edge {
    ls_signal signal;
    _Atomic bool failed;     /* the queue had failed when it last recorded it; rarely written */
    bool waited;             /* some queue waits for it */
    struct cpu_event *event; /* that was recorded, until the capture ends or the event closes */
    const ls_device *device; /* device of the queue that records it */
    cpu_edge *next;
};

struct cpu_program {
    ls_program base;
    cpu_list *lists; /* lists[0] is the origin's */
    size_t list_count;
    cpu_edge *edges;
    uint64_t begun_ns;
};

typedef struct cpu_queue {
    ls_queue base;
    pthread_t thread;
    ls_signal produced;   /* commands enqueued */
    ls_signal consumed;   /* commands done */
    uint64_t enqueued;    /* the host's own count of `produced` */
    uint64_t before_turn; /* commands enqueued before the device's latest turn */
    uint64_t turns;       /* of the device, when `before_turn` was set */
    uint64_t profiled_ns; /* the profile's latest reading of the clock; 0 before the first */
    bool flushed;         /* the thread flushes denormals */
    bool bound;           /* one thread per core; false (set-up work): anywhere on the cores */
    bool failed;          /* the thread's own: skip what follows */
    _Atomic(const cpu_command *) at; /* what the thread executes; NULL if nothing */
    _Atomic uint64_t replays;        /* done */
    _Atomic(ls_status) failure;      /* first failure, for the host */
    cpu_program *capture;            /* NULL, or where commands are recorded */
    size_t capture_list;             /* this queue's index in capture->lists */
    cpu_segment *filled;             /* that the host fills; its next one is the oldest */
    size_t fill;                     /* commands in it */
    size_t room;                     /* commands in all segments */
} cpu_queue;

typedef struct cpu_event {
    ls_event base;
    ls_signal signal;
    _Atomic bool failed;  /* as an edge's */
    uint64_t recorded;    /* the host's count of records enqueued */
    cpu_program *capture; /* the capture in which it was last recorded */
    cpu_edge *edge;       /* of that capture */
} cpu_event;

typedef struct cpu_device {
    ls_device base;
    cpu_queue *service; /* zero-filling and calls */
    bool shares_cores;
    int pages_file;     /* descriptor of pages that others map (cpu_register.c); -1 if none yet */
    _Atomic int queues; /* open ones, without the service queue */
} cpu_device;

/* cpu_queue.c */
ls_status ls_cpu_queue_open(ls_device *device, const char *name, bool bound, cpu_queue **out);
void ls_cpu_queue_close(cpu_queue *queue);
/* Enqueues a command, or records it if the queue is being captured. */
ls_status ls_cpu_queue_push(cpu_queue *queue, const cpu_command *command);
/* Makes room for a command, so that the next push cannot fail. Not while capturing. */
ls_status ls_cpu_queue_reserve(cpu_queue *queue);
ls_status ls_cpu_queue_sync(ls_queue *queue);
/* As above, for a queue that is not captured. `heeds`: see ls_device_heed. */
ls_status ls_cpu_queue_finish(cpu_queue *queue, bool heeds);
ls_status ls_cpu_queue_profile(ls_queue *queue, ls_time_profile *profile, ls_time_log *log);

/* cpu_watch.c */
/* The host waits, under the device's watch. `heeds`: see ls_device_heed. */
ls_status ls_cpu_await(ls_device *device, ls_signal *signal, uint64_t target, bool heeds);
void ls_cpu_queue_activity(const ls_queue *queue, ls_activity *out);
uint64_t ls_cpu_queue_progress(const ls_queue *queue);

/* cpu_register.c */
ls_status ls_cpu_register(ls_device *device, void *memory, size_t bytes, int *file);
void ls_cpu_unregister_all(cpu_device *device);

/* cpu_program.c */
ls_status ls_cpu_program_append(cpu_queue *queue, const cpu_command *command);
ls_status ls_cpu_program_begin(ls_queue *queue);
ls_status ls_cpu_program_end(ls_queue *queue, ls_program **out);
ls_status ls_cpu_program_launch(ls_program *program, uint64_t times);
void ls_cpu_program_close(ls_program *program);
ls_status ls_cpu_event_open(ls_device *device, ls_event **out);
void ls_cpu_event_close(ls_event *event);
ls_status ls_cpu_queue_record(ls_queue *queue, ls_event *event);
ls_status ls_cpu_queue_wait(ls_queue *queue, ls_event *event);
ls_status ls_cpu_event_sync(ls_event *event);
