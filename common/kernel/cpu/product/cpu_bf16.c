/* SPDX-License-Identifier: MIT */
/*
 * Products of bfloat16 by oneDNN, on processors with AMX or a fast AVX512_BF16. How the library
 * adds, in float32, depends on all sizes of a product. So that a row does not depend on the number
 * of rows, the library gets blocks of ROWS rows; the last block overlaps the one before it, and
 * fewer rows are padded. b is laid out once a run for all blocks. A block's sums go to scratch
 * memory, and are rounded from there (bf16_inline.h).
 *
 * A gradient of weights, whose rows are outputs or inputs of a layer, is one call.
 */
#include "common/kernel/cpu/cpu_kernels.h"
#include "common/kernel/cpu/product/cpu_product.h"

#include "common/base/bf16_inline.h"
#include "common/base/grow.h"
#include "common/device/cpu/team.h"
#include "common/kernel/cpu/cpu_dnnl.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 64 }; /* of c, that are computed at a time */
enum { SOURCE, WEIGHTS, BIAS, RESULT, TENSORS };

typedef struct bf16_op {
    ls_op op;
    char name[64];
    ls_bf16_product_args args;
    const cpu_kernels *cpu;
    ls_kernels *kernels;        /* the base of cpu */
    ls_dnnl_call product, pack; /* pack without a primitive: b is used unchanged */
    size_t packed_bytes;
    void *packed;   /* b as the library wants it */
    uint16_t *rows; /* [ROWS, k] if a has fewer */
    float *block, *bias;
} bf16_op;

/* ---- What the library is asked for ----------------------------------------------------------- */

/* Source [rows,k], weights [k,n] in the library's layout or in the stored one, bias,
 * destination. */
static dnnl_status_t shapes_open(const ls_bf16_product_args *a, bool plain,
                                 ls_dnnl_shape shapes[TENSORS])
{
    const int64_t rows = a->transpose_a ? a->m : ROWS;
    const dnnl_dims_t dims[TENSORS] = {{rows, a->k}, {a->k, a->n}, {1, a->n}, {rows, a->n}};
    const dnnl_dims_t strides[TENSORS] = {{a->transpose_a ? 1 : a->k, a->transpose_a ? a->m : 1},
                                          {a->transpose_b ? 1 : a->n, a->transpose_b ? a->k : 1},
                                          {a->n, 1},
                                          {a->n, 1}};
    for (int i = 0; i < TENSORS; i++) {
        const dnnl_data_type_t type = i < BIAS ? dnnl_bf16 : dnnl_f32;
        dnnl_status_t status = ls_dnnl_shape_open(&shapes[i], type, 2, dims[i],
                                                  i == WEIGHTS && !plain ? NULL : strides[i]);
        if (status != dnnl_success) {
            while (i--)
                ls_dnnl_shape_close(&shapes[i]);
            return status;
        }
    }
    return dnnl_success;
}

static void shapes_close(ls_dnnl_shape shapes[TENSORS])
{
    for (int i = 0; i < TENSORS; i++)
        ls_dnnl_shape_close(&shapes[i]);
}

static dnnl_status_t describe(dnnl_engine_t engine, const ls_bf16_product_args *a,
                              dnnl_primitive_desc_t *out)
{
    ls_dnnl_shape shapes[TENSORS];
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t status = shapes_open(a, a->transpose_a, shapes);
    if (status != dnnl_success)
        return status;
    status = ls_dnnl_attributes_open(false, a->relu, &attr);
    if (status == dnnl_success) {
        status = ls_dnnl_matmul_open(out, engine, shapes, a->bias != NULL, attr);
        dnnl_primitive_attr_destroy(attr);
    }
    shapes_close(shapes);
    return status;
}

/* Whether vdpbf16ps, which does the work of two FMA, starts less than half as often. So it is on
 * Intel's with AVX512_FP16, Sapphire Rapids and later (0.75 ns against 0.18), which have AMX. */
static bool dot_is_slow(void)
{
#ifdef __x86_64__
    enum { FEATURES = 7, AVX512_FP16 = 1 << 23 };
    unsigned eax, ebx, ecx, edx;
    if (!__get_cpuid(0, &eax, &ebx, &ecx, &edx) || ebx != signature_INTEL_ebx)
        return false;
    return __get_cpuid_count(FEATURES, 0, &eax, &ebx, &ecx, &edx) && (edx & AVX512_FP16);
#else
    return false;
#endif
}

