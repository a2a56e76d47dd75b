/* SPDX-License-Identifier: MIT */
/*
 * Servers that serve requests as they arrive (ls_ps_by_arrival). A server is one operation, which
 * receives requests from any worker, in the order of arrival. Async and ssp: ps_serve.c; backup
 * workers: ps_serve_backup.c; the workers' side: ps_say.c.
 */
#pragma once

#include "common/comm/comm.h"
#include "impl/ps/ps_order.h"
#include "impl/ps/ps_shard.h"

/** A worker's side. Requests are small messages on a communicator of their own, and are not counted
 * as traffic.
 */
typedef struct ls_ps_speaker {
    ls_comm *control;
    const ls_job *job;
    const ls_step_state *state;
    int number;
    /* Backup workers: */
    bool late;       /**< the present step was decided without it, so it skips the step */
    uint64_t newest; /**< steps before this one are decided */
    bool *took;      /**< [job->records] whether it computed the step of each record */
} ls_ps_speaker;

/** A request, as it is sent. */
typedef struct ls_ps_message {
    ls_ps_event what;
    uint64_t step; /**< the worker's step, from 0 */
} ls_ps_message;

/** What a server knows of a worker. */
typedef struct ls_ps_clock {
    uint64_t steps;  /**< how many of its gradients were applied */
    uint64_t pulled; /**< version of the shard that it last pulled */
    uint64_t asked;  /**< step for which it wants the variables */
    bool waits;      /**< it waits for the variables */
} ls_ps_clock;

/** A server at work. */
typedef struct ls_ps_serving {
    const ls_job *job;
    const ls_ps_shard *shard;
    ls_comm *comm, *control;
    float *spare; /**< backup workers: [elements] for gradients that are dropped */
    ls_op_list *send, *receive, *add,
        *drop; /**< [workers] sends the shard; receives a gradient, adds one to those there,
                    receives one into `spare` */
    ls_op_list apply;
    ls_ps_clock *clocks; /**< [workers] */
    int workers, byes;
    uint64_t version; /**< updates so far */
    ls_ps_log log;
    ls_ps_histogram lead, staleness;
    /* Backup workers: */
    int accepted;      /**< gradients of the present update so far */
    int64_t samples;   /**< samples of these gradients */
    uint64_t dropped;  /**< gradients that came too late */
    ls_traffic served; /**< traffic of what it served, by formula */
} ls_ps_serving;

enum { LS_PS_TAG = 0x7073, LS_PS_ANSWER }; /* of small messages: to a server, to a worker */

/** The caller sets `job`, `shard`, `comm`, `control` and `spare`; the rest is zero. Close it also
 * on failure; a zero-filled one holds nothing. */
ls_status ls_ps_serving_open(ls_ps_serving *serving);
void ls_ps_serving_close(ls_ps_serving *serving);
/** Sets it back: nothing was served yet. */
void ls_ps_serving_load(ls_ps_serving *serving);
/** Makes the operation that serves until all workers are done (LS_PS_BYE). */
ls_status ls_ps_serving_op(ls_ps_serving *serving, ls_op **out);

/** Appends a worker's request to the server of rank `server`. */
ls_status ls_ps_say(ls_ps_speaker *speaker, int server, ls_ps_kind kind, ls_op_list *ops);

/* Backup workers. */
/** Appends the beginning of a worker's step, which finds out whether it is late already. */
ls_status ls_ps_begin(ls_ps_speaker *speaker, ls_op_list *ops);
/** Appends the request for a step's variables, and its answer: the worker is `late`, or they
 * follow. */
ls_status ls_ps_ask(ls_ps_speaker *speaker, int server, ls_op_list *ops);
/** Serves a request. */
ls_status ls_ps_backup_serve(ls_ps_serving *serving, const ls_ps_message *message, ls_queue *queue);
/** How many gradients make an update of a batch of so many samples. */
int ls_ps_backup_needed(const ls_job *job, int workers, int64_t batch);

/** Runs operations here and now, on the queue's own thread. */
ls_status ls_ps_run(const ls_op_list *ops, ls_queue *queue);
