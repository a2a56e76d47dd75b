/* SPDX-License-Identifier: MIT */
/* Arguments of kernel_layers.h's operations: checked, and their work counted. */
#include "common/kernel/kernel_check_parts.h"

#include "common/base/numbers.h"

#include <inttypes.h>

static const int64_t longest_side = 1 << 20; /* keeps products of two sides and strides in range */

/* height * width * channels, refused where it cannot be counted. */
static ls_status count_elements(const char *op, const char *name, const int64_t sizes[3],
                                int64_t *out)
{
    size_t count = 1;
    for (int i = 0; i < 3; i++)
        if (sizes[i] < 0 || !ls_size_multiply(count, (size_t)sizes[i], &count) ||
            count > INT64_MAX / 8)
            return ls_fail(LS_CODE_USAGE, op, name,
                           "it is %" PRId64 " x %" PRId64 " x %" PRId64
                           "; give sizes of 0 or more that memory can hold",
                           sizes[0], sizes[1], sizes[2]);
    *out = (int64_t)count;
    return LS_OK;
}

/* One axis of a window: every position must touch the image. */
static ls_status check_axis(const char *op, const char *name, const int64_t axis[5])
{
    const int64_t in = axis[0], out = axis[1], size = axis[2], stride = axis[3], before = axis[4];
    if (in >= 0 && in <= longest_side && out >= 0 && out <= longest_side && size >= 1 &&
        size <= longest_side && stride >= 1 && stride <= longest_side && before >= 0 &&
        before < size && (!out || (out - 1) * stride - before < in))
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, op, name,
                   "a window of %" PRId64 " and stride %" PRId64 " with %" PRId64
                   " of padding gives no %" PRId64 " positions on %" PRId64
                   "; give windows that lie on the image",
                   size, stride, before, out, in);
}

static ls_status check_window(const char *op, const ls_window *w)
{
    LS_TRY(
        check_axis(op, "height",
                   (const int64_t[]){w->in_height, w->out_height, w->height, w->stride_y, w->top}));
    return check_axis(op, "width",
                      (const int64_t[]){w->in_width, w->out_width, w->width, w->stride_x, w->left});
}

/* Elements of one sample of x and y, and of one output's weights. */
typedef struct conv_sizes {
    int64_t x, y, weight;
} conv_sizes;

static ls_status check_conv(const char *op, const ls_conv_shape *s, conv_sizes *out)
{
    const ls_window *w = &s->window;
    LS_TRY(check_window(op, w));
    LS_TRY(count_elements(op, "x", (const int64_t[]){w->in_height, w->in_width, s->channels},
                          &out->x));
    LS_TRY(count_elements(op, "y", (const int64_t[]){w->out_height, w->out_width, s->outputs},
                          &out->y));
    if (s->channels < 1 || s->outputs < 1)
        return ls_fail(LS_CODE_USAGE, op, "shape",
                       "%" PRId64 " channels and %" PRId64 " outputs are none; give 1 or more",
                       s->channels, s->outputs);
    return count_elements(op, "weight", (const int64_t[]){w->height, w->width, s->channels},
                          &out->weight);
}

ls_status ls_check_gather_crops(const ls_gather_crops_args *g, size_t real_bytes, ls_work *work)
{
    static const char op[] = "gather_crops";
    int64_t in = 0, out = 0;
    LS_TRY(
        count_elements(op, "source", (const int64_t[]){g->in_side, g->in_side, g->channels}, &in));
    LS_TRY(
        count_elements(op, "out", (const int64_t[]){g->out_side, g->out_side, g->channels}, &out));
    const ls_checked_tensor tensors[] = {
        {"source", g->source, g->rows, in, 1, APART},
        {"indices", g->indices, g->rows, 1, sizeof *g->indices, NEEDED},
        {"state", g->state, 1, 1, sizeof *g->state, NEEDED},
        {"out", g->out, g->rows, out, real_bytes, WRITTEN}};
    LS_TRY(ls_check_tensors(op, 4, tensors, work));
    LS_TRY(ls_check_source(op, work, g->source, g->samples, (size_t)in));
    work->flops += 5.0 * (double)g->rows * (double)out;
    if (g->channels < 1 || g->pad < 0 || g->pad > g->in_side || g->out_side < 1 ||
        g->out_side > g->in_side + 2 * g->pad || g->in_side > 1 << 12)
        return ls_fail(LS_CODE_USAGE, op, "out_side",
                       "a crop of %" PRId64 " does not fit an image of %" PRId64
                       " with a border of %" PRId64 "; give 1 to the image's, of at most %d",
                       g->out_side, g->in_side, g->pad, 1 << 12);
    return LS_OK;
}

