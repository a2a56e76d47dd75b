/* SPDX-License-Identifier: MIT */
/* Compares a layer of a net with the same layer of the reference table, on random inputs. */
#pragma once

#include "common/device/machine.h"
#include "common/nn/net.h"

typedef struct ls_micro_judge ls_micro_judge;

/** Opens the reference table on the machine's first CPU device. */
ls_status ls_micro_judge_open(const ls_machine *machine, ls_micro_judge **out);

/** Takes NULL. */
void ls_micro_judge_close(ls_micro_judge *judge);

/**
 * Runs node `node` of the net, forward and backward, on `queue`, with random inputs and gradients
 * of its output, and the same with the reference. wrong[0]: elements of its output and loss that
 * differ; wrong[1]: of the gradients of its inputs and variables (for a loss: in wrong[0]). The
 * reference is slow. So in a large layer only some rows, including the first and the last, get a
 * gradient: the reference computes only these rows, the weights' gradients are theirs, and the
 * other rows' input gradients must be 0. Afterwards all rows have a gradient.
 */
ls_status ls_micro_judge_node(ls_micro_judge *judge, ls_net *net, int node, ls_queue *queue,
                              uint64_t wrong[2]);
