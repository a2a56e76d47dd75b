/* SPDX-License-Identifier: MIT */
/* Part of kernel_staging.h: the memory of the operations of kernel_residual.h. */
#ifndef LS_COMMON_KERNEL_TESTS_RESIDUAL_STAGING_H
#define LS_COMMON_KERNEL_TESTS_RESIDUAL_STAGING_H

static inline ls_status staged_bn_sums(ls_kernels *k, const ls_bn_sums_args *args, ls_op **out)
{
    ls_bn_sums_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.x, reals(a.pixels * a.channels));
    stage_out(s, &a.sums, 2 * (size_t)a.channels * sizeof(double));
    stage_out(s, &a.moments, reals(2 * a.channels));
    return staged_close(s, inner->table->bn_sums(inner, &a, &s->inner), out);
}

static inline ls_status staged_bn_moments(ls_kernels *k, const ls_bn_moments_args *args,
                                          ls_op **out)
{
    ls_bn_moments_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.sums, 2 * (size_t)a.channels * sizeof(double));
    stage_out(s, &a.moments, reals(2 * a.channels));
    return staged_close(s, inner->table->bn_moments(inner, &a, &s->inner), out);
}

static inline ls_status staged_bn_moving_moments(ls_kernels *k,
                                                 const ls_bn_moving_moments_args *args, ls_op **out)
{
    ls_bn_moving_moments_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.mean, reals(a.channels));
    stage_in(s, &a.variance, reals(a.channels));
    stage_out(s, &a.moments, reals(2 * a.channels));
    return staged_close(s, inner->table->bn_moving_moments(inner, &a, &s->inner), out);
}

static inline ls_status staged_bn_forward(ls_kernels *k, const ls_bn_forward_args *args,
                                          ls_op **out)
{
    ls_bn_forward_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    const size_t image = reals(a.pixels * a.channels), line = reals(a.channels);
    stage_in(s, &a.x, image);
    stage_in(s, &a.moments, 2 * line);
    stage_in(s, &a.weight, line);
    stage_in(s, &a.bias, line);
    stage_in(s, &a.z, image);
    stage_out(s, &a.y, image);
    return staged_close(s, inner->table->bn_forward(inner, &a, &s->inner), out);
}

static inline ls_status staged_bn_backward_sums(ls_kernels *k, const ls_bn_backward_sums_args *args,
                                                ls_op **out)
{
    ls_bn_backward_sums_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    const size_t image = reals(a.pixels * a.channels), line = reals(a.channels);
    stage_in(s, &a.x, image);
    stage_in(s, &a.moments, 2 * line);
    stage_in(s, &a.weight, line);
    stage_in(s, &a.bias, line);
    stage_in(s, &a.y, image);
    stage_in(s, &a.dy, image);
    stage_out(s, &a.dz, image);
    stage_out(s, &a.sums, 2 * (size_t)a.channels * sizeof(double));
    stage_out(s, &a.dweight, line);
    stage_out(s, &a.dbias, line);
    stage_in(s, &a.batch, 2 * (size_t)a.channels * sizeof(double));
    stage_out(s, &a.mean, line);
    stage_out(s, &a.variance, line);
    return staged_close(s, inner->table->bn_backward_sums(inner, &a, &s->inner), out);
}

static inline ls_status staged_bn_backward(ls_kernels *k, const ls_bn_backward_args *args,
                                           ls_op **out)
{
    ls_bn_backward_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    const size_t image = reals(a.pixels * a.channels), line = reals(a.channels);
    stage_in(s, &a.x, image);
    stage_in(s, &a.moments, 2 * line);
    stage_in(s, &a.weight, line);
    stage_in(s, &a.bias, line);
    stage_in(s, &a.sums, 2 * (size_t)a.channels * sizeof(double));
    stage_in(s, &a.dy, image);
    stage_out(s, &a.dx, image);
    return staged_close(s, inner->table->bn_backward(inner, &a, &s->inner), out);
}

static inline ls_status staged_shortcut_forward(ls_kernels *k, const ls_shortcut_forward_args *args,
                                                ls_op **out)
{
    ls_shortcut_forward_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    const ls_shortcut_shape *h = &a.shape;
    const int64_t height = (h->in_height + h->stride - 1) / h->stride;
    const int64_t width = (h->in_width + h->stride - 1) / h->stride;
    const size_t large = reals(h->rows * h->in_height * h->in_width * h->channels);
    const size_t small = reals(h->rows * height * width * h->outputs);
    stage_in(s, &a.x, large);
    stage_out(s, &a.y, small);
    return staged_close(s, inner->table->shortcut_forward(inner, &a, &s->inner), out);
}

static inline ls_status staged_shortcut_backward(ls_kernels *k,
                                                 const ls_shortcut_backward_args *args, ls_op **out)
{
    ls_shortcut_backward_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    const ls_shortcut_shape *h = &a.shape;
    const int64_t height = (h->in_height + h->stride - 1) / h->stride;
    const int64_t width = (h->in_width + h->stride - 1) / h->stride;
    const size_t large = reals(h->rows * h->in_height * h->in_width * h->channels);
    const size_t small = reals(h->rows * height * width * h->outputs);
    stage_in(s, &a.dy, small);
    stage_out(s, &a.dx, large);
    return staged_close(s, inner->table->shortcut_backward(inner, &a, &s->inner), out);
}

static inline ls_status staged_mean_pool_forward(ls_kernels *k,
                                                 const ls_mean_pool_forward_args *args, ls_op **out)
{
    ls_mean_pool_forward_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.x, reals(a.rows * a.pixels * a.channels));
    stage_out(s, &a.y, reals(a.rows * a.channels));
    return staged_close(s, inner->table->mean_pool_forward(inner, &a, &s->inner), out);
}

static inline ls_status
staged_mean_pool_backward(ls_kernels *k, const ls_mean_pool_backward_args *args, ls_op **out)
{
    ls_mean_pool_backward_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.dy, reals(a.rows * a.channels));
    stage_out(s, &a.dx, reals(a.rows * a.pixels * a.channels));
    return staged_close(s, inner->table->mean_pool_backward(inner, &a, &s->inner), out);
}

static inline ls_status staged_moving_average(ls_kernels *k, const ls_moving_average_args *args,
                                              ls_op **out)
{
    ls_moving_average_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.value, reals(a.count));
    stage_out(s, &a.average, reals(a.count));
    stage_in(s, &a.state, sizeof *a.state);
    return staged_close(s, inner->table->moving_average(inner, &a, &s->inner), out);
}

static inline ls_status staged_add_sums(ls_kernels *k, const ls_add_sums_args *args, ls_op **out)
{
    ls_add_sums_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    const size_t bytes = (size_t)a.count * sizeof(double);
    stage_in(s, &a.a, bytes);
    stage_in(s, &a.b, bytes);
    stage_out(s, &a.out, bytes);
    return staged_close(s, inner->table->add_sums(inner, &a, &s->inner), out);
}

#endif