static ls_status check_activation(const char *op, ls_activation activation)
{
    if (activation == LS_ACTIVATION_NONE || activation == LS_ACTIVATION_RELU)
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, op, "activation",
                   "%d is none; give LS_ACTIVATION_NONE or LS_ACTIVATION_RELU", (int)activation);
}

/* The weights once more, which are no other bytes. */
static ls_status touch_packed(ls_work *work, const void *packed, const ls_conv_shape *s,
                              const conv_sizes *size, size_t real_bytes)
{
    return ls_work_touch(work, packed, (size_t)(s->outputs * size->weight) * real_bytes, false);
}

ls_status ls_check_conv_forward(const ls_conv_forward_args *c, size_t real_bytes, ls_work *work)
{
    static const char op[] = "conv_forward";
    const ls_conv_shape *s = &c->shape;
    conv_sizes size = {0};
    LS_TRY(check_conv(op, s, &size));
    const ls_checked_tensor tensors[] = {
        {"x", c->x, s->rows, size.x, real_bytes, NEEDED},
        {"weight", c->weight, s->outputs, size.weight, real_bytes, NEEDED},
        {"bias", c->bias, s->outputs, 1, real_bytes, OPTIONAL},
        {"y", c->y, s->rows, size.y, real_bytes, WRITTEN}};
    LS_TRY(ls_check_tensors(op, 4, tensors, work));
    LS_TRY(touch_packed(work, c->packed, s, &size, real_bytes));
    work->flops += 2.0 * (double)s->rows * (double)size.y * (double)size.weight;
    return check_activation(op, c->activation);
}

ls_status ls_check_conv_backward_weights(const ls_conv_backward_weights_args *c, size_t real_bytes,
                                         ls_work *work)
{
    static const char op[] = "conv_backward_weights";
    const ls_conv_shape *s = &c->shape;
    conv_sizes size = {0};
    LS_TRY(check_conv(op, s, &size));
    const ls_checked_tensor tensors[] = {
        {"x", c->x, s->rows, size.x, real_bytes, NEEDED},
        {"dy", c->dy, s->rows, size.y, real_bytes, NEEDED},
        {"dweight", c->dweight, s->outputs, size.weight, real_bytes, WRITTEN},
        {"dbias", c->dbias, s->outputs, 1, real_bytes, OPTIONAL | WRITTEN}};
    LS_TRY(ls_check_tensors(op, 4, tensors, work));
    work->flops += 2.0 * (double)s->rows * (double)size.y * (double)size.weight;
    return LS_OK;
}

ls_status ls_check_conv_backward_data(const ls_conv_backward_data_args *c, size_t real_bytes,
                                      ls_work *work)
{
    static const char op[] = "conv_backward_data";
    const ls_conv_shape *s = &c->shape;
    conv_sizes size = {0};
    LS_TRY(check_conv(op, s, &size));
    const ls_checked_tensor tensors[] = {
        {"dy", c->dy, s->rows, size.y, real_bytes, NEEDED},
        {"weight", c->weight, s->outputs, size.weight, real_bytes, NEEDED},
        {"dx", c->dx, s->rows, size.x, real_bytes, WRITTEN}};
    LS_TRY(ls_check_tensors(op, 3, tensors, work));
    LS_TRY(touch_packed(work, c->packed, s, &size, real_bytes));
    work->flops += 2.0 * (double)s->rows * (double)size.y * (double)size.weight;
    return LS_OK;
}

