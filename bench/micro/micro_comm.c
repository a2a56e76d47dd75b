/* SPDX-License-Identifier: MIT */
/*
 * `lockstep micro allreduce|broadcast|allgather|reducescatter|sendrecv`: collectives by size. Each
 * rank is a queue with two buffers on its own device, in this process or (mpirun) in each of
 * several. Programs of one call (micro_calls.c) are replayed until a sample is long enough, between
 * two readings of rank 0's clock. In place, a call reuses one buffer; out of place, each rank first
 * copies its input over the buffer, which is timed, so every call finds data that another core has
 * just written. (In place, `direct` finds each slice in the cache of the rank that sums it: that
 * measures the barriers, not the data.) All-gather and reduce-scatter are the halves of the
 * all-reduces that can be cut. Inputs are whole numbers from -2 to 2, so sums are exact;
 * after the timing, every element of one more call is checked, and the traffic of all calls against
 * the formula. size is the whole buffer; algorithm bandwidth is size over time.
 */
#include "bench/micro/micro_comm.h"
#include "bench/train/world.h"
#include "common/base/log.h"
#include "common/base/grow.h"
#include "common/comm/comm_network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Shortest samples; longer between processes, whose samples begin some 0.1 ms apart. */
static const double shortest_ns = 1e6, shortest_apart_ns = 1e7;

static float input_of(int rank, size_t i)
{
    return ls_micro_whole(i, (unsigned)rank * 40503u);
}

bool ls_collective_is(const ls_collective *c, const char *name)
{
    return strcmp(c->name, name) == 0;
}

/* What a rank must have at element i after a call; false if anything. */
static bool expected_of(const ls_collective *c, int rank, size_t i, float *out)
{
    if (ls_collective_is(c, "broadcast"))
        *out = input_of(0, i);
    if (ls_collective_is(c, "sendrecv"))
        *out = input_of((rank + c->ranks - 1) % c->ranks, i);
    if (c->half == LS_ALL_GATHER) {
        int owner = 0;
        while (owner + 1 < c->ranks && c->offsets[owner + 1] <= i)
            owner++;
        *out = input_of(owner, i);
    }
    if (c->half == LS_REDUCE_SCATTER && i - c->offsets[rank] >= c->counts[rank])
        return false; /* if i is before the share, this wraps around to a large number */
    if (c->algorithm && c->half != LS_ALL_GATHER) {
        float sum = 0;
        for (int r = 0; r < c->ranks; r++)
            sum += input_of(r, i);
        *out = sum;
    }
    return true;
}

/* Bus bandwidth over algorithm bandwidth (bytes of the whole buffer over time), as defined in
 * nccl-tests' PERFORMANCE.md: it makes figures for different numbers of ranks comparable. */
static double bus_factor(const ls_collective *c)
{
    const double others = (double)(c->ranks - 1) / c->ranks;
    return !c->algorithm ? 1 : c->half == LS_HALVES ? 2 * others : others;
}

static ls_traffic formula(const ls_collective *c)
{
    if (c->algorithm && c->half == LS_HALVES)
        return c->algorithm->formula(c->ranks, ls_elements(c->count), c->ranks,
                                     c->members[0].comm->layout);
    if (c->algorithm)
        return c->algorithm->half_formula(c->half, c->ranks, ls_elements(c->count), c->ranks);
    if (ls_collective_is(c, "broadcast"))
        return ls_broadcast_formula(c->ranks, c->count);
    return (ls_traffic){.bytes_sent = (uint64_t)c->ranks * c->count * sizeof(float),
                        .messages_sent = (uint64_t)c->ranks};
}

/* ---- Timing and checking -------------------------------------------------------------------- */

/* Times calls on all processes; each gets rank 0's time. */
static ls_status time_calls(void *context, uint64_t times, double *ns)
{
    ls_collective *c = context;
    uint64_t taken = 0;
    ls_status status = ls_collective_time(c, times, &taken);
    LS_TRY(ls_world_turn(c->comm, status, &taken, NULL));
    *ns = (double)taken;
    c->calls += times;
    return LS_OK;
}

