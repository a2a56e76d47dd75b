/* SPDX-License-Identifier: MIT */
/*
 * `results import` and `results prune`: what changes a results file. Each does all or nothing, in
 * one transaction. A file to import is JSON lines, as --format jsonl prints them, or another
 * results file, by its first bytes.
 */
#include "bench/results/results_verbs.h"
#include "bench/output/rows_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
    if (is_same_file(path, task->file))
        return ls_fail(LS_CODE_USAGE, "import", path, "is the file to import into; give another");
    ls_status status = ls_results_begin(task->results);
    if (!status) {
        status = ls_rows_each("import", path, NULL, take_row, &work);
        status = ls_results_end(task->results, status);
    }
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
