/* SPDX-License-Identifier: MIT */
/* Selected columns; see row_columns.h. */
#include "bench/output/row_columns.h"

#include <string.h>

/* Devices and shares as in every table; other numbers with the digits that were asked for. */
static ls_cell cell_of(const char *path)
{
    const ls_field *field = ls_field_find(path);
    switch (field ? field->cell : LS_CELL_TEXT) {
    case LS_CELL_DEVICES:
    case LS_CELL_PERCENT:
    case LS_CELL_WHOLE:
    case LS_CELL_SHARE:
        return field->cell;
    default:
        return LS_CELL_VALUE;
    }
}

ls_status ls_chosen_read(const char *keys, ls_chosen *out)
{
    size_t count = 0;
    *out = (ls_chosen){.columns = {.column = out->column, .alone = true}};
    for (const char *key = keys; key; count++) {
        const size_t length = strcspn(key, ",");
        const char *path;
        if (count == LS_CHOSEN_MOST)
            return ls_fail(LS_CODE_USAGE, "--columns", NULL, "more than %d keys; give fewer",
                           LS_CHOSEN_MOST);
        LS_TRY(ls_row_key_find("--columns", key, length, &path));
        snprintf(out->title[count], sizeof out->title[count], "%.*s", (int)length, key);
        out->column[count] = (ls_column){.title = out->title[count],
                                         .path = path,
                                         .width = LS_WIDTH_ANY,
                                         .cell = cell_of(path),
                                         .drop = LS_DROP_NEVER};
        key = key[length] ? key + length + 1 : NULL;
    }
    out->columns.count = count;
    return LS_OK;
}
