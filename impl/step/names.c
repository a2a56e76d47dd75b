/* SPDX-License-Identifier: MIT */
/* Names of a run's memory, members and tasks; see names.h. */
#include "impl/step/names.h"

#include "common/base/grow.h"
#include "common/base/numbers.h"
#include "impl/step/served.h"

#include <stdlib.h>

/* A named buffer. */
typedef struct name {
    uintptr_t begin, end; /* first member: the search key */
    const char *what;     /* static text */
    int member;           /* -1: no member's */
    size_t element;       /* bytes per element; 0: ranges are not named */
} name;

struct ls_names {
    const ls_stepped *run;
    name *items; /* by address, disjoint */
    size_t count;
    ls_status status;
};

/* ---- Buffers --------------------------------------------------------------------------------- */

static void add(ls_names *n, int member, const char *what, const void *memory, size_t bytes,
                size_t element)
{
    if (!memory || !bytes || n->status)
        return;
    const uintptr_t begin = (uintptr_t)memory;
    n->status = ls_grow("names", &n->items, n->count, sizeof *n->items);
    if (!n->status)
        n->items[n->count++] = (name){begin, begin + bytes, what, member, element};
}

static void add_data(ls_names *n, const ls_replica *r)
{
    const ls_split *train = &r->job->data->train;
    for (int i = 0; i < LS_REPLICA_ARRAYS; i++)
        add(n, -1, "data set", r->train[i],
            ls_array_bytes(i < LS_DATA_INPUTS ? &train->input[i] : &train->target, train->samples),
            0);
}

static void add_replica(ls_names *n, int member, const ls_replica *r)
{
    for (size_t i = 0; i < r->buffer_count; i++)
        if (r->buffers[i].what)
            add(n, member, r->buffers[i].what, r->buffers[i].memory, r->buffers[i].bytes,
                r->buffers[i].element);
    add_data(n, r);
}

/* Names the buffers into which a net's batch is gathered. */
static void add_net(ls_names *n, int member, const ls_replica *r, const ls_net *net)
{
    const ls_split *train = &r->job->data->train;
    const size_t rows = (size_t)ls_net_rows(net), real = r->kernels->table->real_bytes;
    for (int i = 0; i < LS_DATA_INPUTS; i++)
        add(n, member, "batch", ls_net_input(net, i), rows * (size_t)train->input[i].width * real,
            0);
    add(n, member, "batch", ls_net_target(net), rows * (size_t)train->target.width * 4, 0);
}

static void add_slices(ls_names *n, int member, const ls_member *m)
{
    for (int b = 0; b < LS_BATCHES; b++) {
        const ls_step *s = &n->run->step[b];
        size_t count;
        if (!m->slice[b] || !s->task_count)
            continue;
        const ls_act *acts = ls_slice_acts(m->slice[b], &count);
        for (int p = 0; count && p <= acts[count - 1].piece; p++)
            add_net(n, member, m->replica, ls_slice_piece_net(m->slice[b], p));
    }
}

static void add_speaker(ls_names *n, int m, const ls_ps_speaker *speaker)
{
    add(n, m, "lateness", speaker, sizeof *speaker, 0);
    add(n, m, "lateness", speaker->took, n->run->base.job->records * sizeof *speaker->took, 0);
}

static int compare(const void *a, const void *b)
{
    const name *x = a, *y = b;
    return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin)
                                : (x->end < y->end) - (x->end > y->end);
}

static void put_in_order(ls_names *n)
{
    size_t kept = 0;
    qsort(n->items, n->count, sizeof *n->items, compare);
    for (size_t i = 0; i < n->count; i++)
        if (!kept || n->items[i].begin >= n->items[kept - 1].end)
            n->items[kept++] = n->items[i];
    n->count = kept;
}

