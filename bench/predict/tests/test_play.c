/* SPDX-License-Identifier: MIT */
/*
 * Graphs with known answers, on both engines; expanded all-reduces. Tolerances: closed forms 1e-9
 * in relative terms; between the engines 1 ns, for patterns in which no message waits for two
 * ports at once (rings, many to one). What was sent is exact.
 */
#include "bench/predict/durations.h"
#include "bench/play/engine.h"
#include "bench/predict/expand.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { RANKS_MOST = 16 };

static const ls_platform flat = {.kind = LS_PLATFORM_FLAT,
                                 .device = {.latency_ns = 10000, .bytes_per_s = 1e9}};

static double *play_on(ls_engine engine, const ls_play *play)
{
    double *end_ns = calloc(play->graph->played, sizeof *end_ns);
    ls_status status = ls_engine_play(engine, play, 1, end_ns);
    if (status)
        print_message("%s\n", ls_status_text(status));
    assert_null(status);
    return end_ns;
}

static double last_of(const double *end_ns, size_t count)
{
    double last = 0;
    for (size_t i = 0; i < count; i++)
        last = end_ns[i] > last ? end_ns[i] : last;
    return last;
}

/* Plays on `ports`; if there is SimGrid, on that, too, and compares each activity. */
static double *play_both(const ls_play *what)
{
    double *ports = play_on(LS_ENGINE_PORTS, what);
#if LS_HAS_SIMGRID
    double *simgrid = play_on(LS_ENGINE_SIMGRID, what);
    for (size_t i = 0; i < what->graph->played; i++)
        if (fabs(ports[i] - simgrid[i]) > 1)
            fail_msg("activity %zu ends at %.3f ns on ports, %.3f on simgrid", i, ports[i],
                     simgrid[i]);
    free(simgrid);
#endif
    return ports;
}

static double play(const ls_play_graph *graph, const ls_platform *platform, int devices)
{
    const ls_play what = {
        .graph = graph, .platform = platform, .devices = devices, .devices_per_host = 1};
    double *end_ns = play_both(&what);
    const double last = last_of(end_ns, graph->played);
    free(end_ns);
    return last;
}

static void near(double value, double wanted)
{
    if (!(fabs(value - wanted) <= 1e-9 * wanted))
        fail_msg("%.9f instead of %.9f", value, wanted);
}

/* ---- Graphs --------------------------------------------------------------------------------- */

/* Messages to one device take turns, in the order in which they are ready; then one from it. */
static void incast(void **state)
{
    (void)state;
    enum { SENDERS = 5 };
    ls_play_graph g = {0};
    uint32_t message, delay, join, back;
    assert_null(ls_play_delay(&g, 0, 0, 0, LS_PLAY_NONE, &join));
    for (int i = 1; i <= SENDERS; i++) {
        assert_null(ls_play_delay(&g, 0, i, 1000 * (SENDERS - i), LS_PLAY_NONE, &delay));
        assert_null(ls_play_message(&g, 0, i, 0, 1e6 * i, 1, delay, &message));
    }
    assert_null(ls_play_message(&g, 0, 0, 1, 5e5, 3, message, &back));
    assert_null(ls_play_seal(&g, 0));
    /* the last sender is ready first; its message ends at 5 ms + 10 us, and the rest follow */
    near(play(&g, &flat, SENDERS + 1), 15e6 + 10000);
    const ls_play what = {
        .graph = &g, .platform = &flat, .devices = SENDERS + 1, .devices_per_host = 1};
    double *end_ns = play_on(LS_ENGINE_PORTS, &what);
    near(end_ns[message], 5e6 + 10000);
    near(end_ns[back], 5e6 + 10000 + 5e5 + 30000);
    free(end_ns);
    ls_play_close(&g);
}

