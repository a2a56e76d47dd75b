/* SPDX-License-Identifier: MIT */
/*
 * The MPI back end, run by mpirun on several processes, with one, two and three members each: every
 * all-reduce algorithm and collective gives the oracle's bits and sends what its formula says, with
 * and without delays; the library's sum is near; ranks that fail, mismatch or never come wake all
 * others, each with one message; host calls. Every process runs the same tests in the same order.
 * Tolerance: none, except max_rel 1e-6 for the library. alarm() ends a hang.
 */
#include "common/comm/mpi/tests/mpi_fixture.h"

#include <math.h>

/* Includes counts around the size of an exchange's pieces. More pieces than can be in flight are
 * only sent between processes, so with one member each. */
static void all_reduces_give_their_oracles_bits(void **state)
{
    static const size_t counts[] = {0, 1, 2, 7, 9, 1000, 65535, 65536, 65537, 262145, 600000};
    enum { ALL = sizeof counts / sizeof *counts, MANY_PIECES = 2 };
    const ls_allreduce *a;
    for (const void *const *e = ls_allreduces.entries; (a = *e); e++)
        for (int locals = 1; locals <= MOST_LOCALS && runs_here(a); locals++)
            for (size_t c = 0; c < (locals > 1 ? ALL - MANY_PIECES : ALL);
                 c += thorough() ? 1 : (size_t)locals + 1)
                try_allreduce(*state, a, &(workspace){.locals = locals, .count = counts[c]},
                              REPLAYS, 0);
}

/* Two processes do most replays: more of them on two cores take many times as long. */
static void all_reduces_bear_replays_and_delays(void **state)
{
    const bool two = ((const mpi_fixture *)*state)->processes.size == 2;
    const uint64_t replays = two ? MANY_REPLAYS : SOME_REPLAYS;
    const ls_allreduce *a;
    for (const void *const *e = ls_allreduces.entries; (a = *e); e++)
        for (int locals = 1; locals <= 2 && runs_here(a); locals++) {
            try_allreduce(*state, a, &(workspace){.locals = locals, .count = 300}, replays, 0);
            try_allreduce(*state, a, &(workspace){.locals = locals, .count = 5}, REPLAYS, 1);
            try_allreduce(*state, a, &(workspace){.locals = locals, .count = 1000}, REPLAYS, 2);
        }
}

static void the_librarys_sum_is_near(void **state)
{
    const mpi_fixture *f = *state;
    const ls_allreduce *library, *flat;
    workspace w;
    must(ls_allreduce_find("library", &library));
    must(ls_allreduce_find("flat", &flat));
    open_workspace(f, 1, 100000, &w);
    must(allreduce_sum(flat, (const float *const *)w.inputs, w.ranks, w.count, w.expected, NULL));
    const ls_allreduce_args args = {.data = w.data[0], .count = w.count};
    must(library->check(w.comms[0]));
    must(library->build(w.comms[0], &args, &w.ops[0]));
    replay_all(f->devices, w.ops, 1, 1, NULL);
    double off = 0, norm = 0;
    for (size_t i = 0; i < w.count; i++) {
        double d = (double)w.data[0][i] - (double)w.expected[i];
        off += d * d;
        norm += (double)w.expected[i] * (double)w.expected[i];
    }
    assert_true(sqrt(off / norm) <= 1e-6);
    close_workspace(&w);
    open_workspace(f, 2, 10, &w);
    must_refuse(library->build(w.comms[1], &args, &w.ops[1]), LS_CODE_USAGE, "one device");
    close_workspace(&w);
}

/* sum(lo, hi) of one element of each rank's inputs, as comm.h defines it. */
static float tree_sum(float *const *inputs, size_t i, int lo, int hi)
{
    int half = 1;
    if (hi - lo == 1)
        return inputs[lo][i];
    while (2 * half < hi - lo)
        half *= 2;
    return tree_sum(inputs, i, lo, lo + half) + tree_sum(inputs, i, lo + half, hi);
}