/* Elements of one sample of the input and of the output of a pool. */
static ls_status check_pool(const char *op, const ls_window *w, int64_t channels, int64_t sizes[2])
{
    LS_TRY(check_window(op, w));
    LS_TRY(
        count_elements(op, "x", (const int64_t[]){w->in_height, w->in_width, channels}, &sizes[0]));
    LS_TRY(count_elements(op, "y", (const int64_t[]){w->out_height, w->out_width, channels},
                          &sizes[1]));
    if (w->in_height * w->in_width <= INT32_MAX)
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, op, "x",
                   "it has more than %" PRId32 " pixels; give smaller images", INT32_MAX);
}

ls_status ls_check_max_pool_forward(const ls_max_pool_forward_args *p, size_t real_bytes,
                                    ls_work *work)
{
    static const char op[] = "max_pool_forward";
    int64_t sizes[2] = {0};
    LS_TRY(check_pool(op, &p->window, p->channels, sizes));
    const ls_checked_tensor tensors[] = {
        {"x", p->x, p->rows, sizes[0], real_bytes, NEEDED},
        {"y", p->y, p->rows, sizes[1], real_bytes, WRITTEN},
        {"place", p->place, p->rows, sizes[1], sizeof *p->place, WRITTEN}};
    LS_TRY(ls_check_tensors(op, 3, tensors, work));
    work->flops +=
        (double)p->rows * (double)sizes[1] * (double)(p->window.height * p->window.width);
    return LS_OK;
}

ls_status ls_check_max_pool_backward(const ls_max_pool_backward_args *p, size_t real_bytes,
                                     ls_work *work)
{
    static const char op[] = "max_pool_backward";
    int64_t sizes[2] = {0};
    LS_TRY(check_pool(op, &p->window, p->channels, sizes));
    const ls_checked_tensor tensors[] = {
        {"dy", p->dy, p->rows, sizes[1], real_bytes, NEEDED},
        {"place", p->place, p->rows, sizes[1], sizeof *p->place, NEEDED},
        {"relu_output", p->relu_output, p->rows, sizes[1], real_bytes, OPTIONAL},
        {"dx", p->dx, p->rows, sizes[0], real_bytes, WRITTEN}};
    LS_TRY(ls_check_tensors(op, 4, tensors, work));
    work->flops += (double)p->rows * (double)sizes[1];
    return LS_OK;
}

static ls_status check_radius(const char *op, int64_t radius, double alpha)
{
    if (radius < 0 || radius > longest_side)
        return ls_fail(LS_CODE_USAGE, op, "radius", "%" PRId64 " is none; give 0 to %" PRId64,
                       radius, longest_side);
    return ls_check_value(op, "alpha", alpha);
}

ls_status ls_check_lrn_forward(const ls_lrn_forward_args *l, size_t real_bytes, ls_work *work)
{
    const ls_checked_tensor tensors[] = {{"x", l->x, l->pixels, l->channels, real_bytes, NEEDED},
                                         {"y", l->y, l->pixels, l->channels, real_bytes, WRITTEN}};
    LS_TRY(ls_check_tensors("lrn_forward", 2, tensors, work));
    work->flops += (double)l->pixels * (double)l->channels * (2.0 * (double)l->radius + 6);
    return check_radius("lrn_forward", l->radius, l->alpha);
}

ls_status ls_check_lrn_backward(const ls_lrn_backward_args *l, size_t real_bytes, ls_work *work)
{
    const ls_checked_tensor tensors[] = {
        {"x", l->x, l->pixels, l->channels, real_bytes, NEEDED},
        {"dy", l->dy, l->pixels, l->channels, real_bytes, NEEDED},
        {"dx", l->dx, l->pixels, l->channels, real_bytes, WRITTEN}};
    LS_TRY(ls_check_tensors("lrn_backward", 3, tensors, work));
    work->flops += (double)l->pixels * (double)l->channels * (4.0 * (double)l->radius + 12);
    return check_radius("lrn_backward", l->radius, l->alpha);
}

