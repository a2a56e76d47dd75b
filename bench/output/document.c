/* SPDX-License-Identifier: MIT */
/* Document; see document.h. */
#include "bench/output/document.h"

#include "bench/output/results_db.h"

#include <stdlib.h>

static ls_status write_result(ls_results *results, sqlite3_stmt *statement, const char *format,
                              const ls_columns *columns, FILE *stream)
{
    json_auto_t *rows = json_array();
    const ls_format *form;
    bool more;
    for (;;) {
        LS_TRY(ls_results_step(results, statement, &more));
        const bool text = more && sqlite3_column_type(statement, 0) != SQLITE_NULL;
        if (more && !text)
            json_array_append_new(rows, json_loads(ls_results_text(statement, 1), 0, NULL));
        else if (json_array_size(rows) > 0) {
            LS_TRY(ls_format_find(format, &form));
            LS_TRY(ls_rows_write(form, columns, rows, stream));
            json_array_clear(rows);
        }
        if (!more)
            return LS_OK;
        fputs(text ? ls_results_text(statement, 0) : "", stream);
    }
}

/* An open query. */
typedef struct query {
    ls_results *results;
    sqlite3_stmt *statement;
    char *text; /* of the document */
} query;

static ls_status open_query(const char *sql, const json_t *document, const char *format, query *q)
{
    *q = (query){.text = json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(17))};
    LS_TRY(q->text ? ls_results_memory(&q->results) : ls_fail_memory("document", 0));
    LS_TRY(ls_results_prepare(q->results, sql, &q->statement));
    sqlite3_bind_text(q->statement, sqlite3_bind_parameter_index(q->statement, ":document"),
                      q->text, -1, SQLITE_STATIC);
    sqlite3_bind_text(q->statement, sqlite3_bind_parameter_index(q->statement, ":format"), format,
                      -1, SQLITE_STATIC);
    return LS_OK;
}

static void close_query(query *q)
{
    sqlite3_finalize(q->statement);
    ls_results_close(q->results);
    free(q->text);
}

ls_status ls_document_write(const char *sql, const json_t *document, const char *format,
                            const ls_columns *columns, FILE *stream)
{
    query q;
    ls_status status = open_query(sql, document, format, &q);
    if (!status)
        status = write_result(q.results, q.statement, format, columns, stream);
    close_query(&q);
    return status;
}

ls_status ls_document_sort(const char *sql, const json_t *document, json_t *first, json_t *second)
{
    query q;
    bool more = true;
    ls_status status = open_query(sql, document, NULL, &q);
    while (!status && !(status = ls_results_step(q.results, q.statement, &more)) && more)
        json_array_append_new(sqlite3_column_int(q.statement, 0) ? second : first,
                              json_loads(ls_results_text(q.statement, 1), 0, NULL));
    close_query(&q);
    return status;
}
