/* SPDX-License-Identifier: MIT */
/*
 * Report: what the servers of a `ps` run did. All processes call its functions, after sync; `run`
 * must have servers.
 */
#pragma once

#include "common/comm/comm.h"
#include "impl/arrival/ps_order.h"
#include "impl/strategy.h"

/** Sums statistics over all servers. */
ls_status ls_ps_report_collect(const ls_run *run, ls_ps_report *out);

/** A server of this process. */
typedef struct ls_ps_server {
    const char *device;   /**< its name */
    size_t bytes;         /**< of its variables */
    ls_received received; /**< gradients received, and copied from the worker on its device, ... */
    uint64_t steps;       /**< ... in so many steps, all enqueued ones; 0 if not counted */
    double busy;          /**< share of its time without waiting, when last profiled */
} ls_ps_server;

/** Server number `index` of this process; false if there are no more. */
bool ls_ps_report_server(const ls_run *run, size_t index, ls_ps_server *out);

/** Writes the requests that each server served since the load, in order, a line each: server,
 * request, worker. Process 0 writes. *unsaved, set on success: why the file could not be written,
 * for all processes, or LS_OK. */
ls_status ls_ps_record(const ls_run *run, const char *path, ls_status *unsaved);
