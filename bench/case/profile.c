/* SPDX-License-Identifier: MIT */
/* Profiles; see profile.h. */
#include "bench/case/profile.h"

#include "common/base/grow.h"
#include "common/base/numbers.h"
#include "common/nn/layer.h"

#include <errno.h>
#include <libfyaml.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prefix[] = "profile:";

bool ls_profile_is(const char *text)
{
    return strncmp(text, prefix, sizeof prefix - 1) == 0;
}

/* ---- Layers ---------------------------------------------------------------------------------- */

static ls_status run_nothing(ls_op *op, ls_queue *queue)
{
    (void)queue;
    return ls_fail(LS_CODE_USAGE, "profile", op->name, "has a time, and computes nothing");
}

bool ls_profile_has(const ls_op *op)
{
    return op->run == run_nothing;
}

static ls_status infer(ls_graph *graph, ls_node *node)
{
    node->shape = node->options.shape;
    if (!node->options.units)
        return LS_OK;
    const ls_variable weight = {.rank = 1, .shape = {node->options.units}};
    return ls_graph_variable(graph, node, "weight", &weight);
}

static double flops(const ls_graph *graph, const ls_node *node, double *input_gradient)
{
    (void)graph;
    *input_gradient = 0;
    return node->options.forward_ns + node->options.backward_ns;
}

static size_t bytes_of(const ls_layer_site *site, const ls_node *node)
{
    return (size_t)(site->rows * ls_shape_elements(&node->shape)) * sizeof(float);
}

static ls_status put(const char *name, double ns, const ls_access *accesses, size_t count,
                     ls_op_list *ops)
{
    ls_op *op;
    LS_TRY(ls_allocate("profile", &op, 1, sizeof *op));
    *op = (ls_op){.name = name, .run = run_nothing, .use = LS_TIME_COMPUTE, .flops = ns};
    ls_status status = ls_op_touches(op, accesses, count);
    if (!status)
        return ls_op_list_add(ops, op);
    ls_op_free(op);
    return status;
}

static ls_access parameters_of(const ls_layer_site *site, const void *memory, bool writes)
{
    return (ls_access){memory, (size_t)site->node->options.units * sizeof(float), writes};
}

static ls_status forward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_access accesses[] = {{site->input[0], bytes_of(site, site->input_node[0]), false},
                                  parameters_of(site, site->variable[0], false),
                                  {site->output, bytes_of(site, site->node), true}};
    return put("profile forward", site->node->options.forward_ns * (double)site->rows, accesses, 3,
               ops);
}

static ls_status backward(const ls_layer_site *site, ls_op_list *ops)
{
    const size_t before = bytes_of(site, site->input_node[0]);
    const ls_access accesses[] = {
        {site->input[0], before, false},
        {site->output_gradient, bytes_of(site, site->node), false},
        parameters_of(site, site->variable[0], false),
        parameters_of(site, site->variable_gradient[0], true),
        {site->input_gradient[0], site->input_gradient[0] ? before : 0, true}};
    return put("profile backward", site->node->options.backward_ns * (double)site->rows, accesses,
               5, ops);
}

static const ls_layer layer = {
    .name = "profile",
    .help = "sizes and times of a layer",
    .inputs = 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .flops = flops,
};

static const ls_model_family family = {
    .name = "profile",
    .help = "sizes and times of layers",
    .default_data = "synthetic",
    .default_optimizer = "sgd",
    .default_rate = 0.1,
    .default_batch = 1,
    .need = {.inputs = 1, .rank = {1}, .shape = {{1}}, .synthetic = "polynomial"},
};

/* ---- The file -------------------------------------------------------------------------------- */

typedef struct reading {
    const char *path;
    int line;
} reading;

static ls_status refuse(const reading *r, const char *what, const char *why)
{
    char where[512];
    snprintf(where, sizeof where, "%s:%d", r->path, r->line);
    return ls_fail(LS_CODE_USAGE, "profile", where,
                   "%s %s; a profile has batch, and layers: [{name: fc, params: 1000, forward: "
                   "1ms, backward: 2ms, activations: 4KB}]",
                   what, why);
}

