/* SPDX-License-Identifier: MIT */
/* How parameter servers work, as a job says it; see ps_layout.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** When servers apply gradients: a step's gradients together; each as it arrives; each as it
 * arrives, with no worker more than `staleness` steps ahead (stale synchronous parallel). */
typedef enum ls_ps_mode { LS_PS_SYNC, LS_PS_ASYNC, LS_PS_SSP } ls_ps_mode;

/** How parameter servers work (ps_layout.h). */
typedef struct ls_ps_options {
    int ranks;         /**< workers and servers, as threads or processes; 0 without servers */
    ls_ps_mode mode;   /**< when gradients are applied */
    int staleness;     /**< ssp: steps that a worker may be ahead of the slowest */
    int backups;       /**< sync: backup workers; a step does not wait for so many gradients */
    size_t log_events; /**< how many served requests each server keeps, for --ps-record */
    int servers;       /**< number of servers: the first ranks */
    bool colocate;     /**< servers are workers, too */
    bool by_variable;  /**< shards are whole variables; else the same number of bytes each */
} ls_ps_options;

/** Whether servers serve requests as they arrive (serve.h), so that results depend on timing.
 * Otherwise gradients are summed in the order of the workers' numbers. */
static inline bool ls_ps_by_arrival(const ls_ps_options *ps)
{
    return ps->mode != LS_PS_SYNC || ps->backups > 0;
}

/** Number of workers, for so many devices of all ranks together: all, where there are no servers.
 */
static inline int ls_ps_workers(const ls_ps_options *ps, int all_devices)
{
    return ps->ranks < 2 || ps->colocate ? all_devices : all_devices - ps->servers;
}
