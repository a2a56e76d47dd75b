/* SPDX-License-Identifier: MIT */
/* Durations measured here; see durations.h. */
#include "bench/predict/durations.h"

#include "bench/play/engine.h"
#include "bench/statistics/statistics.h"
#include "bench/train/interrupt.h"
#include "common/base/clock.h"
#include "common/base/grow.h"
#include "common/comm/comm_loops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WARM = 3, LEAST = 5, MOST = 60 }; /* repetitions */
static const uint64_t enough_ns = 400000000, look_ns = 100000000;

/* Devices that wait for others go on with cold caches, and on a core that has slept. */
static const uint64_t pause_ns = 1000000;

/* A repetition so many times as long as the median was interrupted by other programs, and says
 * nothing of the device. */
enum { INTERRUPTED = 2 };

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

/* A real device that does the work of a virtual one. */
typedef struct stand_in {
    ls_device *device;
    ls_queue *queue;
    ls_program *program;
    ls_time_profile profile;
    ls_time_log log;
    size_t ops; /* of one repetition */
} stand_in;

typedef struct bench_host {
    ls_durations *durations;
    const ls_machine *machine;
    ls_step_run *run;
    int first, count;  /* virtual devices, each on a separate core */
    uint64_t pause_ns; /* before each repetition */
    const ls_state_source *initial;
    stand_in *devices; /* [count] */
    double *totals;    /* [count, MOST] */
    size_t repetitions;
} bench_host;

/* Enqueues what device number `index` of the host computes in a step of each kind. */
static ls_status enqueue_share(const bench_host *h, int index)
{
    stand_in *s = &h->devices[index];
    for (int kind = 0; kind < h->run->kinds; kind++) {
        const ls_step_program *p = &h->run->program[kind];
        for (size_t t = 0; t < p->task_count; t++) {
            const ls_task *task = &p->tasks[t];
            const int member = h->run->plan.lanes.items[task->lane].member;
            if (h->run->plan.members[member].device != h->first + index)
                continue;
            for (size_t i = 0; i < task->ops.count; i++) {
                ls_op *op = p->ops[task->ops.first + i];
                if (!ls_duration_is_timed(op))
                    continue;
                LS_TRY(ls_queue_enqueue(s->queue, op));
                s->ops++;
            }
        }
    }
    return LS_OK;
}

static ls_status open_stand_in(bench_host *h, int index)
{
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    const ls_device_name name = {
        .kind = LS_DEVICE_CPU, .index = index, .logical = -1, .replica = -1, .task = -1};
    stand_in *s = &h->devices[index];
    LS_TRY(ls_device_open(h->machine, &name, &policy, &s->device));
    LS_TRY(ls_queue_open(s->device, "durations", &s->queue));
    LS_TRY(ls_program_begin(s->queue));
    ls_status enqueued = enqueue_share(h, index);
    LS_TRY(ls_status_first(enqueued, ls_program_end(s->queue, &s->program)));
    const size_t room = (s->ops + 1) * MOST;
    s->log = (ls_time_log){.capacity = room};
    return ls_allocate("durations", &s->log.items, room, sizeof *s->log.items);
}

static ls_status launch(bench_host *h, uint64_t times)
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
static ls_status repeat(bench_host *h, uint64_t times, uint64_t at_once)
{
    for (uint64_t left = times; left;) {
        const uint64_t next = h->pause_ns ? 1 : left < at_once ? left : at_once;
        if (h->pause_ns)
            ls_clock_sleep(h->pause_ns);
        LS_TRY(launch(h, next));
        if (ls_interrupted())
            return ls_engine_interrupted();
        left -= next;
    }
    return LS_OK;
}

static ls_status run_all(bench_host *h)
{
    LS_TRY(repeat(h, WARM, 1));
    uint64_t begin = ls_clock_ns();
    LS_TRY(repeat(h, 1, 1));
    const uint64_t one = ls_clock_ns() - begin + 1;
    const uint64_t fit = enough_ns / one;
    h->repetitions = fit < LEAST ? LEAST : fit > MOST ? MOST : fit;
    for (int i = 0; i < h->count; i++)
        LS_TRY(ls_queue_profile(h->devices[i].queue, &h->devices[i].profile, &h->devices[i].log));
    ls_status status = repeat(h, h->repetitions, 1 + look_ns / one);
    for (int i = 0; i < h->count; i++)
        status = ls_status_first(status, ls_queue_profile(h->devices[i].queue, NULL, NULL));
    return status;
}

