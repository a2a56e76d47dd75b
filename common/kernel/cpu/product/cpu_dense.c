/* SPDX-License-Identifier: MIT */
/*
 * Dense layers and gemm of the cpu table: a product (cpu_product.h) with bias, ReLU and, if it is
 * packed, the mask; then a pass for what is left. A vector loop computes a layer of a few weights,
 * where a product's set-up costs more than the computation, and if a size is 0. The choice depends
 * on the weights' shape only, not on the rows, so a slice is computed like the whole batch.
 */
#include "common/kernel/cpu/cpu_kernels.h"
#include "common/kernel/cpu/product/cpu_product.h"

/* Up to this many weights, a loop computes a layer. */
enum { LOOP_WEIGHTS = 64 };

static bool is_loop(int64_t rows, int64_t inputs, int64_t outputs, bool input_major)
{
    return !rows || !inputs || !outputs ||
           (!input_major && inputs <= LOOP_WEIGHTS && outputs <= LOOP_WEIGHTS &&
            inputs * outputs <= LOOP_WEIGHTS);
}

/* Both implementations of an operation. */
typedef struct dense_way {
    const char *brg, *packed, *loop; /* names */
    ls_status (*run_loop)(cpu_op *op);
    bool by_loop;
    ls_vector_product product; /* with a mask, the pass is for brg alone */
    /* The pass, as in cpu_op; NULL if there is none. */
    void (*pass)(const cpu_part *part);
    int64_t shared, elements;
    bool in_blocks;
} dense_way;

static ls_status run_product(cpu_op *op)
{
    return ls_product_run(op->product);
}

/* So many multiply-adds of a product take as long as an element of a loop. */
enum { ELEMENT_PRODUCTS = 16 };

static ls_status open_product(cpu_kernels *cpu, const ls_vector_product *spec, ls_product **out)
{
    const ls_product_maker maker = {&cpu->base, cpu->library, cpu->loops};
    const ls_gemm_args *g = &spec->gemm;
    const int threads = ls_cpu_threads_for(cpu, g->m * g->n * g->k / ELEMENT_PRODUCTS);
    return ls_product_open(&maker, spec, threads, out);
}

static ls_status make(ls_kernels *kernels, const dense_way *way, const void *arguments,
                      size_t bytes, const ls_work *work, ls_op **out)
{
    const cpu_op like = {.op.name = way->loop,
                         .once = way->by_loop ? way->run_loop : run_product,
                         .part = way->by_loop ? NULL : way->pass,
                         .shared = way->shared,
                         .elements = way->elements,
                         .in_blocks = way->in_blocks};
    ls_op *made;
    LS_TRY(ls_cpu_op_open(kernels, &like, arguments, bytes, work, &made));
    cpu_op *op = (cpu_op *)made;
    ls_status status = LS_OK;
    if (!way->by_loop)
        status = open_product((cpu_kernels *)kernels, &way->product, &op->product);
    if (status) {
        ls_op_free(&op->op);
        return status;
    }
    if (op->product) {
        const bool packed = ls_product_packed(op->product);
        op->op.name = packed ? way->packed : way->brg;
        op->part = packed && way->product.mask ? NULL : op->part;
    }
    *out = made;
    return LS_OK;
}

/* ---- gemm ---------------------------------------------------------------------------------- */

static ls_status gemm_loop(cpu_op *op)
{
    op->loops->gemm((const void *)op->arguments);
    return LS_OK;
}

ls_status ls_cpu_gemm(ls_kernels *kernels, const ls_gemm_args *a, const ls_work *work, ls_op **out)
{
    const dense_way way = {"gemm.matmul_brg",
                           "gemm.packed",
                           "gemm.loop",
                           gemm_loop,
                           is_loop(a->m, a->k, a->n, false),
                           .product = {.gemm = *a}};
    return make(kernels, &way, a, sizeof *a, work, out);
}

/* ---- dense_forward ------------------------------------------------------------------------- */

