/* SPDX-License-Identifier: MIT */
/*
 * Variables: the named parameters of a model as ranges of one flat buffer.
 *
 * The layout is the model's order, without padding: element `offset` of the buffer is the first of
 * the variable. So a bucket, a shard, a checkpoint and a digest are ranges. Functions here work on
 * a host copy of that buffer, float32 [elements].
 */
#pragma once

#include "common/base/range.h"
#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** How a variable begins. */
typedef enum ls_initializer {
    LS_INITIALIZER_ZERO,
    LS_INITIALIZER_ONE,
    LS_INITIALIZER_FORGET_ONE, /**< second quarter 1, other quarters 0 (an LSTM's forget gate) */
    /** Uniform in +-sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, AISTATS 2010). */
    LS_INITIALIZER_GLOROT_UNIFORM,
    LS_INITIALIZER_NORMAL /**< mean 0, standard deviation `deviation` */
} ls_initializer;

/** The elements that two ranges have in common; count 0 if there is none. */
static inline ls_range ls_range_common(ls_range a, ls_range b)
{
    const size_t first = a.first > b.first ? a.first : b.first;
    const size_t a_end = a.first + a.count, b_end = b.first + b.count;
    const size_t end = a_end < b_end ? a_end : b_end;
    return (ls_range){first, end > first ? end - first : 0};
}

/** A range of the flat buffer that has a name. */
typedef struct ls_variable {
    char name[40];              /**< "dense0.weight" */
    int rank;                   /**< at most 4 */
    int64_t shape[4];           /**< the first `rank` */
    ls_initializer initializer; /**< of its values */
    int64_t fan_in, fan_out;    /**< for LS_INITIALIZER_GLOROT_UNIFORM */
    double deviation;           /**< for LS_INITIALIZER_NORMAL */
    double decay;               /**< weight decay: decay * sum(w^2) / 2 is part of the loss */
    bool shrinks; /**< adamw decays it (parts, too): dimensions >= 2; set by `ls_variables_add` */
    double keep;  /**< not 0: a moving statistic, set to `keep * it + (1 - keep) * gradient` */
    size_t offset, count; /**< elements of the flat buffer */
} ls_variable;

/** All variables of a model; all zero: none. */
typedef struct ls_variables {
    ls_variable *items; /**< [count], in the model's order */
    size_t count;       /**< variables */
    size_t elements;    /**< of the flat buffer: the number of parameters */
    bool of_gpt2;       /**< files may have the other forms of GPT-2's: ls_variables_load */
} ls_variables;

/** Appends a variable; its offset and count are set here. LS_CODE_USAGE where sizes overflow. */
ls_status ls_variables_add(ls_variables *variables, const ls_variable *variable);

/** Frees the items, not the struct. */
void ls_variables_clear(ls_variables *variables);

/** The variable that holds element `index` of the flat buffer; NULL past the end. */
const ls_variable *ls_variables_holding(const ls_variables *variables, size_t index);

/** Where element `index` of the flat buffer is in memory in which variable v begins at element
 * at[v]; NULL means the flat buffer. */
size_t ls_variables_at(const ls_variables *variables, const size_t *at, size_t index);

/** Initial values: a function of (seed, variable name, element index). Sets the values
 * [range.count] of elements `range`. */
void ls_variables_draw(const ls_variables *variables, uint64_t seed, ls_range range, float *values);
/** As above, for all elements. */
void ls_variables_initialize(const ls_variables *variables, uint64_t seed, float *values);

/** Parameters in a safetensors file, which is open. */
typedef struct ls_variables_file ls_variables_file;

/** Opens a file that has a tensor for each variable. LS_CODE_MISSING, naming the file and the
 * tensor, for a missing, extra or misshapen one. Borrows `variables`. */
ls_status ls_variables_open(const ls_variables *variables, const char *path,
                            ls_variables_file **out);
/** Reads elements `range` of the flat buffer. LS_CODE_MISSING if one is not finite. */
ls_status ls_variables_read(const ls_variables_file *file, ls_range range, float *values);
/** Takes NULL. */
void ls_variables_close(ls_variables_file *file);
/** Opens a file, reads all values, and closes it. */
ls_status ls_variables_load(const ls_variables *variables, const char *path, float *values);

/** Writes a safetensors file, whole or not at all. LS_CODE_MISSING where that fails. */
ls_status ls_variables_save(const ls_variables *variables, const char *path, const float *values);
/** As above, but `put` writes all values to the stream; errors of the stream are looked at
 * later. */
ls_status ls_variables_save_by(const ls_variables *variables, const char *path,
                               ls_status (*put)(FILE *stream, void *context), void *context);

/** The variables' numbers in the order of their names (bytes): [count], owned by the caller. */
ls_status ls_variables_by_name(const ls_variables *variables, size_t **out);

/** Digest of the bits, variables taken in the order of their names. */
ls_status ls_variables_digest(const ls_variables *variables, const float *values, char text[33]);

/** Whether two values have the same bits, or are both NaN, whose bits hardware decides. */
bool ls_values_same(double a, double b);

/** |a - b|. If a value is not finite: 0 if neither is, so that what overflows on both sides does
 * not differ; infinite if one of them is, or if they are infinities of opposite signs. */
double ls_value_distance(double a, double b);

/** How two sets of values differ. */
typedef struct ls_difference {
    bool same_bits;   /**< of every element (ls_values_same) */
    uint32_t max_ulp; /**< units in the last place; UINT32_MAX where one is not finite */
    double max_rel;   /**< largest relative distance of a variable; absolute where b is 0 */
    size_t first;     /**< first element whose bits differ; SIZE_MAX if none */
} ls_difference;

/** Compares `a` with `b`, the reference; both float32 [elements]. */
ls_difference ls_variables_compare(const ls_variables *variables, const float *a, const float *b);

/**
 * max_rel alone, where devices may have flushed values. They flush what is below the smallest
 * normal number, FLT_MIN, and two correct ones need not flush the same values. So where each side
 * made a and b of `products` values, any of which may have been flushed, ||a - b|| up to 2 FLT_MIN
 * products is 0: each of both loses at most FLT_MIN a value, and the sum of the elements'
 * differences bounds their norm. 0 if nothing is flushed.
 */
double ls_model_distance(const ls_variables *variables, const float *a, const float *b,
                         double products);

/** As above, for one variable. */
double ls_variable_distance(const ls_variable *variable, const float *a, const float *b,
                            double products);
