/* SPDX-License-Identifier: MIT */
/* Failures of CUDA's calls in words, for files that include its header; see cuda_check.h. */
#pragma once

#include "common/base/status.h"

#include <cuda_runtime_api.h>

/** The failure of `doing` on a device ("gpu:0"), or LS_OK for cudaSuccess; clears CUDA's last
 * error. */
ls_status ls_cuda_check(const char *where, const char *doing, cudaError_t error);
/** The failure of an error; `remedy` says what would work; NULL means derived from the error. */
ls_status ls_cuda_fail(const char *where, const char *doing, cudaError_t error, const char *remedy);