/* Factors stretch the delays of a device in a step, and nothing else. */
static void factors(void **state)
{
    (void)state;
    ls_play_graph g = {0};
    uint32_t first, second, message;
    assert_null(ls_play_delay(&g, 0, 0, 100, LS_PLAY_NONE, &first));
    assert_null(ls_play_delay(&g, 1, 0, 100, first, &second));
    assert_null(ls_play_message(&g, 1, 0, 1, 1000, 0, second, &message));
    assert_null(ls_play_seal(&g, 0));
    const double by[] = {2, 1, 3, 1};
    const ls_play what = {
        .graph = &g, .platform = &flat, .devices = 2, .devices_per_host = 1, .factors = by};
    double *end_ns = play_on(LS_ENGINE_PORTS, &what);
    near(end_ns[first], 200);
    near(end_ns[second], 500);
    near(end_ns[message], 1500);
    free(end_ns);
    ls_play_close(&g);
}

/* Appends steps [from, to) of two devices: a delay of each, behind its last and, of the second, the
 * other's message of the step before; sets `last` to their delays, and the message. */
static void append_steps(ls_play_graph *g, uint32_t from, uint32_t to, uint32_t last[3])
{
    for (uint32_t step = from; step < to; step++) {
        uint32_t now[3];
        assert_null(ls_play_delay(g, step, 0, 100, last[0], &now[0]));
        assert_null(ls_play_delay(g, step, 1, 150, last[1], &now[1]));
        assert_null(ls_play_wait(g, last[2], now[1]));
        assert_null(ls_play_message(g, step, 0, 1, 90, 1, now[0], &now[2]));
        memcpy(last, now, sizeof now);
    }
}

/* A repeated step is played as if it were written out each time. */
static void repeated(void **state)
{
    (void)state;
    enum { STEPS = 5, NODES = 3 };
    const ls_platform near_by = {.kind = LS_PLATFORM_FLAT,
                                 .device = {.latency_ns = 70, .bytes_per_s = 1e9}};
    ls_play_graph whole = {0}, g = {.repeated = NODES, .steps = 1};
    uint32_t last[3] = {LS_PLAY_NONE, LS_PLAY_NONE, LS_PLAY_NONE}, of[3];
    memcpy(of, last, sizeof of);
    append_steps(&whole, 0, STEPS, of);
    append_steps(&g, 0, 2, last);
    assert_null(ls_play_wait(&g, last[0], last[0] + NODES));
    assert_null(ls_play_wait(&g, last[1], last[1] + NODES));
    assert_null(ls_play_wait(&g, last[2], last[1] + NODES));
    assert_null(ls_play_seal(&whole, 0));
    assert_null(ls_play_seal(&g, STEPS - 2));
    assert_int_equal(g.played, whole.count);
    double by[2 * STEPS];
    for (int i = 0; i < 2 * STEPS; i++)
        by[i] = 1 + i % 3;
    ls_play what = {.graph = &whole, .platform = &near_by, .devices = 2, .factors = by};
    what.devices_per_host = 1;
    what.factor_count = 2 * STEPS;
    double *wanted = play_both(&what);
    what.graph = &g;
    double *ends = play_both(&what);
    assert_memory_equal(ends, wanted, whole.count * sizeof *ends);
    assert_true(wanted[whole.count - 1] > wanted[whole.count - 1 - NODES]);
    free(wanted);
    free(ends);
    ls_play_close(&whole);
    ls_play_close(&g);
}

/* Devices 0 and 2 of the first host share a core, 1 has the other one, and so has 3 of the next
 * host. Delays of the network take no core. */
static void shared_cores(void **state)
{
    (void)state;
    ls_play_graph g = {0};
    uint32_t work[4], on, wake, more;
    assert_null(ls_play_delay(&g, 0, 0, 1000, LS_PLAY_NONE, &work[0]));
    assert_null(ls_play_delay(&g, 0, 1, 1000, LS_PLAY_NONE, &work[1]));
    assert_null(ls_play_delay(&g, 0, 2, 3000, LS_PLAY_NONE, &work[2]));
    assert_null(ls_play_delay(&g, 0, 3, 1000, LS_PLAY_NONE, &work[3]));
    assert_null(ls_play_delay(&g, 0, 0, 900, work[0], &on));
    assert_null(ls_play_delay(&g, 0, 0, 500, LS_PLAY_NONE, &wake));
    g.nodes[wake].rounds = 1;
    assert_null(ls_play_delay(&g, 0, 2, 100, wake, &more));
    assert_null(ls_play_seal(&g, 0));
    const ls_play what = {.graph = &g,
                          .platform = &flat,
                          .devices = 4,
                          .devices_per_host = 3,
                          .cores = 2,
                          .turn_ns = 1500};
    double *end_ns = play_both(&what);
    near(end_ns[work[0]], 1000);
    near(end_ns[wake], 500);
    /* device 0 goes on until its turn is over at 1500, then come 2's work and what woke it */
    near(end_ns[more], 3100);
    near(end_ns[on], 3500);
    near(end_ns[work[2]], 5000);
    near(end_ns[work[1]], 1000);
    near(end_ns[work[3]], 1000);
    free(end_ns);
    ls_play_close(&g);
}

