/* SPDX-License-Identifier: MIT */
/* Arguments of kernel_residual.h's operations: checked, and their work counted. */
#include "common/kernel/kernel_check_parts.h"

#include "common/base/numbers.h"

#include <inttypes.h>

/* Pixels that a mean or a gradient is divided by. */
static ls_status check_count(const char *op, int64_t count, int64_t least)
{
    if (count >= least)
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, op, "count",
                   "%" PRId64 " pixels are fewer than %" PRId64 "; give those of the whole batch",
                   count, least);
}

ls_status ls_check_bn_sums(const ls_bn_sums_args *b, size_t real_bytes, ls_work *work)
{
    const ls_checked_tensor tensors[] = {
        {"x", b->x, b->pixels, b->channels, real_bytes, NEEDED},
        {"sums", b->sums, 2, b->channels, sizeof(double), WRITTEN},
        {"moments", b->moments, 2, b->channels, real_bytes, OPTIONAL | WRITTEN}};
    LS_TRY(ls_check_tensors("bn_sums", 3, tensors, work));
    work->flops += 3.0 * (double)b->pixels * (double)b->channels;
    return ls_check_value("bn_sums", "epsilon", b->epsilon);
}

ls_status ls_check_bn_moments(const ls_bn_moments_args *b, size_t real_bytes, ls_work *work)
{
    static const char op[] = "bn_moments";
    const int64_t C = b->channels;
    const ls_checked_tensor tensors[] = {{"sums", b->sums, 2, C, sizeof(double), NEEDED},
                                         {"moments", b->moments, 2, C, real_bytes, WRITTEN}};
    LS_TRY(ls_check_tensors(op, 2, tensors, work));
    LS_TRY(check_count(op, b->count, 1));
    return ls_check_value(op, "epsilon", b->epsilon);
}

ls_status ls_check_bn_moving_moments(const ls_bn_moving_moments_args *b, size_t real_bytes,
                                     ls_work *work)
{
    const int64_t C = b->channels;
    const ls_checked_tensor tensors[] = {{"mean", b->mean, C, 1, real_bytes, NEEDED},
                                         {"variance", b->variance, C, 1, real_bytes, NEEDED},
                                         {"moments", b->moments, 2, C, real_bytes, WRITTEN}};
    LS_TRY(ls_check_tensors("bn_moving_moments", 3, tensors, work));
    return ls_check_value("bn_moving_moments", "epsilon", b->epsilon);
}

ls_status ls_check_bn_forward(const ls_bn_forward_args *b, size_t real_bytes, ls_work *work)
{
    const int64_t N = b->pixels, C = b->channels;
    const ls_checked_tensor tensors[] = {{"x", b->x, N, C, real_bytes, NEEDED},
                                         {"moments", b->moments, 2, C, real_bytes, NEEDED},
                                         {"weight", b->weight, C, 1, real_bytes, NEEDED},
                                         {"bias", b->bias, C, 1, real_bytes, NEEDED},
                                         {"z", b->z, N, C, real_bytes, OPTIONAL},
                                         {"y", b->y, N, C, real_bytes, WRITTEN}};
    LS_TRY(ls_check_tensors("bn_forward", 6, tensors, work));
    work->flops += (b->z ? 4.0 : 3.0) * (double)N * (double)C;
    return LS_OK;
}

ls_status ls_check_bn_backward_sums(const ls_bn_backward_sums_args *b, size_t real_bytes,
                                    ls_work *work)
{
    const int64_t N = b->pixels, C = b->channels;
    const ls_checked_tensor tensors[] = {{"x", b->x, N, C, real_bytes, NEEDED},
                                         {"moments", b->moments, 2, C, real_bytes, NEEDED},
                                         {"weight", b->weight, C, 1, real_bytes, NEEDED},
                                         {"bias", b->bias, C, 1, real_bytes, NEEDED},
                                         {"y", b->y, N, C, real_bytes, OPTIONAL},
                                         {"dy", b->dy, N, C, real_bytes, NEEDED},
                                         {"dz", b->dz, N, C, real_bytes, OPTIONAL | WRITTEN},
                                         {"sums", b->sums, 2, C, sizeof(double), WRITTEN},
                                         {"dweight", b->dweight, C, 1, real_bytes, WRITTEN},
                                         {"dbias", b->dbias, C, 1, real_bytes, WRITTEN},
                                         {"batch", b->batch, 2, C, sizeof(double), NEEDED},
                                         {"mean", b->mean, C, 1, real_bytes, WRITTEN},
                                         {"variance", b->variance, C, 1, real_bytes, WRITTEN}};
    LS_TRY(ls_check_tensors("bn_backward_sums", 13, tensors, work));
    work->flops += 5.0 * (double)N * (double)C;
    LS_TRY(check_count("bn_backward_sums", b->count, 1));
    return ls_check_value("bn_backward_sums", "share", b->share);
}

ls_status ls_check_bn_backward(const ls_bn_backward_args *b, size_t real_bytes, ls_work *work)
{
    const int64_t N = b->pixels, C = b->channels;
    const ls_checked_tensor tensors[] = {{"x", b->x, N, C, real_bytes, NEEDED},
                                         {"moments", b->moments, 2, C, real_bytes, NEEDED},
                                         {"weight", b->weight, C, 1, real_bytes, NEEDED},
                                         {"bias", b->bias, C, 1, real_bytes, NEEDED},
                                         {"sums", b->sums, 2, C, sizeof(double), NEEDED},
                                         {"dy", b->dy, N, C, real_bytes, NEEDED},
                                         {"dx", b->dx, N, C, real_bytes, WRITTEN}};
    LS_TRY(ls_check_tensors("bn_backward", 7, tensors, work));
    work->flops += 6.0 * (double)N * (double)C;
    return check_count("bn_backward", b->count, N > 0);
}

