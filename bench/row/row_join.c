/* SPDX-License-Identifier: MIT */
/* Joins the rows of several ranks into one (join.sql), and adds what follows from a row's figures
 * (warnings.sql); see row.h. */
#include "bench/output/results_db.h"
#include "bench/rows/row.h"
#include "bench/row/row.h"
#include "bench/train/world.h"
#include "template_join.h"
#include "template_warnings.h"

/* Sets fields of the row to what a query says: lines of {path, value}, a field without a value is
 * removed. */
static ls_status put_answer(json_t *row, const char *sql, const json_t *document)
{
    json_auto_t *found = json_array();
    json_t *line;
    size_t i;
    LS_TRY(ls_document_query(sql, document, NULL, found));
    json_array_foreach(found, i, line)
    {
        const char *path = "";
        json_t *value = NULL;
        json_unpack(line, "{s:s,s?O}", "path", &path, "value", &value);
        if (value)
            ls_row_put_path(row, path, value);
        else
            ls_row_drop(row, (ls_field_number)(ls_field_find(path) - ls_fields));
    }
    return LS_OK;
}

ls_status ls_rows_join(const json_t *rows, const json_t *hosts)
{
    json_auto_t *document = json_pack("{s:O,s:O*}", "rows", rows, "hosts", hosts);
    return put_answer(json_array_get(rows, 0), ls_template_join, document);
}

ls_status ls_row_join(const ls_processes *processes, json_t *row)
{
    json_t *rows = NULL;
    json_auto_t *host = json_pack("[i]", processes->host), *hosts = NULL;
    ls_status status = ls_world_gather_json(processes->comm, host, &hosts);
    status = ls_status_first(status, ls_world_gather_json(processes->comm, row, &rows));
    if (!status && processes->rank == 0 && json_array_set(rows, 0, row) == 0)
        status = ls_rows_join(rows, hosts);
    json_decref(rows);
    return status;
}

void ls_row_add_warnings(json_t *row)
{
    ls_status_free(put_answer(row, ls_template_warnings, row)); /* not worth losing the row */
}
