/* SPDX-License-Identifier: MIT */
/*
 * `lockstep micro launch`: the cost of launching operations, here the smallest ones: readings of
 * the device's clock.
 *     program    N of them as a program: time of a replay by the device's clock, and the host's own
 *                time to launch it (host_us); build_us: from the beginning of the capture to its
 *                end
 *     one by one N of them enqueued without a program
 * Replays are launched in groups that fit into a queue, with a wait between groups, so that the
 * host's time includes no waiting.
 */
#include "bench/micro/micro.h"

#include "common/base/clock.h"

enum { GROUP = 64 }; /* replays, or single operations, between two waits */

static const int nodes_of[] = {1, 8, 64, 512};

typedef struct launch {
    ls_micro *m;
    ls_program *program; /* NULL means one by one */
    int nodes;
} launch;

static ls_status enqueue_nodes(const launch *l)
{
    for (int i = 0; i < l->nodes; i++)
        LS_TRY(ls_queue_enqueue(l->m->bench.queue, l->m->bench.stamp[1]));
    return LS_OK;
}

/* Times `times` replays, or runs of all operations, by two readings. */
static ls_status time_group(const launch *l, int times, double *device_ns, double *host_ns)
{
    ls_bench *bench = &l->m->bench;
    uint64_t stamps[2];
    LS_TRY(ls_queue_enqueue(bench->queue, bench->stamp[0]));
    const uint64_t begin_ns = ls_clock_ns();
    if (l->program)
        LS_TRY(ls_program_launch(l->program, (uint64_t)times));
    for (int i = 0; i < times && !l->program; i++)
        LS_TRY(enqueue_nodes(l));
    *host_ns = (double)(ls_clock_ns() - begin_ns) / times;
    LS_TRY(ls_queue_sync(bench->queue));
    LS_TRY(ls_queue_read(bench->queue, stamps, bench->stamps, sizeof stamps));
    *device_ns = (double)(stamps[1] - stamps[0]) / times;
    return LS_OK;
}

static ls_status measure(const launch *l, const char *shape)
{
    const int times = l->program ? GROUP : l->nodes < GROUP ? GROUP / l->nodes : 1;
    double device_ns[LS_MICRO_ROUNDS], host_ns[LS_MICRO_ROUNDS], warm_up;
    ls_statistics host;
    ls_micro_figure figure = {.op = "launch", .shape = shape, .count = (size_t)l->nodes};
    LS_TRY(time_group(l, times, &warm_up, &warm_up));
    for (int i = 0; i < LS_MICRO_ROUNDS; i++)
        LS_TRY(time_group(l, times, &device_ns[i], &host_ns[i]));
    ls_statistics_compute(device_ns, LS_MICRO_ROUNDS, &figure.ns);
    ls_statistics_compute(host_ns, LS_MICRO_ROUNDS, &host);
    figure.host_ns = host.median;
    if (l->program)
        figure.build_ns = (double)ls_program_describe(l->program).build_ns;
    return ls_micro_row(l->m, &figure);
}

static ls_status run_program(ls_micro *m, int nodes)
{
    launch l = {.m = m, .nodes = nodes};
    ls_program *program = NULL;
    LS_TRY(ls_program_begin(m->bench.queue));
    ls_status status = enqueue_nodes(&l);
    status = ls_status_first(status, ls_program_end(m->bench.queue, &program));
    l.program = program;
    if (!status)
        status = measure(&l, "program");
    ls_program_close(program);
    return status;
}

ls_status ls_micro_launch(ls_micro *m)
{
    for (size_t i = 0; i < sizeof nodes_of / sizeof *nodes_of; i++) {
        const launch single = {.m = m, .nodes = nodes_of[i]};
        LS_TRY(run_program(m, nodes_of[i]));
        LS_TRY(measure(&single, "one by one"));
    }
    return LS_OK;
}
