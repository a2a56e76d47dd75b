/* SPDX-License-Identifier: MIT */
/* Which options cases differ in (options.sql), which rows may be compared (pools.sql), and the
 * lines below a table (below.sql); see table_parts.h. */
#include "bench/output/table/table_parts.h"

#include "template_below.h"
#include "template_options.h"
#include "template_pools.h"

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

void ls_table_print_below(const ls_writer *writer, const ls_columns *columns)
{
    const bool micro = !writer->columns;
    json_auto_t *values =
        json_pack("{s:i,s:{s:O*,s:O*,s:O*}}", "width", writer->width, "document", "dropped",
                  writer->dropped, "verified", columns->compares ? writer->ended : NULL, "micro",
                  micro ? writer->ended : NULL);
    ls_results *results = NULL;
    char *sql = sqlite3_mprintf("CREATE TEMP VIEW pooled AS SELECT * FROM s;%s%s%s",
                                ls_template_pools, ls_template_options, ls_template_below);
    ls_status status = ls_results_of_rows(columns->ranks ? writer->ended : NULL, &results);
    if (!status && sql)
        status = ls_answer_write(results, sql, values, NULL, writer->stream);
    ls_status_free(status);
    ls_results_close(results);
    sqlite3_free(sql);
}
