/* SPDX-License-Identifier: MIT */
/*
 * Virtual devices, and a communicator between them: what a strategy's step is built on where the
 * devices are not here. A device has a name and addresses; its memory is address space that costs
 * nothing until something writes to it, it has no threads, and its queues only write what the host
 * gives them. So any number of them opens, and the step program of a run on them (program.h of
 * impl/step) can be read; steps cannot be enqueued. An operation of such a device can be timed on
 * the queue of a real one (durations.h).
 *
 * The communicator makes one operation for each exchange, and with ls_virtual_allreduce one for a
 * whole all-reduce, which say what is exchanged; expand.h has the exchanges of the whole.
 * Leaves out GPUs, host calls (send, receive), and memory that ranks share.
 */
#pragma once

#include "common/comm/comm.h"
#include "common/device/device.h"

/** Opens a virtual CPU device, number `number` of its platform, with as many cores as `like`, a
 * real one, which outlives it; if NULL, with one. Kernels are made on the calling thread. A library
 * that makes one asks this thread how many threads it may use, so kernels for `like` are made
 * within a call of that device (ls_device_call). After an interrupt none is made:
 * LS_CODE_INTERRUPTED. */
ls_status ls_virtual_device_open(const ls_device_name *name, int number, ls_device *like,
                                 ls_device **out);

/** That number. */
int ls_virtual_number(const ls_device *device);

extern const ls_comm_backend ls_comm_virtual;

/** What an operation of the communicator stands for. */
typedef struct ls_virtual_comm {
    const void *group; /**< equal for all ends of one communicator */
    int rank, size;
    ls_device *const *devices; /**< [size] */
    bool whole;                /**< an all-reduce, or a half of it; else an exchange */
    ls_exchange exchange;
    ls_half half;
    ls_extent extent; /**< of the all-reduce; where blocks begin is the plan's memory */
    int64_t shards;
    ls_rank_group of;
    const ls_layout *layout; /**< of the group; NULL means one process */
    size_t sums;             /**< of exact mode: finished subtrees of this rank */
} ls_virtual_comm;

/** NULL if the operation does not belong to a virtual communicator. */
const ls_virtual_comm *ls_virtual_comm_of(const ls_op *op);

/** An all-reduce that is described by one operation, in place of `algorithm`, whose other answers
 * it gives. */
ls_allreduce ls_virtual_allreduce(const ls_allreduce *algorithm);
