/* SPDX-License-Identifier: MIT */
/* The communicator's kernel, compiled for a CPU; see gpu_emulate.h. */
#include "common/device/tests/gpu_emulate.h"

#include "common/comm/cuda/gpu_sums.cu"
