/* SPDX-License-Identifier: MIT */
/*
 * The halves of all-reduces, a reduce-scatter and an all-gather over even shares: rank q's share
 * has the bits of the whole all-reduce and of its oracle (canonical: of the tree), the all-gather
 * needs the shares alone, and each sends what its formula says; sizes that no number of ranks
 * divides, cuts between blocks only, empty shares, several in turn on a queue, with and without
 * delays. No tolerance: bits.
 */
#include "common/base/range.h"
#include "common/comm/tests/comm_fixture.h"

#include <stdio.h>

enum { REPLAYS = 2, UNITS = 4, DELAYED_REPLAYS = 6, MOST_COUNT = 4097, MOST_SHARDS = 8, BLOCK = 3 };

static const int rank_counts[] = {1, 3, 2, 5, 7, 4, 8};
enum { RANK_COUNTS = sizeof rank_counts / sizeof *rank_counts, RANK_COUNTS_AGAIN = 4, SEEDS = 3 };

/* Queues ordered by events wake each other more often, and a sanitizer's threads take long. */
static int tried(const fixture *f)
{
    return f->backend->enqueue || !thorough() ? RANK_COUNTS_AGAIN : RANK_COUNTS;
}

/* A collective of a certain size, and its ranks' buffers. */
typedef struct trial {
    fixture *f;
    const ls_allreduce *algorithm;
    int ranks;
    size_t count;
    bool in_blocks; /* may only be cut between blocks of BLOCK elements, the last one shorter */
    ls_extent extent;
    size_t begin[MOST_COUNT / BLOCK + 2];
    int64_t shards; /* of canonical; else 0 */
    uint64_t seed;  /* of delays; 0: none */
    ls_comm *comms[MOST_RANKS];
    ls_op_list ops[MOST_RANKS];
    float *sums[MOST_RANKS][LS_SUBTREES], *inputs[MOST_RANKS][LS_SUBTREES];
    size_t sum_count[MOST_RANKS];
    float *data[MOST_RANKS], *scratch[MOST_RANKS], *garbage[MOST_RANKS], *expected;
    test_op *checks[MOST_RANKS * UNITS];
    size_t check_count;
} trial;

static bool is_canonical(const ls_allreduce *a)
{
    return strcmp(a->name, "canonical") == 0;
}

/* sum(lo, hi) of each element: comm.h. */
static void add_tree(float *const *shards, ls_subtree node, size_t count, float *out)
{
    int64_t half = 1;
    while (2 * half < node.last - node.first)
        half *= 2;
    if (node.last - node.first == 1) {
        memcpy(out, shards[node.first], count * sizeof *out);
        return;
    }
    float *right = malloc((count + 1) * sizeof *right);
    add_tree(shards, (ls_subtree){node.first, node.first + half}, count, out);
    add_tree(shards, (ls_subtree){node.first + half, node.last}, count, right);
    for (size_t i = 0; i < count; i++)
        out[i] += right[i];
    free(right);
}

/* Sets what each rank brings, and the sum. */
static void fill_canonical(trial *t)
{
    float *shards[MOST_SHARDS];
    for (int s = 0; s < t->shards; s++)
        shards[s] = random_floats("shards", s, t->count);
    add_tree(shards, (ls_subtree){0, t->shards}, t->count, t->expected);
    for (int r = 0; r < t->ranks; r++) {
        ls_subtree nodes[LS_SUBTREES];
        t->sum_count[r] = ls_canonical_subtrees(r, t->ranks, t->shards, nodes);
        for (size_t k = 0; k < t->sum_count[r]; k++) {
            t->inputs[r][k] = malloc((t->count + 1) * sizeof(float));
            add_tree(shards, nodes[k], t->count, t->inputs[r][k]);
        }
    }
    for (int s = 0; s < t->shards; s++)
        free(shards[s]);
}

static void fill_others(trial *t)
{
    const float *inputs[MOST_RANKS];
    for (int r = 0; r < t->ranks; r++) {
        t->sum_count[r] = 1;
        inputs[r] = t->inputs[r][0] = random_floats("inputs", r, t->count);
    }
    must(allreduce_sum_cut(t->algorithm, inputs, t->ranks, t->extent, t->expected, NULL));
}

