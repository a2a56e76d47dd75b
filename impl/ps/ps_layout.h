/* SPDX-License-Identifier: MIT */
/*
 * Layout of parameter servers: which ranks are servers or workers, and which ranges of the flat
 * buffer each server has. It depends on the job alone, so all processes compute the same layout.
 *
 *     one process      a worker on each device; the server on the variable device
 *     several ranks    the first S are servers, all others workers; colocated, all are workers
 *
 * By bytes, server s has elements floor(s P / S) to floor((s+1) P / S) - 1. By variable, each
 * variable, in descending order of size, is assigned to the server with the fewest elements so far.
 */
#pragma once

#include "impl/job.h"

/** A range of a server's shard, in which the server's ranges are contiguous. */
typedef struct ls_ps_range {
    int server;
    ls_range range; /**< of the flat buffer */
    size_t at;      /**< its first element in the shard */
} ls_ps_range;

typedef struct ls_ps_layout {
    int servers, workers; /**< worker w is member w; server k is member workers + k */
    ls_ps_range *ranges;  /**< of all servers, in the flat buffer's order, for workers to pull */
    size_t range_count;
    ls_ps_range *pushed; /**< ranges split at bucket boundaries, by bucket: what workers push */
    size_t pushed_count;
    size_t *elements; /**< [servers] size of each shard */
} ls_ps_layout;

ls_status ls_ps_layout_open(const ls_job *job, ls_ps_layout *out);
void ls_ps_layout_close(ls_ps_layout *layout);

/** Range number i of a server's shard, in the order of the flat buffer; false if there are no more.
 */
bool ls_ps_layout_range(const ls_ps_layout *layout, int server, size_t i, ls_range *out);

/** Refuses a communicator if servers cannot serve requests as they arrive with it. */
ls_status ls_ps_refuse_arrival(const char *comm);

/** The process, device and rank of a member. */
typedef struct ls_ps_seat {
    int process;
    ls_device *device; /**< NULL means in another process */
    int rank;          /**< in the communicator, by device; a server before its rank's worker */
} ls_ps_seat;

ls_ps_seat ls_ps_seat_of(const ls_job *job, const ls_ps_layout *layout, int member);

/** Whether the two are on the same device, so that their messages are not traffic. */
bool ls_ps_same_device(const ls_job *job, const ls_ps_layout *layout, int server, int worker);

/** Number of the worker on device `index` of this process; -1 if there is none. */
int ls_ps_worker_on(const ls_job *job, int index);
