/* SPDX-License-Identifier: MIT */
/*
 * Collectives on queues: every all-reduce algorithm and the other collectives give their oracle's
 * bits and send what their formula says, for many ranks and counts, replayed from programs, with
 * and without random delays. No tolerance: bits.
 */
#include "common/comm/tests/comm_fixture.h"

#include <stdio.h>

enum { REPLAYS = 6, MANY_REPLAYS = 100, DELAYED_REPLAYS = 12, SEEDS = 3 };

static const int rank_counts[] = {1, 2, 5, 4, 3, 8, 6, 7, 16};
enum {
    RANK_COUNTS = sizeof rank_counts / sizeof *rank_counts,
    RANK_COUNTS_AGAIN = 6,
    RANK_COUNTS_QUICK = 4
};

/* Queues ordered by events wake each other more often: fewer ranks are tested. */
static int tried(const fixture *f)
{
    if (!thorough())
        return RANK_COUNTS_QUICK - SANITIZED; /* other builds check the bits */
    return f->backend->enqueue ? RANK_COUNTS_AGAIN : RANK_COUNTS;
}

typedef struct trial {
    int ranks;
    size_t count;
    uint64_t replays;
    uint64_t seed; /* of delays; 0: none */
} trial;

/* The state of a trial, with buffers per rank. */
typedef struct workspace {
    ls_comm *comms[MOST_RANKS];
    ls_op_list ops[MOST_RANKS];
    test_op *checks[MOST_RANKS];
    float *inputs[MOST_RANKS], *data[MOST_RANKS], *expected;
} workspace;

static void open_workspace(fixture *f, const trial *t, workspace *w)
{
    *w = (workspace){0};
    must(ls_comm_open(f->backend, NULL, f->device, t->ranks, w->comms));
    w->expected = malloc((t->count + 1) * sizeof(float));
    for (int r = 0; r < t->ranks; r++) {
        w->inputs[r] = random_floats("inputs", r, t->count);
        w->data[r] = malloc((t->count + 1) * sizeof(float));
        w->data[r][t->count] = 42.0f;
        put_op(&w->ops[r], run_fill, w->data[r], w->inputs[r], t->count);
    }
}

static void close_workspace(const trial *t, workspace *w)
{
    for (int r = 0; r < t->ranks; r++) {
        assert_true(w->data[r][t->count] == 42.0f); /* nothing is written past the end */
        free(w->inputs[r]);
        free(w->data[r]);
    }
    free(w->expected);
    close_all(w->comms, w->ops, t->ranks);
}

static void replay_and_judge(fixture *f, const trial *t, workspace *w, const char *name,
                             ls_traffic formula)
{
    for (int r = 0; r < t->ranks && t->seed; r++)
        delay_all(&w->ops[r], t->seed, (uint64_t)r);
    const uint64_t counted = replay_comms(f, w->comms, w->ops, t->ranks, t->replays);
    ls_traffic moved = total_traffic(w->comms, t->ranks);
    uint64_t wrong = 0;
    for (int r = 0; r < t->ranks; r++) {
        assert_true(!w->checks[r] || w->checks[r]->runs == t->replays);
        wrong += w->checks[r] ? w->checks[r]->wrong : 0;
    }
    if (wrong || moved.bytes_sent != counted * formula.bytes_sent ||
        moved.messages_sent != counted * formula.messages_sent)
        fail_msg("%s: %d ranks, %zu elements: %llu wrong; %llu bytes, %llu messages a replay, not "
                 "%llu, %llu",
                 name, t->ranks, t->count, (unsigned long long)wrong,
                 (unsigned long long)(moved.bytes_sent / counted),
                 (unsigned long long)(moved.messages_sent / counted),
                 (unsigned long long)formula.bytes_sent, (unsigned long long)formula.messages_sent);
}

static bool is_scratch(const ls_comm *comm, const void *memory)
{
    const float *first = scratch_of(comm);
    return (const float *)memory >= first && (const float *)memory < first + SCRATCH;
}

/* Every operation that sends declares that it accesses its end of the communicator, all parts of
 * this rank's data; together they write all of it. */
static void judge_accesses(const ls_comm *comm, const ls_op_list *ops, size_t first,
                           const float *data, size_t count)
{
    char *written = calloc(count + 1, 1);
    for (size_t i = first; i < ops->count; i++) {
        const ls_op *op = ops->items[i];
        bool end = false;
        for (size_t k = 0; k < op->access_count; k++) {
            const ls_access *a = &op->accesses[k];
            const size_t at = (size_t)((const float *)a->memory - data);
            end = end || (a->memory == comm && a->writes);
            if (a->memory == comm || is_scratch(comm, a->memory))
                continue;
            assert_true(at < count && a->bytes <= (count - at) * sizeof *data);
            if (a->writes)
                memset(written + at, 1, a->bytes / sizeof *data);
        }
        assert_true((end || !op->message_count) && op->access_count > 1);
    }
    for (size_t i = 0; i < count && comm->size > 1; i++)
        assert_true(written[i]);
    free(written);
}

