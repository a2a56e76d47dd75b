/* SPDX-License-Identifier: MIT */
/*
 * Parameter servers: the two kinds of members of a `ps` run, and what the strategy (ps.c) asks of
 * them. Workers have a replica and their slices; servers hold a shard of the variables each, with
 * its optimizer state, and no net. Messages are exchanges of ranges between a worker and a server.
 */
#ifndef LS_IMPL_PS_H
#define LS_IMPL_PS_H

#include "impl/ps_layout.h"
#include "impl/ps_order.h"
#include "impl/replicas.h"
#include "impl/traffic.h"

typedef struct ls_ps_worker {
    ls_member member; /**< its replica, its slices and what its steps are put from */
    const ls_ps_member *place;
    ls_comm *comm;
    ls_comm *control; /**< of small messages, which are no traffic; NULL: synchronous */
    ls_buckets buckets;
    ls_queue *queue; /**< of its messages: the replica's, or where they overlap one of their own */
    bool own_queue;
    ls_event *begun, *pulled, *pushed; /**< own_queue: between the two queues */
    ls_event **final;                  /**< [buckets] */
    ls_op_list pull;
    ls_op_list *push[LS_BATCHES]; /**< [buckets] what goes when bucket b is final */
    ls_op_list bye;               /**< after the last step; empty: synchronous */
    ls_time_profile times;        /**< of its own queue, while profiled */
    /* Backup workers: */
    ls_op_list begin; /**< of a step: is it late already? Empty: nobody is */
    bool late;        /**< the step at hand is decided without it: it is passed over */
    uint64_t newest;  /**< steps before it are */
    bool *took;       /**< [job->records] whether it computed the step of each record */
} ls_ps_worker;

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

typedef struct ls_ps_server {
    const ls_ps_member *place;
    ls_comm *comm;
    ls_comm *control;            /**< NULL: synchronous */
    ls_graph_part part;          /**< its shard: variables without nodes */
    ls_replica *replica;         /**< of the shard */
    void **arrivals;             /**< [arrival_count] exact: finished subtrees but the first */
    size_t arrival_count;        /**< real [elements of the shard] each */
    ls_op_list deal;             /**< sync: each range of the shard to every worker */
    ls_op_list step[LS_BATCHES]; /**< sync: gradients in, the shard updated */
    ls_program *program[LS_BATCHES];
    ls_time_profile times;
    /* Not synchronous: */
    ls_op *serve;               /**< until all workers are through */
    ls_op_list *send, *receive; /**< [worker_count] the shard, a gradient */
    ls_op_list apply;
    ls_ps_clock *clocks; /**< [worker_count] */
    int worker_count, byes;
    uint64_t version; /**< updates so far */
    ls_ps_log log;
    ls_ps_histogram lead, staleness;
    /* Backup workers: */
    const struct ls_ps *run; /**< that it is of */
    ls_op_list *add;         /**< [worker_count] a gradient, added to what is there */
    ls_op_list *drop;        /**< [worker_count] a gradient, to where nobody looks */
    int accepted;            /**< gradients of the update at hand */
    int64_t samples;         /**< that these are of */
    uint64_t dropped;        /**< gradients that came too late */
    ls_traffic served;       /**< what the shards and gradients, each time, are by formula */
} ls_ps_server;

/** A step of all members in one (ps_joint.c). */
typedef struct ls_ps_joint ls_ps_joint;

/** A run; of this process's members. */
typedef struct ls_ps {
    ls_run base;
    ls_buckets buckets;
    ls_ps_layout layout;
    ls_ps_worker *workers; /**< [worker_count] */
    ls_ps_server *servers; /**< [server_count] */
    int worker_count, server_count;
    uint64_t steps[LS_BATCHES]; /**< put so far */
    ls_ps_joint *joint;         /**< NULL: each member has a step of its own */
} ls_ps;

/** Appends an exchange; `together`: it crosses no border. */
ls_status ls_ps_exchange(ls_comm *comm, ls_exchange exchange, bool together, ls_op_list *ops);

/* ps_worker.c. `worker->place` and `comm` are set; the rest is zero. To be closed also on failure.
 */
ls_status ls_ps_worker_open(const ls_ps *run, ls_ps_worker *worker);
void ls_ps_worker_close(ls_ps_worker *worker);
/** Puts a step: pull, forward, backward, and the gradients' ranges as they become final. */
ls_status ls_ps_worker_put(ls_ps_worker *worker, int which);
/** Puts forward and backward alone. */
ls_status ls_ps_worker_compute(ls_ps_worker *worker, int which);
ls_status ls_ps_worker_sync(ls_ps_worker *worker);
void ls_ps_worker_each(const ls_ps_worker *worker, ls_op_visit visit, void *context);
void ls_ps_worker_memory(const ls_ps_worker *worker, ls_memory_formula *formula);

