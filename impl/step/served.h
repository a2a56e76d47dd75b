/* SPDX-License-Identifier: MIT */
/*
 * Runs with parameter servers: workers, which are replicas without optimizer state, and servers
 * with a shard of the variables each (ps_layout.h). Worker w is member w, server k is workers + k.
 */
#pragma once

#include "impl/ps/ps_serve.h"
#include "impl/step/step_private.h"

/** A server; all zero: it is in another process. */
typedef struct ls_served_server {
    ls_ps_shard shard; /**< its replica is the member's */
    void **arrivals;   /**< [arrival_count] sums of gradients, each of the shard's size, but for
                            the first one */
    size_t arrival_count;
    ls_ps_serving serving; /**< all zero: it does not serve by arrival, but takes part in steps */
    ls_received received;  /**< by the ends of earlier runs that this one continues */
} ls_served_server;

struct ls_served {
    ls_ps_layout layout;
    ls_ps_speaker *speakers;   /**< [workers] */
    ls_served_server *servers; /**< [servers] */
};

/** NULL: each member has its own variables. */
ls_served *ls_served_of(const ls_run *run);

/** Finds who is what; then opens a server that is here. Close it also on failure, after the
 * members.
 */
ls_status ls_served_open(ls_stepped *run);
ls_status ls_served_open_server(ls_stepped *run, int member);
void ls_served_close(ls_served *served);

/** Opens a member's side of requests, between workers and servers that serve by arrival; closes all
 * sides, before the members' queues. */
ls_status ls_served_open_talk(ls_stepped *run, int member);
void ls_served_close_talk(ls_stepped *run);

/** Sets back what servers, and workers' sides of requests, know. */
void ls_served_load(ls_stepped *run);
/** The variables, or with `averages` what evaluation uses, in all processes, which all call it. */
ls_status ls_served_gather(ls_stepped *run, bool averages, float *parameters);
