/* SPDX-License-Identifier: MIT */
/*
 * Models from a file: `--model graph:FILE.yaml` reads a model from a listing of its layers, in
 * YAML:
 *     data: fashion-mnist          # text of --data where that is not given
 *     batch: 256                   # as data; and optimizer (adam), lr (0.001), batch (256)
 *     input: [784]                 # sizes of a sample; of two inputs: [[140, 256], [140, 256]]
 *     layers:                      # each takes the one before; the last is the loss
 *       - dense: 128               # a layer of `lockstep list layers` with its first option,
 *       - relu                     # or none,
 *       - dense: {units: 10, decay: 1e-4}    # or several
 *       - softmax_cross_entropy
 * Options of layers: graph_layer.c, and datasets/models/README.md. Besides, each may have
 *     name    of it and its variables; else layer and number, "dense0", in the order of the file
 *     from    the layer above that it takes instead of the one before; an input is "input0"
 *     with    its second input: `- add: relu0` is the sum of the layer before and relu0
 *     shares  the layer whose variables it uses
 * First values follow the rules of registered models. A file that lists a registered model's layers
 * has its bits.
 *
 * What identifies such a model in a row is its path, as given, and the hash of the file's text.
 */
#pragma once

#include "common/nn/model.h"

/** Whether the text of --model names such a file. */
bool ls_graph_file_is(const char *text);

/** LS_CODE_MISSING where it cannot be read; LS_CODE_USAGE where it is wrong, with line and column.
 */
ls_status ls_graph_file_open(const char *text, ls_model **out);

/** The file's text, owned by the model; NULL if it is from no file. */
const char *ls_graph_file_text(const ls_model *model);

/** Hash of the text; 0 if it is from no file. */
uint64_t ls_graph_file_digest(const ls_model *model);
