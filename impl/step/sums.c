/* SPDX-License-Identifier: MIT */
/*
 * Sums over the places of a replica whose layers are split (graph_split.h): an all-reduce of
 * activations, or of their gradients, between the halves of a node's pass, on the compute lane. In
 * exact mode the places exchange their finished subtrees of the tree over slices. Of a loss they
 * gather what each slice has left of each position, around a ring.
 *
 * With blocks of positions a join's outputs are reduced and scattered, and a gather's are gathered;
 * backward it is the other way round. A block is contiguous only within a sample, so data are
 * exchanged in memory where a block of all samples is, one block after the other. Gradients of
 * variables that blocks share are summed in the order of the places, by `flat`.
 */
#include "impl/step/build.h"
#include "impl/step/loads.h"

/* Leaves of the tree; 0: fast mode. */
static int64_t leaves(const ls_job *job)
{
    return job->exact.on ? ls_job_splits(job) : 0;
}

/* What the places do between the halves of a node's pass (loads.h). */
static int half_at(const ls_step_plan *plan, int n, bool backward)
{
    return plan->parts.across > 1 ? ls_loads_half(plan->parts.whole, n, backward) : LS_NO_SUM;
}

/* Whether blocks of positions share the node's variables; it has the first block. */
static bool is_shared(const ls_step_plan *plan, int n)
{
    const ls_node *node = &plan->parts.whole->nodes[n];
    return plan->parts.across > 1 && node->block == 1 && !node->slice && node->variable_count;
}

/* Elements of its variables, which lie together. */
static size_t count_shared(const ls_graph *graph, int n)
{
    size_t count = 0;
    for (int v = 0; v < graph->nodes[n].variable_count; v++)
        count += graph->variables.items[graph->nodes[n].variables[v]].count;
    return count;
}

static bool is_gathered(const ls_step_plan *plan, int n)
{
    return plan->parts.across > 1 && plan->parts.whole->nodes[n].layer == &ls_layer_split_loss;
}

/* Elements that each of `places` gives for so many samples, and where they begin. */
static void gathered(const ls_step_plan *plan, int n, int64_t samples, size_t *offsets,
                     size_t *counts)
{
    const ls_graph *whole = plan->parts.whole;
    const size_t splits = (size_t)whole->slices.splits;
    const size_t each =
        (size_t)(samples * ls_shape_positions(&whole->nodes[n].shape)) * LS_SOFTMAX_PART;
    for (int j = 0; j < plan->parts.across; j++) {
        offsets[j] = ls_comm_share(splits, j, plan->parts.across) * each;
        counts[j] = ls_comm_share(splits, j + 1, plan->parts.across) * each - offsets[j];
    }
}

/* Of a node's samples; with blocks of positions, of memory in which these are contiguous, cut
 * between positions. */
