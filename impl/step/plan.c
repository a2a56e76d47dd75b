/* SPDX-License-Identifier: MIT */
/* A plan from a job; see plan.h. */
#include "impl/step/plan.h"

#include "common/base/grow.h"

#include <stdlib.h>

/* ---- Queries --------------------------------------------------------------------------------- */

ls_device *ls_step_plan_device(const ls_step_plan *plan, int member)
{
    const int number = plan->members[member].device;
    return number < 0                              ? NULL
           : number < (int)plan->job->device_count ? plan->job->devices[number]
                                                   : plan->job->variable_device;
}

bool ls_step_plan_is_on(const ls_step_plan *plan, int member, size_t index)
{
    const ls_job *job = plan->job;
    ls_device *device = ls_step_plan_device(plan, member);
    return device &&
           device == (index < job->device_count ? job->devices[index] : job->variable_device);
}

bool ls_step_plan_is_shared(const ls_step_plan *plan)
{
    return plan->servers.servers || plan->places > (int)plan->job->device_count;
}

bool ls_step_plan_has_ends(const ls_step_plan *plan)
{
    return ls_step_plan_is_shared(plan) ||
           (plan->strategy->peers && ls_job_processes(plan->job) > 1);
}

int ls_step_plan_peers(const ls_step_plan *plan, int replica, int *out)
{
    return plan->strategy->peers ? plan->strategy->peers(replica, plan->replicas, out) : 0;
}

bool ls_step_plan_has_end(const ls_step_plan *plan, int member)
{
    return plan->lanes.channels[LS_MESSAGES].lane[member] >= 0;
}

int ls_step_plan_sets(const ls_step_plan *plan)
{
    return plan->replicas * plan->places / plan->sharing;
}

int ls_step_plan_set(const ls_step_plan *plan, int member)
{
    return plan->parts.count ? member % plan->places : member / plan->sharing;
}

int ls_step_plan_share(const ls_step_plan *plan, int member)
{
    return plan->parts.count ? member / plan->places : member % plan->sharing;
}

const ls_planned_group *ls_step_planned_group(const ls_step_plan *plan, int place)
{
    return &plan->groups[plan->parts.count ? ls_step_plan_group(plan, place) : 0];
}

const ls_graph_part *ls_step_plan_part(const ls_step_plan *plan, int member)
{
    return plan->parts.count   ? &plan->parts.parts[plan->members[member].place]
           : plan->split.graph ? &plan->split
                               : NULL;
}

int ls_step_plan_training(const ls_step_plan *plan)
{
    return plan->servers.servers ? plan->replicas : plan->total;
}

int ls_step_plan_group(const ls_step_plan *plan, int place)
{
    return plan->context ? 0 : place;
}

int ls_step_plan_places(const ls_step_plan *plan, int replica, int stage)
{
    return LS_GROUPS + plan->group_count + replica * ls_job_stages(plan->job) + stage;
}

int ls_step_plan_own(const ls_step_plan *plan)
{
    int own = 0;
    while (plan->members[own].device < 0)
        own++;
    return own;
}

/* ---- Members --------------------------------------------------------------------------------- */

/* The holder, if replicas have no variables of their own: the replica on the variable device, or
 * one more member. */
static int find_holder(const ls_step_plan *plan)
{
    const ls_job *job = plan->job;
    const int n = (int)job->device_count;
    const bool held = plan->strategy->variables == LS_VARIABLES_HELD;
    for (int i = 0; i < n && held; i++)
        if (job->devices[i] == job->variable_device)
            return i;
    return held ? n : -1;
}

/* Pieces in flight on a pipeline's stage: those of its micro-batches in flight. */
static int slots_of(const ls_job *job, int replica, int place)
{
    int most = 1;
    for (int b = 0; b < LS_BATCHES; b++) {
        const ls_schedule schedule = ls_replicated_schedule(job, replica, b);
        const int pieces = ls_replicated_pieces(job, replica, b), m = schedule.microbatches;
        int slots = m ? (pieces + m - 1) / m * ls_schedule_in_flight(&schedule, place) : 0;
        slots = slots < pieces ? slots : pieces;
        most = slots > most ? slots : most;
    }
    return most;
}

/* Number of a device in the job, as in ls_planned_member. */
static int number_of(const ls_job *job, const ls_device *device)
{
    int number = 0;
    while (number < (int)job->device_count && job->devices[number] != device)
        number++;
    return device ? number : -1;
}

