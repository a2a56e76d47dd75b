/* SPDX-License-Identifier: MIT */
/* Checks the arguments of kernel_transformer.h's operations, and counts their work. */
#include "common/kernel/kernel_check_parts.h"

#include <inttypes.h>

static const int64_t longest = 1 << 24; /* tokens are exact in float32; limits products of sizes */

static ls_status check_tokens(const ls_work *work, int64_t tokens)
{
    if (tokens >= 1 && tokens <= longest)
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, work->op, "tokens",
                   "%" PRId64 " tokens are given; give 1 to %" PRId64, tokens, longest);
}

static ls_status check_slice(const ls_work *work, int64_t first, int64_t count, int64_t all)
{
    LS_TRY(check_tokens(work, all));
    if (first >= 0 && count >= 1 && count <= all - first)
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, work->op, "first",
                   "the slice begins at element %" PRId64 " and has %" PRId64
                   " elements, but there are only %" PRId64
                   " elements in all; give a slice of these elements",
                   first, count, all);
}

ls_status ls_check_embedding_forward(const ls_embedding_forward_args *a, ls_work *work)
{
    LS_TRY(CHECK_TENSORS(READ(x, a->rows, 1), READ(weight, a->tokens, a->width),
                         WRITE(y, a->rows, a->width)));
    LS_TRY(check_tokens(work, a->tokens));
    return a->all ? check_slice(work, a->first, a->tokens, a->all) : LS_OK;
}

ls_status ls_check_embedding_backward(const ls_embedding_backward_args *a, ls_work *work)
{
    LS_TRY(CHECK_TENSORS(READ(x, a->rows, 1), READ(dy, a->rows, a->width),
                         WRITE(dweight, a->tokens, a->width)));
    work->flops += (double)a->rows * (double)a->width;
    return check_tokens(work, a->tokens);
}

ls_status ls_check_softmax_part(const ls_softmax_part_args *a, ls_work *work)
{
    LS_TRY(CHECK_TENSORS(READ(logits, a->rows, a->classes), OF_TYPE(labels, a->rows, 1, 0),
                         WRITE_SOME(terms, a->rows, a->classes),
                         WRITE(part, a->rows, LS_SOFTMAX_PART)));
    work->flops += 3.0 * (double)a->rows * (double)a->classes;
    if (a->terms && a->terms == a->logits)
        return ls_fail(LS_CODE_USAGE, work->op, "terms",
                       "terms is the same memory as logits; give separate memory for terms");
    return check_slice(work, a->first, a->classes, a->all);
}

static ls_status check_slices(const ls_work *work, int64_t slices)
{
    if (slices >= 1)
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, work->op, "slices",
                   "%" PRId64 " slices are given; give 1 or more", slices);
}

ls_status ls_check_softmax_whole(const ls_softmax_whole_args *a, ls_work *work)
{
    LS_TRY(check_slices(work, a->slices));
    LS_TRY(CHECK_TENSORS(READ(parts, a->slices * a->rows, LS_SOFTMAX_PART),
                         OF_TYPE(labels, a->rows, 1, 0), WRITE_SOME(dlogits, a->rows, a->classes),
                         OF_TYPE(scale_at, 1, 1, OPTIONAL),
                         OF_TYPE(loss, 1, 1, OPTIONAL | WRITTEN)));
    LS_TRY(ls_check_value(work, "scale", a->scale));
    work->flops += (double)a->rows * (double)(a->dlogits ? a->classes : 1);
    if (a->slice >= 0 && a->slice < a->slices)
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, work->op, "slice",
                   "%" PRId64 " is not the number of a slice; the %" PRId64
                   " slices are numbered from 0",
                   a->slice, a->slices);
}

ls_status ls_check_count_parts(const ls_count_parts_args *a, ls_work *work)
{
    LS_TRY(check_slices(work, a->slices));
    if (a->targets < 1)
        return ls_fail(LS_CODE_USAGE, work->op, "targets",
                       "%" PRId64 " targets are given; give 1 or more", a->targets);
    return CHECK_TENSORS(READ(parts, a->slices * a->rows, LS_SOFTMAX_PART),
                         OF_TYPE(labels, a->rows, 1, 0), OF_TYPE(state, 1, 1, 0),
                         OF_TYPE(correct, 1, 1, WRITTEN));
}

ls_status ls_check_positions_forward(const ls_positions_forward_args *a, ls_work *work)
{
    work->flops += (double)a->rows * (double)a->count;
    return CHECK_TENSORS(READ(x, a->rows, a->count), READ(weight, a->count, 1),
                         WRITE(y, a->rows, a->count));
}

ls_status ls_check_positions_backward(const ls_positions_backward_args *a, ls_work *work)
{
    work->flops += (double)a->rows * (double)a->count;
    return CHECK_TENSORS(READ(dy, a->rows, a->count), WRITE(dweight, a->count, 1));
}

