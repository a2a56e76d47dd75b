/* SPDX-License-Identifier: MIT */
/* A plan from a job; see plan.h. */
#include "impl/step/plan/plan.h"

#include "common/base/grow.h"
#include "common/kernel/kernel_step.h"

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

bool ls_step_plan_two_ended(const ls_step_plan *plan)
{
    return ls_strategy_serves(plan->strategy);
}

bool ls_step_plan_has_ends(const ls_step_plan *plan)
{
    return ls_step_plan_two_ended(plan) || plan->mesh.places > (int)plan->job->device_count ||
           (plan->strategy->average.peers && ls_job_processes(plan->job) > 1);
}

int ls_step_plan_peers(const ls_step_plan *plan, int replica, int *out)
{
    return plan->strategy->average.peers
               ? plan->strategy->average.peers(replica, plan->mesh.replicas, out)
               : 0;
}

bool ls_step_plan_shares(const ls_step_plan *plan)
{
    return plan->state.on[LS_MEMBER] == LS_SHARE;
}

int ls_step_plan_sharers(const ls_step_plan *plan)
{
    return ls_step_plan_shares(plan) ? plan->mesh.size[LS_MEMBER] : 1;
}

bool ls_step_plan_updates(const ls_step_plan *plan, int member)
{
    return (size_t)member - plan->owners.first < plan->owners.count;
}

ls_range ls_step_plan_copy(const ls_step_plan *plan, const ls_spread *spread, int member)
{
    int size = 1;
    for (int a = 0; a < LS_AXES; a++)
        size *= spread->on[a] == LS_WHOLE ? 1 : plan->mesh.size[a];
    return spread->on[LS_MEMBER] == LS_PLACED
               ? plan->owners
               : (ls_range){(size_t)(member / size * size), (size_t)size};
}

int ls_step_plan_parts(const ls_step_plan *plan)
{
    return plan->mesh.size[LS_STAGE] * plan->mesh.size[LS_SLICE];
}

int ls_step_plan_sets(const ls_step_plan *plan)
{
    return plan->mesh.size[LS_GROUP] * ls_step_plan_parts(plan);
}

int ls_step_plan_set(const ls_step_plan *plan, int member)
{
    const int group = member / plan->mesh.places / plan->mesh.size[LS_MEMBER];
    return group * ls_step_plan_parts(plan) + ls_step_plan_group(plan, member % plan->mesh.places);
}

int ls_step_plan_share(const ls_step_plan *plan, int member)
{
    return member / plan->mesh.places % ls_step_plan_sharers(plan);
}

const ls_planned_group *ls_step_planned_group(const ls_step_plan *plan, int place)
{
    return &plan->groups[ls_step_plan_group(plan, place)];
}

ls_range ls_step_plan_bucket_share(const ls_step_plan *plan, int member, size_t b)
{
    return ls_bucket_share(&ls_step_planned_group(plan, plan->members[member].place)->buckets, b,
                           ls_step_plan_share(plan, member), ls_step_plan_sharers(plan));
}

const ls_graph_part *ls_step_plan_part(const ls_step_plan *plan, int member)
{
    return plan->parts.count   ? ls_graph_parts_at(&plan->parts, plan->members[member].place)
           : plan->split.graph ? &plan->split
                               : NULL;
}

bool ls_step_plan_owned_range(const ls_step_plan *plan, int member, size_t i, ls_range *out)
{
    if (plan->placed.elements)
        return ls_ps_layout_range(&plan->placed, member - (int)plan->owners.first, i, out);
    const ls_graph_part *part = ls_step_plan_part(plan, member);
    *out = (ls_range){0, part ? part->owned : plan->job->model->graph->variables.elements};
    if (!ls_step_plan_shares(plan))
        return i == 0;
    if (i >= ls_step_planned_group(plan, plan->members[member].place)->buckets.count)
        return false;
    *out = ls_step_plan_bucket_share(plan, member, i);
    return true;
}

