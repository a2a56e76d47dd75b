/* SPDX-License-Identifier: MIT */
/*
 * Synthetic data: a function of the sample's number only, the same on every machine and for every
 * --seed, in float32.
 *   polynomial  x uniform in [-10, 10], y = 5 x^2 + 3
 *   classes     the label is uniform; x = 0.25 prototype(label) + 0.75 noise, both uniform in [0,
 * 1]: so x is in [0, 1], and classes overlap for inputs with few values and separate for inputs
 * with many windows     bytes, one-hot, in two windows: two inputs, or the halves of one. Each
 * window has one of 16 sources; half of its bytes, at random, are among its source's 16 values, the
 *               others arbitrary. The label says whether both have the same source; then it is the
 *               least of four drawn, otherwise they are any two
 *   tokens      a sequence: three quarters of its tokens, at random, are 5 t + 7 modulo V of the
 * token t before, the others arbitrary; the target is the next token
 *
 * Training samples have the numbers 0 to N-1; test samples (one sixth as many, rounded up) begin at
 * 100 million, the largest N: no number is in both, and sample i does not depend on N.
 */
#include "common/base/numbers.h"
#include "common/base/random/philox.h"
#include "common/data/data_sources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_SAMPLES = 60000, MAX_SAMPLES = 100000000, TEST_PART = 6 };

static const float prototype_weight = 0.25f, noise_weight = 0.75f;

/* How a split is filled: with samples first to first + split->samples - 1. */
typedef struct generator {
    const char *name;
    ls_status (*fill)(const ls_data_need *need, uint64_t first, ls_split *split);
} generator;

typedef struct request {
    const generator *generator;
    const ls_data_need *need;
    size_t samples;
} request;

static ls_status fill_polynomial(const ls_data_need *need, uint64_t first, ls_split *split)
{
    size_t width;
    LS_TRY(ls_need_width(need, 0, &width));
    if (need->inputs != 1 || width != 1 || need->classes)
        return ls_fail(
            LS_CODE_USAGE, "--data", "synthetic",
            "this data set has the points of a polynomial (a number in, a number out), so "
            "this model cannot be trained on it; use --model poly");
    LS_TRY(ls_array_allocate("synthetic", LS_ARRAY_FLOAT32, split->samples, 1, &split->input[0]));
    LS_TRY(ls_array_allocate("synthetic", LS_ARRAY_FLOAT32, split->samples, 1, &split->target));
    float *x = split->input[0].data, *y = split->target.data;
    ls_random_fill(ls_random_stream(0, "synthetic/x"), first, split->samples, -10, 10, x);
    for (size_t i = 0; i < split->samples; i++)
        y[i] = 5.0f * (x[i] * x[i]) + 3.0f;
    return LS_OK;
}

/* Fills input `input` of every sample, given the labels. */
static ls_status fill_input(const ls_data_need *need, int input, uint64_t first, ls_split *split)
{
    size_t width, last;
    LS_TRY(ls_need_width(need, input, &width));
    ls_array prototypes = {.data = NULL};
    if (!ls_size_multiply(width, 2 * (size_t)MAX_SAMPLES, &last)) /* the noise's index overflows */
        return ls_fail_memory("synthetic", SIZE_MAX);
    LS_TRY(ls_array_allocate("synthetic", LS_ARRAY_FLOAT32, split->samples, width,
                             &split->input[input]));
    LS_TRY(ls_array_allocate("synthetic", LS_ARRAY_FLOAT32, (size_t)need->classes, width,
                             &prototypes));
    char name[40];
    snprintf(name, sizeof name, "synthetic/prototype%d", input);
    float *prototype = prototypes.data;
    ls_random_fill(ls_random_stream(0, name), 0, (size_t)need->classes * width, 0, prototype_weight,
                   prototype);
    snprintf(name, sizeof name, "synthetic/noise%d", input);
    ls_random noise = ls_random_stream(0, name);
    const int32_t *labels = split->target.data;
    float *x = split->input[input].data;
    for (size_t i = 0; i < split->samples; i++, x += width) {
        const float *mean = prototype + (size_t)labels[i] * width;
        ls_random_fill(noise, (first + i) * width, width, 0, noise_weight, x);
        for (size_t j = 0; j < width; j++)
            x[j] += mean[j];
    }
    free(prototype);
    return LS_OK;
}

