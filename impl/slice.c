/* SPDX-License-Identifier: MIT */
/*
 * Slice: pieces of a batch and the tree that adds them; see slice.h.
 *
 * Partial sums live on a stack of gradient buffers. sum(lo, hi) at level l computes sum(lo, mid)
 * at l, sum(mid, hi) at l + 1, and adds the second to the first; so a tree over S shards needs
 * about log2 S more buffers. Finished subtree k starts at level k and stays there.
 */
#include "impl/slice_private.h"

#include "common/base/hooks.h"
#include "impl/delay.h"

#include <stdlib.h>
#include <string.h>

int64_t ls_slice_begin(int64_t total, int64_t d, int64_t n)
{
    return d * total / n;
}

static int64_t fast_pieces(const ls_slice_options *o)
{
    return o->pieces > 1 ? o->pieces : 1;
}

static int64_t piece_begin(const ls_slice *s, int64_t piece)
{
    const ls_slice_options *o = &s->options;
    const int64_t all = o->replica->job->exact ? s->pieces : (int64_t)o->count * fast_pieces(o);
    if (LS_PLANTED(uneven_share))
        return piece * (o->batch / all);
    return ls_slice_begin(o->batch, piece, all);
}

int64_t ls_slice_piece_rows(const ls_slice *s, int64_t piece)
{
    return piece_begin(s, piece + 1) - piece_begin(s, piece);
}

/* ---- Buffers and nets ----------------------------------------------------------------------- */

ls_status ls_slice_need_level(ls_slice *s, size_t index)
{
    ls_replica *r = s->options.replica;
    if (index < s->level_count)
        return LS_OK;
    if (index >= LS_SLICE_LEVELS)
        return ls_fail(LS_CODE_USAGE, "option", "--micro-shards", "the tree is too high");
    ls_slice_level *l = &s->levels[index];
    *l = (ls_slice_level){.gradients = r->gradients, .loss = r->loss + index};
    if (index > 0) {
        LS_TRY(ls_device_allocate(r->device, LS_MEMORY_GRADIENTS,
                                  r->elements * r->kernels->table->real_bytes, &l->gradients));
        s->own_levels++;
    }
    s->level_count++;
    return LS_OK;
}

static uint64_t divisor_of(const ls_slice *s)
{
    const ls_slice_options *o = &s->options;
    if (LS_PLANTED(average))
        return (uint64_t)(o->batch * o->count);
    if (LS_PLANTED(local_scale))
        return (uint64_t)(o->batch / o->count);
    if (o->replica->job->ps.mode != LS_PS_SYNC ||
        o->replica->job->average_every) /* applied alone */
        return (uint64_t)(ls_slice_begin(o->batch, o->number + 1, o->count) -
                          ls_slice_begin(o->batch, o->number, o->count));
    return (uint64_t)o->batch;
}

/* The first net of a slot, here or in the slice whose memory is used; NULL: none yet. */
static ls_net *slot_net(const ls_slice *s, int slot)
{
    ls_net *borrowed = s->options.memory_of ? slot_net(s->options.memory_of, slot) : NULL;
    for (size_t i = 0; i < s->net_count && !borrowed; i++)
        if (s->nets[i].slot == slot)
            return s->nets[i].net;
    return borrowed;
}

ls_status ls_slice_need_net(ls_slice *s, size_t index, int64_t rows, int slot, ls_net **out)
{
    LS_TRY(ls_slice_need_level(s, index));
    for (size_t i = 0; i < s->net_count; i++) {
        if (s->nets[i].level == index && s->nets[i].slot == slot &&
            ls_net_rows(s->nets[i].net) == rows) {
            *out = s->nets[i].net;
            return LS_OK;
        }
    }
    ls_slice_net_at *nets = realloc(s->nets, (s->net_count + 1) * sizeof *nets);
    if (!nets)
        return ls_fail_memory("slice", (s->net_count + 1) * sizeof *nets);
    s->nets = nets;
    ls_replica *r = s->options.replica;
    const ls_net_options options = {
        .graph = r->graph,
        .kernels = r->kernels,
        .rows = rows,
        .divisor = divisor_of(s),
        .parameters = r->parameters,
        .gradients = s->levels[index].gradients,
        .loss = s->levels[index].loss,
        .memory_of = slot_net(s, slot),
        .together = s->options.together,
        .whole = r->graph == r->job->model->graph,
    };
    LS_TRY(ls_net_open(&options, out));
    nets[s->net_count++] = (ls_slice_net_at){index, slot, !options.memory_of, *out};
    return LS_OK;
}

/* ---- Parts ---------------------------------------------------------------------------------- */

