/* SPDX-License-Identifier: MIT */
/* Names of a run's memory, members and tasks; see names.h. */
#include "impl/step/program/names.h"

#include "common/base/grow.h"
#include "common/base/numbers.h"

#include <stdlib.h>
#include <string.h>

/* ---- Buffers --------------------------------------------------------------------------------- */

ls_status ls_names_add(ls_names *n, ls_name name)
{
    if (!name.begin || name.end <= name.begin)
        return LS_OK;
    LS_TRY(ls_grow("names", &n->items, n->count, sizeof *n->items));
    n->items[n->count++] = name;
    return LS_OK;
}

static int compare(const void *a, const void *b)
{
    const ls_name *x = a, *y = b;
    return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin)
                                : (x->end < y->end) - (x->end > y->end);
}

void ls_names_order(ls_names *n)
{
    size_t kept = 0;
    if (n->count)
        qsort(n->items, n->count, sizeof *n->items, compare);
    for (size_t i = 0; i < n->count; i++)
        if (!kept || n->items[i].begin >= n->items[kept - 1].end)
            n->items[kept++] = n->items[i];
    n->count = kept;
}

void ls_names_close(ls_names *n)
{
    free(n->items);
    free(n->members);
    *n = (ls_names){0};
}

/* ---- Members, lanes, tasks ------------------------------------------------------------------- */

static const char *member_name(const ls_names *n, int member)
{
    return n->members[member].text;
}

void ls_names_lane(const ls_names *n, int lane, FILE *out)
{
    const ls_lane *l = &n->lanes->items[lane];
    fprintf(out, "%s %s", member_name(n, l->member), l->name);
}

static void write_range(ls_range range, FILE *out)
{
    if (range.count == 1)
        fprintf(out, " element %zu", range.first);
    else
        fprintf(out, " elements %zu to %zu", range.first, range.first + range.count - 1);
}

/* Whether a place has a node itself, not a border of it. */
static bool is_own(const ls_graph_parts *parts, int place, int n)
{
    bool own = false;
    for (int part = place; part < parts->count && !own; part += ls_graph_parts_places(parts))
        own = ls_graph_parts_have(parts, part, n);
    return own;
}

const char *ls_names_node(const ls_graph_parts *parts, int place, int node, char text[LS_NODE_NAME])
{
    for (int n = 0; n < parts->whole->count; n++)
        if (ls_graph_parts_at(parts, place)->local[n] == node && is_own(parts, place, n))
            return ls_graph_node_name(parts->whole, n, text);
    return "";
}

/* Writes how much goes to, or comes from, a member. */
static void write_partner(const ls_names *n, size_t bytes, bool comes, int member, FILE *out)
{
    fprintf(out, "%zu bytes %s %s", bytes, comes ? "from" : "to", member_name(n, member));
}

void ls_names_task(const ls_names *n, const ls_task *task, FILE *out)
{
    const int own = n->lanes->items[task->lane].member;
    const ls_task_copy *copy = &task->copy;
    const ls_task_end *end = &task->end;
    char text[LS_NODE_NAME];
    fputs(task->verb, out);
    if (task->node >= 0)
        fprintf(out, ", %s",
                n->graph ? ls_graph_node_name(n->graph, task->node, text)
                         : ls_names_node(n->parts, n->members[own].place, task->node, text));
    if (task->microbatch)
        fprintf(out, ", micro-batch %d", task->microbatch - 1);
    if (task->piece)
        fprintf(out, ", piece %d", task->piece - 1);
    if (task->range.count) {
        fputc(',', out);
        write_range(task->range, out);
    }
    if (copy->to || end->peer >= 0)
        fputs(end->announces ? ", announces " : ", ", out);
    if (copy->to)
        write_partner(n, copy->bytes, copy->to_member == own,
                      copy->to_member == own ? copy->from_member : copy->to_member, out);
    else if (end->peer >= 0)
        write_partner(n, (end->sent + end->received) * sizeof(float), end->received, end->peer,
                      out);
}

