/* SPDX-License-Identifier: MIT */
/* The cpu table's logistic loss and copies of columns: small beside the layers around them. */
#include "common/kernel/cpu/cpu_kernels.h"

#include <string.h>

/* ---- logistic_loss ------------------------------------------------------------------------- */

typedef struct logistic_op {
    const ls_vector_loops *loops;
    ls_logistic_loss_args arguments;
} logistic_op;

static ls_status run_logistic(ls_op *op, ls_queue *queue)
{
    (void)queue;
    const logistic_op *l = ls_op_arguments(op);
    const ls_logistic_loss_args *a = &l->arguments;
    int64_t bad = l->loops->bad_label(a->labels, a->rows, 2);
    if (bad >= 0)
        return ls_label_fail("logistic_loss", bad, a->labels[bad], 2);
    double loss = l->loops->logistic(a);
    if (a->loss)
        *a->loss = a->scale * loss;
    return LS_OK;
}

ls_status ls_cpu_logistic_loss(ls_kernels *kernels, const ls_logistic_loss_args *arguments,
                               const ls_work *work, ls_op **out)
{
    const ls_op like = {.name = "logistic_loss.loop",
                        .run = run_logistic,
                        .flops = work->flops,
                        .bytes = work->bytes};
    const logistic_op bound = {((const cpu_kernels *)kernels)->loops, *arguments};
    return ls_op_bind(&like, &bound, sizeof bound, out);
}

/* ---- copy_columns -------------------------------------------------------------------------- */

static ls_status run_copy(ls_op *op, ls_queue *queue)
{
    (void)queue;
    const ls_copy_columns_args *c = ls_op_arguments(op);
    for (int64_t r = 0; r < c->rows && c->width; r++)
        memcpy((float *)c->y + r * c->y_pitch, (const float *)c->x + r * c->x_pitch,
               (size_t)c->width * sizeof(float));
    return LS_OK;
}

ls_status ls_cpu_copy_columns(ls_kernels *kernels, const ls_copy_columns_args *arguments,
                              const ls_work *work, ls_op **out)
{
    (void)kernels;
    const ls_op like = {.name = "copy_columns.memcpy",
                        .run = run_copy,
                        .bytes = work->bytes,
                        .reorders = 1,
                        .reordered_bytes = (size_t)work->bytes / 2};
    return ls_op_bind(&like, arguments, sizeof *arguments, out);
}
