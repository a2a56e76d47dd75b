/* SPDX-License-Identifier: MIT */
/* Verbs about parameter servers and their ranges; see step.h. Parts of `ps`. */
#pragma once

#include "impl/step/step.h"
#include "impl/strategy.h"

/** A range of one server whose gradients a worker sends as one message. */
typedef struct ls_pushed {
    ls_range range;
    int server;
    bool last; /**< the last one of that server */
} ls_pushed;

/* ls_gradient of a server is the buffer that receives sum number `sum`, counted over all workers;
 * the first is the gradient that the server updates by. */

/** How many parameter servers all processes have; the member that server k is. */
int ls_servers(const ls_step *step);
int ls_server(const ls_step *step, int k);

/** Range number i of a server's shard, in the order of the flat buffer; false if there are no more.
 */
bool ls_shard_range(const ls_step *step, int server, size_t i, ls_range *out);

/** Range number i of the servers' ranges, split at bucket boundaries, in the order in which
 * backward makes them final; false if there are no more. */
bool ls_pushed_range(const ls_step *step, size_t i, ls_pushed *out);

/** Adds a range of all sums that arrived at a server, up the tree of exact mode; in fast mode they
 * were added on arrival. */
void ls_add_arrived(ls_step *step, int server, ls_range range);

/** The `build` of `ps` if servers serve requests as they arrive (ps_arrival.c). */
void ls_ps_arrival_build(ls_step *step);

/** The options of `ps`, and the entries of its ls_strategy that read them (ps_options.c). */
extern const ls_declared_option *const ls_ps_declared[];
bool ls_ps_has(const ls_declared_values *values, int ranks, const ls_declared_option *option);
void ls_ps_resolve(ls_job *job, int ranks);
ls_status ls_ps_check(const ls_outline *outline);
