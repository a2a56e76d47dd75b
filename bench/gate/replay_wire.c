/* SPDX-License-Identifier: MIT */
/*
 * A wire's rounding by its definition, for the replay: bf16 by the distance to its two neighbours,
 * int8 row by row, in float32 (common/comm/comm_wire.h has both in other words).
 */
#include "bench/gate/replay.h"

#include "common/comm/sum_order.h"

#include <math.h>
#include <string.h>

enum { ROW = 512 };

/* What arrives of a row that is sent. */
static void send_row(ls_wire_form wire, float *x, size_t count)
{
    float largest = 0;
    bool finite = true;
    for (size_t i = 0; i < count; i++) {
        finite = finite && isfinite(x[i]);
        largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
    }
    const float scale = finite ? largest / 127 : NAN;
    for (size_t i = 0; i < count; i++)
        x[i] = wire == LS_WIRE_BF16          ? ls_nearest_bf16(x[i])
               : scale > 0                   ? (float)(int)rintf(x[i] / scale) * scale
               : finite /* a row of zeros */ ? 0
                                             : NAN;
}

static void mean_row(const ls_replayed *all, size_t first, size_t count, float *mean)
{
    float sent[ROW];
    for (int r = 0; r < all->replicas; r++) {
        memcpy(sent, all->parameters[r] + first, count * sizeof *sent);
        send_row(all->job->exchange.wire, sent, count);
        for (size_t i = 0; i < count; i++)
            mean[first + i] = r ? mean[first + i] + sent[i] : sent[i];
    }
    for (size_t i = 0; i < count; i++)
        mean[first + i] = mean[first + i] / (float)all->replicas;
    send_row(all->job->exchange.wire, mean + first, count);
}

void ls_replay_wired_mean(const ls_replayed *all, float *mean)
{
    const ls_variables *variables = &all->job->model->graph->variables;
    for (size_t v = 0; v < variables->count; v++) {
        const ls_variable *one = &variables->items[v];
        for (size_t at = 0; at < one->count; at += ROW)
            if (one->offset >= all->due.first && one->offset < all->due.first + all->due.count)
                mean_row(all, one->offset + at, one->count - at < ROW ? one->count - at : ROW,
                         mean);
    }
}
