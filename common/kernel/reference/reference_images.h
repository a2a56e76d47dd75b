/* SPDX-License-Identifier: MIT */
/* The reference table's operations on images; part of reference_loops.h, which explains them. */
#pragma once

/* Pixel (y, x) of a sample; NULL in the padding. */
static const real *pixel(const real *image, const ls_window *w, int64_t channels, int64_t y,
                         int64_t x)
{
    if (y < 0 || y >= w->in_height || x < 0 || x >= w->in_width)
        return NULL;
    return image + (y * w->in_width + x) * channels;
}

/* The convolution of one sample at one position, for one output, without bias. */
static double conv_at(const ls_conv_shape *s, const real *image, const real *weight,
                      int64_t position)
{
    const ls_window *w = &s->window;
    const int64_t y = position / w->out_width * w->stride_y - w->top;
    const int64_t x = position % w->out_width * w->stride_x - w->left;
    double sum = 0;
    for (int64_t c = 0; c < s->channels; c++)
        for (int64_t ky = 0; ky < w->height; ky++)
            for (int64_t kx = 0; kx < w->width; kx++) {
                const real *p = pixel(image, w, s->channels, y + ky, x + kx);
                if (p)
                    sum += (double)p[c] * (double)weight[(c * w->height + ky) * w->width + kx];
            }
    return sum;
}

/* Elements of one sample's input, and of one output's weights. */
static int64_t image_elements(const ls_conv_shape *s)
{
    return s->window.in_height * s->window.in_width * s->channels;
}

static int64_t filter_elements(const ls_conv_shape *s)
{
    return s->window.height * s->window.width * s->channels;
}

/* ---- Convolution ---------------------------------------------------------------------------- */

static ls_status conv_forward(const ls_conv_forward_args *a)
{
    const ls_conv_shape *s = &a->shape;
    const real *bias = a->bias;
    real *y = a->y;
    for (int64_t b = 0; b < s->rows; b++)
        for (int64_t p = 0; p < s->window.out_height * s->window.out_width; p++)
            for (int64_t o = 0; o < s->outputs; o++) {
                const real *image = (const real *)a->x + b * image_elements(s);
                const real *weight = (const real *)a->weight + o * filter_elements(s);
                double sum = (bias ? (double)bias[o] : 0) + conv_at(s, image, weight, p);
                if (a->activation == LS_ACTIVATION_RELU)
                    sum = sum > 0 ? sum : 0;
                *y++ = (real)sum;
            }
    return LS_OK;
}

/* The sum over rows and positions for weight (c, ky, kx) of output o. */
static double conv_weight(const ls_conv_backward_weights_args *a, int64_t o, const int64_t at[3])
{
    const ls_conv_shape *s = &a->shape;
    const ls_window *w = &s->window;
    const int64_t positions = w->out_height * w->out_width;
    double sum = 0;
    for (int64_t b = 0; b < s->rows; b++)
        for (int64_t p = 0; p < positions; p++) {
            const real *from = pixel((const real *)a->x + b * image_elements(s), w, s->channels,
                                     p / w->out_width * w->stride_y - w->top + at[1],
                                     p % w->out_width * w->stride_x - w->left + at[2]);
            if (from)
                sum += (double)((const real *)a->dy)[(b * positions + p) * s->outputs + o] *
                       (double)from[at[0]];
        }
    return sum;
}

static ls_status conv_backward_weights(const ls_conv_backward_weights_args *a)
{
    const ls_conv_shape *s = &a->shape;
    const ls_window *w = &s->window;
    real *dweight = a->dweight, *dbias = a->dbias;
    for (int64_t o = 0; o < s->outputs; o++) {
        for (int64_t c = 0; c < s->channels; c++)
            for (int64_t ky = 0; ky < w->height; ky++)
                for (int64_t kx = 0; kx < w->width; kx++)
                    *dweight++ = (real)conv_weight(a, o, (const int64_t[]){c, ky, kx});
        double sum = 0;
        for (int64_t p = 0; p < s->rows * w->out_height * w->out_width; p++)
            sum += (double)((const real *)a->dy)[p * s->outputs + o];
        if (dbias)
            dbias[o] = (real)sum;
    }
    return LS_OK;
}

