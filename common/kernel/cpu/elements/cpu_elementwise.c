/* SPDX-License-Identifier: MIT */
/*
 * Elementwise operations of the cpu table: each a vector loop over a range, shared by the device's
 * threads if it is long enough. This changes no bit.
 */
#include "common/kernel/cpu/cpu_kernels.h"

#include <string.h>

/* The part's first element in an array. */
static const float *from(const cpu_part *p, const void *array)
{
    return (const float *)array + p->first;
}

static float *to(const cpu_part *p, void *array)
{
    return (float *)array + p->first;
}

static void relu_part(const cpu_part *p)
{
    const ls_relu_forward_args *a = p->arguments;
    p->loops->relu(from(p, a->x), to(p, a->y), p->last - p->first);
}

static void mask_part(const cpu_part *p)
{
    const ls_relu_backward_args *a = p->arguments;
    p->loops->mask(from(p, a->y), from(p, a->dy), to(p, a->dx), p->last - p->first);
}

static void add_part(const cpu_part *p)
{
    const ls_add_args *a = p->arguments;
    const int64_t count = p->last - p->first;
    if (a->b)
        p->loops->add(from(p, a->a), from(p, a->b), to(p, a->y), count);
    else if (count)
        memmove(to(p, a->y), from(p, a->a), (size_t)count * sizeof(float));
}

static void widen_part(const cpu_part *p)
{
    const ls_widen_args *a = p->arguments;
    p->loops->widen(a->x + p->first, to(p, a->y), p->last - p->first);
}

static void narrow_part(const cpu_part *p)
{
    const ls_narrow_args *a = p->arguments;
    p->loops->narrow(from(p, a->x), a->y + p->first, p->last - p->first);
}

static void fill_part(const cpu_part *p)
{
    const ls_fill_args *a = p->arguments;
    p->loops->fill(to(p, a->y), (float)a->value, p->last - p->first);
}

static void scale_part(const cpu_part *p)
{
    const ls_scale_args *a = p->arguments;
    const double factor = a->clip ? a->clip->factor : a->factor;
    p->loops->scale(to(p, a->y), (float)factor, p->last - p->first);
}

static void combine_part(const cpu_part *p)
{
    p->loops->combine(p->arguments, p->first, p->last);
}

/* Blocks are widened and rounded in the first-level cache. */
static void bf16_part(const cpu_part *p)
{
    enum { BLOCK = 1024 };
    const ls_bf16_elements_args *e = p->arguments;
    float a[BLOCK], b[BLOCK];
    for (int64_t at = p->first; at < p->last; at += BLOCK) {
        const int64_t count = p->last - at < BLOCK ? p->last - at : BLOCK;
        p->loops->widen(e->a + at, a, count);
        if (e->b)
            p->loops->widen(e->b + at, b, count);
        if (e->function == LS_BF16_GELU)
            p->loops->gelu(a, b, count);
        else if (e->function == LS_BF16_GELU_BACKWARD)
            p->loops->gelu_back(a, b, b, count);
        else if (e->b)
            p->loops->add(a, b, b, count);
        p->loops->narrow(e->b || e->function == LS_BF16_GELU ? b : a, e->y + at, count);
    }
}

#define RANGE(entry, args, loop)                                                                   \
    LS_CPU_OP(entry, ".loop", args, .part = loop, .shared = a->count, .elements = a->count,        \
              .in_blocks = true)
RANGE(relu_forward, ls_relu_forward_args, relu_part)
RANGE(relu_backward, ls_relu_backward_args, mask_part)
RANGE(add, ls_add_args, add_part)
RANGE(widen, ls_widen_args, widen_part)
RANGE(narrow, ls_narrow_args, narrow_part)
RANGE(bf16_elements, ls_bf16_elements_args, bf16_part)
RANGE(fill, ls_fill_args, fill_part)
RANGE(scale, ls_scale_args, scale_part)
RANGE(combine, ls_combine_args, combine_part)

static ls_status run_polynomial(cpu_op *op)
{
    const ls_polynomial_args *a = (const void *)op->arguments;
    op->loops->polynomial(a->x, a->y, a->rows);
    return LS_OK;
}

LS_CPU_OP(polynomial, ".loop", ls_polynomial_args, .once = run_polynomial)