ls_status ls_names_open(const ls_stepped *run, ls_names **out)
{
    ls_names *n;
    LS_TRY(ls_allocate("names", &n, 1, sizeof *n));
    n->run = run;
    for (int m = 0; m < run->all; m++) {
        const ls_member *member = ls_step_member(&run->step[LS_FULL], m);
        if (!member->replica)
            continue;
        add_replica(n, m, member->replica);
        add_slices(n, m, member);
    }
    for (size_t i = 0; i < run->held.end_count; i++)
        add(n, run->held.ends[i].member, "communicator", run->held.ends[i].comm, sizeof(ls_comm),
            0);
    for (int m = 0; run->served && m < run->served->layout.workers; m++)
        add_speaker(n, m, &run->served->speakers[m]);
    put_in_order(n);
    ls_status status = n->status;
    if (status)
        ls_names_close(n);
    else
        *out = n;
    return status;
}

void ls_names_close(ls_names *n)
{
    if (n)
        free(n->items);
    free(n);
}

/* ---- Members, lanes, tasks ------------------------------------------------------------------- */

static const char *device_of(const ls_stepped *run, int member)
{
    return ls_device_describe(ls_step_replica(&run->step[LS_FULL], member)->device)->text;
}

/* Writes the device, on which there is one member; for a shadow, also its replica's device. */
static void say_member(const ls_stepped *run, int member, FILE *out)
{
    fputs(device_of(run, member), out);
    if (member >= run->total)
        fprintf(out, " for %s", device_of(run, member - run->total));
}

void ls_names_lane(const ls_stepped *run, int lane, FILE *out)
{
    say_member(run, run->lanes[lane].member, out);
    fprintf(out, " %s", run->lanes[lane].name);
}

static void say_range(ls_range range, FILE *out)
{
    if (range.count == 1)
        fprintf(out, " element %zu", range.first);
    else
        fprintf(out, " elements %zu to %zu", range.first, range.first + range.count - 1);
}

const char *ls_names_node(const ls_stepped *run, int place, int node, char text[LS_NODE_NAME])
{
    const ls_graph_parts *parts = &run->parts;
    for (int n = 0; n < parts->whole->count; n++)
        if (parts->place[n] == place && parts->parts[place].local[n] == node)
            return ls_graph_node_name(parts->whole, n, text);
    return "";
}

/* Writes how much goes to, or comes from, a member, which may be in another process. */
static void say_partner(const ls_stepped *run, size_t bytes, bool comes, int member, FILE *out)
{
    const size_t devices = run->served ? 1 : run->base.job->device_count;
    fprintf(out, "%zu bytes %s ", bytes, comes ? "from" : "to");
    if (run->members[member].replica)
        say_member(run, member, out);
    else
        fprintf(out, "rank %d device %zu", run->members[member].process, (size_t)member % devices);
}

void ls_names_task(const ls_step *s, const ls_task *task, FILE *out)
{
    const int place = ls_place_of(s, s->run->lanes[task->lane].member);
    char text[LS_NODE_NAME];
    fputs(task->verb, out);
    if (task->node >= 0)
        fprintf(out, ", %s", ls_names_node(s->run, place, task->node, text));
    if (task->range.count) {
        fputc(',', out);
        say_range(task->range, out);
    }
    const bool brings = task->to.member == s->run->lanes[task->lane].member;
    if (task->to.memory || task->peer >= 0)
        fputs(task->announces ? ", announces " : ", ", out);
    if (task->to.memory)
        say_partner(s->run, task->to.bytes, brings, brings ? task->from.member : task->to.member,
                    out);
    else if (task->peer >= 0)
        say_partner(s->run, (task->sent + task->received) * sizeof(float), task->received,
                    task->peer, out);
}

/* ---- Accesses -------------------------------------------------------------------------------- */

/* Accesses to buffers of one name and one member. */
typedef struct noted {
    const char *what;
    int member;
    ls_range range; /* empty: ranges are not named */
} noted;

typedef struct list {
    noted *items;
    size_t count;
} list;

