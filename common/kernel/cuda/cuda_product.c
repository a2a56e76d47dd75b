/* SPDX-License-Identifier: MIT */
/*
 * Products through cuBLASLt, bias and ReLU in its epilogue. Not yet run on a GPU.
 *
 * Float32 without TF32. The algorithm is what cuBLASLt's heuristic names first for the shape, asked
 * once, when the operation is made: without split-K (no reduction between blocks), so that the
 * order of the sum is fixed; without workspace; for pointers aligned to 16 bytes or not, and no
 * better, so that where memory lies does not choose. An operation's product is run once when it is
 * made: what the library has to load is loaded before a capture. The sum over rows (dbias) and the
 * ReLU's mask are kernels of our own behind the product.
 */
#include "common/base/dynamic.h"
#include "common/device/cuda/cuda.h"
#include "common/kernel/cuda/column_product.h"
#include "common/kernel/cuda/cuda_kernels.h"
#include "common/kernel/kernel_check.h"

#include <stdio.h>
#include <stdlib.h>

#define TEXT_OF(x)  #x
#define VALUE_OF(x) TEXT_OF(x)

static const char *const symbols[] = {"cublasLtGetVersion",
                                      "cublasLtGetStatusString",
                                      "cublasLtCreate",
                                      "cublasLtDestroy",
                                      "cublasLtMatmul",
                                      "cublasLtMatmulDescCreate",
                                      "cublasLtMatmulDescDestroy",
                                      "cublasLtMatmulDescSetAttribute",
                                      "cublasLtMatrixLayoutCreate",
                                      "cublasLtMatrixLayoutDestroy",
                                      "cublasLtMatmulPreferenceCreate",
                                      "cublasLtMatmulPreferenceDestroy",
                                      "cublasLtMatmulPreferenceSetAttribute",
                                      "cublasLtMatmulAlgoGetHeuristic",
                                      NULL};
_Static_assert(sizeof symbols / sizeof *symbols - 1 == sizeof(cuda_blas) / sizeof(void *),
               "a name for each function");

static int find_major(const void *functions)
{
    return (int)(((const cuda_blas *)functions)->get_version() / 10000);
}

typedef struct product_op {
    ls_op op;
    const cuda_kernels *kernels;
    ls_column_product shape;
    float beta;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
    cuda_launch *after; /* NULL: nothing */
    union {
        cuda_column_sum_args sum;
        ls_relu_backward_args mask;
        cuda_bias_args bias;
    } after_args;
} product_op;

static ls_status check_blas(const cuda_kernels *kernels, const char *doing, cublasStatus_t status)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return LS_OK;
    return ls_fail(LS_CODE_MISSING, "cuBLASLt", ls_device_describe(kernels->base.device)->text,
                   "%s: %s; is its version the one that the driver has?", doing,
                   kernels->blas.status_string(status));
}

ls_status ls_cuda_blas_open(cuda_kernels *kernels)
{
    const ls_dynamic library = {.name = "cuBLASLt",
                                .file = "libcublasLt.so." VALUE_OF(CUBLAS_VER_MAJOR),
                                .folder = LS_CUBLAS_FOLDER,
                                .remedy = "install the CUDA toolkit's cuBLAS of version " VALUE_OF(
                                    CUBLAS_VER_MAJOR) ", or name its folder in "
                                                      "LD_LIBRARY_PATH",
                                .major = CUBLAS_VER_MAJOR,
                                .find_major = find_major,
                                .symbols = symbols};
    LS_TRY(ls_dynamic_load(&library, &kernels->blas, &kernels->loaded));
    const size_t version = kernels->blas.get_version();
    snprintf(kernels->library, sizeof kernels->library, "cuBLASLt %zu.%zu.%zu", version / 10000,
             version / 100 % 100, version % 100);
    return check_blas(kernels, "create a handle", kernels->blas.create(&kernels->handle));
}

void ls_cuda_blas_close(cuda_kernels *kernels)
{
    if (kernels->handle)
        kernels->blas.destroy(kernels->handle);
    ls_dynamic_unload(kernels->loaded);
}

/* ---- Descriptors ------------------------------------------------------------------------------
 */

static ls_status set_desc(const product_op *p, cublasLtMatmulDescAttributes_t attribute,
                          const void *value, size_t bytes)
{
    return check_blas(p->kernels, "describe a product",
                      p->kernels->blas.desc_set(p->desc, attribute, value, bytes));
}

