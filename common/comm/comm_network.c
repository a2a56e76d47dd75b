/* SPDX-License-Identifier: MIT */
/* What all-reduces take on a network; see comm_network.h. */
#include "common/comm/comm_network.h"

#include "common/base/grow.h"

#include <stdlib.h>

bool ls_wires_estimate(const ls_link *link, int hosts, ls_wires *out)
{
    if (link && (link->latency_ns > 0 || link->bytes_per_s > 0)) {
        *out = (ls_wires){.device = {(double)link->latency_ns, link->bytes_per_s}};
        return true;
    }
    /* As of memory within a host, and of 10 Gbit/s Ethernet. */
    *out = (ls_wires){.device = {1e3, 10e9}, .host = {20e3, 1.25e9}, .hosts = true};
    return hosts > 1;
}

/* ---- Rounds --------------------------------------------------------------------------------- */

enum { DEVICE_OUT, DEVICE_IN, HOST_OUT, HOST_IN, APART, PORTS };

/* 0 where hosts have no ports. */
static int host_of(const ls_comm_network *net, int device)
{
    const ls_layout *layout = net->layout;
    return net->wires.hosts && layout ? layout->host[device / (net->devices / layout->processes)]
                                      : 0;
}

static void use(ls_rounds *r, int kind, int number, double bytes)
{
    const int port = kind * r->network->devices + number;
    if (r->bytes[port] == 0) // NOLINT(clang-diagnostic-float-equal): it is set to 0
        r->used[r->used_count++] = port;
    r->bytes[port] += bytes;
}

void ls_rounds_send(ls_rounds *r, int from, int to, size_t elements)
{
    const ls_sum_load *load = r->load;
    const ls_comm_network *net = r->network;
    const double bytes = (double)elements * sizeof(float);
    for (int g = 0; g < load->groups && elements && from != to; g++) {
        const int a = g * load->group_stride + from * load->stride,
                  b = g * load->group_stride + to * load->stride;
        const int host_a = host_of(net, a), host_b = host_of(net, b);
        double latency_ns = net->wires.device.latency_ns;
        use(r, DEVICE_OUT, a, bytes);
        use(r, DEVICE_IN, b, bytes);
        if (host_a != host_b) {
            /* how far the hosts are apart, as in ls_wires */
            int k = 0, hosts = host_a < host_b ? host_b - host_a : host_a - host_b;
            while (k + 1 < LS_DISTANCES && hosts >> (k + 1))
                k++;
            const ls_wire *distant = &net->wires.distant[k];
            latency_ns +=
                distant->bytes_per_s > 0 ? distant->latency_ns : net->wires.host.latency_ns;
            use(r, HOST_OUT, host_a, bytes);
            use(r, HOST_IN, host_b, bytes);
            use(r, APART, k, bytes);
        }
        r->latency_ns = latency_ns > r->latency_ns ? latency_ns : r->latency_ns;
    }
}

static const ls_wire *wire_of(const ls_wires *wires, int kind, int number)
{
    return kind == APART     ? &wires->distant[number]
           : kind < HOST_OUT ? &wires->device
                             : &wires->host;
}

double ls_rounds_end(ls_rounds *r)
{
    double most_ns = 0;
    for (size_t i = 0; i < r->used_count; i++) {
        const int port = r->used[i];
        const ls_wire *wire =
            wire_of(&r->network->wires, port / r->network->devices, port % r->network->devices);
        const double ns = wire->bytes_per_s > 0 ? r->bytes[port] * 1e9 / wire->bytes_per_s : 0;
        most_ns = ns > most_ns ? ns : most_ns;
        r->bytes[port] = 0;
    }
    most_ns += r->latency_ns;
    r->used_count = 0;
    r->latency_ns = 0;
    return most_ns;
}

/* ---- Times ---------------------------------------------------------------------------------- */

static ls_status add_loads(const ls_allreduce *algorithm, ls_rounds *r, const ls_sum_load *loads,
                           size_t count, double *ns)
{
    *ns = 0;
    for (size_t i = 0; i < count; i++) {
        double one = 0;
        r->load = &loads[i];
        if (loads[i].ranks > 1 && loads[i].extent.count)
            LS_TRY(algorithm->time(r, loads[i].half, loads[i].extent, &one));
        *ns += one * loads[i].times;
    }
    return LS_OK;
}

ls_status ls_allreduce_time(const ls_allreduce *algorithm, const ls_comm_network *network,
                            const ls_sum_load *loads, size_t count, double *ns)
{
    ls_rounds r = {.network = network};
    const size_t ports = PORTS * (size_t)network->devices;
    if (!algorithm->time)
        return ls_fail(
            LS_CODE_USAGE, "all-reduce", algorithm->name,
            "lockstep has no formula for the time of this algorithm, so it cannot estimate the "
            "time; use --allreduce ring, halving-doubling, tree, flat or hierarchical");
    ls_status status = ls_allocate("communicator", &r.bytes, ports, sizeof *r.bytes);
    if (!status)
        status = ls_allocate("communicator", &r.used, ports, sizeof *r.used);
    if (!status)
        status = add_loads(algorithm, &r, loads, count, ns);
    free(r.bytes);
    free(r.used);
    return status;
}

static bool is_cut(const ls_sum_load *loads, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (loads[i].half != LS_HALVES)
            return true;
    return false;
}

ls_status ls_allreduce_fastest(const ls_comm_network *network, const ls_sum_load *loads,
                               size_t count, const ls_allreduce *usual, const ls_allreduce **out)
{
    static const double worth = 0.99;
    const bool cut = is_cut(loads, count);
    const ls_allreduce *a;
    double least, ns;
    *out = usual;
    LS_TRY(ls_allreduce_time(usual, network, loads, count, &least));
    for (const void *const *e = ls_allreduces.entries; (a = *e); e++) {
        if (a == usual || !a->time || (cut && !a->half))
            continue;
        LS_TRY(ls_allreduce_time(a, network, loads, count, &ns));
        if (ns < least * worth) {
            least = ns;
            *out = a;
        }
    }
    return LS_OK;
}