bool ls_bf16_multiplies(struct dnnl_engine *engine)
{
    const ls_bf16_product_args usual = {.m = 64, .n = 64, .k = 64};
    dnnl_primitive_desc_t desc = NULL;
    if (describe(engine, &usual, &desc) != dnnl_success)
        return false;
    const char *name = ls_dnnl_implementation(desc);
    const bool has = strncmp(name, "brg", 3) == 0 &&
                     (strstr(name, "amx") || (strstr(name, "bf16") && !dot_is_slow()));
    dnnl_primitive_desc_destroy(desc);
    return has;
}

/* ---- Making it ------------------------------------------------------------------------------- */

static dnnl_status_t make_pack(bf16_op *b, ls_dnnl_shape_view wanted, ls_dnnl_shape_view plain)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t desc = NULL;
    b->packed_bytes = dnnl_memory_desc_get_size(wanted);
    if (dnnl_memory_desc_equal(wanted, plain))
        return dnnl_success;
    dnnl_status_t status = ls_dnnl_attributes_open(false, false, &attr);
    if (status != dnnl_success)
        return status;
    status = dnnl_reorder_primitive_desc_create(&desc, plain, b->pack.engine, wanted,
                                                b->pack.engine, attr);
    if (status == dnnl_success)
        status = ls_dnnl_call_make(&b->pack, desc);
    dnnl_primitive_attr_destroy(attr);
    if (desc)
        dnnl_primitive_desc_destroy(desc);
    return status;
}

/* Scratch memory. */
static ls_status take_scratch(bf16_op *b)
{
    ls_scratch *scratch = &b->kernels->scratch;
    const size_t n = (size_t)b->args.n, k = (size_t)b->args.k;
    LS_TRY(ls_scratch_take(scratch, ROWS * n * sizeof *b->block, (void **)&b->block));
    if (b->args.bias)
        LS_TRY(ls_scratch_take(scratch, n * sizeof *b->bias, (void **)&b->bias));
    if (b->args.m < ROWS)
        LS_TRY(ls_scratch_take(scratch, ROWS * k * sizeof *b->rows, (void **)&b->rows));
    return b->pack.primitive ? ls_scratch_take(scratch, b->packed_bytes, &b->packed) : LS_OK;
}

/* Allocates memory, which waits for the device's thread. */
static ls_status add_calls(bf16_op *b)
{
    static const int names[TENSORS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST};
    const ls_bf16_product_args *a = &b->args;
    const void *data[TENSORS] = {a->a, a->b, NULL, a->c};
    if (!a->transpose_a) {
        LS_TRY(take_scratch(b));
        data[WEIGHTS] = b->pack.primitive ? b->packed : (const void *)a->b;
        data[BIAS] = a->bias ? b->bias : NULL;
        data[RESULT] = b->block;
    }
    if (b->pack.primitive) {
        ls_dnnl_call_add(&b->pack, DNNL_ARG_FROM, a->b);
        ls_dnnl_call_add(&b->pack, DNNL_ARG_TO, b->packed);
        LS_TRY(ls_dnnl_call_finish(&b->pack, b->kernels));
    }
    for (int i = 0; i < TENSORS; i++)
        if (data[i])
            ls_dnnl_call_add(&b->product, names[i], data[i]);
    return ls_dnnl_call_finish(&b->product, b->kernels);
}

/* Makes the primitives. Runs on the device's thread. */
static ls_status create(void *context)
{
    bf16_op *b = context;
    ls_dnnl_shape plain[TENSORS];
    dnnl_primitive_desc_t desc;
    LS_TRY(ls_dnnl_check(describe(b->product.engine, &b->args, &desc), "primitive"));
    snprintf(b->name, sizeof b->name, "bf16_product.%s", ls_dnnl_implementation(desc));
    dnnl_status_t status = ls_dnnl_call_make(&b->product, desc);
    if (status == dnnl_success && !b->args.transpose_a)
        status = shapes_open(&b->args, true, plain);
    if (status == dnnl_success && !b->args.transpose_a) {
        status = make_pack(b, dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0),
                           ls_dnnl_shape_see(&plain[WEIGHTS]));
        shapes_close(plain);
    }
    dnnl_primitive_desc_destroy(desc);
    return ls_dnnl_check(status, "primitive");
}

/* ---- Running it ------------------------------------------------------------------------------ */

/* A block's results, and where they go. */
typedef struct finish {
    const bf16_op *op;
    int64_t first, count; /* elements of c */
} finish;

static void finish_part(void *context, int part, int parts)
{
    const finish *f = context;
    const bf16_op *b = f->op;
    const int64_t begin = f->count * part / parts, end = f->count * (part + 1) / parts;
    uint16_t *c = (uint16_t *)b->args.c + f->first;
    const uint16_t *mask = b->args.mask ? b->args.mask + f->first : NULL;
    b->cpu->loops->narrow(b->block + begin, c + begin, end - begin);
    for (int64_t i = begin; i < end && mask; i++)
        c[i] = ls_bf16_passes(mask[i]) ? c[i] : 0;
}

