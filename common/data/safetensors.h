/* SPDX-License-Identifier: MIT */
/*
 * safetensors files of float32 tensors: parameters, and any user's data. Tensors of bf16 (dtype
 * BF16) are read as float32.
 *
 * Format (github.com/huggingface/safetensors): 8 bytes little-endian length of the header, the
 * header as JSON {name: {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}, ...,
 * "__metadata__": {..}}, then the bytes that the offsets count from. An index, as transformers
 * writes it for a model in several files (its shards), is JSON, {"weight_map": {name: file in the
 * same folder, ...}, ...}, and stands for all its files.
 */
#pragma once

#include "common/base/range.h"
#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { LS_TENSOR_RANK = 8 };

typedef struct ls_tensor {
    const char *name;
    const char *file; /**< path of the file that it was read from */
    int rank;
    int64_t shape[LS_TENSOR_RANK];
    const float *data; /**< [product of shape]; NULL if they were not read */
    size_t count;      /**< product of shape */
} ls_tensor;

typedef struct ls_tensor_file ls_tensor_file;

/**
 * Opens a file, or all shards of an index, and reads their headers, but no data: `data` is NULL.
 * Tensors for whose names `passed` (or NULL) is true are left out. LS_CODE_MISSING, naming the file
 * and the tensor, for: a file that is not there or too short, or of another format; a header longer
 * than the file; JSON that does not parse; a dtype other than F32 and BF16; a shape that overflows,
 * is negative, or does not match its range; ranges that overlap, leave a gap, or lie outside the
 * file; a name twice; a tensor that is not in the shard of the index, or in another one. Nothing is
 * allocated by an unchecked number.
 */
ls_status ls_tensors_open(const char *path, bool (*passed)(const char *name), ls_tensor_file **out);

/** Reads elements `range` of a tensor of an open file. LS_CODE_MISSING where the file is shorter
 * by now. */
ls_status ls_tensor_part(const ls_tensor *tensor, ls_range range, float *out);

/** Opens a file, reads all data into memory, and closes it. */
ls_status ls_tensors_read(const char *path, ls_tensor_file **out);

size_t ls_tensors_count(const ls_tensor_file *file);
const ls_tensor *ls_tensors_at(const ls_tensor_file *file, size_t index);

/** NULL where there is none of this name. */
const ls_tensor *ls_tensors_find(const ls_tensor_file *file, const char *name);

/** Takes NULL. */
void ls_tensors_close(ls_tensor_file *file);

/** Writes a file (whole_file.h), so that a full disk or a kill leaves the old one. */
ls_status ls_tensors_write(const char *path, const ls_tensor *tensors, size_t count);

/** As above, but `put` writes all tensors' data to the stream, one after the other. */
ls_status ls_tensors_write_by(const char *path, const ls_tensor *tensors, size_t count,
                              ls_status (*put)(FILE *stream, void *context), void *context);

/** The first bytes of such a file, which its tensors' data follow in this order: the length of the
 * header, and the header, padded to a multiple of 8. The caller frees `out`. */
ls_status ls_tensors_header(const char *path, const ls_tensor *tensors, size_t count, char **out,
                            size_t *bytes);

/** Whether ls_tensors_write could write so many bytes: its failure, detected before there is much
 * to lose. */
ls_status ls_tensors_writable(const char *path, uint64_t bytes);
