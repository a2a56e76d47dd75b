/* SPDX-License-Identifier: MIT */
/* Options of layers in a model's file; see graph_layer.h. */
#include "bench/case/graph_layer.h"

#include "common/base/numbers.h"
#include "common/nn/layers.h"

#include <stdio.h>
#include <string.h>

/* GPT-2's, for what begins normal and says nothing (Radford et al. 2019). */
static const double usual_deviation = 0.02;

static ls_status read_whole(ls_yaml_file *file, struct fy_node *node, const char *key, void *out)
{
    const char *text = ls_yaml_text(file, node);
    if (text && ls_parse_integer(text, 1, LS_GRAPH_SIZE_MOST, out))
        return LS_OK;
    return ls_yaml_refuse(file, "%s: '%.40s' is not valid; use a whole number from 1 to %d", key,
                          text ? text : "", LS_GRAPH_SIZE_MOST);
}

static ls_status read_real(ls_yaml_file *file, struct fy_node *node, const char *key, void *out)
{
    const char *text = ls_yaml_text(file, node);
    double *real = out;
    if (text && ls_parse_real(text, real) && *real >= 0)
        return LS_OK;
    return ls_yaml_refuse(file, "%s: '%.40s' is not valid; use a number of 0 or more", key,
                          text ? text : "");
}

static ls_status read_word(ls_yaml_file *file, struct fy_node *node, const char *key,
                           const char *const words[2], bool *second)
{
    const char *text = ls_yaml_text(file, node);
    for (int i = 0; i < 2 && text; i++)
        if (strcmp(text, words[i]) == 0) {
            *second = i;
            return LS_OK;
        }
    return ls_yaml_refuse(file, "%s: '%.40s' is not valid; use %s or %s", key, text ? text : "",
                          words[0], words[1]);
}

static ls_status read_window(ls_yaml_file *file, struct fy_node *node, const char *key, void *out)
{
    enum { LONGEST = 1024 };
    ls_layer_window *window = out;
    ls_shape sides;
    LS_TRY(ls_graph_shape_read(file, node, key, &sides));
    window->height = sides.size[0];
    window->width = sides.size[sides.rank - 1];
    if (sides.rank <= 2 && window->height <= LONGEST && window->width <= LONGEST)
        return LS_OK;
    return ls_yaml_refuse(
        file,
        "%s must be one number (height and width), or [height, width]; each is at most %d pixels",
        key, LONGEST);
}

/* Reads `pad`, which sets a field of the window, and one next to it. */
static ls_status read_pad(ls_yaml_file *file, struct fy_node *node, const char *key, void *out)
{
    const char *text = ls_yaml_text(file, node);
    ls_layer_options *o = out;
    o->centred = text && strcmp(text, "centred") == 0;
    o->window.same = o->centred || (text && strcmp(text, "same") == 0);
    if (o->window.same || (text && strcmp(text, "none") == 0))
        return LS_OK;
    return ls_yaml_refuse(
        file, "%s: '%.40s' is not a kind of padding; use `%s: none`, `%s: same` or `%s: centred`",
        key, text ? text : "", key, key, key);
}

#define AT(field) .offset = offsetof(ls_layer_options, field)

/* Keys of layers; the first that a layer has may stand alone, "dense: 128". */
static const struct option {
    const char *key;
    const char *layers; /* that have it, between blanks */
    size_t offset;      /* of the field of ls_layer_options */
    ls_status (*read)(ls_yaml_file *file, struct fy_node *node, const char *key, void *out);
    const char *words[2]; /* or one of these: false, true */
} options[] = {
    {"units", " dense conv lstm embedding ", AT(units), read_whole},
    {"heads", " attention ", AT(units), read_whole},
    {"channels", " shortcut ", AT(units), read_whole},
    {"window", " conv max_pool ", AT(window), read_window},
    {"stride", " conv max_pool shortcut ", AT(window.stride), read_whole},
    {"pad", " conv max_pool ", .offset = 0, read_pad},
    {"bias", " dense conv ", AT(no_bias), NULL, {"yes", "no"}},
    {"decay", " dense conv ", AT(weight_decay), read_real},
    {"global_max", " conv ", AT(global_max), NULL, {"no", "yes"}},
    {"each_position", " dense ", AT(last_axis), NULL, {"no", "yes"}},
    {"input_major", " dense ", AT(input_major), NULL, {"no", "yes"}},
    {"tokens", " embedding ", AT(tokens), read_whole},
    {"deviation", " dense embedding positions ", AT(deviation), read_real},
    {"states", " lstm ", AT(all_states), NULL, {"last", "all"}},
    {"radius", " lrn ", AT(radius), read_whole},
    {"alpha", " lrn ", AT(alpha), read_real},
};
enum { OPTIONS = sizeof options / sizeof *options, LINKS = 4 };

