/* SPDX-License-Identifier: MIT */
/*
 * What messages and waiting cost besides the network, measured here; see durations.h. Devices in a
 * ring, some of them on each core, sleep as long as a message takes: the longer a core sleeps, the
 * longer it takes to run again.
 *     wake     each device sends to the next one and receives from the previous one
 *     late     a queue of each device sleeps
 *     between  a queue of the next device waits for that one
 *     within   another queue of the same device waits for it
 */
#include "bench/predict/durations.h"

#include "bench/statistics/statistics.h"
#include "common/base/clock.h"
#include "common/base/grow.h"
#include "common/device/link.h"

#include <math.h>
#include <stdlib.h>

/* A round so many times as long as the median waited for other programs, and so did a thread that
 * was so many times as late. */
enum { INTERRUPTED = 2, LATE = 5 };

enum { CORES = 2, QUEUES = 2, ROUNDS = 60, LEAST_ROUNDS = 16 };
static const double most_ns = 60e6; /* for the rounds of one kind */

const double ls_slept_ns[LS_SLEPT] = {100e3, 1e6, 10e6};

double ls_message_cost(const double cost_ns[LS_SLEPT], double slept_ns)
{
    int at = 0;
    while (at + 2 < LS_SLEPT && slept_ns > ls_slept_ns[at + 1])
        at++;
    const double share =
        log(fmax(slept_ns, 1) / ls_slept_ns[at]) / log(ls_slept_ns[at + 1] / ls_slept_ns[at]);
    return cost_ns[at] + fmin(fmax(share, 0), 1) * (cost_ns[at + 1] - cost_ns[at]);
}

double ls_durations_typical(double *times, size_t count, double most)
{
    const double limit = count ? most * ls_statistics_median(times, count) : 0;
    size_t taken = 0;
    while (taken < count && times[taken] <= limit)
        taken++;
    return taken ? ls_statistics_mean(times, taken) : 0;
}

void ls_durations_take_exchanges(double *times, size_t count, double slept_ns, double *cost_ns,
                                 double *late)
{
    const double median = count ? ls_statistics_median(times, count) : 0;
    *late = 0;
    for (size_t i = 0; i < count; i++) {
        *late += times[i] > INTERRUPTED * median ? 1.0 / (double)count : 0;
        times[i] = fmax(times[i] - slept_ns, 0);
    }
    *cost_ns = ls_durations_typical(times, count, LATE);
}

/* ---- Devices in a ring ----------------------------------------------------------------------- */

/* An operation that sleeps, if it is to, and notes when it is over. */
typedef struct mark {
    ls_op op;
    double sleep_ns;
    size_t count;
    double late_ns[ROUNDS + 1], at_ns[ROUNDS + 1];
} mark;

typedef struct station {
    ls_device *device;
    ls_queue *queues[QUEUES];
    ls_event *slept, *seen;
    ls_comm *comm;
    ls_op *exchange;
    float values[2];
    mark first, second; /* of its queue 0; of the queue that waits for that one */
} station;

typedef struct ring {
    int count;
    size_t rounds;
    ls_network *network;
    station *stations; /* [count] */
} ring;

static ls_status run_mark(ls_op *op, ls_queue *queue)
{
    mark *m = (mark *)op;
    (void)queue;
    const uint64_t until = ls_clock_ns() + (uint64_t)m->sleep_ns;
    if (m->sleep_ns > 0)
        ls_clock_sleep_until(until);
    m->at_ns[m->count] = (double)ls_clock_ns();
    m->late_ns[m->count] = m->at_ns[m->count] - (double)until;
    m->count++;
    return LS_OK;
}

static void begin_mark(mark *m, double sleep_ns)
{
    *m = (mark){.op = {.name = "mark", .run = run_mark}, .sleep_ns = sleep_ns};
}

static ls_status open_station(const ls_machine *machine, int index, station *s)
{
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    const ls_device_name name = {
        .kind = LS_DEVICE_CPU, .index = index, .logical = -1, .replica = -1, .task = -1};
    LS_TRY(ls_device_open(machine, &name, &policy, &s->device));
    for (int q = 0; q < QUEUES; q++)
        LS_TRY(ls_queue_open(s->device, "durations", &s->queues[q]));
    LS_TRY(ls_event_open(s->device, &s->slept));
    return ls_event_open(s->device, &s->seen);
}