/* Checks every element of every rank after one more call with fresh inputs. `host` is [count]. */
static ls_status check_call(ls_collective *c, float *host, uint64_t *wrong)
{
    double ns;
    size_t bytes = c->count * sizeof(float);
    *wrong = 0;
    for (int r = 0; r < c->local; r++) {
        ls_micro_member *me = &c->members[r];
        for (size_t i = 0; i < c->count; i++)
            host[i] = input_of(c->first + r, i);
        LS_TRY(ls_queue_write(me->queue, me->input, host, bytes));
        if (!c->out_of_place)
            LS_TRY(ls_queue_write(me->queue, me->data, host, bytes));
    }
    LS_TRY(time_calls(c, 1, &ns));
    for (int r = 0; r < c->local; r++) {
        LS_TRY(ls_queue_read(c->members[r].queue, host, c->members[r].data, bytes));
        for (size_t i = 0; i < c->count; i++) {
            float expected = 0;
            *wrong += expected_of(c, c->first + r, i, &expected) && host[i] != expected;
        }
    }
    return LS_OK;
}

/* This process's errors and traffic, then the totals of all. */
typedef struct tally {
    uint64_t wrong;
    ls_traffic sent;
} tally;

static ls_status add_up(const ls_collective *c, tally *sum)
{
    const size_t processes = c->comm ? (size_t)c->comm->size : 1;
    ls_auto tally *all = NULL;
    LS_TRY(ls_allocate(c->name, &all, processes, sizeof *all));
    for (int r = 0; r < c->local; r++) {
        ls_traffic t = ls_comm_traffic(c->members[r].comm);
        sum->sent.bytes_sent += t.bytes_sent;
        sum->sent.messages_sent += t.messages_sent;
    }
    LS_TRY(ls_comm_collect(c->comm, sum, sizeof *sum, all));
    *sum = (tally){0};
    for (size_t p = 0; p < processes; p++) {
        sum->wrong += all[p].wrong;
        sum->sent.bytes_sent += all[p].sent.bytes_sent;
        sum->sent.messages_sent += all[p].sent.messages_sent;
    }
    return LS_OK;
}

/* Compares the traffic of all calls with the formula; writes `why` if they differ. */
static bool check_traffic(const ls_collective *c, ls_traffic sum, ls_micro_figure *figure,
                          char why[160])
{
    /* Joint ranks count once, when the call is captured. */
    const uint64_t calls = ls_comm_is_joint(c->members->comm) ? 1 : c->calls;
    figure->uncounted = c->algorithm && !c->algorithm->formula; /* nor one of its halves */
    if (figure->uncounted)
        return true;
    const ls_traffic expected = formula(c);
    figure->sent = (ls_traffic){sum.bytes_sent / calls, sum.messages_sent / calls};
    if (sum.bytes_sent == calls * expected.bytes_sent &&
        sum.messages_sent == calls * expected.messages_sent)
        return true;
    snprintf(why, 160,
             "traffic: %llu bytes, %llu messages in %llu calls; the formula says %llu, "
             "%llu a call",
             (unsigned long long)sum.bytes_sent, (unsigned long long)sum.messages_sent,
             (unsigned long long)calls, (unsigned long long)expected.bytes_sent,
             (unsigned long long)expected.messages_sent);
    return false;
}

static ls_status measure(ls_micro *m, ls_collective *c)
{
    char why[160];
    tally all = {0};
    ls_micro_figure figure = {.op = c->name,
                              .shape = c->out_of_place ? "out of place" : "in place",
                              .bytes = c->count * sizeof(float),
                              .count = c->count,
                              .moved_bytes = (double)(c->count * sizeof(float)),
                              .checked = true,
                              .kernel = c->algorithm ? c->algorithm->name : NULL,
                              .ranks = c->ranks,
                              .comm = m->comm->name,
                              .redop = c->redop,
                              .bus_factor = bus_factor(c)};
    ls_auto float *host = NULL;
    LS_TRY(ls_allocate(c->name, &host, c->count, sizeof *host));
    ls_status status = ls_bench_sample(time_calls, c, c->comm ? shortest_apart_ns : shortest_ns, 1,
                                       LS_MICRO_ROUNDS, &figure.ns);
    if (!status)
        status = check_call(c, host, &all.wrong);
    LS_TRY(ls_world_agree(c->comm, status));
    LS_TRY(add_up(c, &all));
    figure.wrong = all.wrong;
    if (!check_traffic(c, all.sent, &figure, why))
        figure.reason = why;
    return ls_micro_row(m, &figure);
}

/* ---- Ranks ---------------------------------------------------------------------------------- */

static ls_status take(ls_device *device, size_t count, float **out)
{
    void *memory = NULL;
    LS_TRY(ls_device_allocate(device, LS_MEMORY_COMMUNICATION, count * sizeof **out, &memory));
    *out = memory;
    return LS_OK;
}

