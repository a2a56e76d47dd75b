/* SPDX-License-Identifier: MIT */
/* Checks the arguments of kernel_layers.h's operations, and counts their work. */
#include "common/kernel/kernel_check_parts.h"

#include "common/base/numbers.h"

#include <inttypes.h>

static const int64_t longest_side = 1 << 20; /* limits products of two sides and strides */

/* height * width * channels; refused if it overflows. */
static ls_status count_elements(const ls_work *work, const char *name, int64_t height,
                                int64_t width, int64_t channels, int64_t *out)
{
    const int64_t sizes[] = {height, width, channels};
    size_t count = 1;
    for (int i = 0; i < 3; i++)
        if (sizes[i] < 0 || !ls_size_multiply(count, (size_t)sizes[i], &count) ||
            count > INT64_MAX / 8)
            return ls_fail(LS_CODE_USAGE, work->op, name,
                           "the size is %" PRId64 " x %" PRId64 " x %" PRId64
                           "; give sizes of 0 or more that memory can hold",
                           sizes[0], sizes[1], sizes[2]);
    *out = (int64_t)count;
    return LS_OK;
}

/* One axis of a window: every position must overlap the image. */
static ls_status check_axis(const ls_work *work, const char *name, int64_t in, int64_t out,
                            int64_t size, int64_t stride, int64_t before)
{
    if (in >= 0 && in <= longest_side && out >= 0 && out <= longest_side && size >= 1 &&
        size <= longest_side && stride >= 1 && stride <= longest_side && before >= 0 &&
        before < size && (!out || (in && (out - 1) * stride - before < in)))
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, work->op, name,
                   "a window of %" PRId64 " with stride %" PRId64 " and padding %" PRId64
                   " does not give %" PRId64 " positions on an image of %" PRId64
                   "; give sizes that fit the image",
                   size, stride, before, out, in);
}

static ls_status check_window(const ls_work *work, const ls_window *w)
{
    LS_TRY(check_axis(work, "height", w->in_height, w->out_height, w->height, w->stride_y, w->top));
    return check_axis(work, "width", w->in_width, w->out_width, w->width, w->stride_x, w->left);
}

/* Elements of one sample of x and y, and of one output's weights. */
typedef struct conv_sizes {
    int64_t x, y, weight;
} conv_sizes;

static ls_status check_conv(const ls_work *work, const ls_conv_shape *s, conv_sizes *out)
{
    const ls_window *w = &s->window;
    LS_TRY(check_window(work, w));
    LS_TRY(count_elements(work, "x", w->in_height, w->in_width, s->channels, &out->x));
    LS_TRY(count_elements(work, "y", w->out_height, w->out_width, s->outputs, &out->y));
    if (s->channels < 1 || s->outputs < 1)
        return ls_fail(LS_CODE_USAGE, work->op, "shape",
                       "%" PRId64 " channels and %" PRId64
                       " outputs are given; give 1 or more of each",
                       s->channels, s->outputs);
    return count_elements(work, "weight", w->height, w->width, s->channels, &out->weight);
}

ls_status ls_check_gather_crops(const ls_gather_crops_args *a, ls_work *work)
{
    int64_t in = 0, out = 0;
    LS_TRY(count_elements(work, "source", a->in_side, a->in_side, a->channels, &in));
    LS_TRY(count_elements(work, "out", a->out_side, a->out_side, a->channels, &out));
    LS_TRY(CHECK_TENSORS(TENSOR(source, a->rows, in, 1, APART), OF_TYPE(indices, a->rows, 1, 0),
                         OF_TYPE(state, 1, 1, 0), WRITE(out, a->rows, out)));
    LS_TRY(ls_check_source(work, a->source, a->samples, (size_t)in));
    work->flops += 5.0 * (double)a->rows * (double)out;
    if (a->channels < 1)
        return ls_fail(LS_CODE_USAGE, work->op, "channels",
                       "%" PRId64 " channels are given; give 1 or more", a->channels);
    if (a->pad < 0 || a->pad > a->in_side)
        return ls_fail(LS_CODE_USAGE, work->op, "pad",
                       "a border of %" PRId64
                       " pixels is below 0, or above the image's side, %" PRId64
                       "; give a border within these limits",
                       a->pad, a->in_side);
    if (a->out_side < 1 || a->out_side > a->in_side + 2 * a->pad || a->in_side > 1 << 12)
        return ls_fail(
            LS_CODE_USAGE, work->op, "out_side",
            "a crop with sides of %" PRId64 " pixels does not fit an image with sides of %" PRId64
            " and a border of %" PRId64
            " pixels; give a side of 1 or more that fits (sides of images: at most %d pixels)",
            a->out_side, a->in_side, a->pad, 1 << 12);
    return LS_OK;
}