/* cpu:i and cpu:(i + cores) share a core (machine.h). */
static ls_status open_ring(const ls_machine *machine, int cores, int per_core, double sleep_ns,
                           ring *r)
{
    ls_device *devices[CORES * LS_PER_CORE_MOST];
    ls_comm *comms[CORES * LS_PER_CORE_MOST];
    const ls_link only_delays = {.latency_ns = (uint64_t)sleep_ns};
    const int used = cores < CORES ? cores : CORES;
    const double fit = most_ns / sleep_ns;
    r->rounds = fit < LEAST_ROUNDS ? LEAST_ROUNDS : fit < ROUNDS ? (size_t)fit : ROUNDS;
    r->count = used * per_core;
    LS_TRY(ls_allocate("durations", &r->stations, (size_t)r->count, sizeof *r->stations));
    LS_TRY(ls_network_open(&only_delays, r->count, &r->network));
    for (int i = 0; i < r->count; i++) {
        LS_TRY(open_station(machine, i / used * cores + i % used, &r->stations[i]));
        devices[i] = r->stations[i].device;
        ls_device_link(devices[i], r->network, i);
    }
    LS_TRY(ls_comm_open(NULL, NULL, devices, r->count, comms));
    for (int i = 0; i < r->count; i++)
        r->stations[i].comm = comms[i];
    for (int i = 0; i < r->count; i++) {
        station *s = &r->stations[i];
        const ls_exchange x = {.to = (i + 1) % r->count,
                               .send = &s->values[0],
                               .send_count = 1,
                               .from = (i + r->count - 1) % r->count,
                               .receive = &s->values[1],
                               .receive_count = 1,
                               .add = true};
        LS_TRY(ls_comm_exchange(s->comm, &x, &s->exchange));
    }
    return LS_OK;
}

/* All but its device. */
static void close_station(station *s)
{
    if (s->exchange)
        ls_op_free(s->exchange);
    ls_comm_close(s->comm);
    ls_event_close(s->slept);
    ls_event_close(s->seen);
    for (int q = 0; q < QUEUES; q++)
        ls_queue_close(s->queues[q]);
}

static void close_ring(ring *r)
{
    for (int i = 0; i < r->count && r->stations; i++)
        close_station(&r->stations[i]);
    for (int i = 0; i < r->count && r->stations; i++)
        ls_device_close(r->stations[i].device);
    ls_network_close(r->network);
    free(r->stations);
    *r = (ring){0};
}

static ls_status sync_all(const ring *r)
{
    ls_status status = LS_OK;
    for (int i = 0; i < r->count; i++)
        for (int q = 0; q < QUEUES; q++)
            status = ls_status_first(status, ls_queue_sync(r->stations[i].queues[q]));
    return status;
}

/* ---- Times ----------------------------------------------------------------------------------- */

/* How much longer than the network rounds of messages take. */
static ls_status exchange_all(ring *r, double sleep_ns, double *times, double *ns, double *late)
{
    size_t count = 0;
    for (int i = 0; i < r->count; i++)
        begin_mark(&r->stations[i].first, 0);
    for (size_t round = 0; round <= r->rounds; round++)
        for (int i = 0; i < r->count; i++) {
            LS_TRY(ls_queue_enqueue(r->stations[i].queues[0], r->stations[i].exchange));
            LS_TRY(ls_queue_enqueue(r->stations[i].queues[0], &r->stations[i].first.op));
        }
    LS_TRY(sync_all(r));
    for (int i = 0; i < r->count; i++)
        for (size_t round = 0; round < r->rounds; round++)
            times[count++] =
                r->stations[i].first.at_ns[round + 1] - r->stations[i].first.at_ns[round];
    ls_durations_take_exchanges(times, count, sleep_ns, ns, late);
    return LS_OK;
}

/* Queue 0 of each device sleeps, then a queue that has waited for it runs: of the same device, or
 * of the next one. */
