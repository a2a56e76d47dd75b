/* SPDX-License-Identifier: MIT */
/*
 * Selection; see results_verbs.h. One pass over the rows (briefs, if no key needs more) records
 * which are selected; these are sorted and visited. Whole rows are read again by number, so that
 * only one is in memory.
 */
#include "bench/results/results_verbs.h"
#include "bench/output/value_order.h"

#include "common/base/grow.h"
#include "common/base/numbers.h"

#include <stdlib.h>
#include <string.h>

/* ---- Options -------------------------------------------------------------------------------- */

static ls_status read_last(const char *text, int64_t *out)
{
    if (ls_parse_integer(text, 1, INT64_MAX - 1, out))
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, "--last", text,
                   "is not a number of rows; give a whole number from 1");
}

ls_status ls_selection_open(const ls_option_set *set, ls_selection *out)
{
    const char *where = ls_option_set_text(set, "where", NULL);
    const char *since = ls_option_set_text(set, "since", NULL);
    const char *last = ls_option_set_text(set, "last", NULL);
    const char *sort = ls_option_set_text(set, "sort", NULL);
    *out = (ls_selection){.last = INT64_MAX};
    if (since)
        LS_TRY(ls_since_read(since, time(NULL), out->since));
    if (last)
        LS_TRY(read_last(last, &out->last));
    if (sort) {
        out->descending = *sort == '-';
        sort += out->descending;
        LS_TRY(ls_row_key_find("--sort", sort, strlen(sort), &out->sort));
    }
    return where ? ls_row_filter_open(where, &out->filter) : LS_OK;
}

void ls_selection_close(ls_selection *selection)
{
    ls_row_filter_close(selection->filter);
    selection->filter = NULL;
}

static bool is_brief(const ls_selection *selection)
{
    bool brief = !selection->sort.path || ls_results_brief_has(selection->sort.path);
    const char *path;
    for (size_t i = 0; brief && (path = ls_row_filter_path(selection->filter, i)); i++)
        brief = ls_results_brief_has(path);
    return brief;
}

/* ---- Rows ----------------------------------------------------------------------------------- */

/* A selected row. */
typedef struct row_pick {
    int64_t number;
    size_t position; /* in the file */
    char stamp[24];
    json_t *value; /* sort key; NULL: it has none */
    bool down;     /* sorts descending */
    json_t *row;   /* NULL: to be read again */
} row_pick;

typedef struct row_picks {
    const ls_selection *selection;
    bool keep; /* rows are kept when read */
    row_pick *items;
    size_t count;
} row_picks;

static ls_status pick(void *context, int64_t number, const json_t *row)
{
    row_picks *picks = context;
    const ls_selection *selection = picks->selection;
    const char *stamp = json_string_value(json_object_get(row, "timestamp"));
    bool meant = !*selection->since || (stamp && strcmp(stamp, selection->since) >= 0);
    if (meant)
        LS_TRY(ls_row_filter_holds(selection->filter, row, &meant));
    if (!meant)
        return LS_OK;
    LS_TRY(ls_grow("rows", &picks->items, picks->count, sizeof *picks->items));
    row_pick *one = &picks->items[picks->count];
    *one = (row_pick){.number = number, .position = picks->count++, .down = selection->descending};
    snprintf(one->stamp, sizeof one->stamp, "%s", stamp ? stamp : "");
    if (selection->sort.path)
        one->value = ls_row_value(row, selection->sort.path);
    if (picks->keep)
        one->row = json_incref((json_t *)(size_t)row);
    return LS_OK;
}

static int by_time(const void *a, const void *b)
{
    const row_pick *x = a, *y = b;
    const int order = strcmp(x->stamp, y->stamp);
    return order ? order : (x->position > y->position) - (x->position < y->position);
}

/* Rows without a value are last in either direction. */
static int by_value(const void *a, const void *b)
{
    const row_pick *x = a, *y = b;
    const int order = ls_value_order(x->value, y->value);
    if (!order)
        return by_time(a, b);
    return x->down && x->value && y->value ? -order : order;
}

static ls_status visit_pick(ls_results *results, const row_pick *one, ls_row_visit visit,
                            void *context)
{
    if (one->row)
        return visit(context, one->number, one->row);
    json_auto_t *row = NULL;
    LS_TRY(ls_results_at(results, one->number, &row));
    return row ? visit(context, one->number, row) : LS_OK; /* deleted meanwhile */
}

ls_status ls_selection_each(const ls_selection *selection, ls_results *results, ls_rows_kind kind,
                            ls_row_visit visit, void *context, size_t *count)
{
    const bool brief = is_brief(selection);
    row_picks picks = {.selection = selection, .keep = brief && kind == LS_ROWS_BRIEF};
    ls_status status =
        ls_results_each(results, brief ? LS_ROWS_BRIEF : LS_ROWS_WHOLE, pick, &picks);
    if (picks.count > 0)
        qsort(picks.items, picks.count, sizeof *picks.items, by_time);
    const int64_t all = (int64_t)picks.count;
    const size_t first = all > selection->last ? (size_t)(all - selection->last) : 0;
    if (selection->sort.path && picks.count > 0)
        qsort(picks.items + first, picks.count - first, sizeof *picks.items, by_value);
    for (size_t i = first; i < picks.count && !status; i++)
        status = visit_pick(results, &picks.items[i], visit, context);
    for (size_t i = 0; i < picks.count; i++) {
        json_decref(picks.items[i].value);
        json_decref(picks.items[i].row);
    }
    free(picks.items);
    if (count)
        *count = picks.count - first;
    return status;
}

static ls_status take_first(void *context, int64_t number, const json_t *row)
{
    json_t **out = context;
    (void)number;
    if (!*out)
        *out = json_incref((json_t *)(size_t)row);
    return LS_OK;
}

ls_status ls_selection_one(ls_results *results, const char *name, json_t **out)
{
    int64_t before = 0;
    size_t count = 0;
    if (strncmp(name, "last", 4) != 0)
        return ls_results_find(results, name, out);
    if (name[4] && (name[4] != '~' || !ls_parse_integer(name + 5, 0, 1000000000, &before)))
        return ls_fail(LS_CODE_USAGE, "row", name,
                       "is not an id; give an id, last, or last~N for the row N before the last");
    const ls_selection selection = {.last = before + 1};
    *out = NULL;
    LS_TRY(ls_selection_each(&selection, results, LS_ROWS_WHOLE, take_first, out, &count));
    if (*out && (int64_t)count > before)
        return LS_OK;
    json_decref(*out);
    return ls_fail(LS_CODE_MISSING, "row", name,
                   "there are %zu rows; lockstep results list shows them", count);
}
