/* SPDX-License-Identifier: MIT */
/* The listing of a run's steps for people: a line for each task; see run.h. */
#include "impl/step/names.h"
#include "impl/step/run.h"

#include <stdlib.h>
#include <string.h>

static const char *const titles[] = {"task", "lane", "what", "ops", "waits for", "reads", "writes"};

enum { COLUMNS = sizeof titles / sizeof *titles, WIDEST = 64 };

/* ---- Rows ------------------------------------------------------------------------------------ */

static void say_waits(const ls_step *s, const ls_task *task, FILE *out)
{
    for (size_t w = 0; w < task->wait_count; w++)
        fprintf(out, "%s%zu", w ? ", " : "", s->waits[task->wait + w]);
    if (!task->wait_count)
        fputs(task->begins ? "begin" : "-", out);
}

/* Ends columns with tabs, the row with a newline. */
static ls_status say_row(const ls_names *n, const ls_step *s, size_t t, FILE *out)
{
    const ls_task *task = &s->tasks[t];
    const ls_access *accesses = s->accesses + task->access;
    fprintf(out, "%zu\t", t);
    ls_names_lane(s->run, task->lane, out);
    fputc('\t', out);
    ls_names_task(s, task, out);
    fprintf(out, "\t%zu\t", task->op_count + (task->to.memory != NULL));
    say_waits(s, task, out);
    fputc('\t', out);
    LS_TRY(ls_names_accesses(n, s, task, accesses, task->access_count, false, out));
    fputc('\t', out);
    LS_TRY(ls_names_accesses(n, s, task, accesses, task->access_count, true, out));
    fputc('\n', out);
    return LS_OK;
}

/* ---- In columns ------------------------------------------------------------------------------ */

static const char *measure(const char *text, size_t *width)
{
    for (int c = 0; c < COLUMNS; c++) {
        const size_t length = strcspn(text, "\t\n");
        width[c] = length > width[c] && length <= WIDEST ? length : width[c];
        text += length + 1;
    }
    return text;
}

static const char *align(const char *text, const size_t *width, FILE *out)
{
    for (int c = 0; c < COLUMNS; c++) {
        const size_t length = strcspn(text, "\t\n");
        if (c + 1 == COLUMNS)
            fprintf(out, "%.*s\n", (int)length, text);
        else
            fprintf(out, "%-*.*s  ", (int)width[c], (int)length, text);
        text += length + 1;
    }
    return text;
}

static void print_aligned(const char *text, FILE *out)
{
    size_t width[COLUMNS] = {0};
    for (const char *line = text; *line;)
        line = measure(line, width);
    for (const char *line = text; *line;)
        line = align(line, width, out);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static ls_status say_step(const ls_names *n, const ls_step *s, FILE *out)
{
    for (int c = 0; c < COLUMNS; c++)
        fprintf(out, "%s%c", titles[c], c + 1 < COLUMNS ? '\t' : '\n');
    for (size_t t = 0; t < s->task_count; t++)
        LS_TRY(say_row(n, s, t, out));
    return LS_OK;
}

static void say_title(const ls_step *s, FILE *out)
{
    const ls_stepped *run = s->run;
    if (s->kind == LS_BEFORE)
        fputs("\nOnce, before steps that are put together", out);
    else if (s->kind == LS_AFTER)
        fputs("\nOnce, after these", out);
    else
        fprintf(out, "\nA step of %lld samples%s%s",
                (long long)ls_replicated_batch(run->base.job, s->batch_kind),
                s->batch_kind == LS_TAIL ? ", the last of an epoch" : "",
                s->kind >= LS_LAST ? ", the last of a period" : "");
    fprintf(out, ": %zu tasks, %zu operations\n\n", s->task_count, s->op_count);
}

/* Prints a step; nothing if it has no tasks. */
static ls_status list_step(const ls_names *n, const ls_step *s, FILE *out)
{
    char *text = NULL;
    size_t size = 0;
    if (!s->task_count)
        return LS_OK;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return ls_fail_memory("listing", BUFSIZ);
    ls_status status = say_step(n, s, stream);
    const bool whole = !fclose(stream);
    if (!status && !whole)
        status = ls_fail_memory("listing", size);
    say_title(s, out);
    if (!status)
        print_aligned(text, out);
    free(text);
    return status;
}

ls_status ls_stepped_list(const ls_run *run, FILE *out)
{
    const ls_stepped *me = (const ls_stepped *)run;
    ls_names *names = NULL;
    LS_TRY(ls_names_open(me, &names));
    ls_status status = list_step(names, &me->step[LS_BEFORE], out);
    for (int b = 0; b < LS_KINDS && !status; b++)
        status = list_step(names, &me->step[b], out);
    if (!status)
        status = list_step(names, &me->step[LS_AFTER], out);
    ls_names_close(names);
    return status;
}
