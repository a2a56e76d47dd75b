/* SPDX-License-Identifier: MIT */
/*
 * Stages of a pipeline: passes for micro-batches in the order of the job's schedule
 * (pipeline_schedule.h). An output is sent behind the pass that computes it or, if the part that
 * needs it has no memory for the micro-batch then, behind the pass that frees some. Where the
 * sender's compute lane would wait for that memory, in a process with several chunks, the part
 * fetches it before its pass.
 */
#include "impl/step/verbs/build.h"

#include "common/base/grow.h"

#include <stdlib.h>

static const ls_graph_parts *parts_of(const ls_step *s)
{
    return &s->plan->parts;
}

/* Whether micro-batches are exchanged one by one, node by node. */
static bool is_by_node(const ls_step *s)
{
    return ls_step_job(s)->gradients.windows;
}

/* Number of a micro-batch's first piece. */
static int begin_of(const ls_step *s, int replica, int microbatch)
{
    if (is_by_node(s))
        return ls_replicated_before(ls_step_job(s), replica, s->batch_kind,
                                    ls_step_exchange(s, microbatch));
    const ls_schedule schedule = ls_replicated_schedule(ls_step_job(s), replica, s->batch_kind);
    return (int)ls_comm_share((size_t)ls_pieces(s, replica), microbatch, schedule.microbatches);
}

static int stage_of(const ls_step *s, int n)
{
    return parts_of(s)->place[n] / parts_of(s)->across;
}

/* Whether there are stages that take micro-batches. */
static bool can_stage(ls_step *s, const char *verb)
{
    return ls_step_can(s, parts_of(s)->count, verb,
                       "has no places: the job's mesh has no stages, slices or positions") &&
           ls_step_can(s, ls_step_job(s)->division.microbatches > 0, verb,
                       "has no micro-batches: the strategy declares no option for their number");
}

static ls_status open_order(ls_step *s, const ls_schedule *schedule)
{
    const int chunks = ls_schedule_chunks(schedule);
    LS_TRY(ls_schedule_order(schedule, &s->passes, &s->pass_count));
    LS_TRY(ls_allocate("step", &s->flow, (size_t)(chunks * schedule->stages), sizeof *s->flow));
    for (int part = 0; part < chunks * schedule->stages; part++) {
        ls_schedule_most most;
        LS_TRY(
            ls_schedule_count(schedule, part % schedule->stages, part / schedule->stages, &most));
        s->flow[part].held = most.held;
    }
    return LS_OK;
}

void ls_step_close_order(ls_step *s)
{
    free(s->passes);
    free(s->flow);
    s->passes = NULL;
    s->flow = NULL;
}

bool ls_scheduled_pass(ls_step *s, int replica, size_t i, ls_pass *out)
{
    if (!can_stage(s, "ls_scheduled_pass"))
        return false;
    if (!i) {
        const int of = replica == LS_EVERY_REPLICA ? 0 : replica; /* all are alike */
        const ls_schedule schedule = ls_replicated_schedule(ls_step_job(s), of, s->batch_kind);
        ls_step_close_order(s);
        const ls_status status = open_order(s, &schedule);
        if (status) {
            ls_step_fail(s, status);
            return false;
        }
    }
    if (i < s->pass_count)
        *out = s->passes[i];
    else
        ls_step_close_order(s);
    return s->flow;
}

bool ls_step_fetches(const ls_step *s)
{
    const ls_job *job = ls_step_job(s);
    return s->flow && job->division.chunks > 1 && !job->exchange.transfers &&
           !ls_step_plan_has_ends(s->plan);
}

bool ls_step_has_room(const ls_step *s, int part)
{
    const ls_part_flow *flow = s->flow ? &s->flow[part / parts_of(s)->across] : NULL;
    return !flow || s->program->microbatch - 1 < flow->freed + flow->held;
}

/* Behind a pass that frees a micro-batch's memory on a part: messages of replicas [first, end) that
 * waited for it. */
static void admit(ls_step *s, int first, int end, int part)
{
    const ls_graph_parts *parts = parts_of(s);
    ls_part_flow *flow = s->flow ? &s->flow[part] : NULL;
    if (!flow)
        return;
    const int microbatch = flow->freed++ + flow->held;
    for (size_t i = 0; i < parts->border_count && !ls_step_fetches(s); i++) {
        const ls_border *b = &parts->borders[i];
        if (b->to / parts->across != part || s->flow[b->from / parts->across].ran <= microbatch)
            continue;
        s->program->microbatch = microbatch + 1;
        for (int r = first; r < end; r++)
            for (int p = begin_of(s, r, microbatch); p < begin_of(s, r, microbatch + 1); p++)
                ls_step_cross_output(s, r, p, b);
    }
}

/* Whether a node's pass of this kind is the last one that its gradients wait for. */
static bool is_last(const ls_step *s, int place, int node, ls_pass_kind kind)
{
    const bool *waits = ls_step_planned_group(s->plan, place)->gradient_windows.waits;
    const bool weights = waits && waits[ls_graph_parts_at(parts_of(s), place)->local[node]];
    return kind == (weights ? LS_PASS_WEIGHTS : LS_PASS_BACKWARD);
}

