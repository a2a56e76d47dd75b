/* SPDX-License-Identifier: MIT */
/* Checks the arguments of kernel_residual.h's operations, and counts their work. */
#include "common/kernel/kernel_check_parts.h"

#include "common/base/numbers.h"

#include <inttypes.h>

/* Refuses an invalid number of pixels, the divisor of a mean or a gradient. */
static ls_status check_count(const ls_work *work, int64_t count, int64_t least)
{
    if (count >= least)
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, work->op, "count",
                   "%" PRId64
                   " pixels are too few; give all pixels of the batch, at least %" PRId64,
                   count, least);
}

ls_status ls_check_bn_sums(const ls_bn_sums_args *a, ls_work *work)
{
    LS_TRY(CHECK_TENSORS(READ(x, a->pixels, a->channels), OF_TYPE(sums, 2, a->channels, WRITTEN),
                         WRITE_SOME(moments, 2, a->channels)));
    work->flops += 3.0 * (double)a->pixels * (double)a->channels;
    return ls_check_value(work, "epsilon", a->epsilon);
}

ls_status ls_check_bn_moments(const ls_bn_moments_args *a, ls_work *work)
{
    const int64_t C = a->channels;
    LS_TRY(CHECK_TENSORS(OF_TYPE(sums, 2, C, 0), WRITE(moments, 2, C)));
    LS_TRY(check_count(work, a->count, 1));
    return ls_check_value(work, "epsilon", a->epsilon);
}

ls_status ls_check_bn_moving_moments(const ls_bn_moving_moments_args *a, ls_work *work)
{
    const int64_t C = a->channels;
    LS_TRY(CHECK_TENSORS(READ(mean, C, 1), READ(variance, C, 1), WRITE(moments, 2, C)));
    return ls_check_value(work, "epsilon", a->epsilon);
}

ls_status ls_check_bn_forward(const ls_bn_forward_args *a, ls_work *work)
{
    const int64_t N = a->pixels, C = a->channels;
    work->flops += (a->z ? 4.0 : 3.0) * (double)N * (double)C;
    return CHECK_TENSORS(READ(x, N, C), READ(moments, 2, C), READ(weight, C, 1), READ(bias, C, 1),
                         READ_SOME(z, N, C), WRITE(y, N, C));
}

ls_status ls_check_bn_backward_sums(const ls_bn_backward_sums_args *a, ls_work *work)
{
    const int64_t N = a->pixels, C = a->channels;
    LS_TRY(CHECK_TENSORS(READ(x, N, C), READ(moments, 2, C), READ(weight, C, 1), READ(bias, C, 1),
                         READ_SOME(y, N, C), READ(dy, N, C), WRITE_SOME(dz, N, C),
                         OF_TYPE(sums, 2, C, WRITTEN), WRITE(dweight, C, 1), WRITE(dbias, C, 1),
                         OF_TYPE(batch, 2, C, 0), WRITE(mean, C, 1), WRITE(variance, C, 1)));
    work->flops += 5.0 * (double)N * (double)C;
    LS_TRY(check_count(work, a->count, 1));
    return ls_check_value(work, "share", a->share);
}

ls_status ls_check_bn_backward(const ls_bn_backward_args *a, ls_work *work)
{
    const int64_t N = a->pixels, C = a->channels;
    LS_TRY(CHECK_TENSORS(READ(x, N, C), READ(moments, 2, C), READ(weight, C, 1), READ(bias, C, 1),
                         OF_TYPE(sums, 2, C, 0), READ(dy, N, C), WRITE(dx, N, C)));
    work->flops += 6.0 * (double)N * (double)C;
    return check_count(work, a->count, N > 0);
}

