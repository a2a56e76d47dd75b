/* SPDX-License-Identifier: MIT */
/*
 * What `auto` chooses, against playing: on each platform every all-reduce is played in virtual
 * time, from 4 KB to 5 GB, by all devices or by groups of these at once. Tolerances: the chosen one
 * takes at most 1.1 times as long as the fastest, and the time of its formula is within 1.25 of the
 * played time: a formula's rounds begin together, and played ones overlap.
 */
#include "bench/play/engine.h"
#include "bench/predict/expand.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const double chosen_within = 1.1, formula_within = 1.25;

enum { DEVICES_MOST = 64, ENDS_MOST = 16 };

static const char *const names[] = {"flat", "ring", "tree", "halving-doubling", "hierarchical"};
static const double sizes[] = {4e3, 64e3, 1e6, 30e6, 700e6, 5.3e9};
enum { NAMES = sizeof names / sizeof *names, SIZES = sizeof sizes / sizeof *sizes };

/* Devices on a platform, and the groups of these that sum, as in ls_sum_load. */
typedef struct place {
    const char *platform;
    int devices, per_host;
    int ranks, stride, groups, group_stride;
    ls_half half;
} place;

static void must(ls_status status)
{
    if (status)
        fail_msg("%s", ls_status_text(status));
}

/* ---- Graphs of all-reduces ------------------------------------------------------------------- */

/* An end of a message that waits for the other end: it is there after `ready`; `join` waits. */
typedef struct end {
    uint32_t ready, join;
} end;

/* Messages from one rank to another, in order. */
typedef struct channel {
    end ends[ENDS_MOST];
    int count;
    bool sends; /* which ends wait */
} channel;

typedef struct grapher {
    ls_play_graph graph;
    channel channels[DEVICES_MOST][DEVICES_MOST]; /* from, to */
    uint32_t begin;                               /* when the latest all-reduce has ended */
    ls_expansions expansions;
    ls_device *devices[DEVICES_MOST];
} grapher;

static void meet(grapher *g, int from, int to, const ls_move *m, bool sends, end own)
{
    channel *c = &g->channels[from][to];
    uint32_t message;
    if (!c->count || c->sends == sends) {
        assert_true(c->count < ENDS_MOST);
        c->sends = sends;
        c->ends[c->count++] = own;
        return;
    }
    const end other = c->ends[0];
    memmove(c->ends, c->ends + 1, (size_t)--c->count * sizeof *c->ends);
    must(ls_play_message(&g->graph, 0, from, to,
                         (double)(sends ? m->sent : m->received) * sizeof(float),
                         sends ? m->sent_rounds : m->came_rounds, own.ready, &message));
    must(ls_play_wait(&g->graph, other.ready, message));
    must(ls_play_wait(&g->graph, message, own.join));
    must(ls_play_wait(&g->graph, message, other.join));
}

/* Appends one rank's moves; returns its last activity. */
static uint32_t add_rank(grapher *g, const place *p, int group, const ls_expanded *e, int rank)
{
    const int device = group * p->group_stride + rank * p->stride;
    uint32_t tail = g->begin;
    for (size_t i = e->first[rank]; i < e->first[rank + 1]; i++) {
        const ls_move *m = &e->moves[i];
        end own = {.ready = tail};
        must(ls_play_delay(&g->graph, 0, device, 0, tail, &own.join));
        if (m->to >= 0)
            meet(g, device, group * p->group_stride + m->to * p->stride, m, true, own);
        if (m->from >= 0)
            meet(g, group * p->group_stride + m->from * p->stride, device, m, false, own);
        tail = own.join;
    }
    return tail;
}

/* Appends an all-reduce of all groups at once, after what is there. */
static void add_all(grapher *g, const place *p, const ls_allreduce *a, const ls_sum_load *load)
{
    const ls_virtual_comm what = {.size = p->ranks,
                                  .devices = g->devices,
                                  .whole = true,
                                  .half = p->half,
                                  .extent = load->extent,
                                  .layout = load->layout};
    size_t number;
    uint32_t done, last[DEVICES_MOST];
    int count = 0;
    must(ls_expand(&g->expansions, a, &what, &number));
    const ls_expanded *e = g->expansions.items[number];
    for (int group = 0; group < p->groups; group++)
        for (int rank = 0; rank < p->ranks; rank++)
            last[count++] = add_rank(g, p, group, e, rank);
    must(ls_play_delay(&g->graph, 0, 0, 0, g->begin, &done));
    for (int i = 0; i < count; i++)
        must(ls_play_wait(&g->graph, last[i], done));
    g->begin = done;
}