static ls_range share_of(const trial *t, int rank)
{
    const size_t block = t->in_blocks ? BLOCK : 1, blocks = (t->count + block - 1) / block;
    const size_t first = block * ls_comm_share(blocks, rank, t->ranks);
    const size_t end = block * ls_comm_share(blocks, rank + 1, t->ranks);
    return (ls_range){first, (end < t->count ? end : t->count) - first};
}

static void set_extent(trial *t)
{
    size_t blocks = 0;
    t->extent = ls_elements(t->count);
    for (size_t at = 0; at < t->count && t->in_blocks; at += BLOCK)
        t->begin[blocks++] = at;
    t->begin[blocks] = t->count;
    if (t->in_blocks)
        t->extent = (ls_extent){t->count, blocks, t->begin};
}

static void open_trial(trial *t)
{
    must(ls_comm_open(t->f->backend, NULL, t->f->device, t->ranks, t->comms));
    t->expected = malloc((t->count + 1) * sizeof(float));
    set_extent(t);
    if (t->shards)
        fill_canonical(t);
    else
        fill_others(t);
    for (int r = 0; r < t->ranks; r++) {
        const size_t scratch =
            t->algorithm->scratch ? t->algorithm->scratch(r, t->ranks, t->extent, t->shards) : 0;
        const ls_range share = share_of(t, r);
        t->scratch[r] = malloc((scratch + 1) * sizeof(float));
        for (size_t k = 0; k < t->sum_count[r]; k++)
            t->sums[r][k] = malloc((t->count + 1) * sizeof(float));
        t->data[r] = t->sum_count[r] ? t->sums[r][0] : malloc((t->count + 1) * sizeof(float));
        t->data[r][t->count] = 42.0f;
        t->garbage[r] = random_floats("garbage", r, t->count);
        memcpy(t->garbage[r] + share.first, t->expected + share.first, share.count * sizeof(float));
    }
}

static void close_trial(trial *t)
{
    for (int r = 0; r < t->ranks; r++) {
        assert_true(t->data[r][t->count] == 42.0f); /* nothing is written past the end */
        for (size_t k = 0; k < t->sum_count[r]; k++) {
            free(t->sums[r][k]);
            free(t->inputs[r][k]);
        }
        if (!t->sum_count[r])
            free(t->data[r]);
        free(t->scratch[r]);
        free(t->garbage[r]);
    }
    free(t->expected);
    close_all(t->comms, t->ops, t->ranks);
}

static ls_allreduce_args args_of(trial *t, int r)
{
    return (ls_allreduce_args){.data = t->data[r],
                               .count = t->count,
                               .cut = t->in_blocks ? &t->extent : NULL,
                               .scratch = t->scratch[r],
                               .shards = t->shards,
                               .sums = t->sums[r],
                               .sum_count = t->sum_count[r]};
}

/* Puts every rank's inputs, a half or the whole, and a check of its share or of all elements. The
 * all-gather begins with the rank's share alone. */
static void put_call(trial *t, ls_half half)
{
    const ls_allreduce *a = t->algorithm;
    for (int r = 0; r < t->ranks; r++) {
        const ls_allreduce_args args = args_of(t, r);
        for (size_t k = 0; k < t->sum_count[r] && half != LS_ALL_GATHER; k++)
            put_op(&t->ops[r], run_fill, t->sums[r][k], t->inputs[r][k], t->count);
        if (half == LS_ALL_GATHER)
            put_op(&t->ops[r], run_fill, t->data[r], t->garbage[r], t->count);
        must(half == LS_HALVES ? a->build(t->comms[r], &args, &t->ops[r])
                               : a->half(t->comms[r], half, &args, &t->ops[r]));
        const ls_range share = half == LS_REDUCE_SCATTER ? share_of(t, r) : (ls_range){0, t->count};
        t->checks[t->check_count++] = put_op(&t->ops[r], run_check, t->data[r] + share.first,
                                             t->expected + share.first, share.count);
    }
}

