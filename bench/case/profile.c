/* SPDX-License-Identifier: MIT */
/* Profiles; see profile.h. */
#include "bench/case/profile.h"

#include "bench/case/graph_file.h"
#include "bench/case/yaml_file.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"
#include "common/nn/layer.h"

#include <stdio.h>
#include <string.h>

static const char prefix[] = "profile:";

bool ls_profile_is(const char *text)
{
    return strncmp(text, prefix, sizeof prefix - 1) == 0;
}

/* ---- Layers ---------------------------------------------------------------------------------- */

static ls_status run_nothing(ls_op *op, ls_queue *queue)
{
    (void)op;
    (void)queue;
    return ls_fail(LS_CODE_USAGE, "option", "--model profile",
                   "a profile has only the times and sizes of layers, so it cannot be trained; use "
                   "lockstep predict or lockstep advise");
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
    const ls_layer_options *o = &site->node->options;
    const ls_access accesses[] = {
        {site->output_gradient, bytes_of(site, site->node), false},
        parameters_of(site, site->variable[0], false),
        {site->input_gradient[0], site->input_gradient[0] ? before : 0, true},
        {site->input[0], before, false},
        parameters_of(site, site->variable_gradient[0], true)};
    return put("profile backward",
               (o->backward_ns - (site->weights_apart ? o->weights_ns : 0)) * (double)site->rows,
               accesses, site->weights_apart ? 3 : 5, ops);
}

static ls_status backward_weights(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_access accesses[] = {{site->input[0], bytes_of(site, site->input_node[0]), false},
                                  {site->output_gradient, bytes_of(site, site->node), false},
                                  parameters_of(site, site->variable_gradient[0], true)};
    return put("profile weights", site->node->options.weights_ns * (double)site->rows, accesses, 3,
               ops);
}

static const ls_layer layer = {
    .name = "profile",
    .help = "sizes and times of a layer",
    .inputs = 1,
    .reads = LS_READS_INPUT,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .backward_weights = backward_weights,
    .flops = flops,
};

#define FAMILY                                                                                     \
    {                                                                                              \
        .name = "profile", .help = "sizes and times of layers", .default_data = "synthetic",       \
        .default_optimizer = "sgd", .default_rate = 0.1, .default_batch = 1,                       \
        .need = {.inputs = 1, .rank = {1}, .shape = {{1}}, .synthetic = "polynomial"},             \
    }
enum { MOST_BYTES = 4 };
/* One for each number of bytes of an element, which the model's variables, of words, do not tell.
 */
static const ls_model_family families[MOST_BYTES + 1] = {FAMILY, FAMILY, FAMILY, FAMILY, FAMILY};

ls_memory_type ls_profile_type(const ls_model *model)
{
    static const ls_memory_type types[MOST_BYTES] = {
        [1] = LS_MEMORY_INT8, [2] = LS_MEMORY_BF16, [3] = LS_MEMORY_OTHER};
    for (int bytes = 1; bytes < MOST_BYTES; bytes++)
        if (model->family == &families[bytes])
            return types[bytes];
    return LS_MEMORY_FLOAT32;
}

/* ---- The file -------------------------------------------------------------------------------- */

static const char valid[] = "a profile has batch, and layers: [{name: fc, params: 1000, forward: "
                            "1ms, backward: 2ms, weights: 1ms, activations: 4KB}]";

static ls_status read_count(ls_yaml_file *file, struct fy_node *mapping, const char *key,
                            int64_t low, int64_t *out)
{
    static const int64_t most = (int64_t)1 << 40;
    const char *text = ls_yaml_member_text(file, mapping, key);
    if (!text)
        return ls_yaml_refuse(file, "`%s:` is missing", key);
    return ls_parse_integer(text, low, most, out)
               ? LS_OK
               : ls_yaml_refuse(file, "`%s:` is not a whole number of %lld or more", key,
                                (long long)low);
}

/* A time of all samples as one of a sample. */
static ls_status read_time(ls_yaml_file *file, struct fy_node *mapping, const char *key,
                           int64_t batch, double *out)
{
    const char *text = ls_yaml_member_text(file, mapping, key);
    if (!text)
        return ls_yaml_refuse(file, "`%s:` is missing, but every layer needs this time", key);
    if (!ls_parse_time(text, out))
        return ls_yaml_refuse(
            file, "`%s:`%s must be a time with a unit; write, for example, `%s: 1.5ms`", key,
            strcmp(key, "weights") == 0 ? " (the part of `backward:` for the weights' gradients)"
                                        : "",
            key);
    *out /= (double)batch;
    return LS_OK;
}

/* What holds for all layers. */
typedef struct whole {
    int64_t batch, element_bytes;
    double carried_ns, carried_weights_ns; /* backward times of layers that no gradient reaches */
} whole;

