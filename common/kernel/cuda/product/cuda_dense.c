/* SPDX-License-Identifier: MIT */
/*
 * Dense layers and gemm of the cuda table. A product is cuBLASLt's or our own (cuda_product.h),
 * with its sum split if that fills the GPU; one kernel then handles pieces, bias, ReLU and mask. A
 * backward pass is its products, and one kernel for that and for the bias's gradient. A layer with
 * few outputs (as most models end), few weights, or a size of 0 is our own kernel in each
 * direction: a product would cost a launch for next to nothing. The choice depends on the weights'
 * shape only, so a slice is computed like the whole batch; and the halves of a backward pass use
 * the same kernels, joint or separate. The only epilogue of cuBLASLt that is used is the bias's
 * (cuda_product.c). The epilogue of its gradient (BGRADB) was reported to make a training step 1.6
 * times as long (NVIDIA/CUDALibrarySamples, issue 90); a mask's (DRELU) needs bits that no
 * operation here writes.
 */
#include "common/kernel/cuda/product/cuda_product.h"

#include <stdlib.h>

/* Up to this many weights a product, and outputs and inputs a layer, uses our own kernel. */
enum { PLAIN_WEIGHTS = 64, NARROW_OUTPUTS = 16, NARROW_INPUTS = 1024 };

static bool is_empty(int64_t rows, int64_t inputs, int64_t outputs)
{
    return !rows || !inputs || !outputs;
}

static bool is_plain(int64_t rows, int64_t inputs, int64_t outputs)
{
    return is_empty(rows, inputs, outputs) ||
           (inputs <= PLAIN_WEIGHTS && outputs <= PLAIN_WEIGHTS &&
            inputs * outputs <= PLAIN_WEIGHTS);
}

/* Our own kernels read weights [O,I] only. */
static bool is_narrow(int64_t rows, int64_t inputs, int64_t outputs, bool input_major)
{
    if (input_major)
        return is_empty(rows, inputs, outputs);
    return is_plain(rows, inputs, outputs) ||
           (outputs <= NARROW_OUTPUTS && inputs <= NARROW_INPUTS);
}

/* ---- One product: gemm, dense_forward -------------------------------------------------------- */

typedef struct product_op {
    ls_op op;
    ls_cuda_product *product; /* NULL means our own kernel */
    ls_gpu_product plain;
} product_op;

static void destroy_product(ls_op *op)
{
    ls_cuda_product_close(((product_op *)op)->product);
    free(op);
}

static ls_status run_product(ls_op *op, ls_queue *queue)
{
    const product_op *p = (const product_op *)op;
    if (p->product)
        return ls_cuda_product_run(p->product, queue);
    return ls_cuda_launched(op, queue, ls_gpu_plain_product(ls_queue_native(queue), &p->plain));
}

static ls_status make_product(ls_kernels *kernels, const char *const names[LS_PRODUCT_WAYS],
                              const ls_cuda_product_spec *spec, bool plain, ls_op **out)
{
    product_op *p;
    LS_TRY(ls_allocate(names[0], &p, 1, sizeof *p));
    *p = (product_op){.op = {.run = run_product, .destroy = destroy_product},
                      .plain = {.gemm = spec->gemm, .bias = spec->bias, .relu = spec->relu}};
    if (!plain) {
        ls_status status = ls_cuda_product_open((cuda_kernels *)kernels, spec, &p->product);
        if (status) {
            free(p);
            return status;
        }
        p->op.workspace = ls_cuda_product_workspace(p->product);
    }
    p->op.name = names[ls_cuda_product_way(p->product)];
    *out = &p->op;
    return LS_OK;
}

ls_status ls_cuda_gemm(ls_kernels *kernels, const ls_gemm_args *arguments, ls_op **out)
{
    static const char *const names[] = {LS_PRODUCT_NAMES("gemm", "")};
    const ls_gemm_args *g = arguments;
    const ls_cuda_product_spec spec = {.gemm = *g, .any_order = kernels->any_order};
    return make_product(kernels, names, &spec, is_plain(g->m, g->k, g->n), out);
}

ls_status ls_cuda_dense_forward(ls_kernels *kernels, const ls_dense_forward_args *arguments,
                                ls_op **out)
{
    static const char *const names[] = {LS_PRODUCT_NAMES("dense_forward", "")};
    const ls_dense_forward_args *d = arguments;
    const ls_cuda_product_spec spec = {.gemm = {.transpose_b = !d->input_major,
                                                .m = d->rows,
                                                .n = d->outputs,
                                                .k = d->inputs,
                                                .a = d->x,
                                                .b = d->weight,
                                                .c = d->y},
                                       .bias = d->bias,
                                       .relu = d->activation == LS_ACTIVATION_RELU,
                                       .cut = true};
    const bool narrow = is_narrow(d->rows, d->inputs, d->outputs, d->input_major);
    return make_product(kernels, names, &spec, narrow, out);
}

/* ---- The backward pass, or half of it -------------------------------------------------------- */

enum { WEIGHTS, DATA, HALVES };

typedef struct backward_op {
    ls_op op;
    ls_cuda_product *product[HALVES]; /* both NULL means our own kernel */
    ls_dense_backward_args args;      /* zeros for a half that is not requested */
} backward_op;

