/* SPDX-License-Identifier: MIT */
/* Elastic replicas: events, phases, and what moves by formula; see elastic.h. */
#include "bench/case/elastic.h"

#include "bench/case/case_facts.h"
#include "bench/case/workplace.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"
#include "impl/step/plan/plan.h"
#include "impl/strategies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const ls_elastic_words[] = {"leave", "join", "kill", NULL};

/* ---- Events ---------------------------------------------------------------------------------- */

/* "leave=D:STEP" */
static bool parse_event(const char *text, size_t length, ls_elastic_event *out)
{
    char copy[64];
    const char *step = NULL;
    snprintf(copy, sizeof copy, "%.*s", (int)length, text);
    for (int kind = LS_ELASTIC_LEAVE; kind <= LS_ELASTIC_JOIN && !step; kind++) {
        step = ls_fault_target(copy, ls_elastic_words[kind], &out->replica);
        out->kind = (ls_elastic_kind)kind;
    }
    return length < sizeof copy && step && ls_parse_integer(step, 0, INT32_MAX, &out->step);
}

bool ls_elastic_parse(const char *text, ls_elastic *out)
{
    *out = (ls_elastic){0};
    while (out->count < LS_ELASTIC_EVENTS) {
        const size_t length = strcspn(text, ",");
        if (!parse_event(text, length, &out->events[out->count++]))
            return false;
        if (!text[length])
            return true;
        text += length + 1;
    }
    return false;
}

static bool is_later(const ls_elastic_event *a, const ls_elastic_event *b)
{
    const bool dies = a->kind == LS_ELASTIC_KILL, too = b->kind == LS_ELASTIC_KILL;
    return a->step > b->step || (a->step == b->step && dies && !too);
}

/* Inserts an event behind all events that are not later. */
static void insert(ls_elastic *all, const ls_elastic_event *event)
{
    size_t i = all->count++;
    for (; i && is_later(&all->events[i - 1], event); i--)
        all->events[i] = all->events[i - 1];
    all->events[i] = *event;
}

static ls_status add_deaths(const ls_case *one, const ls_job *job, int devices, ls_elastic *out)
{
    static const char option[] = "--on-failure shrink";
    const int ranks = one->ranks > 1 ? one->ranks : devices, each = devices / ranks;
    const int first = one->fault.target * each;
    char text[64], where[96];
    snprintf(where, sizeof where, "--inject %s", ls_fault_text(&one->fault, text, sizeof text));
    if (one->fault.target >= ranks)
        return ls_fail(LS_CODE_USAGE, "option", where,
                       "the case has %d %s%s, numbered from 0; before the colon, use a number of "
                       "at most %d",
                       ranks, ranks == one->ranks ? "rank" : "device", ranks == 1 ? "" : "s",
                       ranks - 1);
    if (job->state.on[LS_MEMBER] == LS_SHARE && !job->mesh.size[LS_GROUP])
        return ls_fail(LS_CODE_USAGE, "option", option,
                       "with --strategy zero, each share of the optimizer's state is on one rank "
                       "only, so the others cannot go on alone; use --checkpoint DIR instead, and "
                       "after a failure --resume-from-checkpoint DIR");
    if (first % out->each || each % out->each)
        return ls_fail(LS_CODE_USAGE, "option", where,
                       "a replica of %d devices is spread over several ranks, so no rank can leave "
                       "alone; give each rank complete replicas with --ranks %d",
                       out->each, out->replicas);
    for (int r = first / out->each; r < (first + each) / out->each; r++) {
        if (out->count == LS_ELASTIC_EVENTS)
            return ls_fail(
                LS_CODE_USAGE, "option", where,
                "killing a rank counts as one event for each replica that it has; with the "
                "events of --elastic, the events are more than %d, the limit; use fewer "
                "events, or more ranks with fewer replicas each",
                LS_ELASTIC_EVENTS);
        insert(out, &(ls_elastic_event){LS_ELASTIC_KILL, r, one->fault.step});
    }
    return LS_OK;
}