/* One shard per rank. */
static void canonical_gives_the_bits_of_the_tree(void **state)
{
    static const size_t counts[] = {1, 3, 1000, 200001};
    const ls_allreduce *canonical;
    must(ls_allreduce_find("canonical", &canonical));
    for (int locals = 1; locals <= MOST_LOCALS; locals++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            workspace w;
            float *scratch[MOST_LOCALS];
            open_workspace(*state, locals, counts[c], &w);
            for (size_t i = 0; i < w.count; i++)
                w.expected[i] = tree_sum(w.inputs, i, 0, w.ranks);
            for (int i = 0; i < locals; i++) {
                size_t need =
                    canonical->scratch(w.first + i, w.ranks, ls_elements(w.count), w.ranks);
                scratch[i] = malloc((need + 1) * sizeof(float));
                const ls_allreduce_args args = {.data = w.data[i],
                                                .count = w.count,
                                                .scratch = scratch[i],
                                                .shards = w.ranks,
                                                .sums = &w.data[i],
                                                .sum_count = 1};
                must(canonical->build(w.comms[i], &args, &w.ops[i]));
                w.checks[i] = put_op(&w.ops[i], run_check, w.data[i], w.expected, w.count);
            }
            replay_and_judge(&w, "canonical", REPLAYS,
                             canonical->formula(w.ranks, ls_elements(w.count), w.ranks, NULL));
            close_workspace(&w);
            for (int i = 0; i < locals; i++)
                free(scratch[i]);
        }
}

/* ---- Halves --------------------------------------------------------------------------------- */

/* Of a rank: its scratch, and inputs whose own share is the sum, and the rest is not. */
typedef struct half_end {
    float *scratch, *garbage;
} half_end;

static void sum_inputs(const ls_allreduce *a, workspace *w)
{
    if (a->oracle)
        must(allreduce_sum(a, (const float *const *)w->inputs, w->ranks, w->count, w->expected,
                           NULL));
    for (size_t i = 0; i < w->count && !a->oracle; i++)
        w->expected[i] = tree_sum(w->inputs, i, 0, w->ranks);
}

/* canonical: one shard per rank. The workspace has filled the data with the inputs. */
static void put_half(const ls_allreduce *a, ls_half half, workspace *w, int i, half_end *end)
{
    const int rank = w->first + i;
    const size_t first = ls_comm_share(w->count, rank, w->ranks),
                 count = ls_comm_share(w->count, rank + 1, w->ranks) - first;
    const bool scatters = half == LS_REDUCE_SCATTER;
    const size_t need =
        a->scratch ? a->scratch(rank, w->ranks, ls_elements(w->count), w->ranks) : 0;
    *end = (half_end){malloc((need + 1) * sizeof(float)), random_floats("garbage", rank, w->count)};
    memcpy(end->garbage + first, w->expected + first, count * sizeof(float));
    if (!scatters)
        put_op(&w->ops[i], run_fill, w->data[i], end->garbage, w->count);
    const ls_allreduce_args args = {.data = w->data[i],
                                    .count = w->count,
                                    .scratch = end->scratch,
                                    .shards = w->ranks,
                                    .sums = &w->data[i],
                                    .sum_count = 1};
    must(a->half(w->comms[i], half, &args, &w->ops[i]));
    w->checks[i] = put_op(&w->ops[i], run_check, w->data[i] + (scatters ? first : 0),
                          w->expected + (scatters ? first : 0), scatters ? count : w->count);
}

static void try_half(const mpi_fixture *f, const ls_allreduce *a, ls_half half, int locals,
                     size_t count)
{
    workspace w;
    half_end ends[MOST_LOCALS];
    open_workspace(f, locals, count, &w);
    sum_inputs(a, &w);
    for (int i = 0; i < locals; i++)
        put_half(a, half, &w, i, &ends[i]);
    replay_and_judge(&w, a->name, REPLAYS,
                     a->half_formula(half, w.ranks, ls_elements(count), w.ranks));
    close_workspace(&w);
    for (int i = 0; i < locals; i++) {
        free(ends[i].scratch);
        free(ends[i].garbage);
    }
}

static void halves_have_the_bits_of_the_whole(void **state)
{
    static const size_t counts[] = {0, 1, 2, 3, 4, 5, 1000, 4097, 70001};
    const ls_allreduce *a;
    for (const void *const *e = ls_allreduces.entries; (a = *e); e++)
        for (int locals = 1; locals <= 2 && a->half && a->half_formula; locals++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c += thorough() ? 1 : 4)
                for (ls_half half = LS_REDUCE_SCATTER; half <= LS_ALL_GATHER; half++)
                    try_half(*state, a, half, locals, counts[c]);
}