int ls_step_plan_move(ls_kind has, ls_kind needs)
{
    static const int moves[][LS_PARTIAL + 1] = {
        /* needs        whole          share              placed     partial */
        [LS_WHOLE] = {LS_NO_SUM, LS_NO_SUM, LS_NO_SUM, LS_NO_SUM},
        [LS_SHARE] = {LS_ALL_GATHER, LS_NO_SUM, LS_NO_SUM, LS_NO_SUM},
        [LS_PLACED] = {LS_NO_SUM, LS_NO_SUM, LS_NO_SUM, LS_NO_SUM},
        [LS_PARTIAL] = {LS_HALVES, LS_REDUCE_SCATTER, LS_NO_SUM, LS_NO_SUM},
    };
    return moves[has][needs];
}

int ls_step_plan_training(const ls_step_plan *plan)
{
    return plan->placed.elements ? (int)plan->owners.first : plan->total;
}

int ls_step_plan_group(const ls_step_plan *plan, int place)
{
    return place / plan->mesh.size[LS_POSITION];
}

int ls_step_plan_places(const ls_step_plan *plan, int replica, int stage)
{
    return LS_GROUPS + plan->group_count + replica * plan->mesh.size[LS_STAGE] + stage;
}

int ls_step_plan_first_local(const ls_step_plan *plan)
{
    int own = 0;
    while (plan->members[own].device < 0)
        own++;
    return own;
}

/* ---- Members --------------------------------------------------------------------------------- */

/* The holder, if replicas have no variables: the replica on the variable device, or one more
 * member. */
static int find_holder(const ls_step_plan *plan)
{
    const ls_job *job = plan->job;
    const int n = (int)job->device_count;
    const bool held = ls_strategy_holds(plan->strategy);
    for (int i = 0; i < n && held; i++)
        if (job->devices[i] == job->variable_device)
            return i;
    return held ? n : -1;
}

/* Number of a device in the job, as in ls_planned_member. */
static int number_of(const ls_job *job, const ls_device *device)
{
    int number = 0;
    while (number < (int)job->device_count && job->devices[number] != device)
        number++;
    return device ? number : -1;
}

static ls_status plan_member(ls_step_plan *plan, int index)
{
    const ls_job *job = plan->job;
    const bool shadow = index >= plan->total;
    const int number = shadow ? index - plan->total : index, replica = number / plan->mesh.places;
    ls_planned_member *m = &plan->members[index];
    *m = (ls_planned_member){.device = -1,
                             .replica = replica < plan->mesh.replicas ? replica : -1,
                             .place = number % plan->mesh.places};
    if (plan->placed.elements) {
        const ls_ps_seat seat = ls_ps_seat_of(job, &plan->placed, number);
        m->process = job->ranks.comm ? seat.process : 0;
        m->rank = seat.rank;
        m->device = m->process == ls_job_process(job) ? number_of(job, seat.device) : -1;
    } else { /* in the order of the job's devices */
        const int local = number - ls_job_member(job, 0), devices = (int)job->device_count;
        m->process = job->ranks.comm ? number / devices : 0;
        m->rank = number;
        if (m->process == ls_job_process(job))
            m->device = local < devices ? local : number_of(job, job->variable_device);
    }
    if (shadow) /* of each replica but the holder */
        m->device = number == plan->holder ? -1 : number_of(job, job->variable_device);
    const int chunks = ls_graph_part_chunks(ls_step_plan_part(plan, index));
    for (int c = 0; c < chunks && plan->parts.count; c++)
        LS_TRY(ls_replicated_slots(job, replica, m->place / plan->parts.across, c, &m->slots[c]));
    return LS_OK;
}

/* Sets who has variables, and how they are spread: a holder, or members behind all that compute,
 * may have all. */
static ls_status plan_owners(ls_step_plan *plan)
{
    const ls_job *job = plan->job;
    ls_spread *const all[] = {&plan->parameters, &plan->state};
    plan->total = plan->mesh.replicas * plan->mesh.places;
    plan->holder = find_holder(plan);
    plan->owners =
        plan->holder < 0 ? (ls_range){0, (size_t)plan->total} : (ls_range){(size_t)plan->holder, 1};
    if (ls_step_plan_two_ended(plan)) {
        LS_TRY(ls_ps_layout_open(job, &plan->placed));
        plan->owners = (ls_range){(size_t)plan->total, (size_t)plan->placed.servers};
    }
    const int end = (int)(plan->owners.first + plan->owners.count);
    plan->total = end > plan->total ? end : plan->total;
    plan->parameters = job->parameters;
    plan->state = job->state;
    for (int i = 0; i < 2; i++) {
        all[i]->on[LS_STAGE] = all[i]->on[LS_SLICE] = LS_PLACED;
        if (ls_step_plan_two_ended(plan) || plan->holder >= 0)
            all[i]->on[LS_MEMBER] = LS_PLACED;
    }
    return LS_OK;
}

