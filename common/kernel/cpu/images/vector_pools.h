/* SPDX-License-Identifier: MIT */
/*
 * Vector loops of pools, normalisation, transposition and weight decay. Part of vector_loops.c.
 * Channels are the lanes; no pixel of a normalisation and no row of a pool depends on others.
 */
#pragma once

#include "common/kernel/cpu/elements/vector_elementwise.h"
#include "common/kernel/cpu/vector_lanes.h"
#include "common/kernel/step_inline.h"

#include <math.h>

/* ---- Max pool ------------------------------------------------------------------------------- */

/* Where a window begins and ends on the image along one axis. */
static inline void window_range(int64_t at, int64_t size, int64_t in, int64_t *first, int64_t *last)
{
    *first = at > 0 ? at : 0;
    *last = at + size < in ? at + size : in;
}

/* One output pixel, whose window is rows y, columns x of the image. */
typedef struct pool_window {
    const float *image; /* of the sample */
    int64_t channels, in_width;
    int64_t y[2], x[2];
    float *out; /* the pixel's first channel */
    int32_t *out_argmax;
} pool_window;

/* `vecs` vectors of channels from `first` on, their maxima in registers while the window is gone
 * over; of `count` below a vector (one) the other elements are 0. */
LS_ALWAYS void pool_block(const pool_window *p, int64_t first, int vecs, int64_t count)
{
    vec most[POOL_VECS];
    vec_int argmax[POOL_VECS];
    const float *image = p->image + first;
    const int32_t begin = (int32_t)(p->y[0] * p->in_width + p->x[0]);
    LS_WRITE_OUT
    for (int v = 0; v < vecs; v++) {
        most[v] = vec_get_part(image + (int64_t)begin * p->channels + v * LS_VEC, count);
        argmax[v] = vec_all_int(begin);
    }
    for (int64_t py = p->y[0]; py < p->y[1]; py++)
        for (int64_t px = p->x[0]; px < p->x[1]; px++) {
            const int32_t at = (int32_t)(py * p->in_width + px);
            const float *from = image + (int64_t)at * p->channels;
            LS_WRITE_OUT
            for (int v = 0; v < vecs; v++) {
                const vec value = vec_get_part(from + v * LS_VEC, count);
                const vec_where greater = vec_greater(value, most[v]);
                most[v] = vec_choose(greater, value, most[v]);
                argmax[v] = vec_choose_int(greater, vec_all_int(at), argmax[v]);
            }
        }
    LS_WRITE_OUT
    for (int v = 0; v < vecs && count == LS_VEC; v++) {
        vec_put(p->out + first + v * LS_VEC, most[v]);
        vec_put_int(p->out_argmax + first + v * LS_VEC, argmax[v]);
    }
    if (count < LS_VEC) {
        memcpy(p->out + first, &most[0], (size_t)count * sizeof *p->out);
        memcpy(p->out_argmax + first, &argmax[0], (size_t)count * sizeof *p->out_argmax);
    }
}

static void max_pool(const ls_max_pool_forward_args *a, int64_t first, int64_t last)
{
    const ls_window *w = &a->window;
    const int64_t C = a->channels, line = w->in_width * C;
    pool_window p = {.channels = C, .in_width = w->in_width};
    for (int64_t r = first; r < last; r++) {
        p.image = (const float *)a->x + r * w->in_height * line;
        for (int64_t o = 0; o < w->out_height * w->out_width; o++) {
            const int64_t at = (r * w->out_height * w->out_width + o) * C;
            int64_t c = 0;
            window_range(o / w->out_width * w->stride_y - w->top, w->height, w->in_height, &p.y[0],
                         &p.y[1]);
            window_range(o % w->out_width * w->stride_x - w->left, w->width, w->in_width, &p.x[0],
                         &p.x[1]);
            p.out = (float *)a->y + at;
            p.out_argmax = a->argmax + at;
            for (; c + POOL_VECS * LS_VEC <= C; c += POOL_VECS * LS_VEC)
                pool_block(&p, c, POOL_VECS, LS_VEC);
            for (; c + LS_VEC <= C; c += LS_VEC)
                pool_block(&p, c, 1, LS_VEC);
            if (c < C)
                pool_block(&p, c, 1, C - c);
        }
    }
}

/* The whole window of one output pixel: pixels that were not the largest add 0. */
static inline void pool_back_window(const float *dy, const int32_t *argmax, int64_t C,
                                    int64_t in_width, const int64_t y[2], const int64_t x[2],
                                    float *image)
{
    for (int64_t py = y[0]; py < y[1]; py++)
        for (int64_t px = x[0]; px < x[1]; px++) {
            const int32_t at = (int32_t)(py * in_width + px);
            float *to = image + (py * in_width + px) * C;
            LS_INDEPENDENT
            for (int64_t c = 0; c < C; c++) {
                const float value = dy[c]; /* read in any case: a select, not a branch */
                to[c] += argmax[c] == at ? value : 0;
            }
        }
}

