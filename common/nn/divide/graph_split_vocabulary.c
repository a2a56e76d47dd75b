/* SPDX-License-Identifier: MIT */
/* Split layers: the embedding, the layer before the loss, and the loss; see graph_split.h. */
#include "common/nn/divide/graph_split_private.h"

#include "common/comm/comm.h"

bool ls_split_find_vocabulary(const ls_graph *g, ls_split_vocabulary *out)
{
    *out = (ls_split_vocabulary){.loss = g->count - 1};
    const ls_node *loss = &g->nodes[out->loss];
    if (loss->layer != &ls_layer_softmax_cross_entropy)
        return false;
    out->head = loss->inputs[0];
    const ls_node *head = &g->nodes[out->head];
    out->embedding = head->shares;
    bool found = ls_split_is(head, "dense") && head->uses == 1 && head->shares >= 0 &&
                 head->options.no_bias && ls_split_is(&g->nodes[head->shares], "embedding");
    for (int n = 0; n < g->count && found; n++)
        found = n == out->head || g->nodes[n].shares != out->embedding;
    return found;
}

static int64_t tokens_of(const ls_graph *g, const ls_split_vocabulary *v)
{
    return g->nodes[v->embedding].options.tokens;
}

ls_status ls_split_check_vocabulary(const ls_graph *g, int64_t splits, const char *option)
{
    ls_split_vocabulary v;
    char name[LS_NODE_NAME];
    if (!ls_split_find_vocabulary(g, &v) || tokens_of(g, &v) >= splits)
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, "option", option,
                   "the layer %s has %lld tokens, which cannot be split into %lld parts; change %s "
                   "so that a layer has at most %lld parts",
                   ls_graph_node_name(g, v.embedding, name), (long long)tokens_of(g, &v),
                   (long long)splits, option, (long long)tokens_of(g, &v));
}

/* The first token of slice s. */
static int64_t first_token(const ls_split_builder *b, int s)
{
    return (int64_t)ls_comm_share((size_t)tokens_of(b->whole, &b->has), s, b->splits);
}

static int64_t count_tokens(const ls_split_builder *b, int s)
{
    return first_token(b, s + 1) - first_token(b, s);
}

static ls_status append_embedding(ls_split_builder *b)
{
    const int n = b->has.embedding;
    const ls_node *whole = &b->whole->nodes[n];
    for (int s = 0; s < b->splits; s++) {
        ls_layer_options options = whole->options;
        const int64_t C = options.units, first = first_token(b, s);
        options.tokens = count_tokens(b, s);
        options.first = first;
        options.all = whole->options.tokens;
        b->slice = s + 1;
        LS_TRY(ls_split_append(b, n, &options, (int[]){b->part->local[whole->inputs[0]], -1},
                               &b->embedding[s]));
        const ls_node *node = &b->part->graph->nodes[b->embedding[s]];
        *ls_split_slab_of(b, node, 0) =
            (ls_slab){.rows = 1, .ranges = 1, .width = (size_t)(options.tokens * C)};
        ls_split_move_slab(b, node, 0, (size_t)(first * C));
    }
    b->slice = 0;
    LS_TRY(ls_split_append_meeting(b, &ls_layer_join, n, &whole->shape, b->embedding, b->splits,
                                   &b->part->local[n]));
    return b->in_blocks ? ls_split_append_blocks(b, n, b->part->local[n], NULL) : LS_OK;
}

static ls_status append_head(ls_split_builder *b)
{
    const int n = b->has.head;
    const ls_node *whole = &b->whole->nodes[n];
    int x;
    LS_TRY(ls_split_take(b, whole->inputs[0], n, &x));
    const ls_shape shape = b->part->graph->nodes[x].shape;
    LS_TRY(ls_split_append_meeting(b, &ls_layer_fork, n, &shape, &x, 1, &x));
    for (int s = 0; s < b->splits; s++) {
        ls_layer_options options = whole->options;
        options.units = count_tokens(b, s);
        b->slice = s + 1;
        LS_TRY(ls_split_append(b, n, &options, (int[]){x, -1}, &b->logits[s]));
    }
    b->slice = 0;
    b->part->local[n] = b->logits[0];
    return LS_OK;
}

bool ls_split_is_vocabulary(const ls_split_builder *b, int n)
{
    return b->splits_vocabulary && (n == b->has.embedding || n == b->has.head || n == b->has.loss);
}

ls_status ls_split_append_vocabulary(ls_split_builder *b, int n)
{
    if (n == b->has.embedding)
        return append_embedding(b);
    if (n == b->has.head)
        return append_head(b);
    return ls_split_append_meeting(b, &ls_layer_split_loss, n, &b->whole->nodes[n].shape, b->logits,
                                   b->splits, &b->part->local[n]);
}