static ls_status new_part(ls_slice *s, ls_slice_part **out)
{
    ls_slice_part *parts = realloc(s->parts, (s->part_count + 1) * sizeof *parts);
    if (!parts)
        return ls_fail_memory("slice", (s->part_count + 1) * sizeof *parts);
    s->parts = parts;
    *out = &parts[s->part_count++];
    **out = (ls_slice_part){0};
    return LS_OK;
}

static int64_t slots(const ls_slice_options *o)
{
    return o->slots > 1 ? o->slots : 1;
}

ls_status ls_slice_build_piece(ls_slice *s, int64_t piece, size_t index, int slot)
{
    ls_slice_part *p = NULL;
    s->piece_count++;
    LS_TRY(new_part(s, &p));
    LS_TRY(ls_slice_need_net(s, index, ls_slice_piece_rows(s, piece), slot, &p->net));
    return ls_replica_feed(s->options.replica, p->net, (uint64_t)piece_begin(s, piece), &p->ops);
}

/* The next piece, in the slot whose turn it is. */
static ls_status build_next(ls_slice *s, int64_t piece, size_t index)
{
    return ls_slice_build_piece(s, piece, index, (int)(s->piece_count % slots(&s->options)));
}

ls_status ls_slice_build_sum(ls_slice *s, size_t into, size_t from)
{
    ls_replica *r = s->options.replica;
    const ls_slice_level *left = &s->levels[into], *right = &s->levels[from];
    const ls_add_args add = {.count = (int64_t)r->elements,
                             .a = left->gradients,
                             .b = right->gradients,
                             .y = left->gradients};
    const ls_add_loss_args loss = {.a = left->loss, .b = right->loss, .out = left->loss};
    ls_slice_part *p = NULL;
    ls_op *op;
    LS_TRY(new_part(s, &p));
    LS_TRY(r->kernels->table->add(r->kernels, &add, &op));
    op->use = LS_TIME_BACKWARD;
    LS_TRY(ls_op_list_add(&p->ops, op));
    LS_TRY(r->kernels->table->add_loss(r->kernels, &loss, &op));
    return ls_op_list_add(&p->loss, op);
}

int64_t ls_slice_middle(int64_t lo, int64_t hi)
{
    int64_t half = 1;
    while (2 * half < hi - lo)
        half *= 2;
    return lo + half;
}

/* sum(lo, hi), all of whose shards are this replica's. */
static ls_status build_tree(ls_slice *s, int64_t lo, int64_t hi, size_t index)
{
    if (hi - lo == 1)
        return build_next(s, lo, index);
    LS_TRY(build_tree(s, lo, ls_slice_middle(lo, hi), index));
    LS_TRY(build_tree(s, ls_slice_middle(lo, hi), hi, index + 1));
    return ls_slice_build_sum(s, index, index + 1);
}

static int64_t shards_of(const ls_job *job, int64_t batch)
{
    return job->micro_shards < batch ? job->micro_shards : batch;
}

int64_t ls_slice_rows(const ls_job *job, const ls_slice_options *o)
{
    const int64_t shards = shards_of(job, o->batch), each = fast_pieces(o);
    const int64_t all = job->exact ? shards : o->count * each;
    const int64_t first =
        job->exact ? ls_slice_begin(shards, o->number, o->count) : o->number * each;
    const int64_t last =
        job->exact ? ls_slice_begin(shards, o->number + 1, o->count) : first + each;
    int64_t most = 0;
    for (int64_t s = first; s < last; s++) {
        int64_t rows = ls_slice_begin(o->batch, s + 1, all) - ls_slice_begin(o->batch, s, all);
        most = rows > most ? rows : most;
    }
    return most;
}

size_t ls_slice_count_sums(const ls_job *job, int64_t batch, int number, int count)
{
    int64_t shards = shards_of(job, batch);
    if (!job->exact)
        return ls_slice_begin(batch, number + 1, count) > ls_slice_begin(batch, number, count);
    ls_subtree nodes[LS_SUBTREES];
    return ls_canonical_subtrees(number, count, shards, nodes);
}

typedef struct tree_builder {
    int64_t shards, replicas;
    size_t leaves; /* sums taken so far */
    ls_tree_sum *sums;
    size_t count;
} tree_builder;

/* Appends the additions of sum(lo, hi); returns the number of the sum that holds it. */
static size_t tree_below(tree_builder *b, int64_t lo, int64_t hi)
{
    for (int64_t d = 0; d < b->replicas; d++)
        if (lo >= ls_slice_begin(b->shards, d, b->replicas) &&
            hi <= ls_slice_begin(b->shards, d + 1, b->replicas))
            return b->leaves++;
    size_t left = tree_below(b, lo, ls_slice_middle(lo, hi));
    size_t right = tree_below(b, ls_slice_middle(lo, hi), hi);
    b->sums[b->count++] = (ls_tree_sum){left, right};
    return left;
}

