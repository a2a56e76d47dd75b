/* SPDX-License-Identifier: MIT */
/*
 * Vector loops of Winograd's convolution (Lavin and Gray 2015, arXiv:1509.09308): stride 1, a
 * window of 3x3 or 5x5, channels and outputs in multiples of 16. Part of vector_loops.c.
 *
 * A tile of 4x4 outputs (5x5 windows: 2x2) sees 6x6 pixels. These, the window and the outputs are
 * taken as polynomials in two variables; at 6 points an axis a convolution is one product, so that
 * 36 products do the work of 144 (100). The points are 0, a, -a, b, -b and infinity. With an axis'
 * values d[0..5], g[0..r-1] and y[0..m-1], m + r - 1 = 6:
 *
 *   of d:  the sum of d[k] times coefficient k of x(x^2 - a^2)(x^2 - b^2) without the point's
 *          factor; last of all factors
 *   of g:  g at each point, divided by the product of its distances from the others; last g[r-1]
 *   y[k]:  the sum over the points p of p^k times the product, to the last that of infinity
 *
 * The weights' gradient is the same read the other way round: dy taken at the points as g is, but
 * not divided, times d's; of the sums over all tiles the elements as y from the points, divided.
 *
 * Each element is a sum over the channels in their order: a sample does not depend on the others,
 * nor on how tiles are shared out. An element of a gradient is a sum over tiles in their order.
 */
#pragma once

#include "common/kernel/cpu/conv/vector_winograd_products.h"

enum { MOST_WINDOW = 5, MOST_SIDE = 4 };

LS_ALWAYS int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- One axis ------------------------------------------------------------------------------- */

/* The points a and b: of small error, and exact in binary. */
#define POINT_A 0.625f
#define POINT_B 1.5f
#define A2      (POINT_A * POINT_A)
#define B2      (POINT_B * POINT_B)

static const float powers_a[] = {1, POINT_A, A2, A2 *POINT_A, A2 *A2};
static const float powers_b[] = {1, POINT_B, B2, B2 *POINT_B, B2 *B2};

/* One over the product of a point's distances from the other finite ones; infinity: 1. */
static const float divided[AXIS] = {1 / (A2 * B2),
                                    1 / (2 * A2 * (A2 - B2)),
                                    1 / (2 * A2 * (A2 - B2)),
                                    1 / (2 * B2 * (B2 - A2)),
                                    1 / (2 * B2 * (B2 - A2)),
                                    1};

LS_ALWAYS void of_pixels(const vec d[AXIS], vec t[AXIS])
{
    const vec a = vec_all(POINT_A), b = vec_all(POINT_B);
    const vec product = vec_all(A2 * B2), sum = vec_all(-A2 - B2);
    const vec even_a = vec_fma(vec_all(-B2), d[2], d[4]);
    const vec odd_a = vec_fma(vec_all(-B2), d[1], d[3]);
    const vec even_b = vec_fma(vec_all(-A2), d[2], d[4]);
    const vec odd_b = vec_fma(vec_all(-A2), d[1], d[3]);
    t[0] = vec_fma(product, d[0], vec_fma(sum, d[2], d[4]));
    t[1] = vec_fma(a, odd_a, even_a);
    t[2] = vec_fma(-a, odd_a, even_a);
    t[3] = vec_fma(b, odd_b, even_b);
    t[4] = vec_fma(-b, odd_b, even_b);
    t[5] = vec_fma(product, d[1], vec_fma(sum, d[3], d[5]));
}

/* y as a polynomial of `count` coefficients, at the points. */
LS_ALWAYS void at_points(const vec *y, int count, vec z[AXIS])
{
    vec even_a = y[0], even_b = y[0];
    vec odd_a = vec_all(POINT_A) * y[1], odd_b = vec_all(POINT_B) * y[1];
    for (int k = 2; k < count; k++) {
        vec *to_a = k % 2 ? &odd_a : &even_a, *to_b = k % 2 ? &odd_b : &even_b;
        *to_a = vec_fma(vec_all(powers_a[k]), y[k], *to_a);
        *to_b = vec_fma(vec_all(powers_b[k]), y[k], *to_b);
    }
    z[0] = y[0];
    z[1] = even_a + odd_a;
    z[2] = even_a - odd_a;
    z[3] = even_b + odd_b;
    z[4] = even_b - odd_b;
    z[5] = y[count - 1];
}