ls_status ls_check_conv_forward(const ls_conv_forward_args *a, ls_work *work)
{
    const ls_conv_shape *s = &a->shape;
    conv_sizes size = {0};
    LS_TRY(check_conv(work, s, &size));
    LS_TRY(CHECK_TENSORS(READ(x, s->rows, size.x), READ(weight, s->outputs, size.weight),
                         READ_SOME(bias, s->outputs, 1), WRITE(y, s->rows, size.y)));
    work->flops += 2.0 * (double)s->rows * (double)size.y * (double)size.weight;
    return ls_check_activation(work, a->activation);
}

ls_status ls_check_conv_backward_weights(const ls_conv_backward_weights_args *a, ls_work *work)
{
    const ls_conv_shape *s = &a->shape;
    conv_sizes size = {0};
    LS_TRY(check_conv(work, s, &size));
    work->flops += 2.0 * (double)s->rows * (double)size.y * (double)size.weight;
    return CHECK_TENSORS(READ(x, s->rows, size.x), READ(dy, s->rows, size.y),
                         WRITE(dweight, s->outputs, size.weight), WRITE_SOME(dbias, s->outputs, 1));
}

ls_status ls_check_conv_backward_data(const ls_conv_backward_data_args *a, ls_work *work)
{
    const ls_conv_shape *s = &a->shape;
    conv_sizes size = {0};
    LS_TRY(check_conv(work, s, &size));
    LS_TRY(CHECK_TENSORS(READ(dy, s->rows, size.y), READ(weight, s->outputs, size.weight),
                         WRITE(dx, s->rows, size.x)));
    work->flops += 2.0 * (double)s->rows * (double)size.y * (double)size.weight;
    return LS_OK;
}

/* Elements of one sample of the input and of the output of a pool. */
static ls_status check_pool(const ls_work *work, const ls_window *w, int64_t channels,
                            int64_t sizes[2])
{
    LS_TRY(check_window(work, w));
    LS_TRY(count_elements(work, "x", w->in_height, w->in_width, channels, &sizes[0]));
    LS_TRY(count_elements(work, "y", w->out_height, w->out_width, channels, &sizes[1]));
    if (w->in_height * w->in_width <= INT32_MAX)
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, work->op, "x",
                   "x has more than %" PRId32 " pixels; give smaller images", INT32_MAX);
}

ls_status ls_check_max_pool_forward(const ls_max_pool_forward_args *a, ls_work *work)
{
    int64_t sizes[2] = {0};
    LS_TRY(check_pool(work, &a->window, a->channels, sizes));
    work->flops +=
        (double)a->rows * (double)sizes[1] * (double)(a->window.height * a->window.width);
    return CHECK_TENSORS(READ(x, a->rows, sizes[0]), WRITE(y, a->rows, sizes[1]),
                         OF_TYPE(argmax, a->rows, sizes[1], WRITTEN));
}

ls_status ls_check_max_pool_backward(const ls_max_pool_backward_args *a, ls_work *work)
{
    int64_t sizes[2] = {0};
    LS_TRY(check_pool(work, &a->window, a->channels, sizes));
    work->flops += (double)a->rows * (double)sizes[1];
    return CHECK_TENSORS(READ(dy, a->rows, sizes[1]), OF_TYPE(argmax, a->rows, sizes[1], 0),
                         READ_SOME(relu_output, a->rows, sizes[1]), WRITE(dx, a->rows, sizes[0]));
}

static ls_status check_radius(const ls_work *work, int64_t radius, double alpha)
{
    if (radius < 0 || radius > longest_side)
        return ls_fail(LS_CODE_USAGE, work->op, "radius",
                       "%" PRId64 " is not a possible radius; give 0 to %" PRId64, radius,
                       longest_side);
    return ls_check_value(work, "alpha", alpha);
}

