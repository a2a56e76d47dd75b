/* SPDX-License-Identifier: MIT */
/* Document; see document.h. */
#include "bench/output/document.h"

#include "bench/output/results_db.h"

#include <stdlib.h>

/* Writes the rows of a table, and forgets them. */
static ls_status write_table(const char *format, const ls_columns *columns, json_t *rows,
                             FILE *stream)
{
    const ls_format *form;
    LS_TRY(ls_format_find(format, &form));
    LS_TRY(ls_rows_write(form, columns, rows, stream));
    json_array_clear(rows);
    return LS_OK;
}

static ls_status write_result(ls_results *results, sqlite3_stmt *statement, const char *format,
                              const ls_columns *columns, FILE *stream)
{
    json_auto_t *rows = json_array();
    bool more;
    for (;;) {
        LS_TRY(ls_results_step(results, statement, &more));
        const bool text = more && sqlite3_column_type(statement, 0) != SQLITE_NULL;
        if (more && !text)
            json_array_append_new(rows, json_loads(ls_results_text(statement, 1), 0, NULL));
        else if (json_array_size(rows) > 0)
            LS_TRY(write_table(format, columns, rows, stream));
        if (!more)
            return LS_OK;
        fputs(text ? ls_results_text(statement, 0) : "", stream);
    }
}

ls_status ls_document_write(const char *sql, const json_t *document, const char *format,
                            const ls_columns *columns, FILE *stream)
{
    ls_results *results = NULL;
    sqlite3_stmt *statement = NULL;
    char *text = json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(17));
    ls_status status = text ? ls_results_memory(&results) : ls_fail_memory("document", 0);
    if (!status)
        status = ls_results_prepare(results, sql, &statement);
    if (!status) {
        sqlite3_bind_text(statement, sqlite3_bind_parameter_index(statement, ":document"), text, -1,
                          SQLITE_STATIC);
        sqlite3_bind_text(statement, sqlite3_bind_parameter_index(statement, ":format"), format, -1,
                          SQLITE_STATIC);
        status = write_result(results, statement, format, columns, stream);
    }
    sqlite3_finalize(statement);
    ls_results_close(results);
    free(text);
    return status;
}
