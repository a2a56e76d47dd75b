/* SPDX-License-Identifier: MIT */
/* Places of a model's nodes; see places.h. */
#include "common/nn/divide/places.h"

#include "common/base/grow.h"
#include "common/nn/divide/graph_parts.h"
#include "common/nn/layer.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Inputs are placed with the nodes that use them. */
static bool is_input(const ls_graph *graph, int n)
{
    return graph->nodes[n].layer->role == LS_LAYER_INPUT;
}

/* An input is on the place of its first use. */
static void place_inputs(const ls_graph *graph, int *out)
{
    for (int n = graph->count - 1; n >= 0; n--)
        for (int i = 0; i < graph->nodes[n].input_count; i++)
            if (is_input(graph, graph->nodes[n].inputs[i]))
                out[graph->nodes[n].inputs[i]] = out[n];
}

/* ---- Balance -------------------------------------------------------------------------------- */

/* Cost of a partition: first its largest range, then how uneven it is. */
typedef struct cost {
    double largest, squares;
} cost;

static bool is_worse(cost a, cost b)
{
    return a.largest > b.largest || (a.largest == b.largest && a.squares > b.squares);
}

/* Linear partition by dynamic programming: best[k][j] is the least cost of the first j units in k
 * + 1 ranges, cut[k][j] the start of the last range (as late as possible, so that a unit without
 * cost stays with the one before it). A unit is one layer, or several between whose ends one output
 * alone is passed on, such as a residual block. */
typedef struct partition {
    int units;
    int *node;   /* [layers] */
    int *first;  /* [units + 1] first layer of each */
    int *ended;  /* [nodes] how many outputs each node is the last to use */
    double *sum; /* of the units before */
    cost *best;  /* [places, units + 1] */
    int *cut;    /* [places, units + 1] */
} partition;

/* The cost of a partition with one more range. */
static cost with_range(cost before, double range)
{
    return (cost){range > before.largest ? range : before.largest, before.squares + range * range};
}

static void choose_cut(const partition *p, int k, int j)
{
    const int width = p->units + 1;
    cost best = {0};
    for (int i = k; i < j; i++) {
        cost now = with_range(p->best[(k - 1) * width + i], p->sum[j] - p->sum[i]);
        if (i > k && is_worse(now, best))
            continue;
        best = now;
        p->cut[k * width + j] = i;
    }
    p->best[k * width + j] = best;
}

static void divide(const partition *p, int places, int *out)
{
    const int width = p->units + 1;
    for (int j = 0; j < width; j++)
        p->best[j] = with_range((cost){0}, p->sum[j]);
    for (int k = 1; k < places; k++)
        for (int j = k + 1; j < width; j++)
            choose_cut(p, k, j);
    for (int k = places - 1, end = p->units; k >= 0; k--) {
        int begin = k ? p->cut[k * width + end] : 0;
        for (int i = p->first[begin]; i < p->first[end]; i++)
            out[p->node[i]] = k;
        end = begin;
    }
}

/* The last node that uses the output of node n; n: none does. */
static int last_user(const ls_graph *graph, int n)
{
    for (int user = graph->count - 1; user > n; user--)
        for (int i = 0; i < graph->nodes[user].input_count; i++)
            if (graph->nodes[user].inputs[i] == n)
                return user;
    return n;
}

/* Lists the layers as units; `whole`: where one output is passed on, else one by one. */
static void list_units(const ls_graph *graph, bool whole, partition *p)
{
    int layers = 0, crossing = 0; /* outputs up to node n that are used after it */
    double sum = 0;
    p->units = 0;
    memset(p->ended, 0, (size_t)graph->count * sizeof *p->ended);
    for (int n = 0; n < graph->count; n++) {
        if (is_input(graph, n))
            continue;
        const int last = last_user(graph, n);
        crossing += (last > n) - p->ended[n];
        p->ended[last] += last > n;
        p->node[layers++] = n;
        sum += ls_graph_node_flops(graph, n);
        if (whole && n + 1 < graph->count && crossing != 1)
            continue;
        p->units++;
        p->first[p->units] = layers;
        p->sum[p->units] = sum;
    }
}

ls_status ls_places_balance(const ls_graph *graph, int64_t places, int *out)
{
    int layers = 0;
    for (int n = 0; n < graph->count; n++)
        layers += !is_input(graph, n);
    if (places > layers)
        return ls_fail(LS_CODE_USAGE, "placement", "--devices",
                       "%lld devices are more than the %d layers of the model; use at most one "
                       "device for each layer",
                       (long long)places, layers);
    const size_t most = (size_t)graph->count + 1, cells = (size_t)places * most;
    partition p = {.node = calloc(most, sizeof *p.node),
                   .first = calloc(most, sizeof *p.first),
                   .ended = calloc(most, sizeof *p.ended),
                   .sum = calloc(most, sizeof *p.sum),
                   .best = calloc(cells, sizeof *p.best),
                   .cut = calloc(cells, sizeof *p.cut)};
    ls_status status = LS_OK;
    if (!p.node || !p.first || !p.ended || !p.sum || !p.best || !p.cut)
        status = ls_fail_memory("placement", cells * sizeof *p.best);
    if (!status) {
        list_units(graph, true, &p);
        if (p.units < places)
            list_units(graph, false, &p);
        divide(&p, (int)places, out);
        place_inputs(graph, out);
    }
    free(p.node);
    free(p.first);
    free(p.ended);
    free(p.sum);
    free(p.best);
    free(p.cut);
    return status;
}

/* ---- What the user names -------------------------------------------------------------------- */

