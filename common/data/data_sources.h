/* SPDX-License-Identifier: MIT */
/*
 * What the sources of data (mnist.c, synthetic.c, file.c, text.c) share. A source is one file that
 * defines an ls_data_source, and one line in data_sources.c.
 */
#pragma once

#include "common/data/data.h"
#include "common/data/safetensors.h"

#include <stdbool.h>

extern const ls_data_source ls_source_fashion_mnist, ls_source_mnist, ls_source_synthetic,
    ls_source_file, ls_source_text, ls_source_tokens, ls_source_cifar10;

/** Reads one split. The caller frees what is in `split`, also on failure. */
typedef ls_status (*ls_split_reader)(const void *context, bool test, ls_split *split);

/** Reads both splits of `data` at the same time, each on a thread. */
ls_status ls_splits_read(ls_split_reader read, const void *context, ls_data *data);

/** Elements in one sample of input `input`; LS_CODE_USAGE where they do not fit a size. */
ls_status ls_need_width(const ls_data_need *need, int input, size_t *out);

/** Allocates an array of [samples, width]. `where`: its purpose, for a failure. */
ls_status ls_array_allocate(const char *where, ls_array_type type, size_t samples, size_t width,
                            ls_array *array);

/** A text as numbers, bytes or, `wide`, 16 bits little-endian. `source`: the data source's name;
 * `where`: the text's file or directory. */
typedef struct ls_token_stream {
    const char *source, *where;
    const uint8_t *bytes;
    size_t count; /**< tokens */
    bool wide;
} ls_token_stream;

/** The windows of need->targets tokens one after the other, and the next tokens as targets.
 * LS_CODE_MISSING for a token outside of the model's vocabulary, and a text shorter than a
 * window. */
ls_status ls_split_windows(const ls_token_stream *stream, const ls_data_need *need,
                           ls_split *split);

/** Gives `file` to `data`, which closes it; the float32 arrays of the splits lie in it. */
void ls_data_adopt(ls_data *data, ls_tensor_file *file);
