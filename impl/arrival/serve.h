/* SPDX-License-Identifier: MIT */
/*
 * Servers that serve requests as they arrive (ls_ps_by_arrival): one operation each, which serves
 * all workers' requests in the order of arrival (serve.c). Workers' requests: request.c.
 */
#pragma once

#include "common/comm/comm.h"
#include "impl/arrival/ps_order.h"
#include "impl/ps/ps_layout.h"
#include "impl/replica/replica.h"

/** A server's shard: ranges of the model's variables and their optimizer state, without layers. */
typedef struct ls_ps_shard {
    const ls_ps_layout *layout;
    int server;
    ls_graph_part part;
    ls_replica *replica;
} ls_ps_shard;

/** served.c. Close it also on failure. */
ls_status ls_ps_shard_open(const ls_job *job, const ls_ps_layout *layout, int server,
                           ls_device *device, ls_ps_shard *shard);
/** It may be zero-filled. */
void ls_ps_shard_close(ls_ps_shard *shard);
/** Appends an update of the whole shard by its gradient buffer, and the end of a step. */
ls_status ls_ps_shard_apply(const ls_ps_shard *shard, ls_op_list *ops);

/** A worker's end of requests: small messages on their own communicator, not counted as traffic. */
typedef struct ls_ps_client {
    ls_comm *control;
    const ls_job *job;
    const ls_step_state *state;
    int number;
    /* Backup workers: */
    bool late;       /**< the worker skips this step, which was decided without it */
    uint64_t newest; /**< earlier steps are decided */
    bool took[];     /**< [job->records] whether the worker computed the step of each record */
} ls_ps_client;

/** A request as a message. */
typedef struct ls_ps_message {
    ls_ps_event what;
    uint64_t step; /**< the worker's step, from 0 */
} ls_ps_message;

/** A worker's state, as its server keeps it. */
typedef struct ls_ps_clock {
    uint64_t steps;  /**< number of its applied gradients */
    uint64_t pulled; /**< version of the shard in its latest pull */
    uint64_t asked;  /**< step of its latest request */
    bool waits;      /**< whether its request waits for an answer */
} ls_ps_clock;

/** A server's progress since the load. */
typedef struct ls_ps_progress {
    uint64_t version; /**< number of updates */
    ls_ps_report seen;
    /* Backup workers: */
    int accepted;    /**< gradients in the current update so far */
    int64_t samples; /**< samples of the gradients */
} ls_ps_progress;

/** A server. */
typedef struct ls_ps_serving {
    const ls_job *job;
    const ls_ps_shard *shard;
    ls_comm *comm, *control;
    float *spare; /**< backup workers: [elements] receives dropped gradients */
    ls_op_list *send, *receive, *add, *drop; /**< [workers] operations: send the shard; receive;
                                                receive and add; receive into `spare` */
    ls_op_list apply;
    ls_ps_clock *clocks; /**< [workers] */
    int workers, byes;
    ls_ps_log log;
    ls_ps_progress now;
    ls_traffic served; /**< backup workers: traffic due to served requests */
} ls_ps_serving;

enum { LS_PS_TAG = 0x7073, LS_PS_ANSWER }; /* tags of small messages, to servers and to workers */

/** The caller sets `job`, `shard`, `comm`, `control` and `spare`; all else is zero. Close it also
 * on failure; a zero-filled one may be closed. */
ls_status ls_ps_serving_open(ls_ps_serving *serving);
void ls_ps_serving_close(ls_ps_serving *serving);
/** Resets it to before the first request. */
void ls_ps_serving_load(ls_ps_serving *serving);
/** Makes the operation that serves until all workers have sent LS_PS_BYE. */
ls_status ls_ps_serving_op(ls_ps_serving *serving, ls_op **out);

/** Appends a worker's request to the server of that rank. With backup workers, a pull receives the
 * answer: the worker is `late`, or the variables follow. */
ls_status ls_ps_request(ls_ps_client *client, int server, ls_ps_kind kind, ls_op_list *ops);

/** Appends, with backup workers, the beginning of a step, which checks if it is already late. */
ls_status ls_ps_begin(ls_ps_client *client, ls_op_list *ops);

/** Number of gradients in an update with backup workers, for a batch of so many samples. */
int ls_ps_backup_needed(const ls_job *job, int workers, int64_t batch);