/* The process and device of a member that is no server, by its number over all processes. */
static void seat_in_order(const ls_job *job, int number, ls_planned_member *m)
{
    const int index = number - ls_job_member(job, 0), devices = (int)job->device_count;
    m->process = job->comm ? number / devices : 0;
    m->rank = number;
    if (m->process == ls_job_process(job))
        m->device = index < devices ? index : number_of(job, job->variable_device);
}

static void plan_member(ls_step_plan *plan, int index)
{
    const ls_job *job = plan->job;
    const bool shadow = index >= plan->total;
    const int number = shadow ? index - plan->total : index, replica = number / plan->places;
    ls_planned_member *m = &plan->members[index];
    *m = (ls_planned_member){.device = -1,
                             .replica = replica < plan->replicas ? replica : -1,
                             .place = number % plan->places};
    if (plan->servers.servers) {
        const ls_ps_seat seat = ls_ps_seat_of(job, &plan->servers, number);
        m->process = job->comm ? seat.process : 0;
        m->rank = seat.rank;
        m->device = m->process == ls_job_process(job) ? number_of(job, seat.device) : -1;
    } else {
        seat_in_order(job, number, m);
    }
    if (shadow) /* of each replica but the holder */
        m->device = number == plan->holder ? -1 : number_of(job, job->variable_device);
    if (plan->parts.count && job->microbatches > 0)
        m->slots = slots_of(job, replica, m->place / plan->parts.across);
}

/* Cuts the model where its nodes are on different places. */
static ls_status place_nodes(ls_step_plan *plan)
{
    const ls_job *job = plan->job;
    plan->loss_place = job->place[job->model->graph->count - 1];
    return plan->split.graph
               ? ls_graph_split_cut(&plan->split, job->place, plan->places, &plan->parts)
               : ls_graph_parts_open(job->model->graph, job->place, plan->places, &plan->parts);
}

static ls_status plan_members(ls_step_plan *plan)
{
    const ls_job *job = plan->job;
    const size_t devices = job->device_count;
    plan->holder = find_holder(plan);
    plan->places = ls_job_places(job);
    plan->replicas = ls_job_replicas(job);
    plan->total = plan->replicas * plan->places + (plan->holder == (int)devices);
    if (ls_strategy_serves(plan->strategy)) {
        LS_TRY(ls_ps_layout_open(job, &plan->servers));
        plan->total = plan->servers.workers + plan->servers.servers;
    }
    if (ls_job_splits(job) > 1 || job->tensor)
        LS_TRY(ls_graph_split(job->model->graph, ls_job_splits(job), job->sequence, NULL,
                              &plan->split));
    if (ls_strategy_divides(plan->strategy, &job->options))
        LS_TRY(place_nodes(plan));
    if (job->tensor)
        LS_TRY(ls_graph_split_places(&plan->split, job->place, ls_job_stages(job),
                                     ls_job_across(job), &plan->parts));
    if (job->context)
        LS_TRY(ls_context_open(job->model->graph, plan->places, &plan->context, &plan->parts));
    if (plan->parts.border_count)
        LS_TRY(ls_graph_parts_index(&plan->parts));
    if (job->tensor && job->place)
        plan->loss_place = job->place[job->model->graph->count - 1] * plan->parts.across;
    plan->all = plan->total + (plan->holder >= 0 && job->backward_held ? (int)devices : 0);
    LS_TRY(ls_allocate("step", &plan->members, (size_t)plan->all, sizeof *plan->members));
    LS_TRY(ls_allocate("step", &plan->here, (size_t)plan->total, sizeof *plan->here));
    for (int m = 0; m < plan->all; m++)
        plan_member(plan, m);
    for (int m = 0; m < plan->total; m++)
        plan->here[plan->members[m].rank] = m;
    for (int rank = 0; rank < plan->total; rank++)
        if (plan->members[plan->here[rank]].process == ls_job_process(job))
            plan->here[plan->here_count++] = plan->here[rank];
    return LS_OK;
}

/* Refuses peers that are not other replicas, in ascending order. */
static ls_status check_peers(const ls_step_plan *plan)
{
    int peers[LS_JOB_REPLICAS];
    for (int r = 0; r < plan->replicas; r++) {
        const int count = ls_step_plan_peers(plan, r, peers);
        for (int i = 0, last = -1; i < count; last = peers[i++])
            if (peers[i] <= last || peers[i] == r || peers[i] >= plan->replicas)
                return ls_fail(LS_CODE_USAGE, "strategy", plan->strategy->name,
                               ".peers gives replica %d of %d the peer %d, and peers must be other "
                               "replicas' numbers in ascending order",
                               r, plan->replicas, peers[i]);
    }
    return LS_OK;
}