/* Which replicas take part before the first event: all except replicas whose first event is a
 * join. */
static void begin_members(const ls_elastic *all, bool *in)
{
    for (int r = 0; r < all->replicas; r++)
        in[r] = true;
    for (size_t i = all->count; i-- > 0;)
        in[all->events[i].replica] = all->events[i].kind != LS_ELASTIC_JOIN;
}

static int count_members(const ls_elastic *all, const bool *in)
{
    int count = 0;
    for (int r = 0; r < all->replicas; r++)
        count += in[r];
    return count;
}

/* The end of the events that happen together with number `i`. */
static size_t end_of(const ls_elastic *all, size_t i)
{
    const ls_elastic_event *first = &all->events[i];
    size_t end = i + 1;
    while (end < all->count && !is_later(&all->events[end], first))
        end++;
    return end;
}

static void apply(const ls_elastic *all, size_t begin, size_t end, bool *in)
{
    for (size_t i = begin; i < end; i++)
        in[all->events[i].replica] = all->events[i].kind == LS_ELASTIC_JOIN;
}

/* The event as the user has given it. */
static char *event_place(const ls_case *one, const ls_elastic_event *e, char where[96])
{
    char text[64];
    if (e->kind == LS_ELASTIC_KILL)
        snprintf(where, 96, "--inject %s", ls_fault_text(&one->fault, text, sizeof text));
    else
        snprintf(where, 96, "--elastic %s=%d:%lld", ls_elastic_words[e->kind], e->replica,
                 (long long)e->step);
    return where;
}

static ls_status check_event(const ls_case *one, const ls_elastic *all, size_t i, const bool *in)
{
    const ls_elastic_event *e = &all->events[i];
    char where[96];
    event_place(one, e, where);
    for (size_t k = 0; k < all->count; k++)
        if (k != i && all->events[k].replica == e->replica && all->events[k].step == e->step)
            return ls_fail(LS_CODE_USAGE, "option", where,
                           "replica %d has two events in step %lld; remove one of the two",
                           e->replica, (long long)e->step);
    if (in[e->replica] == (e->kind == LS_ELASTIC_JOIN))
        return ls_fail(LS_CODE_USAGE, "option", where,
                       in[e->replica] ? "replica %d cannot join, because it takes part already; "
                                        "remove this event, or let the replica leave before"
                                      : "replica %d cannot leave, because it does not take part "
                                        "then; remove this event, or let the replica join before",
                       e->replica);
    return LS_OK;
}

/* Refuses members if the strategy cannot run with them. */
static ls_status check_members(const ls_case *one, const ls_outline *outline, const ls_elastic *all,
                               const bool *in, const ls_elastic_event *e)
{
    const int members = count_members(all, in);
    char where[96], count[16];
    if (!members)
        return ls_fail(
            LS_CODE_USAGE, "option", event_place(one, e, where),
            "after this event, no replica remains for step %lld; let at least one replica stay",
            (long long)e->step);
    ls_case config = *one;
    ls_job job = {.batch = outline->job->batch};
    snprintf(count, sizeof count, "%d", members);
    if (ls_case_has(one, &ls_option_hybrid_replicas))
        LS_TRY(ls_declared_set(&config.own, &ls_option_hybrid_replicas, count));
    ls_case_job(&config, &job);
    ls_outline narrow = *outline;
    narrow.job = &job;
    narrow.devices = (size_t)(members * all->each);
    narrow.ranks = 1;
    return ls_strategy_check(one->strategy, &narrow);
}