/* `count` coefficients from what is at the points. */
LS_ALWAYS void from_points(const vec z[AXIS], int count, vec *y)
{
    const vec even_a = z[1] + z[2], odd_a = z[1] - z[2];
    const vec even_b = z[3] + z[4], odd_b = z[3] - z[4];
    y[0] = z[0] + even_a + even_b;
    for (int k = 1; k < count; k++) {
        const vec a = k % 2 ? odd_a : even_a, b = k % 2 ? odd_b : even_b;
        const vec first =
            k + 1 < count ? vec_all(powers_a[k]) * a : vec_fma(vec_all(powers_a[k]), a, z[5]);
        y[k] = vec_fma(vec_all(powers_b[k]), b, first);
    }
}

/* ---- Weights -------------------------------------------------------------------------------- */

/* Offset of element (y, x) of output o and channel c: weights are [O, C, side, side]; for the
 * convolution that gives a data gradient they are the forward one's, [C, O, side, side], rotated by
 * 180 degrees. */
LS_ALWAYS int64_t weight_at(const ls_vector_winograd *w, int64_t o, int64_t c, int64_t at)
{
    const ls_conv_shape *s = &w->shape;
    const int64_t elements = s->window.height * s->window.width;
    return w->turned ? (c * s->outputs + o) * elements + elements - 1 - at
                     : (o * s->channels + c) * elements + at;
}

/* packed[6, 6, C, O] of channel c, a vector of outputs from o on. */
LS_ALWAYS void pack_block(const ls_vector_winograd *w, int side, int64_t c, int64_t o)
{
    const ls_conv_shape *s = &w->shape;
    vec half[MOST_WINDOW][AXIS], line[MOST_WINDOW], point[AXIS];
    LS_AS_LOOP
    for (int x = 0; x < side; x++) {
        for (int y = 0; y < side; y++) {
            float part[LS_VEC];
            for (int l = 0; l < LS_VEC; l++)
                part[l] = w->weight[weight_at(w, o + l, c, y * side + x)];
            line[y] = vec_get(part);
        }
        at_points(line, side, half[x]);
    }
    LS_AS_LOOP
    for (int i = 0; i < AXIS; i++) {
        for (int x = 0; x < side; x++)
            line[x] = half[x][i];
        at_points(line, side, point);
        for (int j = 0; j < AXIS; j++) {
            point[j] *= vec_all(divided[i] * divided[j]);
            vec_put(w->packed + ((i * AXIS + j) * s->channels + c) * s->outputs + o, point[j]);
        }
    }
}

static void winograd_pack(const ls_vector_winograd *w, int64_t first, int64_t last)
{
    for (int64_t c = first * LS_LANES; c < last * LS_LANES; c++)
        for (int64_t o = 0; o < w->shape.outputs; o += LS_VEC)
            if (w->shape.window.height == 3)
                pack_block(w, 3, c, o);
            else
                pack_block(w, 5, c, o);
}

/* The gradient of the weights from the sums over all tiles, stored in place of packed weights. */
LS_ALWAYS void unpack_block(const ls_vector_winograd *w, int side, int64_t c, int64_t o)
{
    const ls_conv_shape *s = &w->shape;
    vec half[AXIS][MOST_WINDOW], point[AXIS], line[MOST_WINDOW];
    LS_AS_LOOP
    for (int j = 0; j < AXIS; j++) {
        for (int i = 0; i < AXIS; i++)
            point[i] = vec_all(divided[i] * divided[j]) *
                       vec_get(w->packed + ((i * AXIS + j) * s->channels + c) * s->outputs + o);
        from_points(point, side, half[j]);
    }
    LS_AS_LOOP
    for (int y = 0; y < side; y++) {
        for (int j = 0; j < AXIS; j++)
            point[j] = half[j][y];
        from_points(point, side, line);
        for (int x = 0; x < side; x++) {
            float part[LS_VEC];
            vec_put(part, line[x]);
            for (int l = 0; l < LS_VEC; l++)
                w->dweight[weight_at(w, o + l, c, y * side + x)] = part[l];
        }
    }
}

/* ---- Images --------------------------------------------------------------------------------- */

/* A tile: row `row` of the batch, outputs from (y, x) on. */
typedef struct winograd_tile {
    int64_t row, y, x;
} winograd_tile;

LS_ALWAYS winograd_tile tile_number(const ls_window *w, int side, int64_t number)
{
    const int64_t down = (w->out_height + side - 1) / side,
                  across = (w->out_width + side - 1) / side;
    return (winograd_tile){number / (down * across), number / across % down * side,
                           number % across * side};
}

LS_ALWAYS void tile_next(const ls_window *w, int side, winograd_tile *tile)
{
    tile->x += side;
    if (tile->x < w->out_width)
        return;
    tile->x = 0;
    tile->y += side;
    if (tile->y < w->out_height)
        return;
    tile->y = 0;
    tile->row++;
}

