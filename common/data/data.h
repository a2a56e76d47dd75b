/* SPDX-License-Identifier: MIT */
/*
 * Data sets: whole in host memory, images as bytes, read and checked before the first step.
 * Batches are gathered from them by an operation of the device's own queue (kernel.h, gather).
 */
#pragma once

#include "common/base/declared.h"
#include "common/base/registry.h"
#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

/** What an array's elements are. */
typedef enum ls_array_type {
    LS_ARRAY_UINT8,
    LS_ARRAY_FLOAT32,
    LS_ARRAY_INT32,
    LS_ARRAY_IMAGE,  /**< bytes [channels, side, side], cropped to the model's size */
    LS_ARRAY_ONE_HOT /**< bytes that stand for 256 values: 1 at that number, else 0 */
} ls_array_type;

enum { LS_DATA_INPUTS = 2, LS_DATA_RANK = 4 };

/** One array of a split: `samples` rows of `width` elements. */
typedef struct ls_array {
    ls_array_type type; /**< of one element */
    int64_t width;      /**< elements of one sample */
    int64_t side;       /**< LS_ARRAY_IMAGE: height and width; else 0 */
    void *data;         /**< [samples, width]; NULL if not there */
} ls_array;

/** Bytes of `samples` samples; 0 if the array is absent. */
size_t ls_array_bytes(const ls_array *array, size_t samples);

/** Samples for training, or for testing; 0 samples if there are none. */
typedef struct ls_split {
    size_t samples;                 /**< rows of each array */
    ls_array input[LS_DATA_INPUTS]; /**< x0, x1 */
    ls_array target; /**< classes: int32 [samples, 1 or T], each in [0, classes); else float32 */
} ls_split;

/** What a model asks of its data. With `targets` T the input is [T] tokens, whole numbers below
 * `classes`, and the target a label at each; with 0 a sample has one label, or real target. */
typedef struct ls_data_need {
    int inputs;                                  /**< 1 or 2 */
    int rank[LS_DATA_INPUTS];                    /**< of one sample of each input */
    int64_t shape[LS_DATA_INPUTS][LS_DATA_RANK]; /**< of one sample: mlp {784}; poly {1} */
    int classes;                                 /**< labels 0..classes-1; 0 means a real target */
    int64_t targets;       /**< T if input and target are [T] tokens; else 0 */
    int64_t border;        /**< pixels of zeros around images that are cropped to the shape */
    const char *synthetic; /**< which generator: "classes", "polynomial", "windows",
                                "tokens" */
} ls_data_need;

/** A data set in memory; owned by its opener (ls_data_close). */
typedef struct ls_data {
    char name[32];        /**< of the source: "fashion-mnist" */
    char path[512];       /**< where it was read from; "" for synthetic */
    ls_split train, test; /**< to train on, and to evaluate; owned */
    uint64_t digest;      /**< XXH3 of the training arrays' bits */
    uint64_t read_ns;     /**< time it took to read and check */
} ls_data;

/**
 * Opens `spec`, the text of --data: "fashion-mnist", "mnist", "synthetic", "synthetic:60000",
 * "file:PATH", "fashion-mnist:DIR". LS_CODE_USAGE for an unknown name (lists the valid ones) or
 * one that does not fit the need; LS_CODE_MISSING for a missing or broken file, naming it and the
 * Debian package that brings it. The training and test files are read at the same time.
 */
ls_status ls_data_open(const char *spec, const ls_data_need *need, ls_data **out);

/** Bytes of host memory that the data set takes, if they are known before it is read; else 0. */
double ls_data_bytes(const char *spec, const ls_data_need *need);

/** Whether `spec` is "file:PATH" of an intact file whose x0 is [N, shape...] with `rank` axes
 * besides N; fills `shape` then. Does not say why not. Reads the file. */
bool ls_data_peek(const char *spec, int rank, int64_t *shape);

/** What to do with a file of another format. */
#define LS_DATA_CONVERTER                                                                          \
    "convert it to file:PATH.safetensors (datasets/README.md shows how), or use --data synthetic"

/** The format that the end of a file's name stands for, where it is one that is not read: "CSV";
 * else NULL. */
const char *ls_data_foreign(const char *path);

/** Takes NULL. */
void ls_data_close(ls_data *data);

/** A kind of source: one entry of `lockstep list`. */
typedef struct ls_data_source {
    const char *name;                         /**< as users write it */
    const char *help;                         /**< one line for people */
    const ls_declared_option *const *options; /**< its own, NULL-terminated; NULL if none */
    /** `argument` is what follows the colon, or NULL. Fills train and test, and path. */
    ls_status (*read)(const char *argument, const ls_data_need *need, ls_data *data);
    /** Bytes that `read` allocates for the arrays; 0 for a bad argument. NULL if only reading the
     * files tells. */
    double (*bytes)(const char *argument, const ls_data_need *need);
} ls_data_source;

extern const ls_registry ls_data_sources; /**< of ls_data_source */

/** How images that are larger than the model's are cropped: cifar10.c. */
extern const ls_declared_option ls_option_augment;
