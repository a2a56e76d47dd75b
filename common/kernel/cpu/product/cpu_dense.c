/* SPDX-License-Identifier: MIT */
/*
 * Dense layers and gemm of the cpu table: a product, and a pass for what the product leaves.
 *
 * The product is oneDNN's (cpu_product.h), or for a layer of a few weights, and where a size is 0,
 * a vector loop: a library call costs more than it computes. Which one depends on the weights'
 * shape only, not on the rows, so a slice of a batch is computed as the batch is.
 */
#include "common/base/hooks.h"
#include "common/device/cpu/team.h"
#include "common/kernel/cpu/cpu_kernels.h"
#include "common/kernel/cpu/product/cpu_product.h"

#include <stdlib.h>

/* Weights up to which a layer is done by a loop. */
enum { LOOP_WEIGHTS = 64 };

typedef struct dense_op {
    ls_op op;
    ls_product *product;
    const ls_vector_loops *loops;
    int threads; /* for the pass beside the product */
    union {
        ls_gemm_args gemm;
        ls_dense_forward_args forward;
        ls_dense_backward_weights_args weights;
        ls_dense_backward_data_args data;
    };
} dense_op;

/* The names of one operation, and how it runs by a product or by a loop. */
typedef struct dense_kind {
    const char *matmul, *sgemm, *loop;
    ls_status (*run_product)(ls_op *op, ls_queue *queue);
    ls_status (*run_loop)(ls_op *op, ls_queue *queue);
} dense_kind;

static void destroy(ls_op *op)
{
    ls_product_close(((dense_op *)op)->product);
    free(op);
}

static bool is_loop(int64_t rows, int64_t inputs, int64_t outputs)
{
    return !rows || !inputs || !outputs ||
           (inputs <= LOOP_WEIGHTS && outputs <= LOOP_WEIGHTS && inputs * outputs <= LOOP_WEIGHTS);
}

/* `like` has the arguments; `spec` is NULL for a loop. */
static ls_status make(const cpu_kernels *kernels, const dense_kind *kind, const dense_op *like,
                      const ls_product_spec *spec, ls_op **out)
{
    dense_op *dense = malloc(sizeof *dense);
    if (!dense)
        return ls_fail_memory(kind->loop, sizeof *dense);
    *dense = *like;
    dense->loops = kernels->loops;
    dense->op.destroy = destroy;
    dense->op.name = kind->loop;
    dense->op.run = kind->run_loop;
    if (spec) {
        ls_status status =
            ls_product_open(kernels->base.device, kernels->engine, spec, &dense->product);
        if (status) {
            free(dense);
            return status;
        }
        dense->op.name = ls_product_fused(dense->product) ? kind->matmul : kind->sgemm;
        dense->op.run = kind->run_product;
        dense->op.workspace = ls_product_workspace(dense->product);
    }
    *out = &dense->op;
    return LS_OK;
}

/* ---- gemm ---------------------------------------------------------------------------------- */

static ls_status gemm_product(ls_op *op, ls_queue *queue)
{
    (void)queue;
    return ls_product_run(((dense_op *)op)->product);
}

static ls_status gemm_loop(ls_op *op, ls_queue *queue)
{
    (void)queue;
    const dense_op *dense = (const dense_op *)op;
    dense->loops->gemm(&dense->gemm);
    return LS_OK;
}

ls_status ls_cpu_gemm(ls_kernels *kernels, const ls_gemm_args *arguments, const ls_work *work,
                      ls_op **out)
{
    static const dense_kind kind = {"gemm.matmul_brg", "gemm.sgemm", "gemm.loop", gemm_product,
                                    gemm_loop};
    const cpu_kernels *cpu = (const cpu_kernels *)kernels;
    const dense_op like = {.op = {.flops = work->flops, .bytes = work->bytes}, .gemm = *arguments};
    const ls_product_spec spec = {.gemm = *arguments};
    bool loop = is_loop(arguments->m, arguments->k, arguments->n);
    return make(cpu, &kind, &like, loop ? NULL : &spec, out);
}

/* ---- dense_forward ------------------------------------------------------------------------- */

static void forward_pass(void *context, int part, int parts)
{
    const dense_op *dense = context;
    const ls_dense_forward_args *d = &dense->forward;
    int64_t first, last;
    ls_cpu_share(d->rows, part, parts, &first, &last);
    dense->loops->bias((float *)d->y + first * d->outputs, d->bias, last - first, d->outputs,
                       d->activation == LS_ACTIVATION_RELU);
}

static ls_status forward_product(ls_op *op, ls_queue *queue)
{
    (void)queue;
    dense_op *dense = (dense_op *)op;
    LS_TRY(ls_product_run(dense->product));
    bool extra = dense->forward.bias || dense->forward.activation == LS_ACTIVATION_RELU;
    if (extra && !ls_product_fused(dense->product))
        ls_team_run(dense->threads, forward_pass, dense);
    return LS_OK;
}

static ls_status forward_loop(ls_op *op, ls_queue *queue)
{
    (void)queue;
    const dense_op *dense = (const dense_op *)op;
    dense->loops->dense_forward(&dense->forward);
    return LS_OK;
}