static ls_status forward_loop(cpu_op *op)
{
    op->loops->dense_forward((const void *)op->arguments);
    return LS_OK;
}

ls_status ls_cpu_dense_forward(ls_kernels *kernels, const ls_dense_forward_args *a,
                               const ls_work *work, ls_op **out)
{
    const bool relu = a->activation == LS_ACTIVATION_RELU;
    const dense_way way = {"dense_forward.matmul_brg",
                           "dense_forward.packed",
                           "dense_forward.loop",
                           forward_loop,
                           is_loop(a->rows, a->inputs, a->outputs, a->input_major),
                           .product = {.gemm = {.transpose_b = !a->input_major,
                                                .m = a->rows,
                                                .n = a->outputs,
                                                .k = a->inputs,
                                                .a = a->x,
                                                .b = a->weight,
                                                .c = a->y},
                                       .bias = a->bias,
                                       .relu = relu}};
    return make(kernels, &way, a, sizeof *a, work, out);
}

/* ---- dense_backward_weights ---------------------------------------------------------------- */

static void weights_pass(const cpu_part *p)
{
    const ls_dense_backward_weights_args *a = p->arguments;
    p->loops->column_sums(a->dy, a->rows, a->outputs, p->first, p->last, a->dbias);
}

static ls_status weights_loop(cpu_op *op)
{
    op->loops->dense_backward_weights((const void *)op->arguments);
    return LS_OK;
}

ls_status ls_cpu_dense_backward_weights(ls_kernels *kernels,
                                        const ls_dense_backward_weights_args *a,
                                        const ls_work *work, ls_op **out)
{
    const bool turned = a->input_major;
    const dense_way way = {"dense_backward_weights.matmul_brg",
                           "dense_backward_weights.packed",
                           "dense_backward_weights.loop",
                           weights_loop,
                           is_loop(a->rows, a->inputs, a->outputs, turned),
                           .product = {.gemm = {.transpose_a = true,
                                                .m = turned ? a->inputs : a->outputs,
                                                .n = turned ? a->outputs : a->inputs,
                                                .k = a->rows,
                                                .a = turned ? a->x : a->dy,
                                                .b = turned ? a->dy : a->x,
                                                .c = a->dweight}},
                           .pass = a->dbias ? weights_pass : NULL,
                           .shared = a->outputs,
                           .elements = a->rows * a->outputs,
                           .in_blocks = true};
    return make(kernels, &way, a, sizeof *a, work, out);
}

/* ---- dense_backward_data ------------------------------------------------------------------- */

static void data_pass(const cpu_part *p)
{
    const ls_dense_backward_data_args *a = p->arguments;
    float *dx = (float *)a->dx + p->first;
    p->loops->mask((const float *)a->relu_output + p->first, dx, dx, p->last - p->first);
}

static ls_status data_loop(cpu_op *op)
{
    op->loops->dense_backward_data((const void *)op->arguments);
    return LS_OK;
}

ls_status ls_cpu_dense_backward_data(ls_kernels *kernels, const ls_dense_backward_data_args *a,
                                     const ls_work *work, ls_op **out)
{
    const dense_way way = {"dense_backward_data.matmul_brg",
                           "dense_backward_data.packed",
                           "dense_backward_data.loop",
                           data_loop,
                           is_loop(a->rows, a->inputs, a->outputs, a->input_major),
                           .product = {.gemm = {.transpose_b = a->input_major,
                                                .m = a->rows,
                                                .n = a->inputs,
                                                .k = a->outputs,
                                                .a = a->dy,
                                                .b = a->weight,
                                                .c = a->dx},
                                       .mask = a->relu_output},
                           .pass = a->relu_output ? data_pass : NULL,
                           .shared = a->rows * a->inputs,
                           .elements = a->rows * a->inputs,
                           .in_blocks = true};
    return make(kernels, &way, a, sizeof *a, work, out);
}
