/* SPDX-License-Identifier: MIT */
/*
 * Fuzzes the reader of models from files (--model graph:FILE): any text becomes a model or is
 * refused. Nothing is computed: what makes operations, and reads data, stands in here.
 */
#include "bench/case/graph_file.h"
#include "common/nn/layer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define STAND_IN(entry, args)                                                                      \
    ls_status ls_layer_put_##entry(const ls_layer_site *site, const args *arguments,               \
                                   ls_op_list *ops)                                                \
    {                                                                                              \
        (void)site;                                                                                \
        (void)arguments;                                                                           \
        (void)ops;                                                                                 \
        abort();                                                                                   \
    }
LS_KERNEL_ENTRIES(STAND_IN)

static const ls_data_source synthetic = {.name = "synthetic", .help = "generated"};
static const ls_data_source text = {.name = "text", .help = "text"};
static const void *const sources[] = {&synthetic, &text, NULL};
const ls_registry ls_data_sources = {"data", sources};

bool ls_data_peek(const char *spec, int rank, int64_t *shape)
{
    (void)spec;
    (void)rank;
    (void)shape;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ls_model *model = NULL;
    char *copy = malloc(size + 1);
    if (!copy)
        return 0;
    if (size)
        memcpy(copy, data, size);
    copy[size] = 0;
    ls_status status = ls_graph_text_open("own.yaml", copy, size, &model);
    if (!status) {
        if (!model->graph->variables.elements)
            abort();
        ls_model_close(model);
    } else if (!*ls_status_text(status))
        abort();
    ls_status_free(status);
    return 0;
}