/* Windows of up to so many pixels are walked whole; in larger ones (global pools) only the largest.
 */
enum { POOL_WINDOW = 16, POOL_CHUNK = 256 };

static void max_pool_back(const ls_max_pool_backward_args *a, int64_t first, int64_t last)
{
    const ls_window *w = &a->window;
    const int64_t C = a->channels, in = w->in_height * w->in_width * C;
    const int64_t positions = w->out_height * w->out_width;
    const bool whole = w->height * w->width <= POOL_WINDOW && C <= POOL_CHUNK;
    const float *mask_of = a->relu_output;
    for (int64_t r = first; r < last; r++) {
        float *image = (float *)a->dx + r * in, kept[POOL_CHUNK];
        memset(image, 0, (size_t)in * sizeof *image);
        for (int64_t o = 0; o < positions; o++) {
            const int64_t at = (r * positions + o) * C;
            const float *dy = (const float *)a->dy + at;
            const int32_t *argmax = a->argmax + at;
            if (!whole) {
                for (int64_t c = 0; c < C; c++)
                    if (!mask_of || mask_of[at + c] > 0)
                        image[argmax[c] * C + c] += dy[c];
                continue;
            }
            if (mask_of) {
                mask(mask_of + at, dy, kept, C);
                dy = kept;
            }
            int64_t y[2], x[2];
            window_range(o / w->out_width * w->stride_y - w->top, w->height, w->in_height, &y[0],
                         &y[1]);
            window_range(o % w->out_width * w->stride_x - w->left, w->width, w->in_width, &x[0],
                         &x[1]);
            pool_back_window(dy, argmax, C, w->in_width, y, x, image);
        }
    }
}

/* ---- Local response normalisation ----------------------------------------------------------- */

/* out[i] = 1 + alpha times the sum of in[i - radius .. i + radius], in the order of the indices;
 * `in` has `radius` zeros on both sides. */
static inline __attribute__((always_inline)) void lrn_sums(const float *in, int64_t channels,
                                                           int64_t radius, float *out)
{
    for (int64_t c = 0; c < channels; c += LS_VEC) {
        vec sum = {0};
        for (int64_t j = -radius; j <= radius; j++)
            sum += vec_get(in + c + j);
        vec_put(out + c, sum);
    }
}

/*
 * tile: four runs of [radius, pad(channels), radius] floats, zeroed before the first pixel. The
 * usual radius of the normalisation, 4, is passed as a constant.
 */
static inline __attribute__((always_inline)) void
lrn_pixel(const ls_lrn_forward_args *a, int64_t pixel, int64_t radius, float *tile)
{
    const int64_t C = a->channels, run = ls_vector_pad(C) + 2 * radius;
    const float *x = (const float *)a->x + pixel * C, alpha = (float)a->alpha;
    float *y = (float *)a->y + pixel * C, *square = tile + radius, *sum = tile + run;
    for (int64_t c = 0; c < C; c++)
        square[c] = x[c] * x[c];
    lrn_sums(square, C, radius, sum);
    for (int64_t c = 0; c < C; c++)
        y[c] = x[c] * ls_lrn_power(1.0f + alpha * sum[c]);
}

static inline __attribute__((always_inline)) void
lrn_pixel_back(const ls_lrn_backward_args *a, int64_t pixel, int64_t radius, float *tile)
{
    const int64_t C = a->channels, run = ls_vector_pad(C) + 2 * radius;
    const float *x = (const float *)a->x + pixel * C, *dy = (const float *)a->dy + pixel * C;
    const float alpha = (float)a->alpha, factor = (float)(1.5 * a->alpha);
    float *dx = (float *)a->dx + pixel * C;
    float *first = tile + radius, *sum = tile + run, *power = tile + 2 * run;
    float *term = tile + 3 * run + radius;
    for (int64_t c = 0; c < C; c++)
        first[c] = x[c] * x[c];
    lrn_sums(first, C, radius, sum);
    for (int64_t c = 0; c < C; c++) {
        const float s = 1.0f + alpha * sum[c], p = ls_lrn_power(s);
        power[c] = p * dy[c];
        term[c] = p * dy[c] * x[c] / s;
    }
    lrn_sums(term, C, radius, sum);
    for (int64_t c = 0; c < C; c++) {
        const float value = power[c] - factor * x[c] * sum[c];
        dx[c] = !a->relu || x[c] > 0 ? value : 0;
    }
}