static ls_status note(list *l, noted one)
{
    for (size_t i = 0; i < l->count; i++) {
        noted *had = &l->items[i];
        if (had->what != one.what || had->member != one.member)
            continue;
        if (!one.range.count || one.range.first == had->range.first)
            return LS_OK; /* another buffer of optimizer state */
        if (had->range.first + had->range.count == one.range.first) {
            had->range.count += one.range.count;
            return LS_OK;
        }
    }
    LS_TRY(ls_grow("names", &l->items, l->count, sizeof one));
    l->items[l->count++] = one;
    return LS_OK;
}

/* The last buffer that begins at or before the address; -1: none. */
static ptrdiff_t find(const ls_names *n, uintptr_t address)
{
    return (ptrdiff_t)ls_count_up_to(address, n->items, n->count, sizeof *n->items) - 1;
}

static bool holds(const ls_span *span, uintptr_t at)
{
    return span->memory && at - (uintptr_t)span->memory < span->bytes;
}

/* The member of an activation: the source's or target's in a copy, otherwise the task's. */
static int member_of(const ls_step *s, const ls_task *task, uintptr_t at)
{
    return holds(&task->to, at)     ? task->to.member
           : holds(&task->from, at) ? task->from.member
                                    : s->run->lanes[task->lane].member;
}

static ls_status note_access(const ls_names *n, const ls_step *s, const ls_task *task,
                             const ls_access *access, list *l)
{
    const uintptr_t end = (uintptr_t)access->memory + access->bytes;
    for (uintptr_t at = (uintptr_t)access->memory, stop; at < end; at = stop) {
        const ptrdiff_t i = find(n, at);
        stop = end;
        if (i >= 0 && at < n->items[i].end) {
            const name *b = &n->items[i];
            noted one = {.what = b->what, .member = b->member};
            stop = b->end < end ? b->end : end;
            if (b->element)
                one.range = (ls_range){(at - b->begin) / b->element, (stop - at) / b->element};
            LS_TRY(note(l, one));
            continue;
        }
        if (i + 1 < (ptrdiff_t)n->count && n->items[i + 1].begin < end)
            stop = n->items[i + 1].begin;
        LS_TRY(note(l, (noted){.what = "activations", .member = member_of(s, task, at)}));
    }
    return LS_OK;
}

enum { FEW = 4 }; /* up to so many members are named one by one */

/* Counts other members with memory of this name; *before: those before it in the list. */
static size_t count_members(const list *l, size_t index, int own, size_t *before)
{
    size_t all = 0;
    int last = -1;
    for (size_t i = 0; i < l->count; i++) {
        if (l->items[i].what != l->items[index].what || l->items[i].member == own)
            continue;
        all += l->items[i].member != last; /* a member's entries are adjacent */
        last = l->items[i].member;
        *before = i < index ? all : *before;
    }
    return all;
}

static void say_list(const ls_stepped *run, const list *l, int own, FILE *out)
{
    const char *between = "";
    for (size_t i = 0; i < l->count; i++) {
        const noted *one = &l->items[i];
        const bool others = one->member >= 0 && one->member != own;
        size_t before = 0;
        const size_t many = others ? count_members(l, i, own, &before) : 0;
        if (many > FEW && before)
            continue;
        fprintf(out, "%s%s", between, one->what);
        between = ", ";
        if (many > FEW) {
            fprintf(out, " of %zu members", many);
            continue;
        }
        if (one->range.count &&
            one->range.count < ls_step_replica(&run->step[LS_FULL], one->member)->elements)
            say_range(one->range, out);
        if (others) {
            fputs(" of ", out);
            say_member(run, one->member, out);
        }
    }
    fputs(l->count ? "" : "-", out);
}

ls_status ls_names_accesses(const ls_names *n, const ls_step *s, const ls_task *task,
                            const ls_access *accesses, size_t count, bool writes, FILE *out)
{
    list l = {0};
    ls_status status = LS_OK;
    for (size_t a = 0; a < count && !status; a++)
        if (accesses[a].writes == writes)
            status = note_access(n, s, task, &accesses[a], &l);
    if (!status)
        say_list(s->run, &l, s->run->lanes[task->lane].member, out);
    free(l.items);
    return status;
}