static ls_status describe(product_op *p)
{
    const ls_column_product *s = &p->shape;
    const cuda_blas *blas = &p->kernels->blas;
    const cublasOperation_t transpose_a = s->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t transpose_b = s->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue = s->bias && s->relu ? CUBLASLT_EPILOGUE_RELU_BIAS
                                        : s->bias          ? CUBLASLT_EPILOGUE_BIAS
                                        : s->relu          ? CUBLASLT_EPILOGUE_RELU
                                                           : CUBLASLT_EPILOGUE_DEFAULT;
    LS_TRY(check_blas(p->kernels, "describe a product",
                      blas->desc_create(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F)));
    LS_TRY(set_desc(p, CUBLASLT_MATMUL_DESC_TRANSA, &transpose_a, sizeof transpose_a));
    LS_TRY(set_desc(p, CUBLASLT_MATMUL_DESC_TRANSB, &transpose_b, sizeof transpose_b));
    LS_TRY(set_desc(p, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    if (s->bias)
        LS_TRY(set_desc(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &s->bias, sizeof s->bias));
    return LS_OK;
}

static ls_status make_layout(const product_op *p, int64_t rows, int64_t columns,
                             cublasLtMatrixLayout_t *out)
{
    return check_blas(
        p->kernels, "describe a matrix",
        p->kernels->blas.layout_create(out, CUDA_R_32F, (uint64_t)rows, (uint64_t)columns, rows));
}

static ls_status make_layouts(product_op *p)
{
    const ls_column_product *s = &p->shape;
    const int64_t rows_of_a = ls_column_rows_of_a(s), rows_of_b = ls_column_rows_of_b(s);
    LS_TRY(make_layout(p, rows_of_a, s->transpose_a ? s->m : s->k, &p->a));
    LS_TRY(make_layout(p, rows_of_b, s->transpose_b ? s->k : s->n, &p->b));
    return make_layout(p, s->m, s->n, &p->c);
}

/* ---- The algorithm ------------------------------------------------------------------------------
 */

static uint32_t alignment_of(const void *memory)
{
    return (uintptr_t)memory % 16 == 0 ? 16 : 4;
}

static ls_status set_preference(const product_op *p, cublasLtMatmulPreference_t preference)
{
    const uint32_t no_reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
    const uint64_t no_workspace = 0;
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        const void *matrix;
    } matrices[] = {{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p->shape.a},
                    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p->shape.b},
                    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p->shape.c},
                    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p->shape.c}};
    __typeof__(p->kernels->blas.preference_set) set = p->kernels->blas.preference_set;
    LS_TRY(check_blas(p->kernels, "forbid split-K",
                      set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &no_reduction,
                          sizeof no_reduction)));
    LS_TRY(check_blas(p->kernels, "forbid workspace",
                      set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &no_workspace,
                          sizeof no_workspace)));
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        const uint32_t bytes = alignment_of(matrices[i].matrix);
        LS_TRY(check_blas(p->kernels, "state an alignment",
                          set(preference, matrices[i].attribute, &bytes, sizeof bytes)));
    }
    return LS_OK;
}

static ls_status ask(product_op *p, cublasLtMatmulPreference_t preference)
{
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    LS_TRY(set_preference(p, preference));
    LS_TRY(check_blas(p->kernels, "choose an algorithm",
                      p->kernels->blas.find_algorithm(p->kernels->handle, p->desc, p->a, p->b, p->c,
                                                      p->c, preference, 1, &found, &count)));
    LS_TRY(check_blas(p->kernels, "choose an algorithm",
                      count ? found.state : CUBLAS_STATUS_NOT_SUPPORTED));
    p->algorithm = found.algo;
    return LS_OK;
}

static ls_status choose_algorithm(product_op *p)
{
    const cuda_blas *blas = &p->kernels->blas;
    cublasLtMatmulPreference_t preference = NULL;
    LS_TRY(check_blas(p->kernels, "choose an algorithm", blas->preference_create(&preference)));
    ls_status status = ask(p, preference);
    blas->preference_destroy(preference);
    return status;
}

/* ---- Running ------------------------------------------------------------------------------------
 */

/* c = alpha op(a) op(b) + beta c. */
static ls_status multiply(const product_op *p, float alpha, cudaStream_t stream)
{
    const ls_column_product *s = &p->shape;
    return check_blas(p->kernels, p->op.name,
                      p->kernels->blas.matmul(p->kernels->handle, p->desc, &alpha, s->a, p->a, s->b,
                                              p->b, &p->beta, s->c, p->c, s->c, p->c, &p->algorithm,
                                              NULL, 0, stream));
}

static ls_status run(ls_op *op, ls_queue *queue)
{
    const product_op *p = (const product_op *)op;
    const ls_column_product *s = &p->shape;
    const char *where = ls_device_describe(p->kernels->base.device)->text;
    const cuda_place at = {ls_queue_native(queue), ls_cuda_queue_fault(queue)};
    if (s->m && s->n && s->k)
        LS_TRY(multiply(p, 1, at.stream));
    else if (s->m && s->n && !s->accumulate) /* a sum of nothing */
        LS_TRY(ls_cuda_check(
            where, op->name,
            cudaMemsetAsync(s->c, 0, (size_t)(s->m * s->n) * sizeof(float), at.stream)));
    if (!p->after)
        return LS_OK;
    return ls_cuda_check(where, op->name, p->after(&p->after_args, &at));
}