/* 6x6 pixels of 16 channels, `line` and `pixel` floats apart, at the points: to[6, 6, 16]. */
LS_ALWAYS void patch_in(const float *from, int64_t line, int64_t pixel, float *to)
{
    LS_AS_LOOP
    for (int v = 0; v < LS_LANES; v += LS_VEC) {
        vec half[AXIS][AXIS], values[AXIS], point[AXIS];
        LS_AS_LOOP
        for (int x = 0; x < AXIS; x++) {
            for (int y = 0; y < AXIS; y++)
                values[y] = vec_get(from + y * line + x * pixel + v);
            of_pixels(values, half[x]);
        }
        LS_AS_LOOP
        for (int i = 0; i < AXIS; i++) {
            for (int x = 0; x < AXIS; x++)
                values[x] = half[x][i];
            of_pixels(values, point);
            for (int j = 0; j < AXIS; j++)
                vec_put(to + (i * AXIS + j) * LS_LANES + v, point[j]);
        }
    }
}

/* As patch_in, but reads only lines [y[0], y[1]) and columns [x[0], x[1]) inside the image; the
 * rest is 0. */
static void patch_in_part(const float *from, int64_t line, int64_t pixel, const int64_t y[2],
                          const int64_t x[2], float *to)
{
    float patch[AXIS * AXIS * LS_LANES] = {0};
    for (int64_t i = y[0]; i < y[1]; i++)
        for (int64_t j = x[0]; j < x[1]; j++)
            memcpy(patch + (i * AXIS + j) * LS_LANES, from + i * line + j * pixel,
                   LS_LANES * sizeof *patch);
    patch_in(patch, AXIS * LS_LANES, LS_LANES, to);
}

/* The pixels that a tile sees, at the points: to[C / 16, TILES, 6, 6, 16]. */
LS_ALWAYS void tile_in(const ls_vector_winograd *v, const winograd_tile *tile, int64_t first,
                       int64_t last, float *to)
{
    const ls_conv_shape *s = &v->shape;
    const ls_window *w = &s->window;
    const int64_t C = s->channels, line = w->in_width * C;
    const int64_t top = tile->y - w->top, left = tile->x - w->left;
    const int64_t y[2] = {top < 0 ? -top : 0, least(AXIS, w->in_height - top)};
    const int64_t x[2] = {left < 0 ? -left : 0, least(AXIS, w->in_width - left)};
    const bool whole = !y[0] && y[1] == AXIS && !x[0] && x[1] == AXIS;
    const float *image = v->x + ((tile->row * w->in_height + top) * w->in_width + left) * C;
    for (int64_t c = first; c < last; c++)
        if (whole)
            patch_in(image + c * LS_LANES, line, C, to + c * TILES * POINT_LANES);
        else
            patch_in_part(image + c * LS_LANES, line, C, y, x, to + c * TILES * POINT_LANES);
}

/* A tile's outputs from the points, from[O / 16, TILES, 6, 6, 16]. */
LS_ALWAYS void tile_out(const ls_vector_winograd *v, const winograd_tile *tile, int side,
                        const float *from)
{
    const ls_conv_shape *s = &v->shape;
    const ls_window *w = &s->window;
    const int64_t O = s->outputs;
    float *image = v->y + ((tile->row * w->out_height + tile->y) * w->out_width + tile->x) * O;
    for (int64_t o = 0; o < O; o += LS_VEC) {
        const vec bias = v->bias ? vec_get(v->bias + o) : (vec){0};
        vec half[AXIS][MOST_SIDE], point[AXIS], line[MOST_SIDE];
        LS_AS_LOOP
        for (int j = 0; j < AXIS; j++) {
            for (int i = 0; i < AXIS; i++)
                point[i] = vec_get(from + tiles_of(o) + (i * AXIS + j) * LS_LANES);
            from_points(point, side, half[j]);
        }
        LS_AS_LOOP
        for (int y = 0; y < side; y++) {
            if (tile->y + y >= w->out_height)
                break;
            for (int j = 0; j < AXIS; j++)
                point[j] = half[j][y];
            from_points(point, side, line);
            for (int x = 0; x < side; x++) {
                line[x] += bias;
                if (v->relu)
                    line[x] = vec_positive(line[x]);
                if (tile->x + x < w->out_width)
                    vec_put(image + (y * w->out_width + x) * O + o, line[x]);
            }
        }
    }
}