/* ---- Groups ---------------------------------------------------------------------------------- */

ls_status ls_step_plan_buckets(const ls_job *job, const ls_graph_part *part, ls_buckets *out)
{
    const ls_graph *graph = part ? part->graph : job->model->graph;
    return ls_buckets_open(graph, part ? part->owned : graph->variables.elements, job->bucket_bytes,
                           job->clip > 0, out);
}

/* If a replica has q processes with c devices each, place m of replica d is in process d q + m /
 * c. */
const ls_layout *ls_step_plan_layout(const ls_job *job, int place, int *hosts,
                                     ls_layout *own_layout)
{
    const int places = ls_job_places(job);
    if (!job->layout || job->context)
        return job->layout;
    const int here = ls_job_replicas(job) * places / job->layout->processes; /* devices of one */
    if (places <= here)
        return job->layout;
    for (int d = 0; d < ls_job_replicas(job); d++)
        hosts[d] = job->layout->host[d * (places / here) + place / here];
    *own_layout = (ls_layout){.processes = ls_job_replicas(job), .host = hosts};
    return own_layout;
}

/* Of members `first`, `first` + `stride` and so on, before `end`, those of this process. */
static ls_status take_group(const ls_step_plan *plan, int first, int end, int stride,
                            ls_planned_group *g)
{
    LS_TRY(ls_allocate("step", &g->members, plan->job->device_count + 1, sizeof *g->members));
    for (int m = first; m < end && g->buckets.count; m += stride)
        if (plan->members[m].device >= 0)
            g->members[g->count++] = m;
    return LS_OK;
}

static ls_status plan_places(ls_step_plan *plan)
{
    const ls_job *job = plan->job;
    const int all = plan->replicas * plan->places, groups = plan->context ? 1 : plan->places;
    for (int place = 0; place < groups; place++) {
        ls_planned_group *g = &plan->groups[plan->group_count++];
        LS_TRY(ls_step_plan_buckets(job, ls_step_plan_part(plan, place), &g->buckets));
        LS_TRY(take_group(plan, place, all, groups, g));
        LS_TRY(ls_allocate("step", &g->hosts, LS_JOB_REPLICAS, sizeof *g->hosts));
        g->layout = ls_step_plan_layout(job, place, g->hosts, &g->own_layout);
    }
    return LS_OK;
}

/* Those of replicas have buckets, of which those between them, one for each share, have shares. */
static ls_status plan_sets(ls_step_plan *plan)
{
    const int size = plan->sharing, sets = ls_step_plan_sets(plan);
    for (int set = 0; set < sets; set++) {
        ls_planned_group *g = &plan->groups[plan->group_count++];
        LS_TRY(ls_step_plan_buckets(plan->job, ls_step_plan_part(plan, 0), &g->buckets));
        LS_TRY(take_group(plan, set * size, (set + 1) * size, 1, g));
    }
    for (int q = 0; q < size && sets > 1; q++) {
        ls_planned_group *g = &plan->groups[plan->group_count++];
        LS_TRY(ls_buckets_share(&plan->groups->buckets, q, size, &g->buckets));
        LS_TRY(take_group(plan, q, plan->replicas, size, g));
    }
    return LS_OK;
}

/* Of the members, from number `member` on, that share an update. */
static ls_status plan_windows(const ls_step_plan *plan, int member, ls_planned_group *g)
{
    const ls_job *job = plan->job;
    const ls_graph_part *part = ls_step_plan_part(plan, member);
    const ls_graph *graph = part ? part->graph : job->model->graph;
    if (job->windows)
        LS_TRY(ls_windows_open(graph, &g->buckets, job->windows, true, &g->windows));
    return job->gradient_windows ? ls_windows_open(graph, &g->buckets, job->gradient_windows, false,
                                                   &g->gradient_windows)
                                 : LS_OK;
}

/* ---- Lanes and channels ---------------------------------------------------------------------- */

/* Gives a member an end of a channel: on a lane of its own, or on its compute lane. */
static void add_end(ls_step_plan *plan, int channel, int member, const char *own)
{
    ls_lanes *lanes = &plan->lanes;
    lanes->channels[channel].lane[member] = own ? lanes->count : member;
    if (own)
        lanes->items[lanes->count++] = (ls_lane){.member = member, .name = own};
}