/* What a message costs lies between the two nearest sleeps. */
static void message_costs(void **state)
{
    (void)state;
    const double ns[LS_SLEPT] = {10, 20, 80};
    near(ls_message_cost(ns, 0), 10);
    near(ls_message_cost(ns, ls_slept_ns[1]), 20);
    near(ls_message_cost(ns, sqrt(ls_slept_ns[1] * ls_slept_ns[2])), 50);
    near(ls_message_cost(ns, 1e12), 80);
}

/* Activities that wait for each other never end, and both engines say so. */
static void circle(void **state)
{
    (void)state;
    ls_play_graph g = {0};
    uint32_t a, b;
    double end_ns[2];
    assert_null(ls_play_delay(&g, 0, 0, 1, LS_PLAY_NONE, &a));
    assert_null(ls_play_message(&g, 0, 0, 1, 1, 1, a, &b));
    assert_null(ls_play_wait(&g, b, a));
    assert_null(ls_play_seal(&g, 0));
    const ls_play what = {.graph = &g, .platform = &flat, .devices = 2, .devices_per_host = 1};
    for (ls_engine e = LS_ENGINE_SIMGRID; e <= LS_ENGINE_PORTS; e++) {
        if (e == LS_ENGINE_SIMGRID && !LS_HAS_SIMGRID)
            continue;
        ls_status status = ls_engine_play(e, &what, 1, end_ns);
        assert_non_null(status);
        assert_non_null(strstr(ls_status_text(status), "never end"));
        ls_status_free(status);
    }
    ls_play_close(&g);
}

/* ---- All-reduces ---------------------------------------------------------------------------- */

typedef struct ranks {
    ls_device *devices[RANKS_MOST];
    int count;
} ranks;

static ranks open_ranks(int count)
{
    ranks r = {.count = count};
    for (int i = 0; i < count; i++) {
        const ls_device_name name = {
            .kind = LS_DEVICE_CPU, .index = i, .logical = -1, .replica = -1, .task = -1};
        assert_null(ls_virtual_device_open(&name, i, NULL, &r.devices[i]));
    }
    return r;
}

static void close_ranks(ranks *r)
{
    for (int i = 0; i < r->count; i++)
        ls_device_close(r->devices[i]);
}

static const ls_expanded *expand(ls_expansions *list, const ls_allreduce *algorithm, const ranks *r,
                                 ls_half half, size_t count, int64_t shards)
{
    const ls_virtual_comm what = {.size = r->count,
                                  .devices = r->devices,
                                  .whole = true,
                                  .half = half,
                                  .extent = ls_elements(count),
                                  .shards = shards};
    size_t number;
    assert_null(ls_expand(list, algorithm, &what, &number));
    return list->items[number];
}

static ls_traffic traffic_of(const ls_expanded *e)
{
    ls_traffic sum = {0};
    for (size_t i = 0; i < e->first[e->what.size]; i++) {
        sum.bytes_sent += e->moves[i].sent * sizeof(float);
        sum.messages_sent += e->moves[i].sent_rounds;
    }
    return sum;
}

/* Every algorithm's expansion moves what its formula says; a ring's flows are its messages, added
 * up by rank. */
