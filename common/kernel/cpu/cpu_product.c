/* SPDX-License-Identifier: MIT */
/*
 * Products by oneDNN; see cpu_product.h.
 *
 * The primitive is created on the device's own thread, since oneDNN plans for the number of
 * threads of the thread that creates. Memory objects wrap the caller's memory; scratch memory is
 * given by us (user mode), so nothing large is allocated in a step.
 */
#include "common/kernel/cpu/cpu_product.h"

#include <oneapi/dnnl/dnnl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORIES = 5 }; /* source, weights, bias, destination, scratch */

struct ls_product {
    ls_product_spec spec;
    ls_device *device;
    dnnl_engine_t engine;
    dnnl_primitive_t primitive; /* NULL: sgemm */
    dnnl_stream_t stream;
    size_t scratch_bytes;
    void *scratch;
    int memories;
    dnnl_exec_arg_t arguments[MEMORIES];
};

static ls_status check(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success)
        return LS_OK;
    return ls_fail(status == dnnl_out_of_memory ? LS_CODE_MISSING : LS_CODE_CHECK, "oneDNN", what,
                   "it failed with status %d; try another version of the library", (int)status);
}

/* ---- What differs between oneDNN 2 and 3 --------------------------------------------------- */

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t memory_shape;

static dnnl_status_t shape_open(memory_shape *shape, const dnnl_dims_t dims,
                                const dnnl_dims_t strides)
{
    return dnnl_memory_desc_create_with_strides(shape, 2, dims, dnnl_f32, strides);
}

static void shape_close(memory_shape *shape)
{
    dnnl_memory_desc_destroy(*shape);
}

static dnnl_status_t memory_open(dnnl_memory_t *memory, const memory_shape *shape,
                                 dnnl_engine_t engine, void *data)
{
    return dnnl_memory_create(memory, *shape, engine, data);
}

static dnnl_status_t append_relu(dnnl_post_ops_t post)
{
    return dnnl_post_ops_append_eltwise(post, dnnl_eltwise_relu, 0, 0);
}

static dnnl_status_t append_sum(dnnl_post_ops_t post)
{
    return dnnl_post_ops_append_sum(post, 1, 0, dnnl_data_type_undef);
}

static dnnl_status_t matmul_open(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                 const memory_shape shapes[4], bool bias,
                                 dnnl_primitive_attr_t attr)
{
    return dnnl_matmul_primitive_desc_create(out, engine, shapes[0], shapes[1],
                                             bias ? shapes[2] : NULL, shapes[3], attr);
}

static dnnl_status_t bytes_open(memory_shape *shape, size_t bytes)
{
    return dnnl_memory_desc_create_with_strides(shape, 1, (dnnl_dims_t){(dnnl_dim_t)bytes}, dnnl_u8,
                                                (dnnl_dims_t){1});
}
#else
typedef dnnl_memory_desc_t memory_shape;

static dnnl_status_t shape_open(memory_shape *shape, const dnnl_dims_t dims,
                                const dnnl_dims_t strides)
{
    return dnnl_memory_desc_init_by_strides(shape, 2, dims, dnnl_f32, strides);
}

static void shape_close(memory_shape *shape)
{
    (void)shape;
}

static dnnl_status_t memory_open(dnnl_memory_t *memory, const memory_shape *shape,
                                 dnnl_engine_t engine, void *data)
{
    return dnnl_memory_create(memory, shape, engine, data);
}

static dnnl_status_t append_relu(dnnl_post_ops_t post)
{
    return dnnl_post_ops_append_eltwise(post, 1, dnnl_eltwise_relu, 0, 0);
}

static dnnl_status_t append_sum(dnnl_post_ops_t post)
{
    return dnnl_post_ops_append_sum(post, 1);
}

static dnnl_status_t matmul_open(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                 const memory_shape shapes[4], bool bias,
                                 dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t matmul;
    dnnl_status_t status = dnnl_matmul_desc_init(&matmul, &shapes[0], &shapes[1],
                                                 bias ? &shapes[2] : NULL, &shapes[3]);
    if (status != dnnl_success)
        return status;
    return dnnl_primitive_desc_create(out, &matmul, attr, engine, NULL);
}

