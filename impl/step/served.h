/* SPDX-License-Identifier: MIT */
/*
 * Runs with parameter servers: workers, which are replicas without optimizer state, and servers
 * with a shard of the variables each (ps_layout.h). Members of all processes are numbered: worker w
 * is w, server k is workers + k. One in another process has no replica here, and verbs about it
 * append nothing.
 */
#pragma once

#include "impl/ps/ps_serve.h"
#include "impl/step/step_private.h"

typedef struct ls_served_server {
    ls_ps_shard shard; /**< its replica is the member's */
    void **arrivals;   /**< [arrival_count] sums of gradients, each of the shard's size, but for
                            the first one */
    size_t arrival_count;
    ls_ps_serving serving; /**< all zero: it does not serve by arrival, but takes part in steps */
    ls_received received;  /**< by the ends of earlier runs that this one continues */
} ls_served_server;

/** Where a member sends and receives; all zero: it is in another process. */
typedef struct ls_served_end {
    ls_comm *comm;
    ls_comm *control; /**< for small messages, where servers serve by arrival; else NULL */
    int lane;
} ls_served_end;

struct ls_served {
    ls_buckets buckets;
    ls_ps_layout layout;
    ls_served_end *ends; /**< [members] */
    int *here;           /**< [here_count] members of this process, by rank */
    int here_count;
    ls_comm **comms;           /**< [here_count] their ends, ... */
    ls_comm **controls;        /**< ... and those of small messages */
    ls_ps_speaker *speakers;   /**< [workers] */
    ls_served_server *servers; /**< [server_count] of this process: from number `first` */
    int server_count, first;
};

/** NULL: each member has its own variables. */
ls_served *ls_served_of(const ls_run *run);

/** The first opens the members; the second the communicators, which all processes do together.
 * Close both also on failure: the ends before the members' queues, the rest after their replicas.
 */
ls_status ls_served_open(ls_stepped *run, const ls_job *job);
ls_status ls_served_open_ends(ls_stepped *run);
void ls_served_close_ends(ls_stepped *run);
void ls_served_close(ls_served *served);

ls_status ls_served_load(ls_stepped *run, const float *parameters);
ls_status ls_served_gather(ls_stepped *run, float *parameters);
ls_status ls_served_evaluate(ls_stepped *run, uint64_t most, ls_evaluation *out);
