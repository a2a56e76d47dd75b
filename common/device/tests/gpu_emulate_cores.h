/* SPDX-License-Identifier: MIT */
/* Tensor cores and flags, for gpu_emulate.h, whose part this is. */
#pragma once

/* ---- Compute capability 8.0 --------------------------------------------------------------------
 */

template <bool TURNED> static inline void ls_gpu_read_eights(const uint16_t *row, unsigned (&to)[4])
{
    const unsigned self = threadIdx.x, turn = fibers[self].exchanges++ % 2;
    const unsigned lane = self % FIBER_WARP, own = lane / 4, pair = lane % 4 * 2;
    if ((uintptr_t)row % 16)
        emulation_fails("a row of eight elements is not aligned");
    memcpy(&fibers[self].shown[turn], &row, sizeof row);
    leave(FIBER_AT_EXCHANGE);
    for (unsigned i = 0; i < 4; i++) {
        uint16_t two[2];
        for (unsigned e = 0; e < 2; e++) {
            const uint16_t *at;
            const unsigned of = i * 8 + (TURNED ? pair + e : own);
            memcpy(&at, &fibers[self - lane + of].shown[turn], sizeof at);
            two[e] = at[TURNED ? own : pair + e];
        }
        memcpy(&to[i], two, sizeof two);
    }
}

/* Sums are exact, then rounded; the hardware cuts them. */
static inline void ls_gpu_multiply_bf16(const unsigned (&a)[4], unsigned b0, unsigned b1,
                                        float (&c)[4])
{
    const unsigned self = threadIdx.x, turn = fibers[self].exchanges++ % 2;
    const unsigned lane = self % FIBER_WARP, own = lane / 4, pair = lane % 4 * 2;
    const fiber *const warp = fibers + self - lane;
    const unsigned b[2] = {b0, b1};
    memcpy(fibers[self].factors[turn], a, sizeof a);
    memcpy(&fibers[self].shown[turn], b, sizeof b);
    leave(FIBER_AT_EXCHANGE);
    for (unsigned e = 0; e < 4; e++) {
        double sum = (double)c[e];
        for (unsigned k = 0; k < 8; k++) {
            const fiber &row = warp[own * 4 + k % 4], &column = warp[(pair + e % 2) * 4 + k % 4];
            unsigned x, y;
            memcpy(&x, &row.factors[turn][k / 4 * 2 + e / 2], sizeof x);
            memcpy(&y, (const char *)&column.shown[turn] + k / 4 * sizeof y, sizeof y);
            const unsigned halves[4] = {x << 16, y << 16, x & 0xFFFF0000u, y & 0xFFFF0000u};
            float terms[4];
            memcpy(terms, halves, sizeof terms);
            sum += (double)terms[0] * (double)terms[1] + (double)terms[2] * (double)terms[3];
        }
        c[e] = (float)sum;
    }
}

/* ---- Compute capability 9.0 --------------------------------------------------------------------
 */

#define LS_GPU_LARGE_SHARED(type, name) alignas(1024) __shared__ type name

template <typename... Parameters, typename... Arguments>
static int ls_gpu_launch_with(void *stream, unsigned blocks, unsigned threads,
                              void (*kernel)(Parameters...), size_t, Arguments... arguments)
{
    return ls_gpu_launch(stream, blocks, threads, kernel, arguments...);
}

/* A fake GPU has 48 KiB a block: it would take hours for the large products of a kernel with more.
 */
template <typename... Parameters> static int ls_gpu_allow_shared(void (*)(Parameters...), size_t)
{
#ifdef LOCKSTEP_FAKE_GPU
    enum { INVALID_DEVICE_FUNCTION = 98 }; /* as CUDA numbers it */
    return INVALID_DEVICE_FUNCTION;
#else
    return 0;
#endif
}

static inline unsigned ls_gpu_round_tf32(float x)
{
    unsigned bits;
    memcpy(&bits, &x, sizeof x);
    return x != x ? bits : (bits + 0x1000u) & 0xFFFFE000u;
}

static inline void ls_gpu_split_tf32(float x, unsigned &high, unsigned &low)
{
    float above;
    memcpy(&high, &x, sizeof x);
    high = (high + 0x1000u) & 0xFFFFE000u;
    memcpy(&above, &high, sizeof above);
    low = ls_gpu_round_tf32(x - above);
}

struct ls_gpu_flag {
    unsigned threads, left, turns;
};

static inline void ls_gpu_begin_flag(ls_gpu_flag &flag, unsigned threads)
{
    flag = {threads, threads, 0};
}

static inline void ls_gpu_raise_flag(ls_gpu_flag &flag)
{
    flags_raised++;
    if (!--flag.left) {
        flag.left = flag.threads;
        flag.turns++;
    }
}

static inline void ls_gpu_await_flag(ls_gpu_flag &flag, int turn)
{
    while (flag.turns % 2 == (unsigned)turn % 2)
        leave(FIBER_AT_FLAG);
}

template <int N> static inline void ls_gpu_fewer_registers()
{
}

template <int N> static inline void ls_gpu_more_registers()
{
}

enum { LS_GPU_GROUP_TERMS = 8, LS_GPU_GROUP_FACTOR = 128 * 32, LS_GPU_GROUP_SUMS = 64 };

static inline int ls_gpu_group_place(int column, int term)
{
    return column * 32 + (term / 4 ^ column % 8) * 4 + term % 4;
}

static inline void ls_gpu_show_group()
{
}

static inline void ls_gpu_begin_group()
{
}

/* At once. Sums are exact, then rounded; the hardware cuts them. */
static inline void ls_gpu_multiply_group(const unsigned a[4], const float *b, int unit,
                                         float (&c)[LS_GPU_GROUP_SUMS], bool add)
{
    const unsigned self = threadIdx.x, turn = fibers[self].exchanges++ % 2;
    const unsigned lane = self % FIBER_WARP;
    const fiber *const row = fibers + (self - lane % 4); /* four lanes have a row's terms */
    memcpy(fibers[self].factors[turn], a, 4 * sizeof *a);
    leave(FIBER_AT_EXCHANGE);
    for (unsigned e = 0; e < LS_GPU_GROUP_SUMS; e++) {
        const int column = (int)(e / 4 * 8 + lane % 4 * 2 + e % 2);
        double sum = add ? (double)c[e] : 0;
        for (int k = 0; k < LS_GPU_GROUP_TERMS; k++)
            sum += (double)row[k % 4].factors[turn][e % 4 / 2 + (unsigned)k / 4 * 2] *
                   (double)b[ls_gpu_group_place(column, unit * LS_GPU_GROUP_TERMS + k)];
        c[e] = (float)sum;
    }
}

static inline void ls_gpu_await_group(float (&)[LS_GPU_GROUP_SUMS])
{
}
