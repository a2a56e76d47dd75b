/* SPDX-License-Identifier: MIT */
/*
 * Matrix products by oneDNN (2.6 to 3.x; cpu_dnnl.h has the differences). Shape and processor
 * select one of two implementations; nothing is timed. The matmul primitive is used if oneDNN
 * implements it by its batch-reduce kernels ("brg..."): with AVX-512 those are as fast as
 * dnnl_sgemm or faster (1.1x at 256x784x128, 1.5x at 32x1024x1024), and add bias and ReLU at no
 * cost; a row's bits do not depend on the number of rows. Elsewhere matmul is sgemm plus overhead,
 * so dnnl_sgemm is called directly; rows may then depend on the number of rows.
 */
#pragma once

#include "common/device/device.h"
#include "common/kernel/kernel.h"

struct dnnl_engine;

/** c = op(a) op(b) (+ c), then, if the product is fused, + bias and ReLU. Sizes above 0. */
typedef struct ls_product_spec {
    ls_gemm_args gemm;
    const float *bias; /**< [n]; NULL: none */
    bool relu;
} ls_product_spec;

typedef struct ls_product ls_product;

/** `library`: "oneDNN 2.6.3 (brg:avx512_core", for the caller to go on with. */
ls_status ls_product_engine_open(ls_device *device, struct dnnl_engine **out, char library[64]);

/** Takes NULL. */
void ls_product_engine_close(struct dnnl_engine *engine);

/** Scratch memory is the device's workspace. `engine` must outlive the product. */
ls_status ls_product_open(ls_device *device, struct dnnl_engine *engine,
                          const ls_product_spec *spec, ls_product **out);

/** Takes NULL. */
void ls_product_close(ls_product *product);

/** True: it is a primitive, with bias and ReLU. False: it is sgemm, and the caller must do these.
 */
bool ls_product_fused(const ls_product *product);

/** Bytes of scratch memory that it holds. */
size_t ls_product_workspace(const ls_product *product);

/** On a thread of the device. */
ls_status ls_product_run(const ls_product *product);

/** Computes a product now, by dnnl_sgemm, on a thread of the device: for operands that move. */
ls_status ls_product_once(const ls_device *device, const ls_gemm_args *gemm);