/* In the order of steps. */
static ls_status check_events(const ls_case *one, const ls_outline *outline, const ls_elastic *all,
                              bool *in)
{
    begin_members(all, in);
    const ls_elastic_event *first = &all->events[0];
    char where[96];
    if (first->step && !count_members(all, in))
        return ls_fail(
            LS_CODE_USAGE, "option", event_place(one, first, where),
            "no replica takes part before step %lld; remove the join of at least one replica",
            (long long)first->step);
    if (first->step)
        LS_TRY(check_members(one, outline, all, in, first));
    for (size_t i = 0, end; i < all->count; i = end) {
        end = end_of(all, i);
        for (size_t k = i; k < end; k++)
            LS_TRY(check_event(one, all, k, in));
        apply(all, i, end, in);
        LS_TRY(check_members(one, outline, all, in, &all->events[i]));
    }
    return LS_OK;
}

ls_status ls_elastic_check(const ls_case *one, const ls_outline *outline, ls_elastic *out)
{
    const ls_job *job = outline->job;
    const int devices = (int)outline->devices * outline->ranks;
    const int copies = job->mesh.size[ls_mesh_outer(&job->mesh)];
    char where[96];
    ls_elastic given = {0};
    if (*one->elastic)
        ls_elastic_parse(one->elastic, &given); /* checked as an option */
    *out = (ls_elastic){.replicas = copies ? copies : devices};
    if (devices % out->replicas)
        return ls_strategy_check(one->strategy, outline);
    out->each = devices / out->replicas;
    for (size_t i = 0; i < given.count; i++) {
        if (given.events[i].replica >= out->replicas)
            return ls_fail(LS_CODE_USAGE, "option", event_place(one, &given.events[i], where),
                           "the case has %d replica%s, numbered from 0; before the colon, use a "
                           "number of at most %d",
                           out->replicas, out->replicas == 1 ? "" : "s", out->replicas - 1);
        insert(out, &given.events[i]);
    }
    if (one->shrinks)
        LS_TRY(add_deaths(one, job, devices, out));
    ls_auto bool *in = NULL;
    LS_TRY(ls_allocate("elastic", &in, (size_t)out->replicas, sizeof *in));
    return check_events(one, outline, out, in);
}

/* ---- Phases ---------------------------------------------------------------------------------- */

static ls_status check_ranks(const ls_workplace *workplace, const ls_plan_of_case *plan,
                             const ls_elastic *all)
{
    const ls_request *request = workplace->request;
    const ls_fault *fault = &plan->config->fault;
    const char *option = *plan->config->elastic ? "--elastic" : "--on-failure";
    const int64_t steps = (int64_t)plan->job.start + plan->warmup + plan->timed;
    char where[96];
    if (request->processes->size > 1)
        return ls_fail(LS_CODE_USAGE, "option", option,
                       "works in one process only; with mpirun, run with --checkpoint DIR up to "
                       "the step where the number of ranks changes, then start the new number of "
                       "ranks with --checkpoint DIR --resume-from-checkpoint auto");
    if (request->budget_ns)
        return ls_fail(LS_CODE_USAGE, "option", option,
                       "cannot be used with `budget:` in a plan, which chooses the number of "
                       "steps; replace `budget:` by `steps: N`");
    if (fault->kind && fault->kind != LS_FAULT_KILL && fault->kind != LS_FAULT_BITFLIP)
        return ls_fail(LS_CODE_USAGE, "option", option,
                       "of the faults of --inject, only kill=R:S and bitflip=D:S work with this "
                       "option; use one of these two faults, or remove %s",
                       option);
    const ls_elastic_event *last = &all->events[all->count - 1];
    if (last->step >= steps)
        return ls_fail(
            LS_CODE_USAGE, "option", event_place(plan->config, last, where),
            "the case has %lld steps, numbered from 0, warm-up included; name one of its steps",
            (long long)steps);
    return LS_OK;
}

