/* SPDX-License-Identifier: MIT */
/* Which options cases differ in (options.sql), which rows may be compared (pools.sql), and the
 * lines below a table (below.sql); see table_parts.h. */
#include "bench/output/document.h"
#include "bench/output/table/table_parts.h"

#include "template_below.h"
#include "template_options.h"
#include "template_pools.h"

#include <stdlib.h>

json_t *ls_options_of(const json_t *cases)
{
    static const char set[] =
        "INSERT INTO cases SELECT 0, id, value ->> 'among', value -> 'case' FROM"
        " json_each(:document);"
        "SELECT name, differs, follows, telling FROM options ORDER BY nth";
    json_t *options = json_array();
    char *sql = sqlite3_mprintf("%s%s", ls_template_options, set);
    ls_status_free(sql ? ls_document_query(sql, cases, NULL, options) : LS_OK);
    sqlite3_free(sql);
    return options;
}

static ls_status add_lines(const ls_writer *writer, const ls_columns *columns, json_t *lines)
{
    const bool micro = !writer->columns;
    json_auto_t *values =
        json_pack("{s:{s:O*,s:O*,s:O*}}", "document", "dropped", writer->dropped, "verified",
                  columns->compares ? writer->ended : NULL, "micro", micro ? writer->ended : NULL);
    ls_results *results = NULL;
    ls_status status = ls_results_of_rows(columns->ranks ? writer->ended : NULL, &results);
    if (!status)
        status = ls_results_execute(results, "CREATE TEMP VIEW pooled AS SELECT * FROM s");
    if (!status)
        status = ls_results_execute(results, ls_template_pools);
    if (!status)
        status = ls_results_execute(results, ls_template_options);
    if (!status)
        status = ls_results_query(results, ls_template_below, values, lines);
    ls_results_close(results);
    return status;
}

void ls_table_print_below(const ls_writer *writer, const ls_columns *columns)
{
    json_auto_t *lines = json_array();
    ls_status_free(add_lines(writer, columns, lines));
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const json_t *text = json_object_get(json_array_get(lines, i), "text");
        ls_text_wrap(writer->stream, json_string_value(text), 0, 0, writer->width);
    }
}
