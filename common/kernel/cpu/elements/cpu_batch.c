/* SPDX-License-Identifier: MIT */
/*
 * Operations on a batch of the cpu table: its samples, their data, and their losses. The device's
 * threads share the rows of a gather; one thread computes a sum, in a fixed order.
 */
#include "common/base/random/order_inline.h"
#include "common/kernel/cpu/cpu_kernels.h"
#include "common/kernel/step_inline.h"

/* ---- batch_indices, gather ----------------------------------------------------------------- */

typedef struct indices_args {
    ls_batch_indices_args of;
    ls_order_epoch cache;
} indices_args;

static ls_status run_indices(cpu_op *op)
{
    indices_args *i = (void *)op->arguments;
    const ls_batch_indices_args *a = &i->of;
    ls_order_fill(&a->order, a->state->position + a->offset, (uint64_t)a->rows, &i->cache,
                  a->indices, op->loops->indices);
    return LS_OK;
}

ls_status ls_cpu_batch_indices(ls_kernels *kernels, const ls_batch_indices_args *arguments,
                               const ls_work *work, ls_op **out)
{
    const cpu_op like = {.op.name = "batch_indices.loop", .once = run_indices};
    const indices_args args = {*arguments, .cache.epoch = UINT64_MAX};
    return ls_cpu_op_open(kernels, &like, &args, sizeof args, work, out);
}

LS_CPU_LOOP(gather, ls_gather_args, gather, .shared = a->rows,
            .elements = a->rows * a->width * (a->type == LS_GATHER_ONE_HOT ? 256 : 1))

/* ---- Losses -------------------------------------------------------------------------------- */

static ls_status run_softmax(cpu_op *op)
{
    const ls_softmax_cross_entropy_args *a = (const void *)op->arguments;
    int64_t bad = op->loops->bad_label(a->labels, a->rows, a->classes, a->scale_at);
    if (bad >= 0)
        return ls_label_fail("softmax_cross_entropy", bad, a->labels[bad], a->classes);
    const double scale = ls_loss_scale(a->scale_at, a->scale);
    const ls_vector_softmax loop = {.rows = a->rows,
                                    .classes = a->classes,
                                    .logits = a->logits,
                                    .labels = a->labels,
                                    .scale = (float)scale,
                                    .dlogits = a->dlogits,
                                    .tile = op->memory};
    double loss = op->loops->softmax(&loop);
    if (a->loss)
        *a->loss = scale * loss;
    return LS_OK;
}

/* Memory for a tile, if there is no dlogits to work in. */
static size_t tile_bytes(const ls_softmax_cross_entropy_args *a)
{
    if (a->dlogits || !a->rows)
        return 0;
    return (size_t)(ls_vector_tile_rows(a->classes) * a->classes) * sizeof(float);
}

LS_CPU_OP(softmax_cross_entropy, ".loop", ls_softmax_cross_entropy_args, .once = run_softmax,
          .memory_bytes = tile_bytes(a))

/* ---- Softmax in slices --------------------------------------------------------------------- */

static ls_status check_labels(cpu_op *op)
{
    const ls_softmax_part_args *a = (const void *)op->arguments;
    const int64_t bad = op->loops->bad_label(a->labels, a->rows, a->all, a->ragged);
    return bad < 0 ? LS_OK : ls_label_fail("softmax_part", bad, a->labels[bad], a->all);
}

static void softmax_part_part(const cpu_part *p)
{
    p->loops->softmax_part(p->arguments, p->first, p->last, p->own);
}

LS_CPU_OP(softmax_part, ".loop", ls_softmax_part_args, .once = check_labels,
          .part = softmax_part_part, .shared = a->rows, .elements = a->rows * a->classes,
          .own_bytes = a->terms ? 0 : (size_t)a->classes * sizeof(float))

static ls_status run_softmax_loss(cpu_op *op)
{
    const ls_softmax_whole_args *a = (const void *)op->arguments;
    if (a->loss)
        *a->loss = ls_loss_scale(a->scale_at, a->scale) * op->loops->softmax_whole_loss(a);
    return LS_OK;
}

static void softmax_whole_part(const cpu_part *p)
{
    p->loops->softmax_whole(p->arguments, p->first, p->last);
}

LS_CPU_OP(softmax_whole, ".loop", ls_softmax_whole_args, .once = run_softmax_loss,
          .part = a->dlogits ? softmax_whole_part : NULL, .shared = a->rows,
          .elements = a->rows * a->classes)

static ls_status run_count_parts(cpu_op *op)
{
    const ls_count_parts_args *a = (const void *)op->arguments;
    const uint64_t position = a->state->position;
    const uint64_t left = a->samples > position ? a->samples - position : 0;
    *a->correct += op->loops->count_parts(
        a, left < (uint64_t)(a->rows / a->targets) ? (int64_t)left * a->targets : a->rows);
    return LS_OK;
}

LS_CPU_OP(count_parts, ".loop", ls_count_parts_args, .once = run_count_parts)

static ls_status run_squared_error(cpu_op *op)
{
    const ls_squared_error_args *a = (const void *)op->arguments;
    double sum = op->loops->squared_error(a->y, a->target, (float)(2 * a->scale), a->dy,
                                          a->rows * a->outputs);
    if (a->loss)
        *a->loss = a->scale * sum;
    return LS_OK;
}

LS_CPU_OP(squared_error, ".loop", ls_squared_error_args, .once = run_squared_error)

static ls_status run_logistic(cpu_op *op)
{
    const ls_logistic_loss_args *a = (const void *)op->arguments;
    int64_t bad = op->loops->bad_label(a->labels, a->rows, 2, false);
    if (bad >= 0)
        return ls_label_fail("logistic_loss", bad, a->labels[bad], 2);
    double loss = op->loops->logistic(a);
    if (a->loss)
        *a->loss = a->scale * loss;
    return LS_OK;
}

LS_CPU_OP(logistic_loss, ".loop", ls_logistic_loss_args, .once = run_logistic)

static ls_status run_count(cpu_op *op)
{
    const ls_count_correct_args *a = (const void *)op->arguments;
    uint64_t position = a->state->position;
    uint64_t left = a->samples > position ? a->samples - position : 0;
    int64_t rows = left < (uint64_t)(a->rows / a->targets) ? (int64_t)left * a->targets : a->rows;
    *a->correct += op->loops->count_correct(a->logits, a->labels, rows, a->classes);
    return LS_OK;
}

LS_CPU_OP(count_correct, ".loop", ls_count_correct_args, .once = run_count)
