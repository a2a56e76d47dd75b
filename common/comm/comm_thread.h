/* SPDX-License-Identifier: MIT */
/* The thread back end's own types, shared by its files: queues (comm_thread.c,
 * comm_thread_direct.c), host calls (comm_thread_host.c). */
#pragma once

#include "common/base/signal.h"
#include "common/comm/comm_mail.h"
#include "common/comm/comm_parts.h"

#include <pthread.h>

/* From one rank to another: one message at a time, by reference. Counts only grow. */
typedef struct thread_channel {
    ls_signal ready; /* messages published */
    ls_signal taken; /* messages copied or added by the receiver */
    struct thread_channel *next;
    int from, to;
    _Alignas(64) const float *data; /* the sender's: of the message published last */
    size_t count;
    uint64_t ready_ns; /* over links: when it was published */
    uint64_t sent;
    _Alignas(64) uint64_t received; /* the receiver's */
    uint64_t came_ns;    /* when it was ready for the latest message; 0 if not profiled */
    uint64_t arrival_ns; /* over links: when that has arrived; else 0 */
} thread_channel;

/* What a rank shows the others in a direct all-reduce: its buffer, or the elements themselves. */
typedef struct thread_shown {
    _Alignas(64) float *data;
    size_t count;
    float few[LS_DIRECT_FEW];
} thread_shown;

/* One rank's. Operations use the two entries in turn: one is rewritten only after a meeting (a
 * barrier) that every rank entered after reading it. */
typedef struct thread_slot {
    ls_signal met; /* barriers that the rank has reached */
    thread_shown shown[2];
} thread_slot;

typedef struct thread_group {
    int size, members; /* members: ends that are not closed */
    bool crowded;      /* some ranks share a core */
    bool linked;       /* some ranks are joined by links */
    ls_device **devices;
    thread_slot *slots;                 /* [size] */
    _Alignas(64) _Atomic int abandoned; /* 1 + rank that gave up; 0 if none */
    /* Meetings of a crowded group: the last rank to arrive wakes all. */
    _Alignas(64) _Atomic uint64_t arrived;
    ls_signal released;
    _Alignas(64) pthread_mutex_t mutex; /* of the list of channels */
    thread_channel *channels;
    ls_mailbox mail; /* of all ranks */
} thread_group;

typedef struct thread_comm {
    _Alignas(64) ls_comm base; /* it counts: no two ranks share a cache line */
    thread_group *group;
    uint64_t meetings, directs; /* that this rank's queue has been through */
    int spins;
} thread_comm;

/* comm_thread.c */
void ls_comm_thread_abandon(ls_comm *comm);

/* The failure of an operation or call that cannot end because a rank gave up. */
ls_status ls_comm_thread_abandoned(const thread_comm *comm);
bool ls_comm_thread_is_abandoned(const thread_comm *comm);

/* On a queue's thread: raises a counter; waits until one reaches `target`, false if a rank gave
 * up. */
void ls_comm_thread_post(thread_comm *comm, ls_signal *signal, uint64_t value);
bool ls_comm_thread_await(thread_comm *comm, ls_signal *signal, uint64_t target);

/* comm_thread_direct.c */
ls_status ls_comm_thread_make_direct(ls_comm *comm, ls_half half, float *data, ls_extent extent,
                                     ls_op **out);

/* comm_thread_host.c */
ls_status ls_comm_thread_send(ls_comm *comm, int to, int tag, const void *data, size_t bytes);
ls_status ls_comm_thread_receive(ls_comm *comm, int from, int tag, void *data, size_t bytes);
ls_status ls_comm_thread_receive_any(ls_comm *comm, int tag, void *data, size_t capacity, int *from,
                                     size_t *bytes);