static ls_status plan_lanes(ls_step_plan *plan)
{
    ls_lanes *lanes = &plan->lanes;
    const ls_job *job = plan->job;
    const size_t most = 4 * (size_t)plan->all; /* and of groups, two at most, and transfers */
    const int sums = plan->job->tensor ? plan->replicas * ls_job_stages(plan->job) : 0;
    const int channels = LS_GROUPS + plan->group_count + sums;
    const bool served = plan->servers.servers;
    const int arrivals = served && ls_ps_by_arrival(&job->ps) ? plan->replicas : plan->total;
    LS_TRY(ls_allocate("step", &lanes->items, most, sizeof *lanes->items));
    LS_TRY(ls_allocate("step", &lanes->channels, (size_t)channels, sizeof *lanes->channels));
    for (int m = 0; m < plan->all; m++)
        lanes->items[lanes->count++] = (ls_lane){
            .member = m, .name = "compute", .ends = plan->members[m].device >= 0 && m < arrivals};
    for (; lanes->channel_count < channels; lanes->channel_count++) {
        ls_channel *c = &lanes->channels[lanes->channel_count];
        LS_TRY(ls_allocate("step", &c->lane, (size_t)plan->total, sizeof *c->lane));
        c->members = plan->total;
        c->arrivals = lanes->channel_count == LS_MESSAGES ? arrivals : plan->total;
        for (int m = 0; m < plan->total; m++)
            c->lane[m] = -1;
    }
    for (int i = 0; i < plan->here_count && ls_step_plan_has_ends(plan); i++) {
        const bool worker = plan->here[i] < plan->replicas;
        add_end(plan, LS_MESSAGES, plan->here[i],
                !served                  ? "transfer"
                : job->overlap && worker ? "communication"
                                         : NULL);
    }
    for (int g = 0; g < plan->group_count; g++)
        for (int i = 0; i < plan->groups[g].count; i++)
            add_end(plan, LS_GROUPS + g, plan->groups[g].members[i],
                    !job->overlap                                   ? NULL
                    : plan->sharing && g >= ls_step_plan_sets(plan) ? "between groups"
                                                                    : "communication");
    for (int m = 0; m < plan->total && sums; m++)
        if (plan->members[m].device >= 0)
            add_end(plan,
                    ls_step_plan_places(plan, plan->members[m].replica,
                                        plan->members[m].place / plan->parts.across),
                    m, NULL);
    return LS_OK;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

ls_status ls_step_plan_open(const ls_strategy *strategy, const ls_job *job, ls_step_plan *plan)
{
    *plan = (ls_step_plan){.job = job, .strategy = strategy};
    LS_TRY(plan_members(plan));
    LS_TRY(check_peers(plan));
    /* of N replicas, D groups of M and M between them: at most N + 1 */
    LS_TRY(ls_allocate("step", &plan->groups, (size_t)plan->total + 1, sizeof *plan->groups));
    if (ls_strategy_shares(strategy, &job->options))
        plan->sharing = plan->parts.count || !job->split_replicas
                            ? plan->replicas
                            : plan->replicas / job->split_replicas;
    if (strategy->reduces)
        LS_TRY(plan->sharing && !plan->parts.count ? plan_sets(plan) : plan_places(plan));
    for (int set = 0; plan->sharing && set < ls_step_plan_sets(plan); set++)
        LS_TRY(plan_windows(plan, plan->parts.count ? set : 0, &plan->groups[set]));
    return plan_lanes(plan);
}

void ls_step_plan_close(ls_step_plan *plan)
{
    for (int c = 0; c < plan->lanes.channel_count; c++)
        free(plan->lanes.channels[c].lane);
    free(plan->lanes.channels);
    free(plan->lanes.items);
    for (int g = 0; g < plan->group_count; g++) {
        free(plan->groups[g].members);
        free(plan->groups[g].hosts);
        ls_windows_close(&plan->groups[g].windows);
        ls_windows_close(&plan->groups[g].gradient_windows);
        ls_buckets_close(&plan->groups[g].buckets);
    }
    free(plan->groups);
    free(plan->here);
    free(plan->members);
    ls_ps_layout_close(&plan->servers);
    ls_graph_parts_close(&plan->parts);
    ls_graph_close(plan->context);
    ls_graph_part_close(&plan->split);
}