/* The gradient of a tile's outputs, at the points: to[O / 16, TILES, 6, 6, 16]; added to dbias. */
LS_ALWAYS void tile_gradient(const ls_vector_winograd *v, const winograd_tile *tile, int side,
                             float *dbias, float *to)
{
    const ls_conv_shape *s = &v->shape;
    const ls_window *w = &s->window;
    const int64_t O = s->outputs;
    const float *image =
        v->dy + ((tile->row * w->out_height + tile->y) * w->out_width + tile->x) * O;
    for (int64_t o = 0; o < O; o += LS_VEC) {
        vec half[MOST_SIDE][AXIS], line[MOST_SIDE], point[AXIS], sum = {0};
        LS_AS_LOOP
        for (int x = 0; x < side; x++) {
            for (int y = 0; y < side; y++) {
                line[y] = tile->y + y < w->out_height && tile->x + x < w->out_width
                              ? vec_get(image + (y * w->out_width + x) * O + o)
                              : (vec){0};
                sum += line[y];
            }
            at_points(line, side, half[x]);
        }
        LS_AS_LOOP
        for (int i = 0; i < AXIS; i++) {
            for (int x = 0; x < side; x++)
                line[x] = half[x][i];
            at_points(line, side, point);
            for (int j = 0; j < AXIS; j++)
                vec_put(to + tiles_of(o) + (i * AXIS + j) * LS_LANES, point[j]);
        }
        if (dbias)
            vec_put(dbias + o, sum + vec_get(dbias + o));
    }
}

/* ---- Whole convolutions --------------------------------------------------------------------- */

/* Tiles [first, last), at most TILES. */
LS_ALWAYS void forward_tiles(const ls_vector_winograd *w, int side, int64_t first, int64_t last)
{
    const ls_conv_shape *s = &w->shape;
    winograd_tile tile = tile_number(&s->window, side, first);
    const winograd_tile begin = tile;
    for (int64_t t = 0; t < last - first; t++) {
        tile_in(w, &tile, 0, s->channels / LS_LANES, w->in + t * POINT_LANES);
        tile_next(&s->window, side, &tile);
    }
    for (int64_t p = 0; p < AXIS * AXIS; p++) {
        const winograd_point point = point_of(w, p, last - first);
        point_product(&point);
    }
    tile = begin;
    for (int64_t t = 0; t < last - first; t++) {
        tile_out(w, &tile, side, w->out + t * POINT_LANES);
        tile_next(&s->window, side, &tile);
    }
}

static void winograd_forward(const ls_vector_winograd *w, int64_t first, int64_t last)
{
    for (; first < last; first += TILES) {
        const int64_t end = first + TILES < last ? first + TILES : last;
        if (w->shape.window.height == 3)
            forward_tiles(w, 4, first, end);
        else
            forward_tiles(w, 2, first, end);
    }
}

/* Tiles [from, to), at most TILES, for the channels of blocks [first, last). */
LS_ALWAYS void weights_tiles(const ls_vector_winograd *w, int side, int64_t from, int64_t to,
                             int64_t first, int64_t last)
{
    const ls_conv_shape *s = &w->shape;
    winograd_tile tile = tile_number(&s->window, side, from);
    for (int64_t t = 0; t < to - from; t++) {
        tile_in(w, &tile, first, last, w->in + t * POINT_LANES);
        tile_gradient(w, &tile, side, first ? NULL : w->dbias, w->out + t * POINT_LANES);
        tile_next(&s->window, side, &tile);
    }
    for (int64_t p = 0; p < AXIS * AXIS; p++) {
        const winograd_point point = point_of(w, p, to - from);
        for (int64_t c = first * LS_LANES; c < last * LS_LANES; c += LS_LANES)
            point_sums(&point, c);
    }
}

static void winograd_weights(const ls_vector_winograd *w, int64_t first, int64_t last)
{
    const ls_conv_shape *s = &w->shape;
    const int64_t C = s->channels, O = s->outputs;
    const int64_t tiles = ls_vector_winograd_tiles(s);
    for (int64_t p = 0; p < AXIS * AXIS; p++)
        memset(w->packed + (p * C + first * LS_LANES) * O, 0,
               (size_t)((last - first) * LS_LANES * O) * sizeof(float));
    if (w->dbias && !first)
        memset(w->dbias, 0, (size_t)O * sizeof(float));
    for (int64_t from = 0; from < tiles; from += TILES) {
        const int64_t to = from + TILES < tiles ? from + TILES : tiles;
        if (s->window.height == 3)
            weights_tiles(w, 4, from, to, first, last);
        else
            weights_tiles(w, 2, from, to, first, last);
    }
    for (int64_t c = first * LS_LANES; c < last * LS_LANES; c++)
        for (int64_t o = 0; o < O; o += LS_VEC)
            if (s->window.height == 3)
                unpack_block(w, 3, c, o);
            else
                unpack_block(w, 5, c, o);
}
