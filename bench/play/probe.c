/* SPDX-License-Identifier: MIT */
/* What is found out of a platform by playing: whether it has all routes, and what all-reduces are
 * chosen by; see engine.h. */
#include "bench/play/engine.h"

#include "common/base/grow.h"

static ls_status make_probe(ls_play_graph *g, int devices)
{
    uint32_t node;
    for (int i = 0; i < devices; i++) {
        if (devices > 1)
            LS_TRY(ls_play_message(g, 0, i, (i + 1) % devices, 1, 1, LS_PLAY_NONE, &node));
        if (i > 0)
            LS_TRY(ls_play_message(g, 0, 0, i, 1, 1, LS_PLAY_NONE, &node));
        if (i > 0)
            LS_TRY(ls_play_message(g, 0, i, 0, 1, 1, LS_PLAY_NONE, &node));
    }
    return ls_play_seal(g, 0);
}

static ls_status play_probe(ls_engine engine, const ls_platform *platform, int devices,
                            int devices_per_host, const ls_play_graph *graph, double **end_ns)
{
    const ls_play play = {.graph = graph,
                          .platform = platform,
                          .devices = devices,
                          .devices_per_host = devices_per_host};
    LS_TRY(ls_allocate("activities", end_ns, graph->count + 1, sizeof **end_ns));
    return ls_engine_play(engine, &play, 1, *end_ns);
}

ls_status ls_engine_probe(ls_engine engine, const ls_platform *platform, int devices,
                          int devices_per_host)
{
    ls_closing(ls_play_close) ls_play_graph graph = {0};
    ls_auto double *end_ns = NULL;
    LS_TRY(make_probe(&graph, devices));
    return play_probe(engine, platform, devices, devices_per_host, &graph, &end_ns);
}

/* ---- Wires of a file ------------------------------------------------------------------------- */

static const double probe_bytes = 1e9;

/* When the phases of a probe end: a large message to the next host; of each distance 2^k, a small
 * one, then a large one from each host. */
typedef struct phases {
    uint32_t small[LS_DISTANCES], alone, all[LS_DISTANCES];
    int distances, hosts;
} phases;

/* Appends a phase after `begin`: the first `senders` hosts send so many bytes to the one `distance`
 * behind each. */
static ls_status add_phase(ls_play_graph *g, int each, const int of[3], double bytes,
                           uint32_t begin, uint32_t *end)
{
    const int senders = of[0], distance = of[1], hosts = of[2];
    uint32_t sent;
    LS_TRY(ls_play_delay(g, 0, 0, 0, begin, end));
    for (int h = 0; h < senders; h++) {
        LS_TRY(
            ls_play_message(g, 0, h * each, (h + distance) % hosts * each, bytes, 1, begin, &sent));
        LS_TRY(ls_play_wait(g, sent, *end));
    }
    return LS_OK;
}

static ls_status add_phases(ls_play_graph *g, int each, phases *p)
{
    const int hosts = p->hosts;
    LS_TRY(add_phase(g, each, (const int[]){1, 1, hosts}, probe_bytes, LS_PLAY_NONE, &p->alone));
    for (int k = 0; 1 << k < hosts && k < LS_DISTANCES; k++) {
        const uint32_t before = k ? p->all[k - 1] : p->alone;
        LS_TRY(add_phase(g, each, (const int[]){1, 1 << k, hosts}, 1, before, &p->small[k]));
        LS_TRY(add_phase(g, each, (const int[]){hosts, 1 << k, hosts}, probe_bytes, p->small[k],
                         &p->all[k]));
        p->distances++;
    }
    return ls_play_seal(g, 0);
}

/* Bandwidth of `times` large messages that take so long beyond their latency; 0 if not limited. */
static double rate_of(int times, double ns)
{
    return ns > 0 ? times * probe_bytes * 1e9 / ns : 0;
}

static void take_wires(const double *end_ns, const phases *p, ls_wires *out)
{
    *out = (ls_wires){.hosts = true};
    for (int k = 0; k < p->distances; k++) {
        const double begin_ns = end_ns[k ? p->all[k - 1] : p->alone],
                     latency_ns = end_ns[p->small[k]] - begin_ns,
                     ns = end_ns[p->all[k]] - end_ns[p->small[k]] - latency_ns;
        out->distant[k] = (ls_wire){latency_ns, rate_of(p->hosts, ns)};
    }
    out->host = (ls_wire){out->distant[0].latency_ns,
                          rate_of(1, end_ns[p->alone] - out->distant[0].latency_ns)};
}

ls_status ls_engine_wires(ls_engine engine, const ls_platform *platform, int devices,
                          int devices_per_host, ls_wires *out)
{
    ls_closing(ls_play_close) ls_play_graph graph = {0};
    ls_auto double *end_ns = NULL;
    phases p = {.hosts = (devices + devices_per_host - 1) / devices_per_host};
    *out = ls_platform_wires(platform);
    if (platform->kind != LS_PLATFORM_FILE || devices <= devices_per_host)
        return LS_OK;
    LS_TRY(add_phases(&graph, devices_per_host, &p));
    LS_TRY(play_probe(engine, platform, devices, devices_per_host, &graph, &end_ns));
    take_wires(end_ns, &p, out);
    return LS_OK;
}