static ls_status fill_classes(const ls_data_need *need, uint64_t first, ls_split *split)
{
    if (need->classes < 1)
        return ls_fail(
            LS_CODE_USAGE, "--data", "synthetic",
            "synthetic data have classes, but the model has none; use a model with classes");
    LS_TRY(ls_array_allocate("synthetic", LS_ARRAY_INT32, split->samples, 1, &split->target));
    ls_random random = ls_random_stream(0, "synthetic/label");
    int32_t *labels = split->target.data;
    for (size_t i = 0; i < split->samples; i++)
        labels[i] = (int32_t)(ls_random_bits(random, first + i) % (uint32_t)need->classes);
    for (int input = 0; input < need->inputs; input++)
        LS_TRY(fill_input(need, input, first, split));
    return LS_OK;
}

enum { WINDOW_SOURCES = 16, WINDOW_VALUES = 256 };

/* Draws the label, and the sources of both windows. The models add up scores of single windows,
 * which cannot detect that two sources are equal; so sources of equal pairs are more often low
 * ones. */
static int32_t window_sources(uint64_t sample, uint32_t source[2])
{
    uint32_t bits = ls_random_bits(ls_random_stream(0, "synthetic/label"), sample);
    if (bits & 1) {
        source[0] = WINDOW_SOURCES;
        for (int i = 1; i < 5; i++) { /* the least of four */
            uint32_t drawn = bits >> (4 * i) & (WINDOW_SOURCES - 1);
            source[0] = drawn < source[0] ? drawn : source[0];
        }
        source[1] = source[0];
        return 1;
    }
    source[0] = (bits >> 8) % WINDOW_SOURCES;
    source[1] = (source[0] + 1 + (bits >> 16) % (WINDOW_SOURCES - 1)) % WINDOW_SOURCES;
    return 0;
}

/* Fills an input of every sample: window `input`, or both windows if there is only one input. */
static ls_status fill_window(const ls_data_need *need, int input, uint64_t first, ls_split *split)
{
    const size_t steps = (size_t)need->shape[0][0], half = need->inputs == 1 ? steps / 2 : steps;
    char name[40];
    snprintf(name, sizeof name, "synthetic/window%d", input);
    const ls_random random = ls_random_stream(0, name);
    ls_array *array = &split->input[input];
    LS_TRY(ls_array_allocate("synthetic", LS_ARRAY_ONE_HOT, split->samples, steps, array));
    uint8_t *bytes = array->data;
    for (size_t i = 0; i < split->samples; i++) {
        uint32_t source[2];
        ((int32_t *)split->target.data)[i] = window_sources(first + i, source);
        for (size_t t = 0; t < steps; t++) {
            uint32_t bits = ls_random_bits(random, (first + i) * steps + t);
            uint32_t own = source[input || t >= half] * 16 + (bits >> 8) % 16;
            *bytes++ = (uint8_t)(bits & 1 ? own : bits >> 24);
        }
    }
    return LS_OK;
}

static ls_status fill_windows(const ls_data_need *need, uint64_t first, ls_split *split)
{
    if (need->classes != 2 || need->rank[0] != 2 || need->shape[0][1] != WINDOW_VALUES)
        return ls_fail(LS_CODE_USAGE, "--data", "synthetic",
                       "synthetic sequences have bytes as elements and two classes, which do not "
                       "fit the model; use --model twin-lstm or lstm-stack");
    LS_TRY(ls_array_allocate("synthetic", LS_ARRAY_INT32, split->samples, 1, &split->target));
    for (int input = 0; input < need->inputs; input++)
        LS_TRY(fill_window(need, input, first, split));
    return LS_OK;
}