/* Rows [from, from + count) of c, count up to ROWS. */
static ls_status run_block(bf16_op *b, int64_t from, int64_t count)
{
    const ls_bf16_product_args *a = &b->args;
    const finish rest = {b, from * a->n, count * a->n};
    const uint16_t *rows = a->a + from * a->k;
    if (count < ROWS) {
        memcpy(b->rows, rows, (size_t)(count * a->k) * sizeof *rows);
        memset(b->rows + count * a->k, 0, (size_t)((ROWS - count) * a->k) * sizeof *rows);
        rows = b->rows;
    }
    LS_TRY(ls_dnnl_check(ls_dnnl_call_aim(&b->product, SOURCE, rows), "memory"));
    LS_TRY(ls_dnnl_call_run(&b->product, "matmul"));
    return ls_team_run(ls_cpu_threads_for(b->cpu, rest.count), finish_part,
                       (void *)(uintptr_t)&rest);
}

static ls_status run(ls_op *base, ls_queue *queue)
{
    bf16_op *b = (bf16_op *)base;
    const ls_bf16_product_args *a = &b->args;
    (void)queue;
    if (a->transpose_a && b->product.primitive)
        return ls_dnnl_call_run(&b->product, "matmul");
    if (!b->product.primitive) { /* sums over nothing */
        if (a->transpose_a)
            memset(a->c, 0, (size_t)(a->m * a->n) * sizeof(float));
        return LS_OK;
    }
    if (b->pack.primitive)
        LS_TRY(ls_dnnl_call_run(&b->pack, "reorder"));
    if (a->bias)
        b->cpu->loops->widen(a->bias, b->bias, a->n);
    if (a->m < ROWS)
        return run_block(b, 0, a->m);
    for (int64_t row = 0; row < a->m; row += ROWS)
        LS_TRY(run_block(b, row < a->m - ROWS ? row : a->m - ROWS, ROWS));
    return LS_OK;
}

static void destroy(ls_op *base)
{
    bf16_op *b = (bf16_op *)base;
    ls_dnnl_call_close(&b->product);
    ls_dnnl_call_close(&b->pack);
    free(b);
}

ls_status ls_cpu_bf16_product(ls_kernels *kernels, const ls_bf16_product_args *a,
                              const ls_work *work, ls_op **out)
{
    const cpu_kernels *cpu = (const cpu_kernels *)kernels;
    const ls_dnnl_call call = {.device = kernels->device, .engine = cpu->engine};
    bf16_op *b;
    if (!kernels->multiplies_bf16)
        return ls_fail(
            LS_CODE_MISSING, work->op, "oneDNN",
            "oneDNN cannot multiply bfloat16 matrices on this processor; use --precision float32");
    LS_TRY(ls_allocate("bf16 product", &b, 1, sizeof *b));
    *b = (bf16_op){.op = {.run = run, .destroy = destroy},
                   .name = "bf16_product.none",
                   .args = *a,
                   .cpu = cpu,
                   .kernels = kernels,
                   .product = call,
                   .pack = call};
    b->op.name = b->name;
    const bool any = a->m && a->n && a->k;
    ls_status status = any ? ls_device_call(kernels->device, create, b) : LS_OK;
    if (any && !status)
        status = add_calls(b);
    if (status) {
        destroy(&b->op);
        return status;
    }
    b->op.reorders = b->pack.primitive ? 1 : 0;
    b->op.reordered_bytes = b->pack.primitive ? b->packed_bytes : 0;
    *out = &b->op;
    return LS_OK;
}

/* ---- Column sums ----------------------------------------------------------------------------- */

static void sums_part(const cpu_part *p)
{
    enum { WIDTH = 256 };
    const ls_bf16_column_sums_args *a = p->arguments;
    float row[WIDTH], *sums = a->sums;
    for (int64_t c = p->first; c < p->last; c += WIDTH) {
        const int64_t width = p->last - c < WIDTH ? p->last - c : WIDTH;
        p->loops->fill(sums + c, 0, width);
        for (int64_t r = 0; r < a->rows; r++) {
            p->loops->widen(a->x + r * a->columns + c, row, width);
            p->loops->add(sums + c, row, sums + c, width);
        }
    }
}

LS_CPU_OP(bf16_column_sums, ".loop", ls_bf16_column_sums_args, .part = sums_part,
          .shared = a->columns, .in_blocks = true, .elements = a->rows * a->columns)
