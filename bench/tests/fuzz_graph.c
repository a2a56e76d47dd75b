/* SPDX-License-Identifier: MIT */
/*
 * Fuzzes the reader of models from files (--model graph:FILE): any text becomes a model or is
 * refused. Nothing is computed: what makes operations, and reads data, stands in here.
 */
#include "bench/case/graph_file.h"
#include "common/nn/layer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

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
    char name[64];
    const int file = memfd_create("own.yaml", 0);
    if (file < 0 || write(file, data, size) != (ssize_t)size)
        abort();
    snprintf(name, sizeof name, "graph:/proc/self/fd/%d", file);
    ls_status status = ls_graph_file_open(name, &model);
    close(file);
    if (!status) {
        if (!model->graph->variables.elements)
            abort();
        ls_model_close(model);
    } else if (!*ls_status_text(status))
        abort();
    ls_status_free(status);
    return 0;
}
