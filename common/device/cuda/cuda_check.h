/* SPDX-License-Identifier: MIT */
/*
 * CUDA's failures in words, for files that do not include its header. Here alone is decided what a
 * failure means: a device that has fallen over (final), a step that cannot be captured, memory that
 * is not there.
 */
#pragma once

#include "common/base/status.h"

/** LS_OK for 0, else the failure of `doing` on a device ("gpu:0"); `error` is a cudaError_t. */
ls_status ls_cuda_check_code(const char *where, const char *doing, int error);

/**
 * Marks a failure that a library reported as final if the calling thread's device has failed: the
 * library may not know. Takes LS_OK; returns its argument.
 */
ls_status ls_cuda_blame(ls_status status);
