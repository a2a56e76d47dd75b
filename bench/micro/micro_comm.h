/* SPDX-License-Identifier: MIT */
/* Collectives of `lockstep micro`: what micro_comm.c, which measures, and micro_calls.c, which
 * makes programs of one call, share. */
#pragma once

#include "bench/micro/micro.h"

/** One rank's part. */
typedef struct ls_micro_member {
    ls_device *device;
    ls_queue *queue;
    ls_comm *comm;
    float *input, *data, *scratch; /**< [count], [count], as the algorithm needs */
    ls_op_list ops;
    ls_event *left;      /**< ranks that are put together: it has nothing more to do in a call */
    ls_program *program; /**< NULL: in that of members[0] */
} ls_micro_member;

/** A collective, and one size of it. */
typedef struct ls_collective {
    const char *name, *redop;
    const ls_allreduce *algorithm; /**< of an all-reduce; else NULL */
    bool out_of_place;
    ls_comm *comm;   /**< of the processes; NULL: this one alone */
    int first, here; /**< this process's ranks: members [here] */
    int ranks;
    size_t count;
    size_t *offsets, *counts; /**< [ranks]: an even split of the buffer */
    ls_micro_member *members;
    ls_event *begun; /**< ranks that are put together: a call has begun */
    uint64_t calls;
    size_t part; /**< of the progress: the next size */
} ls_collective;

/** Whether it is the collective of this name. */
bool ls_collective_is(const ls_collective *c, const char *name);

/** Makes the operations of one call of each rank of this process, and the programs that replay it.
 *  Undone, also where it fails, by ls_collective_clear, while the communicator is open. */
ls_status ls_collective_capture(ls_collective *c);
void ls_collective_clear(ls_collective *c);

/** Replays the call so many times; *ns: by the clock of this process's first rank. */
ls_status ls_collective_time(const ls_collective *c, const ls_bench *bench, uint64_t times,
                             uint64_t *ns);
