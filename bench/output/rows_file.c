/* SPDX-License-Identifier: MIT */
/* Rows file; see rows_file.h. */
#include "bench/output/rows_file.h"

#include "bench/rows/row.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Why the line is not a row; NULL if it is one. */
static const char *why_no_row(const json_t *row)
{
    if (!json_is_object(row))
        return "this line is not a JSON object";
    if (!*ls_row_string(row, LS_F_id))
        return "this line has no id, so it is not a row";
    if (!json_is_string(ls_row_get(row, LS_F_timestamp)))
        return "this line has no timestamp, so it is not a row";
    if (ls_row_integer(row, LS_F_schema) != LS_ROW_SCHEMA)
        return "this row was written by a version of lockstep with another row format";
    return NULL;
}

static ls_status read_lines(const char *what, FILE *stream, const char *path, ls_row_visit visit,
                            void *context)
{
    char *line = NULL, where[64];
    size_t capacity = 0;
    int64_t number = 0;
    ssize_t length;
    ls_status status = LS_OK;
    while (!status && (length = getline(&line, &capacity, stream)) >= 0) {
        number++;
        if (strspn(line, " \t\r\n") == (size_t)length)
            continue;
        json_auto_t *row = json_loadb(line, (size_t)length, 0, NULL);
        const char *why = row ? why_no_row(row) : "this line is not valid JSON";
        snprintf(where, sizeof where, "line %lld", (long long)number);
        if (why)
            status = ls_status_within(
                what, path,
                ls_fail(LS_CODE_MISSING, where, NULL,
                        "%s (no row of this file is used); give a file that --format jsonl of this "
                        "version printed, or a results file",
                        why));
        else
            status = visit(context, number, row);
    }
    free(line);
    if (!status && !feof(stream)) /* too long a line is not an error of the stream */
        status = ls_fail(LS_CODE_MISSING, what, path,
                         "cannot be read: %s; name a file that can be read", strerror(errno));
    return status;
}

static ls_status read_results(const char *path, ls_row_visit visit, void *context)
{
    ls_results *from;
    LS_TRY(ls_results_open(path, false, &from));
    ls_status status = ls_results_each(from, visit, context);
    ls_results_close(from);
    return status;
}

ls_status ls_rows_each(const char *what, const char *path, ls_row_visit visit, void *context)
{
    char start[16] = "", inside[4096];
    struct stat facts;
    const bool folder = stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
    snprintf(inside, sizeof inside, folder ? "%s/" LS_ROWS_NAME : "%s", path);
    FILE *stream = fopen(inside, "rb");
    if (!stream)
        return ls_fail(LS_CODE_MISSING, what, path,
                       "%s; give a file of JSON lines (--format jsonl) or a results file",
                       folder ? "this is a folder without " LS_ROWS_NAME : strerror(errno));
    const bool database = fread(start, 1, sizeof start, stream) == sizeof start &&
                          memcmp(start, "SQLite format 3", sizeof start) == 0;
    rewind(stream);
    ls_status status = database ? read_results(path, visit, context)
                                : read_lines(what, stream, path, visit, context);
    fclose(stream);
    return status;
}

typedef struct loading {
    ls_results *into;
    size_t *counts; /* added, known */
} loading;

static ls_status add(void *context, int64_t number, const json_t *row)
{
    const loading *load = context;
    bool known;
    (void)number;
    LS_TRY(ls_results_put(load->into, row, &known));
    load->counts[known]++;
    return LS_OK;
}

ls_status ls_results_load(ls_results *results, const char *what, const char *path, size_t counts[2])
{
    loading load = {results, counts};
    memset(counts, 0, 2 * sizeof *counts);
    LS_TRY(ls_results_begin(results));
    return ls_results_end(results, ls_rows_each(what, path, add, &load));
}