/* A node's pass for a micro-batch's pieces of all replicas, behind the gathers of buckets that it
 * is the first to need; the sums of buckets that it makes final follow. */
static void run_node(ls_step *s, int microbatch, int node, ls_pass_kind kind)
{
    static void (*const passes[])(ls_step *, int, int,
                                  int) = {[LS_PASS_FORWARD] = ls_forward_node,
                                          [LS_PASS_BACKWARD] = ls_backward_node,
                                          [LS_PASS_WEIGHTS] = ls_weights_node};
    for (int place = 0; place < ls_places(s) && kind != LS_PASS_WEIGHTS; place++)
        ls_gather_for_node(s, place, node, kind == LS_PASS_BACKWARD);
    for (int r = 0; r < ls_replicas(s); r++)
        for (int p = begin_of(s, r, microbatch); p < begin_of(s, r, microbatch + 1); p++)
            passes[kind](s, r, p, node);
    for (int place = 0; place < ls_places(s); place++)
        for (int b = 0; b < ls_buckets_of(s, place); b++)
            if (ls_bucket_node(s, place, b) == node && is_last(s, place, node, kind))
                ls_give(s, place, b);
}

/* Gathers the last buckets of a chunk, in which a backward pass begins, unless the pass before it
 * leaves them in their windows. */
static void gather_last(ls_step *s, const ls_pass *pass)
{
    const int across = parts_of(s)->across;
    const ls_pass_before before = ls_pass_before_of(pass, &s->flow[pass->stage].last);
    for (int place = pass->stage * across; place < (pass->stage + 1) * across; place++) {
        const ls_windows *windows = &ls_step_planned_group(s->plan, place)->windows;
        for (int b = 0; windows->buckets && b < ls_buckets_of(s, place); b++)
            if (ls_bucket_chunk(windows->buckets, b) == pass->chunk &&
                ls_windows_lost(windows, b, before))
                ls_need(s, place, b);
    }
}

/* A pass of all replicas, node by node. */
static void run_by_node(ls_step *s, const ls_pass *pass, int part)
{
    const int loss = ls_nodes(s) - 1, microbatch = pass->microbatch;
    const bool backward = pass->kind == LS_PASS_BACKWARD;
    ls_next_exchange(s, microbatch);
    if (backward && s->flow)
        gather_last(s, pass);
    for (int n = 0; n < loss && pass->kind == LS_PASS_FORWARD; n++)
        if (stage_of(s, n) == part)
            run_node(s, microbatch, n, LS_PASS_FORWARD);
    if (backward && stage_of(s, loss) == part)
        run_node(s, microbatch, loss, LS_PASS_FORWARD);
    for (int n = loss; n >= 0 && pass->kind != LS_PASS_FORWARD; n--)
        if (stage_of(s, n) == part)
            run_node(s, microbatch, n, pass->kind);
}

static void run_pieces(ls_step *s, int replica, const ls_pass *pass, int part)
{
    const int last = begin_of(s, replica, pass->microbatch + 1), loss = ls_nodes(s) - 1;
    const bool backward = pass->kind == LS_PASS_BACKWARD;
    for (int p = begin_of(s, replica, pass->microbatch); p < last; p++) {
        for (int n = 0; n < loss && pass->kind == LS_PASS_FORWARD; n++)
            if (stage_of(s, n) == part)
                ls_forward_node(s, replica, p, n);
        if (backward && stage_of(s, loss) == part)
            ls_forward_node(s, replica, p, loss);
        for (int n = loss; n >= 0 && backward; n--)
            if (stage_of(s, n) == part)
                ls_backward_node(s, replica, p, n);
        for (int n = loss; n >= 0 && pass->kind == LS_PASS_WEIGHTS; n--)
            if (stage_of(s, n) == part)
                ls_weights_node(s, replica, p, n);
    }
}

/* Before a forward pass of replicas [first, end): outputs of other parts that it reads. */
static void fetch(ls_step *s, int first, int end, const ls_pass *pass, int part)
{
    for (int r = first; r < end; r++)
        for (int p = begin_of(s, r, pass->microbatch); p < begin_of(s, r, pass->microbatch + 1);
             p++)
            ls_step_fetch_outputs(s, r, p, part);
}

void ls_run_pass(ls_step *s, int replica, const ls_pass *pass)
{
    if (!can_stage(s, "ls_run_pass"))
        return;
    const int part = pass->chunk * ls_stages(s) + pass->stage;
    const bool every = replica == LS_EVERY_REPLICA;
    const ls_schedule schedule = {.rule = ls_schedule_rule_of(&ls_step_job(s)->options)};
    s->program->microbatch = pass->microbatch + 1;
    if (pass->kind == LS_PASS_FORWARD && ls_step_fetches(s))
        fetch(s, every ? 0 : replica, every ? ls_replicas(s) : replica + 1, pass, part);
    if (every)
        run_by_node(s, pass, part);
    else
        run_pieces(s, replica, pass, part);
    if (s->flow) {
        s->flow[part].ran += pass->kind == LS_PASS_FORWARD;
        s->flow[pass->stage].last = *pass;
    }
    if (ls_schedule_frees(&schedule, pass))
        admit(s, every ? 0 : replica, every ? ls_replicas(s) : replica + 1, part);
    s->program->microbatch = 0;
}