static ls_status check_width(const ls_work *work, int64_t width)
{
    if (width >= 1)
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, work->op, "width",
                   "a width of %" PRId64 " is given; give 1 or more", width);
}

ls_status ls_check_layer_norm_forward(const ls_layer_norm_forward_args *a, ls_work *work)
{
    LS_TRY(CHECK_TENSORS(READ(x, a->rows, a->width), READ(weight, a->width, 1),
                         READ(bias, a->width, 1), WRITE(y, a->rows, a->width),
                         WRITE(moments, a->rows, 2)));
    work->flops += 8.0 * (double)a->rows * (double)a->width;
    LS_TRY(check_width(work, a->width));
    return ls_check_value(work, "epsilon", a->epsilon);
}

ls_status ls_check_layer_norm_backward(const ls_layer_norm_backward_args *a, ls_work *work)
{
    LS_TRY(CHECK_TENSORS(READ(x, a->rows, a->width), READ(weight, a->width, 1),
                         READ(moments, a->rows, 2), READ(dy, a->rows, a->width),
                         WRITE(dx, a->rows, a->width), WRITE(dweight, a->width, 1),
                         WRITE(dbias, a->width, 1)));
    if (a->adds)
        LS_TRY(CHECK_TENSORS(READ(dx, a->rows, a->width)));
    work->flops += (14.0 + a->adds) * (double)a->rows * (double)a->width;
    return check_width(work, a->width);
}

ls_status ls_check_gelu_forward(const ls_gelu_forward_args *a, ls_work *work)
{
    work->flops += 24.0 * (double)a->count;
    return CHECK_TENSORS(READ(x, a->count, 1), WRITE(y, a->count, 1));
}

ls_status ls_check_gelu_backward(const ls_gelu_backward_args *a, ls_work *work)
{
    work->flops += 32.0 * (double)a->count;
    return CHECK_TENSORS(READ(x, a->count, 1), READ(dy, a->count, 1), WRITE(dx, a->count, 1));
}

ls_status ls_check_dropout(const ls_dropout_args *a, ls_work *work)
{
    work->flops += 16.0 * (double)a->rows * (double)a->width;
    return CHECK_TENSORS(OF_TYPE(first, 1, 1, 0), READ(x, a->rows, a->width),
                         WRITE(y, a->rows, a->width));
}

/* *row: elements of a sample's y; *pairs: a query and a key at or before it, of all samples and
 * heads, times a head's width. */
static ls_status check_attention(const ls_work *work, const ls_attention_shape *s, int64_t *row,
                                 double *pairs)
{
    if (s->heads < 1 || s->width < 1 || s->width % s->heads || s->steps < 0 || s->steps > longest ||
        s->width > longest)
        return ls_fail(LS_CODE_USAGE, work->op, "shape",
                       "%" PRId64 " heads, %" PRId64 " channels and %" PRId64
                       " positions are not possible; give heads that divide the channels evenly, "
                       "and at most %" PRId64 " channels and positions",
                       s->heads, s->width, s->steps, longest);
    *row = s->steps * s->width;
    *pairs = (double)s->rows * (double)s->width * (double)s->steps * (double)(s->steps + 1) / 2;
    return LS_OK;
}

ls_status ls_check_attention_forward(const ls_attention_forward_args *a, ls_work *work)
{
    const ls_attention_shape *s = &a->shape;
    int64_t row = 0;
    double pairs = 0;
    LS_TRY(check_attention(work, s, &row, &pairs));
    work->flops += 2 * 2 * pairs;
    const size_t bytes = a->stored ? sizeof(uint16_t) : work->real_bytes;
    return CHECK_TENSORS(TENSOR(qkv, s->rows, 3 * row, bytes, 0),
                         TENSOR(y, s->rows, row, bytes, WRITTEN),
                         WRITE(sums, s->rows, s->heads * s->steps));
}

ls_status ls_check_attention_backward(const ls_attention_backward_args *a, ls_work *work)
{
    const ls_attention_shape *s = &a->shape;
    int64_t row = 0;
    double pairs = 0;
    LS_TRY(check_attention(work, s, &row, &pairs));
    work->flops += 4 * 2 * pairs; /* the scores, computed again, do not count */
    const size_t bytes = a->stored ? sizeof(uint16_t) : work->real_bytes;
    return CHECK_TENSORS(TENSOR(qkv, s->rows, 3 * row, bytes, 0), TENSOR(y, s->rows, row, bytes, 0),
                         TENSOR(dy, s->rows, row, bytes, 0),
                         READ(sums, s->rows, s->heads * s->steps),
                         TENSOR(dqkv, s->rows, 3 * row, bytes, WRITTEN));
}