/* ---- Choices --------------------------------------------------------------------------------- */

static const ls_allreduce *usual(const place *p, size_t bytes)
{
    const ls_comm like = {.backend = &ls_comm_virtual, .size = p->ranks, .linked = true};
    return p->half == LS_HALVES ? ls_allreduce_auto(&like, bytes) : ls_allreduce_auto_halves(&like);
}

/* Compares the choices with what was played: times [SIZES, NAMES] in ns; 0: it has no half. */
static void judge(const place *p, const ls_comm_network *network, ls_sum_load *load,
                  const double times[SIZES][NAMES])
{
    for (int s = 0; s < SIZES; s++) {
        const ls_allreduce *chosen;
        double least = INFINITY, ns = 0, formula_ns;
        load->extent = ls_elements((size_t)(sizes[s] / sizeof(float)));
        must(ls_allreduce_fastest(network, load, 1, usual(p, (size_t)sizes[s]), &chosen));
        must(ls_allreduce_time(chosen, network, load, 1, &formula_ns));
        for (int a = 0; a < NAMES; a++) {
            least = times[s][a] > 0 && times[s][a] < least ? times[s][a] : least;
            ns = strcmp(names[a], chosen->name) == 0 ? times[s][a] : ns;
        }
        if (!(ns <= least * chosen_within) || !(formula_ns <= ns * formula_within) ||
            !(ns <= formula_ns * formula_within)) {
            for (int a = 0; a < NAMES; a++)
                print_message("%s: %.6g ms\n", names[a], times[s][a] / 1e6);
            fail_msg(
                "%s, %d devices, %d a host, groups of %d, %.3g bytes: %s takes %.6g ms, by its "
                "formula %.6g, and the fastest %.6g",
                p->platform, p->devices, p->per_host, p->ranks, sizes[s], chosen->name, ns / 1e6,
                formula_ns / 1e6, least / 1e6);
        }
    }
}

static void play_place(const place *p)
{
    ls_platform platform;
    ls_engine engine = LS_ENGINE_AUTO;
    double times[SIZES][NAMES] = {0};
    uint32_t ends[SIZES][NAMES] = {0}, begins[SIZES][NAMES];
    int hosts[DEVICES_MOST], group_hosts[DEVICES_MOST];
    const ls_layout layout = {.processes = p->ranks, .host = group_hosts},
                    all = {.processes = p->devices, .host = hosts};
    ls_comm_network network = {.layout = &all, .devices = p->devices};
    must(ls_platform_parse(p->platform, &platform));
    if (!LS_HAS_SIMGRID && platform.kind != LS_PLATFORM_FLAT)
        return;
    must(ls_engine_choose(&platform, &engine));
    must(ls_engine_wires(engine, &platform, p->devices, p->per_host, &network.wires));
    grapher *g = calloc(1, sizeof *g);
    assert_non_null(g);
    for (int i = 0; i < p->devices; i++) {
        const ls_device_name name = {
            .kind = LS_DEVICE_CPU, .index = i, .logical = -1, .replica = -1, .task = -1};
        must(ls_virtual_device_open(&name, i, NULL, &g->devices[i]));
        hosts[i] = i / p->per_host;
    }
    for (int r = 0; r < p->ranks; r++)
        group_hosts[r] = hosts[r * p->stride];
    ls_sum_load load = {
        p->ranks, p->stride, p->groups, p->group_stride, p->per_host > 1 ? &layout : NULL,
        p->half,  .times = 1};
    must(ls_play_delay(&g->graph, 0, 0, 0, LS_PLAY_NONE, &g->begin));
    for (int s = 0; s < SIZES; s++)
        for (int a = 0; a < NAMES; a++) {
            const ls_allreduce *algorithm;
            must(ls_allreduce_find(names[a], &algorithm));
            load.extent = ls_elements((size_t)(sizes[s] / sizeof(float)));
            begins[s][a] = g->begin;
            if (p->half == LS_HALVES || algorithm->half)
                add_all(g, p, algorithm, &load);
            ends[s][a] = g->begin;
        }
    must(ls_play_seal(&g->graph, 0));
    const ls_play what = {.graph = &g->graph,
                          .platform = &platform,
                          .devices = p->devices,
                          .devices_per_host = p->per_host};
    double *end_ns = calloc(g->graph.count, sizeof *end_ns);
    must(ls_engine_play(engine, &what, 1, end_ns));
    for (int s = 0; s < SIZES; s++)
        for (int a = 0; a < NAMES; a++)
            times[s][a] = end_ns[ends[s][a]] - end_ns[begins[s][a]];
    judge(p, &network, &load, times);
    free(end_ns);
    ls_play_close(&g->graph);
    ls_expansions_close(&g->expansions);
    for (int i = 0; i < p->devices; i++)
        ls_device_close(g->devices[i]);
    free(g);
}

