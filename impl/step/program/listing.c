/* SPDX-License-Identifier: MIT */
/* The listing of a program for people: a line for each task; see names.h. */
#include "impl/step/program/names.h"

#include "common/base/grow.h"

#include <string.h>

static const char *const titles[] = {"task", "lane", "what", "ops", "waits for", "reads", "writes"};

enum { COLUMNS = sizeof titles / sizeof *titles, WIDEST = 64 };

/* ---- Rows ------------------------------------------------------------------------------------ */

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
        line = measure(line, width);
    for (const char *line = text; *line;)
        line = align(line, width, out);
    return LS_OK;
}
