/* SPDX-License-Identifier: MIT */
/* Durations measured here; see durations.h. */
#include "bench/predict/durations_parts.h"

#include "bench/play/engine.h"
#include "bench/predict/virtual.h"
#include "bench/statistics/statistics.h"
#include "bench/train/interrupt.h"
#include "common/base/clock.h"
#include "common/base/grow.h"
#include "common/comm/comm_loops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WARM = 3, LEAST = 5, MOST = LS_REPETITIONS_MOST };
static const uint64_t enough_ns = 400000000, look_ns = 100000000;

/* Where devices wait for messages, they go on with cold caches, on a core that has slept: so the
 * stand-in sleeps there. The most of one sleep, and of all sleeps of a repetition. */
static const double longest_nap_ns = 5e6, naps_ns = 200e6;

/* A repetition so many times as long as the median was interrupted by other programs, and says
 * nothing of the device; so was an operation, which after a sleep takes several times as long. */
enum { INTERRUPTED = 2, LATE = 5 };

/* ---- What is not known yet ------------------------------------------------------------------ */

/* Adds keys without a duration, and marks the devices that have one first. */
static ls_status add_keys(ls_durations *d, const ls_step_run *run, bool *marked, size_t *added)
{
    for (int kind = 0; kind < run->kinds; kind++) {
        const ls_step_program *p = &run->program[kind];
        for (size_t t = 0; t < p->task_count; t++) {
            const ls_task *task = &p->tasks[t];
            for (size_t i = 0; i < task->ops.count; i++) {
                const ls_op *op = p->ops[task->ops.first + i];
                if (!ls_duration_is_timed(op) ||
                    ls_durations_find(d, op->name, op->flops, op->bytes))
                    continue;
                LS_TRY(ls_durations_add(d, op->name, op->flops, op->bytes, NAN));
                marked[run->plan.members[run->plan.lanes.items[task->lane].member].device] = true;
                ++*added;
            }
        }
    }
    return LS_OK;
}

/* ---- A host's devices at work --------------------------------------------------------------- */

/* In place of a message: the device sleeps as long as it takes. */
typedef struct nap {
    ls_op op;
    double ns;
} nap;

static ls_status run_nap(ls_op *op, ls_queue *queue)
{
    (void)queue;
    ls_clock_sleep((uint64_t)((const nap *)op)->ns);
    return LS_OK;
}

/* How long a message of so many elements takes, and so many after each other. */
static double message_ns(const ls_bench_host *h, const ls_virtual_comm *c, int peer,
                         double elements, int times)
{
    return times * ls_platform_message_ns(h->with->platform, h->with->devices_per_host,
                                          ls_virtual_number(c->devices[c->rank]),
                                          ls_virtual_number(c->devices[peer]),
                                          elements * (double)sizeof(float));
}

/* How long the exchanges of a task take on the network; of an all-reduce, by halving and doubling.
 */
static double network_ns(const ls_bench_host *h, const ls_op *op)
{
    const ls_virtual_comm *c = ls_virtual_comm_of(op);
    int rounds = 0;
    if (!c || c->size < 2)
        return 0;
    if (!c->whole) {
        const ls_exchange *x = &c->exchange;
        const double out = x->to >= 0 ? message_ns(h, c, x->to, (double)x->send_count, 1) : 0;
        const double in = x->from >= 0 ? message_ns(h, c, x->from, (double)x->receive_count, 1) : 0;
        return fmax(out, in);
    }
    for (int reached = 1; reached < c->size; reached *= 2)
        rounds++;
    return message_ns(h, c, (c->rank + 1) % c->size, (double)c->extent.count / rounds, 2 * rounds);
}

static double waited_ns(const ls_bench_host *h, const ls_step_program *p, const ls_task *task)
{
    double ns = 0;
    for (size_t i = 0; i < task->ops.count; i++)
        ns += network_ns(h, p->ops[task->ops.first + i]);
    if (task->copy.to && task->copy.crosses)
        ns += ls_platform_message_ns(h->with->platform, h->with->devices_per_host, 0, 1,
                                     (double)task->copy.bytes);
    return ns;
}

/* Lanes on which something is computed: others only send, while their device computes. */
static void find_computing(const ls_step_program *p, bool *lanes)
{
    for (size_t t = 0; t < p->task_count; t++)
        for (size_t i = 0; i < p->tasks[t].ops.count; i++)
            lanes[p->tasks[t].lane] |= ls_duration_is_timed(p->ops[p->tasks[t].ops.first + i]);
}

/* What a device computes in a step, in segments, behind each of which it sleeps. */
typedef struct share {
    ls_op **ops; /* [count] */
    size_t count;
    double *naps; /* [segments] in ns; of the last segment there is none */
    size_t *ends; /* [segments] operations up to the end of each */
    size_t segments;
} share;

