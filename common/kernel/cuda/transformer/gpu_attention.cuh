/* SPDX-License-Identifier: MIT */
/* What kernels of causal attention share: which head and positions a block computes, and powers. */
#pragma once

#include "common/base/bf16_inline.h"
#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/cuda/gpu_tiles.cuh"
#include "common/kernel/element_inline.h"

/* 2^x for x of at most about 0: within 3 ulp; 0 below -126; NaN stays NaN. 2^x = 2^n e^(r ln 2), n
 * = x rounded (the number added leaves 127 + n in the low bits, a float's exponent), |r| <= 0.5;
 * its Taylor polynomial of degree 6 is off by 1.2e-7. */
__device__ static inline float power_of_two(float x)
{
    const float shift = 12582912.0f + 127, shifted = x + shift, r = x - (shifted - shift);
    float p = 1.54035304e-4f;
    p = fmaf(p, r, 1.33335581e-3f);
    p = fmaf(p, r, 9.61812911e-3f);
    p = fmaf(p, r, 5.55041087e-2f);
    p = fmaf(p, r, 2.40226507e-1f);
    p = fmaf(p, r, 6.93147181e-1f);
    p = fmaf(p, r, 1.0f);
    const float value = p * ls_float_of_bits(ls_bits_of_float(shifted) << 23);
    return x < -126.0f ? 0 : value;
}

static const float LOG2_E = 1.44269504f;

/* A block's head, and the first of its positions and channels. A row's elements are counted in 31
 * bits. */
struct attention_place {
    int T, C, d, position, channel;
    int64_t start; /* of the head's positions in an array [B,T], in rows */
    int64_t sums;  /* in one [B,H,T] */
    int offset;    /* of the head in a row */
    float scale;   /* of scores */
};

/* Block number `block` among the blocks that share the tiles of all heads, and of a tile its
 * `chunks` of channels. */
__device__ static inline attention_place place_of(const ls_attention_shape &s, float scale,
                                                  int64_t block, int64_t chunks, bool last_first)
{
    const int64_t heads = s.rows * s.heads;
    const int64_t item = ls_gpu_divide(block, chunks), tile = ls_gpu_divide(item, heads);
    const int64_t head = item - tile * heads, row = ls_gpu_divide(head, s.heads);
    const int64_t tiles = (s.steps + EDGE - 1) / EDGE;
    attention_place p;
    p.T = (int)s.steps, p.C = (int)s.width, p.d = (int)(s.width / s.heads);
    p.position = (int)(last_first ? tiles - 1 - tile : tile) * EDGE;
    p.channel = (int)(block - item * chunks) * EDGE;
    p.start = row * s.steps;
    p.sums = head * s.steps;
    p.offset = (int)(head - row * s.heads) * p.d;
    p.scale = scale;
    return p;
}

/* Tiles of EDGE positions of a head. */
static inline int64_t attention_tiles(const ls_attention_shape *s)
{
    return (s->steps + EDGE - 1) / EDGE;
}

static inline float score_scale(const ls_attention_shape *s)
{
    return 1 / sqrtf((float)(s->width / s->heads));
}
