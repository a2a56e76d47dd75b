/* SPDX-License-Identifier: MIT */
/*
 * Storage in bfloat16, for test_kernels.c: what is rounded is the nearest of both neighbours, by
 * their distances in double; all 2^16 values are their own.
 */
#pragma once

#include "common/base/bf16_inline.h"
#include "common/kernel/tests/kernel_bf16.h"

static void narrow_by(fixture *f, ls_kernels *kernels, const float *x, uint16_t *y, int64_t count)
{
    apply_narrow(f, kernels, &(ls_narrow_args){count, x, y});
}

/* The larger of the two has even bits if both are equally near. */
static bool is_nearest(float x, uint16_t y)
{
    const double here = ls_float_of_bf16(y);
    const double off = fabs(here - x);
    const double below = fabs(ls_float_of_bf16((uint16_t)(y - 1)) - (double)x);
    const double above = fabs(ls_float_of_bf16((uint16_t)(y + 1)) - (double)x);
    return (off < below || (off == below && y % 2 == 0)) &&
           (off < above || (off == above && y % 2 == 0));
}

static void test_narrow(void **state)
{
    fixture *f = *state;
    if (!f->cpu->table->narrow)
        return;
    enum { COUNT = 20000 };
    float *x = randoms(COUNT, 1);
    uint16_t *got = calloc(COUNT + 1, sizeof *got), *want = calloc(COUNT + 1, sizeof *want);
    for (uint32_t i = 0; i < COUNT / 2; i++) /* as often as not half way between two */
        x[i] = ls_float_of_bits((0x3f81u << 16) + (i << 15));
    narrow_by(f, f->cpu, x, got, COUNT);
    narrow_by(f, f->reference, x, want, COUNT);
    same_bits("narrow", got, want, (COUNT + 1) * sizeof *got); /* and no more */
    for (int i = 0; i < COUNT; i++)
        assert_true(is_nearest(x[i], got[i]));
    static const uint32_t special[][2] = {
        {0x7f800001, 0x7fc0}, {0xff800001, 0xffc0}, {0x7fffffff, 0x7fff}, {0xffffffff, 0xffff},
        {0x7f800000, 0x7f80}, {0xff800000, 0xff80}, {0x7f7f8000, 0x7f80}, {0x7f7f7fff, 0x7f7f},
        {0x80000000, 0x8000}, {0x00008001, 0x0001}, {0x00008000, 0x0000}, {0x00018000, 0x0002},
        {0x007fffff, 0x0080}, {0x80008001, 0x8001}};
    enum { SPECIAL = sizeof special / sizeof *special };
    for (int i = 0; i < SPECIAL; i++)
        x[i] = ls_float_of_bits(special[i][0]);
    narrow_by(f, f->cpu, x, got, SPECIAL);
    narrow_by(f, f->reference, x, want, SPECIAL);
    for (int i = 0; i < SPECIAL; i++)
        assert_true(got[i] == special[i][1] && want[i] == special[i][1]);
    free(x), free(got), free(want);
}

/* As widening, the float32 operation, rounding; the result may be the second operand. */
static void test_bf16_elements(void **state)
{
    fixture *f = *state;
    if (!f->cpu->table->bf16_elements)
        return;
    enum { COUNT = 5001 };
    float *x = calloc(COUNT, sizeof *x), *z = calloc(COUNT, sizeof *z),
          *y = calloc(COUNT, sizeof *y);
    uint16_t *a = random_bf16(COUNT, 3), *b = random_bf16(COUNT, 4), *got = random_bf16(COUNT, 5);
    uint16_t *want = random_bf16(COUNT, 5);
    apply_widen(f, f->cpu, &(ls_widen_args){COUNT, a, x});
    apply_widen(f, f->cpu, &(ls_widen_args){COUNT, b, z});
    for (int i = 0; i < 4; i++) {
        const ls_bf16_function functions[] = {LS_BF16_ADD, LS_BF16_GELU_BACKWARD, LS_BF16_GELU,
                                              LS_BF16_ADD};
        const ls_bf16_elements_args args = {functions[i], COUNT, a, i < 2 ? b : NULL, got};
        if (args.function == LS_BF16_GELU)
            apply_gelu_forward(f, f->cpu, &(ls_gelu_forward_args){COUNT, x, y});
        else if (args.function == LS_BF16_GELU_BACKWARD)
            apply_gelu_backward(f, f->cpu, &(ls_gelu_backward_args){COUNT, x, z, y});
        else
            apply_add(f, f->cpu, &(ls_add_args){COUNT, x, args.b ? z : NULL, y});
        narrow_by(f, f->cpu, y, want, COUNT);
        apply_bf16_elements(f, f->cpu, &args);
        same_bits("bf16_elements", got, want, (COUNT + 1) * sizeof *got); /* and no more */
    }
    memcpy(got, b, COUNT * sizeof *got);
    apply_add(f, f->cpu, &(ls_add_args){COUNT, x, z, y});
    narrow_by(f, f->cpu, y, want, COUNT);
    apply_bf16_elements(f, f->cpu, &(ls_bf16_elements_args){LS_BF16_ADD, COUNT, a, got, got});
    same_bits("bf16_elements in place", got, want, (COUNT + 1) * sizeof *got);
    free(x), free(z), free(y), free(a), free(b), free(got), free(want);
}

static void test_widen(void **state)
{
    fixture *f = *state;
    if (!f->cpu->table->narrow)
        return;
    enum { COUNT = 1 << 16 };
    uint16_t *x = calloc(COUNT, sizeof *x);
    float *got = calloc(COUNT + 1, sizeof *got), *want = calloc(COUNT + 1, sizeof *want);
    for (int i = 0; i < COUNT; i++)
        x[i] = (uint16_t)i;
    apply_widen(f, f->cpu, &(ls_widen_args){COUNT, x, got});
    apply_widen(f, f->reference, &(ls_widen_args){COUNT, x, want});
    for (uint32_t i = 0; i < COUNT; i++)
        assert_true(ls_bits_of_float(got[i]) == i << 16 && ls_bits_of_float(want[i]) == i << 16);
    free(x), free(got), free(want);
}
