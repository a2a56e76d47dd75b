/* SPDX-License-Identifier: MIT */
/*
 * Models: names with sizes, "mlp:784-128-10", that become graphs, and the defaults they are trained
 * with. Adding one is one file with a `const ls_model_family` in it and one line in models.c.
 */
#pragma once

#include "common/base/declared.h"
#include "common/base/registry.h"
#include "common/data/data.h"
#include "common/nn/graph.h"

typedef struct ls_model_family ls_model_family;

enum { LS_MODEL_TEXT = 256 }; /**< bytes of the text of --model */

/** A model with its sizes; owned by its opener (ls_model_close). */
typedef struct ls_model {
    const ls_model_family *family; /**< what all models of its name have */
    int64_t batch;                 /**< global batch size by default; 0 means the family's */
    char name[LS_MODEL_TEXT];      /**< with all sizes: "mlp:784-128-10"; "poly" */
    ls_graph *graph;               /**< owned */
    ls_data_need need;             /**< what it asks of its data */
    double dropout; /**< probability of each of its dropout layers; 0 without dropout */
} ls_model;

/** A node of a model that is a chain: it takes the one before. */
typedef struct ls_model_step {
    const char *layer;        /**< by its name; NULL if the chain ends */
    ls_layer_options options; /**< with which the layer is added */
    int shares;               /**< number of the step whose variables it uses; 0 means its own */
} ls_model_step;

/** A step with options. */
#define LS_STEP(name, ...)                                                                         \
    {                                                                                              \
        .layer = name, .options = { __VA_ARGS__ }                                                  \
    }

/** A family of models: one entry of `lockstep list`. */
struct ls_model_family {
    const char *name;                         /**< as users write it */
    const char *help;                         /**< one line for people */
    const ls_declared_option *const *options; /**< its own, NULL-terminated; NULL if none */
    const char *default_data;                 /**< text of --data */
    const char *default_optimizer;            /**< text of --optimizer */
    double default_rate;                      /**< learning rate */
    int64_t default_batch;                    /**< global batch size */
    int64_t rate_epochs; /**< epochs after which the rate falls to a tenth, repeatedly; or 0 */
    bool convolves;      /**< has convolutions that GPUs can leave to a library */
    double average;      /**< decay of the moving averages that are evaluated; 0 if none */
    /** Without sizes: layers, from input to loss; NULL means `build` builds it. */
    const ls_model_step *chain;
    ls_data_need need; /**< of a chain */
    /** Builds the graph and the need; `sizes` is what follows the colon, or NULL. */
    ls_status (*build)(const char *sizes, ls_model *model);
    /** Writes the model's text with the sizes that samples of that shape give it. NULL means its
     * text says all. */
    void (*fit)(const ls_model *model, const int64_t *shape, char *text, size_t size);
};

/** The global batch size that it is trained with by default. */
int64_t ls_model_batch(const ls_model *model);

extern const ls_registry ls_model_families; /**< of ls_model_family */

/** LS_CODE_USAGE with the valid names, or forms of the sizes, if `text` is invalid. */
ls_status ls_model_open(const char *text, ls_model **out);

/** As above, with dropout layers, if `dropout` is not 0: gpt, mlp. */
ls_status ls_model_open_dropping(const char *text, double dropout, ls_model **out);

/** As above; sizes that `text` leaves open come from the file that `data`, the text of --data,
 * names. */
ls_status ls_model_open_for(const char *text, const char *data, double dropout, ls_model **out);

/** Takes NULL. */
void ls_model_close(ls_model *model);
