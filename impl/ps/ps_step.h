/* SPDX-License-Identifier: MIT */
/* Verbs about parameter servers and their ranges; see step.h. */
#pragma once

#include "impl/step/step.h"

/** A range of one server whose gradients a worker sends as one message. */
typedef struct ls_pushed {
    ls_range range;
    int server;
    bool last; /**< the last one of that server */
} ls_pushed;

/* ls_gradient of a server is the buffer that receives sum number `sum`, counted over all workers;
 * the first is the gradient that the server updates by. */

/** The member that is server number `k` of all processes'; -1 if there are no more. */
int ls_server(const ls_step *step, int k);

/** Range number i of a server's shard, in the order of the flat buffer; false if there are no more.
 */
bool ls_shard_range(const ls_step *step, int server, size_t i, ls_range *out);

/** Range number i of the servers' ranges, split at bucket boundaries, in the order in which
 * backward makes them final; false if there are no more. */
bool ls_pushed_range(const ls_step *step, size_t i, ls_pushed *out);

/** In exact mode: adds a range of all sums that arrived at a server, up the tree. */
void ls_add_arrived(ls_step *step, int server, ls_range range);
