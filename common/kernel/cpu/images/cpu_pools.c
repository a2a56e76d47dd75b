/* SPDX-License-Identifier: MIT */
/*
 * Pools, normalisation, crops, transposition and weight decay of the cpu table: vector loops; the
 * device's threads share the rows or pixels, which changes no bit. (oneDNN 2.6's backward
 * normalisation takes ten times as long as the convolutions around it.)
 */
#include "common/kernel/cpu/cpu_kernels.h"

/* ---- Max pool, normalisation, transposition ------------------------------------------------- */

#define BY_BYTES .elements = (int64_t)work->bytes / 4

LS_CPU_LOOP(max_pool_forward, ls_max_pool_forward_args, max_pool, .shared = a->rows, BY_BYTES)
LS_CPU_LOOP(max_pool_backward, ls_max_pool_backward_args, max_pool_back, .shared = a->rows,
            BY_BYTES)
LS_CPU_LOOP(transpose, ls_transpose_args, transpose, .shared = a->batch, BY_BYTES, .op.reorders = 1,
            .op.reordered_bytes = (size_t)work->bytes / 2)

static void lrn_part(const cpu_part *p)
{
    p->loops->lrn(p->arguments, p->first, p->last, p->own);
}

static void lrn_back_part(const cpu_part *p)
{
    p->loops->lrn_back(p->arguments, p->first, p->last, p->own);
}

#define TILED(entry, args, loop)                                                                   \
    LS_CPU_OP(entry, ".loop", args, .part = loop, .shared = a->pixels, BY_BYTES,                   \
              .own_bytes = ls_vector_lrn_tile(a->channels, a->radius) * sizeof(float))
TILED(lrn_forward, ls_lrn_forward_args, lrn_part)
TILED(lrn_backward, ls_lrn_backward_args, lrn_back_part)

/* ---- Crops: the draws are the reference's --------------------------------------------------- */

typedef struct crops_args {
    ls_gather_crops_args of;
    ls_random random;
} crops_args;

static void crops_part(const cpu_part *p)
{
    const crops_args *c = p->arguments;
    for (int64_t r = p->first; r < p->last; r++) {
        const ls_crop crop = ls_crop_draw(&c->of, c->random, r);
        p->loops->crop(&c->of, &crop, r);
    }
}

ls_status ls_cpu_gather_crops(ls_kernels *kernels, const ls_gather_crops_args *a,
                              const ls_work *work, ls_op **out)
{
    const cpu_op like = {.op.name = "gather_crops.loop",
                         .part = crops_part,
                         .shared = a->rows,
                         .elements = (int64_t)work->flops};
    const crops_args args = {*a, ls_random_stream(a->seed, "augment")};
    return ls_cpu_op_open(kernels, &like, &args, sizeof args, work, out);
}

/* ---- Weight decay: its sum is one thread's --------------------------------------------------- */

static ls_status run_decay(cpu_op *op)
{
    const ls_weight_decay_args *a = (const void *)op->arguments;
    const ls_update_range *ranges = (const void *)(a + 1);
    double loss = 0;
    for (int64_t r = 0; r < a->range_count; r++)
        loss += op->loops->decay_loss((const float *)a->weight + ranges[r].first, ranges[r].decay,
                                      ranges[r].count);
    *a->loss = loss;
    return LS_OK;
}

LS_CPU_OP(weight_decay, ".loop", ls_weight_decay_args, .once = run_decay)