static const char plan_form[] =
    "write LAYER=DEVICE, separated by commas, as in dense0=cpu:0,dense1=cpu:1";

static ls_status find_node(const ls_graph *graph, const char *name, int *out)
{
    char list[512] = "", one[LS_NODE_NAME];
    bool whole = true;
    for (int n = 0; n < graph->count; n++) {
        if (is_input(graph, n))
            continue;
        ls_graph_node_name(graph, n, one);
        if (strcmp(one, name) == 0) {
            *out = n;
            return LS_OK;
        }
        const size_t used = strlen(list);
        const bool fits = used + strlen(one) + sizeof ", , ..." < sizeof list;
        if (whole)
            snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", fits ? one : "...");
        whole &= fits;
    }
    return ls_fail(LS_CODE_USAGE, "placement", name, "no layer has this name; the layers are %s",
                   list);
}

static ls_status find_place(const char *text, const ls_device_name *devices, int places, int *out)
{
    char list[512] = "", one[32];
    ls_device_name name;
    LS_TRY(ls_device_name_parse(text, &name));
    for (int p = 0; p < places; p++) {
        ls_device_name_text(&devices[p], one);
        if (memcmp(&devices[p], &name, sizeof name) == 0) {
            *out = p;
            return LS_OK;
        }
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", p ? ", " : "", one);
    }
    return ls_fail(
        LS_CODE_USAGE, "placement", text,
        "this device is not named in --devices (%s); add it there, or name another device", list);
}

/* "LAYER=DEVICE" */
static ls_status place_one(const ls_graph *graph, char *item, const ls_device_name *devices,
                           int places, int *out)
{
    int node, place;
    char *equals = strchr(item, '=');
    if (!equals || equals == item || !equals[1])
        return ls_fail(LS_CODE_USAGE, "placement", item,
                       "this is not LAYER=DEVICE: a part is missing; %s", plan_form);
    *equals = 0;
    LS_TRY(find_node(graph, item, &node));
    if (out[node] >= 0)
        return ls_fail(LS_CODE_USAGE, "placement", item,
                       "this layer is placed twice; name each layer once");
    LS_TRY(find_place(equals + 1, devices, places, &place));
    out[node] = place;
    return LS_OK;
}

/* Checks that every device has a node. */
static ls_status check_places(const ls_graph *graph, const ls_device_name *devices, int places,
                              const int *out)
{
    char text[32];
    for (int p = 0; p < places; p++) {
        bool used = false;
        for (int n = 0; n < graph->count; n++)
            used |= out[n] == p && !is_input(graph, n);
        if (!used)
            return ls_fail(LS_CODE_USAGE, "placement", ls_device_name_text(&devices[p], text),
                           "this device has no layer; place a layer there, or remove the device "
                           "from --devices");
    }
    return LS_OK;
}

/* Joins a file's items by commas, without comments and spaces. */
static ls_status read_plan(const char *path, char **out)
{
    enum { MOST = 1 << 16 };
    LS_TRY(ls_allocate("placement", out, MOST + 1, 1));
    char *text = *out;
    FILE *file = fopen(path, "r");
    size_t used = 0;
    bool comment = false;
    if (!file)
        return ls_fail(LS_CODE_USAGE, "placement", path,
                       "this is not a file, and has no '='; name a file, or %s", plan_form);
    for (int c = getc(file); c != EOF && used < MOST; c = getc(file)) {
        comment = c != '\n' && (comment || c == '#');
        if (c == '\n' && used && text[used - 1] != ',')
            text[used++] = ',';
        else if (!comment && !isspace(c))
            text[used++] = (char)c;
    }
    const int error = ferror(file) ? errno : 0; /* for example, if it is a directory */
    fclose(file);
    if (error)
        return ls_fail(LS_CODE_USAGE, "placement", path, "cannot be read: %s; name a file, or %s",
                       strerror(error), plan_form);
    if (used == MOST)
        return ls_fail(LS_CODE_USAGE, "placement", path,
                       "this file is too long; use fewer than %d characters", MOST);
    if (!used)
        return ls_fail(LS_CODE_USAGE, "placement", path,
                       "this file places no layer; in this file, %s", plan_form);
    if (text[used - 1] == ',')
        text[used - 1] = 0;
    return LS_OK;
}

ls_status ls_places_parse(const ls_graph *graph, const char *text, const ls_device_name *devices,
                          int places, int *out)
{
    char *copy = NULL, *item;
    ls_status status = LS_OK;
    if (!strchr(text, '='))
        status = read_plan(text, &copy);
    else if (!(copy = strdup(text)))
        status = ls_fail_memory("placement", strlen(text));
    char *rest = copy;
    for (int n = 0; n < graph->count; n++)
        out[n] = -1;
    while (!status && (item = strsep(&rest, ",")))
        status = place_one(graph, item, devices, places, out);
    free(copy);
    LS_TRY(status);
    for (int n = 0; n < graph->count; n++) {
        const ls_node *node = &graph->nodes[n];
        if (out[n] < 0 && !is_input(graph, n))
            out[n] = is_input(graph, node->inputs[0]) ? 0 : out[node->inputs[0]];
    }
    place_inputs(graph, out);
    return check_places(graph, devices, places, out);
}

/* ---- Whether it can be cut ------------------------------------------------------------------ */

ls_status ls_places_check(const ls_graph *graph, const int *place, int places)
{
    ls_graph_parts parts;
    LS_TRY(ls_graph_parts_open(graph, place, places, &parts));
    ls_graph_parts_close(&parts);
    return LS_OK;
}
