/* SPDX-License-Identifier: MIT */
/*
 * Servers that serve whoever comes first (ls_ps_by_arrival): one operation each, which takes what
 * workers say, from any of them, in the order in which it comes: ps_serve.c; what workers say:
 * ps_say.c.
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

/** How far a server is, since the load. */
typedef struct ls_ps_progress {
    uint64_t version; /**< updates */
    ls_ps_report seen;
    /* Backup workers: */
    int accepted;    /**< gradients of the present update */
    int64_t samples; /**< samples of these gradients */
} ls_ps_progress;

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
    ls_ps_log log;
    ls_ps_progress now;
    ls_traffic served; /**< backup workers: traffic of what it served, by formula */
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

/** Appends the message of a worker to the server of that rank; with backup workers a pull ends with
 *  the answer: the worker is `late`, or the variables follow. */
ls_status ls_ps_say(ls_ps_speaker *speaker, int server, ls_ps_kind kind, ls_op_list *ops);

/** Appends the beginning of a step where there are backup workers: is it late already? */
ls_status ls_ps_begin(ls_ps_speaker *speaker, ls_op_list *ops);

/** How many gradients make an update of a batch of so many samples, with backup workers. */
int ls_ps_backup_needed(const ls_job *job, int workers, int64_t batch);
