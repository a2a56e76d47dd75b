/* SPDX-License-Identifier: MIT */
/* A server's shard: variables without nodes, with their optimizer state. */
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

/** Sets it from the whole parameters, float32 [elements]; the other way round. */
ls_status ls_ps_shard_load(const ls_ps_shard *shard, const float *parameters);
ls_status ls_ps_shard_gather(const ls_ps_shard *shard, float *parameters);
/** The same of what is evaluated: moving averages, where there are some. */
ls_status ls_ps_shard_averages(const ls_ps_shard *shard, float *averages);

/** Appends what applies a gradient that is there to all of it: a step of its own. */
ls_status ls_ps_shard_apply(const ls_ps_shard *shard, ls_op_list *ops);