static dnnl_status_t bytes_open(memory_shape *shape, size_t bytes)
{
    return dnnl_memory_desc_init_by_strides(shape, 1, (dnnl_dims_t){(dnnl_dim_t)bytes}, dnnl_u8,
                                            (dnnl_dims_t){1});
}
#endif

/* ---- Primitives ---------------------------------------------------------------------------- */

/* Source [m,k], weights [k,n], bias [1,n], destination [m,n]; dense, transposed by strides. */
static dnnl_status_t shapes_open(const ls_gemm_args *g, memory_shape shapes[4])
{
    const dnnl_dims_t dims[4] = {{g->m, g->k}, {g->k, g->n}, {1, g->n}, {g->m, g->n}};
    const dnnl_dims_t strides[4] = {{g->transpose_a ? 1 : g->k, g->transpose_a ? g->m : 1},
                                    {g->transpose_b ? 1 : g->n, g->transpose_b ? g->k : 1},
                                    {g->n, 1},
                                    {g->n, 1}};
    for (int i = 0; i < 4; i++) {
        dnnl_status_t status = shape_open(&shapes[i], dims[i], strides[i]);
        if (status != dnnl_success) {
            while (i--)
                shape_close(&shapes[i]);
            return status;
        }
    }
    return dnnl_success;
}

static dnnl_status_t attributes_open(const ls_product_spec *spec, dnnl_primitive_attr_t *out)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t post = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(&attr);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status = dnnl_post_ops_create(&post);
    if (status == dnnl_success && spec->gemm.accumulate)
        status = append_sum(post);
    if (status == dnnl_success && spec->relu)
        status = append_relu(post);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(attr, post);
    if (post)
        dnnl_post_ops_destroy(post);
    if (status != dnnl_success && attr)
        dnnl_primitive_attr_destroy(attr);
    else
        *out = attr;
    return status;
}

static const char *implementation(dnnl_primitive_desc_t desc)
{
    const char *name = NULL;
    if (dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&name) !=
            dnnl_success ||
        !name)
        return "";
    return name;
}

/* The first choice of oneDNN for this product. */
static dnnl_status_t describe(dnnl_engine_t engine, const ls_product_spec *spec,
                              dnnl_primitive_desc_t *out)
{
    memory_shape shapes[4];
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t status = shapes_open(&spec->gemm, shapes);
    if (status != dnnl_success)
        return status;
    status = attributes_open(spec, &attr);
    if (status == dnnl_success) {
        status = matmul_open(out, engine, shapes, spec->bias != NULL, attr);
        dnnl_primitive_attr_destroy(attr);
    }
    for (int i = 0; i < 4; i++)
        shape_close(&shapes[i]);
    return status;
}

static size_t scratch_of(dnnl_primitive_desc_t desc)
{
    return dnnl_memory_desc_get_size(
        dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0));
}

/* On the device's thread. */
static ls_status create(void *context)
{
    ls_product *product = context;
    dnnl_primitive_desc_t desc = NULL;
    if (describe(product->engine, &product->spec, &desc) != dnnl_success)
        return LS_OK; /* sgemm can do them all */
    dnnl_status_t status = dnnl_success;
    if (!strncmp(implementation(desc), "brg", 3)) {
        product->scratch_bytes = scratch_of(desc);
        status = dnnl_primitive_create(&product->primitive, desc);
    }
    dnnl_primitive_desc_destroy(desc);
    return check(status, "primitive");
}

static ls_status add_memory(ls_product *product, int argument, const memory_shape *shape,
                            const void *data)
{
    dnnl_memory_t memory;
    LS_TRY(check(memory_open(&memory, shape, product->engine, (void *)(uintptr_t)data), "memory"));
    product->arguments[product->memories++] = (dnnl_exec_arg_t){.arg = argument, .memory = memory};
    return LS_OK;
}

static ls_status add_scratch(ls_product *product)
{
    LS_TRY(ls_device_allocate(product->device, LS_MEMORY_WORKSPACE, product->scratch_bytes,
                              &product->scratch));
    memory_shape shape;
    LS_TRY(check(bytes_open(&shape, product->scratch_bytes), "scratch"));
    ls_status status = add_memory(product, DNNL_ARG_SCRATCHPAD, &shape, product->scratch);
    shape_close(&shape);
    return status;
}