static void destroy(ls_op *op)
{
    product_op *p = (product_op *)op;
    const cuda_blas *blas = &p->kernels->blas;
    const cublasLtMatrixLayout_t layouts[] = {p->a, p->b, p->c};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i])
            blas->layout_destroy(layouts[i]);
    if (p->desc)
        blas->desc_destroy(p->desc);
    free(p);
}

/* The first run; where c is added to, nothing is. */
static ls_status try_out(const product_op *p)
{
    const char *where = ls_device_describe(p->kernels->base.device)->text;
    LS_TRY(multiply(p, p->shape.accumulate ? 0 : 1, cudaStreamPerThread));
    return ls_cuda_check(where, p->op.name, cudaStreamSynchronize(cudaStreamPerThread));
}

static ls_status prepare(product_op *p)
{
    const ls_column_product *s = &p->shape;
    if (!s->m || !s->n || !s->k)
        return LS_OK;
    LS_TRY(ls_cuda_use(p->kernels->base.device));
    LS_TRY(describe(p));
    LS_TRY(make_layouts(p));
    LS_TRY(choose_algorithm(p));
    return try_out(p);
}

static ls_status make(ls_kernels *kernels, const char *name, const ls_column_product *shape,
                      ls_work work, product_op **out)
{
    product_op *p = calloc(1, sizeof *p);
    if (!p)
        return ls_fail_memory(name, sizeof *p);
    p->op = (ls_op){
        .name = name, .run = run, .destroy = destroy, .flops = work.flops, .bytes = work.bytes};
    p->kernels = (const cuda_kernels *)kernels;
    p->shape = *shape;
    p->beta = shape->accumulate ? 1 : 0;
    ls_status status = prepare(p);
    if (status) {
        destroy(&p->op);
        return status;
    }
    *out = p;
    return LS_OK;
}

/* ---- Entries of the table -----------------------------------------------------------------------
 */

ls_status ls_cuda_gemm(ls_kernels *kernels, const ls_gemm_args *arguments, ls_op **out)
{
    const ls_column_product shape = ls_column_gemm(arguments);
    ls_work work;
    product_op *p = NULL;
    LS_TRY(ls_check_gemm(arguments, sizeof(float), &work));
    LS_TRY(make(kernels, "gemm.cublaslt", &shape, work, &p));
    *out = &p->op;
    return LS_OK;
}

ls_status ls_cuda_dense_forward(ls_kernels *kernels, const ls_dense_forward_args *arguments,
                                ls_op **out)
{
    const ls_column_product shape = ls_column_dense_forward(arguments);
    ls_work work;
    product_op *p = NULL;
    LS_TRY(ls_check_dense_forward(arguments, sizeof(float), &work));
    const char *name = shape.relu ? "dense_forward.cublaslt_relu" : "dense_forward.cublaslt";
    LS_TRY(make(kernels, name, &shape, work, &p));
    if (!arguments->inputs && arguments->bias) { /* nothing but the bias */
        p->after = ls_cuda_bias;
        p->after_args.bias = (cuda_bias_args){.rows = arguments->rows,
                                              .columns = arguments->outputs,
                                              .bias = arguments->bias,
                                              .y = arguments->y,
                                              .relu = shape.relu};
    }
    *out = &p->op;
    return LS_OK;
}

ls_status ls_cuda_dense_backward_weights(ls_kernels *kernels,
                                         const ls_dense_backward_weights_args *arguments,
                                         ls_op **out)
{
    const ls_column_product shape = ls_column_dense_backward_weights(arguments);
    ls_work work;
    product_op *p = NULL;
    LS_TRY(ls_check_dense_backward_weights(arguments, sizeof(float), &work));
    LS_TRY(make(kernels, "dense_backward_weights.cublaslt", &shape, work, &p));
    if (arguments->dbias) {
        p->after = ls_cuda_column_sum;
        p->after_args.sum = (cuda_column_sum_args){.rows = arguments->rows,
                                                   .columns = arguments->outputs,
                                                   .data = arguments->dy,
                                                   .sums = arguments->dbias};
    }
    *out = &p->op;
    return LS_OK;
}

ls_status ls_cuda_dense_backward_data(ls_kernels *kernels,
                                      const ls_dense_backward_data_args *arguments, ls_op **out)
{
    const ls_column_product shape = ls_column_dense_backward_data(arguments);
    ls_work work;
    product_op *p = NULL;
    LS_TRY(ls_check_dense_backward_data(arguments, sizeof(float), &work));
    LS_TRY(make(kernels, "dense_backward_data.cublaslt", &shape, work, &p));
    if (arguments->relu_output) {
        p->after = ls_cuda_relu_backward;
        p->after_args.mask = (ls_relu_backward_args){.count = arguments->rows * arguments->inputs,
                                                     .y = arguments->relu_output,
                                                     .dy = arguments->dx,
                                                     .dx = arguments->dx};
    }
    *out = &p->op;
    return LS_OK;
}
