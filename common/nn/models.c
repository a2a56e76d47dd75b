/* SPDX-License-Identifier: MIT */
/* The table of models; see model.h. */
#include "common/nn/models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const void *const families[] = {
    &ls_model_mlp,     &ls_model_poly,   &ls_model_cnn, &ls_model_twin_lstm, &ls_model_lstm_stack,
    &ls_model_cifar10, &ls_model_resnet, &ls_model_gpt, &ls_model_graph,     NULL,
};
const ls_registry ls_model_families = {"model", families};

static ls_status build_chain(const char *sizes, ls_model *model)
{
    int node = -1;
    if (sizes)
        return ls_fail(LS_CODE_USAGE, "model", model->family->name,
                       "this model takes no sizes; give the name alone");
    snprintf(model->name, sizeof model->name, "%s", model->family->name);
    model->need = model->family->need;
    for (const ls_model_step *s = model->family->chain; s->layer; s++)
        LS_TRY(ls_graph_add(model->graph, s->layer, (int[]){node, -1}, s->shares ? s->shares : -1,
                            &s->options, &node));
    return LS_OK;
}

int64_t ls_model_batch(const ls_model *model)
{
    return model->batch ? model->batch : model->family->default_batch;
}

ls_status ls_model_open(const char *text, ls_model **out)
{
    return ls_model_open_dropping(text, 0, out);
}

ls_status ls_model_open_dropping(const char *text, double dropout, ls_model **out)
{
    const ls_model_family *family = ls_registry_find(&ls_model_families, text, strcspn(text, ":"));
    if (!family)
        return ls_registry_refuse(&ls_model_families, text);
    ls_model *model = calloc(1, sizeof *model);
    if (!model)
        return ls_fail_memory("model", sizeof *model);
    model->family = family;
    model->dropout = dropout;
    const char *colon = strchr(text, ':');
    ls_status status = ls_graph_open(&model->graph);
    if (!status)
        status = (family->chain ? build_chain : family->build)(colon ? colon + 1 : NULL, model);
    if (status) {
        ls_model_close(model);
        return status;
    }
    ls_graph_number_units(model->graph);
    *out = model;
    return LS_OK;
}

ls_status ls_model_open_for(const char *text, const char *data, double dropout, ls_model **out)
{
    int64_t shape[LS_DATA_RANK];
    char fitted[sizeof(((ls_model *)0)->name)];
    ls_model *model;
    LS_TRY(ls_model_open_dropping(text, dropout, &model));
    *out = model;
    const char *sizes = strchr(text, ':');
    if (!model->family->fit || (sizes && strchr(sizes, '-')) ||
        !ls_data_peek(data, model->need.rank[0], shape))
        return LS_OK;
    model->family->fit(model, shape, fitted, sizeof fitted);
    ls_model_close(model);
    *out = NULL;
    return ls_model_open_dropping(fitted, dropout, out);
}

void ls_model_close(ls_model *model)
{
    if (!model)
        return;
    ls_graph_close(model->graph);
    free(model);
}