/* Devices with a port each. */
static void flat(void **state)
{
    (void)state;
    static const char *const platforms[] = {"flat:latency=50us,bandwidth=1Gbps",
                                            "flat:latency=1us,bandwidth=100GB/s",
                                            "flat:bandwidth=1GB/s", "flat:latency=10us"};
    for (size_t i = 0; i < sizeof platforms / sizeof *platforms; i++)
        for (int n = 2; n <= 16; n += n < 9 ? 1 : 7)
            for (ls_half half = LS_HALVES; half <= LS_ALL_GATHER; half++)
                play_place(&(place){platforms[i], n, 1, n, 1, 1, 0, half});
}

/* Hosts whose devices share a port: all devices sum, or those at the same place of replicas, or
 * neighbours. */
static void two_levels(void **state)
{
    (void)state;
    static const char *const platforms[] = {"25gbe-4gpu",
                                            "100gib-8gpu",
                                            "dgx-a100",
                                            "two-level:host=1us@10GB/s,net=10us@25Gbps",
                                            "two-level:host=3us@300GB/s,net=10us@100Gbps",
                                            "two-level:host=10us@1GB/s,net=1us@10GB/s"};
    static const place places[] = {
        {NULL, 4, 2, 4, 1, 1, 0, LS_HALVES},           {NULL, 12, 4, 12, 1, 1, 0, LS_HALVES},
        {NULL, 16, 8, 16, 1, 1, 0, LS_HALVES},         {NULL, 64, 8, 64, 1, 1, 0, LS_HALVES},
        {NULL, 16, 8, 16, 1, 1, 0, LS_REDUCE_SCATTER}, {NULL, 24, 8, 24, 1, 1, 0, LS_ALL_GATHER},
        {NULL, 16, 8, 4, 4, 4, 1, LS_HALVES},          {NULL, 16, 2, 4, 4, 4, 1, LS_HALVES},
        {NULL, 32, 4, 8, 1, 4, 8, LS_REDUCE_SCATTER},
    };
    for (size_t i = 0; i < sizeof platforms / sizeof *platforms; i++)
        for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
            place p = places[k];
            p.platform = platforms[i];
            play_place(&p);
        }
}

/* Platform files: a crossbar; hosts on a wire that all share; two rooms, with a wire between. */
static void files(void **state)
{
    (void)state;
    static const char head[] = "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM "
                               "\"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">";
    static const char cluster[] = "<cluster id=\"%s\" prefix=\"%s-\" suffix=\"\" radical=\"%s\" "
                                  "speed=\"1Gf\" bw=\"1GBps\" lat=\"10us\" %s/>";
    static const char backbone[] = "bb_bw=\"2GBps\" bb_lat=\"5us\"";
    for (int kind = 0; kind < 3; kind++) {
        char name[64];
        snprintf(name, sizeof name, "test_allreduce_time.%d.xml", kind);
        FILE *file = fopen(name, "w");
        assert_non_null(file);
        fputs(head, file);
        if (kind < 2)
            fprintf(file, cluster, "a", "a", "0-15", kind ? backbone : "");
        else {
            fprintf(file, "<zone id=\"z\" routing=\"Full\">");
            fprintf(file, cluster, "a", "a", "0-7", backbone);
            fprintf(file, cluster, "b", "b", "8-15", backbone);
            fprintf(file, "<link id=\"w\" bandwidth=\"1GBps\" latency=\"10us\"/><zoneRoute "
                          "src=\"a\" dst=\"b\" gw_src=\"a-a_router\" "
                          "gw_dst=\"b-b_router\"><link_ctn id=\"w\"/></zoneRoute></zone>");
        }
        fputs("</platform>", file);
        fclose(file);
        play_place(&(place){name, 16, 1, 16, 1, 1, 0, LS_HALVES});
        play_place(&(place){name, 16, 2, 16, 1, 1, 0, LS_HALVES});
        play_place(&(place){name, 12, 1, 12, 1, 1, 0, LS_REDUCE_SCATTER});
        remove(name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(flat), cmocka_unit_test(two_levels),
                                       cmocka_unit_test(files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
