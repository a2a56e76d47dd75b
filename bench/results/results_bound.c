/* SPDX-License-Identifier: MIT */
/* What limits a row's step: the rules are bound.sql. */
#include "bench/results/results_verbs.h"
#include "template_bound.h"

#include <stdlib.h>

static ls_status write_lines(ls_results *results, int64_t number, FILE *stream)
{
    sqlite3_stmt *statement;
    bool more = false;
    LS_TRY(ls_results_keep(results, ls_template_bound, &statement));
    sqlite3_bind_int64(statement, 1, number);
    ls_status status = ls_results_step(results, statement, &more);
    for (int i = 0; more && i < sqlite3_column_count(statement); i++)
        if (sqlite3_column_type(statement, i) != SQLITE_NULL) {
            ls_escape_put(stream, ls_results_text(statement, i), SIZE_MAX, LS_ESCAPE_LINE);
            fputc('\n', stream);
        }
    sqlite3_reset(statement);
    return status;
}

char *ls_results_bound(ls_results *results, int64_t number)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return NULL;
    ls_status status = write_lines(results, number, stream);
    fclose(stream);
    if (status) { /* no memory */
        free(text);
        text = NULL;
    }
    ls_status_free(status);
    return text;
}