/* ---- Accesses -------------------------------------------------------------------------------- */

/* Accesses to buffers of one name and one member. */
typedef struct noted {
    const char *what;
    int member;
    ls_range range; /* empty if ranges are not named */
} noted;

typedef struct list {
    noted *items;
    size_t count;
} list;

static void close(list *l)
{
    free(l->items);
}

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

static bool contains(const void *memory, size_t bytes, uintptr_t at)
{
    return memory && at - (uintptr_t)memory < bytes;
}

/* The member of an activation: the source's or target's in a copy, otherwise the task's. */
static int member_of(const ls_names *n, const ls_task *task, uintptr_t at)
{
    const ls_task_copy *c = &task->copy;
    return contains(c->to, c->bytes, at)     ? c->to_member
           : contains(c->from, c->bytes, at) ? c->from_member
                                             : n->lanes->items[task->lane].member;
}

static ls_status note_access(const ls_names *n, const ls_task *task, const ls_access *access,
                             list *l)
{
    const uintptr_t end = (uintptr_t)access->memory + access->bytes;
    for (uintptr_t at = (uintptr_t)access->memory, stop; at < end; at = stop) {
        const ptrdiff_t i = (ptrdiff_t)ls_count_up_to(at, n->items, n->count, sizeof *n->items) - 1;
        stop = end;
        if (i >= 0 && at < n->items[i].end) {
            const ls_name *b = &n->items[i];
            noted one = {.what = b->what, .member = b->member};
            stop = b->end < end ? b->end : end;
            if (b->element)
                one.range = (ls_range){(at - b->begin) / b->element, (stop - at) / b->element};
            LS_TRY(note(l, one));
            continue;
        }
        if (i + 1 < (ptrdiff_t)n->count && n->items[i + 1].begin < end)
            stop = n->items[i + 1].begin;
        LS_TRY(note(l, (noted){.what = "activations", .member = member_of(n, task, at)}));
    }
    return LS_OK;
}

/* By name, member, range: where memory lies differs from run to run. */
static int compare_noted(const void *a, const void *b)
{
    const noted *x = a, *y = b;
    const int names = strcmp(x->what, y->what);
    if (names || x->member != y->member)
        return names ? names : x->member - y->member;
    return (x->range.first > y->range.first) - (x->range.first < y->range.first);
}

enum { FEW = 4 }; /* up to so many members are named one by one */

/* Counts other members with memory of this name; *before counts the ones earlier in the list. */
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

static void write_list(const ls_names *n, const list *l, int own, FILE *out)
{
    const char *separator = "";
    for (size_t i = 0; i < l->count; i++) {
        const noted *one = &l->items[i];
        const bool others = one->member >= 0 && one->member != own;
        size_t before = 0;
        const size_t many = others ? count_members(l, i, own, &before) : 0;
        if (many > FEW && before)
            continue;
        fprintf(out, "%s%s", separator, one->what);
        separator = ", ";
        if (many > FEW) {
            fprintf(out, " of %zu members", many);
            continue;
        }
        if (one->range.count && one->range.count < n->members[one->member].elements)
            write_range(one->range, out);
        if (others)
            fprintf(out, " of %s", member_name(n, one->member));
    }
    fputs(l->count ? "" : "-", out);
}

ls_status ls_names_accesses(const ls_names *n, const ls_task *task, const ls_access *accesses,
                            size_t count, ls_touch touch, FILE *out)
{
    ls_closing(close) list l = {0};
    for (size_t a = 0; a < count; a++)
        if (accesses[a].writes == (touch == LS_WRITES))
            LS_TRY(note_access(n, task, &accesses[a], &l));
    if (l.count)
        qsort(l.items, l.count, sizeof *l.items, compare_noted);
    write_list(n, &l, n->lanes->items[task->lane].member, out);
    return LS_OK;
}

/* ---- The listing ----------------------------------------------------------------------------- */

static const char *const titles[] = {"task", "lane", "what", "ops", "waits for", "reads", "writes"};

