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
ls_status ls_ps_report_collect(const ls_run *run, ls_ps_report *out);

/** A server of this process. */
typedef struct ls_ps_server {
    const char *device;   /**< its name */
    size_t bytes;         /**< of variables that it holds */
    ls_received received; /**< gradients from other devices, and those that it only moved from
                               one place of its own to another, for the worker on it; ... */
    uint64_t steps;       /**< ... in so many steps, all that were enqueued; 0: not counted */
    double busy;          /**< share of its time that it did not wait, while profiled last */
} ls_ps_server;

/** Number `index` of them. False: there are no more. */
bool ls_ps_report_server(const ls_run *run, size_t index, ls_ps_server *out);

/** Writes what each server served since the load, in order, a line per request: server, request,
 * worker. Process 0 writes; all return the same status. LS_CODE_MISSING where it cannot. */
ls_status ls_ps_record(const ls_run *run, const char *path);
