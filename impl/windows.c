/* SPDX-License-Identifier: MIT */
/* Windows of a flat buffer; see windows.h. */
#include "impl/windows.h"

#include "common/base/grow.h"

#include <stdlib.h>

int ls_windows_unit(const ls_buckets *buckets, size_t index)
{
    int unit = 0; /* the first elements are in the last one */
    while (index < buckets->items[unit].first)
        unit++;
    return unit;
}

/* The unit of a node's variable; one more than the last unit if it is a copy. */
static int unit_of(const ls_windows *w, const ls_node *node, int v)
{
    const size_t offset = w->graph->variables.items[node->variables[v]].offset;
    return offset < w->owned ? ls_windows_unit(w->buckets, offset) : (int)w->buckets->count;
}

int ls_windows_need(const ls_windows *w, int node)
{
    const ls_node *node_at = &w->graph->nodes[node];
    int need = (int)w->buckets->count;
    for (int v = 0; v < node_at->variable_count; v++) {
        const int unit = unit_of(w, node_at, v);
        need = unit < need ? unit : need;
    }
    return need;
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Whether several nodes use variables of a unit. */
static bool is_tied(const ls_windows *w, int unit)
{
    for (int n = 0; n < w->graph->count; n++) {
        const ls_node *node = &w->graph->nodes[n];
        for (int v = 0; v < node->variable_count && node->shares >= 0; v++)
            if (unit_of(w, node, v) == unit)
                return true;
    }
    return false;
}

/* The first and the last turn of the units that a node needs, beyond *low and *high. */
static void widen(const ls_windows *w, int n, int *low, int *high)
{
    const ls_node *node = &w->graph->nodes[n];
    for (int v = 0; v < node->variable_count; v++) {
        const int unit = unit_of(w, node, v);
        const int turn = unit < (int)w->buckets->count ? w->turn[unit] : -1;
        if (turn < 0)
            continue;
        *low = turn < *low ? turn : *low;
        *high = turn > *high ? turn : *high;
    }
}

/* Most windows that one node, or nodes that are repeated together, need at once: from the first of
 * their units that take turns to the last. */
static int least_of(const ls_windows *w)
{
    int least = 1, unit = 0, low = w->turns, high = -1;
    for (int n = 0; n < w->graph->count; n++) {
        const int node_unit = w->repeats ? w->repeats[n].unit : 0;
        if (!node_unit || node_unit != unit) {
            low = w->turns;
            high = -1;
        }
        unit = node_unit;
        widen(w, n, &low, &high);
        least = high - low + 1 > least ? high - low + 1 : least;
    }
    return least;
}

/* Element of the windows' memory at which a unit begins: behind the windows before its own. */
static size_t begin_of(const ls_windows *w, const size_t *sizes, int unit)
{
    size_t begin = 0;
    for (int window = 0; w->turn[unit] >= 0 && window < w->turn[unit] % w->count; window++)
        begin += sizes[window];
    return begin;
}

/* Lays the windows out, one after the other, then windows of single units, then copies. */
static void lay_out(ls_windows *w, size_t *sizes)
{
    const ls_variables *variables = &w->graph->variables;
    const int units = (int)w->buckets->count;
    for (int unit = 0; unit < units; unit++) {
        const size_t count = w->buckets->items[unit].count;
        if (w->turn[unit] < 0)
            continue;
        size_t *size = &sizes[w->turn[unit] % w->count];
        *size = count > *size ? count : *size;
    }
    for (int window = 0; window < w->count; window++)
        w->elements += sizes[window];
    for (int unit = units; unit-- > 0;) {
        const ls_range *range = &w->buckets->items[unit];
        const bool own = w->turn[unit] < 0;
        const size_t begin = own ? w->elements : begin_of(w, sizes, unit);
        w->elements += own ? range->count : 0;
        for (size_t v = 0; v < variables->count; v++) {
            const ls_variable *variable = &variables->items[v];
            if (variable->offset >= range->first && variable->offset < range->first + range->count)
                w->at[v] = begin + variable->offset - range->first;
        }
    }
    for (size_t v = 0; v < variables->count; v++)
        if (variables->items[v].offset >= w->owned)
            w->at[v] = w->elements + variables->items[v].offset - w->owned;
    w->elements += variables->elements - w->owned;
}

/* Lays out the memory of one node's variables at a time: as in the flat buffer, from the node's
 * first one on; behind them copies. */
static void lay_out_alone(ls_windows *w)
{
    const ls_variables *variables = &w->graph->variables;
    for (int n = 0; n < w->graph->count; n++) {
        const ls_node *node = &w->graph->nodes[n];
        for (int v = 0; v < node->variable_count && node->shares < 0; v++) {
            const ls_variable *variable = &variables->items[node->variables[v]];
            const size_t at = variable->offset - variables->items[node->variables[0]].offset;
            w->alone_at[node->variables[v]] = at;
            if (variable->offset < w->owned && at + variable->count > w->alone_elements)
                w->alone_elements = at + variable->count;
        }
    }
    for (size_t v = 0; v < variables->count; v++)
        if (variables->items[v].offset >= w->owned)
            w->alone_at[v] = w->alone_elements + variables->items[v].offset - w->owned;
    w->alone_elements += variables->elements - w->owned;
}

ls_status ls_windows_open(const ls_graph *graph, const ls_repeat *repeats,
                          const ls_buckets *buckets, int count, bool keeps, ls_windows *out)
{
    ls_auto size_t *sizes = NULL;
    *out = (ls_windows){.graph = graph, .repeats = repeats, .buckets = buckets, .count = count};
    for (size_t b = 0; b < buckets->count; b++)
        out->owned += buckets->items[b].count;
    LS_TRY(ls_allocate("windows", &out->turn, buckets->count, sizeof *out->turn));
    LS_TRY(ls_allocate("windows", &out->at, graph->variables.count, sizeof *out->at));
    LS_TRY(ls_allocate("windows", &out->alone_at, graph->variables.count, sizeof *out->alone_at));
    LS_TRY(ls_allocate("windows", &sizes, buckets->count, sizeof *sizes));
    /* Gives numbers to units that take turns. */
    for (int unit = (int)out->buckets->count; unit-- > 0;)
        out->turn[unit] = keeps && is_tied(out, unit) ? -1 : out->turns++;
    const int least = least_of(out);
    out->count = out->count > least ? out->count : least;
    out->count = out->count < out->turns ? out->count : out->turns;
    lay_out(out, sizes);
    lay_out_alone(out);
    return LS_OK;
}

/* Whether a node waits that has variables of a unit, and is the first that uses them. */
static bool has_waiting(const ls_windows *w, int unit)
{
    for (int n = 0; n < w->graph->count; n++)
        for (int v = 0; w->waits[n] && v < w->graph->nodes[n].variable_count; v++)
            if (unit_of(w, &w->graph->nodes[n], v) == unit)
                return true;
    return false;
}

ls_status ls_windows_wait(ls_windows *w)
{
    LS_TRY(ls_allocate("windows", &w->waits, (size_t)w->graph->count, sizeof *w->waits));
    for (int n = 0; n < w->graph->count; n++)
        w->waits[n] = w->graph->nodes[n].shares < 0 && ls_node_splits(w->graph, n);
    for (bool more = true; more;) { /* a node can be in several units */
        more = false;
        for (int n = 0; n < w->graph->count; n++)
            for (int v = 0; v < w->graph->nodes[n].variable_count && !w->waits[n]; v++) {
                const int unit = unit_of(w, &w->graph->nodes[n], v);
                w->waits[n] = w->graph->nodes[n].shares < 0 && unit < (int)w->buckets->count &&
                              has_waiting(w, unit);
                more |= w->waits[n];
            }
    }
    return LS_OK;
}

void ls_windows_close(ls_windows *w)
{
    free(w->turn);
    free(w->at);
    free(w->alone_at);
    free(w->waits);
    *w = (ls_windows){0};
}

/* ---- Where elements are ---------------------------------------------------------------------- */

size_t ls_windows_at(const ls_windows *w, size_t index)
{
    return w ? ls_variables_at(&w->graph->variables, w->at, index) : index;
}

ls_range ls_windows_part(const ls_windows *w, ls_range range)
{
    return range.first < w->owned
               ? ls_range_common(range, w->buckets->items[ls_windows_unit(w->buckets, range.first)])
               : (ls_range){range.first, 0};
}

/* The turns of a unit's chunk: from the first one to before `end`. */
typedef struct turns {
    int first, end;
} turns;

static turns turns_of(const ls_windows *w, int unit)
{
    turns all = {w->turns, 0};
    for (int u = 0; u < (int)w->buckets->count; u++) {
        const int turn = w->turn[u];
        if (ls_bucket_chunk(w->buckets, u) != ls_bucket_chunk(w->buckets, unit) || turn < 0)
            continue;
        all.first = turn < all.first ? turn : all.first;
        all.end = turn >= all.end ? turn + 1 : all.end;
    }
    return all;
}

bool ls_windows_twice(const ls_windows *w, int unit)
{
    return w->turn[unit] >= 0 && w->turn[unit] < turns_of(w, unit).end - w->count;
}

/* Behind a backward pass the chunk's first W units are in their windows. */
bool ls_windows_lost(const ls_windows *w, int unit, ls_pass_before before)
{
    return w->turn[unit] >= 0 && w->count < w->turns && !ls_windows_twice(w, unit) &&
           (before == LS_BEFORE_OTHER ||
            (before == LS_BEFORE_BACKWARD && w->turn[unit] >= turns_of(w, unit).first + w->count));
}

int ls_windows_ahead(const ls_windows *w, int unit)
{
    const int turn = w->turn[unit] - (w->count - 1);
    const int first = turns_of(w, unit).first;
    for (int ahead = unit; turn >= first && ahead < (int)w->buckets->count; ahead++)
        if (w->turn[ahead] == turn)
            return ls_windows_twice(w, ahead) ? ahead : -1;
    return -1;
}
