/* SPDX-License-Identifier: MIT */
/*
 * Layout of parameter servers: which rank is a server, which a worker, and which ranges of the flat
 * buffer each server holds. A function of the job: every process finds the same.
 *
 *     one process      a worker on each device; the server on the variable device
 *     several ranks    the first S are servers, the others workers; colocated, every rank works
 *
 * Sharded by bytes, server s holds elements floor(s P / S) to floor((s+1) P / S) - 1. By variable,
 * each variable goes whole to the server that holds the least so far, the largest first.
 */
#pragma once

#include "impl/job.h"

/** A range of a server's shard; a shard's ranges lie one after the other. */
typedef struct ls_ps_range {
    int server;
    size_t first, count; /**< elements of the flat buffer */
    size_t at;           /**< first element within the shard */
} ls_ps_range;

typedef struct ls_ps_layout {
    int servers, workers; /**< members of a run: worker w is number w, server k workers + k */
    ls_ps_range *ranges;  /**< of all servers, in the order of the flat buffer: what workers pull */
    size_t range_count;
    ls_ps_range *pushed; /**< the same cut at the bounds of buckets, in their order: what workers
                              push */
    size_t pushed_count;
    size_t *elements; /**< [servers] of each shard */
} ls_ps_layout;

/** Number of workers of a job with so many devices on all ranks. */
int ls_ps_workers(const ls_ps_options *options, int all_devices);

ls_status ls_ps_layout_open(const ls_job *job, ls_ps_layout *out);
void ls_ps_layout_close(ls_ps_layout *layout);

/** Refuses a communicator that servers cannot use which serve requests as they arrive. */
ls_status ls_ps_refuse_arrival(const char *comm);

/** Where a member is. */
typedef struct ls_ps_seat {
    int process;
    ls_device *device; /**< NULL: in another process, where there is one */
    int rank; /**< in the communicator: as devices are, the server first where one serves and works
               */
} ls_ps_seat;

ls_ps_seat ls_ps_seat_of(const ls_job *job, const ls_ps_layout *layout, int member);

/** Whether the two are on one device, so that what they exchange is no traffic. */
bool ls_ps_same_device(const ls_job *job, const ls_ps_layout *layout, int server, int worker);

/** Number of the worker on device `index` of this process; -1: none works there. */
int ls_ps_worker_on(const ls_job *job, int index);