static void build_and_judge(fixture *f, const ls_allreduce *a, const trial *t, workspace *w)
{
    must(allreduce_sum(a, (const float *const *)w->inputs, t->ranks, t->count, w->expected,
                       w->comms[0]->layout));
    for (int r = 0; r < t->ranks; r++) {
        const ls_allreduce_args args = {
            .data = w->data[r], .count = t->count, .scratch = scratch_of(w->comms[r])};
        const size_t before = w->ops[r].count;
        must(a->build(w->comms[r], &args, &w->ops[r]));
        judge_accesses(w->comms[r], &w->ops[r], before, w->data[r], t->count);
        w->checks[r] = put_op(&w->ops[r], run_check, w->data[r], w->expected, t->count);
    }
    replay_and_judge(f, t, w, a->name,
                     a->formula(t->ranks, ls_elements(t->count), 0, w->comms[0]->layout));
}

static void try_allreduce(fixture *f, const ls_allreduce *a, const trial *t)
{
    workspace w;
    open_workspace(f, t, &w);
    if (a->check && !w.comms[0]->shared)
        must_refuse(a->check(w.comms[0]), LS_CODE_USAGE, "which --link does not allow");
    else
        build_and_judge(f, a, t, &w);
    close_workspace(t, &w);
}

static void all_reduces_give_their_oracles_bits(void **state)
{
    const ls_allreduce *a;
    for (const void *const *e = ls_allreduces.entries; (a = *e); e++)
        for (int k = 0; k < tried(*state) && a->oracle; k++) {
            size_t n = (size_t)rank_counts[k];
            const size_t counts[] = {0, 1, n - 1, n, 9, 1000, 2, 3, 7, 8, 4099, 100000};
            const size_t many = thorough() ? sizeof counts / sizeof *counts : 6;
            for (size_t c = 0; c < many; c++) {
                const trial t = {rank_counts[k], counts[c], REPLAYS, 0};
                try_allreduce(*state, a, &t);
            }
        }
}

static void all_reduces_replay_without_the_host(void **state)
{
    const ls_allreduce *a;
    for (const void *const *e = ls_allreduces.entries; (a = *e); e++)
        for (int n = 2; n <= (thorough() ? 5 : 3) && a->oracle; n++) {
            try_allreduce(*state, a, &(trial){n, 3, MANY_REPLAYS, 0});
            try_allreduce(*state, a, &(trial){n, 300, MANY_REPLAYS, 0});
        }
}

static void all_reduces_bear_delays(void **state)
{
    const ls_allreduce *a;
    for (uint64_t seed = 1; seed <= (thorough() ? SEEDS : 1); seed++)
        for (const void *const *e = ls_allreduces.entries; (a = *e); e++)
            for (int k = 1; k < tried(*state) && a->oracle; k++) {
                try_allreduce(*state, a, &(trial){rank_counts[k], 5, DELAYED_REPLAYS, seed});
                try_allreduce(*state, a, &(trial){rank_counts[k], 1000, DELAYED_REPLAYS, seed});
            }
}

/* Processes with one or more ranks on hosts with equal or different numbers of them, contiguous and
 * interleaved. */
static void hierarchies_follow_their_layout(void **state)
{
    static const int hosts[][6] = {{0, 0, 1, 1}, {0, 1, 0, 1}, {0, 1, 2}, {0, 0, 0, 1, 2, 1}};
    static const int processes[] = {4, 4, 3, 6};
    static const size_t counts[] = {0, 1, 2, 3, 1000};
    const ls_allreduce *hierarchical;
    must(ls_allreduce_find("hierarchical", &hierarchical));
    for (size_t l = 0; l < sizeof processes / sizeof *processes; l++)
        for (int each = 1; each <= 2; each++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
                const ls_layout layout = {.processes = processes[l], .host = hosts[l]};
                const trial t = {processes[l] * each, counts[c], REPLAYS, c % 2};
                workspace w;
                open_workspace(*state, &t, &w);
                for (int r = 0; r < t.ranks; r++)
                    w.comms[r]->layout = &layout;
                build_and_judge(*state, hierarchical, &t, &w);
                close_workspace(&t, &w);
            }
}

