/* SPDX-License-Identifier: MIT */
/*
 * Report: what the servers of a `ps` run did. All processes call these functions, after sync; `run`
 * is of a strategy with servers.
 */
#pragma once

#include "common/comm/comm.h"
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

/** Bytes of gradients that the server received from other devices, and that it only moved within
 * its own (from a worker there), in all `steps` steps so far. 0: not counted.
 */
ls_received ls_ps_report_received(const ls_run *run, size_t index, uint64_t *steps);

/** Share of its time in which the server did not wait, when the run was last profiled. */
double ls_ps_report_busy(const ls_run *run, size_t index);

/** Writes what each server served since the load, in order, a line per request: server, request,
 * worker. Process 0 writes; all return the same status. LS_CODE_MISSING where it cannot. */
ls_status ls_ps_record(const ls_run *run, const char *path);

/** LS_CODE_MISSING where no file of that name can be written. Leaves none behind. */
ls_status ls_ps_record_writable(const char *path);
