/* SPDX-License-Identifier: MIT */
/* The table of models; see model.h. */
#include "common/nn/model.h"

#include "common/nn/models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ls_model_kind *const kinds[] = {
    &ls_model_mlp,
    &ls_model_poly,
    &ls_model_cnn,
    &ls_model_twin_lstm,
    &ls_model_lstm_stack,
    &ls_model_cifar10,
    &ls_model_resnet,
#ifdef LOCKSTEP_HOOKS
    &ls_model_tied,
#endif
    NULL,
};

const ls_model_kind *const *ls_model_kinds(void)
{
    return kinds;
}

static ls_status find_kind(const char *text, const ls_model_kind **out)
{
    size_t length = strcspn(text, ":");
    char names[256] = "";
    size_t used = 0;
    for (size_t i = 0; kinds[i]; i++) {
        if (strlen(kinds[i]->name) == length && strncmp(kinds[i]->name, text, length) == 0) {
            *out = kinds[i];
            return LS_OK;
        }
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 kinds[i]->name);
    }
    return ls_fail(LS_CODE_USAGE, "model", text, "no model of this name; models are %s", names);
}

ls_status ls_model_open(const char *text, ls_model **out)
{
    const ls_model_kind *kind;
    LS_TRY(find_kind(text, &kind));
    ls_model *model = calloc(1, sizeof *model);
    if (!model)
        return ls_fail_memory("model", sizeof *model);
    model->kind = kind;
    const char *colon = strchr(text, ':');
    ls_status status = ls_graph_open(&model->graph);
    if (!status)
        status = kind->build(colon ? colon + 1 : NULL, model);
    if (status) {
        ls_model_close(model);
        return status;
    }
    *out = model;
    return LS_OK;
}

ls_status ls_model_open_for(const char *text, const char *data, ls_model **out)
{
    int64_t shape[LS_DATA_RANK];
    char fitted[sizeof(((ls_model *)0)->name)];
    ls_model *model;
    LS_TRY(ls_model_open(text, &model));
    *out = model;
    const char *sizes = strchr(text, ':');
    if (!model->kind->fit || (sizes && strchr(sizes, '-')) ||
        !ls_data_peek(data, model->need.rank[0], shape))
        return LS_OK;
    model->kind->fit(model, shape, fitted, sizeof fitted);
    ls_model_close(model);
    *out = NULL;
    return ls_model_open(fitted, out);
}

void ls_model_close(ls_model *model)
{
    if (!model)
        return;
    ls_graph_close(model->graph);
    free(model);
}
