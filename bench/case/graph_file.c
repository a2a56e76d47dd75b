/* SPDX-License-Identifier: MIT */
/* Models from a file; see graph_file.h. */
#include "bench/case/graph_file.h"

#include "bench/case/graph_layer.h"
#include "common/base/digest.h"
#include "common/base/escape.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"
#include "common/nn/layers.h"
#include "common/nn/models.h"
#include "common/nn/optimizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char what[] = "graph"; /* before the colon, and in messages */
static const char valid[] = "write a model, such as {data: fashion-mnist, input: [784], layers: "
                            "[dense: 128, relu, dense: 10, softmax_cross_entropy]}";
enum { LAYERS_MOST = 4096, WORDS = 600 };
static const int64_t most_elements = INT32_MAX; /* of a layer's output */

/* What the file says of training is in the model's own family. */
typedef struct file_model {
    ls_model model; /* first: ls_model_close frees it */
    ls_model_family family;
    char data[600], optimizer[256];
    uint64_t digest;
    char text[];
} file_model;

/* A node's name, and where it stands. */
typedef struct place {
    char name[LS_NODE_NAME];
    int line, column;
} place;

typedef struct reading {
    ls_yaml_file *file;
    file_model *out;
    ls_graph *graph;
    struct fy_node *layers; /* the list */
    place *places;          /* [graph->count] */
} reading;

bool ls_graph_file_is(const char *text)
{
    const size_t length = strcspn(text, ":");
    return length == sizeof what - 1 && strncmp(text, what, length) == 0;
}

static const file_model *from_file(const ls_model *model)
{
    return strcmp(model->family->name, ls_model_graph.name) == 0 ? (const file_model *)model : NULL;
}

const char *ls_graph_file_text(const ls_model *model)
{
    return from_file(model) ? from_file(model)->text : NULL;
}