/* The library may add in any order; its all-gather copies. */
static void the_librarys_halves_are_near(void **state)
{
    static const size_t counts[] = {0, 1, 2, 3, 5, 1000, 4097, 70001};
    const mpi_fixture *f = *state;
    const ls_allreduce *library, *flat;
    must(ls_allreduce_find("library", &library));
    must(ls_allreduce_find("flat", &flat));
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        workspace w;
        const size_t count = counts[c];
        open_workspace(f, 1, count, &w);
        const ls_allreduce_args args = {.data = w.data[0], .count = count};
        sum_inputs(flat, &w);
        must(library->half(w.comms[0], LS_REDUCE_SCATTER, &args, &w.ops[0]));
        must(library->half(w.comms[0], LS_ALL_GATHER, &args, &w.ops[0]));
        replay_all(f->devices, w.ops, 1, 2, NULL); /* the second with twice the inputs */
        double off = 0, norm = 0;
        for (size_t i = 0; i < count; i++) {
            double d = (double)w.data[0][i] - 2 * (double)w.expected[i];
            off += d * d;
            norm += 4 * (double)w.expected[i] * (double)w.expected[i];
        }
        assert_true(sqrt(off) <= 1e-6 * sqrt(norm));
        close_workspace(&w);
    }
}

static void other_collectives_run(void **state)
{
    for (int locals = 1; locals <= 2; locals++)
        for (size_t count = 10; count < 200000; count *= 100) {
            workspace w;
            open_workspace(*state, locals, count, &w);
            const int root = w.ranks - 1;
            memcpy(w.expected, w.inputs[root], count * sizeof(float));
            for (int i = 0; i < locals; i++) {
                must(ls_broadcast_build(w.comms[i], root, w.data[i], count, &w.ops[i]));
                w.checks[i] = put_op(&w.ops[i], run_check, w.data[i], w.expected, count);
            }
            replay_and_judge(&w, "broadcast", REPLAYS, ls_broadcast_formula(w.ranks, count));
            close_workspace(&w);
        }
}

/* ---- When things go wrong ------------------------------------------------------------------- */

/* The failures of all others name it, and remain. */
static void fail_in_mid_program(const mpi_fixture *f, const ls_allreduce *a, int locals,
                                int culprit, size_t count)
{
    enum { FAIL_AT = 5 };
    workspace w;
    ls_status statuses[MOST_LOCALS];
    char expected[64];
    open_workspace(f, locals, count, &w);
    culprit = culprit < 0 ? w.ranks - 1 : culprit;
    snprintf(expected, sizeof expected, "abandoned by rank %d", culprit);
    for (int i = 0; i < locals; i++) {
        const ls_allreduce_args args = {
            .data = w.data[i], .count = count, .scratch = scratch_of(w.comms[i])};
        must(a->build(w.comms[i], &args, &w.ops[i]));
        if (w.first + i == culprit)
            put_op(&w.ops[i], run_failing, NULL, NULL, 0)->fail_at = FAIL_AT;
        must(a->build(w.comms[i], &args, &w.ops[i]));
    }
    for (int again = 0; again < 2; again++) {
        replay_all(f->devices, w.ops, locals, MANY_REPLAYS, statuses);
        for (int i = 0; i < locals; i++)
            if (w.first + i == culprit && !again)
                must_refuse(statuses[i], LS_CODE_CHECK, "planted");
            else
                must_refuse(statuses[i], LS_CODE_MISSING, expected);
    }
    must(ls_comm_agree(f->processes.comm, LS_OK)); /* the others still work */
    close_workspace(&w);
}

static void a_failed_rank_lets_all_go(void **state)
{
    const ls_allreduce *a;
    for (const void *const *e = ls_allreduces.entries; (a = *e); e++)
        for (int locals = 1; locals <= 2 && runs_here(a); locals++) {
            fail_in_mid_program(*state, a, locals, 0, 1000);
            fail_in_mid_program(*state, a, locals, -1, 100000);
        }
}