/* Only the hosts' first ranks send to other hosts: as much as a ring of hosts. */
static void hierarchies_send_little_between_hosts(void **state)
{
    enum { RANKS = 8, COUNT = 100 };
    static const int host[RANKS] = {0, 0, 0, 0, 1, 1, 1, 1};
    const ls_layout layout = {.processes = RANKS, .host = host};
    const ls_allreduce *hierarchical;
    must(ls_allreduce_find("hierarchical", &hierarchical));
    const ls_traffic all = hierarchical->formula(RANKS, ls_elements(COUNT), 0, &layout);
    assert_int_equal(all.messages_sent, 2 * 6 + 2 * 2);
    assert_int_equal(all.bytes_sent, 2 * 7 * COUNT * sizeof(float));
}

/* More ranks than fit on the stack: the order visits inputs twice, except the first, and ends. */
static void hierarchies_span_many_hosts(void **state)
{
    enum { HOSTS = 1500 };
    static int host[HOSTS];
    const ls_layout layout = {.processes = HOSTS, .host = host};
    const ls_allreduce *hierarchical;
    ls_sum_order order = {0};
    for (int h = 0; h < HOSTS; h++)
        host[h] = h;
    must(ls_allreduce_find("hierarchical", &hierarchical));
    must(hierarchical->oracle(HOSTS, ls_elements(HOSTS), &layout, &order));
    assert_int_equal(order.steps[order.count - 1].visit, 2 * HOSTS - 2);
    assert_int_equal(hierarchical->formula(HOSTS, ls_elements(1), 0, &layout).messages_sent,
                     2 * (HOSTS - 1));
    ls_sum_order_close(&order);
}

/* Algorithms give different sums, so the tests above can detect a wrong order. */
static void orders_of_summation_differ(void **state)
{
    enum { COUNT = 4000, RANKS = 7 };
    static const int host[RANKS] = {0, 0, 1, 1, 1, 2, 2};
    const ls_layout layout = {.processes = RANKS, .host = host};
    float *inputs[RANKS], *sums[8];
    size_t algorithms = 0;
    for (int r = 0; r < RANKS; r++)
        inputs[r] = random_floats("inputs", r, COUNT);
    const ls_allreduce *a;
    for (const void *const *e = ls_allreduces.entries; (a = *e); e++)
        if (a->oracle && strcmp(a->name, "direct") != 0 && !a->scratch) {
            sums[algorithms] = malloc(COUNT * sizeof(float));
            must(allreduce_sum(a, (const float *const *)inputs, RANKS, COUNT, sums[algorithms++],
                               &layout));
        }
    assert_int_equal(algorithms, 5);
    for (size_t i = 0; i < algorithms; i++)
        for (size_t k = 0; k < i; k++)
            assert_true(memcmp(sums[i], sums[k], COUNT * sizeof(float)) != 0);
    for (size_t i = 0; i < algorithms; i++)
        free(sums[i]);
    for (int r = 0; r < RANKS; r++)
        free(inputs[r]);
}

/* ---- The other collectives ----------------------------------------------------------------- */

static void broadcasts_reach_all(void **state)
{
    for (int k = 0; k < tried(*state); k++)
        for (int root = 0; root < rank_counts[k]; root++)
            for (size_t count = 0; count < 2000; count += count ? 1000 : 1) {
                workspace w;
                const trial t = {rank_counts[k], count, REPLAYS, (uint64_t)root};
                open_workspace(*state, &t, &w);
                memcpy(w.expected, w.inputs[root], count * sizeof(float));
                for (int r = 0; r < t.ranks; r++) {
                    must(ls_broadcast_build(w.comms[r], root, w.data[r], count, &w.ops[r]));
                    w.checks[r] = put_op(&w.ops[r], run_check, w.data[r], w.expected, count);
                }
                replay_and_judge(*state, &t, &w, "broadcast", ls_broadcast_formula(t.ranks, count));
                close_workspace(&t, &w);
            }
}

/* Uneven blocks, some empty, with gaps between them. Returns the elements of the buffer. */
static size_t cut_blocks(int ranks, size_t *offsets, size_t *counts)
{
    size_t at = 3;
    for (int r = 0; r < ranks; r++) {
        counts[r] = (size_t)(r * 37 % 11) * (size_t)(r % 3) * 13;
        offsets[r] = at;
        at += counts[r] + 2;
    }
    return at;
}