static ls_status open_buffers(const ls_micro *m, ls_collective *c)
{
    ls_device *devices[1024];
    ls_comm *comms[1024];
    for (int r = 0; r < c->local; r++)
        devices[r] = c->members[r].device;
    LS_TRY(ls_comm_open(m->comm, c->comm, devices, c->local, comms));
    for (int r = 0; r < c->local; r++)
        c->members[r].comm = comms[r];
    for (int r = 0; r < c->local; r++) {
        ls_micro_member *me = &c->members[r];
        LS_TRY(take(me->device, c->count, &me->input));
        LS_TRY(take(me->device, c->count, &me->data));
        if (c->algorithm && c->algorithm->scratch)
            LS_TRY(
                take(me->device,
                     c->algorithm->scratch(c->first + r, c->ranks, ls_elements(c->count), c->ranks),
                     &me->scratch));
    }
    return ls_collective_capture(c);
}

static void close_buffers(ls_collective *c)
{
    ls_collective_clear(c);
    for (int r = 0; r < c->local; r++) {
        ls_micro_member *me = &c->members[r];
        ls_device_release(me->device, me->input);
        ls_device_release(me->device, me->data);
        ls_device_release(me->device, me->scratch);
        me->input = me->data = me->scratch = NULL;
    }
    for (int r = 0; r < c->local; r++) {
        ls_comm_close(c->members[r].comm);
        c->members[r].comm = NULL;
    }
}

static ls_status run_size(ls_micro *m, ls_collective *c, size_t bytes)
{
    c->count = bytes / sizeof(float);
    c->calls = 0;
    for (int r = 0; r < c->ranks; r++) {
        c->offsets[r] = ls_comm_share(c->count, r, c->ranks);
        c->counts[r] = ls_comm_share(c->count, r + 1, c->ranks) - c->offsets[r];
    }
    ls_status status = ls_world_agree(c->comm, open_buffers(m, c));
    if (!status)
        status = measure(m, c);
    close_buffers(c);
    return status;
}

/* A communicator's facts before it is opened, for ls_allreduce_auto. */
static ls_comm outline_of(const ls_micro *m, const ls_collective *c)
{
    return (ls_comm){.backend = m->comm,
                     .size = c->ranks,
                     .linked = m->network != NULL,
                     .shared = m->processes->hosts == 1 && !m->network &&
                               ls_comm_shares(m->names, c->local)};
}

/* A process's first rank uses the bench's device and queue. */
static ls_status open_members(ls_micro *m, ls_collective *c)
{
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    c->bench = &m->bench;
    c->comm = m->processes->comm;
    c->local = m->ranks;
    c->first = m->processes->rank * c->local;
    c->ranks = m->processes->size * c->local;
    const size_t n = (size_t)c->ranks;
    if (m->comm->check)
        LS_TRY(m->comm->check(m->names, c->local));
    LS_TRY(ls_allocate(c->name, &c->members, n, sizeof *c->members));
    LS_TRY(ls_allocate(c->name, &c->offsets, 2 * n, sizeof *c->offsets));
    c->counts = c->offsets + n;
    c->members[0].device = m->device;
    c->members[0].queue = m->bench.queue;
    for (int r = 1; r < m->ranks; r++) {
        LS_TRY(ls_device_open(m->machine, &m->names[r], &policy, &c->members[r].device));
        m->known[r] = ls_device_describe(c->members[r].device);
        LS_TRY(ls_queue_open(c->members[r].device, "bench", &c->members[r].queue));
    }
    if (m->link_text)
        LS_TRY(ls_network_open(&m->link, c->local, &m->network));
    for (int r = 0; r < c->local && m->network; r++)
        ls_device_link(c->members[r].device, m->network, r);
    return LS_OK;
}

/* Chooses the algorithm of an all-reduce or its half, for all ranks. */
static ls_status choose(const ls_micro *m, const ls_collective *c, size_t bytes,
                        const ls_allreduce **out)
{
    const ls_processes *processes = m->processes;
    const ls_comm end = outline_of(m, c);
    const ls_sum_load load = {.ranks = c->ranks,
                              .stride = 1,
                              .groups = 1,
                              .layout = processes->comm ? &processes->layout : NULL,
                              .half = c->half,
                              .extent = ls_elements(bytes / sizeof(float)),
                              .times = 1};
    ls_comm_network network = {.layout = load.layout, .devices = c->ranks};
    const bool shared = !ls_wires_estimate(&m->link, processes->hosts, &network.wires);
    *out = c->half == LS_HALVES ? ls_allreduce_auto(&end, bytes) : ls_allreduce_auto_halves(&end);
    return shared || !(*out)->time ? LS_OK : ls_allreduce_fastest(&network, &load, 1, *out, out);
}

