/* SPDX-License-Identifier: MIT */
/*
 * The check of spans: what an operation declares to touch lies inside one piece of memory. An
 * operation that declares too much conflicts with tasks that happen to have the memory behind it:
 * it waits for more than it must, or, across devices, for ever. Operations are checked one by one:
 * a task's accesses are merged, and may be longer than a piece.
 */
#include "impl/step/program/names.h"

#include "common/base/grow.h"
#include "common/base/numbers.h"

/* Whether the memory lies in the piece, which begins at or before it. */
static bool holds(const ls_memory_piece *piece, uintptr_t begin, size_t bytes)
{
    return begin < piece->end && bytes <= piece->end - begin;
}

static bool is_allocated(const ls_allocated *pieces, uintptr_t begin, size_t bytes)
{
    const size_t i = ls_count_up_to(begin, pieces->items, pieces->count, sizeof *pieces->items);
    return i && holds(&pieces->items[i - 1], begin, bytes);
}

static bool is_named(const ls_names *n, int member, uintptr_t begin, size_t bytes)
{
    const size_t i = ls_count_up_to(begin, n->items, n->count, sizeof *n->items);
    const ls_name *name = i ? &n->items[i - 1] : NULL;
    return name && (name->member == member || name->member < 0) &&
           holds(&(ls_memory_piece){name->begin, name->end}, begin, bytes);
}

/* An access of an operation, or of a task's copy. */
typedef struct span_check {
    const ls_names *names;
    const ls_step_program *program;
    const ls_allocated *pieces;
    const ls_task *task;
    const char *what; /* the operation's name */
} span_check;

static ls_status refuse(const span_check *c, const ls_access *access)
{
    const ls_touch touch = access->writes ? LS_WRITES : LS_READS;
    ls_auto char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return ls_fail_memory("step", BUFSIZ);
    ls_names_numbered(c->names, c->program, c->task, out);
    fprintf(out, ": %s declares that it %s %zu bytes (", c->what,
            access->writes ? "writes" : "reads", access->bytes);
    ls_status status = ls_names_accesses(c->names, c->task, access, 1, touch, out);
    if (fclose(out) && !status)
        status = ls_fail_memory("step", size);
    return status ? status
                  : ls_fail(LS_CODE_CHECK, "span", NULL,
                            "%s) that are not inside one allocation of its device; let each "
                            "operation declare only memory that it uses",
                            text);
}

static ls_status check_access(const span_check *c, int member, const ls_access *access)
{
    const uintptr_t begin = (uintptr_t)access->memory;
    if (is_allocated(&c->pieces[member], begin, access->bytes) ||
        is_named(c->names, member, begin, access->bytes))
        return LS_OK;
    return refuse(c, access);
}

static ls_status check_copy(span_check *c)
{
    const ls_task_copy *copy = &c->task->copy;
    c->what = "the copy";
    if (!copy->to)
        return LS_OK;
    LS_TRY(check_access(c, copy->from_member, &(ls_access){copy->from, copy->bytes, false}));
    return check_access(c, copy->to_member, &(ls_access){copy->to, copy->bytes, true});
}

ls_status ls_names_check_spans(const ls_names *names, const ls_step_program *p,
                               const ls_allocated *pieces)
{
    span_check c = {.names = names, .program = p, .pieces = pieces};
    for (size_t t = 0; t < p->task_count; t++) {
        c.task = &p->tasks[t];
        for (size_t i = 0; i < c.task->ops.count; i++) {
            const ls_op *op = p->ops[c.task->ops.first + i];
            c.what = op->name;
            for (size_t a = 0; a < op->access_count; a++)
                LS_TRY(check_access(&c, p->lanes->items[c.task->lane].member, &op->accesses[a]));
        }
        LS_TRY(check_copy(&c));
    }
    return LS_OK;
}
