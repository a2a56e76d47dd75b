/* SPDX-License-Identifier: MIT */
/* The reference table's pools, normalisation, transposition and weight decay; part of
 * reference_loops.h, which explains them. */
#pragma once

/* ---- Max pool ------------------------------------------------------------------------------- */

/* The position of the largest value of channel c in the window of output pixel (oy, ox). */
static int32_t argmax_of(const ls_max_pool_forward_args *a, const real *image, int64_t oy,
                         int64_t ox, int64_t c)
{
    const ls_window *w = &a->window;
    int32_t at = -1;
    for (int64_t ky = 0; ky < w->height; ky++)
        for (int64_t kx = 0; kx < w->width; kx++) {
            int64_t y = oy * w->stride_y - w->top + ky, x = ox * w->stride_x - w->left + kx;
            if (y < 0 || y >= w->in_height || x < 0 || x >= w->in_width)
                continue;
            int64_t position = y * w->in_width + x;
            if (at < 0 || image[position * a->channels + c] > image[at * a->channels + c])
                at = (int32_t)position;
        }
    return at;
}

static ls_status max_pool_forward(const ls_max_pool_forward_args *a)
{
    const ls_window *w = &a->window;
    real *y = a->y;
    int32_t *position = a->argmax;
    for (int64_t b = 0; b < a->rows; b++) {
        const real *image = (const real *)a->x + b * w->in_height * w->in_width * a->channels;
        for (int64_t oy = 0; oy < w->out_height; oy++)
            for (int64_t ox = 0; ox < w->out_width; ox++)
                for (int64_t c = 0; c < a->channels; c++) {
                    *position = argmax_of(a, image, oy, ox, c);
                    *y++ = image[*position++ * a->channels + c];
                }
    }
    return LS_OK;
}

static ls_status max_pool_backward(const ls_max_pool_backward_args *a)
{
    const ls_window *w = &a->window;
    const int64_t in = w->in_height * w->in_width * a->channels;
    const int64_t out = w->out_height * w->out_width * a->channels;
    const real *dy = a->dy, *relu_output = a->relu_output;
    real *dx = a->dx;
    for (int64_t i = 0; i < a->rows * in; i++)
        dx[i] = 0;
    for (int64_t i = 0; i < a->rows * out; i++)
        if (!relu_output || relu_output[i] > 0)
            dx[i / out * in + a->argmax[i] * a->channels + i % a->channels] += dy[i];
    return LS_OK;
}

/* ---- Local response normalisation ----------------------------------------------------------- */

/* s[i] of one pixel. */
static double lrn_scale(const real *x, int64_t channels, int64_t radius, double alpha, int64_t i)
{
    double sum = 0;
    for (int64_t j = i - radius; j <= i + radius; j++)
        if (j >= 0 && j < channels)
            sum += (double)x[j] * (double)x[j];
    return 1 + alpha * sum;
}

static ls_status lrn_forward(const ls_lrn_forward_args *a)
{
    for (int64_t p = 0; p < a->pixels; p++)
        for (int64_t i = 0; i < a->channels; i++) {
            const real *x = (const real *)a->x + p * a->channels;
            double s = lrn_scale(x, a->channels, a->radius, a->alpha, i);
            ((real *)a->y)[p * a->channels + i] = (real)((double)x[i] * pow(s, -0.75));
        }
    return LS_OK;
}

static ls_status lrn_backward(const ls_lrn_backward_args *a)
{
    for (int64_t p = 0; p < a->pixels; p++)
        for (int64_t i = 0; i < a->channels; i++) {
            const real *x = (const real *)a->x + p * a->channels;
            const real *dy = (const real *)a->dy + p * a->channels;
            double sum = 0;
            for (int64_t j = i - a->radius; j <= i + a->radius; j++)
                if (j >= 0 && j < a->channels)
                    sum += (double)dy[j] * (double)x[j] *
                           pow(lrn_scale(x, a->channels, a->radius, a->alpha, j), -1.75);
            double s = lrn_scale(x, a->channels, a->radius, a->alpha, i);
            double dx = (double)dy[i] * pow(s, -0.75) - 1.5 * a->alpha * (double)x[i] * sum;
            ((real *)a->dx)[p * a->channels + i] = (real)(a->relu && !(x[i] > 0) ? 0 : dx);
        }
    return LS_OK;
}

/* ---- Crops ---------------------------------------------------------------------------------- */

static ls_status gather_crops(const ls_gather_crops_args *a)
{
    const ls_random random = ls_random_stream(a->seed, "augment");
    const int64_t side = a->out_side, n = a->channels * side * side;
    for (int64_t b = 0; b < a->rows; b++) {
        const ls_crop crop = ls_crop_draw(a, random, b);
        const uint8_t *image = a->source + a->indices[b] * a->channels * a->in_side * a->in_side;
        real *out = (real *)a->out + b * n;
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < n; i++) {
            int64_t c = i / (side * side), y = crop.y + i / side % side;
            int64_t x = crop.x + (crop.flip ? side - 1 - i % side : i % side);
            bool border = y < 0 || y >= a->in_side || x < 0 || x >= a->in_side;
            double value = border ? 0 : image[(c * a->in_side + y) * a->in_side + x];
            out[i] = (real)value;
            sum += value;
            squares += value * value;
        }
        double mean = sum / (double)n, deviation = sqrt(squares / (double)n - mean * mean);
        double least = 1 / sqrt((double)n);
        for (int64_t i = 0; i < n; i++)
            out[i] = (real)(((double)out[i] - mean) / (deviation > least ? deviation : least));
    }
    return LS_OK;
}

/* ---- Transposition, weight decay ------------------------------------------------------------ */

static ls_status transpose(const ls_transpose_args *t)
{
    const int64_t size = t->rows * t->columns;
    for (int64_t b = 0; b < t->batch; b++)
        for (int64_t r = 0; r < t->rows; r++)
            for (int64_t c = 0; c < t->columns; c++)
                ((real *)t->y)[b * size + c * t->rows + r] =
                    ((const real *)t->x)[b * size + r * t->columns + c];
    return LS_OK;
}

static ls_status weight_decay(const ls_weight_decay_args *d)
{
    const ls_update_range *ranges = (const void *)(d + 1); /* behind the arguments */
    *d->loss = 0;
    for (int64_t r = 0; r < d->range_count; r++) {
        const real *weight = (const real *)d->weight + ranges[r].first;
        for (int64_t i = 0; i < ranges[r].count; i++)
            *d->loss += ls_decay_part(ranges[r].decay, (float)weight[i]);
    }
    return LS_OK;
}
