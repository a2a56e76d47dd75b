/* SPDX-License-Identifier: MIT */
/*
 * A tower whose backward pass runs apart from it, on the variable device: what
 * `--colocate-gradients no` does, to show its cost.
 *
 *     the tower gathers and goes forward; what backward reads of that is copied to the variable
 *     device, where a shadow of the tower goes backward and adds its pieces up
 *
 * The shadow has a queue and buffers of its own there, and uses the variables and the argument
 * block where they are.
 */
#ifndef LS_IMPL_TOWERS_APART_H
#define LS_IMPL_TOWERS_APART_H

#include "impl/replicas.h"

typedef struct ls_apart {
    ls_member shadow; /**< on the variable device */
    struct ls_apart_piece {
        ls_event *handed; /**< the tower's outputs are there */
        ls_event *used;   /**< the shadow is done with them */
    } * pieces[LS_BATCHES];
    size_t count[LS_BATCHES];
} ls_apart;

/** The shadow of tower `number`. `out` is zero-filled, and ls_apart_close's also on failure. */
ls_status ls_apart_open(const ls_replicated *run, int number, ls_apart *out);

/** After both queues are empty and their programs are closed. */
void ls_apart_close(ls_apart *apart);

/** Puts one step's gathering, forward, copies and backward; adds the copies to `sent`. */
ls_status ls_apart_put(ls_apart *apart, const ls_member *tower, int which, ls_traffic *sent);

/** What the copies of one step are by formula. */
ls_traffic ls_apart_formula(const ls_apart *apart);

/** Adds to the formula of the variable device what the shadow holds. */
void ls_apart_memory(const ls_apart *apart, ls_memory_formula *formula);

#endif
