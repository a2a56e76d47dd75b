/* SPDX-License-Identifier: MIT */
/* Products by oneDNN and by our own loop; see cpu_product.h. The device's own thread chooses the
 * primitive. */
#include "common/kernel/cpu/product/cpu_product.h"

#include "common/base/grow.h"
#include "common/device/backend.h"
#include "common/device/cpu/team.h"
#include "common/kernel/cpu/cpu_dnnl.h"

#include <oneapi/dnnl/dnnl_debug.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ls_product {
    ls_vector_product spec;
    ls_product_library *library;
    ls_dnnl_call call; /* without a primitive: packed */
    const ls_vector_loops *loops;
    int threads; /* of a packed one */
    void *scratch;
};

/* ---- Packed -------------------------------------------------------------------------------- */

size_t ls_packed_scratch(int threads)
{
    return (size_t)threads * LS_VECTOR_PRODUCT_SCRATCH * sizeof(float);
}

typedef struct packed_call {
    const ls_vector_loops *loops;
    const ls_vector_product *product;
    float *scratch;
    int64_t rows, columns; /* of a part */
} packed_call;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void packed_part(void *context, int part, int parts)
{
    const packed_call *call = context;
    const ls_gemm_args *g = &call->product->gemm;
    ls_vector_share share = {0, g->m, 0, g->n};
    (void)parts;
    if (call->columns) {
        share.first_column = least(g->n, call->columns * part);
        share.last_column = least(g->n, share.first_column + call->columns);
    } else {
        share.first_row = least(g->m, call->rows * part);
        share.last_row = least(g->m, share.first_row + call->rows);
    }
    if (share.first_row < share.last_row && share.first_column < share.last_column)
        call->loops->product(call->product, &share,
                             call->scratch + (int64_t)part * LS_VECTOR_PRODUCT_SCRATCH);
}

/* Parts are whole tiles of columns, or pairs of rows: what leaves the largest part less to do. A
 * part of the rows copies all of b, which takes about as long as computing COPIED rows. */
ls_status ls_packed_run(const ls_vector_loops *loops, const ls_vector_product *product, int threads,
                        void *scratch)
{
    enum { TILE = 32, PAIR = 2, COPIED = 6 };
    const ls_gemm_args *g = &product->gemm;
    const int64_t columns = ((g->n + TILE - 1) / TILE + threads - 1) / threads * TILE;
    const int64_t rows = ((g->m + PAIR - 1) / PAIR + threads - 1) / threads * PAIR;
    packed_call call = {loops, product, scratch, rows, columns};
    if ((rows + COPIED) * g->n < columns * (g->m + COPIED))
        call.columns = 0;
    return ls_team_run(threads, packed_part, &call);
}

/* ---- By the library ------------------------------------------------------------------------ */

/* Source [m,k], weights [k,n], bias [1,n], destination [m,n]; dense, transposed by strides. */
static dnnl_status_t shapes_open(const ls_gemm_args *g, ls_dnnl_shape shapes[4])
{
    const dnnl_dims_t dims[4] = {{g->m, g->k}, {g->k, g->n}, {1, g->n}, {g->m, g->n}};
    const dnnl_dims_t strides[4] = {{g->transpose_a ? 1 : g->k, g->transpose_a ? g->m : 1},
                                    {g->transpose_b ? 1 : g->n, g->transpose_b ? g->k : 1},
                                    {g->n, 1},
                                    {g->n, 1}};
    for (int i = 0; i < 4; i++) {
        dnnl_status_t status = ls_dnnl_shape_open(&shapes[i], dnnl_f32, 2, dims[i], strides[i]);
        if (status != dnnl_success) {
            while (i--)
                ls_dnnl_shape_close(&shapes[i]);
            return status;
        }
    }
    return dnnl_success;
}

/* Describes oneDNN's first choice for this product. */
static dnnl_status_t describe(dnnl_engine_t engine, const ls_vector_product *spec,
                              dnnl_primitive_desc_t *out)
{
    ls_dnnl_shape shapes[4];
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t status = shapes_open(&spec->gemm, shapes);
    if (status != dnnl_success)
        return status;
    status = ls_dnnl_attributes_open(spec->gemm.accumulate, spec->relu, &attr);
    if (status == dnnl_success) {
        status = ls_dnnl_matmul_open(out, engine, shapes, spec->bias != NULL, attr);
        dnnl_primitive_attr_destroy(attr);
    }
    for (int i = 0; i < 4; i++)
        ls_dnnl_shape_close(&shapes[i]);
    return status;
}

static bool is_brg(const_dnnl_primitive_desc_t desc)
{
    const char *name = ls_dnnl_implementation(desc);
    return !strncmp(name, "brg", 3) && strstr(name, "avx512");
}

/* What is chosen for products of a shape. */
typedef struct ls_product_choice {
    ls_vector_product spec;
    dnnl_primitive_desc_t desc; /* NULL: packed, which computes any product */
} ls_product_choice;

static bool is_like(const ls_vector_product *x, const ls_vector_product *y)
{
    const ls_gemm_args *a = &x->gemm, *b = &y->gemm;
    return a->m == b->m && a->n == b->n && a->k == b->k && a->transpose_a == b->transpose_a &&
           a->transpose_b == b->transpose_b && a->accumulate == b->accumulate &&
           !x->bias == !y->bias && x->relu == y->relu;
}

