/* SPDX-License-Identifier: MIT */
/*
 * Networks, as far as a choice between all-reduces needs them: what each takes by a closed form
 * (Hockney's model, "The communication challenge for MPP", Parallel Computing 20, 1994; per
 * algorithm as in Thakur, Rabenseifner and Gropp, IJHPCA 19, 2005), with ports that several ranks
 * share. An algorithm is a series of rounds. The messages of a round begin together; a round takes
 * the largest latency and the time of the fullest port. Leaves out what adding takes, and whatever
 * else is at work.
 */
#pragma once

#include "common/comm/comm.h"
#include "common/device/link.h"

/** What a message takes: latency + bytes / bandwidth. */
typedef struct ls_wire {
    double latency_ns;
    double bytes_per_s; /**< of each port, in and out; 0 if not limited */
} ls_wire;

enum { LS_DISTANCES = 12 }; /**< powers of two up to the most hosts */

/** A network of devices, which have a port each, and of hosts, whose devices share one. Hosts that
 * are 2^k to 2^(k + 1) - 1 apart, or more with the last k, have the latency of distant[k] in place
 * of the host's, and all their messages share its bandwidth; all zero: as any two hosts. */
typedef struct ls_wires {
    ls_wire device;                /**< of every message */
    ls_wire host;                  /**< in addition, between hosts */
    bool hosts;                    /**< hosts have ports; else each device is a host */
    ls_wire distant[LS_DISTANCES]; /**< [k] between hosts so far apart */
} ls_wires;

/** Sets `out` to the network of a link or, without one (NULL, or all zero), of processes on so many
 * hosts and an unknown network. Returns false for one host without a link. */
bool ls_wires_estimate(const ls_link *link, int hosts, ls_wires *out);

/** Devices on a network. */
typedef struct ls_comm_network {
    ls_wires wires;
    const ls_layout *layout; /**< hosts of all devices, below `devices`; NULL if they are on one */
    int devices;
} ls_comm_network;

/** Equal all-reduces, or their halves, that groups of devices do at the same time: rank r of group
 * g is device g x group_stride + r x stride. */
typedef struct ls_sum_load {
    int ranks, stride;
    int groups, group_stride;
    const ls_layout
        *layout; /**< of a group's ranks, as of its communicator; NULL means one process */
    ls_half half;
    ls_extent extent;
    double times; /**< how often they come in a step */
} ls_sum_load;

/** Rounds of messages of one load, on a network. */
typedef struct ls_rounds {
    const ls_comm_network *network;
    const ls_sum_load *load;
    double *bytes;     /**< [5, devices]: out of and into devices, hosts; between hosts */
    int *used;         /**< [5 x devices] ports that have any */
    size_t used_count; /**< see used */
    double latency_ns; /**< of the round */
} ls_rounds;

/** Adds a message from one rank of each group to another to the round; none without elements. */
void ls_rounds_send(ls_rounds *rounds, int from, int to, size_t elements);

/** Ends the round, and returns what it takes, in ns; the next one has no messages. */
double ls_rounds_end(ls_rounds *rounds);

/** Sets *ns to what the loads take, one after the other. LS_CODE_USAGE if the algorithm has no
 * closed form (ls_allreduce.time). */
ls_status ls_allreduce_time(const ls_allreduce *algorithm, const ls_comm_network *network,
                            const ls_sum_load *loads, size_t count, double *ns);

/** Sets *out to the algorithm by which the loads take the least time; to `usual` unless another
 * algorithm takes at least a hundredth less. If one of the loads is a half, only algorithms that
 * can be cut in two count. The choice is equal on every rank. */
ls_status ls_allreduce_fastest(const ls_comm_network *network, const ls_sum_load *loads,
                               size_t count, const ls_allreduce *usual, const ls_allreduce **out);