static ls_status plan_members(ls_step_plan *plan)
{
    const ls_job *job = plan->job;
    const size_t devices = job->device_count;
    plan->mesh = ls_job_mesh(job);
    LS_TRY(plan_owners(plan));
    LS_TRY(ls_divide(job, &plan->split, &plan->parts));
    if (plan->parts.count) /* its first part, if layers are split */
        plan->loss_place = plan->parts.place[plan->parts.whole->count - 1] / plan->parts.across *
                           plan->parts.across % plan->mesh.places;
    if (plan->mesh.rest == LS_POSITION)
        LS_TRY(ls_context_open(job->model->graph, plan->mesh.places, &plan->context, &plan->parts));
    if (plan->parts.border_count)
        LS_TRY(ls_graph_parts_index(&plan->parts));
    LS_TRY(ls_step_plan_open_repeats(plan));
    plan->all = plan->total + (plan->holder >= 0 && job->division.backward_held ? (int)devices : 0);
    LS_TRY(ls_allocate("step", &plan->members, (size_t)plan->all, sizeof *plan->members));
    LS_TRY(ls_allocate("step", &plan->local.items, (size_t)plan->total, sizeof *plan->local.items));
    for (int m = 0; m < plan->all; m++)
        LS_TRY(plan_member(plan, m));
    for (int m = 0; m < plan->total; m++)
        plan->local.items[plan->members[m].rank] = m;
    for (int rank = 0; rank < plan->total; rank++)
        if (plan->members[plan->local.items[rank]].process == ls_job_process(job))
            plan->local.items[plan->local.count++] = plan->local.items[rank];
    return LS_OK;
}

/* Refuses a spread whose copies are not consecutive members; see ls_step_plan_copy. */
static ls_status check_spread(const ls_step_plan *plan, const ls_spread *spread, const char *what)
{
    static const ls_axis outer_first[] = {LS_GROUP, LS_MEMBER, LS_STAGE, LS_SLICE, LS_POSITION};
    bool divided = false;
    for (int i = 0; i < LS_AXES; i++) {
        const ls_axis axis = outer_first[i];
        if (plan->mesh.size[axis] == 1)
            continue;
        if (divided && spread->on[axis] == LS_WHOLE)
            return ls_fail(LS_CODE_USAGE, "strategy", plan->strategy->name,
                           "the strategy divides %s along an outer axis of the mesh, but not along "
                           "an inner one; let .spreads divide the inner axis, too",
                           what);
        divided |= spread->on[axis] != LS_WHOLE;
    }
    return LS_OK;
}

/* Refuses peers that are not other replicas, in ascending order. */
static ls_status check_peers(const ls_step_plan *plan)
{
    int peers[LS_JOB_REPLICAS];
    for (int r = 0; r < plan->mesh.replicas; r++) {
        const int count = ls_step_plan_peers(plan, r, peers);
        for (int i = 0, last = -1; i < count; last = peers[i++])
            if (peers[i] <= last || peers[i] == r || peers[i] >= plan->mesh.replicas)
                return ls_fail(
                    LS_CODE_USAGE, "strategy", plan->strategy->name,
                    "the strategy's function .peers gives replica %d of %d the peer %d, but peers "
                    "must be other replicas' numbers in ascending order; correct .peers",
                    r, plan->mesh.replicas, peers[i]);
    }
    return LS_OK;
}

/* ---- Groups ---------------------------------------------------------------------------------- */

ls_status ls_step_plan_buckets(const ls_job *job, const ls_graph_part *part, ls_buckets *out)
{
    const ls_graph *graph = part ? part->graph : job->model->graph;
    const ls_bucketing how = {.bytes = job->exchange.bucket_bytes,
                              .block = ls_job_block(job),
                              .fragments = ls_job_fragments(job),
                              .chunks = job->gradients.windows ? part : NULL};
    return ls_buckets_open(graph, part ? part->owned : graph->variables.elements, how, out);
}