static void replay_and_judge(trial *t, const char *what, ls_traffic formula)
{
    const uint64_t replays = t->seed ? DELAYED_REPLAYS : REPLAYS;
    for (int r = 0; r < t->ranks && t->seed; r++)
        delay_all(&t->ops[r], t->seed, (uint64_t)r);
    const ls_traffic before = total_traffic(t->comms, t->ranks);
    const uint64_t counted = replay_comms(t->f, t->comms, t->ops, t->ranks, replays);
    const ls_traffic after = total_traffic(t->comms, t->ranks);
    const uint64_t bytes = after.bytes_sent - before.bytes_sent,
                   messages = after.messages_sent - before.messages_sent;
    uint64_t wrong = 0;
    for (size_t c = 0; c < t->check_count; c++) {
        assert_true(t->checks[c]->runs == replays);
        wrong += t->checks[c]->wrong;
    }
    if (wrong || bytes != counted * formula.bytes_sent ||
        messages != counted * formula.messages_sent)
        fail_msg("%s, %s: %d ranks, %zu elements, %d shards: %llu wrong; %llu bytes, %llu "
                 "messages, not %llu, %llu",
                 t->algorithm->name, what, t->ranks, t->count, (int)t->shards,
                 (unsigned long long)wrong, (unsigned long long)(bytes / counted),
                 (unsigned long long)(messages / counted), (unsigned long long)formula.bytes_sent,
                 (unsigned long long)formula.messages_sent);
    t->check_count = 0;
    for (int r = 0; r < t->ranks; r++)
        ls_op_list_clear(&t->ops[r]);
}

static ls_traffic formula_of(const trial *t, ls_half half)
{
    return half == LS_HALVES ? t->algorithm->formula(t->ranks, t->extent, t->shards, NULL)
                             : t->algorithm->half_formula(half, t->ranks, t->extent, t->shards);
}

/* Whether this back end's ranks can run it. */
static bool runs_here(const trial *t)
{
    ls_comm *comms[2];
    must(ls_comm_open(t->f->backend, NULL, t->f->device, 2, comms));
    ls_status status = t->algorithm->check ? t->algorithm->check(comms[0]) : LS_OK;
    const bool runs = !status;
    ls_status_free(status);
    ls_comm_close(comms[0]);
    ls_comm_close(comms[1]);
    return runs;
}

static void try_halves(const trial *outline)
{
    static const char *const names[] = {"whole", "reduce-scatter", "all-gather"};
    trial t = *outline;
    open_trial(&t);
    for (ls_half half = LS_HALVES; half <= LS_ALL_GATHER; half++) {
        put_call(&t, half);
        replay_and_judge(&t, names[half], formula_of(&t, half));
    }
    /* What a strategy relies on: both halves cost what the ring's formula says. */
    const ls_traffic gather = formula_of(&t, LS_ALL_GATHER);
    assert_true(gather.bytes_sent == (uint64_t)(t.ranks - 1) * t.count * sizeof(float));
    if (!t.shards)
        assert_true(formula_of(&t, LS_REDUCE_SCATTER).bytes_sent == gather.bytes_sent);
    close_trial(&t);
}

static void halves_have_the_bits_of_the_whole(void **state)
{
    const ls_allreduce *a;
    int algorithms = 0;
    for (const void *const *e = ls_allreduces.entries; (a = *e); e++) {
        trial t = {.f = *state, .algorithm = a};
        if (!a->half || !a->half_formula || !runs_here(&t))
            continue;
        for (int k = 0; k < tried(*state); k++) {
            const size_t n = (size_t)rank_counts[k];
            const size_t counts[] = {0, 1, 2, 5, n - 1, n, n + 1, 1000, MOST_COUNT};
            t.ranks = rank_counts[k];
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                for (t.shards = is_canonical(a) ? 3 : 0; t.shards <= MOST_SHARDS; t.shards += 5) {
                    t.count = counts[c];
                    t.in_blocks = counts[c] == 1000 || counts[c] == n;
                    try_halves(&t);
                    if (!is_canonical(a))
                        break;
                }
        }
        algorithms++;
    }
    assert_true(algorithms >= 3); /* direct needs shared memory */
}