static void all_gathers_fill_every_block(void **state)
{
    size_t offsets[MOST_RANKS], counts[MOST_RANKS];
    for (int k = 0; k < tried(*state); k++) {
        workspace w;
        const trial t = {rank_counts[k], cut_blocks(rank_counts[k], offsets, counts), REPLAYS, 1};
        open_workspace(*state, &t, &w);
        float *expected[MOST_RANKS];
        for (int r = 0; r < t.ranks; r++) {
            expected[r] = malloc(t.count * sizeof(float)); /* gaps keep the rank's own values */
            memcpy(expected[r], w.inputs[r], t.count * sizeof(float));
            for (int b = 0; b < t.ranks; b++)
                memcpy(expected[r] + offsets[b], w.inputs[b] + offsets[b],
                       counts[b] * sizeof(float));
            must(ls_allgather_build(w.comms[r], w.data[r], offsets, counts, &w.ops[r]));
            w.checks[r] = put_op(&w.ops[r], run_check, w.data[r], expected[r], t.count);
        }
        replay_and_judge(*state, &t, &w, "allgather", ls_allgather_formula(t.ranks, counts));
        for (int r = 0; r < t.ranks; r++)
            free(expected[r]);
        close_workspace(&t, &w);
    }
}

static void reduce_scatters_sum_a_block_each(void **state)
{
    size_t offsets[MOST_RANKS], counts[MOST_RANKS];
    for (int k = 0; k < tried(*state); k++) {
        workspace w;
        const trial t = {rank_counts[k], cut_blocks(rank_counts[k], offsets, counts), REPLAYS, 1};
        open_workspace(*state, &t, &w);
        for (int r = 0; r < t.ranks; r++) {
            const float *block[MOST_RANKS];
            for (int other = 0; other < t.ranks; other++)
                block[other] = w.inputs[other] + offsets[r];
            reducescatter_sum(block, t.ranks, r, counts[r], w.expected + offsets[r]);
            must(ls_reducescatter_build(w.comms[r], w.data[r], offsets, counts, &w.ops[r]));
            w.checks[r] = put_op(&w.ops[r], run_check, w.data[r] + offsets[r],
                                 w.expected + offsets[r], counts[r]);
        }
        replay_and_judge(*state, &t, &w, "reducescatter",
                         ls_reducescatter_formula(t.ranks, counts));
        close_workspace(&t, &w);
    }
}

/* ---- Lookup -------------------------------------------------------------------------------- */

static void names_are_looked_up(void **state)
{
    fixture *f = *state;
    const ls_allreduce *found;
    ls_comm *comms[2];
    const ls_allreduce *a;
    for (const void *const *e = ls_allreduces.entries; (a = *e); e++) {
        must(ls_allreduce_find(a->name, &found));
        assert_ptr_equal(found, a);
    }
    must_refuse(ls_allreduce_find("rings", &found), LS_CODE_USAGE, "halving-doubling");
    must(ls_comm_open(NULL, NULL, f->device, 2, comms));
    assert_string_equal(ls_allreduce_auto(comms[0], 8)->name, "direct");
    ls_comm_backend remote = *comms[0]->backend; /* emulates a back end without shared memory */
    remote.direct = NULL;
    ls_comm end = *comms[0];
    end.backend = &remote;
    must_refuse(ls_allreduce_auto(comms[0], 8)->check(&end), LS_CODE_USAGE, "needs shared memory");
    assert_string_equal(ls_allreduce_auto(&end, 8)->name, "tree");
    assert_string_equal(ls_allreduce_auto(&end, 1 << 20)->name, "halving-doubling");
    end.size = 3;
    assert_string_equal(ls_allreduce_auto(&end, 1 << 20)->name, "ring");
    ls_comm_close(comms[0]);
    ls_comm_close(comms[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_reduces_give_their_oracles_bits),
        cmocka_unit_test(all_reduces_replay_without_the_host),
        cmocka_unit_test(all_reduces_bear_delays),
        cmocka_unit_test(hierarchies_follow_their_layout),
        cmocka_unit_test(broadcasts_reach_all),
        cmocka_unit_test(all_gathers_fill_every_block),
        cmocka_unit_test(reduce_scatters_sum_a_block_each),
    };
    const struct CMUnitTest once[] = {
        cmocka_unit_test(hierarchies_send_little_between_hosts),
        cmocka_unit_test(hierarchies_span_many_hosts),
        cmocka_unit_test(orders_of_summation_differ),
        cmocka_unit_test(names_are_looked_up),
    };
    return cmocka_run_group_tests(tests, setup_devices, teardown) +
           cmocka_run_group_tests(once, setup_devices, teardown) +
           cmocka_run_group_tests_name("together", tests, setup_together, teardown) +
           cmocka_run_group_tests_name("together, apart", tests, setup_apart, teardown);
}
