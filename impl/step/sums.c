/* SPDX-License-Identifier: MIT */
/*
 * Sums over the places of a replica whose layers are split (graph_split.h): an all-reduce of
 * activations, or of their gradients, between the halves of a node's pass, on the compute lane. In
 * exact mode the places exchange their finished subtrees of the tree over slices. Of a loss they
 * gather what each slice has left of each position, around a ring.
 */
#include "impl/step/build.h"

static const ls_ends *ends_of(const ls_resources *r, int replica, int stage)
{
    return &r->ends[ls_step_plan_places(r->plan, replica, stage)];
}

/* Leaves of the tree; 0: fast mode. */
static int64_t leaves(const ls_job *job)
{
    return job->exact ? ls_job_splits(job) : 0;
}

static bool is_summed(const ls_step_plan *plan, int n)
{
    const ls_layer *layer = plan->parts.whole->nodes[n].layer;
    return plan->parts.across > 1 && (layer == &ls_layer_fork || layer == &ls_layer_join);
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

static ls_extent extent_of(const ls_step_plan *plan, int n, int64_t rows)
{
    return ls_elements((size_t)(rows * ls_shape_elements(&plan->parts.whole->nodes[n].shape)));
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Allocates scratch for the largest sum of this end; they run one after the other. */
static ls_status take_scratch(ls_resources *r, int member, ls_end *end)
{
    const ls_job *job = r->plan->job;
    size_t most = 0;
    for (int b = 0; b < LS_BATCHES && job->allreduce->scratch; b++) {
        const ls_slice_options slice = {.batch = ls_replicated_batch(job, b),
                                        .number = r->plan->members[member].replica,
                                        .count = r->plan->replicas,
                                        .pieces = job->microbatches};
        const int64_t rows = slice.batch ? ls_slice_rows(job, &slice) : 0;
        for (int n = 0; n < r->plan->parts.whole->count && rows; n++) {
            const size_t need =
                is_summed(r->plan, n)
                    ? job->allreduce->scratch(end->comm->rank, end->comm->size,
                                              extent_of(r->plan, n, rows), leaves(job))
                    : 0;
            most = need > most ? need : most;
        }
    }
    return most ? ls_replica_take(r->members[member].replica, "scratch", LS_MEMORY_COMMUNICATION,
                                  most * sizeof(float), &end->scratch)
                : LS_OK;
}

static ls_status open_ends(ls_resources *r, const ls_ends *ends, const int *members, int count)
{
    const ls_allreduce *algorithm = r->plan->job->allreduce;
    if (algorithm->check && count)
        LS_TRY(algorithm->check(ends->comms[0]));
    for (int i = 0; i < count; i++) {
        ends->of[members[i]].comm = ends->comms[i];
        LS_TRY(take_scratch(r, members[i], &ends->of[members[i]]));
    }
    return LS_OK;
}

ls_status ls_sums_open(ls_resources *r)
{
    const ls_step_plan *plan = r->plan;
    const int t = plan->parts.across,
              stages = t > 1 ? plan->replicas * ls_job_stages(plan->job) : 0;
    int members[LS_JOB_REPLICAS];
    for (int i = 0; i < stages && plan->job->tensor; i++) {
        const ls_ends *ends =
            ends_of(r, i / ls_job_stages(plan->job), i % ls_job_stages(plan->job));
        int count = 0;
        for (int m = i * t; m < (i + 1) * t; m++)
            if (plan->members[m].device >= 0)
                members[count++] = m;
        LS_TRY(ls_connect(r, members, count, LS_COUNTED, ends->comms));
        LS_TRY(ls_comm_agree(plan->job->comm, open_ends(r, ends, members, count)));
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
    const int member = replica * s->plan->places + place;
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
        .sums = job->exact ? sums : NULL,
        .sum_count = job->exact ? (size_t)count : 0};
    return job->allreduce->build(end->comm, &args, ops);
}

/* The same of what a loss gathers. */
static ls_status build_gather(const ls_step *s, int n, const addend *a, const ls_end *end,
                              ls_op_list *ops)
{
    size_t offsets[LS_JOB_REPLICAS], counts[LS_JOB_REPLICAS];
    gathered(s->plan, n, ls_net_rows(a->net), offsets, counts);
    return ls_allgather_build(end->comm, ls_net_loss_parts(a->net), offsets, counts, ops);
}

static void append_sum(ls_step *s, const char *verb, int n, const addend *a, int channel, int call)
{
    const ls_end *end = &s->resources->ends[channel].of[a->member];
    ls_op_list ops = {0};
    const ls_status status =
        is_gathered(s->plan, n) ? build_gather(s, n, a, end, &ops) : build_sum(s, a, end, &ops);
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
    const bool sums = is_summed(s->plan, n) && s->plan->parts.whole->nodes[n].layer ==
                                                   (backward ? &ls_layer_fork : &ls_layer_join);
    return sums || (!backward && is_gathered(s->plan, n));
}

static void sum(ls_step *s, int replica, int piece, int n, bool backward)
{
    if (!ls_step_is_summed(s, n, backward))
        return;
    const bool loss = is_gathered(s->plan, n);
    const char *verb = loss ? "gather loss" : backward ? "sum gradients" : "sum outputs";
    const int t = s->plan->parts.across, stage = s->plan->parts.place[n] / t;
    const int channel = ls_step_plan_places(s->plan, replica, stage);
    const ls_comm *first = s->resources->ends[channel].comms[0];
    const int call = first && ls_comm_is_joint(first) ? s->program->calls++ : -1;
    for (int p = stage * t; p < (stage + 1) * t && !s->program->status; p++) {
        const addend a = addend_at(s, replica, p, piece, n);
        if (a.net)
            append_sum(s, verb, n, &a, channel, call);
    }
    for (int p = stage * t; p < (stage + 1) * t && !s->program->status; p++) {
        const addend a = addend_at(s, replica, p, piece, n);
        if (a.net && !(loss && s->kind == LS_EVALUATION))
            append_rest(s, backward ? "backward" : "forward", &a, piece, backward);
    }
    ls_step_cross(s, replica, piece, n, backward);
}

static bool can_sum(ls_step *s, const char *verb)
{
    return ls_step_can(s, s->plan->job->tensor, verb,
                       "has no slices: the strategy's variables are not LS_VARIABLES_SPLIT");
}

void ls_sum_outputs(ls_step *s, int replica, int piece, int n)
{
    if (can_sum(s, "ls_sum_outputs"))
        sum(s, replica, piece, n, false);
}

void ls_sum_input_gradients(ls_step *s, int replica, int piece, int n)
{
    if (can_sum(s, "ls_sum_input_gradients"))
        sum(s, replica, piece, n, true);
}

void ls_step_sum_places(ls_step *s, int replica, int piece, int n, bool backward)
{
    if (s->plan->job->tensor)
        sum(s, replica, piece, n, backward);
}

/* ---- Traffic --------------------------------------------------------------------------------- */

/* What a node's sum, or its gather, of so many samples moves. */
static ls_traffic traffic_of(const ls_step_plan *plan, int n, int64_t rows)
{
    const ls_job *job = plan->job;
    size_t offsets[LS_JOB_REPLICAS], counts[LS_JOB_REPLICAS];
    if (is_summed(plan, n))
        return job->allreduce->formula(plan->parts.across, extent_of(plan, n, rows), leaves(job),
                                       NULL);
    if (!is_gathered(plan, n))
        return (ls_traffic){0};
    gathered(plan, n, rows, offsets, counts);
    return ls_allgather_formula(plan->parts.across, counts);
}

/* Each piece is summed once at each fork and join, and what its loss needs is gathered once. */
ls_traffic ls_sums_traffic(const ls_step *s)
{
    const ls_job *job = ls_step_job(s);
    const int64_t batch = ls_replicated_batch(job, s->batch_kind);
    const int64_t m = job->microbatches > 1 ? job->microbatches : 1;
    const int64_t pieces = job->exact ? ls_job_shards(job, batch) : s->plan->replicas * m;
    ls_traffic sum = {0};
    for (int64_t i = 0; i < pieces; i++) {
        const int64_t rows = ls_slice_share(batch, i, pieces);
        for (int n = 0; n < s->plan->parts.whole->count && rows; n++)
            ls_traffic_add(&sum, traffic_of(s->plan, n, rows), 1);
    }
    return sum;
}