static ls_status add_memories(ls_product *product)
{
    static const int names[4] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST};
    const ls_product_spec *spec = &product->spec;
    const void *const data[4] = {spec->gemm.a, spec->gemm.b, spec->bias, spec->gemm.c};
    memory_shape shapes[4];
    LS_TRY(check(shapes_open(&spec->gemm, shapes), "shapes"));
    ls_status status = LS_OK;
    for (int i = 0; i < 4; i++) {
        if (!status && data[i])
            status = add_memory(product, names[i], &shapes[i], data[i]);
        shape_close(&shapes[i]);
    }
    if (!status && product->scratch_bytes)
        status = add_scratch(product);
    if (!status)
        status =
            check(dnnl_stream_create(&product->stream, product->engine, dnnl_stream_default_flags),
                  "stream");
    return status;
}

ls_status ls_product_open(ls_device *device, struct dnnl_engine *engine,
                          const ls_product_spec *spec, ls_product **out)
{
    ls_product *product = calloc(1, sizeof *product);
    if (!product)
        return ls_fail_memory("product", sizeof *product);
    *product = (ls_product){.spec = *spec, .device = device, .engine = engine};
    ls_status status = ls_device_call(device, create, product);
    if (!status && product->primitive)
        status = add_memories(product);
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
    for (int i = 0; i < product->memories; i++)
        dnnl_memory_destroy(product->arguments[i].memory);
    if (product->stream)
        dnnl_stream_destroy(product->stream);
    if (product->primitive)
        dnnl_primitive_destroy(product->primitive);
    ls_device_release(product->device, product->scratch);
    free(product);
}

bool ls_product_fused(const ls_product *product)
{
    return product->primitive != NULL;
}

size_t ls_product_workspace(const ls_product *product)
{
    return product->scratch ? product->scratch_bytes : 0;
}

ls_status ls_product_run(const ls_product *product)
{
    const ls_gemm_args *g = &product->spec.gemm;
    if (product->primitive)
        return check(dnnl_primitive_execute(product->primitive, product->stream, product->memories,
                                            product->arguments),
                     "matmul");
    return check(dnnl_sgemm(g->transpose_a ? 'T' : 'N', g->transpose_b ? 'T' : 'N', g->m, g->n,
                            g->k, 1, g->a, g->transpose_a ? g->m : g->k, g->b,
                            g->transpose_b ? g->k : g->n, g->accumulate ? 1 : 0, g->c, g->n),
                 "sgemm");
}

/* ---- Engine -------------------------------------------------------------------------------- */

typedef struct engine_call {
    dnnl_engine_t engine;
    char implementation[32];
} engine_call;

/* Opens the engine, and asks which implementation a usual product gets. */
static ls_status open_engine(void *context)
{
    engine_call *call = context;
    const ls_product_spec usual = {.gemm = {.m = 64, .n = 64, .k = 64}};
    dnnl_primitive_desc_t desc = NULL;
    LS_TRY(check(dnnl_engine_create(&call->engine, dnnl_cpu, 0), "engine"));
    if (describe(call->engine, &usual, &desc) == dnnl_success) {
        snprintf(call->implementation, sizeof call->implementation, "%s", implementation(desc));
        dnnl_primitive_desc_destroy(desc);
    }
    return LS_OK;
}

ls_status ls_product_engine_open(ls_device *device, struct dnnl_engine **out, char library[64])
{
    engine_call call = {0};
    LS_TRY(ls_device_call(device, open_engine, &call));
    const dnnl_version_t *version = dnnl_version();
    snprintf(library, 64, "oneDNN %d.%d.%d (%s", version->major, version->minor, version->patch,
             call.implementation[0] ? call.implementation : "sgemm");
    *out = call.engine;
    return LS_OK;
}

void ls_product_engine_close(struct dnnl_engine *engine)
{
    if (engine)
        dnnl_engine_destroy(engine);
}

const char *ls_kernel_library_version(char text[32])
{
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, 32, "%d.%d.%d", version->major, version->minor, version->patch);
    return text;
}