ls_status ls_check_lrn_forward(const ls_lrn_forward_args *a, ls_work *work)
{
    LS_TRY(CHECK_TENSORS(READ(x, a->pixels, a->channels), WRITE(y, a->pixels, a->channels)));
    work->flops += (double)a->pixels * (double)a->channels * (2.0 * (double)a->radius + 6);
    return check_radius(work, a->radius, a->alpha);
}

ls_status ls_check_lrn_backward(const ls_lrn_backward_args *a, ls_work *work)
{
    LS_TRY(CHECK_TENSORS(READ(x, a->pixels, a->channels), READ(dy, a->pixels, a->channels),
                         WRITE(dx, a->pixels, a->channels)));
    work->flops += (double)a->pixels * (double)a->channels * (4.0 * (double)a->radius + 12);
    return check_radius(work, a->radius, a->alpha);
}

ls_status ls_check_transpose(const ls_transpose_args *a, ls_work *work)
{
    int64_t size = 0;
    LS_TRY(count_elements(work, "x", a->rows, a->columns, 1, &size));
    return CHECK_TENSORS(READ(x, a->batch, size), WRITE(y, a->batch, size));
}

ls_status ls_check_weight_decay(const ls_weight_decay_args *a, ls_work *work)
{
    LS_TRY(CHECK_TENSORS(READ(weight, a->count, 1), OF_TYPE(loss, 1, 1, WRITTEN)));
    return ls_check_ranges(work, a->ranges, a->range_count, a->count, true);
}

/* Positions are 32-bit numbers, and so is what kernels count in a sample. */
static ls_status check_conv_max(const ls_work *work, const ls_conv_shape *s, const conv_sizes *size)
{
    if (s->rows && !(s->window.out_height && s->window.out_width))
        return ls_fail(LS_CODE_USAGE, work->op, "window",
                       "the window has no position inside the image; give larger images");
    if (s->window.out_height * s->window.out_width > INT32_MAX)
        return ls_fail(LS_CODE_USAGE, work->op, "window",
                       "the window would be applied at more than %" PRId32
                       " places of an image; give smaller images",
                       INT32_MAX);
    if (size->x > INT32_MAX || size->weight > INT32_MAX)
        return ls_fail(LS_CODE_USAGE, work->op, "shape",
                       "a sample, or the weights of one output channel, have more than %" PRId32
                       " elements; give smaller images",
                       INT32_MAX);
    return LS_OK;
}

ls_status ls_check_conv_max_forward(const ls_conv_max_forward_args *a, ls_work *work)
{
    const ls_conv_shape *s = &a->shape;
    conv_sizes size = {0};
    LS_TRY(check_conv(work, s, &size));
    LS_TRY(CHECK_TENSORS(READ(x, s->rows, size.x), READ(weight, s->outputs, size.weight),
                         READ_SOME(bias, s->outputs, 1), WRITE(y, s->rows, s->outputs),
                         OF_TYPE(argmax, s->rows, s->outputs, WRITTEN)));
    LS_TRY(check_conv_max(work, s, &size));
    work->flops += 2.0 * (double)s->rows * (double)size.y * (double)size.weight;
    return ls_check_activation(work, a->activation);
}

ls_status ls_check_conv_max_backward_weights(const ls_conv_max_backward_weights_args *a,
                                             ls_work *work)
{
    const ls_conv_shape *s = &a->shape;
    conv_sizes size = {0};
    LS_TRY(check_conv(work, s, &size));
    LS_TRY(CHECK_TENSORS(READ(x, s->rows, size.x), READ(dy, s->rows, s->outputs),
                         OF_TYPE(argmax, s->rows, s->outputs, 0),
                         WRITE(dweight, s->outputs, size.weight),
                         WRITE_SOME(dbias, s->outputs, 1)));
    LS_TRY(check_conv_max(work, s, &size));
    work->flops += 2.0 * (double)s->rows * (double)s->outputs * (double)size.weight;
    return LS_OK;
}

