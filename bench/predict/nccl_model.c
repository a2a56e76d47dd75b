/* SPDX-License-Identifier: MIT */
/* NCCL's cost model; see nccl_model.h. Times here are us and bandwidths GB/s, as there. */
#include "bench/predict/nccl_model.h"

#include <math.h>

enum { TREE, RING, ALGORITHMS };
enum { LL, LL128, SIMPLE, PROTOCOLS };
enum { NVLINK, PCI, NET, HARDWARE };

static const double base_us[ALGORITHMS][PROTOCOLS] = {{6.8, 14.0, 8.4}, {6.6, 14.0, 8.4}};

static const double hop_us[HARDWARE][ALGORITHMS][PROTOCOLS] = {
    [NVLINK] = {{0.6, 1.25, 4.0}, {0.6, 1.9, 3.4}},
    [PCI] = {{1.0, 1.9, 4.0}, {1.0, 2.5, 5.7}},
    [NET] = {{5.0, 8.5, 14.0}, {2.7, 4.0, 14.0}}};

static const double ll_most[3] = {87.7, 22.5, 19.0}; /* GB/s on 1, 2 and more hosts */
static const double pcie_most = 25;                  /* GB/s, 16 lanes of generation 4 */
static const double post_us = 2;                     /* a message between hosts, of the host's */

/* "Trees are not perfectly sticking to the model for medium sizes": from 64 bytes on, by doubling.
 */
static const double tree_factor[PROTOCOLS][23] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}};

typedef struct question {
    int ranks, hosts, steps, crossing; /* of a ring's steps */
    double bytes, host, net, wire_us;
    bool nvlink;
} question;

static double rate(ls_platform_level level)
{
    return level.bytes_per_s > 0 ? level.bytes_per_s * 1e-9 : INFINITY;
}

static double ring_us(const question *q, int p)
{
    double bus = q->hosts > 1 ? fmin(q->host, q->net) : q->host;
    double inside = hop_us[q->nvlink ? NVLINK : PCI][RING][p];
    /* with one device a host latencies are fully exposed */
    double net_hop_us = hop_us[NET][q->ranks == q->hosts ? TREE : RING][p] + q->wire_us;
    if (p == LL)
        bus = fmin(ll_most[q->hosts > 2 ? 2 : q->hosts - 1], bus * 0.5);
    if (p == LL128)
        bus *= 0.92;
    if (p == SIMPLE)
        net_hop_us += q->wire_us;
    if (q->hosts > 1)
        inside = fmax(inside, p == SIMPLE ? 3 * post_us : post_us);
    double latency =
        base_us[RING][p] + (q->steps - q->crossing) * inside + q->crossing * net_hop_us;
    if (p == SIMPLE && q->hosts > 1 && q->steps > q->ranks && q->bytes >= 128 * q->ranks)
        latency *= 1.4; /* "plateau effect", of two channels */
    return latency + q->bytes * 1e-3 / (bus * q->ranks / q->steps);
}

static double tree_us(const question *q, int p)
{
    const double net = q->hosts == 2 ? 2 * q->net : q->net;
    double bus = (q->hosts > 1 ? fmin(q->host, net) : q->host) * 0.92;
    double net_hop_us = hop_us[NET][TREE][p] + q->wire_us;
    if (p == LL)
        bus = fmin(bus / 3.8, ll_most[q->hosts > 2 ? 2 : q->hosts - 1]);
    if (p == LL128)
        bus *= q->hosts == 1 ? 7.0 / 9 : 120.0 / 128;
    if (p == SIMPLE)
        net_hop_us += q->wire_us;
    const int size = q->bytes >= 64 ? ilogb(q->bytes) - 6 : -1;
    if (size >= 0 && size < 23)
        bus *= tree_factor[p][size];
    const double latency =
        base_us[TREE][p] +
        2 * ((q->ranks / q->hosts - 1) * hop_us[q->nvlink ? NVLINK : PCI][TREE][p] +
             (q->hosts > 1 ? ilogb(q->hosts) * net_hop_us : 0));
    return latency + q->bytes * 1e-3 / (bus * 0.5);
}

ls_nccl_choice ls_nccl_choose(ls_half half, int ranks, int hosts, double bytes,
                              ls_platform_level host, ls_platform_level net)
{
    const int passes = half == LS_HALVES ? 2 : 1;
    const question q = {.ranks = ranks,
                        .hosts = hosts,
                        .steps = passes * (ranks - 1),
                        .crossing = passes * (hosts - 1),
                        .bytes = bytes,
                        .host = rate(host),
                        .net = rate(net),
                        .wire_us = net.latency_ns * 1e-3,
                        .nvlink = ranks > hosts && rate(host) > pcie_most};
    ls_nccl_choice best = {.ns = INFINITY};
    for (int a = 0; a < ALGORITHMS; a++)
        for (int p = 0; p < PROTOCOLS; p++) {
            if ((a == TREE && half != LS_HALVES) || (p == LL128 && !q.nvlink))
                continue;
            const double ns = 1e3 * (a == TREE ? tree_us : ring_us)(&q, p);
            if (ns < best.ns)
                best = (ls_nccl_choice){a == TREE, p, ns};
        }
    return best;
}

double ls_nccl_allreduce(const ls_virtual_comm *comm, const ls_platform *platform,
                         int devices_per_host)
{
    const bool flat = platform->kind != LS_PLATFORM_TWO_LEVEL;
    const int per_host = flat ? 1 : devices_per_host;
    int hosts = 0;
    for (int rank = 0, other; rank < comm->size; rank++) {
        const int host = ls_virtual_number(comm->devices[rank]) / per_host;
        for (other = 0; ls_virtual_number(comm->devices[other]) / per_host != host;)
            other++;
        hosts += other == rank; /* the first on its host */
    }
    const double bytes = (double)comm->extent.count * sizeof(float);
    return ls_nccl_choose(comm->half, comm->size, hosts, bytes, platform->device,
                          flat ? platform->device : platform->net)
        .ns;
}
