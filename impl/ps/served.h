/* SPDX-License-Identifier: MIT */
/*
 * Runs with parameter servers: workers are replicas without optimizer state; each server has a
 * shard of the variables (ps_layout.h). Worker w is member w, server k is member workers + k.
 */
#pragma once

#include "impl/arrival/serve.h"
#include "impl/step/program/names.h"
#include "impl/step/resources.h"

/** A server; all zero: in another process. */
typedef struct ls_served_server {
    ls_ps_shard shard; /**< shard.replica is the member's */
    void **arrivals;   /**< [arrival_count] sums after the first, each as large as the shard */
    size_t arrival_count;
    ls_ps_serving serving; /**< all zero: the server takes part in steps instead */
    ls_received received;  /**< counted by earlier runs that this one continues */
} ls_served_server;

struct ls_step;

struct ls_served {
    ls_ps_client **clients;    /**< [workers] NULL if in another process, or without requests */
    ls_served_server *servers; /**< [servers] */
};

/** Where weight decay's part of the loss is computed. Workers get variables in each step, so one of
 * them computes it; with backup workers all do, since worker 0 may skip the step. */
ls_decay_loss ls_served_decay(const ls_step_plan *plan, int replica);

/** Opens it without servers, if there are any; then a server of this process. Close it also on
 * failure, after the members. */
ls_status ls_served_open(ls_resources *resources);
ls_status ls_served_open_server(ls_resources *resources, int member);
void ls_served_close(ls_resources *resources);

/** impl/arrival/records.c: as ls_steps_records, if servers serve requests as they arrive. */
ls_status ls_arrival_records(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                             uint64_t *mark_ns);

/** impl/arrival/run.c: opens the members' ends of requests, if servers serve as requests arrive;
 * closes all ends, before the members' queues are closed; names the memory that they need. */
ls_status ls_served_open_requests(ls_resources *resources);
void ls_served_close_requests(ls_resources *resources);
ls_status ls_served_names(const ls_resources *resources, ls_names *names);

/** ps_verbs.c: a server's buffer for sum number `sum`, counted over all workers. */
void *ls_served_sum(struct ls_step *step, int server, size_t sum);
