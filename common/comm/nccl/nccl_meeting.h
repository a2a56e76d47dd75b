/* SPDX-License-Identifier: MIT */
/* Processes that open communicators of NCCL first connect through another communicator. */
#pragma once

#include "common/comm/comm.h"
#include "common/comm/nccl/nccl_library.h"

/** The ranks of all processes, the first of this one, and rank 0's id. */
typedef struct ls_nccl_rendezvous {
    int size, first;
    ncclUniqueId id;
} ls_nccl_rendezvous;

/**
 * Exchanges the ranks of all processes (NULL means only this one), each with `count` devices;
 * `own_status`: this process's failure so far, with which all fail. LS_CODE_USAGE if two ranks use
 * one GPU.
 */
ls_status ls_nccl_gather_ranks(const ls_nccl *nccl, ls_status own_status, ls_comm *processes,
                               ls_device *const *devices, int count, ls_nccl_rendezvous *out);