static ls_status hand_on(ring *r, double sleep_ns, ls_message_cost_kind kind, double *times,
                         int slept, ls_message_times *out)
{
    size_t count = 0;
    for (int i = 0; i < r->count; i++) {
        begin_mark(&r->stations[i].first, sleep_ns);
        begin_mark(&r->stations[i].second, 0);
    }
    for (size_t round = 0; round < r->rounds; round++)
        for (int i = 0; i < r->count; i++) {
            station *s = &r->stations[i];
            const station *waits = &r->stations[kind == LS_WITHIN ? i : (i + 1) % r->count];
            LS_TRY(ls_queue_enqueue(s->queues[0], &s->first.op));
            LS_TRY(ls_queue_record(s->queues[0], s->slept));
            LS_TRY(ls_queue_wait(waits->queues[1], s->slept));
            LS_TRY(ls_queue_enqueue(waits->queues[1], &s->second.op));
            LS_TRY(ls_queue_record(waits->queues[1], waits->seen));
            LS_TRY(ls_queue_wait(s->queues[0], waits->seen));
        }
    LS_TRY(sync_all(r));
    for (int i = 0; i < r->count; i++)
        for (size_t round = 0; round < r->rounds; round++)
            times[count++] = r->stations[i].second.at_ns[round] - r->stations[i].first.at_ns[round];
    out->ns[kind][slept] = ls_durations_typical(times, count, LATE);
    count = 0;
    for (int i = 0; i < r->count; i++)
        for (size_t round = 0; round < r->rounds; round++)
            times[count++] = r->stations[i].first.late_ns[round];
    out->ns[LS_LATE][slept] = ls_durations_typical(times, count, LATE);
    return LS_OK;
}

static ls_status measure_slept(const ls_machine *machine, int cores, int slept,
                               ls_message_times *out)
{
    ls_closing(close_ring) ring r = {0};
    ls_auto double *times = NULL;
    double late = 0;
    const double sleep_ns = ls_slept_ns[slept];
    LS_TRY(
        ls_allocate("durations", &times, (size_t)CORES * LS_PER_CORE_MOST * ROUNDS, sizeof *times));
    LS_TRY(open_ring(machine, cores, out->per_core, sleep_ns, &r));
    LS_TRY(exchange_all(&r, sleep_ns, times, &out->ns[LS_WAKE][slept], &late));
    out->late = fmax(out->late, late);
    LS_TRY(hand_on(&r, sleep_ns, LS_WITHIN, times, slept, out));
    return hand_on(&r, sleep_ns, LS_BETWEEN, times, slept, out);
}

/* ---- A core that is taken -------------------------------------------------------------------- */

enum { TURNS = 12 };
static const double busy_ns = 24e6, first_ns = 3e6, least_turn_ns = 1e5;

/* An operation that computes until a time. */
typedef struct busy {
    ls_op op;
    uint64_t until_ns;
} busy;

static ls_status compute_until(ls_op *op, ls_queue *queue)
{
    (void)queue;
    while (ls_clock_ns() < ((busy *)op)->until_ns) {
    }
    return LS_OK;
}

/* How late a thread wakes up whose core another one computes on. */
static ls_status take_turns(const station *s, double late_ns[TURNS])
{
    busy computes = {.op = {.name = "compute", .run = compute_until}};
    mark sleeps;
    for (int i = 0; i < TURNS; i++) {
        begin_mark(&sleeps, first_ns * (1 + (double)i / TURNS));
        computes.until_ns = ls_clock_ns() + (uint64_t)busy_ns;
        LS_TRY(ls_queue_enqueue(s->queues[1], &sleeps.op));
        LS_TRY(ls_queue_enqueue(s->queues[0], &computes.op));
        LS_TRY(ls_queue_sync(s->queues[0]));
        LS_TRY(ls_queue_sync(s->queues[1]));
        late_ns[i] = sleeps.late_ns[0];
    }
    return LS_OK;
}

static ls_status measure_turn(const ls_machine *machine, double *out)
{
    station s = {0};
    double late_ns[TURNS] = {0};
    ls_status status = open_station(machine, 0, &s);
    if (!status)
        status = take_turns(&s, late_ns);
    close_station(&s);
    ls_device_close(s.device);
    *out = fmax(ls_statistics_mean(late_ns, TURNS),
                least_turn_ns); /* some wake up at once, others a turn later */
    return status;
}

ls_status ls_durations_measure_messages(const ls_machine *machine, int cores, int per_core,
                                        ls_durations *durations)
{
    /* two devices at least */
    const int least = cores > 1 ? 1 : 2;
    ls_message_times one = {.per_core = per_core > least ? per_core : least};
    one.per_core = one.per_core < LS_PER_CORE_MOST ? one.per_core : LS_PER_CORE_MOST;
    for (size_t i = 0; i < durations->message_count; i++)
        if (durations->messages[i].per_core == one.per_core)
            return LS_OK;
    if (!(durations->turn_ns > 0))
        LS_TRY(measure_turn(machine, &durations->turn_ns));
    for (int slept = 0; slept < LS_SLEPT; slept++)
        LS_TRY(measure_slept(machine, cores, slept, &one));
    LS_TRY(ls_grow("durations", &durations->messages, durations->message_count,
                   sizeof *durations->messages));
    durations->messages[durations->message_count++] = one;
    return LS_OK;
}
