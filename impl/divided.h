/* SPDX-License-Identifier: MIT */
/*
 * Divided: models over several places each, one or (hybrid) several replicas of it. A place has its
 * part of the graph (graph_parts.h) on a device of its own: flat buffers of its own variables, a
 * queue, its part of every piece of its replica's slice. What crosses a border, forward outputs,
 * backward gradients, is copied by the place that has it, and waited for by the one that needs it;
 * so places work at once wherever the graph lets them.
 *
 * Gradients of a variable that several places use go to its owner, which adds them in forward
 * order; the others get the updated values back. So the bits are those of `single`. Of several
 * replicas the same place of each reduces what it owns with the others (mirror.h).
 */
#ifndef LS_IMPL_DIVIDED_H
#define LS_IMPL_DIVIDED_H

#include "common/nn/graph_parts.h"
#include "impl/mirror.h"
#include "impl/pipeline_schedule.h"

/** Of one piece: what its queues tell each other. */
typedef struct ls_divided_piece {
    ls_event **output;   /**< [borders] the output is on the other place */
    ls_event **gradient; /**< [borders] its gradient is back; NULL: none goes back */
    ls_event **shared;   /**< [copies] the gradient of a copy is with its owner */
    ls_event **used;     /**< [places] what came over borders has been used */
    ls_op **transfers;   /**< [transfers] over borders between processes (divided_ranks.c); NULL */
    ls_event **sent;     /**< [transfers] what was sent so may be overwritten; NULL */
    ls_op_list *sums;    /**< [copies] the owner's addition */
    size_t part;         /**< its number among the slices' parts */
} ls_divided_piece;

typedef struct ls_divided ls_divided;

/** One replica: the model over its places, of which several processes may have some each. */
typedef struct ls_spread {
    ls_divided *run;
    int number;                /**< of all replicas, in this process: which */
    int first, here;           /**< places of this process: [first, first + here) */
    ls_member *members;        /**< [here] */
    ls_device *const *devices; /**< [here] */
    ls_comm **ends;            /**< [here] of a communicator of all devices; NULL: all are here */
    ls_queue **transfer;       /**< [here] queues of what goes between processes; NULL */
    ls_event **idle;           /**< [here] nothing is on its way any more in this step; NULL */
    ls_op **values;            /**< [copies] values of copies between processes; NULL */
    ls_divided_piece *pieces[LS_BATCHES];
    size_t piece_count[LS_BATCHES];
    void **arrived;     /**< [copies] gradients of copies, with their owners */
    ls_event *begun;    /**< the step has begun */
    ls_event **updated; /**< [places] its own variables are up to date */
    ls_event **left;    /**< [here] it has nothing more to do in this step */
    ls_traffic sent[LS_BATCHES];
} ls_spread;

/** The members are places, replica after replica; the first of each drives its program. */
struct ls_divided {
    ls_replicated shared;
    ls_graph_parts parts; /**< the same of every replica */
    int *first_use;       /**< [borders] first node that takes it, of the whole */
    ls_spread *spreads;   /**< [replicas of this process] */
    ls_mirror *mirrors;   /**< [places] what each owns, over all replicas; NULL: one replica */
    bool staged;          /**< a pipeline: places are stages, in order */
};

/** Opens the replicas of this process on the job's devices, each over ls_job_places of them, and
 *  with `mirrored` what keeps them equal. `run` is zero-filled but for the job, and
 *  ls_divided_close's also on failure. */
ls_status ls_divided_open(ls_divided *run, const ls_strategy *strategy, const ls_job *job,
                          bool mirrored);

/** For strategies: makes a run, opens it, and closes it where that fails. */
ls_status ls_divided_start(const ls_strategy *strategy, const ls_job *job, bool mirrored,
                           ls_run **out);

/** Puts one step of a replica: piece after piece, or in the pipeline's schedule. */
ls_status ls_divided_put_step(ls_replicated *run, ls_member *driver, int which);

/** Micro-batches of such a batch: as asked for, or as many as it has pieces. */
int ls_divided_microbatches(const ls_spread *split, int which);

/** Pieces of replica d's slice of a batch; 0: it is empty. */
int ls_divided_pieces(const ls_job *job, int d, int which);

/** The schedule that a pipeline's job asks for. */
ls_schedule ls_divided_schedule(const ls_job *job, int stages, int microbatches);

/** Whether a place is of this process; its member and device, NULL where it is not. */
bool ls_spread_has(const ls_spread *spread, int place);
ls_member *ls_spread_member(const ls_spread *spread, int place);
ls_device *ls_spread_device(const ls_spread *spread, int place);

/* Between processes (divided_ranks.c): every transfer of a piece has a number. */
size_t ls_transfer_output(const ls_spread *spread, size_t border);
size_t ls_transfer_gradient(const ls_spread *spread, size_t border);
size_t ls_transfer_shared(const ls_spread *spread, size_t copy);

/** Opens the ends and queues of a replica whose places are not all here, before its pieces. */
ls_status ls_transfers_open(ls_spread *spread);

/** Makes the transfers of a piece, whose nets [places] are NULL elsewhere. */
ls_status ls_transfers_piece(ls_spread *spread, ls_net *const *nets, ls_divided_piece *piece);

/** Puts transfer `number` from place ends[0] to ends[1], of which one is here, on its queue: sent
 *  when `event` is recorded, which is done here; or received, and `event` recorded. */
ls_status ls_transfers_put(const ls_spread *spread, const ls_divided_piece *piece, size_t number,
                           const int ends[2], ls_event *event);

/** Lets the place wait until what it sent of a piece to other processes has gone. */
ls_status ls_transfers_await(const ls_spread *spread, const ls_divided_piece *piece, int place);

/** Makes those of the values of copies. */
ls_status ls_transfers_values(ls_spread *spread);

void ls_transfers_close_piece(const ls_spread *spread, ls_divided_piece *piece);
void ls_transfers_close(ls_spread *spread);

/** Whether a border, or a use of a variable, is between processes, of which this is one. */
bool ls_spread_crosses(const ls_spread *spread, int from, int to);

/** The whole parameters of the replica that this process has a part of; all processes call it. */
ls_status ls_transfers_gather(const ls_divided *run, float *parameters);

/** Copies a place's variables from (or, `out`, the ones that it owns to) the whole flat buffer. */
void ls_divided_move(const ls_graph_parts *parts, int place, float *whole, float *here, bool out);

/** Waits, closes the programs and what belongs to the pieces, and frees the run. */
void ls_divided_close(ls_run *run);

/* Entries of ls_strategy. */
ls_status ls_divided_load(ls_run *run, const float *parameters);
ls_status ls_divided_sync(ls_run *run);
ls_status ls_divided_gather(ls_run *run, float *parameters);
ls_status ls_divided_gather_replica(ls_run *run, int index, float *parameters);
ls_status ls_divided_evaluate(ls_run *run, uint64_t most, ls_evaluation *out);
ls_memory_formula ls_divided_memory(const ls_run *run, size_t index);
ls_status ls_divided_traffic(const ls_run *run, ls_traffic *sent, ls_traffic *formula);

#endif
