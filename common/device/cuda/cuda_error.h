/* SPDX-License-Identifier: MIT */
/* Failures of calls of CUDA in words, for those who have its header; see cuda_check.h. */
#pragma once

#include "common/base/status.h"

#include <cuda_runtime_api.h>

/** The failure of `doing` on a device ("gpu:0"), or LS_OK for cudaSuccess; clears CUDA's note. */
ls_status ls_cuda_check(const char *where, const char *doing, cudaError_t error);
/** The same of an error; `remedy` is what would work, NULL: what the error tells. */
ls_status ls_cuda_fail(const char *where, const char *doing, cudaError_t error, const char *remedy);