ls_status ls_check_transpose(const ls_transpose_args *t, size_t real_bytes, ls_work *work)
{
    int64_t size = 0;
    LS_TRY(count_elements("transpose", "x", (const int64_t[]){t->rows, t->columns, 1}, &size));
    const ls_checked_tensor tensors[] = {{"x", t->x, t->batch, size, real_bytes, NEEDED},
                                         {"y", t->y, t->batch, size, real_bytes, WRITTEN}};
    return ls_check_tensors("transpose", 2, tensors, work);
}

ls_status ls_check_pack_weights(const ls_pack_weights_args *p, size_t real_bytes, ls_work *work)
{
    if (p->count < 0 || (p->count && !p->items))
        return ls_fail(LS_CODE_USAGE, "pack_weights", "items",
                       "%" PRId64 " of them are none; give as many as there are", p->count);
    for (int64_t i = 0; i < p->count; i++) {
        const ls_packed_weights *w = &p->items[i];
        int64_t size = 0;
        LS_TRY(count_elements("pack_weights", "weight", (const int64_t[]){w->channels, w->taps, 1},
                              &size));
        const ls_checked_tensor tensors[] = {
            {"weight", w->weight, w->outputs, size, real_bytes, NEEDED},
            {"packed", w->packed, w->outputs, size, real_bytes, WRITTEN}};
        LS_TRY(ls_check_tensors("pack_weights", 2, tensors, work));
    }
    return LS_OK;
}

ls_status ls_check_weight_decay(const ls_weight_decay_args *d, size_t real_bytes, ls_work *work)
{
    const ls_checked_tensor tensors[] = {{"weight", d->weight, d->count, 1, real_bytes, NEEDED},
                                         {"loss", d->loss, 1, 1, sizeof *d->loss, WRITTEN}};
    LS_TRY(ls_check_tensors("weight_decay", 2, tensors, work));
    return ls_check_ranges("weight_decay", d->ranges, d->range_count, d->count, true, &work->flops);
}

/* Positions are 32-bit numbers, and what kernels count of a sample, too. */
static ls_status check_conv_max(const char *op, const ls_conv_shape *s, const conv_sizes *size)
{
    if (s->window.out_height * s->window.out_width > INT32_MAX)
        return ls_fail(LS_CODE_USAGE, op, "window",
                       "it has more than %" PRId32 " positions; give smaller images", INT32_MAX);
    if (size->x > INT32_MAX || size->weight > INT32_MAX)
        return ls_fail(LS_CODE_USAGE, op, "shape",
                       "a sample, or an output's weights, have more than %" PRId32
                       " elements; give smaller images",
                       INT32_MAX);
    return LS_OK;
}

ls_status ls_check_conv_max_forward(const ls_conv_max_forward_args *c, size_t real_bytes,
                                    ls_work *work)
{
    static const char op[] = "conv_max_forward";
    const ls_conv_shape *s = &c->shape;
    conv_sizes size = {0};
    LS_TRY(check_conv(op, s, &size));
    const ls_checked_tensor tensors[] = {
        {"x", c->x, s->rows, size.x, real_bytes, NEEDED},
        {"weight", c->weight, s->outputs, size.weight, real_bytes, NEEDED},
        {"bias", c->bias, s->outputs, 1, real_bytes, OPTIONAL},
        {"y", c->y, s->rows, s->outputs, real_bytes, WRITTEN},
        {"place", c->place, s->rows, s->outputs, sizeof *c->place, WRITTEN}};
    LS_TRY(ls_check_tensors(op, 5, tensors, work));
    if (s->rows && !(s->window.out_height && s->window.out_width))
        return ls_fail(LS_CODE_USAGE, op, "window", "it has no position; give larger images");
    LS_TRY(check_conv_max(op, s, &size));
    work->flops += 2.0 * (double)s->rows * (double)size.y * (double)size.weight;
    return check_activation(op, c->activation);
}

