/* SPDX-License-Identifier: MIT */
/*
 * Report: what the servers of a `ps` run saw, of all processes, which all call these; and the
 * replay of what they did, which proves that the order of arrival is all that a run's bits depend
 * on. `run` is one of a strategy that serves. After sync.
 */
#ifndef LS_IMPL_PS_REPORT_H
#define LS_IMPL_PS_REPORT_H

#include "impl/ps/ps_order.h"
#include "impl/strategy.h"

/** Over all servers. */
typedef struct ls_ps_report {
    ls_ps_histogram lead;      /**< steps that a worker was ahead when its gradient was applied */
    ls_ps_histogram staleness; /**< updates by others since its pull */
    uint64_t dropped;          /**< gradients that came too late, with backup workers */
} ls_ps_report;

ls_status ls_ps_report_collect(const ls_run *run, ls_ps_report *out);

/** Servers of this process. */
size_t ls_ps_report_servers(const ls_run *run);

/** Bytes of variables that server `index` of this process holds, and where. */
size_t ls_ps_report_bytes(const ls_run *run, size_t index, const ls_device **device);

/** Bytes of gradients that it received from other devices, and that it only moved from one place of
 *  its own to another, for the worker on it; in `steps` steps, all that were put. 0: not counted.
 */
ls_received ls_ps_report_received(const ls_run *run, size_t index, uint64_t *steps);

/** Share of its time that it did not wait, while the run was profiled last. */
double ls_ps_report_busy(const ls_run *run, size_t index);

/** What each server did, in order: process 0 gets [servers] logs, the others empty ones; to be
 *  freed. All have the same success. */
ls_status ls_ps_report_logs(const ls_run *run, ls_ps_log **logs, int *servers);
void ls_ps_report_free(ls_ps_log *logs, int servers);

/**
 * The same again in sequence, on `device`, from parameters `initial` and logs
 * since the load: out, float32 [elements], has the run's bits. LS_CODE_CHECK where the logs cannot
 * be those of such a run. Process 0 alone.
 */
ls_status ls_ps_replay(const ls_run *run, ls_device *device, const ls_ps_log *logs,
                       const float *initial, float *out);

/** Whether a file of that name can be written; leaves none behind. LS_CODE_MISSING where not. */
ls_status ls_ps_logs_writable(const char *path);

/** Writes the logs, a line each event: server, what, worker. LS_CODE_MISSING where it cannot. */
ls_status ls_ps_logs_write(const ls_ps_log *logs, int servers, const char *path);

#endif
