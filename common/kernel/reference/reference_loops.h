/* SPDX-License-Identifier: MIT */
/*
 * The reference table: plain loops that define each operation of kernel.h. Included once by
 * reference.c (LS_REAL float) and once by reference64.c (LS_REAL double).
 *
 * Every element is computed in double from its inputs, sums in the order of the indices, and
 * rounded to LS_REAL when it is stored. Not fast, and not meant to be.
 */
#pragma once

#include "common/base/bf16_inline.h"
#include "common/base/grow.h"
#include "common/kernel/crop_draw.h"
#include "common/kernel/element_inline.h"
#include "common/kernel/reference/step_ops.h"
#include "common/kernel/step_inline.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

typedef LS_REAL real;

/* ---- Products ------------------------------------------------------------------------------ */

static ls_status gemm(const ls_gemm_args *g)
{
    const real *a = g->a, *b = g->b;
    real *c = g->c;
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            double sum = 0;
            for (int64_t k = 0; k < g->k; k++)
                sum += (double)a[g->transpose_a ? k * g->m + i : i * g->k + k] *
                       (double)b[g->transpose_b ? j * g->k + k : k * g->n + j];
            c[i * g->n + j] = (real)(g->accumulate ? (double)c[i * g->n + j] + sum : sum);
        }
    return LS_OK;
}

static ls_status dense_forward(const ls_dense_forward_args *d)
{
    const real *x = d->x, *weight = d->weight, *bias = d->bias;
    real *y = d->y;
    for (int64_t b = 0; b < d->rows; b++)
        for (int64_t o = 0; o < d->outputs; o++) {
            double sum = bias ? (double)bias[o] : 0;
            for (int64_t i = 0; i < d->inputs; i++)
                sum += (double)x[b * d->inputs + i] *
                       (double)weight[d->input_major ? i * d->outputs + o : o * d->inputs + i];
            if (d->activation == LS_ACTIVATION_RELU)
                sum = sum > 0 ? sum : 0;
            y[b * d->outputs + o] = (real)sum;
        }
    return LS_OK;
}

static ls_status dense_backward_weights(const ls_dense_backward_weights_args *d)
{
    const real *x = d->x, *dy = d->dy;
    real *dweight = d->dweight, *dbias = d->dbias;
    for (int64_t o = 0; o < d->outputs; o++) {
        for (int64_t i = 0; i < d->inputs; i++) {
            double sum = 0;
            for (int64_t b = 0; b < d->rows; b++)
                sum += (double)dy[b * d->outputs + o] * (double)x[b * d->inputs + i];
            dweight[d->input_major ? i * d->outputs + o : o * d->inputs + i] = (real)sum;
        }
        double sum = 0;
        for (int64_t b = 0; b < d->rows; b++)
            sum += (double)dy[b * d->outputs + o];
        if (dbias)
            dbias[o] = (real)sum;
    }
    return LS_OK;
}

static ls_status dense_backward_data(const ls_dense_backward_data_args *d)
{
    const real *dy = d->dy, *weight = d->weight, *relu_output = d->relu_output;
    real *dx = d->dx;
    for (int64_t b = 0; b < d->rows; b++)
        for (int64_t i = 0; i < d->inputs; i++) {
            double sum = 0;
            for (int64_t o = 0; o < d->outputs; o++)
                sum += (double)dy[b * d->outputs + o] *
                       (double)weight[d->input_major ? i * d->outputs + o : o * d->inputs + i];
            if (relu_output && !(relu_output[b * d->inputs + i] > 0))
                sum = 0;
            dx[b * d->inputs + i] = (real)sum;
        }
    return LS_OK;
}

/* ---- Elementwise --------------------------------------------------------------------------- */

/* A NaN becomes 0, as in oneDNN's ReLU. */
static ls_status relu_forward(const ls_relu_forward_args *r)
{
    const real *x = r->x;
    real *y = r->y;
    for (int64_t i = 0; i < r->count; i++)
        y[i] = x[i] > 0 ? x[i] : 0;
    return LS_OK;
}

static ls_status relu_backward(const ls_relu_backward_args *r)
{
    const real *y = r->y, *dy = r->dy;
    real *dx = r->dx;
    for (int64_t i = 0; i < r->count; i++)
        dx[i] = y[i] > 0 ? dy[i] : 0;
    return LS_OK;
}

