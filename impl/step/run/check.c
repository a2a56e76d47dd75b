/* SPDX-License-Identifier: MIT */
/* The listing and the check of a run's programs, with the names of its memory; see run.h. */
#include "common/base/grow.h"
#include "impl/step/program/names.h"
#include "impl/step/run/run.h"
#include "impl/ps/served.h"

#include <stdlib.h>

/* ---- Names ----------------------------------------------------------------------------------- */

typedef struct naming {
    ls_names *names;
    ls_status status;
} naming;

static void add(naming *n, int member, const char *what, const void *memory, size_t bytes,
                size_t element)
{
    const uintptr_t begin = (uintptr_t)memory;
    if (!n->status)
        n->status = ls_names_add(n->names, (ls_name){begin, begin + bytes, what, member, element});
}

/* Names a replica's buffers, what its operations work in, and the data set. */
static void add_replica(naming *n, int member, const ls_replica *r)
{
    const ls_split *train = &r->job->data->train;
    for (size_t i = 0; i < r->buffer_count; i++)
        if (r->buffers[i].what)
            add(n, member, r->buffers[i].what, r->buffers[i].memory, r->buffers[i].bytes,
                r->buffers[i].element);
    for (size_t i = 0; i < r->kernels->scratch.count; i++)
        add(n, member, "scratch", r->kernels->scratch.blocks[i].memory,
            r->kernels->scratch.blocks[i].bytes, 0);
    for (int i = 0; i < LS_REPLICA_ARRAYS; i++)
        add(n, -1, "data set", r->data.train[i],
            ls_array_bytes(i < LS_DATA_INPUTS ? &train->input[i] : &train->target, train->samples),
            0);
}

/* Names the buffers into which a net's batch is gathered: of its own graph, since a place may have
 * part of a sample's positions. `net`: NULL if the piece has no samples. */
static void add_net(naming *n, int member, const ls_replica *r, const ls_net *net)
{
    if (!net)
        return;
    const ls_graph *graph = r->graph;
    const ls_shape *output = &graph->nodes[graph->count - 1].shape;
    const size_t rows = (size_t)ls_net_rows(net), real = r->kernels->table->real_bytes;
    for (int i = 0; i < LS_DATA_INPUTS; i++) {
        const ls_node *input = ls_graph_input(graph, i);
        if (input)
            add(n, member, "batch", ls_net_input(net, i),
                rows * (size_t)ls_shape_elements(&input->shape) * real, 0);
    }
    add(n, member, "batch", ls_net_target(net),
        rows * (ls_graph_takes_labels(graph) ? (size_t)ls_graph_targets(graph) * sizeof(int32_t)
                                             : (size_t)ls_shape_elements(output) * real),
        0);
}

/* The member's device, which has no other member; for a shadow, also its replica's device. */
void ls_steps_name_member(const ls_step_run *run, int m, ls_member_name *out)
{
    const ls_step_plan *plan = &run->plan;
    const ls_planned_member *planned = &plan->members[m];
    const ls_replica *r = run->resources.members[m].replica;
    out->place = planned->place;
    out->elements = r ? r->elements : 0;
    if (!r)
        snprintf(out->text, sizeof out->text, "rank %d device %zu", planned->process,
                 (size_t)m % plan->job->device_count);
    else if (m < plan->total)
        snprintf(out->text, sizeof out->text, "%s", ls_device_describe(r->device)->text);
    else
        snprintf(out->text, sizeof out->text, "%.36s for %.36s",
                 ls_device_describe(r->device)->text,
                 ls_device_describe(ls_step_plan_device(plan, m - plan->total))->text);
}

