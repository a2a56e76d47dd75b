/* SPDX-License-Identifier: MIT */
/* Joins the rows of several ranks into one; see row.h. */
#include "bench/row/row.h"
#include "bench/rows/put.h"
#include "bench/train/world.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- What ranks share ------------------------------------------------------------------------ */

/* Whether two values, or (nested) lists, have an element in common; GPUs by their address. */
static bool share(const json_t *a, const json_t *b)
{
    const json_t *list = json_is_array(a) ? a : b, *other = list == a ? b : a, *element;
    size_t i;
    if (json_is_object(a) && json_is_object(b))
        return share(ls_row_get(a, LS_F_provenance_gpus_pci),
                     ls_row_get(b, LS_F_provenance_gpus_pci));
    if (!json_is_array(list))
        return json_equal(a, b);
    json_array_foreach(list, i, element)
    {
        if (share(element, other))
            return true;
    }
    return false;
}

/* Whether two ranks on one host share a core, or with `gpus` a GPU. */
static bool ranks_share(const json_t *rows, const json_t *hosts, bool gpus)
{
    for (size_t a = 0; a < json_array_size(rows); a++)
        for (size_t b = 0; b < a; b++) {
            const json_t *one = json_array_get(rows, a), *other = json_array_get(rows, b);
            if (json_equal(json_array_get(hosts, a), json_array_get(hosts, b)) &&
                (gpus ? share(ls_row_group(one, LS_G_provenance_gpus),
                              ls_row_group(other, LS_G_provenance_gpus))
                      : share(ls_row_get(one, LS_F_provenance_cores),
                              ls_row_get(other, LS_F_provenance_cores))))
                return true;
        }
    return false;
}

/* ---- What ranks should have in common, and may not ------------------------------------------- */

/* The text of all ranks; of different ones each, with its ranks: "1 (ranks 0-2+4), unset (ranks
 * 3)". `texts` has null for a rank without one. NULL if none has, or no memory. */
static json_t *join_texts(const json_t *texts)
{
    char *joined = NULL;
    size_t size, count = json_array_size(texts), alike = 0;
    FILE *stream = open_memstream(&joined, &size);
    for (size_t r = 0, earlier; stream && r < count; r++) {
        const json_t *text = json_array_get(texts, r);
        for (earlier = 0; !json_equal(json_array_get(texts, earlier), text);)
            earlier++;
        alike += earlier == 0;
        if (earlier < r)
            continue;
        fprintf(stream, "%s%s (", r ? ", " : "",
                json_is_null(text) ? "unset" : json_string_value(text));
        const char *before = "ranks ";
        for (size_t first = r, end; first < count; first = end) {
            for (end = first; end < count && json_equal(json_array_get(texts, end), text);)
                end++;
            if (end > first)
                fprintf(stream, end > first + 1 ? "%s%zu-%zu" : "%s%zu", before, first, end - 1);
            before = end > first ? "+" : before;
            end += end == first;
        }
        fputc(')', stream);
    }
    const bool whole = stream && fclose(stream) == 0;
    json_t *out = !whole          ? NULL
                  : alike < count ? json_string(joined)
                                  : json_incref(json_array_get(texts, 0));
    free(joined);
    return json_is_null(out) ? NULL : out;
}

/* Joins maps of texts, name by name. NULL if no rank has any. */
static json_t *join_maps(const json_t *maps)
{
    json_auto_t *joined = json_object();
    json_t *map, *other, *value;
    const char *name;
    size_t r, k;
    json_array_foreach(maps, r, map)
    {
        json_object_foreach(map, name, value)
        {
            json_auto_t *texts = json_array();
            json_array_foreach(maps, k, other)
            {
                json_t *text = json_object_get(other, name);
                json_array_append_new(texts, text ? json_incref(text) : json_null());
            }
            json_object_set_new(joined, name, join_texts(texts));
        }
    }
    return json_object_size(joined) ? json_incref(joined) : NULL;
}

/* ---- By the table of fields ----------------------------------------------------------------- */

