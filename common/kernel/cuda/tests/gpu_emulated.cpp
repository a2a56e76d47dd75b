/* SPDX-License-Identifier: MIT */
/* The cuda table's kernels, compiled for a CPU; see gpu_emulate.h. */
#include "common/device/tests/gpu_emulate.h"

#include "common/kernel/cuda/elements/gpu_batch.cu"
#include "common/kernel/cuda/elements/gpu_combine.cu"
#include "common/kernel/cuda/elements/gpu_dropout.cu"
#include "common/kernel/cuda/conv/gpu_conv.cu"
#include "common/kernel/cuda/conv/gpu_conv_direct.cu"
#include "common/kernel/cuda/conv/gpu_conv_max.cu"
#include "common/kernel/cuda/conv/gpu_conv_weights.cu"
#include "common/kernel/cuda/product/gpu_bf16.cu"
#include "common/kernel/cuda/product/gpu_dense.cu"
#include "common/kernel/cuda/product/gpu_product.cu"
#include "common/kernel/cuda/elements/gpu_elements.cu"
#include "common/kernel/cuda/elements/gpu_feed.cu"
#include "common/kernel/cuda/images/gpu_layout.cu"
#include "common/kernel/cuda/elements/gpu_losses.cu"
#include "common/kernel/cuda/elements/gpu_softmax_slices.cu"
#include "common/kernel/cuda/sequences/gpu_lstm.cu"
#include "common/kernel/cuda/images/gpu_pools.cu"
#include "common/kernel/cuda/images/gpu_batch_norm.cu"
#include "common/kernel/cuda/images/gpu_residual.cu"
#include "common/kernel/cuda/transformer/gpu_attention.cu"
#include "common/kernel/cuda/transformer/gpu_attention_cores.cu"
#include "common/kernel/cuda/transformer/gpu_attention_cores_back.cu"
#include "common/kernel/cuda/transformer/gpu_transformer.cu"

/* Launches so far; from here on they are only counted, where that is wanted. */
extern "C" uint64_t gpu_emulated_launches(bool only);
extern "C" uint64_t gpu_emulated_launches(bool only)
{
    counted.only = only;
    return counted.launches;
}