/* At least one rank detects it, and no rank continues. */
static void mismatched_counts_fail(void **state)
{
    const mpi_fixture *f = *state;
    static const size_t counts[] = {999, 70000};
    for (int more = 0; more < 8; more++) {
        const ls_allreduce *a;
        must(ls_allreduce_find(more < 4 ? "flat" : "direct", &a));
        workspace w;
        ls_status statuses[2];
        int told = 0, all[MOST_RANKS], any = 0;
        open_workspace(f, 2, 70001, &w);
        for (int i = 0; i < 2; i++) { /* the last rank has one element less or more */
            size_t count = counts[more / 2 % 2];
            if (w.first + i == w.ranks - 1)
                count = more % 2 ? count + 1 : count - 1;
            const ls_allreduce_args args = {
                .data = w.data[i], .count = count, .scratch = scratch_of(w.comms[i])};
            must(a->build(w.comms[i], &args, &w.ops[i]));
        }
        replay_all(f->devices, w.ops, 2, 3, statuses);
        for (int i = 0; i < 2; i++) {
            assert_non_null(statuses[i]);
            told |= strstr(ls_status_text(statuses[i]), "matching operations") != NULL;
            ls_status_free(statuses[i]);
        }
        must(ls_comm_collect(f->processes.comm, &told, sizeof told, all));
        for (int p = 0; p < f->processes.size; p++)
            any |= all[p];
        assert_true(any);
        close_workspace(&w);
    }
}

static bool goes_on(void *context)
{
    return *(const _Atomic bool *)context;
}

/* The last rank is late and sends nothing itself meanwhile; its signs of life show that it makes
 * progress, and the others wait longer than the timeout. */
static void signs_of_life_are_waited_for(void **state)
{
    const mpi_fixture *f = *state;
    _Atomic bool mine = f->processes.rank == f->processes.size - 1;
    must(ls_comm_agree(f->processes.comm, LS_OK));
    ls_processes_set_timeout(&f->processes, 1000000000);
    must(ls_processes_pulse(&f->processes, goes_on, &mine));
    if (mine)
        ls_clock_sleep(2800000000);
    mine = false;
    must(ls_comm_agree(f->processes.comm, LS_OK));
    must(ls_processes_pulse(&f->processes, NULL, NULL));
    ls_processes_set_timeout(&f->processes, 60000000000);
}

/* What this process has printed, line by line. */
static char said[2048];

static void note_line(const char *line)
{
    strncat(said, line, sizeof said - strlen(said) - 1);
}

/* Rank 0 names the last rank, which prints nothing any more; each other rank prints its part. */
static void check_autopsy(const mpi_fixture *f)
{
    const int last = f->processes.size - 1, rank = f->processes.rank;
    char expected[64];
    int lines = 0;
    ls_processes_autopsy(&f->processes);
    ls_processes_autopsy(&f->processes); /* reports once */
    for (const char *c = said; *c; c++)
        lines += *c == '\n';
    assert_int_equal(lines, rank == last ? 0 : rank == 0 ? 2 : 1);
    if (rank == last)
        return;
    snprintf(expected, sizeof expected, "rank %d on ", rank ? rank : last);
    assert_memory_equal(said, expected, strlen(expected));
    assert_non_null(strstr(said, " s for an exchange to come of 400 bytes, rank "));
    if (rank)
        return;
    assert_non_null(strstr(said, ": silent: pid "));
    assert_non_null(strstr(said, "runs without progress, last sign of life"));
    assert_non_null(strstr(said, "\nrank 0 on "));
}

/* The last rank never comes: the others lose it, print for whom and in which step they waited, and
 * it is named. This ends the job, so it is the last test. */
static void who_does_not_come_is_named(void **state)
{
    const mpi_fixture *f = *state;
    const int last = f->processes.size - 1;
    const ls_allreduce *flat;
    ls_status status;
    char expected[128];
    workspace w;
    must(ls_allreduce_find("flat", &flat));
    open_workspace(f, 1, 100, &w);
    ls_processes_watch(&f->processes, NULL, note_line);
    must(ls_comm_agree(f->processes.comm, LS_OK));
    ls_processes_set_timeout(&f->processes, 300000000);
    const ls_allreduce_args args = {.data = w.data[0], .count = 100};
    must(flat->build(w.comms[0], &args, &w.ops[0]));
    if (f->processes.rank == last) { /* longer than any other waits */
        ls_clock_sleep(3000000000);
        must_refuse(ls_comm_agree(f->processes.comm, LS_OK), LS_CODE_MISSING, "abandoned by rank");
        check_autopsy(f);
        close_workspace(&w);
        return;
    }
    ls_processes_step(&f->processes, 37, 1, true);
    replay_all(f->devices, w.ops, 1, 1, &status);
    snprintf(expected, sizeof expected, " s for an exchange to come of 400 bytes, rank %d", last);
    assert_non_null(strstr(ls_status_text(status), f->processes.rank ? " 400 bytes, rank 0, step 37"
                                                   : f->processes.size == 2 ? expected
                                                                            : " 400 bytes, rank "));
    assert_non_null(strstr(ls_status_text(status), ", step 37"));
    ls_status_free(status);
    must_refuse(ls_comm_agree(f->processes.comm, LS_OK), LS_CODE_MISSING, "abandoned by rank");
    assert_true(ls_processes_lost(&f->processes));
    check_autopsy(f);
    close_workspace(&w);
}