/* The gradient of pixel (y, x), channel c of a sample whose output gradient is dy. */
static double conv_pixel(const ls_conv_backward_data_args *a, const real *dy, const int64_t at[3])
{
    const ls_conv_shape *s = &a->shape;
    const ls_window *w = &s->window;
    double sum = 0;
    for (int64_t ky = 0; ky < w->height; ky++)
        for (int64_t kx = 0; kx < w->width; kx++) {
            int64_t y = at[0] + w->top - ky, x = at[1] + w->left - kx;
            if (y < 0 || x < 0 || y % w->stride_y || x % w->stride_x)
                continue;
            y /= w->stride_y, x /= w->stride_x;
            for (int64_t o = 0; y < w->out_height && x < w->out_width && o < s->outputs; o++)
                sum +=
                    (double)dy[(y * w->out_width + x) * s->outputs + o] *
                    (double)((const real *)a
                                 ->weight)[((o * s->channels + at[2]) * w->height + ky) * w->width +
                                           kx];
        }
    return sum;
}

static ls_status conv_backward_data(const ls_conv_backward_data_args *a)
{
    const ls_conv_shape *s = &a->shape;
    const ls_window *w = &s->window;
    real *dx = a->dx;
    for (int64_t b = 0; b < s->rows; b++)
        for (int64_t y = 0; y < w->in_height; y++)
            for (int64_t x = 0; x < w->in_width; x++)
                for (int64_t c = 0; c < s->channels; c++)
                    *dx++ = (real)conv_pixel(
                        a, (const real *)a->dy + b * w->out_height * w->out_width * s->outputs,
                        (const int64_t[]){y, x, c});
    return LS_OK;
}

/* ---- Convolution and global max ------------------------------------------------------------- */

static ls_status conv_max_forward(const ls_conv_max_forward_args *a)
{
    const ls_conv_shape *s = &a->shape;
    const real *bias = a->bias;
    for (int64_t b = 0; b < s->rows; b++)
        for (int64_t o = 0; o < s->outputs; o++) {
            const real *image = (const real *)a->x + b * image_elements(s);
            const real *weight = (const real *)a->weight + o * filter_elements(s);
            double most = -HUGE_VAL;
            int32_t at = 0;
            for (int64_t p = 0; p < s->window.out_height * s->window.out_width; p++) {
                double value = (bias ? (double)bias[o] : 0) + conv_at(s, image, weight, p);
                at = value > most ? (int32_t)p : at;
                most = value > most ? value : most;
            }
            if (a->activation == LS_ACTIVATION_RELU && !(most > 0))
                most = 0;
            ((real *)a->y)[b * s->outputs + o] = (real)most;
            a->argmax[b * s->outputs + o] = at;
        }
    return LS_OK;
}

/* The sum over the rows for weight (c, ky, kx) of output o. */
static double conv_max_weight(const ls_conv_max_backward_weights_args *a, int64_t o,
                              const int64_t at[3])
{
    const ls_conv_shape *s = &a->shape;
    const ls_window *w = &s->window;
    double sum = 0;
    for (int64_t b = 0; b < s->rows; b++) {
        int64_t position = a->argmax[b * s->outputs + o];
        const real *p = pixel((const real *)a->x + b * image_elements(s), w, s->channels,
                              position / w->out_width * w->stride_y - w->top + at[1],
                              position % w->out_width * w->stride_x - w->left + at[2]);
        if (p)
            sum += (double)((const real *)a->dy)[b * s->outputs + o] * (double)p[at[0]];
    }
    return sum;
}

static ls_status conv_max_backward_weights(const ls_conv_max_backward_weights_args *a)
{
    const ls_conv_shape *s = &a->shape;
    const ls_window *w = &s->window;
    real *dweight = a->dweight, *dbias = a->dbias;
    for (int64_t o = 0; o < s->outputs; o++) {
        for (int64_t c = 0; c < s->channels; c++)
            for (int64_t ky = 0; ky < w->height; ky++)
                for (int64_t kx = 0; kx < w->width; kx++)
                    *dweight++ = (real)conv_max_weight(a, o, (const int64_t[]){c, ky, kx});
        double sum = 0;
        for (int64_t b = 0; b < s->rows; b++)
            sum += (double)((const real *)a->dy)[b * s->outputs + o];
        if (dbias)
            dbias[o] = (real)sum;
    }
    return LS_OK;
}
