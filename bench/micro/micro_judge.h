/* SPDX-License-Identifier: MIT */
/* The model's net with random samples, and where its layers differ from the reference table's. */
#pragma once

#include "bench/micro/micro.h"
#include "common/nn/net.h"

/** A net, and what it runs with. */
typedef struct ls_micro_net {
    ls_bench bench; /**< has the memory of the following */
    void *flat[2];  /**< parameters, gradients */
    void *loss;
    ls_net *net;
} ls_micro_net;

typedef struct ls_micro_judge {
    ls_micro_net fast;    /**< on the first rank's device */
    ls_net *timed;        /**< the same net, which notes nothing, in its memory */
    uint64_t (*wrong)[2]; /**< [nodes] wrong elements of a node's forward and backward pass */
} ls_micro_judge;

/**
 * Opens the model's net for m->batch rows and runs it once. Some of the samples, which the rows
 * repeat, also run with the reference table on the machine's first CPU device, each layer with what
 * the fast one before it has computed. Forward, an element of a layer's output (of a loss, of its
 * gradient, too) is wrong if it differs; backward, of gradients of its inputs and variables. Close
 * it also after a failure.
 */
ls_status ls_micro_judge_open(const ls_micro *m, ls_micro_judge *out);

/** Takes a zero-filled one. */
void ls_micro_judge_close(ls_micro_judge *judge);