static ls_status add_layer(ls_yaml_file *file, struct fy_node *one, whole *all, ls_model *model,
                           int *node)
{
    static const char *const keys[] = {"name",    "params",      "forward", "backward",
                                       "weights", "activations", NULL};
    ls_layer_options o = {.shape = {.rank = 1, .size = {1}}};
    size_t bytes = 0;
    if (!fy_node_is_mapping(one))
        return ls_yaml_refuse(file, "this layer is not a mapping");
    LS_TRY(ls_yaml_check_keys(file, one, keys));
    LS_TRY(read_count(file, one, "params", 0, &o.units));
    LS_TRY(read_time(file, one, "forward", all->batch, &o.forward_ns));
    LS_TRY(read_time(file, one, "backward", all->batch, &o.backward_ns));
    if (ls_yaml_member_text(file, one, "weights"))
        LS_TRY(read_time(file, one, "weights", all->batch, &o.weights_ns));
    if (o.weights_ns > o.backward_ns)
        return ls_yaml_refuse(
            file, "`weights:` (the part of the backward pass for the weights' gradients) is longer "
                  "than `backward:`; give a time of at most `backward:`");
    const int64_t word = sizeof(float); /* variables consist of words: as many as the bytes need */
    o.units = (o.units * all->element_bytes + word - 1) / word;
    const char *text = ls_yaml_member_text(file, one, "activations");
    if (text && !ls_parse_bytes(text, &bytes))
        return ls_yaml_refuse(file, "`activations:` is not a size in bytes");
    const size_t of_sample = sizeof(float) * (size_t)all->batch;
    if (bytes > of_sample)
        o.shape.size[0] = (int64_t)((bytes + of_sample - 1) / of_sample);
    /* no gradient reaches a layer without parameters and with none before it: the next layer gets
     * its time */
    all->carried_ns += o.backward_ns;
    all->carried_weights_ns += o.weights_ns;
    o.backward_ns = o.weights_ns = 0;
    if (o.units || model->graph->variables.count) {
        o.backward_ns = all->carried_ns;
        o.weights_ns = all->carried_weights_ns;
        all->carried_ns = all->carried_weights_ns = 0;
    }
    return ls_graph_add_layer(model->graph, &layer, (int[]){*node, -1}, -1, &o, node);
}

static ls_status read_root(ls_yaml_file *file, ls_model *model)
{
    struct fy_node *root = ls_yaml_root(file);
    static const char *const keys[] = {"name", "batch", "element_bytes", "source", "layers", NULL};
    const ls_layer_options input = {.shape = {.rank = 1, .size = {1}}};
    int node;
    whole all = {.element_bytes = sizeof(float)};
    LS_TRY(ls_yaml_check_keys(file, root, keys));
    LS_TRY(read_count(file, root, "batch", 1, &model->batch));
    if (ls_yaml_member_text(file, root, "element_bytes"))
        LS_TRY(read_count(file, root, "element_bytes", 1, &all.element_bytes));
    if (all.element_bytes > MOST_BYTES)
        return ls_yaml_refuse(file, "`element_bytes:` is more than 4; use 1 to 4");
    all.batch = model->batch;
    model->family = &families[all.element_bytes];
    struct fy_node *layers = ls_yaml_member(file, root, "layers");
    if (!layers || !fy_node_is_sequence(layers) || fy_node_sequence_is_empty(layers))
        return ls_yaml_refuse(file, layers ? "`layers:` is not a list of layers"
                                           : "`layers:` is missing");
    LS_TRY(ls_graph_add(model->graph, "input", NULL, -1, &input, &node));
    void *at = NULL;
    for (struct fy_node *one; (one = fy_node_sequence_iterate(layers, &at));)
        LS_TRY(add_layer(file, one, &all, model, &node));
    if (!model->graph->variables.count)
        return ls_yaml_refuse(file, "no layer has `params:` above 0, so there is nothing to train");
    return ls_graph_add(model->graph, "squared_error", (int[]){node, -1}, -1, NULL, &node);
}

ls_status ls_case_model_open(const char *text, const char *data, double dropout, ls_model **out)
{
    ls_model *model;
    ls_closing(ls_yaml_close) ls_yaml_file file = {0};
    if (ls_graph_file_is(text))
        return ls_graph_file_open(text, out);
    if (!ls_profile_is(text))
        return data ? ls_model_open_for(text, data, dropout, out)
                    : ls_model_open_dropping(text, dropout, out);
    LS_TRY(ls_allocate("model", &model, 1, sizeof *model));
    model->family = &families[MOST_BYTES];
    model->need = model->family->need;
    snprintf(model->name, sizeof model->name, "%s", text);
    ls_status status = ls_graph_open(&model->graph);
    if (!status)
        status = ls_yaml_open("profile", text + sizeof prefix - 1, valid, &file);
    if (!status)
        status = read_root(&file, model);
    if (status) {
        ls_model_close(model);
        return status;
    }
    ls_graph_number_units(model->graph);
    *out = model;
    return LS_OK;
}