static ls_status add_nap(share *s, double ns)
{
    if (!(ns > 0) || (s->segments && s->ends[s->segments - 1] == s->count))
        return LS_OK; /* one sleep between two operations */
    LS_TRY(ls_grow("durations", &s->naps, s->segments, sizeof *s->naps));
    LS_TRY(ls_grow("durations", &s->ends, s->segments, sizeof *s->ends));
    s->naps[s->segments] = fmin(ns, longest_nap_ns);
    s->ends[s->segments++] = s->count;
    return LS_OK;
}

static ls_status add_task(const ls_bench_host *h, share *s, const ls_step_program *p,
                          const ls_task *task)
{
    double ns = 0;
    for (size_t i = 0; i < task->waits.count; i++)
        ns = fmax(ns, waited_ns(h, p, &p->tasks[p->waits[task->waits.first + i]]));
    LS_TRY(add_nap(s, ns));
    for (size_t i = 0; i < task->ops.count; i++) {
        ls_op *op = p->ops[task->ops.first + i];
        LS_TRY(add_nap(s, network_ns(h, op)));
        const bool wanted =
            !h->only || (!s->count && h->only == ls_durations_find(h->durations, op->name,
                                                                   op->flops, op->bytes));
        if (!ls_duration_is_timed(op) || !wanted)
            continue;
        LS_TRY(ls_grow("durations", &s->ops, s->count, sizeof *s->ops));
        s->ops[s->count++] = op;
    }
    return LS_OK;
}

/* What a device computes in a step of each kind. */
static ls_status find_share(const ls_bench_host *h, int device, share *s)
{
    const ls_step_run *run = h->with->run;
    bool *computes;
    LS_TRY(ls_allocate("durations", &computes, (size_t)run->plan.lanes.count + 1, sizeof(bool)));
    ls_status status = LS_OK;
    for (int kind = 0; kind < run->kinds && !status; kind++) {
        const ls_step_program *p = &run->program[kind];
        find_computing(p, computes);
        for (size_t t = 0; t < p->task_count && !status; t++)
            if (computes[p->tasks[t].lane] && ls_bench_device(h, p->tasks[t].lane) == device)
                status = add_task(h, s, p, &p->tasks[t]);
    }
    free(computes);
    return status;
}

static ls_status enqueue_nap(ls_stand_in *s, double ns)
{
    nap *one;
    LS_TRY(ls_allocate("durations", &one, 1, sizeof *one));
    *one = (nap){.op = {.name = "nap", .run = run_nap}, .ns = ns};
    LS_TRY(ls_op_list_add(&s->naps, &one->op));
    s->naps_ns += ns;
    return ls_queue_enqueue(s->queue, &one->op);
}

/* Devices of a core come one after the other, segment by segment, and then sleep. */
static ls_status enqueue_segments(const ls_bench_host *h, ls_stand_in *s, const share *shares,
                                  int count)
{
    size_t segments = 0;
    for (int j = 0; j < count; j++)
        segments = shares[j].segments > segments ? shares[j].segments : segments;
    for (size_t k = 0; k <= segments; k++) {
        double ns = 0;
        for (int j = 0; j < count; j++) {
            const share *one = &shares[j];
            const size_t begin = k == 0 ? 0 : k <= one->segments ? one->ends[k - 1] : one->count;
            const size_t end = k < one->segments ? one->ends[k] : one->count;
            ns = k < one->segments ? fmax(ns, one->naps[k]) : ns;
            for (size_t i = begin; i < end; i++)
                LS_TRY(ls_queue_enqueue(s->queue, one->ops[i]));
            s->ops += end - begin;
        }
        if (ns > 0 && !h->only)
            LS_TRY(enqueue_nap(s, ns));
    }
    for (size_t i = 0; i < s->naps.count; i++)
        if (s->naps_ns > naps_ns)
            ((nap *)s->naps.items[i])->ns *= naps_ns / s->naps_ns;
    return LS_OK;
}

/* Enqueues what the devices of core number `index` compute. */
static ls_status enqueue_shares(const ls_bench_host *h, int index)
{
    share shares[LS_PER_CORE] = {0};
    const int count = h->only ? 1 : h->per_core;
    ls_status status = LS_OK;
    for (int j = 0; j < count && !status; j++)
        status = find_share(h, ls_bench_mate(h, index, j), &shares[j]);
    if (!status)
        status = enqueue_segments(h, &h->devices[index], shares, count);
    for (int j = 0; j < count; j++) {
        free(shares[j].ops);
        free(shares[j].naps);
        free(shares[j].ends);
    }
    return status;
}

