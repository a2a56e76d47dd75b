/* SPDX-License-Identifier: MIT */
/*
 * Dense layers and gemm of the cuda table: a product, and a kernel for what the product leaves. Not
 * yet run on a GPU.
 *
 * The product is cuBLASLt's (cuda_product.h), with bias, ReLU or mask in a kernel behind it; for a
 * layer of a few weights, and where a size is 0, an own kernel. Which one depends on the weights'
 * shape only, so a slice of a batch is computed as the batch is. No epilogue of cuBLASLt is used:
 * that of a bias wants an alignment that a part of a model has not (cuda_product.c), that of its
 * gradient (BGRADB) has been seen to take a training step 1.6 times as long
 * (NVIDIA/CUDALibrarySamples, issue 90), that of a mask (DRELU) wants bits that no operation here
 * leaves.
 */
#include "common/kernel/cuda/cuda_kernels.h"
#include "common/kernel/cuda/cuda_product.h"

#include <stdlib.h>

/* Weights up to which a layer is done by an own kernel. */
enum { PLAIN_WEIGHTS = 64 };

typedef struct dense_op {
    ls_op op;
    ls_cuda_product *product; /* NULL: plain */
    ls_gpu_product plain;
    bool cut; /* the product's sum may be */
    bool any_order;
    /* The kernel behind the product; NULL: none. */
    int (*rest)(const struct dense_op *dense, void *stream);
    ls_dense_backward_weights_args weights;
} dense_op;

/* The names of one operation, by how its product is computed. */
typedef struct dense_names {
    const char *library, *plain;
} dense_names;

static void destroy(ls_op *op)
{
    ls_cuda_product_close(((dense_op *)op)->product);
    free(op);
}

static bool is_plain(int64_t rows, int64_t inputs, int64_t outputs)
{
    return !rows || !inputs || !outputs ||
           (inputs <= PLAIN_WEIGHTS && outputs <= PLAIN_WEIGHTS &&
            inputs * outputs <= PLAIN_WEIGHTS);
}

static ls_status run(ls_op *op, ls_queue *queue)
{
    const dense_op *dense = (const dense_op *)op;
    void *stream = ls_queue_native(queue);
    if (dense->product)
        LS_TRY(ls_cuda_product_run(dense->product, queue));
    else
        LS_TRY(ls_cuda_launched(op, queue, ls_gpu_plain_product(stream, &dense->plain)));
    return dense->rest ? ls_cuda_launched(op, queue, dense->rest(dense, stream)) : LS_OK;
}

/* `like` has `plain`, whose product either way computes, and `rest`. */
static ls_status make(ls_kernels *kernels, const dense_names *names, const dense_op *like,
                      const ls_work *work, bool plain, ls_op **out)
{
    cuda_kernels *cuda = (cuda_kernels *)kernels;
    dense_op *dense = malloc(sizeof *dense);
    if (!dense)
        return ls_fail_memory(names->plain, sizeof *dense);
    *dense = *like;
    dense->op = (ls_op){.name = names->plain,
                        .run = run,
                        .destroy = destroy,
                        .flops = work->flops,
                        .bytes = work->bytes};
    if (!plain) {
        const ls_cuda_product_spec spec = {.gemm = like->plain.gemm,
                                           .bias = like->plain.bias,
                                           .relu = like->plain.relu,
                                           .mask = like->plain.mask,
                                           .cut = like->cut,
                                           .math = kernels->math,
                                           .any_order = like->any_order};
        ls_status status =
            ls_cuda_product_open(kernels->device, &cuda->blas, &spec, &dense->product);
        if (status) {
            free(dense);
            return status;
        }
        dense->op.name = names->library;
        dense->op.workspace = ls_cuda_product_workspace(dense->product);
    }
    *out = &dense->op;
    return LS_OK;
}

/* ---- gemm ------------------------------------------------------------------------------------ */

ls_status ls_cuda_gemm(ls_kernels *kernels, const ls_gemm_args *arguments, ls_op **out)
{
    static const dense_names names = {"gemm.cublaslt", "gemm.cuda"};
    const ls_gemm_args *g = arguments;
    ls_work work;
    LS_TRY(ls_check_gemm(g, kernels->table->real_bytes, &work));
    const dense_op like = {.plain.gemm = *g, .any_order = kernels->any_order};
    return make(kernels, &names, &like, &work, is_plain(g->m, g->k, g->n), out);
}

/* ---- dense_forward --------------------------------------------------------------------------- */

ls_status ls_cuda_dense_forward(ls_kernels *kernels, const ls_dense_forward_args *arguments,
                                ls_op **out)
{
    static const dense_names names = {"dense_forward.cublaslt", "dense_forward.cuda"};
    const ls_dense_forward_args *d = arguments;
    ls_work work;
    LS_TRY(ls_check_dense_forward(d, kernels->table->real_bytes, &work));
    const dense_op like = {.plain = {.gemm = {.transpose_b = true,
                                              .m = d->rows,
                                              .n = d->outputs,
                                              .k = d->inputs,
                                              .a = d->x,
                                              .b = d->weight,
                                              .c = d->y},
                                     .bias = d->bias,
                                     .relu = d->activation == LS_ACTIVATION_RELU}};
    return make(kernels, &names, &like, &work, is_plain(d->rows, d->inputs, d->outputs), out);
}

/* ---- dense_backward_weights ------------------------------------------------------------------ */

static int rest_of_weights(const dense_op *dense, void *stream)
{
    const ls_dense_backward_weights_args *d = &dense->weights;
    return d->dbias ? ls_gpu_column_sums(stream, d->dy, d->rows, d->outputs, NULL, d->dbias) : 0;
}

ls_status ls_cuda_dense_backward_weights(ls_kernels *kernels,
                                         const ls_dense_backward_weights_args *arguments,
                                         ls_op **out)
{
    static const dense_names names = {"dense_backward_weights.cublaslt",
                                      "dense_backward_weights.cuda"};
    const ls_dense_backward_weights_args *d = arguments;
    ls_work work;
    LS_TRY(ls_check_dense_backward_weights(d, kernels->table->real_bytes, &work));
    const dense_op like = {.plain.gemm = {.transpose_a = true,
                                          .m = d->outputs,
                                          .n = d->inputs,
                                          .k = d->rows,
                                          .a = d->dy,
                                          .b = d->x,
                                          .c = d->dweight},
                           .cut = true,
                           .rest = rest_of_weights,
                           .weights = *d};
    return make(kernels, &names, &like, &work, is_plain(d->rows, d->inputs, d->outputs), out);
}

/* ---- dense_backward_data --------------------------------------------------------------------- */

ls_status ls_cuda_dense_backward_data(ls_kernels *kernels,
                                      const ls_dense_backward_data_args *arguments, ls_op **out)
{
    static const dense_names names = {"dense_backward_data.cublaslt", "dense_backward_data.cuda"};
    const ls_dense_backward_data_args *d = arguments;
    ls_work work;
    LS_TRY(ls_check_dense_backward_data(d, kernels->table->real_bytes, &work));
    const dense_op like = {.plain = {.gemm = {.m = d->rows,
                                              .n = d->inputs,
                                              .k = d->outputs,
                                              .a = d->dy,
                                              .b = d->weight,
                                              .c = d->dx},
                                     .mask = d->relu_output}};
    return make(kernels, &names, &like, &work, is_plain(d->rows, d->inputs, d->outputs), out);
}