/* Elements of one row of the larger and the smaller image. */
static ls_status check_shortcut(const char *op, const ls_shortcut_shape *s, int64_t sizes[2])
{
    size_t in, out;
    if (s->in_height < 0 || s->in_width < 0 || s->channels < 1 || s->outputs < s->channels ||
        s->stride < 1 || s->stride > INT32_MAX || s->in_height > INT32_MAX ||
        s->in_width > INT32_MAX)
        return ls_fail(LS_CODE_USAGE, op, "shape",
                       "%" PRId64 " x %" PRId64 " x %" PRId64 " to %" PRId64
                       " channels by a stride of %" PRId64
                       "; give as many channels or more, and a stride of 1 or more",
                       s->in_height, s->in_width, s->channels, s->outputs, s->stride);
    const size_t height = (size_t)((s->in_height + s->stride - 1) / s->stride);
    const size_t width = (size_t)((s->in_width + s->stride - 1) / s->stride);
    if (!ls_size_multiply((size_t)s->in_height * (size_t)s->in_width, (size_t)s->channels, &in) ||
        !ls_size_multiply(height * width, (size_t)s->outputs, &out) || in > INT64_MAX / 8 ||
        out > INT64_MAX / 8)
        return ls_fail(LS_CODE_USAGE, op, "shape", "its images overflow; give smaller ones");
    sizes[0] = (int64_t)in;
    sizes[1] = (int64_t)out;
    return LS_OK;
}

ls_status ls_check_shortcut_forward(const ls_shortcut_forward_args *s, size_t real_bytes,
                                    ls_work *work)
{
    int64_t sizes[2] = {0};
    LS_TRY(check_shortcut("shortcut_forward", &s->shape, sizes));
    const ls_checked_tensor tensors[] = {{"x", s->x, s->shape.rows, sizes[0], real_bytes, NEEDED},
                                         {"y", s->y, s->shape.rows, sizes[1], real_bytes, WRITTEN}};
    return ls_check_tensors("shortcut_forward", 2, tensors, work);
}

ls_status ls_check_shortcut_backward(const ls_shortcut_backward_args *s, size_t real_bytes,
                                     ls_work *work)
{
    int64_t sizes[2] = {0};
    LS_TRY(check_shortcut("shortcut_backward", &s->shape, sizes));
    const ls_checked_tensor tensors[] = {
        {"dy", s->dy, s->shape.rows, sizes[1], real_bytes, NEEDED},
        {"dx", s->dx, s->shape.rows, sizes[0], real_bytes, WRITTEN}};
    return ls_check_tensors("shortcut_backward", 2, tensors, work);
}

/* Elements of a row of the image. */
static ls_status check_mean(const char *op, int64_t pixels, int64_t channels, int64_t *out)
{
    size_t size = 0;
    LS_TRY(check_count(op, pixels, 1));
    if (channels < 0 || !ls_size_multiply((size_t)pixels, (size_t)channels, &size) ||
        size > INT64_MAX / 8)
        return ls_fail(LS_CODE_USAGE, op, "channels", "%" PRId64 " are none; give 0 or more",
                       channels);
    *out = (int64_t)size;
    return LS_OK;
}

ls_status ls_check_mean_pool_forward(const ls_mean_pool_forward_args *m, size_t real_bytes,
                                     ls_work *work)
{
    int64_t size = 0;
    LS_TRY(check_mean("mean_pool_forward", m->pixels, m->channels, &size));
    const ls_checked_tensor tensors[] = {{"x", m->x, m->rows, size, real_bytes, NEEDED},
                                         {"y", m->y, m->rows, m->channels, real_bytes, WRITTEN}};
    LS_TRY(ls_check_tensors("mean_pool_forward", 2, tensors, work));
    work->flops += (double)m->rows * (double)size;
    return LS_OK;
}

ls_status ls_check_mean_pool_backward(const ls_mean_pool_backward_args *m, size_t real_bytes,
                                      ls_work *work)
{
    int64_t size = 0;
    LS_TRY(check_mean("mean_pool_backward", m->pixels, m->channels, &size));
    const ls_checked_tensor tensors[] = {{"dy", m->dy, m->rows, m->channels, real_bytes, NEEDED},
                                         {"dx", m->dx, m->rows, size, real_bytes, WRITTEN}};
    return ls_check_tensors("mean_pool_backward", 2, tensors, work);
}

ls_status ls_check_moving_average(const ls_moving_average_args *m, size_t real_bytes, ls_work *work)
{
    const ls_checked_tensor tensors[] = {{"value", m->value, m->count, 1, real_bytes, NEEDED},
                                         {"average", m->average, m->count, 1, real_bytes, WRITTEN},
                                         {"state", m->state, 1, 1, sizeof *m->state, OPTIONAL}};
    LS_TRY(ls_check_tensors("moving_average", 3, tensors, work));
    work->flops += 3.0 * (double)m->count;
    return ls_check_value("moving_average", "decay", m->decay);
}

ls_status ls_check_add_sums(const ls_add_sums_args *a, size_t real_bytes, ls_work *work)
{
    (void)real_bytes;
    const ls_checked_tensor tensors[] = {{"a", a->a, a->count, 1, sizeof *a->a, NEEDED},
                                         {"b", a->b, a->count, 1, sizeof *a->b, OPTIONAL},
                                         {"out", a->out, a->count, 1, sizeof *a->out, WRITTEN}};
    LS_TRY(ls_check_tensors("add_sums", 3, tensors, work));
    work->flops += a->b ? (double)a->count : 0;
    return LS_OK;
}
