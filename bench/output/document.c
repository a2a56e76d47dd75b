/* SPDX-License-Identifier: MIT */
/* Document; see document.h. */
#include "bench/output/document.h"

ls_status ls_document_query(const char *sql, const json_t *document, const char *format,
                            json_t *out)
{
    ls_results *results;
    json_auto_t *values = json_pack("{s:O,s:s*}", "document", document, "format", format);
    LS_TRY(values ? ls_results_functions(&results) : ls_fail_memory("document", 0));
    ls_status status = ls_results_query(results, sql, values, out);
    ls_results_close(results);
    return status;
}

/* Writes the rows of a table, and removes them. */
static ls_status write_rows(const char *format, const ls_columns *columns, json_t *rows,
                            FILE *stream)
{
    const ls_format *form;
    LS_TRY(ls_format_find(format, &form));
    LS_TRY(ls_rows_write(form, columns, rows, stream));
    json_array_clear(rows);
    return LS_OK;
}

ls_status ls_answer_write(ls_results *results, const char *sql, const json_t *values,
                          const ls_columns *columns, FILE *stream)
{
    const char *format = NULL;
    json_auto_t *lines = json_array(), *rows = json_array();
    json_unpack((json_t *)(size_t)values, "{s?s}", "format", &format);
    LS_TRY(ls_results_query(results, sql, values, lines));
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const char *text = NULL;
        json_t *row = NULL;
        json_unpack(json_array_get(lines, i), "{s?s,s?o}", "text", &text, "row", &row);
        if (text && json_array_size(rows) > 0)
            LS_TRY(write_rows(format, columns, rows, stream));
        if (row)
            json_array_append(rows, row);
        fputs(text ? text : "", stream);
    }
    /* A table without rows has a header in some formats. */
    return json_array_size(rows) > 0 || (columns && json_array_size(lines) == 0)
               ? write_rows(format, columns, rows, stream)
               : LS_OK;
}

ls_status ls_document_write(const char *sql, const json_t *document, const char *format,
                            const ls_columns *columns, FILE *stream)
{
    ls_results *results;
    json_auto_t *values = json_pack("{s:O,s:s}", "document", document, "format", format);
    LS_TRY(ls_results_functions(&results));
    ls_status status = ls_answer_write(results, sql, values, columns, stream);
    ls_results_close(results);
    return status;
}