/* Tensors of both directions; steps, inputs and states are at least 1. */
static ls_status check_lstm(const ls_work *work, const ls_lstm_shape *s, int64_t sizes[3])
{
    if (s->steps < 1 || s->inputs < 1 || s->hidden < 1 || s->hidden > longest_side)
        return ls_fail(LS_CODE_USAGE, work->op, "shape",
                       "%" PRId64 " steps, %" PRId64 " inputs and %" PRId64
                       " states are given; give 1 or more of each, and at most %" PRId64 " states",
                       s->steps, s->inputs, s->hidden, longest_side);
    LS_TRY(count_elements(work, "x", s->steps, s->inputs, 1, &sizes[0]));
    LS_TRY(count_elements(work, "kept", s->steps, s->hidden, LS_LSTM_KEPT, &sizes[1]));
    sizes[2] = s->last ? s->hidden : s->steps * s->hidden;
    return LS_OK;
}

ls_status ls_check_lstm_forward(const ls_lstm_forward_args *a, ls_work *work)
{
    const ls_lstm_shape *s = &a->shape;
    int64_t sizes[3] = {0};
    LS_TRY(check_lstm(work, s, sizes));
    work->flops += 8.0 * (double)s->rows * (double)s->steps * (double)s->hidden *
                   (double)(s->inputs + s->hidden);
    return CHECK_TENSORS(READ(x, s->rows, sizes[0]), READ(weight_ih, 4 * s->hidden, s->inputs),
                         READ(weight_hh, 4 * s->hidden, s->hidden), READ(bias, 4 * s->hidden, 1),
                         WRITE(kept, s->rows, sizes[1]), WRITE(y, s->rows, sizes[2]));
}

ls_status ls_check_lstm_backward(const ls_lstm_backward_args *a, ls_work *work)
{
    const ls_lstm_shape *s = &a->shape;
    int64_t sizes[3] = {0};
    LS_TRY(check_lstm(work, s, sizes));
    const bool first = a->weight_ih, second = !first || a->dweight_ih;
    const int64_t back = first ? s->rows : 0, rows = second ? s->rows : 0;
    const int64_t units = second ? 4 * s->hidden : 0;
    work->flops += 8.0 * (double)s->rows * (double)s->steps * (double)s->hidden *
                   ((double)(s->inputs * ((first && a->dx) + second)) +
                    (double)(s->hidden * (first + second)));
    return CHECK_TENSORS(
        READ(x, rows, sizes[0]), READ(weight_ih, first ? 4 * s->hidden : 0, s->inputs),
        READ(weight_hh, first ? 4 * s->hidden : 0, s->hidden), WRITE(kept, back, sizes[1]),
        READ(kept, rows, sizes[1]), READ(dy, back, sizes[2]), WRITE_SOME(dx, back, sizes[0]),
        WRITE(dweight_ih, units, s->inputs), WRITE(dweight_hh, units, s->hidden),
        WRITE(dbias, units, 1));
}

ls_status ls_check_logistic_loss(const ls_logistic_loss_args *a, ls_work *work)
{
    LS_TRY(CHECK_TENSORS(READ(logits, a->rows, 1), OF_TYPE(labels, a->rows, 1, 0),
                         WRITE_SOME(dlogits, a->rows, 1), OF_TYPE(loss, 1, 1, OPTIONAL | WRITTEN)));
    work->flops += 5.0 * (double)a->rows;
    return ls_check_value(work, "scale", a->scale);
}

ls_status ls_check_copy_columns(const ls_copy_columns_args *a, ls_work *work)
{
    LS_TRY(CHECK_TENSORS(REAL(x, a->rows, a->x_pitch, APART), REAL(y, a->rows, a->y_pitch, APART)));
    if (a->width < 0 || a->width > a->x_pitch || a->width > a->y_pitch)
        return ls_fail(LS_CODE_USAGE, work->op, "width",
                       "%" PRId64 " columns do not fit rows with pitches of %" PRId64
                       " and %" PRId64
                       " columns; give 0 columns or more, and at most the smaller pitch",
                       a->width, a->x_pitch, a->y_pitch);
    work->bytes = 2.0 * (double)a->rows * (double)a->width * (double)work->real_bytes;
    const size_t last = a->rows ? (size_t)(a->rows - 1) : 0, width = a->rows ? (size_t)a->width : 0;
    LS_TRY(
        ls_work_touch(work, a->x, (last * (size_t)a->x_pitch + width) * work->real_bytes, false));
    return ls_work_touch(work, a->y, (last * (size_t)a->y_pitch + width) * work->real_bytes, true);
}