static void expansions(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 5, 64, 1003};
    static const char *const names[] = {"flat",         "ring",     "tree", "halving-doubling",
                                        "hierarchical", "canonical"};
    for (int n = 2; n <= RANKS_MOST; n += n < 9 ? 1 : 7) {
        ranks r = open_ranks(n);
        for (size_t c = 0; c < 4; c++)
            for (size_t a = 0; a < sizeof names / sizeof *names; a++) {
                ls_expansions all = {.level = LS_EXPAND_MESSAGES}, flows = {0};
                const ls_allreduce *algorithm;
                assert_null(ls_allreduce_find(names[a], &algorithm));
                const int64_t shards = strcmp(names[a], "canonical") == 0 ? RANKS_MOST : 0;
                for (ls_half half = LS_HALVES; half <= LS_ALL_GATHER; half++) {
                    if (half != LS_HALVES && !algorithm->half)
                        continue;
                    const ls_expanded *e = expand(&all, algorithm, &r, half, counts[c], shards);
                    const ls_expanded *f = expand(&flows, algorithm, &r, half, counts[c], shards);
                    const ls_traffic moved = traffic_of(e), flown = traffic_of(f);
                    const ls_extent extent = ls_elements(counts[c]);
                    const ls_traffic formula =
                        half == LS_HALVES ? algorithm->formula(n, extent, shards, NULL)
                                          : algorithm->half_formula(half, n, extent, shards);
                    assert_int_equal(moved.bytes_sent, formula.bytes_sent);
                    assert_int_equal(moved.messages_sent, formula.messages_sent);
                    assert_int_equal(flown.bytes_sent, formula.bytes_sent);
                    assert_int_equal(flown.messages_sent, formula.messages_sent);
                    for (int rank = 0; rank < n; rank++) {
                        size_t added[2] = {0}, came[2] = {0};
                        for (size_t i = e->first[rank]; i < e->first[rank + 1]; i++) {
                            added[0] += e->moves[i].added;
                            came[0] += e->moves[i].received;
                        }
                        for (size_t i = f->first[rank]; i < f->first[rank + 1]; i++) {
                            added[1] += f->moves[i].added;
                            came[1] += f->moves[i].received;
                        }
                        assert_int_equal(added[0], added[1]);
                        assert_int_equal(came[0], came[1]);
                    }
                }
                ls_expansions_close(&all);
                ls_expansions_close(&flows);
            }
        close_ranks(&r);
    }
}

/* The ring's messages, each behind the rank's latest and that of its sender: 2 (n - 1) rounds of
 * latency + P / (n bandwidth); and no port carries more than its bandwidth. */
static void ring(void **state)
{
    (void)state;
    for (int n = 2; n <= RANKS_MOST; n *= 2) {
        const double block = 250000;
        ls_play_graph g = {0};
        uint32_t latest[RANKS_MOST], sent[RANKS_MOST];
        for (int r = 0; r < n; r++)
            assert_null(ls_play_delay(&g, 0, r, 0, LS_PLAY_NONE, &latest[r]));
        for (int round = 0; round < 2 * (n - 1); round++) {
            for (int r = 0; r < n; r++) {
                assert_null(ls_play_message(&g, 0, r, (r + 1) % n, block, 1, latest[r], &sent[r]));
                assert_null(ls_play_wait(&g, latest[(r + 1) % n], sent[r]));
            }
            for (int r = 0; r < n; r++) {
                assert_null(ls_play_delay(&g, 0, r, 0, sent[r], &latest[r]));
                assert_null(ls_play_wait(&g, sent[(r + n - 1) % n], latest[r]));
            }
        }
        assert_null(ls_play_seal(&g, 0));
        near(play(&g, &flat, n), 2 * (n - 1) * (10000 + block));
        ls_play_close(&g);
    }
}

/* ---- Several hosts -------------------------------------------------------------------------- */

/* Within a host, between hosts, and two flows that share a host's port: fairly on simgrid; in turn
 * on ports, so that the last of them ends when both do there. */
