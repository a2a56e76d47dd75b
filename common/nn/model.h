/* SPDX-License-Identifier: MIT */
/*
 * Models: names with sizes, "mlp:784-128-10", that become graphs; with what they are trained by
 * default. Adding one is one file with a `const ls_model_kind` in it and one line in model.c.
 */
#ifndef LS_COMMON_NN_MODEL_H
#define LS_COMMON_NN_MODEL_H

#include "common/data/data.h"
#include "common/nn/graph.h"

typedef struct ls_model_kind ls_model_kind;

typedef struct ls_model {
    const ls_model_kind *kind;
    char name[128]; /**< with all sizes: "mlp:784-128-10"; "poly" */
    ls_graph *graph;
    ls_data_need need;
} ls_model;

struct ls_model_kind {
    const char *name;
    const char *help;
    const char *default_data;      /**< text of --data */
    const char *default_optimizer; /**< text of --optimizer */
    double default_rate;
    int64_t default_batch;
    int64_t rate_epochs; /**< the learning rate goes down to a tenth every so many; 0: never */
    double average;      /**< decay of the moving averages that are evaluated; 0: none */
    /** Builds the graph and the need; `sizes` is what follows the colon, or NULL. */
    ls_status (*build)(const char *sizes, ls_model *model);
    /** Writes the text of the model for samples of that shape. NULL: its text says all. */
    void (*fit)(const ls_model *model, const int64_t *shape, char *text, size_t size);
};

/** NULL-terminated. */
const ls_model_kind *const *ls_model_kinds(void);

/** LS_CODE_USAGE with the valid names, or forms of the sizes, where `text` is none. */
ls_status ls_model_open(const char *text, ls_model **out);

/** The same, of what `data`, the text of --data, brings: sizes that `text` leaves to a file are
 *  those that it has. */
ls_status ls_model_open_for(const char *text, const char *data, ls_model **out);

/** Takes NULL. */
void ls_model_close(ls_model *model);

#endif