ls_status ls_steps_names(const ls_step_run *run, ls_names *names)
{
    const ls_resources *r = &run->resources;
    naming n = {.names = names};
    const ls_step_plan *plan = &run->plan;
    *names = (ls_names){.lanes = &plan->lanes,
                        .graph = plan->parts.count   ? NULL
                                 : plan->split.graph ? plan->split.graph
                                                     : plan->job->model->graph,
                        .parts = &plan->parts};
    LS_TRY(ls_allocate("names", &names->members, (size_t)run->plan.all, sizeof *names->members));
    for (int m = 0; m < run->plan.all; m++) {
        ls_steps_name_member(run, m, &names->members[m]);
        if (!r->members[m].replica)
            continue;
        add_replica(&n, m, r->members[m].replica);
        add(&n, m, "communicator", r->members[m].statistics_comm, sizeof(ls_comm), 0);
        for (int b = 0; b < LS_BATCHES; b++) {
            size_t count;
            if (!r->members[m].slice[b])
                continue;
            const ls_act *acts = ls_slice_acts(r->members[m].slice[b], &count);
            const int chunks = ls_graph_part_chunks(r->members[m].replica->part);
            for (int p = 0; count && p <= acts[count - 1].piece; p++)
                for (int c = 0; c < chunks && ls_slice_piece_net(r->members[m].slice[b], p); c++)
                    add_net(&n, m, r->members[m].replica,
                            ls_slice_piece_nets(r->members[m].slice[b], p)[c]);
        }
    }
    for (size_t i = 0; i < r->connection_count; i++)
        add(&n, r->connections[i].member, "communicator", r->connections[i].comm, sizeof(ls_comm),
            0);
    n.status = ls_status_first(n.status, ls_served_names(r, names));
    ls_names_order(names);
    return n.status;
}

/* ---- The listing ----------------------------------------------------------------------------- */

/* Prints a program; nothing if it has no tasks. */
static ls_status list(const ls_step_run *run, int kind, const ls_names *names, FILE *out)
{
    const ls_step_program *p = &run->program[kind];
    const int batch_kind = kind % LS_BATCHES;
    if (!p->task_count)
        return LS_OK;
    if (kind == run->kinds + LS_BEFORE)
        fputs("\nOnce, before steps that are put together", out);
    else if (kind == run->kinds + LS_AFTER)
        fputs("\nOnce, after the steps", out);
    else
        fprintf(out, "\nA step of %lld samples%s%s",
                (long long)ls_replicated_batch(run->plan.job, batch_kind),
                batch_kind == LS_TAIL ? ", the last of an epoch" : "",
                kind >= 2 * LS_LAST ? ", in which a fragment is exchanged"
                : kind >= LS_LAST   ? ", the last of a period"
                                    : "");
    fprintf(out, ": %zu tasks, %zu operations\n\n", p->task_count, p->op_count);
    return ls_step_program_list(p, names, out);
}

ls_status ls_steps_list(const ls_run *run, FILE *out)
{
    const ls_step_run *me = ls_step_run_of(run);
    ls_closing(ls_names_close) ls_names names = {0};
    LS_TRY(ls_steps_names(me, &names));
    LS_TRY(list(me, me->kinds + LS_BEFORE, &names, out));
    for (int kind = 0; kind < me->kinds; kind++)
        LS_TRY(list(me, kind, &names, out));
    return list(me, me->kinds + LS_AFTER, &names, out);
}

/* ---- Spans ----------------------------------------------------------------------------------- */

static ls_status check_spans(const ls_step_run *run, const ls_step_program *programs, int count,
                             const ls_names *names, ls_allocated *pieces)
{
    for (int m = 0; m < run->plan.all; m++) {
        const ls_replica *r = run->resources.members[m].replica;
        if (r)
            LS_TRY(ls_device_pieces(r->device, &pieces[m].items, &pieces[m].count));
    }
    for (int i = 0; i < count; i++)
        LS_TRY(ls_names_check_spans(names, &programs[i], pieces));
    return LS_OK;
}

ls_status ls_steps_check_spans(const ls_step_run *run, const ls_step_program *programs, int count)
{
    const size_t members = (size_t)run->plan.all;
    ls_auto ls_allocated *pieces = NULL;
    ls_closing(ls_names_close) ls_names names = {0};
    LS_TRY(ls_allocate("step", &pieces, members, sizeof *pieces));
    ls_status status = ls_steps_names(run, &names);
    if (!status)
        status = check_spans(run, programs, count, &names, pieces);
    for (size_t m = 0; m < members; m++)
        free(pieces[m].items);
    return status;
}