/* Elements of one row of the larger and the smaller image. */
static ls_status check_shortcut(const ls_work *work, const ls_shortcut_shape *s, int64_t sizes[2])
{
    size_t in, out;
    if (s->in_height < 0 || s->in_width < 0 || s->channels < 1 || s->outputs < s->channels ||
        s->stride < 1 || s->stride > INT32_MAX || s->in_height > INT32_MAX ||
        s->in_width > INT32_MAX)
        return ls_fail(LS_CODE_USAGE, work->op, "shape",
                       "%" PRId64 " x %" PRId64 " x %" PRId64 " to %" PRId64
                       " channels with stride %" PRId64
                       " is not possible; use sides of 0 or more, channels and a stride of 1 or "
                       "more, and at least as many output as input channels",
                       s->in_height, s->in_width, s->channels, s->outputs, s->stride);
    const size_t height = (size_t)((s->in_height + s->stride - 1) / s->stride);
    const size_t width = (size_t)((s->in_width + s->stride - 1) / s->stride);
    if (!ls_size_multiply((size_t)s->in_height * (size_t)s->in_width, (size_t)s->channels, &in) ||
        !ls_size_multiply(height * width, (size_t)s->outputs, &out) || in > INT64_MAX / 8 ||
        out > INT64_MAX / 8)
        return ls_fail(LS_CODE_USAGE, work->op, "shape",
                       "the images have more elements than memory can hold; give smaller images");
    sizes[0] = (int64_t)in;
    sizes[1] = (int64_t)out;
    return LS_OK;
}

ls_status ls_check_shortcut_forward(const ls_shortcut_forward_args *a, ls_work *work)
{
    int64_t sizes[2] = {0};
    LS_TRY(check_shortcut(work, &a->shape, sizes));
    return CHECK_TENSORS(READ(x, a->shape.rows, sizes[0]), WRITE(y, a->shape.rows, sizes[1]));
}

ls_status ls_check_shortcut_backward(const ls_shortcut_backward_args *a, ls_work *work)
{
    int64_t sizes[2] = {0};
    LS_TRY(check_shortcut(work, &a->shape, sizes));
    return CHECK_TENSORS(READ(dy, a->shape.rows, sizes[1]), WRITE(dx, a->shape.rows, sizes[0]));
}

/* Elements of a row of the image. */
static ls_status check_mean(const ls_work *work, int64_t pixels, int64_t channels, int64_t *out)
{
    size_t size = 0;
    LS_TRY(check_count(work, pixels, 1));
    if (channels < 0 || !ls_size_multiply((size_t)pixels, (size_t)channels, &size) ||
        size > INT64_MAX / 8)
        return ls_fail(LS_CODE_USAGE, work->op, "channels",
                       "%" PRId64
                       " channels are given; give 0 or more, and no more than memory can hold",
                       channels);
    *out = (int64_t)size;
    return LS_OK;
}

ls_status ls_check_mean_pool_forward(const ls_mean_pool_forward_args *a, ls_work *work)
{
    int64_t size = 0;
    LS_TRY(check_mean(work, a->pixels, a->channels, &size));
    work->flops += (double)a->rows * (double)size;
    return CHECK_TENSORS(READ(x, a->rows, size), WRITE(y, a->rows, a->channels));
}

ls_status ls_check_mean_pool_backward(const ls_mean_pool_backward_args *a, ls_work *work)
{
    int64_t size = 0;
    LS_TRY(check_mean(work, a->pixels, a->channels, &size));
    return CHECK_TENSORS(READ(dy, a->rows, a->channels), WRITE(dx, a->rows, size));
}

ls_status ls_check_moving_average(const ls_moving_average_args *a, ls_work *work)
{
    LS_TRY(CHECK_TENSORS(READ(value, a->count, 1), WRITE(average, a->count, 1),
                         OF_TYPE(state, 1, 1, OPTIONAL)));
    work->flops += 3.0 * (double)a->count;
    return ls_check_value(work, "decay", a->decay);
}

ls_status ls_check_add_sums(const ls_add_sums_args *a, ls_work *work)
{
    work->flops += a->b ? (double)a->count : 0;
    return CHECK_TENSORS(OF_TYPE(a, a->count, 1, 0), OF_TYPE(b, a->count, 1, OPTIONAL),
                         OF_TYPE(out, a->count, 1, WRITTEN));
}
