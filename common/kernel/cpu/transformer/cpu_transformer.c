/* SPDX-License-Identifier: MIT */
/*
 * Transformers' operations of the cpu table: vector loops. The device's threads share the rows, the
 * tokens of an embedding's gradient, the heads of all samples, or the groups of rows whose sums
 * are added in order: no bit depends on the number of threads.
 */
#include "common/kernel/cpu/cpu_kernels.h"

#include <string.h>

#define BY_BYTES .elements = (int64_t)work->bytes / 4

/* ---- Tokens and positions ------------------------------------------------------------------- */

static ls_status check_tokens(cpu_op *op)
{
    const ls_embedding_forward_args *a = (const void *)op->arguments;
    const int64_t all = a->all ? a->all : a->tokens;
    const int64_t bad = op->loops->bad_token(a->x, a->rows, all);
    if (bad < 0)
        return LS_OK;
    return ls_token_fail("embedding_forward", bad, (double)((const float *)a->x)[bad], all);
}

static void embedding_part(const cpu_part *p)
{
    p->loops->embedding(p->arguments, p->first, p->last);
}

LS_CPU_OP(embedding_forward, ".loop", ls_embedding_forward_args, .once = check_tokens,
          .part = embedding_part, .shared = a->rows, .elements = a->rows * a->width)
LS_CPU_LOOP(embedding_backward, ls_embedding_backward_args, embedding_back, .shared = a->tokens,
            BY_BYTES)

static void positions_part(const cpu_part *p)
{
    const ls_positions_forward_args *a = p->arguments;
    const float *x = a->x;
    for (int64_t r = p->first; r < p->last; r++)
        p->loops->add(x + r * a->count, a->weight, (float *)a->y + r * a->count, a->count);
}

LS_CPU_OP(positions_forward, ".loop", ls_positions_forward_args, .part = positions_part,
          .shared = a->rows, BY_BYTES)

static void positions_sums(const cpu_part *p)
{
    const ls_positions_backward_args *a = p->arguments;
    p->loops->column_sums(a->dy, a->rows, a->count, p->first, p->last, a->dweight);
}

LS_CPU_OP(positions_backward, ".loop", ls_positions_backward_args, .part = positions_sums,
          .shared = a->count, .in_blocks = true, BY_BYTES)

/* ---- Layer normalisation -------------------------------------------------------------------- */

LS_CPU_LOOP(layer_norm_forward, ls_layer_norm_forward_args, layer_norm, .shared = a->rows, BY_BYTES)

/* The arguments, and the groups' sums, which are the operation's memory. */
typedef struct norm_args {
    ls_layer_norm_backward_args of;
    float *sums; /* [LS_VECTOR_NORM_GROUPS, 2, ls_vector_pad(C)] */
} norm_args;

static void norm_part(const cpu_part *p)
{
    const norm_args *a = p->arguments;
    p->loops->layer_norm_back(&a->of, p->first, p->last, a->sums);
}

static ls_status norm_begin(cpu_op *op)
{
    ((norm_args *)(void *)op->arguments)->sums = op->memory;
    return LS_OK;
}

static void norm_end(cpu_op *op)
{
    const ls_layer_norm_backward_args *a = (const void *)op->arguments;
    float *sums = op->memory;
    const int64_t padded = ls_vector_pad(a->width);
    for (int64_t g = 1; g < LS_VECTOR_NORM_GROUPS; g++)
        op->loops->add(sums, sums + g * 2 * padded, sums, 2 * padded);
    memcpy(a->dweight, sums, (size_t)a->width * sizeof *sums);
    memcpy(a->dbias, sums + padded, (size_t)a->width * sizeof *sums);
}

ls_status ls_cpu_layer_norm_backward(ls_kernels *kernels, const ls_layer_norm_backward_args *a,
                                     const ls_work *work, ls_op **out)
{
    const norm_args args = {.of = *a};
    const cpu_op like = {.op.name = "layer_norm_backward.loop",
                         .once = norm_begin,
                         .part = norm_part,
                         .end = norm_end,
                         .shared = LS_VECTOR_NORM_GROUPS,
                         .memory_bytes =
                             (size_t)(LS_VECTOR_NORM_GROUPS * 2 * ls_vector_pad(a->width)) *
                             sizeof(float),
                         BY_BYTES};
    return ls_cpu_op_open(kernels, &like, &args, sizeof args, work, out);
}

/* ---- GELU ----------------------------------------------------------------------------------- */

static void gelu_part(const cpu_part *p)
{
    const ls_gelu_forward_args *a = p->arguments;
    p->loops->gelu((const float *)a->x + p->first, (float *)a->y + p->first, p->last - p->first);
}

static void gelu_back_part(const cpu_part *p)
{
    const ls_gelu_backward_args *a = p->arguments;
    p->loops->gelu_back((const float *)a->x + p->first, (const float *)a->dy + p->first,
                        (float *)a->dx + p->first, p->last - p->first);
}

LS_CPU_OP(gelu_forward, ".loop", ls_gelu_forward_args, .part = gelu_part, .shared = a->count,
          .elements = a->count, .in_blocks = true)
LS_CPU_OP(gelu_backward, ".loop", ls_gelu_backward_args, .part = gelu_back_part, .shared = a->count,
          .elements = a->count, .in_blocks = true)

/* ---- Dropout -------------------------------------------------------------------------------- */

static void dropout_part(const cpu_part *p)
{
    p->loops->dropout(p->arguments, p->first, p->last);
}

LS_CPU_OP(dropout, ".loop", ls_dropout_args, .part = dropout_part, .shared = a->rows * a->width,
          .elements = a->rows * a->width, .in_blocks = true)

/* ---- Attention ------------------------------------------------------------------------------ */

static void attention_part(const cpu_part *p)
{
    p->loops->attention(p->arguments, p->first, p->last, p->own);
}

static void attention_back_part(const cpu_part *p)
{
    p->loops->attention_back(p->arguments, p->first, p->last, p->own);
}

static size_t attention_bytes(const ls_attention_shape *s)
{
    return (size_t)ls_vector_pad(ls_vector_attention_memory(s)) * sizeof(float);
}

LS_CPU_OP(attention_forward, ".packed", ls_attention_forward_args, .part = attention_part,
          .shared = a->shape.rows * a->shape.heads, .own_bytes = attention_bytes(&a->shape),
          BY_BYTES)
LS_CPU_OP(attention_backward, ".packed", ls_attention_backward_args, .part = attention_back_part,
          .shared = a->shape.rows * a->shape.heads, .own_bytes = attention_bytes(&a->shape),
          BY_BYTES)