uint64_t ls_graph_file_digest(const ls_model *model)
{
    return from_file(model) ? from_file(model)->digest : 0;
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* The item's layer, and what follows it; NULL if it is not a layer. */
static const char *layer_of(ls_yaml_file *file, struct fy_node *item, struct fy_node **value)
{
    void *at = NULL;
    *value = NULL;
    if (!fy_node_is_mapping(item))
        return ls_yaml_text(file, item);
    struct fy_node_pair *pair = fy_node_mapping_iterate(item, &at);
    const char *text = pair ? ls_yaml_text(file, fy_node_pair_key(pair)) : NULL;
    *value = pair ? fy_node_pair_value(pair) : NULL;
    return text && !fy_node_mapping_iterate(item, &at) ? text : NULL;
}

/* Whether any layer of the file has been given this name. */
static bool is_given(const reading *r, const char *name)
{
    ls_yaml_file aside = *r->file; /* looks without moving */
    struct fy_node *value;
    void *at = NULL;
    for (struct fy_node *item; (item = fy_node_sequence_iterate(r->layers, &at));) {
        layer_of(&aside, item, &value);
        const char *given =
            value && fy_node_is_mapping(value) ? ls_yaml_member_text(&aside, value, "name") : NULL;
        if (given && strcmp(given, name) == 0)
            return true;
    }
    return false;
}

/* "lstm0" finds "lstm0/a", too, which has the variables. */
static ls_status find_node(const reading *r, const char *key, const char *name, int *out)
{
    char names[WORDS] = "", owner[LS_NODE_NAME];
    snprintf(owner, sizeof owner, "%.30s/a", name);
    const char *const names_of[] = {name, owner};
    for (int i = 0; i < 2; i++)
        for (*out = 0; *out < r->graph->count; ++*out)
            if (strcmp(r->places[*out].name, names_of[i]) == 0)
                return LS_OK;
    if (is_given(r, name))
        return ls_yaml_refuse(r->file,
                              "%s: '%.40s' is not above this layer; name a layer above, or move "
                              "that layer above this one",
                              key, name);
    /* The last names, "dense0, relu0", as many as there is room for. */
    int first = r->graph->count;
    for (size_t length = 0; first > 0 && length < WORDS - 2 * LS_NODE_NAME; first--)
        length += strlen(r->places[first - 1].name) + 2;
    for (int n = first; n < r->graph->count; n++)
        ls_text_add(names, WORDS, "%s%s", n > first ? ", " : "", r->places[n].name);
    return ls_yaml_refuse(r->file,
                          "%s: nothing above this layer is called '%.40s'; the layers above are %s",
                          key, name, names);
}

/* Names node n, and again the nodes that share its variables, which their number distinguishes. */
static ls_status name_node(reading *r, int n)
{
    ls_graph *graph = r->graph;
    const int owner = graph->nodes[n].shares;
    ls_graph_node_name(graph, n, r->places[n].name);
    for (int i = 0; i < n && owner >= 0; i++)
        if (i == owner || graph->nodes[i].shares == owner)
            ls_graph_node_name(graph, i, r->places[i].name);
    for (int i = 0; i < n; i++)
        if (strcmp(r->places[i].name, r->places[n].name) == 0)
            return ls_yaml_refuse(r->file,
                                  "two layers are called '%s', this one and one in line %d; rename "
                                  "one of the two with `name:`",
                                  r->places[n].name, r->places[i].line);
    return LS_OK;
}

/* ---- Layers ---------------------------------------------------------------------------------- */

static char *shape_text(const ls_shape *shape, char *text, size_t size)
{
    snprintf(text, size, "[");
    for (int i = 0; i < shape->rank; i++)
        ls_text_add(text, size, "%s%lld", i ? "," : "", (long long)shape->size[i]);
    return ls_text_add(text, size, "]");
}

/* Why the graph refuses a layer, and what shapes its inputs have. */
static ls_status refuse_layer(const reading *r, const int *inputs, ls_status why)
{
    static const char before[] = "graph: ";
    char shape[120], text[WORDS] = "";
    const char *reason = ls_status_text(why);
    if (strncmp(reason, before, sizeof before - 1) == 0)
        reason += sizeof before - 1;
    for (const int *n = inputs; *n >= 0; n++)
        ls_text_add(text, sizeof text, "%s%s has shape %s", n > inputs ? ", " : "",
                    r->places[*n].name,
                    shape_text(&r->graph->nodes[*n].shape, shape, sizeof shape));
    const size_t length = strcspn(reason, ";"); /* the advice stays last */
    ls_status status =
        ls_yaml_refuse(r->file, "%.*s (%s)%.300s", (int)length, reason, text, reason + length);
    ls_status_free(why);
    return status;
}

/* Adds a node at the position that was looked at. */
static ls_status add_node(reading *r, const ls_layer *layer, const int *inputs, int shares,
                          const ls_layer_options *options)
{
    ls_graph *graph = r->graph;
    char shape[120];
    int n;
    if (graph->count == LAYERS_MOST)
        return ls_yaml_refuse(r->file, "the file has more than %d layers; use fewer", LAYERS_MOST);
    LS_TRY(ls_grow(what, &r->places, (size_t)graph->count, sizeof *r->places));
    ls_status status = ls_graph_add_layer(graph, layer, inputs, shares, options, &n);
    if (status)
        return refuse_layer(r, inputs, status);
    r->places[n].line = r->file->line;
    r->places[n].column = r->file->column;
    LS_TRY(name_node(r, n));
    const ls_shape *made = &graph->nodes[n].shape;
    int64_t elements = 1;
    for (int i = 0; i < made->rank; i++)
        if (__builtin_mul_overflow(elements, made->size[i], &elements) || elements > most_elements)
            return ls_yaml_refuse(
                r->file, "the output of %s, %s, is too large; use at most %lld elements",
                r->places[n].name, shape_text(made, shape, sizeof shape), (long long)most_elements);
    return LS_OK;
}

/* Which nodes the layer takes, ended by -1. */
static ls_status take_inputs(const reading *r, const ls_layer *layer, const ls_graph_links *links,
                             int inputs[3])
{
    inputs[0] = r->graph->count - 1;
    inputs[1] = inputs[2] = -1;
    if (links->from)
        LS_TRY(find_node(r, "from", links->from, &inputs[0]));
    if (links->with)
        LS_TRY(find_node(r, "with", links->with, &inputs[1]));
    if (layer->inputs == 2 && inputs[1] < 0)
        return ls_yaml_refuse(r->file,
                              "%s takes two layers, but only one is given; `- %s: NAME` takes the "
                              "layer before and the layer NAME",
                              layer->name, layer->name);
    return inputs[0] == inputs[1]
               ? ls_yaml_refuse(r->file, "%s takes the layer %s twice; name two different layers",
                                layer->name, r->places[inputs[0]].name)
               : LS_OK;
}

/* The layers that may be listed. */
static char *list_layers(char text[WORDS])
{
    *text = 0;
    for (size_t i = 0; i < ls_registry_count(&ls_layers); i++)
        if (strcmp(ls_registry_name(&ls_layers, i), ls_layer_input.name) != 0)
            ls_text_add(text, WORDS, "%s%s", *text ? ", " : "", ls_registry_name(&ls_layers, i));
    return text;
}

static ls_status read_layer(reading *r, struct fy_node *item)
{
    ls_yaml_file *file = r->file;
    ls_graph *graph = r->graph;
    char names[WORDS];
    ls_layer_options options;
    ls_graph_links links;
    struct fy_node *value;
    int inputs[3], shares = -1;
    const char *name = layer_of(file, item, &value);
    const int line = file->line, column = file->column;
    if (!name)
        return ls_yaml_refuse(file, "this is not a layer; a layer is written as `- relu`, `- "
                                    "dense: 128` or `- conv: {units: 32, window: 3}`");
    const ls_layer *layer = ls_registry_find(&ls_layers, name, strlen(name));
    if (!layer || layer->role == LS_LAYER_INPUT)
        return ls_yaml_refuse(file, "'%.40s' is not a layer; valid are: %s", name,
                              list_layers(names));
    if (graph->nodes[graph->count - 1].layer->role == LS_LAYER_LOSS)
        return ls_yaml_refuse(file,
                              "this layer comes after the loss, %s, which must be the last layer; "
                              "move the loss to the end",
                              r->places[graph->count - 1].name);
    LS_TRY(ls_graph_layer_read(file, layer, value, &options, &links));
    LS_TRY(take_inputs(r, layer, &links, inputs));
    if (links.shares)
        LS_TRY(find_node(r, "shares", links.shares, &shares));
    file->line = line;
    file->column = column;
    if (layer == &ls_layer_embedding &&
        graph->nodes[inputs[0]].layer->role != LS_LAYER_INPUT) /* whole numbers, checked */
        return ls_yaml_refuse(file,
                              "an embedding must take an input of the model, but this one takes "
                              "the layer %s; write `from:` with the name of an input",
                              r->places[inputs[0]].name);
    const ls_node *first = &graph->nodes[inputs[0]];
    if (layer == &ls_layer_bn && first->layer == &ls_layer_conv && !first->options.no_bias)
        return ls_yaml_refuse(file,
                              "bn subtracts the mean, so the bias of the layer %s has no effect; "
                              "write `bias: no` in that layer",
                              r->places[inputs[0]].name);
    return add_node(r, layer, inputs, shares, &options);
}

/* ---- The model ------------------------------------------------------------------------------- */

static ls_status read_inputs(reading *r, struct fy_node *root)
{
    ls_yaml_file *file = r->file;
    ls_data_need *need = &r->out->model.need;
    struct fy_node *input = ls_yaml_member(file, root, "input"), *first = NULL;
    void *at = NULL;
    if (!input)
        return ls_yaml_refuse(
            file, "`input:` is missing; give the sizes of a sample, as in input: [784]");
    if (fy_node_is_sequence(input))
        first = fy_node_sequence_iterate(input, &at);
    const bool several = first && fy_node_is_sequence(first);
    for (struct fy_node *one = several ? first : input; one;
         one = several ? fy_node_sequence_iterate(input, &at) : NULL) {
        ls_layer_options options = {.input = need->inputs};
        LS_TRY(ls_graph_shape_read(file, one, "input", &options.shape));
        if (need->inputs == LS_DATA_INPUTS)
            return ls_yaml_refuse(file, "the file has more than %d inputs; use fewer",
                                  LS_DATA_INPUTS);
        need->rank[need->inputs] = options.shape.rank;
        memcpy(need->shape[need->inputs++], options.shape.size, sizeof options.shape.size);
        LS_TRY(add_node(r, &ls_layer_input, (int[]){-1}, -1, &options));
    }
    return LS_OK;
}

/* What the data must be like, which follows from the inputs and the loss. */
static ls_status set_need(const reading *r)
{
    const ls_graph *graph = r->graph;
    const ls_node *loss = &graph->nodes[graph->count - 1], *embedding = NULL;
    ls_data_need *need = &r->out->model.need;
    const int64_t positions = ls_shape_positions(&loss->shape);
    for (int n = 0; n < graph->count; n++)
        if (graph->nodes[n].layer == &ls_layer_embedding && graph->nodes[n].shares < 0)
            embedding = &graph->nodes[n];
    if (loss->layer == &ls_layer_squared_error && ls_shape_elements(&loss->shape) != 1)
        return ls_yaml_refuse(r->file,
                              "squared_error takes one value per sample, but the layer before has "
                              "%lld; use `- dense: 1` before it",
                              (long long)ls_shape_elements(&loss->shape));
    if (loss->layer->integer_target)
        need->classes = loss->layer == &ls_layer_logistic_loss
                            ? 2
                            : (int)(ls_shape_elements(&loss->shape) / positions);
    if (embedding || positions > 1) { /* tokens are whole numbers below the classes */
        const bool fits = embedding && need->inputs == 1 && loss->shape.rank == 2 &&
                          loss->shape.size[0] == need->shape[0][0] &&
                          need->classes <= embedding->options.tokens;
        if (!fits)
            return ls_yaml_refuse(
                r->file, embedding
                             ? "with an embedding, the only input must be [T] (T tokens), and "
                               "the layer before the loss must give [T,V] (V scores for "
                               "each token, V at most `tokens:`); correct the input or the "
                               "last layers"
                             : "the layer before the loss has scores for several positions, "
                               "but without an embedding it must have one score per class; "
                               "put a layer such as `- dense: 10` before the loss");
        need->targets = positions;
    }
    need->synthetic = need->targets ? "tokens"
                      : need->classes == 2 && need->rank[0] == 2 && need->shape[0][1] == 256
                          ? "windows"
                      : need->classes ? "classes"
                                      : "polynomial";
    return LS_OK;
}

/* What only the whole graph shows. */
static ls_status check_graph(const reading *r)
{
    const ls_graph *graph = r->graph;
    const ls_node *last = &graph->nodes[graph->count - 1];
    if (last->layer->role != LS_LAYER_LOSS)
        return ls_yaml_refuse(r->file,
                              "the last layer, %s, is not a loss; end the list with "
                              "softmax_cross_entropy, logistic_loss or squared_error",
                              r->places[graph->count - 1].name);
    for (int n = 0; n + 1 < graph->count; n++)
        if (!graph->nodes[n].uses) {
            r->file->line = r->places[n].line;
            r->file->column = r->places[n].column;
            return ls_yaml_refuse(
                r->file,
                "the output of %s is not used by any layer; remove this layer, or name "
                "it in another layer's `from:` or `with:`",
                r->places[n].name);
        }
    if (!graph->variables.count)
        return ls_yaml_refuse(r->file, "no layer has variables, so there is nothing to train; add "
                                       "a layer such as `- dense: 10`");
    return set_need(r);
}

/* Text of --data, --optimizer, and the rest of training. */
static ls_status read_training(reading *r, struct fy_node *root)
{
    ls_yaml_file *file = r->file;
    file_model *out = r->out;
    ls_optimizer parsed;
    char names[WORDS];
    const char *data = ls_yaml_member_text(file, root, "data");
    if (!data)
        return ls_yaml_refuse(
            file, "`data:` is missing; name a data set here, even if --data will replace it");
    if (!ls_registry_find(&ls_data_sources, data, strcspn(data, ":")) ||
        strlen(data) >= sizeof out->data)
        return ls_yaml_refuse(file, "data: '%.40s' is not a data set; valid are: %s", data,
                              ls_registry_names(&ls_data_sources, names, sizeof names));
    snprintf(out->data, sizeof out->data, "%s", data);
    const char *optimizer = ls_yaml_member_text(file, root, "optimizer");
    snprintf(out->optimizer, sizeof out->optimizer, "%s", optimizer ? optimizer : "adam");
    ls_status status = ls_optimizer_parse(out->optimizer, &parsed);
    if (status) {
        ls_status refused = ls_yaml_refuse(file, "%.300s", ls_status_text(status));
        ls_status_free(status);
        return refused;
    }
    const char *rate = ls_yaml_member_text(file, root, "lr");
    if (rate && (!ls_parse_real(rate, &out->family.default_rate) || out->family.default_rate <= 0))
        return ls_yaml_refuse(file, "lr: '%.40s' is not a learning rate; give a number above 0",
                              rate);
    const char *batch = ls_yaml_member_text(file, root, "batch");
    if (batch && !ls_parse_integer(batch, 1, INT32_MAX, &out->family.default_batch))
        return ls_yaml_refuse(
            file, "batch: '%.40s' is not a batch size; give a whole number from 1 to %d", batch,
            INT32_MAX);
    return LS_OK;
}

static ls_status read_root(reading *r)
{
    static const char *const keys[] = {"data", "optimizer", "lr", "batch", "input", "layers", NULL};
    struct fy_node *root = ls_yaml_root(r->file);
    void *at = NULL;
    LS_TRY(ls_yaml_check_keys(r->file, root, keys));
    LS_TRY(read_training(r, root));
    LS_TRY(read_inputs(r, root));
    r->layers = ls_yaml_member(r->file, root, "layers");
    if (!r->layers || !fy_node_is_sequence(r->layers))
        return ls_yaml_refuse(r->file, r->layers ? "`layers:` is not a list; write a list, such as "
                                                   "layers: [dense: 10, softmax_cross_entropy]"
                                                 : "`layers:` is missing; write the layers, such "
                                                   "as layers: [dense: 10, softmax_cross_entropy]");
    for (struct fy_node *item; (item = fy_node_sequence_iterate(r->layers, &at));)
        LS_TRY(read_layer(r, item));
    return check_graph(r);
}

static ls_status make_model(ls_yaml_file *file, ls_model **out)
{
    file_model *made;
    LS_TRY(ls_allocate("model", &made, 1, sizeof *made + file->length + 1));
    memcpy(made->text, file->text, file->length + 1);
    made->digest = ls_hash64(file->text, file->length);
    made->family = ls_model_graph;
    made->family.default_data = made->data;
    made->family.default_optimizer = made->optimizer;
    made->model.family = &made->family;
    snprintf(made->model.name, sizeof made->model.name, "%s:%s", what, file->path);
    ls_status status = ls_graph_open(&made->model.graph);
    reading r = {.file = file, .out = made, .graph = made->model.graph};
    if (!status)
        status = read_root(&r);
    free(r.places);
    if (status) {
        ls_model_close(&made->model);
        return status;
    }
    ls_graph_number_units(r.graph);
    /* Which options apply to the model. */
    made->family.options = NULL;
    made->family.convolves = false;
    for (const ls_node *n = r.graph->nodes; n < r.graph->nodes + r.graph->count; n++) {
        if (n->layer == &ls_layer_bn)
            made->family.options = ls_model_graph.options;
        made->family.convolves |= n->layer == &ls_layer_conv && !n->options.global_max;
    }
    *out = &made->model;
    return LS_OK;
}

ls_status ls_graph_file_open(const char *text, ls_model **out)
{
    ls_closing(ls_yaml_close) ls_yaml_file file = {0};
    const char *path = text[sizeof what - 1] ? text + sizeof what : "";
    if (!*path)
        return ls_fail(LS_CODE_USAGE, what, NULL,
                       "no file is named; use --model graph:FILE.yaml; in this file, %s", valid);
    LS_TRY(ls_yaml_open(what, path, valid, &file));
    return make_model(&file, out);
}
