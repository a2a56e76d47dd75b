/* SPDX-License-Identifier: MIT */
/*
 * What differs between oneDNN 2 and 3, and what every primitive of ours needs: shapes, memory,
 * attributes. For cpu_product.c, cpu_bf16.c and
 * cpu_conv.c alone.
 */
#pragma once

#include "common/base/status.h"
#include "common/kernel/kernel.h"
#include "common/device/device.h"

#include <oneapi/dnnl/dnnl.h>

#include <stdbool.h>
#include <stddef.h>

/** A tensor's shape and layout, and how it is passed to the library's functions. */
typedef dnnl_memory_desc_t ls_dnnl_shape;
#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t ls_dnnl_shape_view;
#else
typedef const dnnl_memory_desc_t *ls_dnnl_shape_view;
#endif

enum { LS_DNNL_ARGUMENTS = 6 };

/** A primitive with its memory. Zero it before use; closed by ls_dnnl_call_close. */
typedef struct ls_dnnl_call {
    ls_device *device;
    dnnl_engine_t engine;
    dnnl_primitive_t primitive;
    dnnl_stream_t stream;
    size_t scratch_bytes; /**< set when the primitive is made */
    int count;
    dnnl_exec_arg_t arguments[LS_DNNL_ARGUMENTS]; /**< their memory is wrapped by the first run */
    const void *data[LS_DNNL_ARGUMENTS];
} ls_dnnl_call;

/** The failure of `what`, or LS_OK. */
ls_status ls_dnnl_check(dnnl_status_t status, const char *what);

/** Opens a shape with the given strides; NULL means the library chooses the layout. */
dnnl_status_t ls_dnnl_shape_open(ls_dnnl_shape *shape, dnnl_data_type_t type, int rank,
                                 const dnnl_dims_t dims, const dnnl_dims_t strides);
void ls_dnnl_shape_close(ls_dnnl_shape *shape);
ls_dnnl_shape_view ls_dnnl_shape_see(const ls_dnnl_shape *shape);

/** Scratch memory is the caller's; `sum`: adds to the destination; `relu` after that. */
dnnl_status_t ls_dnnl_attributes_open(bool sum, bool relu, dnnl_primitive_attr_t *out);

/** A product's source, weights, bias (used if `bias`) and destination. */
dnnl_status_t ls_dnnl_matmul_open(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                  const ls_dnnl_shape shapes[4], bool bias,
                                  const_dnnl_primitive_attr_t attr);

/** "" if the library does not tell. */
const char *ls_dnnl_implementation(const_dnnl_primitive_desc_t desc);

/** Makes the primitive and notes its scratch. On the device's thread, since oneDNN plans for the
 * team of the thread that creates. */
dnnl_status_t ls_dnnl_call_make(ls_dnnl_call *call, const_dnnl_primitive_desc_t desc);

/** Adds the caller's memory, laid out as the primitive expects it, as an argument. */
void ls_dnnl_call_add(ls_dnnl_call *call, int argument, const void *data);
/** Gives argument number `index`, in the order in which they were added, other memory. */
dnnl_status_t ls_dnnl_call_aim(ls_dnnl_call *call, int index, const void *data);

/** Adds scratch for the operation that is being made. */
ls_status ls_dnnl_call_finish(ls_dnnl_call *call, ls_kernels *kernels);

/** On a thread of the device; fails if its team is not the device's. */
ls_status ls_dnnl_call_run(ls_dnnl_call *call, const char *what);

void ls_dnnl_call_close(ls_dnnl_call *call);