static ls_status open_phase(ls_workplace *workplace, const ls_plan_of_case *whole,
                            const ls_elastic *all, const bool *in, ls_elastic_phase *phase)
{
    ls_plan_of_case *plan = &phase->plan;
    ls_case *config = &phase->config;
    *config = *whole->config;
    config->ranks = 1;
    config->scaling = LS_SCALING_STRONG;
    config->batch = whole->job.batch;
    phase->members = count_members(all, in);
    snprintf(phase->count, sizeof phase->count, "%d", phase->members);
    if (ls_case_has(config, &ls_option_hybrid_replicas))
        LS_TRY(ls_declared_set(&config->own, &ls_option_hybrid_replicas, phase->count));
    *plan = (ls_plan_of_case){.config = config, .whole = whole, .phase = phase};
    LS_TRY(ls_allocate("plan", &phase->member, whole->device_count, sizeof *phase->member));
    LS_TRY(ls_allocate("plan", &plan->devices, whole->device_count, sizeof *plan->devices));
    for (size_t d = 0; d < whole->device_count; d++) {
        phase->member[d] = in[d / (size_t)all->each] ? plan->all_devices++ : -1;
        if (phase->member[d] >= 0)
            plan->devices[plan->device_count++] = whole->devices[d];
    }
    LS_TRY(ls_plan_resolve(workplace, plan));
    plan->oversubscribed = whole->oversubscribed;
    const ls_fault *fault = &config->fault;
    if (fault->kind == LS_FAULT_BITFLIP)
        plan->job.faults.flip_replica = phase->member[fault->target];
    return LS_OK;
}

/* A bit can be flipped where the device takes part. */
static ls_status check_flip(const ls_plan_of_case *plan)
{
    const ls_fault *fault = &plan->config->fault;
    const ls_elastic_phase *phase = plan->phases;
    char text[64], where[96];
    while (phase->next && phase->next->first <= (uint64_t)fault->step)
        phase = phase->next;
    if (fault->kind != LS_FAULT_BITFLIP || phase->member[fault->target] >= 0)
        return LS_OK;
    snprintf(where, sizeof where, "--inject %s", ls_fault_text(fault, text, sizeof text));
    return ls_fail(LS_CODE_USAGE, "option", where,
                   "this device's replica leaves before this step or joins after it; name another "
                   "device or step");
}

static ls_status open_phases(ls_workplace *workplace, ls_plan_of_case *plan, bool *in)
{
    const ls_elastic *all = plan->elastic;
    size_t begin = 0, end = 0;
    begin_members(all, in);
    while (end < all->count && (uint64_t)all->events[end].step < plan->job.start)
        end++; /* earlier events have happened before the checkpoint */
    apply(all, 0, end, in);
    begin = end;
    for (ls_elastic_phase **at = &plan->phases;; at = &(*at)->next) {
        LS_TRY(ls_allocate("phase", at, 1, sizeof **at));
        (*at)->first = begin < end ? (uint64_t)all->events[begin].step : plan->job.start;
        (*at)->deaths = begin < end && all->events[begin].kind == LS_ELASTIC_KILL;
        (*at)->begin = begin;
        (*at)->end = end;
        LS_TRY(open_phase(workplace, plan, all, in, *at));
        if (end == all->count)
            return check_flip(plan);
        begin = end;
        end = end_of(all, begin);
        apply(all, begin, end, in);
    }
}

ls_status ls_plan_open_phases(ls_workplace *workplace, ls_plan_of_case *plan)
{
    const ls_case *c = plan->config;
    ls_auto bool *in = NULL;
    if (!ls_case_is_elastic(c) || plan->whole)
        return LS_OK;
    const ls_outline outline =
        ls_case_outline(c, &plan->job, (size_t)(plan->all_devices / c->ranks), 1);
    LS_TRY(ls_allocate("elastic", &plan->elastic, 1, sizeof *plan->elastic));
    LS_TRY(ls_elastic_check(c, &outline, plan->elastic));
    LS_TRY(check_ranks(workplace, plan, plan->elastic));
    LS_TRY(ls_allocate("elastic", &in, (size_t)plan->elastic->replicas, sizeof *in));
    return open_phases(workplace, plan, in);
}

void ls_plan_close_phases(ls_plan_of_case *plan)
{
    while (plan->phases) {
        ls_elastic_phase *phase = plan->phases;
        plan->phases = phase->next;
        ls_plan_close(&phase->plan);
        free(phase->member);
        free(phase);
    }
    free(plan->elastic);
}

