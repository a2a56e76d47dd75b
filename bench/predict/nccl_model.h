/* SPDX-License-Identifier: MIT */
/*
 * NCCL's own estimate of its collectives' times, by which it chooses algorithm and protocol
 * (NCCL 2.29.7, src/graph/tuning.cc: ncclTopoTuneModel, ncclTopoGetAlgoTime): time = latency +
 * bytes / bandwidth, and the smallest counts.
 *     ring   2 (n - 1) steps (halves: n - 1); 2 (hosts - 1) of them cross the network; all links
 *            carry 2 (n - 1) / n times the bytes
 *     tree   of an all-reduce only: up and down a chain of a host's devices and a binary tree of
 *            hosts, in pipeline; links carry the bytes twice, on two hosts the network once
 * with protocols LL and LL128 (data with flags: low latency, part of the bandwidth) and Simple.
 * Constants are for Ampere GPUs and AMD hosts. A platform gives what NCCL finds in the machine:
 * bandwidths; more than PCIe's within hosts is NVLink's; its latency between hosts is what NCCL
 * asks the network for, and comes on top of NCCL's (twice with Simple, as there). Leaves out: that
 * within hosts, limits of single channels, NVLS, CollNet, PAT, and what differs with one GPU a host
 * (LL128 where the card is near, 0.85 of a tree's bandwidth).
 */
#pragma once

#include "bench/play/platform.h"
#include "bench/predict/virtual.h"

typedef struct ls_nccl_choice {
    bool tree;    /**< else a ring */
    int protocol; /**< 0 means LL; 1 means LL128, 2: Simple */
    double ns;
} ls_nccl_choice;

/** What NCCL would choose for `ranks` ranks, 2 or more, evenly on so many hosts. `host`, `net`:
 * links within and between hosts. */
ls_nccl_choice ls_nccl_choose(ls_half half, int ranks, int hosts, double bytes,
                              ls_platform_level host, ls_platform_level net);

/** The time in ns of NCCL's choice for a communicator's operation; on a flat platform each device
 * has its own host. */
double ls_nccl_allreduce(const ls_virtual_comm *comm, const ls_platform *platform,
                         int devices_per_host);
