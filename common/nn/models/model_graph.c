/* SPDX-License-Identifier: MIT */
/*
 * graph: a model of the user's own, a YAML file that lists its layers. The program reads it
 * (bench/case/graph_file.h), and what the file says replaces the defaults below; the library has no
 * reader of YAML.
 */
#include "common/nn/models.h"

static ls_status build(const char *sizes, ls_model *model)
{
    (void)model;
    return ls_fail(
        LS_CODE_USAGE, "model", "graph",
        "%s%sa program that uses the library cannot read a model from a file; build the graph "
        "with ls_graph_add",
        sizes ? sizes : "", sizes ? ": " : "");
}

const ls_model_family ls_model_graph = {
    .name = "graph",
    .help = "your own: graph:FILE.yaml, a list of layers (datasets/models/README.md)",
    .options = (const ls_declared_option *const[]){&ls_option_sync_bn, NULL},
    .default_data = "",
    .default_optimizer = "adam",
    .default_rate = 0.001,
    .default_batch = 256,
    .convolves = true,
    .build = build,
};