static ls_status open_stand_in(ls_bench_host *h, int index)
{
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    const ls_device_name name = {
        .kind = LS_DEVICE_CPU, .index = index, .logical = -1, .replica = -1, .task = -1};
    ls_stand_in *s = &h->devices[index];
    LS_TRY(ls_device_open(h->with->machine, &name, &policy, &s->device));
    LS_TRY(ls_queue_open(s->device, "durations", &s->queue));
    LS_TRY(ls_program_begin(s->queue));
    ls_status enqueued = enqueue_shares(h, index);
    LS_TRY(ls_status_first(enqueued, ls_program_end(s->queue, &s->program)));
    const size_t room = (s->ops + s->naps.count + 1) * MOST;
    s->log = (ls_time_log){.capacity = room};
    return ls_allocate("durations", &s->log.items, room, sizeof *s->log.items);
}

static ls_status launch(ls_bench_host *h, uint64_t times)
{
    for (int i = 0; i < h->count; i++)
        if (h->devices[i].ops)
            LS_TRY(ls_program_launch(h->devices[i].program, times));
    ls_status status = LS_OK;
    for (int i = 0; i < h->count; i++)
        status = ls_status_first(status, ls_queue_sync(h->devices[i].queue));
    return status;
}

/* Looks for an interrupt after each `at_once` repetitions. */
static ls_status repeat(ls_bench_host *h, uint64_t times, uint64_t at_once)
{
    for (uint64_t left = times; left;) {
        const uint64_t next = left < at_once ? left : at_once;
        LS_TRY(launch(h, next));
        if (ls_interrupted())
            return ls_engine_interrupted();
        left -= next;
    }
    return LS_OK;
}

/* A single operation that takes long runs once: what it needs is in memory already. */
static ls_status run_all(ls_bench_host *h)
{
    const bool brief = !h->only || h->only->flops < ls_long_flops;
    uint64_t one = enough_ns;
    if (brief) {
        LS_TRY(repeat(h, h->only ? 1 : WARM, 1));
        const uint64_t begin = ls_clock_ns();
        LS_TRY(repeat(h, 1, 1));
        one = ls_clock_ns() - begin + 1;
    }
    const uint64_t fit = enough_ns / one, least = h->only ? 1 : LEAST;
    h->repetitions = fit < least ? least : fit > MOST ? MOST : fit;
    for (int i = 0; i < h->count; i++)
        LS_TRY(ls_queue_profile(h->devices[i].queue, &h->devices[i].profile, &h->devices[i].log));
    ls_status status = repeat(h, h->repetitions, 1 + look_ns / one);
    for (int i = 0; i < h->count; i++)
        status = ls_status_first(status, ls_queue_profile(h->devices[i].queue, NULL, NULL));
    return status;
}

/* Adds the log of one device to the samples of its keys: for each place of the repetition what is
 * typical there, since after a sleep an operation may take several times as long. */
static ls_status take_log(ls_bench_host *h, int index)
{
    const ls_stand_in *s = &h->devices[index];
    double *totals = &h->totals[(size_t)index * MOST], times[MOST];
    size_t count = 0;
    ls_stretch *logged = s->log.items;
    for (size_t i = 0; i < s->log.count; i++)
        if (logged[i].kind == LS_STRETCH_OP && logged[i].op && logged[i].op->run != run_nap)
            logged[count++] = logged[i];
    for (size_t place = 0; place < s->ops; place++) {
        size_t seen = 0;
        for (size_t i = place; i < count; i += s->ops) {
            times[seen] = (double)(logged[i].end_ns - logged[i].begin_ns);
            totals[seen] += times[seen];
            seen++;
        }
        const ls_op *op = logged[place].op;
        ls_duration *item = ls_durations_find(h->durations, op->name, op->flops, op->bytes);
        if (!seen || !isnan(item->ns)) /* of an earlier host */
            continue;
        LS_TRY(ls_grow("durations", &item->samples, item->sample_count, sizeof *times));
        item->samples[item->sample_count++] = ls_durations_typical(times, seen, LATE);
    }
    return LS_OK;
}

static ls_status take_spread(const ls_bench_host *h, int index)
{
    ls_durations *d = h->durations;
    const double *totals = &h->totals[(size_t)index * MOST];
    double sorted[MOST];
    memcpy(sorted, totals, h->repetitions * sizeof *sorted);
    const double mean = ls_durations_typical(sorted, h->repetitions, INTERRUPTED);
    const double median = ls_statistics_median(sorted, h->repetitions);
    for (size_t r = 0; r < h->repetitions && mean > 0; r++) {
        if (totals[r] > INTERRUPTED * median)
            continue;
        LS_TRY(ls_grow("durations", &d->spread, d->spread_count, sizeof *d->spread));
        d->spread[d->spread_count++] = totals[r] / mean;
    }
    return LS_OK;
}

