/* SPDX-License-Identifier: MIT */
/*
 * Matrix products. Shape and processor select one of two implementations; nothing is timed.
 *
 * brg: oneDNN's matmul (2.6 to 3.x; cpu_dnnl.h has the differences), where it has batch-reduce
 * kernels of AVX-512 for the shape: a little faster than ours there.
 *
 * packed: our own (vector_product.h), everywhere else. An element has the same bits on every
 * instruction set, wherever its row is, and whichever thread computes it.
 *
 * In both, a row does not depend on the number of rows.
 */
#pragma once

#include "common/kernel/kernel.h"
#include "common/kernel/cpu/vector.h"

struct dnnl_engine;

typedef struct ls_product ls_product;

/** oneDNN's engine for a device and those like it, and what it chose for products so far. Used on
 * the device's thread alone, except for its first members. */
typedef struct ls_product_library {
    struct dnnl_engine *engine;
    char name[64];        /**< "oneDNN 2.6.3 (brg:avx512_core", for the caller to go on with */
    bool multiplies_bf16; /**< has products of bfloat16 here (cpu_bf16.c) */
    struct ls_product_choice *choices; /**< [count] */
    size_t count;
} ls_product_library;

/** The device's library, opened with its first kernels, and closed with the device. */
ls_status ls_product_library_find(ls_device *device, ls_product_library **out);

/** As above, for an engine. Call it on the device's thread. */
bool ls_bf16_multiplies(struct dnnl_engine *engine);

/** What makes products. */
typedef struct ls_product_maker {
    ls_kernels *kernels; /**< whose scratch they use */
    ls_product_library *library;
    const ls_vector_loops *loops;
} ls_product_maker;

/** `threads`: of a packed product. A brg product leaves the spec's mask to the caller. */
ls_status ls_product_open(const ls_product_maker *maker, const ls_vector_product *spec, int threads,
                          ls_product **out);

/** Takes NULL. */
void ls_product_close(ls_product *product);

/** Whether it is packed; else it is brg. */
bool ls_product_packed(const ls_product *product);

/** On a thread of the device. */
ls_status ls_product_run(ls_product *product);

/** Bytes of scratch memory of a packed product on so many threads. */
size_t ls_packed_scratch(int threads);

/** A packed product, shared among the threads of a device; `scratch` is 64-byte aligned. */
ls_status ls_packed_run(const ls_vector_loops *loops, const ls_vector_product *product, int threads,
                        void *scratch);