static bool has(const struct option *option, const ls_layer *layer)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, " %s ", layer->name);
    return strstr(option->layers, wanted);
}

static ls_status read_option(ls_yaml_file *file, struct fy_node *node, const struct option *option,
                             ls_layer_options *o)
{
    void *field = (char *)o + option->offset;
    return option->read ? option->read(file, node, option->key, field)
                        : read_word(file, node, option->key, option->words, field);
}

static ls_status read_links(ls_yaml_file *file, struct fy_node *value, ls_layer_options *o,
                            ls_graph_links *links)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._-";
    links->from = ls_yaml_member_text(file, value, "from");
    links->with = ls_yaml_member_text(file, value, "with");
    links->shares = ls_yaml_member_text(file, value, "shares");
    const char *name = ls_yaml_member_text(file, value, "name");
    if (!name)
        return LS_OK;
    const size_t length = strlen(name);
    if (!length || length >= sizeof o->name || name[strspn(name, allowed)])
        return ls_yaml_refuse(
            file, "name: '%.40s' is not a valid name; use 1 to %zu letters, digits, '.', '_', '-'",
            name, sizeof o->name - 1);
    memcpy(o->name, name, length + 1);
    return LS_OK;
}

static ls_status read_mapping(ls_yaml_file *file, const ls_layer *layer, struct fy_node *value,
                              ls_layer_options *o, ls_graph_links *links)
{
    const char *keys[OPTIONS + LINKS + 1] = {NULL};
    size_t count = 0;
    for (size_t i = 0; i < OPTIONS; i++)
        if (has(&options[i], layer))
            keys[count++] = options[i].key;
    keys[count++] = "name";
    keys[count++] = "from";
    if (layer->inputs + layer->more_inputs > 1)
        keys[count++] = "with";
    keys[count++] = "shares";
    LS_TRY(ls_yaml_check_keys(file, value, keys));
    LS_TRY(read_links(file, value, o, links));
    for (size_t i = 0; i < OPTIONS; i++) {
        struct fy_node *node = ls_yaml_member(file, value, options[i].key);
        if (node)
            LS_TRY(read_option(file, node, &options[i], o));
    }
    return LS_OK;
}

ls_status ls_graph_layer_read(ls_yaml_file *file, const ls_layer *layer, struct fy_node *value,
                              ls_layer_options *o, ls_graph_links *links)
{
    *o = (ls_layer_options){0};
    *links = (ls_graph_links){0};
    if (layer == &ls_layer_embedding || layer == &ls_layer_positions)
        o->deviation = usual_deviation;
    if (value && fy_node_is_mapping(value))
        return read_mapping(file, layer, value, o, links);
    const char *text = ls_yaml_text(file, value);
    if (!value || (text && !*text)) /* "- relu", "- relu:" */
        return LS_OK;
    for (size_t i = 0; i < OPTIONS; i++)
        if (has(&options[i], layer))
            return read_option(file, value, &options[i], o);
    links->with = text;
    if (layer->inputs != 2)
        return ls_yaml_refuse(file, "the layer %s takes no options here; write only its name",
                              layer->name);
    return text ? LS_OK
                : ls_yaml_refuse(file,
                                 "%s takes the layer before and one name, as in `- %s: NAME`; to "
                                 "name both layers, write `- %s: {from: NAME, with: NAME}`",
                                 layer->name, layer->name, layer->name);
}

ls_status ls_graph_shape_read(ls_yaml_file *file, struct fy_node *node, const char *key,
                              ls_shape *out)
{
    void *at = NULL;
    *out = (ls_shape){0};
    if (!fy_node_is_sequence(node)) {
        out->rank = 1;
        return read_whole(file, node, key, &out->size[0]);
    }
    for (struct fy_node *one; (one = fy_node_sequence_iterate(node, &at)); out->rank++) {
        int64_t size;
        LS_TRY(read_whole(file, one, key, &size));
        if (out->rank == LS_SHAPE_RANK)
            return ls_yaml_refuse(file,
                                  "the list has more than %d sizes; give fewer, as in input: [28, "
                                  "28, 1] or window: [3, 3]",
                                  LS_SHAPE_RANK);
        out->size[out->rank] = size;
    }
    return out->rank ? LS_OK
                     : ls_yaml_refuse(file, "the list of sizes is empty; give sizes, as in input: "
                                            "[784] or window: [3, 3]");
}