enum { COLUMNS = sizeof titles / sizeof *titles, WIDEST = 64 };

/* Ends columns with tabs, the row with a newline. */
static ls_status write_row(const ls_names *n, const ls_step_program *p, size_t t, FILE *out)
{
    const ls_task *task = &p->tasks[t];
    const ls_access *accesses = p->accesses + task->accesses.first;
    const size_t count = task->accesses.count;
    fprintf(out, "%zu\t", t);
    ls_names_lane(n, task->lane, out);
    fputc('\t', out);
    ls_names_task(n, task, out);
    fprintf(out, "\t%zu\t", task->ops.count + (task->copy.to != NULL));
    for (size_t w = 0; w < task->waits.count; w++)
        fprintf(out, "%s%zu", w ? ", " : "", p->waits[task->waits.first + w]);
    if (!task->waits.count)
        fputs(task->begins ? "begin" : "-", out);
    fputc('\t', out);
    LS_TRY(ls_names_accesses(n, task, accesses, count, LS_READS, out));
    fputc('\t', out);
    LS_TRY(ls_names_accesses(n, task, accesses, count, LS_WRITES, out));
    fputc('\n', out);
    return LS_OK;
}

/* Writes a row in columns; without `out`, only makes the columns wide enough. Returns the next. */
static const char *align(const char *text, size_t *width, FILE *out)
{
    for (int c = 0; c < COLUMNS; c++) {
        const size_t length = strcspn(text, "\t\n");
        const bool last = c + 1 == COLUMNS;
        if (out)
            fprintf(out, "%-*.*s%s", last ? 0 : (int)width[c], (int)length, text,
                    last ? "\n" : "  ");
        else if (length > width[c] && length <= WIDEST)
            width[c] = length;
        text += length + 1;
    }
    return text;
}

static ls_status write_rows(const ls_step_program *p, const ls_names *n, FILE *out)
{
    for (int c = 0; c < COLUMNS; c++)
        fprintf(out, "%s%c", titles[c], c + 1 < COLUMNS ? '\t' : '\n');
    for (size_t t = 0; t < p->task_count; t++)
        LS_TRY(write_row(n, p, t, out));
    return LS_OK;
}

ls_status ls_step_program_list(const ls_step_program *p, const ls_names *n, FILE *out)
{
    ls_auto char *text = NULL;
    size_t size = 0, width[COLUMNS] = {0};
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return ls_fail_memory("listing", BUFSIZ);
    ls_status status = write_rows(p, n, stream);
    if (fclose(stream) && !status)
        status = ls_fail_memory("listing", size);
    LS_TRY(status);
    for (const char *line = text; *line;)
        line = align(line, width, NULL);
    for (const char *line = text; *line;)
        line = align(line, width, out);
    return LS_OK;
}

/* ---- Races ----------------------------------------------------------------------------------- */

void ls_names_numbered(const ls_names *n, const ls_step_program *p, const ls_task *task, FILE *out)
{
    fprintf(out, "task %zu (", (size_t)(task - p->tasks));
    ls_names_lane(n, task->lane, out);
    fputs(": ", out);
    ls_names_task(n, task, out);
    fputc(')', out);
}

ls_status ls_names_refuse_race(const ls_names *n, const ls_race *race)
{
    ls_auto char *text = NULL;
    size_t size;
    if (!race->task)
        return LS_OK;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return ls_fail_memory("step", BUFSIZ);
    ls_names_numbered(n, race->program, race->task, out);
    fputs(" and ", out);
    ls_names_numbered(n, race->earlier_program, race->earlier, out);
    fprintf(out, "%s touch ", race->step_before ? " of the step before" : "");
    ls_status status = ls_names_accesses(n, race->task, &race->both, 1, LS_WRITES, out);
    if (fclose(out) && !status)
        status = ls_fail_memory("step", size);
    return status ? status
                  : ls_fail(LS_CODE_CHECK, "race", NULL,
                            "%s, but neither waits for the other (a race); let each operation "
                            "declare all memory that it reads or writes",
                            text);
}
