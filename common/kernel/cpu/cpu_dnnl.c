/* SPDX-License-Identifier: MIT */
/*
 * oneDNN's shapes, memory and attributes; see cpu_dnnl.h. Memory objects wrap the caller's memory,
 * and we provide scratch memory (user mode), so a step allocates nothing large.
 */
#include "common/kernel/cpu/cpu_dnnl.h"

#include "common/device/cpu/team.h"

#include <stdint.h>

ls_status ls_dnnl_check(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success)
        return LS_OK;
    if (status == dnnl_out_of_memory)
        return ls_fail(
            LS_CODE_MISSING, "oneDNN", what,
            "there is not enough memory for this operation; use a smaller model or batch");
    return ls_fail(LS_CODE_CHECK, "oneDNN", what,
                   "oneDNN failed with status %d (see dnnl_status_t) while it prepared this; try "
                   "another version of oneDNN",
                   (int)status);
}

/* ---- What differs between oneDNN 2 and 3 --------------------------------------------------- */

#if DNNL_VERSION_MAJOR >= 3
dnnl_status_t ls_dnnl_shape_open(ls_dnnl_shape *shape, dnnl_data_type_t type, int rank,
                                 const dnnl_dims_t dims, const dnnl_dims_t strides)
{
    if (!strides)
        return dnnl_memory_desc_create_with_tag(shape, rank, dims, type, dnnl_format_tag_any);
    return dnnl_memory_desc_create_with_strides(shape, rank, dims, type, strides);
}

void ls_dnnl_shape_close(ls_dnnl_shape *shape)
{
    dnnl_memory_desc_destroy(*shape);
}

ls_dnnl_shape_view ls_dnnl_shape_see(const ls_dnnl_shape *shape)
{
    return *shape;
}

static dnnl_status_t append_relu(dnnl_post_ops_t post)
{
    return dnnl_post_ops_append_eltwise(post, dnnl_eltwise_relu, 0, 0);
}

static dnnl_status_t append_sum(dnnl_post_ops_t post)
{
    return dnnl_post_ops_append_sum(post, 1, 0, dnnl_data_type_undef);
}

dnnl_status_t ls_dnnl_matmul_open(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                  const ls_dnnl_shape shapes[4], bool bias,
                                  const_dnnl_primitive_attr_t attr)
{
    return dnnl_matmul_primitive_desc_create(out, engine, shapes[0], shapes[1],
                                             bias ? shapes[2] : NULL, shapes[3], attr);
}
#else
dnnl_status_t ls_dnnl_shape_open(ls_dnnl_shape *shape, dnnl_data_type_t type, int rank,
                                 const dnnl_dims_t dims, const dnnl_dims_t strides)
{
    if (!strides)
        return dnnl_memory_desc_init_by_tag(shape, rank, dims, type, dnnl_format_tag_any);
    return dnnl_memory_desc_init_by_strides(shape, rank, dims, type, strides);
}

void ls_dnnl_shape_close(ls_dnnl_shape *shape)
{
    (void)shape;
}

ls_dnnl_shape_view ls_dnnl_shape_see(const ls_dnnl_shape *shape)
{
    return shape;
}

static dnnl_status_t append_relu(dnnl_post_ops_t post)
{
    return dnnl_post_ops_append_eltwise(post, 1, dnnl_eltwise_relu, 0, 0);
}

static dnnl_status_t append_sum(dnnl_post_ops_t post)
{
    return dnnl_post_ops_append_sum(post, 1);
}

dnnl_status_t ls_dnnl_matmul_open(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                  const ls_dnnl_shape shapes[4], bool bias,
                                  const_dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t matmul;
    dnnl_status_t status = dnnl_matmul_desc_init(&matmul, &shapes[0], &shapes[1],
                                                 bias ? &shapes[2] : NULL, &shapes[3]);
    if (status != dnnl_success)
        return status;
    return dnnl_primitive_desc_create(out, &matmul, attr, engine, NULL);
}
#endif

/* ---- Primitives ---------------------------------------------------------------------------- */

dnnl_status_t ls_dnnl_attributes_open(bool sum, bool relu, dnnl_primitive_attr_t *out)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t post = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(&attr);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status = dnnl_post_ops_create(&post);
    if (status == dnnl_success && sum)
        status = append_sum(post);
    if (status == dnnl_success && relu)
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

const char *ls_dnnl_implementation(const_dnnl_primitive_desc_t desc)
{
    const char *name = NULL;
    if (dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&name) !=
            dnnl_success ||
        !name)
        return "";
    return name;
}

dnnl_status_t ls_dnnl_call_make(ls_dnnl_call *call, const_dnnl_primitive_desc_t desc)
{
    call->scratch_bytes =
        dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0));
    return dnnl_primitive_create(&call->primitive, desc);
}

void ls_dnnl_call_add(ls_dnnl_call *call, int argument, const void *data)
{
    call->data[call->count] = data;
    call->arguments[call->count++].arg = argument;
}

dnnl_status_t ls_dnnl_call_aim(ls_dnnl_call *call, int index, const void *data)
{
    const dnnl_memory_t memory = call->arguments[index].memory;
    call->data[index] = data;
    return memory ? dnnl_memory_set_data_handle(memory, (void *)(uintptr_t)data) : dnnl_success;
}

ls_status ls_dnnl_call_finish(ls_dnnl_call *call, ls_kernels *kernels)
{
    void *scratch;
    if (!call->scratch_bytes)
        return LS_OK;
    LS_TRY(ls_scratch_take(&kernels->scratch, call->scratch_bytes, &scratch));
    ls_dnnl_call_add(call, DNNL_ARG_SCRATCHPAD, scratch);
    return LS_OK;
}

/* An object of the library for each argument takes more memory than all else of an operation, and
 * most calls of virtual devices (predict) never run. */
static dnnl_status_t wrap(ls_dnnl_call *call)
{
    const_dnnl_primitive_desc_t desc;
    dnnl_status_t status = dnnl_primitive_get_primitive_desc(call->primitive, &desc);
    for (int i = 0; i < call->count && status == dnnl_success; i++) {
        dnnl_exec_arg_t *a = &call->arguments[i];
        if (!a->memory)
            status = dnnl_memory_create(
                &a->memory, dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, a->arg),
                call->engine, (void *)(uintptr_t)call->data[i]);
    }
    return status == dnnl_success
               ? dnnl_stream_create(&call->stream, call->engine, dnnl_stream_default_flags)
               : status;
}

ls_status ls_dnnl_call_run(ls_dnnl_call *call, const char *what)
{
    LS_TRY(ls_team_check(ls_device_describe(call->device)->core_count));
    if (!call->stream)
        LS_TRY(ls_dnnl_check(wrap(call), "memory"));
    return ls_dnnl_check(
        dnnl_primitive_execute(call->primitive, call->stream, call->count, call->arguments), what);
}

void ls_dnnl_call_close(ls_dnnl_call *call)
{
    for (int i = 0; i < call->count; i++)
        dnnl_memory_destroy(call->arguments[i].memory);
    if (call->stream)
        dnnl_stream_destroy(call->stream);
    if (call->primitive)
        dnnl_primitive_destroy(call->primitive);
}