/* Describing takes longer than all else of making a product: each shape is described once. */
static ls_status choose(ls_product_library *l, const ls_vector_product *spec,
                        const_dnnl_primitive_desc_t *out)
{
    for (size_t i = l->count; i-- > 0;) {
        *out = l->choices[i].desc;
        if (is_like(&l->choices[i].spec, spec))
            return LS_OK;
    }
    dnnl_primitive_desc_t desc = NULL;
    LS_TRY(ls_grow("product", &l->choices, l->count, sizeof *l->choices));
    const dnnl_status_t status = describe(l->engine, spec, &desc);
    if (status != dnnl_unimplemented)
        LS_TRY(ls_dnnl_check(status, "primitive"));
    if (desc && !is_brg(desc)) {
        dnnl_primitive_desc_destroy(desc);
        desc = NULL;
    }
    l->choices[l->count++] = (ls_product_choice){*spec, desc};
    *out = desc;
    return LS_OK;
}

/* Runs on the device's thread. */
static ls_status create(void *context)
{
    ls_product *product = context;
    const_dnnl_primitive_desc_t desc;
    LS_TRY(choose(product->library, &product->spec, &desc));
    return desc ? ls_dnnl_check(ls_dnnl_call_make(&product->call, desc), "primitive") : LS_OK;
}

static ls_status add_memories(ls_product *product, ls_kernels *kernels)
{
    const ls_vector_product *spec = &product->spec;
    ls_dnnl_call_add(&product->call, DNNL_ARG_SRC, spec->gemm.a);
    ls_dnnl_call_add(&product->call, DNNL_ARG_WEIGHTS, spec->gemm.b);
    if (spec->bias)
        ls_dnnl_call_add(&product->call, DNNL_ARG_BIAS, spec->bias);
    ls_dnnl_call_add(&product->call, DNNL_ARG_DST, spec->gemm.c);
    return ls_dnnl_call_finish(&product->call, kernels);
}

/* ---- Either -------------------------------------------------------------------------------- */

ls_status ls_product_open(const ls_product_maker *maker, const ls_vector_product *spec, int threads,
                          ls_product **out)
{
    ls_product *product;
    LS_TRY(ls_allocate("product", &product, 1, sizeof *product));
    *product =
        (ls_product){.spec = *spec,
                     .library = maker->library,
                     .call = {.device = maker->kernels->device, .engine = maker->library->engine},
                     .loops = maker->loops,
                     .threads = threads};
    ls_status status = ls_device_call(maker->kernels->device, create, product);
    if (!status && product->call.primitive)
        status = add_memories(product, maker->kernels);
    else if (!status)
        status = ls_scratch_take(&maker->kernels->scratch, ls_packed_scratch(threads),
                                 &product->scratch);
    if (status) {
        ls_product_close(product);
        return status;
    }
    *out = product;
    return LS_OK;
}

void ls_product_close(ls_product *product)
{
    if (!product)
        return;
    ls_dnnl_call_close(&product->call);
    free(product);
}

bool ls_product_packed(const ls_product *product)
{
    return !product->call.primitive;
}

ls_status ls_product_run(ls_product *product)
{
    if (product->call.primitive)
        return ls_dnnl_call_run(&product->call, "matmul");
    LS_TRY(ls_team_check(ls_device_describe(product->call.device)->core_count));
    return ls_packed_run(product->loops, &product->spec, product->threads, product->scratch);
}

/* ---- Library ------------------------------------------------------------------------------- */

static void close_library(void *context)
{
    ls_product_library *l = context;
    for (size_t i = 0; i < l->count; i++)
        if (l->choices[i].desc)
            dnnl_primitive_desc_destroy(l->choices[i].desc);
    if (l->engine)
        dnnl_engine_destroy(l->engine);
    free(l->choices);
    free(l);
}

/* Opens the engine, and finds which implementation it selects for a typical product. Arithmetic is
 * float32 whatever ONEDNN_DEFAULT_FPMATH_MODE says. */
static ls_status open_library(void *context)
{
    ls_product_library *l = context;
    const ls_vector_product usual = {.gemm = {.m = 64, .n = 64, .k = 64}};
    const dnnl_version_t *version = dnnl_version();
    const_dnnl_primitive_desc_t desc;
    LS_TRY(ls_dnnl_check(dnnl_set_default_fpmath_mode(dnnl_fpmath_mode_strict), "arithmetic"));
    LS_TRY(ls_dnnl_check(dnnl_engine_create(&l->engine, dnnl_cpu, 0), "engine"));
    l->multiplies_bf16 = ls_bf16_multiplies(l->engine);
    LS_TRY(choose(l, &usual, &desc));
    snprintf(l->name, sizeof l->name, "oneDNN %d.%d.%d (%s", version->major, version->minor,
             version->patch, desc ? ls_dnnl_implementation(desc) : "products packed");
    return LS_OK;
}

ls_status ls_product_library_find(ls_device *device, ls_product_library **out)
{
    ls_device *owner = device->like ? device->like : device;
    *out = owner->library;
    if (*out)
        return LS_OK;
    LS_TRY(ls_allocate("product", out, 1, sizeof **out));
    ls_status status = ls_device_call(device, open_library, *out);
    if (status) {
        close_library(*out);
        return status;
    }
    owner->library = *out;
    owner->close_library = close_library;
    return LS_OK;
}

const char *ls_kernel_library_isa(void)
{
    static const char prefix[] = "cpu_isa_";
    const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    const char *name = isa ? dnnl_cpu_isa2str(isa) : ""; /* 0 if the library has no such
                                                            instruction set */
    return name + (strncmp(name, prefix, sizeof prefix - 1) == 0 ? sizeof prefix - 1 : 0);
}

const char *ls_kernel_library_version(char text[32])
{
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, 32, "%d.%d.%d", version->major, version->minor, version->patch);
    return text;
}
