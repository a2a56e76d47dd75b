/* SPDX-License-Identifier: MIT */
/* Parts of unrolling: unroll.c goes through tasks, unroll_messages.c joins what they exchange. */
#pragma once

#include "bench/predict/unroll.h"
#include "bench/predict/virtual.h"

/* One end of a message. */
typedef struct ls_message_end {
    uint32_t ready, join; /* the end is there after `ready`; `join` waits for the message */
    int device;
    size_t count, added; /* elements */
    uint32_t rounds;
    size_t next; /* that waits in the same channel, from 1; 0 if none */
} ls_message_end;

/* Ends of one direction between two ranks of a communicator. By formula: to LS_SEEN, `first` is the
 * number of all-reduces that the rank has come to; of all-reduce `from` to LS_ALL_RANKS, `first` is
 * the activity that waits for all ranks, and `last` the number of its expansion, from 1. */
typedef struct ls_unroll_channel {
    const void *group; /* NULL if the slot is free */
    int from, to;
    bool sends;         /* what waits are sends */
    size_t first, last; /* in pending, from 1; 0 if none */
} ls_unroll_channel;

enum { LS_SEEN = -1, LS_ALL_RANKS = -2 };

typedef struct ls_unroller {
    const ls_unroll *what;
    ls_unrolled *out;
    const ls_message_times *times; /* NULL if messages cost nothing besides the network */
    uint32_t step, counted;        /* what is sent counts from step `counted` on */
    uint32_t *tail;                /* [lanes] the lane's latest activity */
    uint32_t *begun;               /* [components] the end of its previous step */
    uint32_t *done;                /* [tasks] of the step's program */
    ls_unroll_channel *channels;   /* [channel_count] hash table */
    size_t channel_count, channels_used;
    ls_message_end *pending;
    size_t pending_count, waiting;
} ls_unroller;

/* A task at work: the device and the latest activity. */
typedef struct ls_unroll_task {
    int device;
    uint32_t tail;
    double ns; /* of operations that are not in an activity yet */
    int lane, use, microbatch;
    const char *name; /* of the task */
} ls_unroll_task;

/** Makes one activity of the operations so far; `always`: even if there are none. */
ls_status ls_unroll_flush(ls_unroller *u, ls_unroll_task *w, bool always);

/** Finds a channel, or adds it. The next call may move it. */
ls_status ls_unroll_channel_of(ls_unroller *u, const void *group, int from, int to,
                               ls_unroll_channel **out);

/** Adds an exchange of a rank: a message to another rank, from one, or both. */
ls_status ls_unroll_move(ls_unroller *u, ls_unroll_task *w, const ls_virtual_comm *comm,
                         const ls_move *m);

/** Adds the time until a thread runs again, which takes no core, behind *tail. */
ls_status ls_unroll_wake(ls_unroller *u, int device, double ns, uint32_t *tail);

/** What a thread needs of its core to begin or end a transfer. */
double ls_unroll_begin_ns(const ls_unroller *u);

/** Counts what is sent in the counted steps. */
void ls_unroll_count_sent(ls_unroller *u, size_t bytes, size_t messages);