/* The text of a key, and its line; NULL: it is missing, or no scalar. */
static const char *text_of(reading *r, struct fy_node *mapping, const char *key)
{
    struct fy_node *node = fy_node_mapping_lookup_by_string(mapping, key, (size_t)-1);
    struct fy_token *token = node ? fy_node_get_scalar_token(node) : NULL;
    const struct fy_mark *mark = token ? fy_token_start_mark(token) : NULL;
    if (mark)
        r->line = mark->line + 1;
    return token ? fy_node_get_scalar0(node) : NULL;
}

/* A key that the format lacks is a mistyped one. */
static ls_status check_keys(reading *r, struct fy_node *mapping, const char *const *valid)
{
    void *at = NULL;
    for (struct fy_node_pair *pair; (pair = fy_node_mapping_iterate(mapping, &at));) {
        struct fy_node *key = fy_node_pair_key(pair);
        struct fy_token *token = key ? fy_node_get_scalar_token(key) : NULL;
        const struct fy_mark *mark = token ? fy_token_start_mark(token) : NULL;
        const char *text = token ? fy_node_get_scalar0(key) : NULL;
        size_t k = 0;
        while (text && valid[k] && strcmp(valid[k], text) != 0)
            k++;
        if (mark)
            r->line = mark->line + 1;
        if (!text || !valid[k])
            return refuse(r, text ? text : "a key", "is no key of it");
    }
    return LS_OK;
}

static ls_status read_count(reading *r, struct fy_node *mapping, const char *key, int64_t low,
                            int64_t *out)
{
    static const int64_t most = (int64_t)1 << 40;
    const char *text = text_of(r, mapping, key);
    if (!text)
        return refuse(r, key, "is missing");
    return ls_parse_integer(text, low, most, out)
               ? LS_OK
               : refuse(r, key, low ? "is no whole number from 1" : "is no whole number from 0");
}

/* A time of all samples as one of a sample. */
static ls_status read_time(reading *r, struct fy_node *mapping, const char *key, int64_t batch,
                           double *out)
{
    const char *text = text_of(r, mapping, key);
    if (!text)
        return refuse(r, key, "is missing: a layer without a time");
    if (!ls_parse_time(text, out))
        return refuse(r, key, "is no time with a unit, as 1.5ms");
    *out /= (double)batch;
    return LS_OK;
}

/* What holds for all layers. */
typedef struct whole {
    int64_t batch, element_bytes;
    double carried_ns; /* backward times of layers that no gradient reaches */
} whole;

static ls_status add_layer(reading *r, struct fy_node *one, whole *all, ls_model *model, int *node)
{
    static const char *const keys[] = {"name",     "params",      "forward",
                                       "backward", "activations", NULL};
    ls_layer_options o = {.shape = {.rank = 1, .size = {1}}};
    size_t bytes = 0;
    if (!fy_node_is_mapping(one))
        return refuse(r, "a layer", "is no mapping");
    LS_TRY(check_keys(r, one, keys));
    LS_TRY(read_count(r, one, "params", 0, &o.units));
    LS_TRY(read_time(r, one, "forward", all->batch, &o.forward_ns));
    LS_TRY(read_time(r, one, "backward", all->batch, &o.backward_ns));
    const int64_t word = sizeof(float); /* variables are of words: as many as have these bytes */
    o.units = (o.units * all->element_bytes + word - 1) / word;
    const char *text = text_of(r, one, "activations");
    if (text && !ls_parse_bytes(text, &bytes))
        return refuse(r, "activations", "are no size in bytes");
    const size_t of_sample = sizeof(float) * (size_t)all->batch;
    if (bytes > of_sample)
        o.shape.size[0] = (int64_t)((bytes + of_sample - 1) / of_sample);
    /* no gradient reaches a layer without parameters before it, or of its own: the next has its
     * time */
    all->carried_ns += o.backward_ns;
    o.backward_ns = 0;
    if (o.units || model->graph->variables.count) {
        o.backward_ns = all->carried_ns;
        all->carried_ns = 0;
    }
    return ls_graph_add_layer(model->graph, &layer, (int[]){*node, -1}, -1, &o, node);
}

