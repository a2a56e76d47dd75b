/* SPDX-License-Identifier: MIT */
/*
 * Trains a function of batches on several devices: make_parallel, then the optimizer's pass on the
 * holder, which owns the variables. A step is one program.
 */
#pragma once

#include "common/nn/optimizer.h"
#include "impl/examples/parallel.h"

/** All memory is on the holder. */
typedef struct ls_parallel_training {
    ls_parallel_options options; /**< gradients and loss are the members below */
    ls_parallel *parallel;
    ls_kernels *kernels;
    void *gradients;        /**< real [variables] of the latest step */
    void *slot[2];          /**< real [variables], as many as the optimizer has; others NULL */
    double *loss;           /**< [1] of the latest step */
    ls_step_state *state;   /**< argument block */
    ls_step_record *record; /**< [1] */
    ls_op *update, *finish;
    ls_program *program; /**< of one step */
} ls_parallel_training;

/** `options` as for ls_make_parallel, with variables; allocates gradients and loss. The learning
 * rate is constant. Captures the step. */
ls_status ls_parallel_training_open(const ls_parallel_options *options,
                                    const ls_optimizer *optimizer, double learning_rate,
                                    ls_parallel_training **out);

/** Enqueues `times` steps on the current contents of the batches. Does not wait. */
ls_status ls_parallel_training_step(ls_parallel_training *training, uint64_t times);

/** Waits; reads the loss of the latest step, from before its update. */
ls_status ls_parallel_training_loss(ls_parallel_training *training, double *out);

/** Call it after ls_parallel_training_loss or ls_parallel_sync. Takes NULL. */
void ls_parallel_training_close(ls_parallel_training *training);
