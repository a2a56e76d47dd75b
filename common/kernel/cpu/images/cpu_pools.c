/* SPDX-License-Identifier: MIT */
/*
 * Pools, normalisation, transposition and weight decay of the cpu table: vector loops, split over
 * the device's threads by rows, pixels or elements, which changes no bit. (oneDNN 2.6's backward
 * normalisation takes ten times as long as the convolutions around it.)
 */
#include "common/device/cpu/team.h"
#include "common/kernel/cpu/cpu_kernels.h"
#include "common/kernel/step_inline.h"

#include <stdlib.h>

typedef struct pool_op {
    ls_op op;
    const ls_vector_loops *loops;
    ls_device *device;
    int threads;
    int64_t parts; /* rows, pixels or elements to share */
    float *tiles;  /* normalisation: one for each thread */
    size_t tile;   /* floats of one */
    void (*part)(const struct pool_op *p, int64_t first, int64_t last, float *tile);
    union {
        ls_max_pool_forward_args pool;
        ls_max_pool_backward_args pool_back;
        ls_lrn_forward_args lrn;
        ls_lrn_backward_args lrn_back;
        ls_transpose_args transpose;
    };
} pool_op;

static void team_part(void *context, int part, int parts)
{
    const pool_op *p = context;
    int64_t first, last;
    ls_cpu_share(p->parts, part, parts, &first, &last);
    p->part(p, first, last, p->tiles + (size_t)part * p->tile);
}

static ls_status run(ls_op *op, ls_queue *queue)
{
    (void)queue;
    pool_op *p = (pool_op *)op;
    ls_team_run(p->threads, team_part, p);
    return LS_OK;
}

static void destroy(ls_op *op)
{
    pool_op *p = (pool_op *)op;
    if (p->tiles)
        ls_device_release(p->device, p->tiles);
    free(p);
}

/* `like` has the arguments, what a part is, how many there are, and its tile. */
static ls_status make(ls_kernels *kernels, const pool_op *like, const ls_work *work, ls_op **out)
{
    const cpu_kernels *cpu = (const cpu_kernels *)kernels;
    pool_op *p = malloc(sizeof *p);
    if (!p)
        return ls_fail_memory(like->op.name, sizeof *p);
    *p = *like;
    p->op.run = like->op.run ? like->op.run : run;
    p->op.destroy = destroy;
    p->op.flops = work->flops;
    p->op.bytes = work->bytes;
    p->loops = cpu->loops;
    p->device = kernels->device;
    p->threads = ls_cpu_threads_for(cpu, (int64_t)work->bytes / 4);
    if (p->tile) {
        void *tiles;
        size_t bytes = (size_t)p->threads * p->tile * sizeof(float);
        ls_status status = ls_device_allocate(p->device, LS_MEMORY_WORKSPACE, bytes, &tiles);
        if (status) {
            free(p);
            return status;
        }
        p->tiles = tiles;
        p->op.workspace = bytes;
    }
    *out = &p->op;
    return LS_OK;
}

/* ---- Max pool ------------------------------------------------------------------------------- */

static void pool_part(const pool_op *p, int64_t first, int64_t last, float *tile)
{
    (void)tile;
    p->loops->max_pool(&p->pool, first, last);
}

ls_status ls_cpu_max_pool_forward(ls_kernels *kernels, const ls_max_pool_forward_args *a,
                                  const ls_work *work, ls_op **out)
{
    const pool_op like = {
        .op.name = "max_pool_forward.loop", .part = pool_part, .parts = a->rows, .pool = *a};
    return make(kernels, &like, work, out);
}

static void pool_back_part(const pool_op *p, int64_t first, int64_t last, float *tile)
{
    (void)tile;
    p->loops->max_pool_back(&p->pool_back, first, last);
}

ls_status ls_cpu_max_pool_backward(ls_kernels *kernels, const ls_max_pool_backward_args *a,
                                   const ls_work *work, ls_op **out)
{
    const pool_op like = {.op.name = "max_pool_backward.loop",
                          .part = pool_back_part,
                          .parts = a->rows,
                          .pool_back = *a};
    return make(kernels, &like, work, out);
}

/* ---- Local response normalisation ----------------------------------------------------------- */

static void lrn_part(const pool_op *p, int64_t first, int64_t last, float *tile)
{
    p->loops->lrn(&p->lrn, first, last, tile);
}

ls_status ls_cpu_lrn_forward(ls_kernels *kernels, const ls_lrn_forward_args *a, const ls_work *work,
                             ls_op **out)
{
    const pool_op like = {.op.name = "lrn_forward.loop",
                          .part = lrn_part,
                          .parts = a->pixels,
                          .tile = ls_vector_lrn_tile(a->channels, a->radius),
                          .lrn = *a};
    return make(kernels, &like, work, out);
}

static void lrn_back_part(const pool_op *p, int64_t first, int64_t last, float *tile)
{
    p->loops->lrn_back(&p->lrn_back, first, last, tile);
}

ls_status ls_cpu_lrn_backward(ls_kernels *kernels, const ls_lrn_backward_args *a,
                              const ls_work *work, ls_op **out)
{
    const pool_op like = {.op.name = "lrn_backward.loop",
                          .part = lrn_back_part,
                          .parts = a->pixels,
                          .tile = ls_vector_lrn_tile(a->channels, a->radius),
                          .lrn_back = *a};
    return make(kernels, &like, work, out);
}

/* ---- Transposition, weight decay ------------------------------------------------------------ */

static void transpose_part(const pool_op *p, int64_t first, int64_t last, float *tile)
{
    (void)tile;
    p->loops->transpose(&p->transpose, first, last);
}

ls_status ls_cpu_transpose(ls_kernels *kernels, const ls_transpose_args *a, const ls_work *work,
                           ls_op **out)
{
    const pool_op like = {
        .op = {.name = "transpose.loop", .reorders = 1, .reordered_bytes = (size_t)work->bytes / 2},
        .part = transpose_part,
        .parts = a->batch,
        .transpose = *a};
    return make(kernels, &like, work, out);
}

typedef struct decay_op {
    ls_weight_decay_args a; /* its ranges are behind this */
    const ls_vector_loops *loops;
} decay_op;

/* The sum of squares is one thread's: one order. */
static ls_status run_decay(ls_op *op, ls_queue *queue)
{
    (void)queue;
    const decay_op *d = ls_op_arguments(op);
    const ls_update_range *ranges = ls_op_array(op, sizeof *d);
    double loss = 0;
    for (int64_t r = 0; r < d->a.range_count; r++)
        loss += ls_decay_part(
            ranges[r].decay,
            d->loops->sum_squares((const float *)d->a.weight + ranges[r].first, ranges[r].count));
    *d->a.loss = loss;
    return LS_OK;
}

ls_status ls_cpu_weight_decay(ls_kernels *kernels, const ls_weight_decay_args *a,
                              const ls_work *work, ls_op **out)
{
    const decay_op bound = {.a = *a, .loops = ((const cpu_kernels *)kernels)->loops};
    const ls_op like = {
        .name = "weight_decay.loop", .run = run_decay, .flops = work->flops, .bytes = work->bytes};
    return ls_op_bind_array(&like, &bound, sizeof bound, a->ranges,
                            (size_t)a->range_count * sizeof *a->ranges, out);
}