static ls_status read_root(reading *r, struct fy_node *root, ls_model *model)
{
    static const char *const keys[] = {"name", "batch", "element_bytes", "source", "layers", NULL};
    const ls_layer_options input = {.shape = {.rank = 1, .size = {1}}};
    int node;
    whole all = {.element_bytes = sizeof(float)};
    if (!root || !fy_node_is_mapping(root))
        return refuse(r, "it", "is no mapping");
    LS_TRY(check_keys(r, root, keys));
    LS_TRY(read_count(r, root, "batch", 1, &model->batch));
    if (text_of(r, root, "element_bytes"))
        LS_TRY(read_count(r, root, "element_bytes", 1, &all.element_bytes));
    if (all.element_bytes > (int64_t)sizeof(float))
        return refuse(r, "element_bytes", "is more than 4");
    all.batch = model->batch;
    struct fy_node *layers = fy_node_mapping_lookup_by_string(root, "layers", (size_t)-1);
    if (!layers || !fy_node_is_sequence(layers) || fy_node_sequence_is_empty(layers))
        return refuse(r, "layers", layers ? "is no list of layers" : "is missing");
    LS_TRY(ls_graph_add(model->graph, "input", NULL, -1, &input, &node));
    void *at = NULL;
    for (struct fy_node *one; (one = fy_node_sequence_iterate(layers, &at));)
        LS_TRY(add_layer(r, one, &all, model, &node));
    if (!model->graph->variables.count)
        return refuse(r, "layers", "have no params");
    return ls_graph_add(model->graph, "squared_error", (int[]){node, -1}, -1, NULL, &node);
}

static ls_status refuse_syntax(reading *r, struct fy_diag *diagnostics)
{
    char why[300];
    void *previous = NULL;
    const struct fy_diag_error *error = fy_diag_errors_iterate(diagnostics, &previous);
    r->line = error && error->line > 0 ? error->line : 1;
    snprintf(why, sizeof why, "valid YAML: %.200s", error ? error->msg : "nothing is there");
    return refuse(r, "it is not", why);
}

static ls_status read_file(const char *path, ls_model *model)
{
    reading r = {path, 1};
    FILE *file = fopen(path, "r");
    if (!file)
        return ls_fail(LS_CODE_MISSING, "profile", path,
                       "cannot be read: %s; name a file, as profile:vgg16.yaml", strerror(errno));
    struct fy_diag_cfg quiet;
    fy_diag_cfg_default(&quiet);
    quiet.fp = NULL;
    struct fy_diag *diagnostics = fy_diag_create(&quiet);
    if (diagnostics)
        fy_diag_set_collect_errors(diagnostics, true);
    const struct fy_parse_cfg config = {.search_path = "", .diag = diagnostics};
    struct fy_document *document = diagnostics ? fy_document_build_from_fp(&config, file) : NULL;
    ls_status status = !diagnostics ? ls_fail_memory("profile", 0)
                       : !document  ? refuse_syntax(&r, diagnostics)
                                    : read_root(&r, fy_document_root(document), model);
    fy_document_destroy(document);
    fy_diag_destroy(diagnostics);
    fclose(file);
    return status;
}

ls_status ls_case_model_open(const char *text, const char *data, ls_model **out)
{
    ls_model *model;
    if (!ls_profile_is(text))
        return data ? ls_model_open_for(text, data, out) : ls_model_open(text, out);
    LS_TRY(ls_allocate("model", &model, 1, sizeof *model));
    model->family = &family;
    model->need = family.need;
    snprintf(model->name, sizeof model->name, "%s", text);
    ls_status status = ls_graph_open(&model->graph);
    if (!status)
        status = read_file(text + sizeof prefix - 1, model);
    if (status)
        ls_model_close(model);
    else
        *out = model;
    return status;
}