static void two_levels(void **state)
{
    (void)state;
    ls_platform platform;
    const char text[] = "two-level:host=1us@10GB/s,net=5us@1GB/s";
    assert_null(ls_platform_parse(text, &platform));
    ls_play_graph g = {0};
    uint32_t inside, across, first, second;
    assert_null(ls_play_message(&g, 0, 0, 1, 1e6, 1, LS_PLAY_NONE, &inside));
    assert_null(ls_play_message(&g, 0, 0, 2, 1e6, 1, inside, &across));
    assert_null(ls_play_message(&g, 0, 0, 2, 1e6, 2, across, &first));
    assert_null(ls_play_message(&g, 0, 1, 3, 1e6, 2, across, &second));
    assert_null(ls_play_seal(&g, 0));
    const ls_play what = {.graph = &g, .platform = &platform, .devices = 4, .devices_per_host = 2};
    for (int i = 0; i < (LS_HAS_SIMGRID ? 2 : 1); i++) {
        double *end_ns = play_on(i ? LS_ENGINE_SIMGRID : LS_ENGINE_PORTS, &what);
        near(end_ns[inside], 1e5 + 1000);
        near(end_ns[across] - end_ns[inside], 1e6 + 6000);
        near(end_ns[first] - end_ns[across], (i ? 2e6 : 1e6) + 12000);
        near(end_ns[second] - end_ns[across], 2e6 + 12000);
        free(end_ns);
    }
    ls_play_close(&g);
}

static void platforms(void **state)
{
    (void)state;
    static const char *const refused[] = {"",
                                          "flat",
                                          "flat:",
                                          "flat:latency=-1us",
                                          "flat:bandwidth=0GB/s",
                                          "two-level:host=1us@1GB/s",
                                          "two-level:net=1us@1GB/s,host=1us@1GB/s",
                                          "two-level:host=1us@0GB/s,net=1us@1GB/s",
                                          "two-level:host=1us,net=1us@1GB/s",
                                          "missing.xml"};
    ls_platform platform;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        ls_status status = ls_platform_parse(refused[i], &platform);
        assert_non_null(status);
        assert_null(strchr(ls_status_text(status), '\n'));
        ls_status_free(status);
    }
    assert_null(ls_platform_parse("flat:latency=10us,bandwidth=8Gbps", &platform));
    near(platform.device.latency_ns, 10000);
    near(platform.device.bytes_per_s, 1e9);
    ls_engine engine = LS_ENGINE_AUTO;
    assert_null(ls_engine_choose(&platform, &engine));
    assert_int_equal(engine, LS_ENGINE_PORTS);
    assert_null(ls_platform_parse("two-level:host=1us@1GB/s,net=2us@2GB/s", &platform));
    ls_status status = ls_engine_choose(&platform, &engine);
    assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
    ls_status_free(status);
}

/* ---- Measured on a busy machine ------------------------------------------------------------- */

static void busy(void **state)
{
    (void)state;
    ls_message_times few = {.late = 0.02}, many = {.late = 0.2};
    const ls_durations quiet = {.messages = &few, .message_count = 1};
    const ls_durations late = {.messages = &many, .message_count = 1};
    char words[160];
    assert_false(ls_durations_words(&quiet, true, words, sizeof words));
    assert_true(ls_durations_words(&late, true, words, sizeof words));
    assert_non_null(strstr(words, "20% of the timed messages"));
    assert_false(ls_durations_words(&late, false, words, sizeof words));
}

/* Those of twice the median are not late; the mean leaves out what was five times as late. */
static void exchanges(void **state)
{
    (void)state;
    double ns, late, times[] = {200, 110, 900, 100, 100, 201, 400, 100, 100};
    ls_durations_take_exchanges(times, sizeof times / sizeof *times, 90, &ns, &late);
    near(late, 2.0 / 9);
    near(ns, (10 * 4 + 20) / 5.0);
    double same[] = {100, 200, 100, 200, 100};
    ls_durations_take_exchanges(same, 5, 50, &ns, &late);
    near(ns, (50 * 3 + 150 * 2) / 5.0);
    assert_true(late == 0);
    ls_durations_take_exchanges(same, 0, 50, &ns, &late);
    assert_true(ns == 0 && late == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(incast),       cmocka_unit_test(factors),
        cmocka_unit_test(repeated),     cmocka_unit_test(circle),
        cmocka_unit_test(expansions),   cmocka_unit_test(ring),
        cmocka_unit_test(two_levels),   cmocka_unit_test(platforms),
        cmocka_unit_test(busy),         cmocka_unit_test(exchanges),
        cmocka_unit_test(shared_cores), cmocka_unit_test(message_costs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
