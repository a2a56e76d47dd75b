/* SPDX-License-Identifier: MIT */
/*
 * Products of bfloat16 of the cuda table, by our own kernel (gpu_bf16.cu) or cuBLASLt
 * (cuda_product.h); not yet run on a GPU. The library rounds c itself, and adds the bias before;
 * ReLU and mask, which then are exact, follow. Its fast kernels need matrices that begin on 16
 * bytes, and the choice must not depend on where they lie: operands that begin elsewhere are
 * copied.
 */
#include "common/base/grow.h"
#include "common/device/cuda/cuda.h"
#include "common/kernel/cuda/product/cuda_product.h"

#include <stdlib.h>

typedef struct bf16_op {
    ls_op op;
    ls_bf16_product_args args; /* as given */
    ls_bf16_product_args used; /* with copies, if the library multiplies */
    ls_cuda_product *product;  /* NULL if our own kernel is enough: nothing is multiplied */
} bf16_op;

/* Copies a matrix, or does what follows a product. */
static ls_status finish(const ls_op *op, ls_queue *queue, const ls_gpu_bf16_rest *rest)
{
    return ls_cuda_launched(op, queue, ls_gpu_finish_bf16(ls_queue_native(queue), rest));
}

static ls_status copy_in(const ls_op *op, ls_queue *queue, const uint16_t *from, const uint16_t *to,
                         int64_t count)
{
    const ls_gpu_bf16_rest copy = {.count = count, .from = from, .to = (uint16_t *)(uintptr_t)to};
    return from == to ? LS_OK : finish(op, queue, &copy);
}

static ls_status copy_out(const bf16_op *b, ls_queue *queue)
{
    const ls_bf16_product_args *a = &b->args;
    const int64_t count = a->m * a->n;
    if (!a->transpose_a) {
        const ls_gpu_bf16_rest rest = {count, b->used.c, a->relu, a->mask, a->c};
        const bool any = b->used.c != a->c || a->relu || a->mask;
        return any ? finish(&b->op, queue, &rest) : LS_OK;
    }
    const ls_add_args copy = {.count = count, .a = b->used.c, .y = a->c};
    return b->used.c == a->c
               ? LS_OK
               : ls_cuda_launched(&b->op, queue, ls_gpu_add(ls_queue_native(queue), &copy));
}

static ls_status run(ls_op *op, ls_queue *queue)
{
    const bf16_op *b = (const bf16_op *)op;
    const ls_bf16_product_args *a = &b->args, *used = &b->used;
    if (!b->product)
        return ls_cuda_launched(op, queue, ls_gpu_bf16_product(ls_queue_native(queue), a, NULL, 1));
    LS_TRY(copy_in(op, queue, a->a, used->a, a->m * a->k));
    LS_TRY(copy_in(op, queue, a->b, used->b, a->k * a->n));
    LS_TRY(copy_in(op, queue, a->bias, used->bias, a->n));
    const ls_cuda_operands on = {.a = used->a, .b = used->b, .c = used->c};
    LS_TRY(ls_cuda_product_run_on(b->product, queue, &on));
    return ls_cuda_product_way(b->product) == LS_PRODUCT_TILES ? LS_OK : copy_out(b, queue);
}

static void destroy(ls_op *op)
{
    ls_cuda_product_close(((bf16_op *)op)->product);
    free(op);
}

/* An array's place, or scratch memory for a copy that begins on so many bytes. */
static ls_status place(ls_kernels *kernels, const void *given, size_t bytes, size_t alignment,
                       const void **out)
{
    void *room = NULL;
    *out = given;
    if (!given || (uintptr_t)given % alignment == 0)
        return LS_OK;
    LS_TRY(ls_scratch_take(&kernels->scratch, bytes + alignment, &room));
    *out = (char *)room + (alignment - (uintptr_t)room % alignment);
    return LS_OK;
}

/* Sets what the library is to work on. */
static ls_status place_all(ls_kernels *kernels, bf16_op *b)
{
    const ls_bf16_product_args *a = &b->args;
    const size_t m = (size_t)a->m, n = (size_t)a->n, k = (size_t)a->k;
    const size_t alignment = ls_cuda_bf16_alignment(a);
    const size_t element = a->transpose_a ? sizeof(float) : sizeof *a->a;
    const void *at[4];
    LS_TRY(place(kernels, a->a, m * k * sizeof *a->a, alignment, &at[0]));
    LS_TRY(place(kernels, a->b, k * n * sizeof *a->b, alignment, &at[1]));
    LS_TRY(place(kernels, a->c, m * n * element, alignment, &at[2]));
    LS_TRY(place(kernels, a->bias, n * sizeof *a->bias, LS_CUDA_BIAS_ALIGNMENT, &at[3]));
    b->used = *a;
    b->used.a = at[0], b->used.b = at[1], b->used.c = (void *)(uintptr_t)at[2],
    b->used.bias = at[3];
    return LS_OK;
}

static ls_status open_product(ls_kernels *kernels, bf16_op *b)
{
    LS_TRY(place_all(kernels, b));
    const ls_bf16_product_args *u = &b->used;
    const ls_cuda_product_spec spec = {.gemm = {.transpose_a = u->transpose_a,
                                                .transpose_b = u->transpose_b,
                                                .m = u->m,
                                                .n = u->n,
                                                .k = u->k,
                                                .a = u->a,
                                                .b = u->b,
                                                .c = u->c},
                                       .cut = u->transpose_a && !u->transpose_b,
                                       .stored = u};
    LS_TRY(ls_cuda_product_open((cuda_kernels *)kernels, &spec, &b->product));
    if (ls_cuda_product_way(b->product) == LS_PRODUCT_TILES) {
        b->used = b->args; /* our own kernel reads and writes anywhere */
        ls_scratch_begin(&kernels->scratch);
    }
    b->op.workspace = ls_cuda_product_workspace(b->product);
    return LS_OK;
}

ls_status ls_cuda_bf16_product(ls_kernels *kernels, const ls_bf16_product_args *arguments,
                               ls_op **out)
{
    static const char *const names[] = {LS_PRODUCT_NAMES("bf16_product", "")};
    const ls_bf16_product_args *a = arguments;
    bf16_op *b;
    LS_TRY(ls_allocate("bf16 product", &b, 1, sizeof *b));
    *b = (bf16_op){.op = {.run = run, .destroy = destroy}, .args = *a};
    ls_status status = a->m && a->n && a->k ? open_product(kernels, b) : LS_OK;
    if (status) {
        destroy(&b->op);
        return status;
    }
    b->op.name = names[ls_cuda_product_way(b->product)];
    *out = &b->op;
    return LS_OK;
}
