/* SPDX-License-Identifier: MIT */
/* A server's shard: ranges of the model's variables and their optimizer state, without layers. */
#pragma once

#include "impl/ps/ps_layout.h"
#include "impl/replica/replica.h"

typedef struct ls_ps_shard {
    const ls_ps_layout *layout;
    int server;
    ls_graph_part part;
    ls_replica *replica;
} ls_ps_shard;

/** Close it also on failure. */
ls_status ls_ps_shard_open(const ls_job *job, const ls_ps_layout *layout, int server,
                           ls_device *device, ls_ps_shard *shard);
/** It may be zero-filled. */
void ls_ps_shard_close(ls_ps_shard *shard);

/** Appends an update of the whole shard by its gradient buffer, and the end of a step. */
ls_status ls_ps_shard_apply(const ls_ps_shard *shard, ls_op_list *ops);