ls_status ls_check_conv_max_backward_weights(const ls_conv_max_backward_weights_args *c,
                                             size_t real_bytes, ls_work *work)
{
    static const char op[] = "conv_max_backward_weights";
    const ls_conv_shape *s = &c->shape;
    conv_sizes size = {0};
    LS_TRY(check_conv(op, s, &size));
    const ls_checked_tensor tensors[] = {
        {"x", c->x, s->rows, size.x, real_bytes, NEEDED},
        {"dy", c->dy, s->rows, s->outputs, real_bytes, NEEDED},
        {"place", c->place, s->rows, s->outputs, sizeof *c->place, NEEDED},
        {"dweight", c->dweight, s->outputs, size.weight, real_bytes, WRITTEN},
        {"dbias", c->dbias, s->outputs, 1, real_bytes, OPTIONAL | WRITTEN}};
    LS_TRY(ls_check_tensors(op, 5, tensors, work));
    LS_TRY(check_conv_max(op, s, &size));
    work->flops += 2.0 * (double)s->rows * (double)s->outputs * (double)size.weight;
    return LS_OK;
}

/* Tensors of both directions; steps, inputs and states are at least 1. */
static ls_status check_lstm(const char *op, const ls_lstm_shape *s, int64_t sizes[3])
{
    if (s->steps < 1 || s->inputs < 1 || s->hidden < 1 || s->hidden > longest_side)
        return ls_fail(LS_CODE_USAGE, op, "shape",
                       "%" PRId64 " steps, %" PRId64 " inputs and %" PRId64
                       " states are none; give 1 or more of each",
                       s->steps, s->inputs, s->hidden);
    LS_TRY(count_elements(op, "x", (const int64_t[]){s->steps, s->inputs, 1}, &sizes[0]));
    LS_TRY(count_elements(op, "kept", (const int64_t[]){s->steps, s->hidden, LS_LSTM_KEPT},
                          &sizes[1]));
    sizes[2] = s->last ? s->hidden : s->steps * s->hidden;
    return LS_OK;
}

ls_status ls_check_lstm_forward(const ls_lstm_forward_args *l, size_t real_bytes, ls_work *work)
{
    const ls_lstm_shape *s = &l->shape;
    int64_t sizes[3] = {0};
    LS_TRY(check_lstm("lstm_forward", s, sizes));
    const ls_checked_tensor tensors[] = {
        {"x", l->x, s->rows, sizes[0], real_bytes, NEEDED},
        {"weight_ih", l->weight_ih, 4 * s->hidden, s->inputs, real_bytes, NEEDED},
        {"weight_hh", l->weight_hh, 4 * s->hidden, s->hidden, real_bytes, NEEDED},
        {"bias", l->bias, 4 * s->hidden, 1, real_bytes, NEEDED},
        {"kept", l->kept, s->rows, sizes[1], real_bytes, WRITTEN},
        {"y", l->y, s->rows, sizes[2], real_bytes, WRITTEN}};
    LS_TRY(ls_check_tensors("lstm_forward", 6, tensors, work));
    work->flops += 8.0 * (double)s->rows * (double)s->steps * (double)s->hidden *
                   (double)(s->inputs + s->hidden);
    return LS_OK;
}

ls_status ls_check_lstm_backward(const ls_lstm_backward_args *l, size_t real_bytes, ls_work *work)
{
    const ls_lstm_shape *s = &l->shape;
    int64_t sizes[3] = {0};
    LS_TRY(check_lstm("lstm_backward", s, sizes));
    const ls_checked_tensor tensors[] = {
        {"x", l->x, s->rows, sizes[0], real_bytes, NEEDED},
        {"weight_ih", l->weight_ih, 4 * s->hidden, s->inputs, real_bytes, NEEDED},
        {"weight_hh", l->weight_hh, 4 * s->hidden, s->hidden, real_bytes, NEEDED},
        {"kept", l->kept, s->rows, sizes[1], real_bytes, WRITTEN},
        {"dy", l->dy, s->rows, sizes[2], real_bytes, NEEDED},
        {"dx", l->dx, s->rows, sizes[0], real_bytes, OPTIONAL | WRITTEN},
        {"dweight_ih", l->dweight_ih, 4 * s->hidden, s->inputs, real_bytes, WRITTEN},
        {"dweight_hh", l->dweight_hh, 4 * s->hidden, s->hidden, real_bytes, WRITTEN},
        {"dbias", l->dbias, 4 * s->hidden, 1, real_bytes, WRITTEN}};
    LS_TRY(ls_check_tensors("lstm_backward", 9, tensors, work));
    work->flops += 8.0 * (double)s->rows * (double)s->steps * (double)s->hidden *
                   ((l->dx ? 2.0 : 1.0) * (double)s->inputs + 2.0 * (double)s->hidden);
    return LS_OK;
}

