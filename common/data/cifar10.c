/* SPDX-License-Identifier: MIT */
/*
 * CIFAR-10's binary files: records of 3073 bytes, a label and 32x32 pixels in red, green, blue;
 * data_batch_1.bin to data_batch_5.bin for training, test_batch.bin for testing, with any number of
 * records. Images stay bytes; gathering a batch crops them (kernel_layers.h). datasets/fetch.sh
 * downloads the authors' files to DIRECTORY in the working directory.
 */
#include "common/data/data_sources.h"
#include "common/data/raw.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 32, COLOURS = 3, PIXELS = COLOURS * SIDE * SIDE, RECORD = 1 + PIXELS, CLASSES = 10 };

#define DIRECTORY "datasets/cifar-10-batches-bin"

static const char what[] = "cifar10";

/* Appends one file's records to the split, which has room for them. */
static ls_status take_records(const ls_raw_file *file, size_t records, ls_split *split)
{
    uint8_t *pixels = (uint8_t *)split->input[0].data + split->samples * PIXELS;
    int32_t *labels = (int32_t *)split->target.data + split->samples;
    for (size_t i = 0; i < records; i++) {
        uint8_t label;
        LS_TRY(ls_raw_read(file, &label, 1));
        LS_TRY(ls_raw_read(file, pixels + i * PIXELS, PIXELS));
        if (label >= CLASSES)
            return ls_fail(LS_CODE_MISSING, what, file->path,
                           "record %zu has label %d, but CIFAR-10 has %d classes, numbered from 0; "
                           "use CIFAR-10's original files",
                           i, label, CLASSES);
        labels[i] = label;
    }
    split->samples += records;
    return LS_OK;
}

static ls_status open_file(const char *directory, const char *name, char path[640],
                           ls_raw_file *file)
{
    snprintf(path, 640, "%s/%s", directory, name);
    if (access(path, R_OK) != 0)
        return ls_fail(
            LS_CODE_MISSING, what, path,
            "cannot be read: %s; download CIFAR-10's files with datasets/fetch.sh cifar10, name "
            "their folder with --data cifar10:DIR, or use --data synthetic",
            strerror(errno));
    LS_TRY(ls_raw_open(what, path, file));
    if (file->size && file->size % RECORD == 0)
        return LS_OK;
    const size_t size = file->size;
    ls_raw_close(file);
    if (size && size % (RECORD + 1) == 0)
        return ls_fail(LS_CODE_MISSING, what, path,
                       "this file of %zu bytes has records of %d bytes, as CIFAR-100 has; use "
                       "CIFAR-10's files, whose records have %d bytes",
                       size, RECORD + 1, RECORD);
    return ls_fail(LS_CODE_MISSING, what, path,
                   "this file has %zu bytes, not one or more whole records of %d bytes; "
                   "download an intact copy",
                   size, RECORD);
}

static ls_status read_files(const char *directory, const char *const *names, int count,
                            ls_split *split)
{
    char paths[5][640];
    ls_raw_file files[5];
    size_t records = 0;
    int opened = 0;
    ls_status status = LS_OK;
    for (; opened < count && !status; opened += !status) {
        status = open_file(directory, names[opened], paths[opened], &files[opened]);
        if (!status)
            records += files[opened].size / RECORD;
    }
    if (!status)
        status = ls_array_allocate(what, LS_ARRAY_IMAGE, records, PIXELS, &split->input[0]);
    split->input[0].side = SIDE;
    if (!status)
        status = ls_array_allocate(what, LS_ARRAY_INT32, records, 1, &split->target);
    for (int i = 0; i < opened; i++) {
        if (!status)
            status = take_records(&files[i], files[i].size / RECORD, split);
        ls_raw_close(&files[i]);
    }
    return status;
}

static ls_status read_split(const void *context, bool test, ls_split *split)
{
    static const char *const train[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                        "data_batch_4.bin", "data_batch_5.bin"};
    static const char *const tests[] = {"test_batch.bin"};
    return read_files(context, test ? tests : train, test ? 1 : 5, split);
}

static ls_status read_cifar10(const char *argument, const ls_data_need *need, ls_data *data)
{
    const int64_t *shape = need->shape[0];
    if (need->inputs != 1 || need->classes != CLASSES || need->rank[0] != 3 ||
        shape[0] != COLOURS || shape[1] != shape[2] || shape[1] > SIDE)
        return ls_fail(LS_CODE_USAGE, "--data", data->name,
                       "this data set has colour images of %dx%d pixels in %d classes, which do "
                       "not fit the model; use --model cifar10 or resnet, or another data set",
                       SIDE, SIDE, CLASSES);
    const char *directory = argument ? argument : DIRECTORY;
    snprintf(data->path, sizeof data->path, "%s", directory);
    return ls_splits_read(read_split, directory, data);
}

const ls_declared_option ls_option_augment = {
    "augment",
    "yes|no",
    "yes",
    "",
    "yes: crops and flips images at random; no: takes the centre",
    .type = LS_DECLARED_SWITCH};

const ls_data_source ls_source_cifar10 = {
    .name = "cifar10",
    .help = "CIFAR-10's binary files, 32x32 in colour, cropped to the model's size: "
            "datasets/fetch.sh cifar10 downloads them, or cifar10:DIR",
    .options = (const ls_declared_option *const[]){&ls_option_augment, NULL},
    .read = read_cifar10,
};