/* A sample takes T + 1 numbers of the stream: the first token, then what follows each. */
static ls_status fill_tokens(const ls_data_need *need, uint64_t first, ls_split *split)
{
    const size_t T = (size_t)need->targets;
    const uint32_t V = (uint32_t)need->classes;
    const ls_random random = ls_random_stream(0, "synthetic/tokens");
    if (!T)
        return ls_fail(LS_CODE_USAGE, "--data", "synthetic",
                       "synthetic tokens need a model of tokens; use --model gpt");
    LS_TRY(ls_array_allocate("synthetic", LS_ARRAY_FLOAT32, split->samples, T, &split->input[0]));
    LS_TRY(ls_array_allocate("synthetic", LS_ARRAY_INT32, split->samples, T, &split->target));
    float *x = split->input[0].data;
    int32_t *y = split->target.data;
    for (size_t i = 0; i < split->samples; i++) {
        const uint64_t at = (first + i) * (T + 1);
        uint32_t token = ls_random_bits(random, at) % V;
        for (size_t t = 0; t < T; t++) {
            const uint32_t bits = ls_random_bits(random, at + t + 1);
            *x++ = (float)token;
            token = bits & 3 ? (uint32_t)((5 * (uint64_t)token + 7) % V) : (bits >> 2) % V;
            *y++ = (int32_t)token;
        }
    }
    return LS_OK;
}

static const generator generators[] = {
    {.name = "polynomial", .fill = fill_polynomial},
    {.name = "classes", .fill = fill_classes},
    {.name = "windows", .fill = fill_windows},
    {.name = "tokens", .fill = fill_tokens},
};

static ls_status fill_split(const void *context, bool test, ls_split *split)
{
    const request *asked = context;
    split->samples = test ? (asked->samples + TEST_PART - 1) / TEST_PART : asked->samples;
    return asked->generator->fill(asked->need, test ? MAX_SAMPLES : 0, split);
}

/* Training and test samples: float32 inputs (bytes for windows), and a label at each position. */
static double bytes_of(const char *argument, const ls_data_need *need)
{
    int64_t samples = DEFAULT_SAMPLES;
    double sample = 4.0 * (double)(need->targets ? need->targets : 1);
    if (argument && !ls_parse_integer(argument, 1, MAX_SAMPLES, &samples))
        return 0;
    for (int i = 0; i < need->inputs; i++) {
        const bool windows = need->synthetic && strcmp(need->synthetic, "windows") == 0;
        double width = windows ? (double)need->shape[i][0] / 4 : 1;
        for (int axis = 0; axis < need->rank[i] && !windows; axis++)
            width *= (double)need->shape[i][axis];
        sample += 4 * width;
    }
    return sample * (double)(samples + (samples + TEST_PART - 1) / TEST_PART);
}

static ls_status read_synthetic(const char *argument, const ls_data_need *need, ls_data *data)
{
    int64_t samples = DEFAULT_SAMPLES;
    if (argument && !ls_parse_integer(argument, 1, MAX_SAMPLES, &samples))
        return ls_fail(
            LS_CODE_USAGE, "--data", data->name,
            "'%s' is not a number of samples; use --data synthetic:N with N from 1 to %d", argument,
            MAX_SAMPLES);
    request asked = {.need = need, .samples = (size_t)samples};
    for (size_t i = 0; i < sizeof generators / sizeof *generators; i++)
        if (need->synthetic && strcmp(generators[i].name, need->synthetic) == 0)
            asked.generator = &generators[i];
    if (!asked.generator)
        return ls_fail(LS_CODE_USAGE, "--data", data->name,
                       "there are no synthetic data for this model; use --data file:PATH");
    return ls_splits_read(fill_split, &asked, data);
}

const ls_data_source ls_source_synthetic = {
    .name = "synthetic",
    .help = "generated, the same everywhere, learnable: synthetic:N samples (60,000)",
    .read = read_synthetic,
    .bytes = bytes_of,
};