static void destroy_backward(ls_op *op)
{
    backward_op *b = (backward_op *)op;
    for (int i = 0; i < HALVES; i++)
        ls_cuda_product_close(b->product[i]);
    free(b);
}

static ls_status run_narrow(ls_op *op, ls_queue *queue)
{
    const backward_op *b = (const backward_op *)op;
    return ls_cuda_launched(op, queue, ls_gpu_narrow_backward(ls_queue_native(queue), &b->args));
}

static ls_status run_backward(ls_op *op, ls_queue *queue)
{
    const backward_op *b = (const backward_op *)op;
    const ls_dense_backward_weights_args *w = &b->args.weights;
    ls_gpu_backward_rest rest = {
        .rows = w->rows, .outputs = w->outputs, .dy = w->dy, .dbias = w->dbias};
    if (b->product[WEIGHTS])
        LS_TRY(ls_cuda_product_multiply(b->product[WEIGHTS], queue, &rest.weights));
    if (b->product[DATA])
        LS_TRY(ls_cuda_product_multiply(b->product[DATA], queue, &rest.data));
    return ls_cuda_launched(op, queue, ls_gpu_finish_backward(ls_queue_native(queue), &rest));
}

static ls_cuda_product_spec weights_of(const ls_dense_backward_weights_args *w)
{
    const bool turned = w->input_major;
    return (ls_cuda_product_spec){.gemm = {.transpose_a = true,
                                           .m = turned ? w->inputs : w->outputs,
                                           .n = turned ? w->outputs : w->inputs,
                                           .k = w->rows,
                                           .a = turned ? w->x : w->dy,
                                           .b = turned ? w->dy : w->x,
                                           .c = w->dweight},
                                  .cut = true};
}

static ls_cuda_product_spec data_of(const ls_dense_backward_data_args *d)
{
    return (ls_cuda_product_spec){.gemm = {.transpose_b = d->input_major,
                                           .m = d->rows,
                                           .n = d->inputs,
                                           .k = d->outputs,
                                           .a = d->dy,
                                           .b = d->weight,
                                           .c = d->dx},
                                  .mask = d->relu_output,
                                  .cut = true};
}

unsigned ls_cuda_dense_ways(const ls_op *op)
{
    const backward_op *b = (const backward_op *)op;
    if (op->run == run_product)
        return ls_cuda_product_way(((const product_op *)op)->product);
    return ls_cuda_product_way(b->product[WEIGHTS]) | ls_cuda_product_way(b->product[DATA]);
}

static ls_status open_products(ls_kernels *kernels, backward_op *b, const bool wanted[HALVES])
{
    ls_cuda_product_spec specs[] = {weights_of(&b->args.weights), data_of(&b->args.data)};
    for (int i = 0; i < HALVES; i++) {
        if (!wanted[i])
            continue;
        LS_TRY(ls_cuda_product_open((cuda_kernels *)kernels, &specs[i], &b->product[i]));
        b->op.workspace += ls_cuda_product_workspace(b->product[i]);
    }
    return LS_OK;
}

static ls_status make_backward(ls_kernels *kernels, const char *const names[LS_PRODUCT_WAYS],
                               const ls_dense_backward_args *args, const bool wanted[HALVES],
                               ls_op **out)
{
    const ls_dense_backward_weights_args *w = &args->weights;
    const ls_dense_backward_data_args *d = &args->data;
    const bool narrow = wanted[WEIGHTS] ? is_narrow(w->rows, w->inputs, w->outputs, w->input_major)
                                        : is_narrow(d->rows, d->inputs, d->outputs, d->input_major);
    backward_op *b;
    LS_TRY(ls_allocate(names[0], &b, 1, sizeof *b));
    *b = (backward_op){
        .op = {.run = narrow ? run_narrow : run_backward, .destroy = destroy_backward},
        .args = *args};
    ls_status status = narrow ? LS_OK : open_products(kernels, b, wanted);
    if (status) {
        destroy_backward(&b->op);
        return status;
    }
    b->op.name = names[ls_cuda_dense_ways(&b->op)];
    *out = &b->op;
    return LS_OK;
}

ls_status ls_cuda_dense_backward(ls_kernels *kernels, const ls_dense_backward_args *arguments,
                                 ls_op **out)
{
    static const char *const names[] = {LS_PRODUCT_NAMES("dense_backward", "")};
    return make_backward(kernels, names, arguments, (const bool[]){true, true}, out);
}

ls_status ls_cuda_dense_backward_weights(ls_kernels *kernels,
                                         const ls_dense_backward_weights_args *arguments,
                                         ls_op **out)
{
    static const char *const names[] = {LS_PRODUCT_NAMES("dense_backward_weights", "")};
    const ls_dense_backward_args half = {.weights = *arguments};
    return make_backward(kernels, names, &half, (const bool[]){true, false}, out);
}

ls_status ls_cuda_dense_backward_data(ls_kernels *kernels,
                                      const ls_dense_backward_data_args *arguments, ls_op **out)
{
    static const char *const names[] = {LS_PRODUCT_NAMES("dense_backward_data", "")};
    const ls_dense_backward_args half = {.data = *arguments};
    return make_backward(kernels, names, &half, (const bool[]){false, true}, out);
}
