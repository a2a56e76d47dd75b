/* SPDX-License-Identifier: MIT */
/* A server's shard: some of the model's variables and their optimizer state, without layers. */
#pragma once

#include "impl/ps/ps_layout.h"
#include "impl/replica.h"

typedef struct ls_ps_shard {
    const ls_ps_layout *layout;
    int server;
    ls_graph_part part;
    ls_replica *replica;
} ls_ps_shard;

/** To be closed also on failure. */
ls_status ls_ps_shard_open(const ls_job *job, const ls_ps_layout *layout, int server,
                           ls_device *device, ls_ps_shard *shard);
/** A zero-filled one holds nothing. */
void ls_ps_shard_close(ls_ps_shard *shard);

/** Appends an update of the whole shard by the gradient in its buffer, which is a step of its own.
 */
ls_status ls_ps_shard_apply(const ls_ps_shard *shard, ls_op_list *ops);
