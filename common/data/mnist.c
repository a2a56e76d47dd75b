/* SPDX-License-Identifier: MIT */
/*
 * MNIST's layout of files: Fashion-MNIST, which Debian packages, and MNIST itself from a directory.
 * Four IDX files, plain or gz (the plain one if both exist): images [N,28,28] and labels [N] for
 * training and for testing. Images stay bytes; labels become int32, each checked. Left out: images
 * of other sizes.
 */
#include "common/data/data_sources.h"
#include "common/data/idx.h"
#include "common/data/raw.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 28, PIXELS = SIDE * SIDE, CLASSES = 10, NAME_BYTES = 600 };

/* A data set with this layout, and where to get it. */
typedef struct layout {
    const char *directory; /* default; overridden by the argument */
    const char *hint;      /* how to get the files */
    int classes;           /* of the model */
} layout;

static const char *const images_names[2] = {"train-images-idx3-ubyte", "t10k-images-idx3-ubyte"};
static const char *const labels_names[2] = {"train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte"};

/* Reads DIR/NAME, or DIR/NAME.gz; the path that was read goes to `path`. */
static ls_status read_idx(const layout *from, const char *name, char path[NAME_BYTES], ls_idx *out)
{
    snprintf(path, NAME_BYTES, "%s/%s", from->directory, name);
    if (access(path, F_OK) != 0) {
        strcat(path, ".gz"); /* fits: directories have at most 511 bytes */
        if (access(path, F_OK) != 0)
            return ls_fail(LS_CODE_MISSING, "data set", path, "%s; %s",
                           errno == ENOENT ? "there is no such file, with or without .gz"
                                           : strerror(errno),
                           from->hint);
    }
    return ls_idx_read(path, out);
}

/* The labels of `path` into the split's target. */
static ls_status take_labels(const layout *from, const char *path, const ls_idx *labels,
                             ls_split *split)
{
    if (labels->rank != 1)
        return ls_fail(LS_CODE_MISSING, "data set", path,
                       "this file has %d dimensions, but a file of labels has 1; %s", labels->rank,
                       from->hint);
    if ((size_t)labels->shape[0] != split->samples)
        return ls_fail(LS_CODE_MISSING, "data set", path,
                       "this file has %lld labels, but the file of images has %zu images; use two "
                       "files of the same data set",
                       (long long)labels->shape[0], split->samples);
    LS_TRY(ls_array_allocate(path, LS_ARRAY_INT32, split->samples, 1, &split->target));
    int32_t *target = split->target.data;
    for (size_t i = 0; i < split->samples; i++) {
        if (labels->data[i] >= from->classes)
            return ls_fail(
                labels->data[i] < CLASSES ? LS_CODE_USAGE : LS_CODE_MISSING, "data set", path,
                "label %d at index %zu is not one of the model's %d classes, numbered from 0; %s",
                labels->data[i], i, from->classes,
                labels->data[i] < CLASSES ? "use a model with 10 outputs" : from->hint);
        target[i] = labels->data[i];
    }
    return LS_OK;
}

static ls_status read_split(const void *context, bool test, ls_split *split)
{
    const layout *from = context;
    char path[NAME_BYTES];
    ls_idx images, labels;
    LS_TRY(read_idx(from, images_names[test], path, &images));
    split->input[0] = (ls_array){.type = LS_ARRAY_UINT8, .width = PIXELS, .data = images.data};
    split->samples = (size_t)images.shape[0];
    if (images.rank != 3 || images.shape[1] != SIDE || images.shape[2] != SIDE)
        return ls_fail(LS_CODE_MISSING, "data set", path,
                       "this file does not have images of %dx%d pixels; %s", SIDE, SIDE,
                       from->hint);
    LS_TRY(read_idx(from, labels_names[test], path, &labels));
    ls_status status = take_labels(from, path, &labels, split);
    free(labels.data);
    return status;
}

static ls_status read_layout(layout from, const char *argument, const ls_data_need *need,
                             ls_data *data)
{
    size_t width;
    LS_TRY(ls_need_width(need, 0, &width));
    if (need->inputs != 1 || width != PIXELS || need->classes < 1 || need->targets)
        return ls_fail(LS_CODE_USAGE, "--data", data->name,
                       "this data set has images of %dx%d pixels in 10 classes, but the model "
                       "takes %d input%s of %zu values and has %d classes; use a model that takes "
                       "784 values and has 10 classes",
                       SIDE, SIDE, need->inputs, need->inputs == 1 ? "" : "s", width,
                       need->classes);
    if (argument)
        from.directory = argument;
    from.classes = need->classes;
    snprintf(data->path, sizeof data->path, "%s", from.directory);
    return ls_splits_read(read_split, &from, data);
}

static ls_status read_fashion(const char *argument, const ls_data_need *need, ls_data *data)
{
    const layout from = {
        .directory = "/usr/share/datasets/fashion-mnist",
        .hint = "install the Debian package dataset-fashion-mnist, name another directory with "
                "--data fashion-mnist:DIR, or use --data synthetic",
    };
    return read_layout(from, argument, need, data);
}

static ls_status read_mnist(const char *argument, const ls_data_need *need, ls_data *data)
{
    const layout from = {.hint = "name the directory of MNIST's four files with --data mnist:DIR, "
                                 "or use --data fashion-mnist or synthetic"};
    if (!argument)
        return ls_fail(
            LS_CODE_USAGE, "--data", data->name,
            "the directory of MNIST's files is missing; use --data mnist:DIR, where DIR has "
            "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
            "t10k-labels-idx1-ubyte (plain or .gz), or use --data fashion-mnist or synthetic");
    return read_layout(from, argument, need, data);
}

const ls_data_source ls_source_fashion_mnist = {
    .name = "fashion-mnist",
    .help = "70,000 images of clothes, 28x28, 10 classes: Debian package dataset-fashion-mnist, or "
            "fashion-mnist:DIR",
    .read = read_fashion,
};

const ls_data_source ls_source_mnist = {
    .name = "mnist",
    .help = "files in the layout of MNIST, plain or gz, which no package brings: mnist:DIR",
    .read = read_mnist,
};