ls_status ls_cpu_dense_forward(ls_kernels *kernels, const ls_dense_forward_args *arguments,
                               const ls_work *work, ls_op **out)
{
    static const dense_kind kind = {"dense_forward.matmul_brg", "dense_forward.sgemm",
                                    "dense_forward.loop", forward_product, forward_loop};
    const cpu_kernels *cpu = (const cpu_kernels *)kernels;
    const ls_dense_forward_args *d = arguments;
    const dense_op like = {.op = {.flops = work->flops, .bytes = work->bytes},
                           .threads = ls_cpu_threads_for(cpu, d->rows * d->outputs),
                           .forward = *d};
    const ls_product_spec spec = {.gemm = {.transpose_b = true,
                                           .m = d->rows,
                                           .n = d->outputs,
                                           .k = d->inputs,
                                           .a = d->x,
                                           .b = d->weight,
                                           .c = d->y},
                                  .bias = d->bias,
                                  .relu = d->activation == LS_ACTIVATION_RELU};
    bool loop = is_loop(d->rows, d->inputs, d->outputs);
    return make(cpu, &kind, &like, loop ? NULL : &spec, out);
}

/* ---- dense_backward_weights ---------------------------------------------------------------- */

static void weights_pass(void *context, int part, int parts)
{
    const dense_op *dense = context;
    const ls_dense_backward_weights_args *d = &dense->weights;
    int64_t first, last;
    ls_cpu_split(d->outputs, part, parts, &first, &last);
    dense->loops->column_sums(d->dy, d->rows, d->outputs, first, last, d->dbias);
}

static ls_status weights_product(ls_op *op, ls_queue *queue)
{
    (void)queue;
    dense_op *dense = (dense_op *)op;
    LS_TRY(ls_product_run(dense->product));
    if (dense->weights.dbias)
        ls_team_run(dense->threads, weights_pass, dense);
    return LS_OK;
}

static ls_status weights_loop(ls_op *op, ls_queue *queue)
{
    (void)queue;
    const dense_op *dense = (const dense_op *)op;
    dense->loops->dense_backward_weights(&dense->weights);
    return LS_OK;
}

ls_status ls_cpu_dense_backward_weights(ls_kernels *kernels,
                                        const ls_dense_backward_weights_args *arguments,
                                        const ls_work *work, ls_op **out)
{
    static const dense_kind kind = {"dense_backward_weights.matmul_brg",
                                    "dense_backward_weights.sgemm", "dense_backward_weights.loop",
                                    weights_product, weights_loop};
    const cpu_kernels *cpu = (const cpu_kernels *)kernels;
    const ls_dense_backward_weights_args *d = arguments;
    const dense_op like = {.op = {.flops = work->flops, .bytes = work->bytes},
                           .threads = ls_cpu_threads_for(cpu, d->rows * d->outputs),
                           .weights = *d};
    const ls_product_spec spec = {.gemm = {.transpose_a = true,
                                           .m = d->outputs,
                                           .n = d->inputs,
                                           .k = d->rows,
                                           .a = d->dy,
                                           .b = d->x,
                                           .c = d->dweight}};
    bool loop = is_loop(d->rows, d->inputs, d->outputs);
    return make(cpu, &kind, &like, loop ? NULL : &spec, out);
}

/* ---- dense_backward_data ------------------------------------------------------------------- */

static void data_pass(void *context, int part, int parts)
{
    const dense_op *dense = context;
    const ls_dense_backward_data_args *d = &dense->data;
    int64_t first, last;
    ls_cpu_split(d->rows * d->inputs, part, parts, &first, &last);
    float *dx = (float *)d->dx + first;
    dense->loops->mask((const float *)d->relu_output + first, dx, dx, last - first);
}

static ls_status data_product(ls_op *op, ls_queue *queue)
{
    (void)queue;
    dense_op *dense = (dense_op *)op;
    LS_TRY(ls_product_run(dense->product));
    if (dense->data.relu_output)
        ls_team_run(dense->threads, data_pass, dense);
    return LS_OK;
}

static ls_status data_loop(ls_op *op, ls_queue *queue)
{
    (void)queue;
    const dense_op *dense = (const dense_op *)op;
    dense->loops->dense_backward_data(&dense->data);
    return LS_OK;
}

ls_status ls_cpu_dense_backward_data(ls_kernels *kernels,
                                     const ls_dense_backward_data_args *arguments,
                                     const ls_work *work, ls_op **out)
{
    static const dense_kind kind = {"dense_backward_data.matmul_brg", "dense_backward_data.sgemm",
                                    "dense_backward_data.loop", data_product, data_loop};
    const cpu_kernels *cpu = (const cpu_kernels *)kernels;
    const ls_dense_backward_data_args *d = arguments;
    dense_op like = {.op = {.flops = work->flops, .bytes = work->bytes},
                     .threads = ls_cpu_threads_for(cpu, d->rows * d->inputs),
                     .data = *d};
    if (LS_PLANTED(mask_left_out))
        like.data.relu_output = NULL;
    const ls_product_spec spec = {
        .gemm = {
            .m = d->rows, .n = d->inputs, .k = d->outputs, .a = d->dy, .b = d->weight, .c = d->dx}};
    bool loop = is_loop(d->rows, d->inputs, d->outputs);
    return make(cpu, &kind, &like, loop ? NULL : &spec, out);
}
