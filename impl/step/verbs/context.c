/* SPDX-License-Identifier: MIT */
/* What passes between places that have parts of the positions (graph_context.h). */
#include "impl/step/verbs/build.h"

#include <string.h>

/* Two all-to-alls forward, and as many backward, for each attention; each is c (c - 1) messages of
 * a piece. */
ls_traffic ls_step_all_to_all_traffic(const ls_step *s)
{
    const ls_graph *graph = ls_step_job(s)->model->graph;
    const int c = s->plan->mesh.places, D = ls_replicas(s);
    const uint64_t batch = (uint64_t)s->batch;
    const uint64_t most = (uint64_t)D * (uint64_t)ls_job_pieces(ls_step_job(s));
    const uint64_t pieces = batch < most ? batch : most;
    /* Attentions whose forward pass is repeated: each place has all of them. */
    const ls_graph *whole = s->plan->parts.whole;
    int again = 0;
    for (int n = 0; n < whole->count; n++)
        again += strcmp(whole->nodes[n].layer->name, "attention") == 0 &&
                 ls_step_is_repeated(s, 0, 0, n);
    again /= c;
    ls_traffic sum = {0};
    for (int n = 0; n < graph->count; n++) {
        if (strcmp(graph->nodes[n].layer->name, "attention") != 0)
            continue;
        /* Elements that pass at one attention, of one sample, one way: of q, k and v, and of its
         * output, all except place j's heads at its own positions. */
        const int64_t T = graph->nodes[n].shape.size[0], C = graph->nodes[n].shape.size[1];
        const int64_t H = graph->nodes[n].options.units;
        int64_t own = 0;
        for (int j = 0; j < c; j++)
            own += ls_context_positions(T, j, c) * (C / H) * ls_context_heads(H, j, c);
        const uint64_t times = again-- > 0 ? 3 : 2;
        sum.bytes_sent += times * 4 * batch * (uint64_t)(T * C - own) * sizeof(float);
        sum.messages_sent += times * 2 * pieces * (uint64_t)c * (uint64_t)(c - 1);
    }
    return sum;
}
