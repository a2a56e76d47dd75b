/* SPDX-License-Identifier: MIT */
/*
 * Runs whose variables are served: workers, which are replicas without optimizer state, and servers
 * with a shard of the variables each (ps_layout.h). Members are those of all processes: worker w is
 * number w, server k number workers + k; those elsewhere have no replica, and what is said of them
 * is left to their process.
 */
#pragma once

#include "impl/ps/ps_serve.h"
#include "impl/step/step_private.h"

typedef struct ls_served_server {
    ls_ps_shard shard; /**< its replica is the member's */
    void **arrivals;   /**< [arrival_count] sums of gradients but the first, the shard's each */
    size_t arrival_count;
    ls_ps_serving serving; /**< all zero: it takes part in steps */
    ls_received received;  /**< by its ends of the runs that this one goes on from */
} ls_served_server;

/** Where a member sends and receives; all zero: elsewhere. */
typedef struct ls_served_end {
    ls_comm *comm;
    ls_comm *control; /**< of small messages, where servers serve whoever comes first; else NULL */
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

/** Opens the members, then the ends: the communicators, which all processes do together. To be
 *  closed also on failure: ends before the members' queues, the rest after their replicas. */
ls_status ls_served_open(ls_stepped *run, const ls_job *job);
ls_status ls_served_open_ends(ls_stepped *run);
void ls_served_close_ends(ls_stepped *run);
void ls_served_close(ls_served *served);

ls_status ls_served_load(ls_stepped *run, const float *parameters);
ls_status ls_served_gather(ls_stepped *run, float *parameters);
ls_status ls_served_evaluate(ls_stepped *run, uint64_t most, ls_evaluation *out);