ls_status ls_slice_tree(const ls_job *job, int64_t batch, int count, ls_tree_sum **out,
                        size_t *out_count)
{
    size_t leaves = 0;
    for (int d = 0; d < count; d++)
        leaves += ls_slice_count_sums(job, batch, d, count);
    tree_builder b = {.shards = shards_of(job, batch), .replicas = count};
    b.sums = calloc(leaves + 1, sizeof *b.sums);
    if (!b.sums)
        return ls_fail_memory("slice", leaves * sizeof *b.sums);
    if (job->exact && !LS_PLANTED(tree_order)) {
        tree_below(&b, 0, b.shards);
    } else {
        for (size_t i = 1; i < leaves; i++)
            b.sums[b.count++] = (ls_tree_sum){0, i};
    }
    *out = b.sums;
    *out_count = b.count;
    return LS_OK;
}

/* sum(lo, hi) of losses: each replica's parts are taken from left to right. */
static double loss_below(const double *const *parts, size_t *taken, int64_t lo, int64_t hi,
                         const int64_t tree[2])
{
    int64_t shards = tree[0], count = tree[1];
    for (int64_t d = 0; d < count; d++)
        if (lo >= ls_slice_begin(shards, d, count) && hi <= ls_slice_begin(shards, d + 1, count))
            return parts[d][taken[d]++];
    double left = loss_below(parts, taken, lo, ls_slice_middle(lo, hi), tree);
    return left + loss_below(parts, taken, ls_slice_middle(lo, hi), hi, tree);
}

double ls_slice_loss_sum(const ls_job *job, int64_t batch, const double *const *parts, int count)
{
    if (job->exact) {
        size_t taken[LS_JOB_REPLICAS] = {0};
        const int64_t shards = shards_of(job, batch);
        return loss_below(parts, taken, 0, shards, (const int64_t[]){shards, count});
    }
    double loss = 0;
    bool first = true;
    for (int d = 0; d < count; d++) {
        if (!ls_slice_count_sums(job, batch, d, count))
            continue;
        double part = parts[d][0];
        if (job->average_every) /* the mean over its own samples */
            part *=
                (double)(ls_slice_begin(batch, d + 1, count) - ls_slice_begin(batch, d, count)) /
                (double)batch;
        loss = first ? part : loss + part;
        first = false;
    }
    return loss;
}

/* Micro-batches are added in order; an epoch's last batch may have fewer samples than there are. */
static ls_status build_fast(ls_slice *s)
{
    for (int64_t piece = s->first; piece < s->last; piece++) {
        if (!ls_slice_piece_rows(s, piece))
            continue;
        LS_TRY(build_next(s, piece, s->sums ? 1 : 0));
        if (s->sums)
            LS_TRY(ls_slice_build_sum(s, 0, 1));
        s->sums = 1;
    }
    return LS_OK;
}

static ls_status build(ls_slice *s)
{
    const ls_slice_options *o = &s->options;
    const ls_job *job = o->replica->job;
    const int64_t rows = ls_slice_rows(job, o);
    ls_net *net;
    if (o->together)
        return ls_slice_build_together(s, rows);
    LS_TRY(ls_slice_need_level(s, 0));
    if (!rows) /* an epoch's last batch, smaller than the replicas are many */
        return LS_OK;
    /* The largest piece of each slot comes first: its net's memory serves the others. */
    for (int slot = 0; slot < slots(o); slot++)
        LS_TRY(ls_slice_need_net(s, 0, rows, slot, &net));
    if (!job->exact) {
        s->first = o->number * fast_pieces(o);
        s->last = s->first + fast_pieces(o);
        return build_fast(s);
    }
    s->pieces = shards_of(job, o->batch);
    s->first = ls_slice_begin(s->pieces, o->number, o->count);
    s->last = ls_slice_begin(s->pieces, o->number + 1, o->count);
    ls_subtree nodes[LS_SUBTREES];
    size_t count = ls_canonical_subtrees(o->number, o->count, s->pieces, nodes);
    for (; s->sums < count; s->sums++)
        LS_TRY(build_tree(s, nodes[s->sums].first, nodes[s->sums].last, s->sums));
    return LS_OK;
}

static ls_status add_delay(ls_slice *s, uint64_t ns)
{
    ls_op *op;
    LS_TRY(ls_delay_open(ns, &op));
    return ls_op_list_add(&s->delay, op);
}