/* ---- What moves, by formula ------------------------------------------------------------------ */

/* Elements of a range whose owner, in bucket b, is another device than before. */
static uint64_t moved_of(const ls_elastic_phase *from, const ls_step_plan *old,
                         const ls_elastic_phase *to, const ls_step_plan *new, int place, size_t b,
                         ls_range range)
{
    const int places = new->mesh.places;
    const ls_buckets *buckets = &ls_step_planned_group(new, place)->buckets;
    uint64_t moved = range.count;
    for (size_t d = 0; d < to->plan.whole->device_count; d++) {
        if (from->member[d] < 0 || to->member[d] < 0 || to->member[d] % places != place)
            continue;
        const ls_range was =
            ls_bucket_share(buckets, b, from->member[d] / places, old->mesh.replicas);
        const ls_range is = ls_bucket_share(buckets, b, to->member[d] / places, new->mesh.replicas);
        moved -= ls_range_common(ls_range_common(was, is), range).count;
    }
    return moved;
}

/* Counts them in a place's buckets; what layers in slices do not split, at the first place only. */
static uint64_t moved_elements(const ls_elastic_phase *from, const ls_step_plan *old,
                               const ls_elastic_phase *to, const ls_step_plan *new, int place)
{
    const ls_buckets *buckets = &ls_step_planned_group(new, place)->buckets;
    const ls_graph_part *part = ls_step_plan_part(new, place);
    const ls_graph *graph = part ? part->graph : to->plan.job.model->graph;
    const bool again = place % new->mesh.size[LS_SLICE];
    uint64_t moved = 0;
    for (size_t b = 0; b < buckets->count; b++)
        for (size_t v = 0; v < graph->variables.count; v++) {
            const ls_variable *variable = &graph->variables.items[v];
            const ls_range both =
                ls_range_common(buckets->items[b], (ls_range){variable->offset, variable->count});
            if (both.count && !(again && !ls_graph_slice(graph, v)))
                moved += moved_of(from, old, to, new, place, b, both);
        }
    return moved;
}

ls_status ls_elastic_formula(const ls_elastic_phase *from, const ls_elastic_phase *to,
                             uint64_t *out)
{
    const ls_job *job = &to->plan.job;
    const ls_elastic *all = to->plan.whole->elastic;
    const uint64_t bytes = job->model->graph->variables.elements * sizeof(float);
    const bool shares = job->state.on[LS_MEMBER] == LS_SHARE, groups = job->mesh.size[LS_GROUP];
    const bool third = job->parameters.on[LS_MEMBER] == LS_SHARE;
    const bool masters = shares && job->kernels.precision == LS_PRECISION_BF16;
    const uint64_t whole = third ? 0 : masters ? bytes / 2 : bytes; /* of parameters, a device */
    uint64_t slots = 0, /* arrays that are shared out or, if none are, all */
        joiners = 0, moved = 0;
    for (int a = LS_SLOT_0; a < LS_ARRAYS; a++)
        slots += ls_state_name(job, (ls_values)a) != NULL;
    for (size_t d = 0; d < to->plan.whole->device_count; d += (size_t)all->each)
        joiners += to->member[d] >= 0 && from->member[d] < 0;
    slots += masters || third || !shares;
    *out = joiners * (bytes * slots + (shares ? whole * (uint64_t)all->each : 0));
    if (!shares || groups)
        return LS_OK;
    ls_closing(ls_step_plan_close) ls_step_plan old = {0}, new = {0};
    LS_TRY(ls_step_plan_open(from->plan.strategy, &from->plan.job, &old));
    LS_TRY(ls_step_plan_open(to->plan.strategy, job, &new));
    for (int place = 0; place < new.mesh.places; place++)
        moved += moved_elements(from, &old, to, &new, place);
    *out = joiners * whole + moved * sizeof(float) * slots;
    return LS_OK;
}