static ls_status polynomial(const ls_polynomial_args *p)
{
    const real *x = p->x;
    real *y = p->y;
    for (int64_t b = 0; b < p->rows; b++) {
        y[3 * b] = x[b] * x[b];
        y[3 * b + 1] = x[b];
        y[3 * b + 2] = 1;
    }
    return LS_OK;
}

static ls_status add(const ls_add_args *s)
{
    const real *a = s->a, *b = s->b;
    real *y = s->y;
    for (int64_t i = 0; i < s->count; i++)
        y[i] = b ? a[i] + b[i] : a[i];
    return LS_OK;
}

static ls_status fill(const ls_fill_args *f)
{
    real *y = f->y;
    for (int64_t i = 0; i < f->count; i++)
        y[i] = (real)f->value;
    return LS_OK;
}

static ls_status scale(const ls_scale_args *s)
{
    real *y = s->y;
    const real factor = (real)(s->clip ? s->clip->factor : s->factor);
    for (int64_t i = 0; i < s->count; i++)
        y[i] = factor * y[i];
    return LS_OK;
}

static ls_status combine(const ls_combine_args *s)
{
    const real a = (real)s->a, b = (real)s->b, divisor = (real)s->divisor, *x = s->x, *y = s->y;
    real *out = s->out;
    for (int64_t i = 0; i < s->count; i++) {
        const real ax = a * x[i];
        const real sum = y ? ax + b * y[i] : ax;
        out[i] = sum / divisor;
    }
    return LS_OK;
}

static ls_status widen(const ls_widen_args *s)
{
    real *y = s->y;
    for (int64_t i = 0; i < s->count; i++)
        y[i] = (real)ls_float_of_bf16(s->x[i]);
    return LS_OK;
}

static ls_status narrow(const ls_narrow_args *s)
{
    const real *x = s->x;
    for (int64_t i = 0; i < s->count; i++)
        s->y[i] = ls_bf16_of_float((float)x[i]);
    return LS_OK;
}

static ls_status bf16_product(const ls_bf16_product_args *p)
{
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = p->bias ? (double)ls_float_of_bf16(p->bias[j]) : 0;
            for (int64_t k = 0; k < p->k; k++)
                sum +=
                    (double)ls_float_of_bf16(p->a[p->transpose_a ? k * p->m + i : i * p->k + k]) *
                    (double)ls_float_of_bf16(p->b[p->transpose_b ? j * p->k + k : k * p->n + j]);
            if ((p->relu && !(sum > 0)) ||
                (p->mask && !(ls_float_of_bf16(p->mask[i * p->n + j]) > 0)))
                sum = 0;
            if (p->transpose_a)
                ((real *)p->c)[i * p->n + j] = (real)sum;
            else
                ((uint16_t *)p->c)[i * p->n + j] = ls_bf16_of_float((float)sum);
        }
    return LS_OK;
}

static ls_status bf16_column_sums(const ls_bf16_column_sums_args *s)
{
    for (int64_t c = 0; c < s->columns; c++) {
        double sum = 0;
        for (int64_t r = 0; r < s->rows; r++)
            sum += (double)ls_float_of_bf16(s->x[r * s->columns + c]);
        ((real *)s->sums)[c] = (real)sum;
    }
    return LS_OK;
}

/* ---- Losses -------------------------------------------------------------------------------- */

static ls_status softmax_cross_entropy(const ls_softmax_cross_entropy_args *s)
{
    const double scale = ls_loss_scale(s->scale_at, s->scale);
    double total = 0;
    for (int64_t b = 0; b < s->rows; b++) {
        const real *z = (const real *)s->logits + b * s->classes;
        int32_t label = s->labels[b];
        if (s->scale_at && label == -1) {
            for (int64_t c = 0; s->dlogits && c < s->classes; c++)
                ((real *)s->dlogits)[b * s->classes + c] = 0;
            continue;
        }
        if (label < 0 || label >= s->classes)
            return ls_label_fail("softmax_cross_entropy", b, label, s->classes);
        double largest = -HUGE_VAL, sum = 0;
        for (int64_t c = 0; c < s->classes; c++)
            largest = (double)z[c] > largest ? (double)z[c] : largest;
        for (int64_t c = 0; c < s->classes; c++)
            sum += exp((double)z[c] - largest);
        total += log(sum) - ((double)z[label] - largest);
        if (!s->dlogits)
            continue;
        real *dz = (real *)s->dlogits + b * s->classes;
        for (int64_t c = 0; c < s->classes; c++)
            dz[c] = (real)(scale * (exp((double)z[c] - largest) / sum - (c == label)));
    }
    if (s->loss)
        *s->loss = scale * total;
    return LS_OK;
}

