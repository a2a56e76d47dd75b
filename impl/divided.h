/* SPDX-License-Identifier: MIT */
/*
 * Divided: one model over several places, each with its part of the graph (graph_parts.h) on a
 * device of its own: flat buffers of its own variables, a queue, its part of every piece of the
 * batch. What crosses a border, forward outputs, backward gradients, is copied by the place that
 * has it, and waited for by the one that needs it; so places work at once wherever the graph lets
 * them.
 *
 * Gradients of a variable that several places use go to its owner, which adds them in forward
 * order; the others get the updated values back. So the bits are those of `single`.
 */
#ifndef LS_IMPL_DIVIDED_H
#define LS_IMPL_DIVIDED_H

#include "common/nn/graph_parts.h"
#include "impl/replicas.h"

/** Of one piece: what its queues tell each other. */
typedef struct ls_divided_piece {
    ls_event **output;   /**< [borders] the output is on the other place */
    ls_event **gradient; /**< [borders] its gradient is back; NULL: none goes back */
    ls_event **shared;   /**< [copies] the gradient of a copy is with its owner */
    ls_event **used;     /**< [places] what came over borders has been used */
    ls_op_list *sums;    /**< [copies] the owner's addition */
    size_t part;         /**< its number among the slices' parts */
} ls_divided_piece;

/** The members are places, not replicas: there is one of these. */
typedef struct ls_divided {
    ls_replicated shared; /**< its holder, place 0, drives the program */
    ls_graph_parts parts;
    int *first_use; /**< [borders] first node that takes it, of the whole */
    ls_divided_piece *pieces[LS_BATCHES];
    size_t piece_count[LS_BATCHES];
    void **arrived;     /**< [copies] gradients of copies, with their owners */
    ls_event *begun;    /**< the step has begun */
    ls_event **updated; /**< [places] its own variables are up to date */
    ls_event **left;    /**< [places] it has nothing more to do in this step */
    bool staged;        /**< a pipeline: places are stages, in order */
    ls_traffic sent[LS_BATCHES];
} ls_divided;

/** Opens a place on each of the job's devices, node n of the model on place[n] (borrowed). `run`
 *  is zero-filled but for the job, and ls_divided_close's also on failure. */
ls_status ls_divided_open(ls_divided *run, const ls_strategy *strategy, const ls_job *job,
                          const int *place);

/** Puts one step of the whole model: piece after piece, or in the pipeline's schedule. */
ls_status ls_divided_put_step(ls_replicated *run, ls_member *driver, int which);

/** Micro-batches of such a batch: as asked for, or as many as it has pieces. */
int ls_divided_microbatches(const ls_divided *run, int which);

/** Micro-batches that a pipeline's stage has begun and not ended at most. */
int ls_divided_in_flight(const ls_job *job, int stages, int stage, int microbatches);

/** Waits, closes the programs and what belongs to the pieces, and frees the run. */
void ls_divided_close(ls_run *run);

/* Entries of ls_strategy. */
ls_status ls_divided_load(ls_run *run, const float *parameters);
ls_status ls_divided_records(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                             uint64_t *mark_ns);
ls_status ls_divided_gather(ls_run *run, float *parameters);
ls_status ls_divided_evaluate(ls_run *run, double *accuracy);
ls_memory_formula ls_divided_memory(const ls_run *run, size_t index);
ls_status ls_divided_traffic(const ls_run *run, ls_traffic *sent, ls_traffic *formula);

#endif