/* If a replica has q processes with c devices each, place m of replica d is in process d q + m /
 * c. */
const ls_layout *ls_step_plan_layout(const ls_job *job, int place, int *hosts,
                                     ls_layout *own_layout)
{
    const ls_mesh mesh = ls_job_mesh(job);
    const ls_layout *all = job->ranks.layout;
    if (!all || mesh.size[LS_POSITION] > 1)
        return all;
    const int local = mesh.replicas * mesh.places / all->processes; /* devices of one */
    if (mesh.places <= local)
        return all;
    for (int d = 0; d < mesh.replicas; d++)
        hosts[d] = all->host[d * (mesh.places / local) + place / local];
    *own_layout = (ls_layout){.processes = mesh.replicas, .host = hosts};
    return own_layout;
}

/* Opens the buckets of a set, whose first member is `member`, and the windows that hold them. */
static ls_status plan_buckets(const ls_step_plan *plan, int member, ls_planned_group *g)
{
    const ls_job *job = plan->job;
    const ls_graph_part *part = ls_step_plan_part(plan, member);
    const ls_graph *graph = part ? part->graph : job->model->graph;
    const int windows = job->parameters.windows, gradients = job->gradients.windows;
    LS_TRY(ls_step_plan_buckets(job, part, &g->buckets));
    /* only parameters in windows make a unit that is repeated need several at once */
    const ls_repeat *repeats =
        windows ? ls_step_plan_repeats(plan, plan->members[member].place) : NULL;
    if (windows)
        LS_TRY(ls_windows_open(graph, repeats, &g->buckets, windows, true, &g->windows));
    if (gradients)
        LS_TRY(
            ls_windows_open(graph, repeats, &g->buckets, gradients, false, &g->gradient_windows));
    return gradients && job->division.weights_apart ? ls_windows_wait(&g->gradient_windows) : LS_OK;
}

static ls_status plan_groups(ls_step_plan *plan)
{
    const int parts = ls_step_plan_parts(plan), size = plan->mesh.size[LS_MEMBER];
    const int all = size * plan->mesh.places; /* members of a group of replicas */
    for (int set = 0; set < ls_step_plan_sets(plan); set++) {
        ls_planned_group *g = &plan->groups[plan->group_count++];
        const int before = set / parts * all, first = before + set % parts;
        LS_TRY(plan_buckets(plan, first, g));
        g->first = first;
        g->end = before + all;
        g->stride = parts;
        g->before = set % parts ? g[-1].before + (int)g[-1].buckets.count : 0;
        LS_TRY(ls_allocate("step", &g->hosts, LS_JOB_REPLICAS, sizeof *g->hosts));
        g->layout = ls_step_plan_layout(plan->job, set % parts, g->hosts, &g->own_layout);
    }
    for (int q = 0; q < size && plan->mesh.size[LS_GROUP] > 1; q++) {
        ls_planned_group *g = &plan->groups[plan->group_count++];
        LS_TRY(ls_buckets_share(&plan->groups->buckets, q, size, &g->buckets));
        g->first = q;
        g->end = plan->mesh.replicas;
        g->stride = size;
    }
    return LS_OK;
}

/* ---- Lanes and channels ---------------------------------------------------------------------- */

/* Gives a member of this process an end of a channel: on a separate lane, or on its compute
 * lane. */
static ls_status add_end(ls_step_plan *plan, int channel, int member, const char *own)
{
    ls_lanes *lanes = &plan->lanes;
    ls_channel *c = &lanes->channels[channel];
    if (plan->members[member].device < 0)
        return LS_OK;
    LS_TRY(ls_grow("step", &c->local, (size_t)c->local_count, sizeof *c->local));
    c->local[c->local_count++] = member;
    c->lane[member] = own ? lanes->count : member;
    if (own)
        lanes->items[lanes->count++] = (ls_lane){.member = member, .name = own};
    return LS_OK;
}

/* Opens a channel between members `first`, `first` + `stride`, and so on, before `end`. */
static ls_status open_channel(ls_step_plan *plan, int first, int end, int stride, const char *own)
{
    ls_lanes *lanes = &plan->lanes;
    const int number = lanes->channel_count;
    LS_TRY(ls_grow("step", &lanes->channels, (size_t)number, sizeof *lanes->channels));
    ls_channel *c = &lanes->channels[lanes->channel_count++];
    *c = (ls_channel){.members = plan->total, .arrivals = plan->total};
    LS_TRY(ls_allocate("step", &c->lane, (size_t)plan->total, sizeof *c->lane));
    for (int m = 0; m < plan->total; m++)
        c->lane[m] = -1;
    for (int m = first; m < end; m += stride)
        LS_TRY(add_end(plan, number, m, own));
    return LS_OK;
}