/* Several in flight on one queue, as a step has them: reduce-scatters and all-gathers by turns. */
static void calls_follow_each_other(void **state)
{
    const ls_allreduce *a;
    for (const void *const *e = ls_allreduces.entries; (a = *e); e++)
        for (uint64_t seed = 1; seed <= (tried(*state) < RANK_COUNTS ? 1 : SEEDS); seed++)
            for (int ranks = 2; ranks <= 5; ranks++) {
                trial t = {.f = *state, .algorithm = a, .ranks = ranks, .count = 1001};
                t.shards = is_canonical(a) ? MOST_SHARDS : 0;
                if (!a->half || !a->half_formula || !runs_here(&t))
                    continue;
                open_trial(&t);
                t.seed = seed;
                ls_traffic sum = {0};
                for (int u = 0; u < UNITS; u++) {
                    const ls_half half = u % 2 ? LS_ALL_GATHER : LS_REDUCE_SCATTER;
                    const ls_traffic more = formula_of(&t, half);
                    put_call(&t, half);
                    sum.bytes_sent += more.bytes_sent;
                    sum.messages_sent += more.messages_sent;
                }
                replay_and_judge(&t, "by turns", sum);
                close_trial(&t);
            }
}

/* A half reads and writes this rank's data alone, and its end of the communicator; the all-gather
 * writes all others' shares. */
static void accesses_are_declared(void **state)
{
    const ls_allreduce *a;
    for (const void *const *e = ls_allreduces.entries; (a = *e); e++) {
        trial t = {.f = *state, .algorithm = a, .ranks = 5, .count = 1001};
        if (!a->half || !a->half_formula || !runs_here(&t))
            continue;
        t.shards = is_canonical(a) ? MOST_SHARDS : 0;
        open_trial(&t);
        for (int r = 0; r < t.ranks; r++) {
            const ls_allreduce_args args = args_of(&t, r);
            const ls_range share = share_of(&t, r);
            char written[1001] = {0};
            must(a->half(t.comms[r], LS_ALL_GATHER, &args, &t.ops[r]));
            for (size_t i = 0; i < t.ops[r].count; i++)
                for (size_t k = 0; k < t.ops[r].items[i]->access_count; k++) {
                    const ls_access *x = &t.ops[r].items[i]->accesses[k];
                    const size_t at = (size_t)((const float *)x->memory - t.data[r]);
                    if (x->memory == t.comms[r])
                        continue;
                    assert_true(at < t.count && x->bytes <= (t.count - at) * sizeof(float));
                    if (x->writes)
                        memset(written + at, 1, x->bytes / sizeof(float));
                }
            for (size_t i = 0; i < t.count; i++)
                assert_true(written[i] || i - share.first < share.count);
        }
        close_trial(&t);
    }
}

static void who_cannot_be_cut_is_told(void **state)
{
    static const char *const whole[] = {"flat", "tree", "hierarchical"};
    fixture *f = *state;
    const ls_allreduce *a;
    ls_comm *comms[3];
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        must(ls_allreduce_find(whole[i], &a));
        must_refuse(ls_allreduce_check_halves(a), LS_CODE_USAGE,
                    "cannot be divided into a reduce-scatter and an all-gather; use one of ring, "
                    "halving-doubling, direct, owners, canonical, library");
    }
    must(ls_allreduce_find("ring", &a));
    must(ls_allreduce_check_halves(a));
    must(ls_comm_open(NULL, NULL, f->device, 3, comms));
    assert_string_equal(ls_allreduce_auto_halves(comms[0])->name, "direct");
    ls_comm end = *comms[0];
    end.shared = false;
    assert_string_equal(ls_allreduce_auto_halves(&end)->name, "ring");
    end.size = 4;
    assert_string_equal(ls_allreduce_auto_halves(&end)->name, "halving-doubling");
    for (int r = 0; r < 3; r++)
        ls_comm_close(comms[r]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_have_the_bits_of_the_whole),
        cmocka_unit_test(calls_follow_each_other),
    };
    const struct CMUnitTest some[] = {cmocka_unit_test(calls_follow_each_other)};
    const struct CMUnitTest once[] = {
        cmocka_unit_test(accesses_are_declared),
        cmocka_unit_test(who_cannot_be_cut_is_told),
    };
    return cmocka_run_group_tests(tests, setup_devices, teardown) +
           cmocka_run_group_tests(once, setup_devices, teardown) +
           cmocka_run_group_tests_name("together", tests, setup_together, teardown) +
           cmocka_run_group_tests_name("together, apart", some, setup_apart, teardown);
}