/* ps_server.c, likewise. */
ls_status ls_ps_server_open(const ls_ps *run, ls_ps_server *server);
void ls_ps_server_close(ls_ps_server *server);
/** Puts a synchronous step: the shard to the workers; gradients in, the update. */
ls_status ls_ps_server_put(ls_ps_server *server, int which);
/** Sets its shard from the whole parameters, float32 [elements]; the other way round. */
ls_status ls_ps_server_load(const ls_ps *run, ls_ps_server *server, const float *parameters);
ls_status ls_ps_server_gather(const ls_ps *run, ls_ps_server *server, float *parameters);
/** The same of what is evaluated: moving averages, where there are some. */
ls_status ls_ps_server_averages(const ls_ps *run, ls_ps_server *server, float *averages);
void ls_ps_server_memory(const ls_ps_server *server, ls_memory_formula *formula);

/** Opens its replica alone, on that device. */
ls_status ls_ps_shard_open(const ls_ps *run, ls_ps_server *server, ls_device *device);

/* ps_joint.c: one step, and program, of all members, whose queues are ordered by events. */
bool ls_ps_is_joint(const ls_job *job);
/** The members are open. To be closed before them, also on failure. */
ls_status ls_ps_joint_open(ls_ps *run);
void ls_ps_joint_close(ls_ps *run);
ls_status ls_ps_joint_step(ls_ps *run, int which, uint64_t times);
/** The program of a full step; NULL: not captured. */
const ls_program *ls_ps_joint_program(const ls_ps *run);
/** What one step sent. */
ls_traffic ls_ps_joint_sent(const ls_ps *run, int which);

/* ps_async.c: servers that do not wait for all workers. */
enum { LS_PS_TAG = 0x7073, LS_PS_ANSWER }; /* of small messages: to a server, to a worker */
ls_status ls_ps_async_open(const ls_ps *run, ls_ps_server *server);
void ls_ps_async_close(ls_ps_server *server);
/** Nothing was served yet. */
void ls_ps_async_load(ls_ps_server *server);
/** Appends what applies a gradient that is there to the whole shard. */
ls_status ls_ps_apply_build(const ls_job *job, ls_replica *shard, ls_op_list *ops);
/** Appends the message of a worker to a server. */
ls_status ls_ps_say(const ls_ps *run, const ls_ps_worker *worker, int server, ls_ps_kind kind,
                    ls_op_list *ops);
/** Appends what receives a worker's gradient of the whole shard to `to`, real [elements]. */
ls_status ls_ps_receive_build(const ls_ps *run, ls_ps_server *server, int worker, float *to,
                              bool add, ls_op_list *ops);
/** Runs operations here and now, on the queue's own thread. */
ls_status ls_ps_run(const ls_op_list *ops, ls_queue *queue);

/* ps_backup.c: synchronous steps that do not wait for the slowest workers. */
ls_status ls_ps_backup_open(const ls_ps *run, ls_ps_server *server);
void ls_ps_backup_close(ls_ps_server *server);
/** Nothing was served yet. */
void ls_ps_backup_load(ls_ps_server *server);
/** Serves what a worker said. */
ls_status ls_ps_backup_serve(ls_ps_server *server, const ls_ps_message *message, ls_queue *queue);
/** How many gradients make an update of a batch of so many samples. */
int ls_ps_backup_needed(const ls_job *job, int workers, int64_t batch);
/** Takes `took`, and appends the beginning of each of a worker's steps. */
ls_status ls_ps_begin(const ls_ps *run, ls_ps_worker *worker, ls_op_list *ops);
/** Appends a worker's question for the variables of its step to a server, and the answer: it is
 *  `late`, or they follow. */
ls_status ls_ps_ask(const ls_ps *run, ls_ps_worker *worker, int server, ls_op_list *ops);

/* ps_records.c: what the processes find out together, all calling it. Entries of ls_strategy. */
ls_status ls_ps_records(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                        uint64_t *mark_ns);
ls_status ls_ps_gather(ls_run *run, float *parameters);
ls_status ls_ps_evaluate(ls_run *run, uint64_t most, ls_evaluation *out);
ls_status ls_ps_traffic(const ls_run *run, ls_traffic *sent, ls_traffic *formula);

#endif
