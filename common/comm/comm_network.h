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

/** What a message takes: latency + bytes / bandwidth. */
typedef struct ls_wire {
    double latency_ns;
    double bytes_per_s; /**< of each port, in and out; 0: not limited */
} ls_wire;

/** A network of devices, which have a port each, and of hosts, whose devices share one. */
typedef struct ls_wires {
    ls_wire device; /**< of every message */
    ls_wire host;   /**< in addition, between hosts */
    bool hosts;     /**< hosts have ports; else each device is a host */
} ls_wires;

/** The wires between hosts where nothing is known of them but that they are several. */
extern const ls_wires ls_wires_assumed;

/** Devices on a network. */
typedef struct ls_comm_network {
    ls_wires wires;
    const int *host; /**< [devices] below `devices`; NULL: each device is a host */
    int devices;
} ls_comm_network;

/** Equal all-reduces, or halves of these, that groups of devices do at the same time: rank r of
 * group g is device g x group_stride + r x stride. */
typedef struct ls_sum_load {
    int ranks, stride;
    int groups, group_stride;
    const ls_layout *layout; /**< of a group's ranks, as of its communicator; NULL: one process */
    ls_half half;
    ls_extent extent;
    double times; /**< how often they come in a step */
} ls_sum_load;

/** Rounds of messages of one load, on a network. */
typedef struct ls_rounds {
    const ls_comm_network *network;
    const ls_sum_load *load;
    double *bytes;     /**< [4, devices] of the round: sent and received by devices, by hosts */
    int *used;         /**< [4 x devices] ports that have any */
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

/** Sets *out to the algorithm by which the loads take the least time; to `usual` unless another one
 * takes at least a hundredth less. If one of the loads is a half, only algorithms that can be cut
 * in two count. The same on every rank. */
ls_status ls_allreduce_fastest(const ls_comm_network *network, const ls_sum_load *loads,
                               size_t count, const ls_allreduce *usual, const ls_allreduce **out);
