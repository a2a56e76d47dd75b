/* SPDX-License-Identifier: MIT */
/*
 * tokens:DIR: a text as tokens, train.bin to train on and val.bin to test on, 16-bit little-endian
 * numbers without a header, as nanoGPT writes them. Sample n is the window of tokens n T to
 * n T + T - 1; its targets are the tokens one further on. What is left after the last window is not
 * used. Files of wider tokens are noticed by their zeros, as far as tokens are below 65,536.
 */
#include "common/data/data_sources.h"
#include "common/data/raw.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char what[] = "tokens";

static uint32_t token_at(const ls_token_stream *s, size_t i)
{
    return s->wide ? s->bytes[2 * i] | (uint32_t)s->bytes[2 * i + 1] << 8 : s->bytes[i];
}

ls_status ls_split_windows(const ls_token_stream *s, const ls_data_need *need, ls_split *split)
{
    const size_t T = (size_t)need->targets;
    if (s->count <= T)
        return ls_fail(LS_CODE_MISSING, s->source, s->where,
                       "there are %zu tokens, too few for one window of %zu tokens and the token "
                       "after the window; use a longer text, or a model with fewer positions",
                       s->count, T);
    split->samples = (s->count - 1) / T;
    LS_TRY(ls_array_allocate(s->source, LS_ARRAY_FLOAT32, split->samples, T, &split->input[0]));
    LS_TRY(ls_array_allocate(s->source, LS_ARRAY_INT32, split->samples, T, &split->target));
    float *x = split->input[0].data;
    int32_t *y = split->target.data;
    for (size_t i = 0; i <= split->samples * T; i++) {
        const uint32_t token = token_at(s, i);
        const size_t at = i < split->samples * T ? i : i - 1; /* the last one is only a target */
        if (token >= (uint32_t)need->classes)
            return ls_fail(LS_CODE_MISSING, s->source, s->where,
                           "token %" PRIu32 " in window %zu at position %zu (both from 0) is "
                           "outside of the model's vocabulary, tokens 0 to %d; use a model with a "
                           "larger vocabulary",
                           token, at / T, at % T, need->classes - 1);
        if (i < split->samples * T)
            x[i] = (float)token;
        if (i)
            y[i - 1] = (int32_t)token;
    }
    return LS_OK;
}

/* Bits of each token as the file seems to be written: more than 16 where every second 16-bit number
 * is 0, and the others do not form a pattern: they have at least three values. */
static int find_bits(const ls_token_stream *s)
{
    enum { LEAST = 32, VALUES = 3 };
    uint32_t values[VALUES];
    size_t count = 0, k;
    bool wider = true;
    for (size_t i = 0; i < s->count; i++) {
        const uint32_t token = token_at(s, i);
        if (i % 2) {
            if (token)
                return 16;
            continue;
        }
        wider = wider && (i % 4 == 0 || !token);
        for (k = 0; k < count && values[k] != token;)
            k++;
        if (k == count && count < VALUES)
            values[count++] = token;
    }
    return s->count < LEAST || count < VALUES ? 16 : wider ? 64 : 32;
}

typedef struct token_files {
    const ls_data_need *need;
    const char *directory;
} token_files;

static ls_status read_split(const void *context, bool test, ls_split *split)
{
    const token_files *files = context;
    char path[600];
    snprintf(path, sizeof path, "%s/%s.bin", files->directory, test ? "val" : "train");
    ls_raw_file raw;
    void *bytes = NULL;
    LS_TRY(ls_raw_open(what, path, &raw));
    ls_status status = LS_OK;
    if (raw.size % 2)
        status = ls_fail(LS_CODE_MISSING, what, path,
                         "this file has an odd number of bytes, %zu; give tokens of 16 bits each",
                         raw.size);
    if (!status)
        status = ls_raw_allocate(path, raw.size, &bytes);
    if (!status)
        status = ls_raw_read(&raw, bytes, raw.size);
    const ls_token_stream stream = {
        .source = what, .where = path, .bytes = bytes, .count = raw.size / 2, .wide = true};
    const int bits = status ? 16 : find_bits(&stream);
    if (bits > 16)
        status = ls_fail(LS_CODE_MISSING, what, path,
                         "of this file's %zu tokens of 16 bits, every other one is 0, so the "
                         "tokens probably have %d bits each; convert the file in Python: "
                         "numpy.fromfile(FILE, \"uint%d\").astype(\"uint16\").tofile(NEW_FILE)",
                         stream.count, bits, bits);
    if (!status)
        status = ls_split_windows(&stream, files->need, split);
    free(bytes);
    ls_raw_close(&raw);
    return status;
}

static ls_status read_tokens(const char *argument, const ls_data_need *need, ls_data *data)
{
    if (!argument)
        return ls_fail(LS_CODE_USAGE, "--data", data->name,
                       "the directory is missing; use --data tokens:DIR with a directory that has "
                       "train.bin and val.bin");
    if (!need->targets)
        return ls_fail(
            LS_CODE_USAGE, "--data", data->name,
            "this data set has windows of tokens, which do not fit the model; use --model gpt");
    snprintf(data->path, sizeof data->path, "%s", argument);
    const token_files files = {need, argument};
    return ls_splits_read(read_split, &files, data);
}

const ls_data_source ls_source_tokens = {
    .name = "tokens",
    .help = "your own text for gpt: tokens:DIR with train.bin and val.bin of 16-bit tokens",
    .read = read_tokens,
};