static ls_status load(const ls_bench_host *h)
{
    const ls_step_plan *plan = &h->with->run->plan;
    for (int m = 0; m < plan->total; m++) {
        if (ls_bench_has(h, plan->members[m].device) && plan->members[m].replica >= 0)
            LS_TRY(
                ls_replicas_load(&h->with->run->resources.members[m].replica, 1, h->with->initial));
    }
    return LS_OK;
}

static ls_status measure(ls_bench_host *h)
{
    for (int i = 0; i < h->count; i++)
        LS_TRY(open_stand_in(h, i));
    LS_TRY(run_all(h));
    for (int i = 0; i < h->count; i++) {
        if (!h->devices[i].ops)
            continue;
        LS_TRY(take_log(h, i));
        if (h->repetitions >= LEAST)
            LS_TRY(take_spread(h, i));
    }
    for (size_t i = 0; i < h->durations->count; i++) {
        ls_duration *item = h->durations->items[i];
        if (isnan(item->ns) && item->sample_count)
            item->ns = ls_statistics_mean(item->samples, item->sample_count);
    }
    return LS_OK;
}

ls_status ls_durations_run(ls_bench_host *h)
{
    LS_TRY(ls_allocate("durations", &h->devices, (size_t)h->count, sizeof *h->devices));
    ls_status status =
        ls_allocate("durations", &h->totals, (size_t)h->count * MOST, sizeof *h->totals);
    if (!status)
        status = measure(h);
    for (int i = 0; i < h->count; i++) {
        ls_program_close(h->devices[i].program);
        ls_queue_close(h->devices[i].queue);
        ls_device_close(h->devices[i].device);
        free(h->devices[i].log.items);
        ls_op_list_clear(&h->devices[i].naps);
    }
    free(h->devices);
    free(h->totals);
    h->devices = NULL;
    h->totals = NULL;
    return status;
}

/* ---- Sums and copies --------------------------------------------------------------- */

enum { LOOP_ELEMENTS = 65536, LOOP_TIMES = 25 };

static ls_status measure_loops(ls_durations *d)
{
    float *memory;
    double adds[LOOP_TIMES], copies[LOOP_TIMES];
    LS_TRY(ls_allocate("durations", &memory, 2 * LOOP_ELEMENTS, sizeof *memory));
    for (size_t i = 0; i < 2 * LOOP_ELEMENTS; i++)
        memory[i] = 1;
    for (int i = 0; i < LOOP_TIMES; i++) {
        const uint64_t begin = ls_clock_ns();
        ls_loop_add(memory, memory + LOOP_ELEMENTS, LOOP_ELEMENTS);
        const uint64_t added = ls_clock_ns();
        memcpy(memory, memory + LOOP_ELEMENTS, LOOP_ELEMENTS * sizeof *memory);
        adds[i] = (double)(added - begin) / LOOP_ELEMENTS;
        copies[i] = (double)(ls_clock_ns() - added) / (LOOP_ELEMENTS * sizeof *memory);
    }
    free(memory);
    d->add_ns = ls_statistics_median(adds, LOOP_TIMES);
    d->copy_ns = ls_statistics_median(copies, LOOP_TIMES);
    return LS_OK;
}

/* ---- All ------------------------------------------------------------------------------------ */

ls_status ls_durations_measure(ls_durations *d, const ls_measuring *with)
{
    const ls_machine *machine = with->machine;
    const size_t devices = with->run->base.job->device_count + 1;
    size_t added = 0;
    bool *marked;
    const int all_cores =
        ls_machine_describe(machine)->cores_allowed / ls_machine_cores_per_device(machine);
    const int cores = all_cores > 1 ? all_cores : 1;
    const int job_devices = (int)with->run->base.job->device_count;
    const int per_host = with->devices_per_host;
    const int at_once = per_host < job_devices ? per_host : job_devices;
    d->devices_per_host = per_host;
    d->cores = per_host < cores ? per_host : cores;
    if (!(d->add_ns > 0))
        LS_TRY(measure_loops(d));
    if (job_devices > 1)
        LS_TRY(
            ls_durations_measure_messages(machine, cores, (at_once + d->cores - 1) / d->cores, d));
    LS_TRY(ls_allocate("durations", &marked, devices + 1, sizeof *marked));
    ls_status status = add_keys(d, with->run, marked, &added);
    for (size_t at = 0; at < devices && added && !status; at++) {
        if (!marked[at])
            continue;
        ls_bench_host host = {.durations = d, .with = with};
        ls_bench_find(&host, (int)at, (int)devices);
        if (ls_durations_fits(&host, WARM + 1 + LEAST)) {
            status = load(&host);
            status = status ? status : ls_durations_run(&host);
        } else {
            status = ls_durations_run_each(&host);
        }
        for (size_t i = 0; i < devices; i++)
            marked[i] &= !ls_bench_has(&host, (int)i);
    }
    free(marked);
    return status;
}
