/* SPDX-License-Identifier: MIT */
/* Document; see document.h. */
#include "bench/output/document.h"

#include "bench/output/results_db.h"

ls_status ls_document_query(const char *sql, const json_t *document, const char *format,
                            json_t *out)
{
    ls_results *results;
    json_auto_t *values = json_pack("{s:O,s:s*}", "document", document, "format", format);
    LS_TRY(values ? ls_results_memory(&results) : ls_fail_memory("document", 0));
    ls_status status = ls_results_query(results, sql, values, out);
    ls_results_close(results);
    return status;
}

ls_status ls_document_write(const char *sql, const json_t *document, const char *format,
                            const ls_columns *columns, FILE *stream)
{
    json_auto_t *lines = json_array(), *rows = json_array();
    const ls_format *form;
    LS_TRY(ls_document_query(sql, document, format, lines));
    for (size_t i = 0; i <= json_array_size(lines); i++) {
        const json_t *line = json_array_get(lines, i);
        json_t *row = json_object_get(line, "row");
        const char *text = json_string_value(json_object_get(line, "text"));
        if (row)
            json_array_append(rows, row);
        else if (json_array_size(rows) > 0) {
            LS_TRY(ls_format_find(format, &form));
            LS_TRY(ls_rows_write(form, columns, rows, stream));
            json_array_clear(rows);
        }
        fputs(text ? text : "", stream);
    }
    return LS_OK;
}
