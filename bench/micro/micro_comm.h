/* SPDX-License-Identifier: MIT */
/* Collectives of `lockstep micro`: shared by micro_comm.c, which measures, and micro_calls.c, which
 * makes a program of one call. */
#pragma once

#include "bench/micro/micro.h"

/** One rank of this process. */
typedef struct ls_micro_member {
    ls_device *device;
    ls_queue *queue;
    ls_comm *comm;
    float *input, *data, *scratch; /**< [count], [count], as the algorithm needs */
    ls_op_list ops;
    ls_event *left;      /**< with joint ranks (ls_comm_is_joint): the rank has done its part of
                              a call */
    ls_program *program; /**< NULL means members[0]'s program holds its operations */
} ls_micro_member;

/** A collective of one size. */
typedef struct ls_collective {
    const char *name, *redop;
    const ls_bench *bench;         /**< of this process's first rank */
    const ls_allreduce *algorithm; /**< of all-reduces and their halves; else NULL */
    ls_half half;                  /**< of that: all-gather, reduce-scatter or the whole */
    bool out_of_place;
    ls_comm *comm;    /**< of the processes; NULL means this one alone */
    int first, local; /**< this process's ranks: members [local] */
    int ranks;
    size_t count;
    size_t *offsets, *counts; /**< [ranks]: the shares of the buffer (ls_allreduce.half) */
    ls_micro_member *members;
    ls_event *begun; /**< with joint ranks: a call has begun */
    uint64_t calls;
} ls_collective;

/** Whether it is the collective of this name. */
bool ls_collective_is(const ls_collective *c, const char *name);

/** Makes the operations of one call for each rank of this process, and the programs that replay it.
 * Freed, also on failure, by ls_collective_clear, while the communicator is open. */
ls_status ls_collective_capture(ls_collective *c);
void ls_collective_clear(ls_collective *c);

/** Replays the call `times` times; *ns is the time by the clock of this process's first rank. */
ls_status ls_collective_time(const ls_collective *c, uint64_t times, uint64_t *ns);