static ls_status check_pair(const char *op, const ls_lstm_shape *a, const ls_lstm_shape *b)
{
    if (a->rows == b->rows && a->steps == b->steps && a->inputs == b->inputs &&
        a->hidden == b->hidden && a->last == b->last)
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, op, "shape", "differs between the two; give two of one shape");
}

ls_status ls_check_lstm_pair_forward(const ls_lstm_pair_forward_args *l, size_t real_bytes,
                                     ls_work *work)
{
    LS_TRY(ls_check_lstm_forward(&l->of[0], real_bytes, work));
    LS_TRY(ls_check_lstm_forward(&l->of[1], real_bytes, work));
    return check_pair("lstm_pair_forward", &l->of[0].shape, &l->of[1].shape);
}

ls_status ls_check_lstm_pair_backward(const ls_lstm_pair_backward_args *l, size_t real_bytes,
                                      ls_work *work)
{
    LS_TRY(ls_check_lstm_backward(&l->of[0], real_bytes, work));
    LS_TRY(ls_check_lstm_backward(&l->of[1], real_bytes, work));
    return check_pair("lstm_pair_backward", &l->of[0].shape, &l->of[1].shape);
}

ls_status ls_check_logistic_loss(const ls_logistic_loss_args *l, size_t real_bytes, ls_work *work)
{
    const ls_checked_tensor tensors[] = {
        {"logits", l->logits, l->rows, 1, real_bytes, NEEDED},
        {"labels", l->labels, l->rows, 1, sizeof *l->labels, NEEDED},
        {"dlogits", l->dlogits, l->rows, 1, real_bytes, OPTIONAL | WRITTEN},
        {"loss", l->loss, 1, 1, sizeof *l->loss, OPTIONAL | WRITTEN}};
    LS_TRY(ls_check_tensors("logistic_loss", 4, tensors, work));
    work->flops += 5.0 * (double)l->rows;
    return ls_check_value("logistic_loss", "scale", l->scale);
}

ls_status ls_check_copy_columns(const ls_copy_columns_args *c, size_t real_bytes, ls_work *work)
{
    const ls_checked_tensor tensors[] = {{"x", c->x, c->rows, c->x_pitch, real_bytes, APART},
                                         {"y", c->y, c->rows, c->y_pitch, real_bytes, APART}};
    LS_TRY(ls_check_tensors("copy_columns", 2, tensors, work));
    if (c->width < 0 || c->width > c->x_pitch || c->width > c->y_pitch)
        return ls_fail(LS_CODE_USAGE, "copy_columns", "width",
                       "%" PRId64 " is not in 0 to the pitches, %" PRId64 " and %" PRId64
                       "; give columns that the rows have",
                       c->width, c->x_pitch, c->y_pitch);
    work->bytes = 2.0 * (double)c->rows * (double)c->width * (double)real_bytes;
    const size_t last = c->rows ? (size_t)(c->rows - 1) : 0, width = c->rows ? (size_t)c->width : 0;
    LS_TRY(ls_work_touch(work, c->x, (last * (size_t)c->x_pitch + width) * real_bytes, false));
    return ls_work_touch(work, c->y, (last * (size_t)c->y_pitch + width) * real_bytes, true);
}