static ls_status build_fault(ls_slice *s)
{
    ls_replica *r = s->options.replica;
    const ls_job *job = r->job;
    if (job->delay_ns && r->number >= job->delay_replica &&
        r->number < job->delay_replica + job->delay_count)
        LS_TRY(add_delay(s, job->delay_ns));
    if (job->flip_replica != r->number || !s->sums)
        return LS_OK;
    const ls_flip_bit_args args = {.count = (int64_t)r->elements,
                                   .data = r->gradients,
                                   .state = r->state,
                                   .step = job->flip_step};
    ls_op *op;
    LS_TRY(r->kernels->table->flip_bit(r->kernels, &args, &op));
    return ls_op_list_add(&s->flip, op);
}

/* ---- The interface -------------------------------------------------------------------------- */

ls_status ls_slice_open(const ls_slice_options *options, ls_slice **out)
{
    ls_slice *slice = calloc(1, sizeof *slice);
    if (!slice)
        return ls_fail_memory("slice", sizeof *slice);
    slice->options = *options;
    if (options->memory_of) { /* stack levels are shared, too */
        slice->level_count = options->memory_of->level_count;
        memcpy(slice->levels, options->memory_of->levels, sizeof slice->levels);
    }
    ls_status status = build(slice);
    if (!status)
        status = build_fault(slice);
    if (!status)
        status = ls_slice_build_acts(slice);
    if (status) {
        ls_slice_close(slice);
        return status;
    }
    *out = slice;
    return LS_OK;
}

void ls_slice_close(ls_slice *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->part_count; i++) {
        ls_op_list_clear(&s->parts[i].ops);
        ls_op_list_clear(&s->parts[i].loss);
    }
    for (size_t i = s->net_count; i-- > 0;)
        ls_net_close(s->nets[i].net);
    for (size_t i = s->level_count - s->own_levels; i < s->level_count; i++)
        ls_device_release(s->options.replica->device, s->levels[i].gradients);
    for (int n = 0; s->met[0] && n < s->options.replica->graph->count; n++) {
        ls_op_list_clear(&s->met[0][n]);
        ls_op_list_clear(&s->met[1][n]);
    }
    if (s->gathered)
        ls_device_release(s->options.replica->device, s->gathered);
    free(s->met[0]);
    ls_op_list_clear(&s->flip);
    ls_op_list_clear(&s->delay);
    free(s->acts);
    free(s->parts);
    free(s->nets);
    free(s);
}

ls_status ls_slice_put(ls_slice *s)
{
    for (size_t i = 0; i < s->act_count; i++)
        for (int l = 0; l < LS_NET_LISTS; l++)
            if (s->acts[i].lists[l])
                LS_TRY(ls_op_list_put(s->acts[i].lists[l], s->options.replica->queue));
    return LS_OK;
}

ls_net *ls_slice_piece_net(const ls_slice *slice, int piece)
{
    for (size_t i = 0; i < slice->part_count; i++)
        if (slice->parts[i].net && piece-- == 0)
            return slice->parts[i].net;
    return NULL;
}

size_t ls_slice_sums(const ls_slice *slice)
{
    return slice->sums;
}

void *ls_slice_gradients(const ls_slice *slice, size_t index)
{
    return slice->levels[index].gradients;
}

double *ls_slice_loss(const ls_slice *slice, size_t index)
{
    return slice->levels[index].loss;
}

ls_net *ls_slice_net(const ls_slice *slice)
{
    for (size_t i = 0; i < slice->part_count; i++)
        if (slice->parts[i].net)
            return slice->parts[i].net;
    return NULL;
}

void ls_slice_memory(const ls_slice *s, ls_memory_formula *formula)
{
    const ls_replica *r = s->options.replica;
    const ls_graph *graph = r->graph;
    size_t real = r->kernels->table->real_bytes;
    formula->bytes[LS_MEMORY_GRADIENTS] += s->own_levels * r->elements * real;
    for (size_t i = 0; i < s->part_count; i++)
        formula->bytes[LS_MEMORY_WORKSPACE] +=
            ls_op_list_workspace(&s->parts[i].ops) + ls_op_list_workspace(&s->parts[i].loss);
    for (size_t i = 0; i < s->net_count; i++) {
        const ls_slice_net_at *at = &s->nets[i];
        formula->bytes[LS_MEMORY_WORKSPACE] += ls_net_workspace(at->net);
        if (!at->own)
            continue;
        formula->bytes[LS_MEMORY_ACTIVATIONS] +=
            ls_net_activation_bytes(graph, real, ls_net_rows(at->net));
        formula->bytes[LS_MEMORY_WORKSPACE] += ls_net_shared_bytes(graph, real);
    }
    for (int n = 0; s->met[0] && n < graph->count; n++)
        formula->bytes[LS_MEMORY_WORKSPACE] +=
            ls_op_list_workspace(&s->met[0][n]) + ls_op_list_workspace(&s->met[1][n]);
    formula->bytes[LS_MEMORY_COMMUNICATION] += s->gathered_bytes;
}