/* `algorithm`: of an all-reduce or its half, or "auto"; NULL means another collective. */
static ls_status run_sizes(ls_micro *m, ls_collective *c, const char *algorithm,
                           const size_t *sizes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (int place = 0; place < (ls_collective_is(c, "sendrecv") ? 1 : 2); place++) {
            bool automatic = algorithm && strcmp(algorithm, "auto") == 0;
            c->out_of_place = place == 0;
            if (automatic)
                LS_TRY(choose(m, c, sizes[i], &c->algorithm));
            else if (algorithm)
                LS_TRY(ls_allreduce_find(algorithm, &c->algorithm));
            LS_TRY(run_size(m, c, sizes[i]));
        }
    }
    return LS_OK;
}

/* All collectives need exchanges, except a library's own all-reduce and its halves. */
static ls_status check_exchanges(const ls_micro *m)
{
    if (m->comm->exchange)
        return LS_OK;
    return ls_fail(
        LS_CODE_USAGE, "option --comm", m->comm->name,
        "works with `micro allreduce`, `micro allgather` and `micro reducescatter` only, each "
        "with --allreduce library; use one of these, or --comm auto");
}

/* Checks all that were given, before any is measured. */
static ls_status check_algorithm(const ls_micro *m, const ls_collective *c, const char *name)
{
    const ls_comm end = outline_of(m, c);
    const ls_allreduce *found;
    if (strcmp(name, "auto") == 0)
        return LS_OK;
    LS_TRY(ls_allreduce_find(name, &found));
    if (c->half != LS_HALVES)
        LS_TRY(ls_allreduce_check_halves(found));
    if (strcmp(name, "library") != 0)
        LS_TRY(check_exchanges(m));
    return found->check ? found->check(&end) : LS_OK;
}

/* The given algorithms, without the ones that cannot run here; a line says why; refused if none is
 * left, or a name is unknown. `kept` owns its list. */
static ls_status keep_possible(ls_micro *m, const ls_collective *c, ls_option_given *kept)
{
    const ls_option_given *given = m->allreduce;
    const ls_allreduce *found;
    if (!given->count)
        return LS_OK;
    LS_TRY(ls_allocate("--allreduce", &kept->values, given->count, sizeof *kept->values));
    for (size_t i = 0; i < given->count; i++) {
        const char *name = given->values[i].text;
        if (strcmp(name, "auto") != 0)
            LS_TRY(ls_allreduce_find(name, &found));
        ls_status why = check_algorithm(m, c, name);
        if (!why) {
            kept->values[kept->count++] = given->values[i];
            continue;
        }
        if (i + 1 == given->count && !kept->count)
            return why;
        if (m->processes->rank == 0)
            ls_log_stderr("left out: micro %s --allreduce %s: %s", c->name, name,
                          ls_status_text(why));
        ls_status_free(why);
    }
    m->allreduce = kept;
    return LS_OK;
}

/* An all-reduce and its halves are measured with all given algorithms; other collectives have only
 * one. */
ls_status ls_micro_collective(ls_micro *m)
{
    ls_collective c = {.name = m->op->name, .redop = m->op->redop};
    const ls_option_given *asked = m->allreduce;
    ls_option_given given = {NULL, 0};
    c.half = ls_collective_is(&c, "allgather")       ? LS_ALL_GATHER
             : ls_collective_is(&c, "reducescatter") ? LS_REDUCE_SCATTER
                                                     : LS_HALVES;
    const bool chooses = c.half != LS_HALVES || ls_collective_is(&c, "allreduce");
    size_t sizes[LS_MICRO_SIZES], count;
    LS_TRY(chooses ? LS_OK : check_exchanges(m));
    ls_status status = ls_world_agree(m->processes->comm, open_members(m, &c));
    if (!status)
        status = keep_possible(m, &c, &given);
    if (!status)
        status = ls_micro_sizes(m, 8, sizes, &count);
    for (size_t i = 0; i < given.count && !status; i++)
        status = run_sizes(m, &c, given.values[i].text, sizes, count);
    if (!status && !given.count)
        status = run_sizes(m, &c, chooses ? "auto" : NULL, sizes, count);
    for (int r = 1; c.members && r < c.local; r++) {
        ls_queue_close(c.members[r].queue);
        ls_device_close(c.members[r].device);
    }
    free(c.members);
    free(c.offsets);
    m->allreduce = asked;
    free(given.values);
    return status;
}
