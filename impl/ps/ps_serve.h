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

/** A worker that says something: on a communicator apart, of small messages, which are no traffic.
 */
typedef struct ls_ps_speaker {
    ls_comm *control;
    const ls_job *job;
    const ls_step_state *state;
    int number;
    /* Backup workers: */
    bool late;       /**< the step at hand is decided without it: it is passed over */
    uint64_t newest; /**< steps before it are */
    bool *took;      /**< [job->records] whether it computed the step of each record */
} ls_ps_speaker;

/** What a worker says to a server. */
typedef struct ls_ps_message {
    ls_ps_event what;
    uint64_t step; /**< of the worker's, from 0 */
} ls_ps_message;

/** What a server knows of a worker. */
typedef struct ls_ps_clock {
    uint64_t steps;  /**< whose gradients were applied */
    uint64_t pulled; /**< version of the shard that it has */
    uint64_t asked;  /**< the step that it waits for the variables of */
    bool waits;      /**< has asked for the variables */
} ls_ps_clock;

/** A server at work. */
typedef struct ls_ps_serving {
    const ls_job *job;
    const ls_ps_shard *shard;
    ls_comm *comm, *control;
    float *spare;                            /**< backup workers: where nobody looks, [elements] */
    ls_op_list *send, *receive, *add, *drop; /**< [workers] the shard; a gradient: to where it is
                                                wanted, added to what is there, to `spare` */
    ls_op_list apply;
    ls_ps_clock *clocks; /**< [workers] */
    int workers, byes;
    uint64_t version; /**< updates so far */
    ls_ps_log log;
    ls_ps_histogram lead, staleness;
    /* Backup workers: */
    int accepted;      /**< gradients of the update at hand */
    int64_t samples;   /**< that these are of */
    uint64_t dropped;  /**< gradients that came too late */
    ls_traffic served; /**< what the shards and gradients, each time, are by formula */
} ls_ps_serving;

enum { LS_PS_TAG = 0x7073, LS_PS_ANSWER }; /* of small messages: to a server, to a worker */

/** `job`, `shard`, `comm`, `control` and `spare` are set, the rest is zero. To be closed also on
 *  failure; a zero-filled one holds nothing. */
ls_status ls_ps_serving_open(ls_ps_serving *serving);
void ls_ps_serving_close(ls_ps_serving *serving);
/** Nothing was served yet. */
void ls_ps_serving_load(ls_ps_serving *serving);
/** Makes the operation that serves until all workers are through. */
ls_status ls_ps_serving_op(ls_ps_serving *serving, ls_op **out);

/** Appends the message of a worker to the server of that rank; with backup workers a pull ends with
 *  the answer: the worker is `late`, or the variables follow. */
ls_status ls_ps_say(ls_ps_speaker *speaker, int server, ls_ps_kind kind, ls_op_list *ops);

/** Appends the beginning of a step where there are backup workers: is it late already? */
ls_status ls_ps_begin(ls_ps_speaker *speaker, ls_op_list *ops);

/** How many gradients make an update of a batch of so many samples, with backup workers. */
int ls_ps_backup_needed(const ls_job *job, int workers, int64_t batch);