static void lrn(const ls_lrn_forward_args *a, int64_t first, int64_t last, float *tile)
{
    memset(tile, 0, ls_vector_lrn_tile(a->channels, a->radius) * sizeof *tile);
    for (int64_t p = first; p < last; p++)
        if (a->radius == 4)
            lrn_pixel(a, p, 4, tile);
        else
            lrn_pixel(a, p, a->radius, tile);
}

static void lrn_back(const ls_lrn_backward_args *a, int64_t first, int64_t last, float *tile)
{
    memset(tile, 0, ls_vector_lrn_tile(a->channels, a->radius) * sizeof *tile);
    for (int64_t p = first; p < last; p++)
        if (a->radius == 4)
            lrn_pixel_back(a, p, 4, tile);
        else
            lrn_pixel_back(a, p, a->radius, tile);
}

/* ---- Crops ---------------------------------------------------------------------------------- */

/* Sums of bytes and of their squares are whole numbers: exact in any order. */
static void crop_image(const ls_gather_crops_args *a, const ls_crop *crop, int64_t row)
{
    const int64_t side = a->out_side, lines = a->channels * side, n = lines * side;
    const uint8_t *image =
        a->source + (size_t)a->indices[row] * (size_t)(a->channels * a->in_side * a->in_side);
    float *out = (float *)a->out + row * n;
    uint64_t total = 0, squares = 0;
    for (int64_t l = 0; l < lines; l++) {
        const int64_t y = crop->y + l % side;
        const uint8_t *from = image + (l / side * a->in_side + y) * a->in_side;
        const bool outside = y < 0 || y >= a->in_side;
        float *to = out + l * side;
        uint32_t sum = 0, square = 0; /* of at most 4096 bytes: below 2^32 */
        for (int64_t x = 0; x < side; x++) {
            const int64_t at = crop->x + (crop->flip ? side - 1 - x : x);
            const uint32_t value = outside || at < 0 || at >= a->in_side ? 0 : from[at];
            to[x] = (float)value;
            sum += value;
            square += value * value;
        }
        total += sum;
        squares += square;
    }
    const double mean = (double)total / (double)n, least = 1 / sqrt((double)n);
    const double deviation = sqrt((double)squares / (double)n - mean * mean);
    const float shift = (float)mean, factor = (float)(1 / (deviation > least ? deviation : least));
    for (int64_t i = 0; i < n; i++)
        out[i] = (out[i] - shift) * factor;
}

/* ---- Transposition, weight decay ------------------------------------------------------------ */

static void transposed(const ls_transpose_args *a, int64_t first, int64_t last)
{
    enum { BLOCK = 16 };
    for (int64_t b = first; b < last; b++) {
        const float *restrict x = (const float *)a->x + b * a->rows * a->columns;
        float *restrict y = (float *)a->y + b * a->rows * a->columns;
        for (int64_t r0 = 0; r0 < a->rows; r0 += BLOCK)
            for (int64_t c = 0; c < a->columns; c++)
                for (int64_t r = r0; r < r0 + BLOCK && r < a->rows; r++)
                    y[c * a->rows + r] = x[r * a->columns + c];
    }
}

static void decay(const float *restrict weight, float factor, float *restrict gradient,
                  int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        gradient[i] += factor * weight[i];
}

/* The sum of ls_decay_part over elements. */
static double decay_loss(const float *weight, double decay, int64_t count)
{
    lanes_wide sum = {{{{0}, {0}}}};
    for (int64_t i = 0; i < count; i += LS_LANES) {
        const lanes part = i + LS_LANES <= count ? lanes_get(weight + i)
                                                 : lanes_get_some(weight + i, count - i, 0);
        LS_WRITE_OUT
        for (int p = 0; p < LS_PARTS; p++) {
            const vec_wide w = vec_widen(part.part[p]);
            sum.part[p].low += (w.low * w.low * (decay / 2) + LS_DECAY_ROUND) - LS_DECAY_ROUND;
            sum.part[p].high += (w.high * w.high * (decay / 2) + LS_DECAY_ROUND) - LS_DECAY_ROUND;
        }
    }
    return lanes_sum_wide(&sum);
}

static double sum_squares(const float *x, int64_t count)
{
    lanes_wide sum = {{{{0}, {0}}}};
    for (int64_t i = 0; i < count; i += LS_LANES) {
        const lanes part =
            i + LS_LANES <= count ? lanes_get(x + i) : lanes_get_some(x + i, count - i, 0);
        lanes_add_square(&sum, &part);
    }
    return lanes_sum_wide(&sum);
}
