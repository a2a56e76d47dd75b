/* SPDX-License-Identifier: MIT */
/*
 * Sums over the places of a replica whose layers are split (graph_split.h): an all-reduce of
 * activations, or of their gradients, between the halves of a node's pass, on the compute lane. In
 * exact mode the places exchange their finished subtrees of the tree over slices. For a loss they
 * gather each slice's numbers of each position, around a ring.
 *
 * With blocks of positions a join's outputs are reduced and scattered, and a gather's are gathered;
 * backward it is the other way round. A block is contiguous only within a sample, so data are
 * exchanged in memory where a block of all samples is, one block after the other. Gradients of
 * variables that blocks share are summed in the order of the places, by `flat`.
 *
 * In bfloat16 and fast mode what is exchanged is stored so, and summed by its owners, who add in
 * float32 and round once (ls_allreduce_stored); only blocks are copied in float32.
 */
#include "common/comm/comm_parts.h"
#include "impl/step/plan/loads.h"
#include "impl/step/verbs/build.h"

/* Leaves of the tree; 0 means fast mode. */
static int64_t leaves(const ls_step_plan *plan)
{
    const ls_graph_slices *slices = &plan->parts.whole->slices;
    return slices->rounded ? 0 : slices->splits;
}

static bool rounds(const ls_step_plan *plan)
{
    return ls_job_rounds(plan->job) && !leaves(plan);
}

static const ls_allreduce *sum_of(const ls_step_plan *plan)
{
    return rounds(plan) ? &ls_allreduce_stored : plan->job->exchange.allreduce;
}

/* What is summed of a node: VARIABLES of blocks of positions that share them. */
typedef enum addends { OUTPUTS, GRADIENTS, LOSS, VARIABLES, ADDENDS } addends;

/* What the places do (ls_half, loads.h), and by which all-reduce; LS_NO_SUM: nothing. */
static int half_of(const ls_step_plan *plan, int n, addends what, const ls_allreduce **algorithm)
{
    const ls_node *node = &plan->parts.whole->nodes[n];
    const bool first = node->block == 1 && !node->slice && node->variable_count;
    *algorithm = what == LOSS        ? &ls_allreduce_ring
                 : what == VARIABLES ? &ls_allreduce_flat
                                     : sum_of(plan);
    if (plan->parts.across == 1)
        return LS_NO_SUM;
    if (what == LOSS)
        return node->layer == &ls_layer_split_loss ? LS_ALL_GATHER : LS_NO_SUM;
    if (what == VARIABLES)
        return first ? LS_HALVES : LS_NO_SUM;
    return ls_loads_half(plan->parts.whole, n, what == GRADIENTS);
}

static bool is_summed(const ls_step_plan *plan, int n, addends what)
{
    const ls_allreduce *algorithm;
    return half_of(plan, n, what, &algorithm) != LS_NO_SUM;
}

/* The extent of what a node sums, for so many samples. With blocks of positions, each block is
 * contiguous in this memory, and cuts are between positions. A loss has what each slice gives. A
 * node's variables lie together. */
