/* SPDX-License-Identifier: MIT */
/* Filter; see row_filter.h. Each row is put into a database in memory, and asked for. */
#include "bench/output/row_filter.h"

#include "bench/output/format_parts.h"
#include "bench/output/selection.h"
#include "bench/rows/put.h"
#include "common/base/grow.h"

#include <stdlib.h>

struct ls_row_filter {
    ls_selection selection;
    ls_results *memory;
};

ls_status ls_row_filter_open(const char *text, ls_row_filter **out)
{
    ls_row_filter *filter;
    LS_TRY(ls_allocate("filter", &filter, 1, sizeof *filter));
    ls_status status = ls_selection_open(text, NULL, NULL, NULL, &filter->selection);
    if (!status)
        status = ls_results_memory(&filter->memory);
    if (status)
        ls_row_filter_close(filter);
    else
        *out = filter;
    return status;
}

void ls_row_filter_close(ls_row_filter *filter)
{
    if (!filter)
        return;
    ls_selection_close(&filter->selection);
    ls_results_close(filter->memory);
    free(filter);
}

ls_status ls_row_filter_holds(const ls_row_filter *filter, const json_t *row, bool *out)
{
    size_t count = 1;
    if (filter) {
        json_auto_t *named = json_copy((json_t *)(size_t)row); /* another program's has no id */
        ls_put_id(named, "row");
        LS_TRY(ls_results_execute(filter->memory, "DELETE FROM rows"));
        LS_TRY(ls_results_put(filter->memory, named, NULL));
        LS_TRY(ls_selection_choose(&filter->selection, filter->memory, &count));
    }
    *out = count > 0;
    return LS_OK;
}

bool ls_row_filter_mixes(const ls_row_filter *filter, const json_t *row)
{
    return !ls_row_is_predicted(row) || (filter && filter->selection.predictions);
}