static ls_extent extent_of(const ls_step_plan *plan, int n, int64_t rows)
{
    const ls_shape *shape = &plan->parts.whole->nodes[n].shape;
    const size_t count = (size_t)(rows * ls_shape_elements(shape));
    return plan->parts.whole->slices.sequence ? (ls_extent){count, (size_t)shape->size[0], NULL}
                                              : ls_elements(count);
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Elements of scratch for a node's sums; with blocks of positions their memory comes first. */
static size_t scratch_of(const ls_step_plan *plan, int n, int64_t rows, const ls_end *end)
{
    const ls_allreduce *algorithm = plan->job->exchange.allreduce;
    const int forward = half_at(plan, n, false), backward = half_at(plan, n, true);
    if (forward == LS_NO_SUM && backward == LS_NO_SUM)
        return 0;
    const ls_extent extent = extent_of(plan, n, rows);
    return (plan->parts.whole->slices.sequence ? extent.count : 0) +
           (algorithm->scratch
                ? algorithm->scratch(end->comm->rank, end->comm->size, extent, leaves(plan->job))
                : 0);
}

/* Allocates scratch for the largest sum of this end; they run one after the other. */
static ls_status take_scratch(ls_resources *r, int member, ls_end *end)
{
    const ls_job *job = r->plan->job;
    size_t most = 0;
    for (int b = 0; b < LS_BATCHES; b++) {
        const ls_slice_options slice = {.batch = ls_replicated_batch(job, b),
                                        .number = r->plan->members[member].replica,
                                        .count = r->plan->mesh.replicas,
                                        .pieces = ls_job_pieces(job)};
        const int64_t rows = slice.batch ? ls_slice_rows(job, &slice) : 0;
        for (int n = 0; n < r->plan->parts.whole->count && rows; n++) {
            const size_t need = scratch_of(r->plan, n, rows, end);
            most = need > most ? need : most;
        }
    }
    return most ? ls_replica_take(r->members[member].replica, "scratch", LS_MEMORY_COMMUNICATION,
                                  most * sizeof(float), &end->scratch)
                : LS_OK;
}

static ls_status open_ends(ls_resources *r, const ls_ends *ends, const int *members, int count)
{
    const ls_allreduce *algorithm = r->plan->job->exchange.allreduce;
    if (algorithm->check && count)
        LS_TRY(algorithm->check(ends->comms[0]));
    for (int i = 0; i < count; i++) {
        ends->of[members[i]].comm = ends->comms[i];
        ends->comms[i]->layout = NULL; /* the order of summation does not depend on hosts */
        LS_TRY(take_scratch(r, members[i], &ends->of[members[i]]));
    }
    return LS_OK;
}

ls_status ls_sums_open(ls_resources *r)
{
    const ls_step_plan *plan = r->plan;
    const int t = plan->mesh.size[LS_SLICE], each = plan->mesh.size[LS_STAGE];
    const int stages = t > 1 ? plan->mesh.replicas * each : 0;
    int members[LS_JOB_REPLICAS];
    for (int i = 0; i < stages; i++) {
        const ls_ends *ends = &r->ends[ls_step_plan_places(plan, i / each, i % each)];
        int count = 0;
        for (int m = i * t; m < (i + 1) * t; m++)
            if (plan->members[m].device >= 0)
                members[count++] = m;
        LS_TRY(ls_connect(r, members, count, LS_COUNTED, ends->comms));
        LS_TRY(ls_comm_agree(plan->job->ranks.comm, open_ends(r, ends, members, count)));
    }
    return LS_OK;
}

/* ---- The verbs ------------------------------------------------------------------------------- */

/* A member's part of a sum. */
typedef struct addend {
    int member, node; /* of the member's graph */
    ls_net *net;
} addend;

static addend addend_at(const ls_step *s, int replica, int place, int piece, int n)
{
    const int member = replica * s->plan->mesh.places + place;
    addend a = {.member = member, .node = s->plan->parts.parts[place].local[n]};
    if (ls_step_replica(s, member))
        a.net = ls_slice_piece_net(ls_step_member(s, member)->slice[s->batch_kind], piece);
    return a;
}

/* Appends the operations of an all-reduce of a fork or join. */
static ls_status build_sum(const ls_step *s, const addend *a, const ls_end *end, ls_op_list *ops)
{
    const ls_job *job = ls_step_job(s);
    void *parts[LS_LAYER_TREES];
    float *sums[LS_LAYER_TREES];
    const int count = ls_net_node_part_sums(a->net, a->node, parts);
    const ls_graph *graph = ls_step_replica(s, a->member)->graph;
    for (int k = 0; k < count; k++)
        sums[k] = parts[k];
    const ls_allreduce_args args = {
        .data = sums[0],
        .count = (size_t)(ls_net_rows(a->net) * ls_shape_elements(&graph->nodes[a->node].shape)),
        .scratch = end->scratch,
        .shards = leaves(job),
        .sums = job->exact.on ? sums : NULL,
        .sum_count = job->exact.on ? (size_t)count : 0};
    return job->exchange.allreduce->build(end->comm, &args, ops);
}

/* A place's block of positions of all samples, between a node's samples and memory of blocks;
 * `back`: out of this memory. */
static ls_status copy_block(const addend *a, ls_kernels *kernels, const ls_comm *comm, int j,
                            const ls_allreduce_args *all, float *data, bool back, ls_op_list *ops)
{
    const int64_t rows = ls_net_rows(a->net), whole = (int64_t)all->count / rows;
    const size_t first = ls_comm_cut(*all->cut, j, comm->size);
    const int64_t width = (int64_t)(ls_comm_cut(*all->cut, j + 1, comm->size) - first) / rows;
    float *in = data + (int64_t)first / rows, *out = all->data + first;
    const ls_copy_columns_args args = {.rows = rows,
                                       .width = width,
                                       .x_pitch = back ? width : whole,
                                       .y_pitch = back ? whole : width,
                                       .x = back ? out : in,
                                       .y = back ? in : out};
    ls_op *op;
    LS_TRY(ls_kernel_table_need(kernels->table, "copy_columns", "tensor-parallel-sequence"));
    LS_TRY(kernels->table->copy_columns(kernels, &args, &op));
    return ls_op_list_add(ops, op);
}

/* The same of half an all-reduce, by blocks of positions. */
static ls_status build_half(const ls_step *s, int n, ls_half half, const addend *a,
                            const ls_end *end, bool backward, ls_op_list *ops)
{
    ls_kernels *kernels = ls_step_replica(s, a->member)->kernels;
    const ls_extent blocks = extent_of(s->plan, n, ls_net_rows(a->net));
    float *data =
        backward ? ls_net_node_gradient(a->net, a->node) : ls_net_node_output(a->net, a->node);
    float *memory = end->scratch;
    const ls_allreduce_args args = {
        .data = memory, .count = blocks.count, .cut = &blocks, .scratch = memory + blocks.count};
    const int own = end->comm->rank;
    if (!blocks.count)
        return LS_OK;
    for (int j = 0; j < s->plan->parts.across; j++)
        if (half == LS_REDUCE_SCATTER || j == own)
            LS_TRY(copy_block(a, kernels, end->comm, j, &args, data, false, ops));
    LS_TRY(ls_step_job(s)->exchange.allreduce->half(end->comm, half, &args, ops));
    for (int j = 0; j < s->plan->parts.across; j++)
        if ((half == LS_REDUCE_SCATTER) == (j == own))
            LS_TRY(copy_block(a, kernels, end->comm, j, &args, data, true, ops));
    return LS_OK;
}

/* The same of what a loss gathers. */
static ls_status build_gather(const ls_step *s, int n, const addend *a, const ls_end *end,
                              ls_op_list *ops)
{
    size_t offsets[LS_JOB_REPLICAS], counts[LS_JOB_REPLICAS];
    gathered(s->plan, n, ls_net_rows(a->net), offsets, counts);
    return ls_allgather_build(end->comm, ls_net_loss_parts(a->net), offsets, counts, ops);
}

/* The same of the gradients of variables that blocks share. */
static ls_status build_shared(const addend *a, const ls_graph *graph, const ls_end *end,
                              ls_op_list *ops)
{
    const ls_layer_site site = ls_net_site(a->net, a->node);
    const ls_allreduce_args args = {.data = site.variable_gradient[0],
                                    .count = count_shared(graph, a->node)};
    const ls_allreduce *flat;
    LS_TRY(ls_allreduce_find("flat", &flat));
    return flat->build(end->comm, &args, ops);
}

/* What a sum is of. */
typedef enum sum_kind { OUTPUTS, GRADIENTS, LOSS, VARIABLES } sum_kind;

static const char *const verbs[] = {[OUTPUTS] = "sum outputs",
                                    [GRADIENTS] = "sum gradients",
                                    [LOSS] = "gather loss",
                                    [VARIABLES] = "sum variables"};

static void append_sum(ls_step *s, sum_kind kind, int n, const addend *a, int channel, int call)
{
    const ls_end *end = &s->resources->ends[channel].of[a->member];
    const int half =
        kind == OUTPUTS || kind == GRADIENTS ? half_at(s->plan, n, kind == GRADIENTS) : LS_NO_SUM;
    const char *verb = half == LS_REDUCE_SCATTER ? "reduce-scatter"
                       : half == LS_ALL_GATHER   ? "all-gather"
                                                 : verbs[kind];
    ls_op_list ops = {0};
    ls_status status = LS_OK;
    if (kind == LOSS)
        status = build_gather(s, n, a, end, &ops);
    else if (kind == VARIABLES)
        status = build_shared(a, ls_step_replica(s, a->member)->graph, end, &ops);
    else if (half == LS_HALVES)
        status = build_sum(s, a, end, &ops);
    else
        status = build_half(s, n, (ls_half)half, a, end, kind == GRADIENTS, &ops);
    ls_task *task = ls_task_of(s->program, verb, a->member, ls_no_range, &ops, status);
    if (!task)
        return;
    task->node = a->node;
    task->call = call;
    task->end.channel = channel;
    ls_task_count_messages(s->program, end->comm->rank);
}

/* Appends the second half of the node's pass. */
static void append_rest(ls_step *s, const char *verb, const addend *a, int piece, bool backward)
{
    const ls_op_list *lists[LS_NET_LISTS];
    if (s->kind != LS_EVALUATION) {
        ls_step_append_acts(s, verb, a->member, piece,
                            1U << (backward ? LS_ACT_BACKWARD_REST : LS_ACT_FORWARD_REST), a->node);
        return;
    }
    ls_net_node_lists(a->net, a->node, LS_NET_FORWARD_REST, lists);
    if (!lists[1]->count)
        return;
    ls_task *task = ls_task_begin(s->program, verb, a->member, ls_no_range);
    if (task)
        task->node = a->node;
    ls_task_add_ops(s->program, lists[1]);
    ls_task_finish(s->program);
}

bool ls_step_is_summed(const ls_step *s, int n, bool backward)
{
    return half_at(s->plan, n, backward) != LS_NO_SUM || (!backward && is_gathered(s->plan, n));
}

/* The node that has block j of what node n has the first block of. */
static int find_block(const ls_step_plan *plan, int n, int j)
{
    const ls_graph *whole = plan->parts.whole;
    for (int m = n + 1; m < whole->count && j; m++)
        if (whole->nodes[m].shares == n && whole->nodes[m].block == j + 1)
            return m;
    return n;
}

/* Appends a sum on all places. */
static void sum_places(ls_step *s, int replica, int piece, int n, sum_kind kind)
{
    const int t = s->plan->parts.across, stage = s->plan->parts.place[n] / t;
    const int channel = ls_step_plan_places(s->plan, replica, stage);
    const ls_comm *first = s->resources->ends[channel].comms[0];
    const int call = first && ls_comm_is_joint(first) ? s->program->calls++ : -1;
    for (int p = stage * t; p < (stage + 1) * t && !s->program->status; p++) {
        const int its = kind == VARIABLES ? find_block(s->plan, n, p % t) : n;
        const addend a = addend_at(s, replica, p, piece, its);
        if (a.net)
            append_sum(s, kind, n, &a, channel, call);
    }
}

void ls_step_sum_places(ls_step *s, int replica, int piece, int n, bool backward)
{
    if (!ls_job_slices(s->plan->job))
        return;
    const ls_step_plan *plan = s->plan;
    const int t = plan->parts.across, stage = plan->parts.place[n] / t;
    const bool loss = is_gathered(plan, n), sums = ls_step_is_summed(s, n, backward);
    const bool fork = t > 1 && plan->parts.whole->nodes[n].layer == &ls_layer_fork;
    if (backward && is_shared(plan, n))
        sum_places(s, replica, piece, n, VARIABLES);
    if (!sums && !(fork && backward)) /* a fork's pass is in halves, with a sum or without */
        return;
    if (sums)
        sum_places(s, replica, piece, n, loss ? LOSS : backward ? GRADIENTS : OUTPUTS);
    for (int p = stage * t; p < (stage + 1) * t && !s->program->status; p++) {
        const addend a = addend_at(s, replica, p, piece, n);
        if (a.net && !(loss && s->kind == LS_EVALUATION))
            append_rest(s, backward ? "backward" : "forward", &a, piece, backward);
    }
    if (sums)
        ls_step_cross(s, replica, piece, n, backward);
}

/* ---- Traffic --------------------------------------------------------------------------------- */

static ls_traffic shared_traffic(const ls_step_plan *plan, int n)
{
    const ls_extent all = ls_elements(count_shared(plan->parts.whole, n));
    const ls_allreduce *flat;
    ls_status status = ls_allreduce_find("flat", &flat);
    if (!status)
        return flat->formula(plan->parts.across, all, 0, NULL);
    ls_status_free(status);
    return (ls_traffic){0};
}

/* What a node's sum, or its gather, of so many samples moves. */
static ls_traffic traffic_of(const ls_step_plan *plan, int n, int64_t rows)
{
    const ls_job *job = plan->job;
    const int t = plan->parts.across;
    size_t offsets[LS_JOB_REPLICAS], counts[LS_JOB_REPLICAS];
    ls_traffic sum = {0};
    for (int backward = 0; backward < 2; backward++) {
        const int half = half_at(plan, n, backward);
        const ls_extent extent = half == LS_NO_SUM ? ls_elements(0) : extent_of(plan, n, rows);
        if (half == LS_HALVES)
            ls_traffic_add(&sum, job->exchange.allreduce->formula(t, extent, leaves(job), NULL), 1);
        else if (half != LS_NO_SUM)
            ls_traffic_add(&sum, job->exchange.allreduce->half_formula((ls_half)half, t, extent, 0),
                           1);
    }
    if (is_shared(plan, n))
        ls_traffic_add(&sum, shared_traffic(plan, n), 1);
    if (is_gathered(plan, n)) {
        gathered(plan, n, rows, offsets, counts);
        ls_traffic_add(&sum, ls_allgather_formula(t, counts), 1);
    }
    return sum;
}

/* Each piece is summed once at each fork and join, and what its loss needs is gathered once. */
ls_traffic ls_sums_traffic(const ls_step *s)
{
    const ls_job *job = ls_step_job(s);
    const int64_t batch = ls_replicated_batch(job, s->batch_kind);
    const int64_t m = ls_job_pieces(job);
    const int64_t pieces = job->exact.on ? ls_job_shards(job, batch) : s->plan->mesh.replicas * m;
    ls_traffic sum = {0};
    for (int64_t i = 0; i < pieces; i++) {
        const int64_t rows = ls_slice_share(batch, i, pieces);
        for (int n = 0; n < s->plan->parts.whole->count && rows; n++)
            ls_traffic_add(&sum, traffic_of(s->plan, n, rows), 1);
    }
    return sum;
}