static ls_extent extent_of(const ls_step_plan *plan, int n, addends what, int64_t rows)
{
    const ls_graph *whole = plan->parts.whole;
    const ls_node *node = &whole->nodes[n];
    const size_t splits = (size_t)whole->slices.splits;
    size_t count = (size_t)(rows * ls_shape_elements(&node->shape));
    if (what == LOSS) {
        count = splits * (size_t)(rows * ls_shape_positions(&node->shape)) * LS_SOFTMAX_PART;
        return (ls_extent){.count = count, .blocks = splits};
    }
    if (what == VARIABLES) {
        count = 0;
        for (int v = 0; v < node->variable_count; v++)
            count += whole->variables.items[node->variables[v]].count;
        return ls_elements(count);
    }
    return whole->slices.sequence ? (ls_extent){count, (size_t)node->shape.size[0], NULL}
                                  : ls_elements(count);
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Elements of scratch for a node's sums; with blocks of positions their memory comes first; where
 * they are rounded, then float32 memory for the node, and for the rounded blocks. */
static size_t scratch_of(const ls_step_plan *plan, int n, int64_t rows, const ls_end *end)
{
    const ls_allreduce *algorithm = sum_of(plan);
    if (!is_summed(plan, n, OUTPUTS) && !is_summed(plan, n, GRADIENTS))
        return 0;
    const ls_extent extent = extent_of(plan, n, OUTPUTS, rows);
    const size_t more = rounds(plan) ? extent.count + (extent.count + 1) / 2 : 0;
    return (plan->parts.whole->slices.sequence ? extent.count + more : 0) +
           (algorithm->scratch
                ? algorithm->scratch(end->comm->rank, end->comm->size, extent, leaves(plan))
                : 0);
}

size_t ls_sums_scratch(const ls_step_plan *plan, int member, const ls_end *end)
{
    const ls_job *job = plan->job;
    size_t most = 0;
    for (int b = 0; b < LS_BATCHES; b++) {
        const ls_slice_options slice = ls_replicated_slice(job, plan->members[member].replica, b);
        const int64_t rows = slice.batch ? ls_slice_rows(job, &slice) : 0;
        for (int n = 0; n < plan->parts.whole->count && rows; n++) {
            const size_t need = scratch_of(plan, n, rows, end);
            most = need > most ? need : most;
        }
    }
    return most;
}

/* ---- The verbs ------------------------------------------------------------------------------- */

/* What a call sums. */
typedef struct summed {
    addends what;
    int piece, node; /* node: of the whole graph */
} summed;

/* A member's part of a node's pass. */
typedef struct addend {
    int member, node; /* of the member's graph */
    ls_net *net;      /* NULL if it is in another process */
} addend;

static addend addend_at(const ls_step *s, int member, int piece, int n)
{
    const ls_graph_parts *parts = &s->plan->parts;
    const int t = parts->across,
              part = parts->place[n] / t * t + s->plan->members[member].place % t;
    addend a = {.member = member, .node = ls_graph_parts_local(parts, part, n)};
    if (ls_step_replica(s, member))
        a.net = ls_slice_node_net(ls_step_member(s, member)->slice[s->batch_kind], piece, a.node);
    return a;
}

/* The node that has block j of the output whose first block node n has. */
static int find_block(const ls_step_plan *plan, int n, int j)
{
    const ls_graph *whole = plan->parts.whole;
    for (int m = n + 1; m < whole->count && j; m++)
        if (whole->nodes[m].shares == n && whole->nodes[m].block == j + 1)
            return m;
    return n;
}

static void *data_of(const ls_call *c, const addend *a)
{
    return ((const summed *)c->of)->what == GRADIENTS ? ls_net_node_gradient(a->net, a->node)
                                                      : ls_net_node_output(a->net, a->node);
}

static ls_status add_op(ls_op *op, ls_op_list *ops)
{
    op->use = LS_TIME_COMMUNICATION;
    return ls_op_list_add(ops, op);
}

static ls_status widen(ls_kernels *k, size_t count, const void *x, float *y, ls_op_list *ops)
{
    const ls_widen_args args = {.count = (int64_t)count, .x = x, .y = y};
    ls_op *op;
    LS_TRY(k->table->widen(k, &args, &op));
    return add_op(op, ops);
}

ls_status ls_step_narrow(ls_kernels *k, size_t count, const float *x, void *y, ls_op_list *ops)
{
    const ls_narrow_args args = {.count = (int64_t)count, .x = x, .y = y};
    ls_op *op;
    LS_TRY(k->table->narrow(k, &args, &op));
    return add_op(op, ops);
}

static float *cut_scratch(ls_brought *b, size_t count)
{
    float *at = b->args.scratch;
    b->args.scratch += count;
    return at;
}

/* Appends copies of places' blocks of positions of all samples from a node's samples, at `data`,
 * into memory of blocks, or `back`: what the half sends, or brings. */
static ls_status copy_blocks(ls_step *s, const ls_call *c, const addend *a, const ls_brought *b,
                             float *data, bool back, ls_op_list *ops)
{
    const ls_comm *comm = s->resources->ends[c->channel].items[a->member].comm;
    ls_kernels *kernels = ls_step_replica(s, a->member)->kernels;
    const int64_t rows = ls_net_rows(a->net), whole = (int64_t)b->extent.count / (rows ? rows : 1);
    const bool scatters = c->half == LS_REDUCE_SCATTER;
    for (int j = 0; j < comm->size && rows; j++) {
        const bool own = j == comm->rank;
        const size_t first = ls_comm_cut(b->extent, j, comm->size);
        const int64_t width = (int64_t)(ls_comm_cut(b->extent, j + 1, comm->size) - first) / rows;
        float *in = data + (int64_t)first / rows, *out = b->blocks + first;
        const ls_copy_columns_args args = {.rows = rows,
                                           .width = width,
                                           .x_pitch = back ? width : whole,
                                           .y_pitch = back ? whole : width,
                                           .x = back ? out : in,
                                           .y = back ? in : out};
        ls_op *op;
        if (back ? scatters != own : !scatters && !own)
            continue;
        LS_TRY(ls_kernel_table_need(kernels->table, "copy_columns",
                                    "--tensor-parallel-sequence yes",
                                    "--tensor-parallel-sequence no"));
        LS_TRY(kernels->table->copy_columns(kernels, &args, &op));
        LS_TRY(ls_op_list_add(ops, op));
    }
    return LS_OK;
}

static ls_status bring(ls_step *s, const ls_call *c, int member, ls_brought *b, ls_op_list *ops)
{
    const summed *of = c->of;
    const int place = s->plan->members[member].place;
    const addend a = addend_at(s, member, of->piece,
                               of->what == VARIABLES
                                   ? find_block(s->plan, of->node, place % s->plan->parts.across)
                                   : of->node);
    const int64_t rows = ls_net_rows(a.net);
    void *parts[LS_LAYER_TREES];
    b->node = a.node;
    b->extent = extent_of(s->plan, of->node, of->what, rows);
    if (of->what == LOSS) {
        b->args.data = ls_net_loss_parts(a.net);
    } else if (of->what == VARIABLES) {
        b->args.data = ls_net_site(a.net, a.node).variable_gradient[0];
    } else if (c->half == LS_HALVES) {
        const int count = ls_net_node_part_sums(a.net, a.node, parts);
        for (int k = 0; k < count; k++)
            b->sums[k] = parts[k];
        b->args.data = b->sums[0];
        b->args.shards = leaves(s->plan);
        b->args.sums = b->args.shards ? b->sums : NULL;
        b->args.sum_count = b->args.shards ? (size_t)count : 0;
    } else { /* in memory of blocks, which comes before the scratch */
        ls_kernels *k = ls_step_replica(s, member)->kernels;
        b->args.data = b->blocks = cut_scratch(b, b->extent.count);
        if (!rounds(s->plan))
            return copy_blocks(s, c, &a, b, data_of(c, &a), false, ops);
        b->wide = cut_scratch(b, b->extent.count);
        b->args.data = cut_scratch(b, (b->extent.count + 1) / 2);
        LS_TRY(widen(k, b->extent.count, data_of(c, &a), b->wide, ops));
        LS_TRY(copy_blocks(s, c, &a, b, b->wide, false, ops));
        return ls_step_narrow(k, b->extent.count, b->blocks, b->args.data, ops);
    }
    return LS_OK;
}

static ls_status take(ls_step *s, const ls_call *c, int member, ls_brought *b, ls_op_list *ops)
{
    const summed *of = c->of;
    const addend a = addend_at(s, member, of->piece, of->node);
    ls_kernels *k = ls_step_replica(s, member)->kernels;
    if (!rounds(s->plan))
        return copy_blocks(s, c, &a, b, data_of(c, &a), true, ops);
    LS_TRY(widen(k, b->extent.count, b->args.data, b->blocks, ops));
    LS_TRY(copy_blocks(s, c, &a, b, b->wide, true, ops));
    return ls_step_narrow(k, b->extent.count, b->wide, data_of(c, &a), ops);
}

/* Appends the second half of the node's pass. */
static void append_rest(ls_step *s, const addend *a, int piece, ls_act_kind pass)
{
    const char *verb = pass == LS_ACT_BACKWARD ? "backward"
                       : pass == LS_ACT_AGAIN  ? ls_verb_again
                                               : "forward";
    const ls_act_kind rest = pass == LS_ACT_BACKWARD ? LS_ACT_BACKWARD_REST
                             : pass == LS_ACT_AGAIN  ? LS_ACT_AGAIN_REST
                                                     : LS_ACT_FORWARD_REST;
    if (s->kind == LS_EVALUATION)
        ls_step_predict(s, verb, a->member, piece, a->node, LS_NET_FORWARD_REST);
    else
        ls_step_append_acts(s, verb, a->member, piece, 1U << rest, LS_ALL_CHUNKS, a->node);
}

bool ls_step_is_summed(const ls_step *s, int n, bool backward)
{
    return is_summed(s->plan, n, backward ? GRADIENTS : OUTPUTS) ||
           (!backward && is_summed(s->plan, n, LOSS));
}

/* Appends a sum on all places. */
static void sum_places(ls_step *s, int channel, const summed *of)
{
    static const char *const verbs[] = {[OUTPUTS] = "sum outputs",
                                        [GRADIENTS] = "sum gradients",
                                        [LOSS] = "gather loss",
                                        [VARIABLES] = "sum variables"};
    ls_call call = {.channel = channel, .bring = bring, .of = of};
    call.half = (ls_half)half_of(s->plan, of->node, of->what, &call.algorithm);
    const bool blocks = of->what != LOSS && call.half != LS_HALVES;
    call.verb = blocks ? NULL : verbs[of->what];
    call.take = blocks ? take : NULL;
    ls_step_call(s, &call);
}

void ls_step_sum_places(ls_step *s, int replica, int piece, int n, ls_act_kind pass)
{
    const ls_step_plan *plan = s->plan;
    const bool backward = pass == LS_ACT_BACKWARD,
               shared = backward && is_summed(plan, n, VARIABLES);
    const bool loss = is_summed(plan, n, LOSS), sums = ls_step_is_summed(s, n, backward);
    const int t = plan->parts.across;
    /* a fork's pass is in halves, with a sum or without */
    const bool halves =
        sums || (backward && t > 1 && plan->parts.whole->nodes[n].layer == &ls_layer_fork);
    if (!shared && !halves)
        return;
    const int stage = plan->parts.place[n] / t % plan->mesh.size[LS_STAGE];
    const int first = replica * plan->mesh.places + stage * t;
    const int channel = ls_step_plan_places(plan, replica, stage);
    summed of = {VARIABLES, piece, n};
    if (shared)
        sum_places(s, channel, &of);
    of.what = loss ? LOSS : backward ? GRADIENTS : OUTPUTS;
    if (sums)
        sum_places(s, channel, &of);
    for (int m = first; m < first + t && halves && !s->program->status; m++) {
        const addend a = addend_at(s, m, piece, n);
        if (a.net && !(loss && s->kind == LS_EVALUATION))
            append_rest(s, &a, piece, pass);
    }
    if (sums)
        ls_step_cross(s, replica, piece, n, pass);
}

/* ---- Traffic --------------------------------------------------------------------------------- */

/* What a node's sums of so many samples move; `again`: outputs' in a repeated pass, too. */
static ls_traffic traffic_of(const ls_step_plan *plan, int n, int64_t rows, bool again)
{
    const int t = plan->parts.across;
    ls_traffic sum = {0};
    for (addends what = 0; what < ADDENDS; what++) {
        const ls_allreduce *a;
        const int half = half_of(plan, n, what, &a);
        const ls_extent extent = extent_of(plan, n, what, rows);
        if (half != LS_NO_SUM)
            ls_traffic_add(&sum,
                           half == LS_HALVES ? a->formula(t, extent, leaves(plan), NULL)
                                             : a->half_formula((ls_half)half, t, extent, 0),
                           what == OUTPUTS && again ? 2 : 1);
    }
    return sum;
}

/* Each piece is summed once at each fork and join, and what its loss needs is gathered once; what a
 * repeated pass sums is summed twice. */
ls_traffic ls_step_sums_traffic(const ls_step *s)
{
    const ls_job *job = ls_step_job(s);
    const int64_t n = s->plan->mesh.replicas;
    const int64_t all = ls_slice_pieces(job, s->batch, (int)n, ls_job_pieces(job));
    ls_traffic sum = {0};
    for (int r = 0; r < n; r++) {
        int piece = 0;
        for (int64_t i = ls_slice_begin(all, r, n); i < ls_slice_begin(all, r + 1, n); i++) {
            const int64_t rows = ls_slice_share(s->batch, i, all);
            for (int node = 0; node < s->plan->parts.whole->count && rows; node++)
                ls_traffic_add(
                    &sum, traffic_of(s->plan, node, rows, ls_step_is_repeated(s, r, piece, node)),
                    1);
            piece += rows > 0;
        }
    }
    return sum;
}