static ls_status squared_error(const ls_squared_error_args *s)
{
    const real *y = s->y, *target = s->target;
    real *dy = s->dy;
    double total = 0;
    for (int64_t i = 0; i < s->rows * s->outputs; i++) {
        double difference = (double)y[i] - (double)target[i];
        total += difference * difference;
        if (dy)
            dy[i] = (real)(s->scale * 2 * difference);
    }
    if (s->loss)
        *s->loss = s->scale * total;
    return LS_OK;
}

static ls_status count_correct(const ls_count_correct_args *a)
{
    for (int64_t b = 0; b < a->rows && a->state->position + (uint64_t)(b / a->targets) < a->samples;
         b++) {
        const real *z = (const real *)a->logits + b * a->classes;
        int64_t best = 0;
        for (int64_t c = 1; c < a->classes; c++)
            if (z[c] > z[best])
                best = c;
        if (a->classes == 1) /* logistic */
            *a->correct += (z[0] > 0) == (a->labels[b] == 1);
        else
            *a->correct += a->classes && best == a->labels[b];
    }
    return LS_OK;
}

/* ---- Gather, optimizer --------------------------------------------------------------------- */

static ls_status batch_indices(const ls_batch_indices_args *b)
{
    ls_order_epoch cache = {.epoch = UINT64_MAX};
    ls_order_samples(&b->order, b->state->position + b->offset, (uint64_t)b->rows, &cache,
                     b->indices);
    return LS_OK;
}

static ls_status gather(const ls_gather_args *g)
{
    for (int64_t b = 0; b < g->rows; b++)
        for (int64_t i = 0; i < g->width; i++) {
            int64_t from = (int64_t)g->indices[b] * g->width + i, to = b * g->width + i;
            if (g->type == LS_GATHER_BYTES_TO_UNIT)
                ((real *)g->out)[to] = (float)((const uint8_t *)g->source)[from] / 255.0f;
            else if (g->type == LS_GATHER_FLOAT)
                ((real *)g->out)[to] = ((const float *)g->source)[from];
            else if (g->type == LS_GATHER_ONE_HOT)
                for (int64_t k = 0; k < 256; k++)
                    ((real *)g->out)[to * 256 + k] = ((const uint8_t *)g->source)[from] == k;
            else
                ((int32_t *)g->out)[to] = ((const int32_t *)g->source)[from];
        }
    return LS_OK;
}

static void update(const ls_optimizer_args *o, int64_t from, int64_t to, bool shrinks)
{
    const real *gradient = o->gradient;
    real *weight = o->weight, *first = o->slot[0], *second = o->slot[1];
    double rate = o->state->learning_rate, t = (double)o->state->step + 1;
    double clip = o->clip ? o->clip->factor : 1;
    double correct_m = 1 - pow(o->beta1, t), correct_v = 1 - pow(o->beta2, t);
    for (int64_t i = from; i < to; i++) {
        double w = (double)weight[i], g = clip * (double)gradient[i], m, v;
        switch (o->kind) {
        case LS_OPTIMIZER_SGD:
            w -= rate * g;
            break;
        case LS_OPTIMIZER_MOMENTUM:
            v = o->mu * (double)first[i] + g;
            w -= rate * v;
            first[i] = (real)v;
            break;
        case LS_OPTIMIZER_ADAM:
        case LS_OPTIMIZER_ADAMW:
            m = o->beta1 * (double)first[i] + (1 - o->beta1) * g;
            v = o->beta2 * (double)second[i] + (1 - o->beta2) * g * g;
            w -= rate * ((m / correct_m) / (sqrt(v / correct_v) + o->epsilon) +
                         (shrinks && o->kind == LS_OPTIMIZER_ADAMW ? o->decay * w : 0));
            first[i] = (real)m;
            second[i] = (real)v;
            break;
        case LS_OPTIMIZER_RMSPROP:
            v = o->rho * (double)first[i] + (1 - o->rho) * g * g;
            w -= rate * g / (sqrt(v) + o->epsilon);
            first[i] = (real)v;
            break;
        }
        weight[i] = (real)w;
    }
}

