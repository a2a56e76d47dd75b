/* SPDX-License-Identifier: MIT */
/*
 * Operations on a batch of the cpu table: which samples, their data, and their losses. The gather
 * is split over the device's threads by rows; sums are taken by one thread, in one order.
 */
#include "common/base/order_inline.h"
#include "common/device/cpu/team.h"
#include "common/kernel/cpu/cpu_kernels.h"

#include <stdlib.h>

/* ---- batch_indices ------------------------------------------------------------------------- */

typedef struct indices_op {
    const ls_vector_loops *loops;
    ls_batch_indices_args arguments;
    ls_order_epoch cache;
} indices_op;

static ls_status run_indices(ls_op *op, ls_queue *queue)
{
    (void)queue;
    indices_op *b = ls_op_arguments(op);
    const ls_batch_indices_args *a = &b->arguments;
    ls_order_fill(&a->order, a->state->position + a->offset, (uint64_t)a->rows, &b->cache,
                  a->indices, b->loops->indices);
    return LS_OK;
}

ls_status ls_cpu_batch_indices(ls_kernels *kernels, const ls_batch_indices_args *arguments,
                               const ls_work *work, ls_op **out)
{
    const ls_op like = {.name = "batch_indices.loop", .run = run_indices, .bytes = work->bytes};
    const indices_op bound = {.loops = ((const cpu_kernels *)kernels)->loops,
                              .arguments = *arguments,
                              .cache.epoch = UINT64_MAX};
    return ls_op_bind(&like, &bound, sizeof bound, out);
}

/* ---- gather -------------------------------------------------------------------------------- */

typedef struct gather_op {
    const ls_vector_loops *loops;
    int threads;
    ls_gather_args arguments;
} gather_op;

static void gather_part(void *context, int part, int parts)
{
    const gather_op *g = context;
    int64_t first, last;
    ls_cpu_share(g->arguments.rows, part, parts, &first, &last);
    g->loops->gather(&g->arguments, first, last);
}

static ls_status run_gather(ls_op *op, ls_queue *queue)
{
    (void)queue;
    gather_op *g = ls_op_arguments(op);
    ls_team_run(g->threads, gather_part, g);
    return LS_OK;
}

ls_status ls_cpu_gather(ls_kernels *kernels, const ls_gather_args *arguments, const ls_work *work,
                        ls_op **out)
{
    const cpu_kernels *cpu = (const cpu_kernels *)kernels;
    const ls_op like = {
        .name = "gather.loop", .run = run_gather, .flops = work->flops, .bytes = work->bytes};
    bool one_hot = arguments->type == LS_GATHER_ONE_HOT;
    const gather_op bound = {.loops = cpu->loops,
                             .threads = ls_cpu_threads_for(cpu, arguments->rows * arguments->width *
                                                                    (one_hot ? 256 : 1)),
                             .arguments = *arguments};
    return ls_op_bind(&like, &bound, sizeof bound, out);
}

/* ---- softmax_cross_entropy ----------------------------------------------------------------- */

typedef struct softmax_op {
    ls_op op;
    const ls_vector_loops *loops;
    ls_device *device;
    ls_softmax_cross_entropy_args arguments;
    float *tile; /* only where there is no dlogits to work in */
} softmax_op;

static ls_status run_softmax(ls_op *op, ls_queue *queue)
{
    (void)queue;
    const softmax_op *s = (const softmax_op *)op;
    const ls_softmax_cross_entropy_args *a = &s->arguments;
    int64_t bad = s->loops->bad_label(a->labels, a->rows, a->classes);
    if (bad >= 0)
        return ls_label_fail("softmax_cross_entropy", bad, a->labels[bad], a->classes);
    const ls_vector_softmax loop = {.rows = a->rows,
                                    .classes = a->classes,
                                    .logits = a->logits,
                                    .labels = a->labels,
                                    .scale = (float)a->scale,
                                    .dlogits = a->dlogits,
                                    .tile = s->tile};
    double loss = s->loops->softmax(&loop);
    if (a->loss)
        *a->loss = a->scale * loss;
    return LS_OK;
}

static void destroy_softmax(ls_op *op)
{
    softmax_op *s = (softmax_op *)op;
    ls_device_release(s->device, s->tile);
    free(s);
}

ls_status ls_cpu_softmax_cross_entropy(ls_kernels *kernels,
                                       const ls_softmax_cross_entropy_args *arguments,
                                       const ls_work *work, ls_op **out)
{
    const cpu_kernels *cpu = (const cpu_kernels *)kernels;
    softmax_op *s = malloc(sizeof *s);
    if (!s)
        return ls_fail_memory("softmax_cross_entropy", sizeof *s);
    *s = (softmax_op){.op = {.name = "softmax_cross_entropy.loop",
                             .run = run_softmax,
                             .destroy = destroy_softmax,
                             .flops = work->flops,
                             .bytes = work->bytes},
                      .loops = cpu->loops,
                      .device = kernels->device,
                      .arguments = *arguments};
    if (!arguments->dlogits && arguments->rows && arguments->classes) {
        size_t elements = (size_t)(ls_vector_tile_rows(arguments->classes) * arguments->classes);
        void *tile;
        ls_status status = ls_device_allocate(kernels->device, LS_MEMORY_WORKSPACE,
                                              elements * sizeof(float), &tile);
        if (status) {
            free(s);
            return status;
        }
        s->tile = tile;
        s->op.workspace = elements * sizeof(float);
    }
    *out = &s->op;
    return LS_OK;
}

/* ---- squared_error ------------------------------------------------------------------------- */

typedef struct error_op {
    const ls_vector_loops *loops;
    ls_squared_error_args arguments;
} error_op;

static ls_status run_squared_error(ls_op *op, ls_queue *queue)
{
    (void)queue;
    const error_op *e = ls_op_arguments(op);
    const ls_squared_error_args *a = &e->arguments;
    double sum = e->loops->squared_error(a->y, a->target, (float)(2 * a->scale), a->dy,
                                         a->rows * a->outputs);
    if (a->loss)
        *a->loss = a->scale * sum;
    return LS_OK;
}

ls_status ls_cpu_squared_error(ls_kernels *kernels, const ls_squared_error_args *arguments,
                               const ls_work *work, ls_op **out)
{
    const ls_op like = {.name = "squared_error.loop",
                        .run = run_squared_error,
                        .flops = work->flops,
                        .bytes = work->bytes};
    const error_op bound = {((const cpu_kernels *)kernels)->loops, *arguments};
    return ls_op_bind(&like, &bound, sizeof bound, out);
}

/* ---- count_correct ------------------------------------------------------------------------- */

typedef struct count_op {
    const ls_vector_loops *loops;
    ls_count_correct_args arguments;
} count_op;

static ls_status run_count(ls_op *op, ls_queue *queue)
{
    (void)queue;
    const count_op *c = ls_op_arguments(op);
    const ls_count_correct_args *a = &c->arguments;
    uint64_t position = a->state->position;
    uint64_t left = a->samples > position ? a->samples - position : 0;
    int64_t rows = left < (uint64_t)a->rows ? (int64_t)left : a->rows;
    *a->correct += c->loops->count_correct(a->logits, a->labels, rows, a->classes);
    return LS_OK;
}

ls_status ls_cpu_count_correct(ls_kernels *kernels, const ls_count_correct_args *arguments,
                               const ls_work *work, ls_op **out)
{
    const ls_op like = {.name = "count_correct.loop", .run = run_count, .bytes = work->bytes};
    const count_op bound = {((const cpu_kernels *)kernels)->loops, *arguments};
    return ls_op_bind(&like, &bound, sizeof bound, out);
}