static void what_is_not_there_is_refused(void **state)
{
    const mpi_fixture *f = *state;
    ls_op *op;
    int data;
    workspace w;
    open_workspace(f, 1, 1, &w);
    const ls_comm_backend *b = w.comms[0]->backend;
    const ls_exchange exchange = {.to = w.ranks, .from = -1, .send_count = 1};
    must_refuse(ls_comm_exchange(w.comms[0], &exchange, &op), LS_CODE_USAGE, "no rank");
    must_refuse(b->send(w.comms[0], -1, 0, &data, 4), LS_CODE_USAGE, "no rank -1");
    must_refuse(b->receive(w.comms[0], w.ranks, 0, &data, 4), LS_CODE_USAGE, "no rank");
    close_workspace(&w);
}

/* ---- Host calls ----------------------------------------------------------------------------- */

/* More than MPI sends without a receiver: senders in a ring must receive meanwhile. */
static void talk_at_length(ls_comm *comm)
{
    enum { LONG = 3000000 };
    int next = (comm->rank + 1) % comm->size, before = (comm->rank + comm->size - 1) % comm->size;
    char *out = malloc(LONG), *in = calloc(1, LONG);
    for (int i = 0; i < 3; i++) {
        memset(out, comm->rank + i, LONG);
        must(comm->backend->send(comm, next, TAG_DATA, out, LONG));
        must(comm->backend->receive(comm, before, TAG_DATA, in, LONG));
        memset(out, before + i, LONG);
        assert_memory_equal(in, out, LONG);
    }
    free(out);
    free(in);
}

static void hosts_talk(void **state)
{
    const mpi_fixture *f = *state;
    for (int locals = 1; locals <= 2; locals++) {
        talk_all(f->devices, f->processes.comm, locals, talk_in_order);
        talk_all(f->devices, f->processes.comm, locals, talk_to_anyone);
        talk_all(f->devices, f->processes.comm, locals, talk_in_agreement);
        talk_all(f->devices, f->processes.comm, locals, talk_at_length);
        talk_all(f->devices, f->processes.comm, locals, talk_and_give_up);
    }
}

static void hosts_collect(void **state)
{
    const mpi_fixture *f = *state;
    int mine[2] = {f->processes.rank, 7}, all[2 * MOST_RANKS];
    must(ls_comm_collect(f->processes.comm, mine, sizeof mine, all));
    for (int p = 0; p < f->processes.size; p++)
        assert_true(all[2 * p] == p && all[2 * p + 1] == 7);
    assert_true(f->processes.hosts >= 1 && f->processes.neighbours <= f->processes.size);
    assert_true(f->processes.part < f->processes.parts);
    if (f->processes.hosts == 1)
        assert_int_equal(f->processes.neighbour, f->processes.rank);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_collect),
        cmocka_unit_test(hosts_talk),
        cmocka_unit_test(all_reduces_give_their_oracles_bits),
        cmocka_unit_test(all_reduces_bear_replays_and_delays),
        cmocka_unit_test(canonical_gives_the_bits_of_the_tree),
        cmocka_unit_test(the_librarys_sum_is_near),
        cmocka_unit_test(halves_have_the_bits_of_the_whole),
        cmocka_unit_test(the_librarys_halves_are_near),
        cmocka_unit_test(other_collectives_run),
        cmocka_unit_test(a_failed_rank_lets_all_go),
        cmocka_unit_test(mismatched_counts_fail),
        cmocka_unit_test(what_is_not_there_is_refused),
        cmocka_unit_test(signs_of_life_are_waited_for),
        cmocka_unit_test(who_does_not_come_is_named),
    };
    return run_group(tests, sizeof tests / sizeof *tests);
}