/* Adds the log of one device to the samples of its keys. */
static ls_status take_log(bench_host *h, int index)
{
    const stand_in *s = &h->devices[index];
    size_t seen = 0;
    for (size_t i = 0; i < s->log.count; i++) {
        const ls_stretch *one = &s->log.items[i];
        if (one->kind != LS_STRETCH_OP || !one->op)
            continue;
        const double ns = (double)(one->end_ns - one->begin_ns);
        h->totals[(size_t)index * MOST + seen++ / s->ops] += ns;
        ls_duration *item =
            ls_durations_find(h->durations, one->op->name, one->op->flops, one->op->bytes);
        if (!isnan(item->ns)) /* of an earlier host */
            continue;
        LS_TRY(ls_grow("durations", &item->samples, item->sample_count, sizeof ns));
        item->samples[item->sample_count++] = ns;
    }
    return LS_OK;
}

static ls_status take_spread(const bench_host *h, int index)
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

static ls_status measure(bench_host *h)
{
    const ls_step_plan *plan = &h->run->plan;
    for (int m = 0; m < plan->total; m++) {
        const int device = plan->members[m].device;
        if (device >= h->first && device < h->first + h->count && plan->members[m].replica >= 0)
            LS_TRY(ls_replicas_load(&h->run->resources.members[m].replica, 1, h->initial));
    }
    for (int i = 0; i < h->count; i++)
        LS_TRY(open_stand_in(h, i));
    LS_TRY(run_all(h));
    for (int i = 0; i < h->count; i++) {
        if (!h->devices[i].ops)
            continue;
        LS_TRY(take_log(h, i));
        LS_TRY(take_spread(h, i));
    }
    for (size_t i = 0; i < h->durations->count; i++) {
        ls_duration *item = &h->durations->items[i];
        if (isnan(item->ns) && item->sample_count)
            item->ns = ls_durations_typical(item->samples, item->sample_count, INTERRUPTED);
    }
    return LS_OK;
}

static ls_status measure_host(bench_host *h)
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
    }
    free(h->devices);
    free(h->totals);
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

ls_status ls_durations_measure(ls_durations *d, const ls_machine *machine, ls_step_run *run,
                               int devices_per_host, const ls_state_source *initial)
{
    const size_t devices = run->base.job->device_count + 1;
    size_t added = 0;
    bool *marked;
    const int all_cores =
        ls_machine_describe(machine)->cores_allowed / ls_machine_cores_per_device(machine);
    const int cores = all_cores > 1 ? all_cores : 1;
    const int job_devices = (int)run->base.job->device_count;
    const int at_once = devices_per_host < job_devices ? devices_per_host : job_devices;
    d->devices_per_host = devices_per_host;
    d->cores = devices_per_host < cores ? devices_per_host : cores;
    if (!(d->add_ns > 0))
        LS_TRY(measure_loops(d));
    if (job_devices > 1)
        LS_TRY(
            ls_durations_measure_messages(machine, cores, (at_once + d->cores - 1) / d->cores, d));
    LS_TRY(ls_allocate("durations", &marked, devices + 1, sizeof *marked));
    ls_status status = add_keys(d, run, marked, &added);
    for (size_t at = 0; at < devices && added && !status; at++) {
        if (!marked[at])
            continue;
        const size_t per = (size_t)d->cores, first = at / per * per;
        const size_t end = first + per < devices ? first + per : devices;
        bench_host host = {.durations = d,
                           .machine = machine,
                           .run = run,
                           .first = (int)first,
                           .count = (int)(end - first),
                           .pause_ns = run->base.job->device_count > 1 ? pause_ns : 0,
                           .initial = initial};
        status = measure_host(&host);
        memset(&marked[first], 0, end - first);
    }
    free(marked);
    return status;
}
