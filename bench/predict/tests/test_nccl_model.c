/* SPDX-License-Identifier: MIT */
/*
 * NCCL's estimates, against lines "latency + bytes / bandwidth" that are worked out here from the
 * constants of NCCL 2.29.7's src/graph/tuning.cc, for two machines: the choice, its time, and where
 * tree and ring cross. Tolerance 1e-9, relative.
 */
#include "bench/predict/nccl_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

/* Latency in us, bandwidth in bytes a us. */
typedef struct line {
    double latency, bandwidth;
} line;

/* treeCorrectionFactor at 1, 2, .. 512 MiB and above (its entries 14 to 23). */
static const double from_1_mib[3][10] = {{.5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
                                         {.6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
                                         {.5, .6, .7, .8, .7, .7, .8, .9, .9, 1}};

static double time_of(line l, double bytes, double factor)
{
    return l.latency + bytes / (l.bandwidth * factor);
}

static const double host_rate = 230e9, net_rate = 24e9;

static ls_nccl_choice choose(int ranks, int hosts, double bytes, double wire_us)
{
    return ls_nccl_choose(LS_HALVES, ranks, hosts, bytes, (ls_platform_level){0, host_rate},
                          (ls_platform_level){wire_us * 1e3, net_rate});
}

static void expect(const ls_nccl_choice *found, const line tree[3], const line ring[3],
                   double bytes)
{
    const int at = (int)floor(log2(bytes / (1 << 20)));
    ls_nccl_choice best = {.ns = INFINITY};
    for (int p = 0; p < 3; p++) {
        const double t = 1e3 * time_of(tree[p], bytes, from_1_mib[p][at > 9 ? 9 : at]);
        const double r = 1e3 * time_of(ring[p], bytes, 1);
        best = t < best.ns ? (ls_nccl_choice){true, p, t} : best;
        best = r < best.ns ? (ls_nccl_choice){false, p, r} : best;
    }
    assert_int_equal(found->tree, best.tree);
    assert_int_equal(found->protocol, best.protocol);
    assert_true(fabs(found->ns - best.ns) <= 1e-9 * best.ns);
}

/* 8 GPUs on NVLink: 14 steps; tree: up and down a chain of 8. */
static void one_host(void **state)
{
    (void)state;
    static const line ring[] = {{6.6 + 14 * 0.6, 87.7e3 * 8 / 14},
                                {14.0 + 14 * 1.9, 230e3 * 0.92 * 8 / 14},
                                {8.4 + 14 * 3.4, 230e3 * 8 / 14}};
    static const line tree[] = {{6.8 + 14 * 0.6, 230e3 * 0.92 / 3.8 / 2},
                                {14.0 + 14 * 1.25, 230e3 * 0.92 * 7 / 9 / 2},
                                {8.4 + 14 * 4.0, 230e3 * 0.92 / 2}};
    for (double bytes = 1 << 20; bytes < 4e9; bytes *= 1.3) {
        const ls_nccl_choice found = choose(8, 1, bytes, 0);
        expect(&found, tree, ring, bytes);
    }
}

/* 8 hosts of 8: of 126 steps 14 cross, and the host's post takes 2 us, with Simple 6; a tree's
 * chain of 8 and 3 levels of hosts; a wire of w us comes on top, with Simple twice. */
static void hosts(void **state)
{
    (void)state;
    for (double w = 0; w < 8; w += 2.5) {
        const line ring[] = {{6.6 + 112 * 2 + 14 * (2.7 + w), 24e3 / 2 * 64 / 126},
                             {14.0 + 112 * 2 + 14 * (4.0 + w), 24e3 * 0.92 * 64 / 126},
                             {1.4 * (8.4 + 112 * 6 + 14 * (14.0 + 2 * w)), 24e3 * 64 / 126}};
        const line tree[] = {{6.8 + 14 * 0.6 + 6 * (5.0 + w), 24e3 * 0.92 / 3.8 / 2},
                             {14.0 + 14 * 1.25 + 6 * (8.5 + w), 24e3 * 0.92 * 120 / 128 / 2},
                             {8.4 + 14 * 4.0 + 6 * (14.0 + 2 * w), 24e3 * 0.92 / 2}};
        for (double bytes = 1 << 20; bytes < 4e9; bytes *= 1.3) {
            const ls_nccl_choice found = choose(64, 8, bytes, w);
            expect(&found, tree, ring, bytes);
        }
        if (w > 0)
            continue;
        /* Between 2 and 4 MiB both choose LL128, and a tree's bandwidth counts 0.6 times. */
        const double crossing = (ring[1].latency - tree[1].latency) /
                                (1 / (0.6 * tree[1].bandwidth) - 1 / ring[1].bandwidth);
        assert_true(crossing > 2 << 20 && crossing < 4 << 20);
        assert_true(choose(64, 8, crossing * 0.999, 0).tree);
        assert_false(choose(64, 8, crossing * 1.001, 0).tree);
    }
}

/* On two hosts a tree has twice the network's bandwidth: at 1 GB it takes 1 / (0.92 * 24) of
 * them, a ring 15 / 8 / 24. With a device a host a ring's latencies between hosts are a tree's. */
static void few(void **state)
{
    (void)state;
    const ls_nccl_choice two = choose(16, 2, 1e9, 0);
    assert_true(two.tree && two.protocol == 2);
    assert_true(fabs(two.ns - 1e3 * (8.4 + 14 * 4.0 + 2 * 14.0 + 1e9 / (24e3 * 0.92))) < 1);
    const ls_nccl_choice apart = choose(4, 4, 64, 0);
    assert_true(fabs(apart.ns - 1e3 * (6.8 + 4 * 5.0 + 64 / (24e3 * 0.92 / 3.8 / 2))) < 1e-3);
    /* halves: by rings alone, half the steps */
    const ls_nccl_choice half =
        ls_nccl_choose(LS_REDUCE_SCATTER, 8, 1, 1e9, (ls_platform_level){0, host_rate},
                       (ls_platform_level){0, net_rate});
    assert_false(half.tree);
    assert_true(fabs(half.ns - 1e3 * (8.4 + 7 * 3.4 + 1e9 / (230e3 * 8 / 7))) < 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_host),
        cmocka_unit_test(hosts),
        cmocka_unit_test(few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
