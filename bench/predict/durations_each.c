/* SPDX-License-Identifier: MIT */
/*
 * Durations of a step that is too much for this machine; see durations_parts.h. Each operation is
 * run alone, the smallest first: only its memory is touched, and given back. After some seconds, or
 * where its memory does not fit, its duration is scaled from the nearest operation of its name, in
 * proportion to FLOPs, or else to bytes; of its kernel, if none of its name was run.
 */
#include "bench/predict/durations_parts.h"

#include "common/base/numbers.h"
#include "common/base/clock.h"
#include "common/base/grow.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const double small_flops = 1e11;                  /* of a case that is run in any case */
static const double share_flops = 1e12, enough_ns = 6e9; /* of all cases */
static const double large = 1e9;                         /* bytes that are not worth running for */

/* Bytes that programs may still take here. */
static double available(const ls_machine *machine)
{
    double bytes = (double)ls_machine_describe(machine)->memory_limit;
    char line[128];
    unsigned long long kib;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
            bytes = fmin(bytes, (double)kib * 1024);
    if (file)
        fclose(file);
    return bytes;
}

bool ls_durations_fits(const ls_bench_host *h, int repetitions)
{
    const ls_step_run *run = h->with->run;
    const ls_step_plan *plan = &run->plan;
    double flops = 0, bytes = 0;
    for (int kind = 0; kind < run->kinds; kind++) {
        const ls_step_program *p = &run->program[kind];
        for (size_t t = 0; t < p->task_count; t++) {
            if (ls_bench_has(h, ls_bench_device(h, p->tasks[t].lane)))
                flops += repetitions * p->tasks[t].flops;
        }
    }
    for (int m = 0, last = -1; m < plan->total; m++) { /* members of a device are next to another */
        const int device = plan->members[m].device;
        if (device != last && ls_bench_has(h, device))
            bytes += (double)ls_device_ledger(ls_step_plan_device(plan, m)).reserved;
        last = device;
    }
    if ((flops > small_flops && h->durations->flops_run + flops > share_flops) ||
        bytes > available(h->with->machine) / 2)
        return false;
    h->durations->flops_run += flops;
    return true;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* The host's first operation of a key. */
static const ls_op *find_op(const ls_bench_host *h, const ls_duration *item)
{
    const ls_step_run *run = h->with->run;
    for (int kind = 0; kind < run->kinds; kind++) {
        const ls_step_program *p = &run->program[kind];
        for (size_t t = 0; t < p->task_count; t++) {
            const int device = ls_bench_device(h, p->tasks[t].lane);
            if (device < h->first || device >= h->first + h->count)
                continue;
            for (size_t i = 0; i < p->tasks[t].ops.count; i++) {
                const ls_op *op = p->ops[p->tasks[t].ops.first + i];
                if (ls_duration_is_timed(op) &&
                    ls_durations_find(h->durations, op->name, op->flops, op->bytes) == item)
                    return op;
            }
        }
    }
    return NULL;
}

static double bytes_of(const ls_op *op)
{
    double bytes = (double)op->workspace;
    for (size_t i = 0; i < op->access_count; i++)
        bytes += (double)op->accesses[i].bytes;
    return bytes;
}

/* Writes to each page of the operation's arrays, as the step would: pages that were never written
 * are all one page of zeros, which stays in the cache. */
static void touch(const ls_op *op, size_t page)
{
    for (size_t i = 0; i < op->access_count; i++) {
        volatile char *memory = (volatile char *)(uintptr_t)op->accesses[i].memory;
        for (size_t at = 0; at < op->accesses[i].bytes; at += page)
            memory[at] = memory[at];
    }
}

/* Only pages that the operation fills: the first and last of an array may hold others, too. */
static void give_back(const ls_op *op, size_t page)
{
    for (size_t i = 0; i < op->access_count; i++) {
        const uintptr_t first = (uintptr_t)op->accesses[i].memory;
        const uintptr_t begin = (first + page - 1) / page * page;
        const uintptr_t end = (first + op->accesses[i].bytes) / page * page;
        if (end > begin)
            (void)madvise((void *)begin, end - begin, MADV_DONTNEED); // NOLINT
    }
}

/* ---- One by one ------------------------------------------------------------------------------ */

/* Name of the kernel: "dense_forward.matmul" has "matmul". */
static const char *kernel_of(const ls_duration *item)
{
    const char *dot = strchr(item->name, '.');
    return dot ? dot : item->name;
}

/* The nearest one that was run: of the name, else of the kernel if it has FLOPs. NULL if none. */
static const ls_duration *find_like(const ls_durations *d, const ls_duration *item)
{
    const ls_duration *best = NULL;
    for (int of_name = 1; of_name >= 0 && !best && (of_name || item->flops > 0); of_name--)
        for (size_t i = 0; i < d->count; i++) {
            const ls_duration *one = d->items[i];
            const bool like = of_name ? strcmp(one->name, item->name) == 0
                                      : strcmp(kernel_of(one), kernel_of(item)) == 0;
            if (!like || isnan(one->ns) || one->scaled || (item->flops > 0) != (one->flops > 0))
                continue;
            if (!best || one->flops + one->bytes > best->flops + best->bytes)
                best = one;
        }
    return best;
}

static double scaled_ns(const ls_duration *like, const ls_duration *item)
{
    return item->flops > 0   ? like->ns * item->flops / like->flops
           : like->bytes > 0 ? like->ns * item->bytes / like->bytes
                             : like->ns;
}

static ls_status run_one(ls_bench_host *h, ls_duration *item)
{
    const ls_op *op = find_op(h, item);
    const double left_ns = enough_ns - h->durations->each_ns;
    const double bytes = op ? bytes_of(op) * h->count : 0;
    const double most = available(h->with->machine) * 3 / 4;
    const ls_duration *like = find_like(h->durations, item);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char needs[32], has[32];
    if (!op)
        return LS_OK;
    if (like && (left_ns < 3 * scaled_ns(like, item) || bytes > fmin(most, large))) {
        item->ns = scaled_ns(like, item);
        item->scaled = true;
        h->durations->scaled++;
        return LS_OK;
    }
    if (bytes > most)
        return ls_fail(LS_CODE_MISSING, "option --durations", "measured",
                       "measuring the operation %s needs %s of memory, but this machine has %s "
                       "available; use --durations flops=RATE, or a smaller model or batch",
                       item->name, ls_format_bytes(bytes, needs), ls_format_bytes(most, has));
    const uint64_t begin_ns = ls_clock_ns();
    touch(op, page);
    h->only = item;
    ls_status status = ls_durations_run(h);
    h->only = NULL;
    give_back(op, page);
    h->durations->each_ns += (double)(ls_clock_ns() - begin_ns);
    return status;
}

static int by_size(const void *x, const void *y)
{
    const ls_duration *a = *(ls_duration *const *)x, *b = *(ls_duration *const *)y;
    const double one = a->flops + a->bytes, other = b->flops + b->bytes;
    return (one > other) - (one < other);
}

ls_status ls_durations_run_each(ls_bench_host *h)
{
    ls_durations *d = h->durations;
    ls_duration **missing;
    size_t count = 0;
    LS_TRY(ls_allocate("durations", &missing, d->count + 1, sizeof *missing));
    for (size_t i = 0; i < d->count; i++)
        if (isnan(d->items[i]->ns))
            missing[count++] = d->items[i];
    qsort(missing, count, sizeof *missing, by_size);
    ls_status status = LS_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = run_one(h, missing[i]);
    free(missing);
    return status;
}
