/* SPDX-License-Identifier: MIT */
/*
 * Operations on independent elements of the cpu table: each a vector loop over a range, split over
 * the device's threads where there is enough of it. No split changes a bit.
 */
#include "common/device/cpu/team.h"
#include "common/kernel/cpu/cpu_kernels.h"

#include <string.h>

typedef struct element_op {
    const ls_vector_loops *loops;
    int threads;
    union {
        ls_relu_forward_args relu;
        ls_relu_backward_args mask;
        ls_polynomial_args polynomial;
        ls_add_args add;
        ls_fill_args fill;
        ls_scale_args scale;
    };
} element_op;

/* `like` has the arguments. */
static ls_status make(ls_kernels *kernels, const ls_op *op, const ls_work *work, int64_t elements,
                      element_op like, ls_op **out)
{
    const cpu_kernels *cpu = (const cpu_kernels *)kernels;
    ls_op full = *op;
    full.flops = work->flops;
    full.bytes = work->bytes;
    like.loops = cpu->loops;
    like.threads = ls_cpu_threads_for(cpu, elements);
    return ls_op_bind(&full, &like, sizeof like, out);
}

/* ---- relu_forward, relu_backward ----------------------------------------------------------- */

static void relu_part(void *context, int part, int parts)
{
    const element_op *e = context;
    int64_t first, last;
    ls_cpu_split(e->relu.count, part, parts, &first, &last);
    e->loops->relu((const float *)e->relu.x + first, (float *)e->relu.y + first, last - first);
}

static ls_status run_relu(ls_op *op, ls_queue *queue)
{
    (void)queue;
    element_op *e = ls_op_arguments(op);
    ls_team_run(e->threads, relu_part, e);
    return LS_OK;
}

ls_status ls_cpu_relu_forward(ls_kernels *kernels, const ls_relu_forward_args *arguments,
                              const ls_work *work, ls_op **out)
{
    static const ls_op op = {.name = "relu_forward.loop", .run = run_relu};
    return make(kernels, &op, work, arguments->count, (element_op){.relu = *arguments}, out);
}

static void mask_part(void *context, int part, int parts)
{
    const element_op *e = context;
    int64_t first, last;
    ls_cpu_split(e->mask.count, part, parts, &first, &last);
    e->loops->mask((const float *)e->mask.y + first, (const float *)e->mask.dy + first,
                   (float *)e->mask.dx + first, last - first);
}

static ls_status run_mask(ls_op *op, ls_queue *queue)
{
    (void)queue;
    element_op *e = ls_op_arguments(op);
    ls_team_run(e->threads, mask_part, e);
    return LS_OK;
}

ls_status ls_cpu_relu_backward(ls_kernels *kernels, const ls_relu_backward_args *arguments,
                               const ls_work *work, ls_op **out)
{
    static const ls_op op = {.name = "relu_backward.loop", .run = run_mask};
    return make(kernels, &op, work, arguments->count, (element_op){.mask = *arguments}, out);
}

/* ---- polynomial ---------------------------------------------------------------------------- */

static ls_status run_polynomial(ls_op *op, ls_queue *queue)
{
    (void)queue;
    const element_op *e = ls_op_arguments(op);
    e->loops->polynomial(e->polynomial.x, e->polynomial.y, e->polynomial.rows);
    return LS_OK;
}

ls_status ls_cpu_polynomial(ls_kernels *kernels, const ls_polynomial_args *arguments,
                            const ls_work *work, ls_op **out)
{
    static const ls_op op = {.name = "polynomial.loop", .run = run_polynomial};
    return make(kernels, &op, work, arguments->rows, (element_op){.polynomial = *arguments}, out);
}

/* ---- add, fill, scale ---------------------------------------------------------------------- */

static void add_part(void *context, int part, int parts)
{
    const element_op *e = context;
    int64_t first, last;
    ls_cpu_split(e->add.count, part, parts, &first, &last);
    const float *a = (const float *)e->add.a + first, *b = e->add.b;
    float *y = (float *)e->add.y + first;
    if (b)
        e->loops->add(a, b + first, y, last - first);
    else if (last > first)
        memmove(y, a, (size_t)(last - first) * sizeof *y);
}

static ls_status run_add(ls_op *op, ls_queue *queue)
{
    (void)queue;
    element_op *e = ls_op_arguments(op);
    ls_team_run(e->threads, add_part, e);
    return LS_OK;
}

ls_status ls_cpu_add(ls_kernels *kernels, const ls_add_args *arguments, const ls_work *work,
                     ls_op **out)
{
    static const ls_op op = {.name = "add.loop", .run = run_add};
    return make(kernels, &op, work, arguments->count, (element_op){.add = *arguments}, out);
}

static void fill_part(void *context, int part, int parts)
{
    const element_op *e = context;
    int64_t first, last;
    ls_cpu_split(e->fill.count, part, parts, &first, &last);
    e->loops->fill((float *)e->fill.y + first, (float)e->fill.value, last - first);
}

static ls_status run_fill(ls_op *op, ls_queue *queue)
{
    (void)queue;
    element_op *e = ls_op_arguments(op);
    ls_team_run(e->threads, fill_part, e);
    return LS_OK;
}

ls_status ls_cpu_fill(ls_kernels *kernels, const ls_fill_args *arguments, const ls_work *work,
                      ls_op **out)
{
    static const ls_op op = {.name = "fill.loop", .run = run_fill};
    return make(kernels, &op, work, arguments->count, (element_op){.fill = *arguments}, out);
}

static void scale_part(void *context, int part, int parts)
{
    const element_op *e = context;
    int64_t first, last;
    ls_cpu_split(e->scale.count, part, parts, &first, &last);
    e->loops->scale((float *)e->scale.y + first, (float)e->scale.factor, last - first);
}

static ls_status run_scale(ls_op *op, ls_queue *queue)
{
    (void)queue;
    element_op *e = ls_op_arguments(op);
    ls_team_run(e->threads, scale_part, e);
    return LS_OK;
}

ls_status ls_cpu_scale(ls_kernels *kernels, const ls_scale_args *arguments, const ls_work *work,
                       ls_op **out)
{
    static const ls_op op = {.name = "scale.loop", .run = run_scale};
    return make(kernels, &op, work, arguments->count, (element_op){.scale = *arguments}, out);
}
