/* SPDX-License-Identifier: MIT */
/*
 * NCCL, loaded when it is first asked for: its functions, and its failures in words. Nothing of it
 * is linked. That the library here has all the functions is tested without a GPU.
 */
#pragma once

#include "common/base/status.h"

#include <nccl.h>
#include <stdint.h>

#define LS_NCCL_FUNCTIONS(X)                                                                       \
    X(ncclGetVersion)                                                                              \
    X(ncclGetErrorString)                                                                          \
    X(ncclGetLastError)                                                                            \
    X(ncclGetUniqueId)                                                                             \
    X(ncclCommInitRank)                                                                            \
    X(ncclCommDestroy)                                                                             \
    X(ncclCommAbort)                                                                               \
    X(ncclCommGetAsyncError)                                                                       \
    X(ncclGroupStart)                                                                              \
    X(ncclGroupEnd)                                                                                \
    X(ncclAllReduce)                                                                               \
    X(ncclReduceScatter)                                                                           \
    X(ncclAllGather)                                                                               \
    X(ncclReduce)                                                                                  \
    X(ncclBroadcast)

/** Pointers and nothing else: ls_dynamic_load fills them in this order. */
typedef struct ls_nccl_functions {
#define LS_NCCL_MEMBER(name) __typeof__(name) *name;
    LS_NCCL_FUNCTIONS(LS_NCCL_MEMBER)
#undef LS_NCCL_MEMBER
} ls_nccl_functions;

typedef struct ls_nccl {
    ls_nccl_functions call;
    void *library;    /**< for ls_nccl_unload; NULL means functions of a test */
    uint64_t open_ns; /**< most time to open communicators; 0 means the default */
} ls_nccl;

/** LS_CODE_MISSING if the library is missing or has another major version. */
ls_status ls_nccl_load(ls_nccl *out);
void ls_nccl_unload(ls_nccl *nccl);

/** LS_OK, or the failure of `what`, with the library's own message. */
ls_status ls_nccl_check(const ls_nccl *nccl, ncclResult_t result, const char *what);
