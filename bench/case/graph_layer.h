/* SPDX-License-Identifier: MIT */
/* The options of a layer in a model's file (graph_file.h): one table of keys. */
#pragma once

#include "bench/case/yaml_file.h"
#include "common/nn/layer.h"

enum { LS_GRAPH_SIZE_MOST = 1 << 20 }; /**< of an axis, and of units */

/** Keys of every layer: its name, its inputs, and whose variables it uses. */
typedef struct ls_graph_links {
    const char *from;   /**< first input; NULL means the layer before */
    const char *with;   /**< second input; NULL if none is named */
    const char *shares; /**< NULL means its own variables */
} ls_graph_links;

/**
 * Reads what follows "dense:", NULL where nothing does: a mapping of options, or the value of the
 * layer's first one. Texts are borrowed from the document. LS_CODE_USAGE, with the position, for a
 * key that the layer does not have and for an invalid value.
 */
ls_status ls_graph_layer_read(ls_yaml_file *file, const ls_layer *layer, struct fy_node *value,
                              ls_layer_options *options, ls_graph_links *links);

/** A shape, [3,32,32], or a whole number, which is one axis: the value of that key. */
ls_status ls_graph_shape_read(ls_yaml_file *file, struct fy_node *node, const char *key,
                              ls_shape *out);