static void update_range(const ls_optimizer_args *o, const ls_update_range *range)
{
    const int64_t last = range->first + range->count;
    real *weight = o->weight, *gradient = o->gradient;
    for (int64_t i = range->first; i < last && range->keep != 0; i++)
        weight[i] = (real)((double)weight[i] +
                           (1 - range->keep) * ((double)gradient[i] - (double)weight[i]));
    for (int64_t i = range->first; i < last && range->decay != 0; i++)
        gradient[i] = (real)((double)gradient[i] + range->decay * (double)weight[i]);
    if (range->keep == 0)
        update(o, range->first, last, range->shrinks);
}

static ls_status square_sums(const ls_square_sums_args *a)
{
    const ls_update_range *ranges = (const void *)(a + 1); /* behind the arguments */
    real *gradient = a->gradient;
    const real *weight = a->weight;
    int64_t block = -1;
    for (int64_t r = 0; r < a->range_count; r++)
        for (int64_t i = 0; i < ranges[r].count; i++) {
            const int64_t at = ranges[r].first + i;
            if (i % LS_SQUARE_BLOCK == 0)
                a->sums[++block] = 0;
            if (ranges[r].decay != 0)
                gradient[at] = (real)((double)gradient[at] + ranges[r].decay * (double)weight[at]);
            if (ranges[r].keep == 0)
                a->sums[block] += (double)gradient[at] * (double)gradient[at];
        }
    return LS_OK;
}

static ls_status optimizer(const ls_optimizer_args *o)
{
    const ls_update_range *ranges = (const void *)(o + 1); /* behind the arguments */
    if (!o->range_count)
        update(o, 0, o->count, false);
    for (int64_t r = 0; r < o->range_count; r++)
        update_range(o, &ranges[r]);
    return LS_OK;
}

#include "common/kernel/reference/reference_images.h"
#include "common/kernel/reference/reference_pools.h"
#include "common/kernel/reference/reference_residual.h"
#include "common/kernel/reference/reference_sequences.h"
#include "common/kernel/reference/reference_transformer.h"

/* ---- The table ----------------------------------------------------------------------------- */

static ls_status open_table(ls_device *device, ls_kernels **out)
{
    return ls_reference_open(&LS_REFERENCE_TABLE, device, out);
}

static const char *library(const ls_kernels *kernels)
{
    (void)kernels;
    return "";
}

/* The operation of an entry is the loop of its name. */
#define REFERENCE_ENTRY(entry, args)                                                               \
    LS_OP_OF_LOOP(static, make_##entry, args, #entry ".plain", entry)                              \
    LS_KERNEL_CHECKED(entry, args, make_##entry(kernels, arguments, &work, out))
#define STEP_ENTRY(entry, args)                                                                    \
    LS_KERNEL_CHECKED(entry, args, ls_step_##entry(kernels, arguments, &work, out))
LS_KERNEL_OWN_ENTRIES(REFERENCE_ENTRY)
LS_KERNEL_LAYER_ENTRIES(REFERENCE_ENTRY)
LS_KERNEL_TRANSFORMER_ENTRIES(REFERENCE_ENTRY)
LS_KERNEL_STORAGE_ENTRIES(REFERENCE_ENTRY)
LS_KERNEL_BF16_ENTRIES(REFERENCE_ENTRY)
LS_KERNEL_STEP_ENTRIES(STEP_ENTRY)

const ls_kernel_table LS_REFERENCE_TABLE = {
    .name = LS_REFERENCE_NAME,
    .help = LS_REFERENCE_HELP,
    .kind = LS_DEVICE_CPU,
    .real_bytes = sizeof(real),
    .open = open_table,
    .close = ls_reference_close,
    .library = library,
    LS_KERNEL_CORE_ENTRIES(LS_KERNEL_LISTED) LS_KERNEL_LAYER_ENTRIES(LS_KERNEL_LISTED)
        LS_KERNEL_TRANSFORMER_ENTRIES(LS_KERNEL_LISTED) LS_KERNEL_STORAGE_ENTRIES(LS_KERNEL_LISTED)
            LS_KERNEL_BF16_ENTRIES(LS_KERNEL_LISTED)};