/* ---- The check ------------------------------------------------------------------------------- */

/* An operation of a task (`appended`), or of an act of a slice. */
typedef struct use {
    const ls_op *op;
    bool appended;
} use;

typedef struct uses {
    use *items;
    size_t count;
    ls_status status;
} uses;

static void close(uses *u)
{
    free(u->items);
}

static int compare_uses(const void *a, const void *b)
{
    const uintptr_t x = (uintptr_t)((const use *)a)->op, y = (uintptr_t)((const use *)b)->op;
    return (x > y) - (x < y);
}

static void add_uses(uses *all, ls_op *const *ops, size_t count, bool appended)
{
    for (size_t i = 0; i < count && !all->status; i++) {
        all->status = ls_grow("step", &all->items, all->count, sizeof *all->items);
        if (!all->status)
            all->items[all->count++] = (use){ops[i], appended};
    }
}

static void add_acts(const ls_slice *slice, uses *all)
{
    size_t count = 0;
    const ls_act *acts = slice ? ls_slice_acts(slice, &count) : NULL;
    for (size_t i = 0; i < count * LS_NET_LISTS; i++) {
        const ls_op_list *list = acts[i / LS_NET_LISTS].lists[i % LS_NET_LISTS];
        if (list)
            add_uses(all, list->items, list->count, false);
    }
}

/* An operation may be in tasks as often as in acts (a net that runs several shards has it once for
 * each); an operation of no act, once. */
static ls_status judge_uses(uses *all)
{
    LS_TRY(all->status);
    if (all->count)
        qsort(all->items, all->count, sizeof *all->items, compare_uses);
    size_t appended = 0, acts = 0;
    for (size_t i = 0; i < all->count; i++) {
        if (i && all->items[i].op != all->items[i - 1].op)
            appended = acts = 0;
        *(all->items[i].appended ? &appended : &acts) += 1;
        const bool ends = i + 1 == all->count || all->items[i].op != all->items[i + 1].op;
        if (ends && appended > 1 && appended > acts)
            return ls_fail(
                LS_CODE_CHECK, "step", all->items[i].op->name,
                "the strategy's build function appends this operation several times, but "
                "it may run only once in a step; append each operation once");
    }
    return LS_OK;
}

static ls_status check_program(const ls_step_run *run, int kind)
{
    const ls_step_program *p = &run->program[kind];
    ls_closing(close) uses all = {0};
    for (size_t t = 0; t < p->task_count; t++)
        add_uses(&all, p->ops + p->tasks[t].ops.first, p->tasks[t].ops.count, true);
    for (int m = 0; m < run->plan.all; m++)
        add_acts(run->resources.members[m].slice[kind % LS_BATCHES], &all);
    LS_TRY(judge_uses(&all));
    return ls_step_program_match(p);
}

static ls_status check_pair(const ls_step_run *run, int a, int b)
{
    ls_race race;
    ls_closing(ls_names_close) ls_names names = {0};
    LS_TRY(ls_step_programs_race(&run->program[a], &run->program[b], &run->components, &race));
    if (!race.task)
        return LS_OK;
    LS_TRY(ls_steps_names(run, &names));
    return ls_names_refuse_race(&names, &race);
}

/* Checks pairs of kinds that may be consecutive: all but two tails; of fragments, one and the next,
 * if no step is between them. */
ls_status ls_steps_check(const ls_run *run)
{
    const ls_step_run *me = ls_step_run_of(run);
    const int all = ls_job_fragments(run->job);
    for (int kind = 0; kind < me->kinds; kind++)
        LS_TRY(check_program(me, kind));
    for (int a = 0; a < me->kinds; a++)
        for (int b = 0; b < me->kinds; b++) {
            const int one = a / LS_LAST,
                      next = b / LS_LAST; /* 0, or the fragment's number from 1 */
            if (me->program[a].task_count && me->program[b].task_count &&
                a % LS_BATCHES + b % LS_BATCHES < 2 && (!one || !next || next == one % all + 1))
                LS_TRY(check_pair(me, a, b));
        }
    return LS_OK;
}