/* Joins the field's values of all ranks into rank 0's row. */
static void join_field(const json_t *rows, ls_field_number field)
{
    json_t *first = json_array_get(rows, 0), *row, *most = ls_row_get(first, field);
    json_auto_t *values = json_array(); /* of each rank; null if it has no value */
    const ls_join how = (ls_join)ls_fields[field].join;
    double sum = 0;
    size_t r;
    json_array_foreach(rows, r, row)
    {
        json_t *value = ls_row_get(row, field);
        json_array_append_new(values, value ? json_incref(value) : json_null());
        sum += json_number_value(value);
        if (value && (!most || json_number_value(value) > json_number_value(most)))
            most = value;
        if (how == LS_JOIN_CONCAT && r > 0)
            json_array_extend(ls_row_get(first, field), value);
    }
    if (how == LS_JOIN_MAX)
        ls_row_put_value(first, field, json_incref(most));
    else if (how == LS_JOIN_SUM && ls_row_has(first, field))
        ls_row_put_real(first, field, sum);
    else if (how == LS_JOIN_NAMED)
        ls_row_put_value(first, field,
                         ls_fields[field].type == LS_TYPE_MAP ? join_maps(values)
                                                              : join_texts(values));
}

/* The three fields come from the device that lost most to others. */
static void join_noise(const json_t *rows, bool shared)
{
    json_t *first = json_array_get(rows, 0), *row;
    size_t r;
    json_array_foreach(rows, r, row)
    {
        if (!ls_row_group(first, LS_G_noise) || !ls_row_has(row, LS_F_noise_others) ||
            (r > 0 && ls_row_real(row, LS_F_noise_others) <= ls_row_real(first, LS_F_noise_others)))
            continue;
        ls_put_noise_others(first, ls_row_real(row, LS_F_noise_others));
        ls_put_noise_cores(first, json_incref(ls_row_get(row, LS_F_noise_cores)));
        ls_put_noise_of_rank(first, r);
    }
    for (int field = LS_F_noise_others; shared && field <= LS_F_noise_of_rank; field++)
        ls_row_drop(first, (ls_field_number)field);
}

void ls_rows_join(const json_t *rows, bool shared)
{
    json_t *element;
    size_t k;
    join_noise(rows, shared);
    for (int i = 0; i < LS_FIELDS; i++)
        if (ls_fields[i].join != LS_JOIN_FIRST)
            join_field(rows, (ls_field_number)i);
    for (ls_group_number i = 0; i < LS_FIELD_GROUPS; i++) /* other ranks' elements, appended */
        if (ls_field_groups[i].join == LS_JOIN_CONCAT)
            for (size_t r = 1; r < json_array_size(rows); r++)
                json_array_foreach(ls_row_group(json_array_get(rows, r), i), k, element)
                {
                    json_object_update(ls_row_make(json_array_get(rows, 0), i), element);
                }
}

static void join(const json_t *rows, const json_t *hosts)
{
    json_t *first = json_array_get(rows, 0), *row;
    const bool shared = ranks_share(rows, hosts, false);
    bool crowded = shared || ranks_share(rows, hosts, true);
    size_t r;
    json_array_foreach(rows, r, row)
    {
        json_t *rank = ls_row_make(first, LS_G_provenance_ranks);
        ls_put_provenance_ranks_host(rank, ls_row_string(row, LS_F_provenance_host));
        ls_put_provenance_ranks_cores(rank, json_copy(ls_row_get(row, LS_F_provenance_cores)));
        crowded |= ls_row_true(row, LS_F_provenance_oversubscribed);
    }
    ls_rows_join(rows, shared);
    ls_put_provenance_oversubscribed(first, crowded);
}

ls_status ls_row_join(const ls_processes *processes, json_t *row)
{
    json_t *rows = NULL;
    json_auto_t *host = json_pack("[i]", processes->host), *hosts = NULL;
    ls_status status = ls_world_gather_json(processes->comm, host, &hosts);
    status = ls_status_first(status, ls_world_gather_json(processes->comm, row, &rows));
    if (!status && processes->rank == 0 && json_array_set(rows, 0, row) == 0)
        join(rows, hosts);
    json_decref(rows);
    return status;
}
