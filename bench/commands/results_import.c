/* SPDX-License-Identifier: MIT */
/*
 * `results import` and `results prune`: what changes a results file. Each does all or nothing, in
 * one transaction. A file to import is JSON lines, as --format jsonl prints them, or another
 * results file, by its first bytes.
 */
#include "bench/commands/results_verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ROW_SCHEMA = 1 };

typedef struct import_task {
    ls_results *into;
    size_t added, there;
} import_task;

static ls_status take_row(void *context, int64_t number, const json_t *row)
{
    import_task *task = context;
    bool there;
    (void)number;
    LS_TRY(ls_results_has(task->into, json_string_value(json_object_get(row, "id")), &there));
    task->there += there;
    task->added += !there;
    return there ? LS_OK : ls_results_put(task->into, row);
}

/* NULL where the line is a row. */
static const char *why_no_row(const json_t *row)
{
    const char *id = json_string_value(json_object_get(row, "id"));
    const json_t *schema = json_object_get(row, "schema");
    if (!json_is_object(row))
        return "is no JSON object";
    if (!id || !*id)
        return "has no id, so it is no row";
    if (!json_is_string(json_object_get(row, "timestamp")))
        return "has no timestamp, so it is no row";
    if (!json_is_integer(schema) || json_integer_value(schema) != ROW_SCHEMA)
        return "is a row of another schema";
    return NULL;
}

static ls_status import_lines(import_task *task, FILE *stream, const char *path)
{
    char *line = NULL, where[64];
    size_t capacity = 0, number = 0;
    ssize_t length;
    ls_status status = LS_OK;
    while (!status && (length = getline(&line, &capacity, stream)) >= 0) {
        json_error_t error;
        number++;
        if (strspn(line, " \t\r\n") == (size_t)length)
            continue;
        json_t *row = json_loadb(line, (size_t)length, 0, &error);
        const char *why = row ? why_no_row(row) : "is no JSON";
        snprintf(where, sizeof where, "line %zu", number);
        if (why)
            status = ls_status_within(
                "import", path,
                ls_fail(LS_CODE_MISSING, where, NULL,
                        "%s; give what --format jsonl printed, or a results file (nothing of this "
                        "one was taken)",
                        why));
        else
            status = take_row(task, 0, row);
        json_decref(row);
    }
    free(line);
    if (!status && ferror(stream))
        status = ls_fail(LS_CODE_MISSING, "import", path, "cannot be read: %s", strerror(errno));
    return status;
}

static ls_status import_results(import_task *task, const char *path)
{
    ls_results *from;
    LS_TRY(ls_results_open(path, false, &from));
    ls_status status = ls_results_each(from, LS_ROWS_WHOLE, take_row, task);
    ls_results_close(from);
    return status;
}

static bool is_same_file(const char *path, const char *other)
{
    struct stat a, b;
    return stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

ls_status ls_results_import(ls_results_task *task)
{
    const char *path = task->set->operands[1];
    import_task work = {.into = task->results};
    char start[16] = "";
    struct stat facts;
    if (is_same_file(path, task->file))
        return ls_fail(LS_CODE_USAGE, "import", path, "is the file to import into; give another");
    FILE *stream = stat(path, &facts) == 0 && S_ISDIR(facts.st_mode) ? NULL : fopen(path, "rb");
    if (!stream)
        return ls_fail(LS_CODE_MISSING, "import", path, "%s; give JSON lines or a results file",
                       errno ? strerror(errno) : "is a folder");
    const bool database = fread(start, 1, sizeof start, stream) == sizeof start &&
                          memcmp(start, "SQLite format 3", sizeof start) == 0;
    rewind(stream);
    ls_status status = ls_results_begin(task->results);
    if (!status) {
        status = database ? import_results(&work, path) : import_lines(&work, stream, path);
        status = ls_results_end(task->results, status);
    }
    fclose(stream);
    if (!status)
        printf("%zu rows imported, %zu were there already\n", work.added, work.there);
    return status;
}

/* ---- Prune ---------------------------------------------------------------------------------- */

typedef struct prune_task {
    int64_t *numbers;
    size_t count, capacity;
} prune_task;

static ls_status note(void *context, int64_t number, const json_t *row)
{
    prune_task *task = context;
    (void)row;
    if (task->count == task->capacity) {
        const size_t capacity = task->capacity ? 2 * task->capacity : 256;
        int64_t *numbers = realloc(task->numbers, capacity * sizeof *numbers);
        if (!numbers)
            return ls_fail_memory("prune", capacity * sizeof *numbers);
        task->numbers = numbers;
        task->capacity = capacity;
    }
    task->numbers[task->count++] = number;
    return LS_OK;
}

static ls_status delete_rows(ls_results *results, const prune_task *task)
{
    LS_TRY(ls_results_begin(results));
    ls_status status = LS_OK;
    for (size_t i = 0; i < task->count && !status; i++)
        status = ls_results_delete(results, task->numbers[i]);
    return ls_results_end(results, status);
}

ls_status ls_results_check_prune(const ls_option_set *set)
{
    if (ls_option_set_find(set, "where")->count > 0)
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, "results", "prune",
                   "which rows is missing; --where KEY=VALUE,..");
}

ls_status ls_results_prune(ls_results_task *task)
{
    prune_task work = {0};
    const bool yes = strcmp(ls_option_set_text(task->set, "yes", "no"), "yes") == 0;
    ls_status status =
        ls_selection_each(&task->selection, task->results, LS_ROWS_BRIEF, note, &work, NULL);
    if (!status && yes)
        status = delete_rows(task->results, &work);
    if (!status && yes)
        printf("%zu rows deleted\n", work.count);
    else if (!status)
        printf("%zu rows fit; --yes deletes them\n", work.count);
    free(work.numbers);
    return status;
}