static ls_status plan_lanes(ls_step_plan *plan)
{
    ls_lanes *lanes = &plan->lanes;
    const ls_job *job = plan->job;
    const size_t most = 4 * (size_t)plan->all; /* and of groups, two at most, and transfers */
    const int across = plan->mesh.size[LS_SLICE];
    const bool ends = ls_step_plan_has_ends(plan), two_ended = ls_step_plan_two_ended(plan);
    const char *apart = job->exchange.overlap ? "communication" : NULL;
    const int arrivals = ls_ps_by_arrival(&job->ps) ? (int)plan->owners.first : plan->total;
    LS_TRY(ls_allocate("step", &lanes->items, most, sizeof *lanes->items));
    for (int m = 0; m < plan->all; m++) {
        lanes->items[lanes->count++] = (ls_lane){
            .member = m, .name = "compute", .ends = plan->members[m].device >= 0 && m < arrivals};
        plan->members[m].sends = m;
    }
    LS_TRY(open_channel(plan, 0, 0, 1, NULL));
    lanes->channels[LS_MESSAGES].arrivals = arrivals;
    for (int i = 0; i < plan->local.count; i++) {
        const int m = plan->local.items[i];
        const bool computes = m < plan->mesh.replicas;
        if (ends)
            LS_TRY(add_end(plan, LS_MESSAGES, m,
                           !two_ended ? "transfer"
                           : computes ? apart
                                      : NULL));
        if (!job->exchange.transfers)
            continue;
        plan->members[m].sends = ends ? lanes->channels[LS_MESSAGES].lane[m] : lanes->count;
        if (!ends)
            lanes->items[lanes->count++] = (ls_lane){.member = m, .name = "transfer"};
    }
    for (int i = 0; i < plan->group_count; i++) {
        const ls_planned_group *g = &plan->groups[i];
        LS_TRY(open_channel(plan, g->first, g->buckets.count ? g->end : g->first, g->stride,
                            apart && i >= ls_step_plan_sets(plan) ? "between groups" : apart));
    }
    for (int m = 0; m < plan->total && across > 1; m += across)
        LS_TRY(open_channel(plan, m, m + across, 1, NULL));
    return LS_OK;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

ls_status ls_step_plan_open(const ls_strategy *strategy, const ls_job *job, ls_step_plan *plan)
{
    *plan = (ls_step_plan){.job = job, .strategy = strategy};
    LS_TRY(plan_members(plan));
    LS_TRY(check_peers(plan));
    LS_TRY(check_spread(plan, &plan->parameters, "parameters"));
    LS_TRY(check_spread(plan, &plan->state, "optimizer state"));
    /* of N replicas, D groups of M and M between them: at most N + 1 */
    LS_TRY(ls_allocate("step", &plan->groups, (size_t)plan->total + 1, sizeof *plan->groups));
    if (ls_strategy_reduces(strategy))
        LS_TRY(plan_groups(plan));
    return plan_lanes(plan);
}

void ls_step_plan_close(ls_step_plan *plan)
{
    for (int c = 0; c < plan->lanes.channel_count; c++) {
        free(plan->lanes.channels[c].lane);
        free(plan->lanes.channels[c].local);
    }
    free(plan->lanes.channels);
    free(plan->lanes.items);
    for (int g = 0; g < plan->group_count; g++) {
        free(plan->groups[g].hosts);
        ls_windows_close(&plan->groups[g].windows);
        ls_windows_close(&plan->groups[g].gradient_windows);
        ls_buckets_close(&plan->groups[g].buckets);
    }
    free(plan->groups);
    free(plan->local.items);
    free(plan->members);
    ls_ps_layout_close(&plan->placed);
    ls_step_plan_close_repeats(plan);
    ls_graph_parts_close(&plan->parts);
    ls_graph_close(plan->context);
    ls_graph_part_close(&plan->split);
}
