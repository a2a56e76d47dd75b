/* SPDX-License-Identifier: MIT */
/* The cuda table's kernels, compiled for a CPU; see gpu_emulate.h. */
#include "common/device/tests/gpu_emulate.h"

#include "common/kernel/cuda/gpu_batch.cu"
#include "common/kernel/cuda/gpu_conv.cu"
#include "common/kernel/cuda/gpu_conv_max.cu"
#include "common/kernel/cuda/gpu_dense.cu"
#include "common/kernel/cuda/gpu_elements.cu"
#include "common/kernel/cuda/gpu_layout.cu"
#include "common/kernel/cuda/gpu_losses.cu"
#include "common/kernel/cuda/gpu_lstm.cu"
#include "common/kernel/cuda/gpu_pools.cu"
#include "common/kernel/cuda/gpu_residual.cu"
