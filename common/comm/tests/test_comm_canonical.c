/* SPDX-License-Identifier: MIT */
/*
 * All-reduce of exact mode: any number of ranks gives the bits of the whole tree evaluated
 * directly, for 1 to 16 shards and some more, including more ranks than shards. No tolerance: bits.
 */
#include "common/comm/tests/comm_fixture.h"

enum { REPLAYS = 4, MOST_SHARDS = 100, MOST_COUNT = 4099 };

static const ls_allreduce *canonical(void)
{
    const ls_allreduce *found;
    must(ls_allreduce_find("canonical", &found));
    return found;
}

/* sum(lo, hi) of element i, by its definition. */
static float tree(float *const *shards, int64_t lo, int64_t hi, size_t i)
{
    if (hi - lo == 1)
        return shards[lo][i];
    int64_t half = 1;
    while (half * 2 < hi - lo)
        half *= 2;
    return tree(shards, lo, lo + half, i) + tree(shards, lo + half, hi, i);
}

static float *tree_floats(float *const *shards, int64_t lo, int64_t hi, size_t count)
{
    float *out = malloc((count + 1) * sizeof *out);
    for (size_t i = 0; i < count; i++)
        out[i] = tree(shards, lo, hi, i);
    return out;
}

typedef struct member {
    float *sums[LS_SUBTREES], *inputs[LS_SUBTREES], *scratch;
    float *data; /* sums[0], or a separate buffer if the rank has no shard */
    size_t count;
    test_op *check;
} member;

static void open_member(member *m, ls_comm *comm, float *const *shards, int64_t shard_count,
                        size_t count, const float *expected, ls_op_list *ops)
{
    ls_subtree nodes[LS_SUBTREES];
    m->count = ls_canonical_subtrees(comm->rank, comm->size, shard_count, nodes);
    for (size_t k = 0; k < m->count; k++) {
        m->inputs[k] = tree_floats(shards, nodes[k].first, nodes[k].last, count);
        m->sums[k] = malloc((count + 1) * sizeof(float));
        put_op(ops, run_fill, m->sums[k], m->inputs[k], count);
    }
    m->data = m->count ? m->sums[0] : random_floats("nothing", comm->rank, count);
    size_t scratch = canonical()->scratch(comm->rank, comm->size, ls_elements(count), shard_count);
    m->scratch = malloc((scratch + 1) * sizeof(float));
    m->scratch[scratch] = 42.0f;
    const ls_allreduce_args args = {.data = m->data,
                                    .count = count,
                                    .scratch = m->scratch,
                                    .shards = shard_count,
                                    .sums = m->sums,
                                    .sum_count = m->count};
    must(canonical()->build(comm, &args, ops));
    m->check = put_op(ops, run_check, m->data, expected, count);
}

static void try_ranks(fixture *f, int ranks, int64_t shard_count, float *const *shards,
                      size_t count)
{
    ls_comm *comms[MOST_RANKS];
    ls_op_list ops[MOST_RANKS] = {{0}};
    member members[MOST_RANKS];
    float *expected = tree_floats(shards, 0, shard_count, count);
    must(ls_comm_open(f->backend, NULL, f->device, ranks, comms));
    for (int r = 0; r < ranks; r++)
        open_member(&members[r], comms[r], shards, shard_count, count, expected, &ops[r]);
    const uint64_t counted = replay_comms(f, comms, ops, ranks, REPLAYS);
    ls_traffic moved = total_traffic(comms, ranks);
    ls_traffic formula = canonical()->formula(ranks, ls_elements(count), shard_count, NULL);
    assert_true(moved.bytes_sent == counted * formula.bytes_sent);
    assert_true(moved.messages_sent == counted * formula.messages_sent);
    for (int r = 0; r < ranks; r++) {
        member *m = &members[r];
        if (m->check->wrong)
            fail_msg("%d ranks, %lld shards, %zu elements: rank %d has %llu wrong", ranks,
                     (long long)shard_count, count, r, (unsigned long long)m->check->wrong);
        assert_int_equal(m->check->runs, REPLAYS);
        assert_true(m->scratch[canonical()->scratch(r, ranks, ls_elements(count), shard_count)] ==
                    42.0f);
        if (!m->count)
            free(m->data);
        for (size_t k = 0; k < m->count; k++) {
            free(m->inputs[k]);
            free(m->sums[k]);
        }
        free(m->scratch);
    }
    free(expected);
    close_all(comms, ops, ranks);
}

static void all_ranks_give_the_bits_of_the_tree(void **state)
{
    static const int64_t shard_counts[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,
                                           10, 11, 12, 13, 14, 15, 16, 33, 100};
    static const int ranks[] = {1, 2, 3, 4, 5, 6, 7, 8, 11, 16};
    static const size_t counts[] = {0, 1, 2, 7, 1000, MOST_COUNT};
    float *shards[MOST_SHARDS];
    for (int s = 0; s < MOST_SHARDS; s++)
        shards[s] = random_floats("shards", s, MOST_COUNT);
    for (size_t s = 0; s < sizeof shard_counts / sizeof *shard_counts; s += thorough() ? 1 : 4)
        for (size_t n = 0; n < sizeof ranks / sizeof *ranks; n++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                try_ranks(*state, ranks[n], shard_counts[s], shards, counts[c]);
    for (int s = 0; s < MOST_SHARDS; s++)
        free(shards[s]);
}

/* Every shard is in one subtree of its rank; each subtree is a node of the tree whose parent is not
 * on that rank. */
static void subtrees_are_finished(void **state)
{
    ls_subtree nodes[LS_SUBTREES];
    for (int64_t shards = 1; shards <= 70; shards++)
        for (int n = 1; n <= shards; n++) {
            int64_t at = 0;
            for (int r = 0; r < n; r++) {
                size_t count = ls_canonical_subtrees(r, n, shards, nodes);
                assert_true(count >= 1 && nodes[0].first == r * shards / n);
                for (size_t k = 0; k < count; k++) {
                    assert_true(nodes[k].first == at && nodes[k].last > at);
                    at = nodes[k].last;
                }
                assert_true(at == (r + 1) * shards / n);
            }
        }
    assert_int_equal(ls_canonical_subtrees(1, 2, 5, nodes), 2); /* shards 2, 3, 4: (2,4), (4,5) */
    assert_true(nodes[0].first == 2 && nodes[0].last == 4 && nodes[1].last == 5);
    assert_int_equal(ls_canonical_subtrees(0, 1, 5, nodes), 1);
}

/* The additions of terms, and what is left of them, in words. */
static void terms_are_folded(void **state)
{
    static const struct {
        size_t count;
        int64_t begin[10]; /* [count + 1] each term's first shard, and where the last one ends */
        int64_t shards;
        const char *steps;
    } cases[] = {
        {4, {0, 1, 2, 3, 4}, 4, "0+1 2+3 0+2 (0,4)"},
        {5, {0, 1, 2, 3, 4, 5}, 5, "0+1 2+3 0+2 0+4 (0,5)"},
        {3, {2, 3, 4, 5}, 5, "0+1 (2,4)(4,5)"},
        {6, {1, 2, 3, 4, 5, 6, 7}, 12, "1+2 3+4 (1,2)(2,4)(4,6)(6,7)"},
        {4, {0, 2, 4, 6, 7}, 12, "0+1 (0,4)(4,6)(6,7)"}, /* three ranks of five, of twelve shards */
        {3, {8, 9, 10, 12}, 12, "0+1 0+2 (8,12)"},
        {8, {0, 2, 4, 6, 7, 8, 9, 10, 12}, 12, "0+1 3+4 2+3 0+2 5+6 5+7 0+5 (0,12)"}, /* all */
        {4, {1, 2, 4, 5, 6}, 0, "0+1 0+2 0+3 (1,6)"},                                 /* no tree */
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char text[128] = "";
        ls_term terms[10];
        ls_addition added[10];
        size_t sums = 0, used = 0;
        for (size_t i = 0; i < cases[c].count; i++)
            terms[i] = (ls_term){{cases[c].begin[i], cases[c].begin[i + 1]}, i};
        const size_t left = ls_fold(terms, cases[c].count, cases[c].shards, added, &sums);
        for (size_t i = 0; i < sums; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%zu+%zu ", added[i].into,
                                     added[i].from);
        for (size_t i = 0; i < left; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "(%d,%d)",
                                     (int)terms[i].node.first, (int)terms[i].node.last);
        assert_string_equal(text, cases[c].steps);
    }
}

static void wrong_sums_are_refused(void **state)
{
    fixture *f = *state;
    ls_comm *comms[3];
    ls_op_list ops = {0};
    float data[4] = {0}, *sums[] = {data};
    must(ls_comm_open(NULL, NULL, f->device, 3, comms));
    ls_allreduce_args args = {.data = data, .count = 4, .shards = 0, .sums = sums, .sum_count = 1};
    must_refuse(canonical()->build(comms[0], &args, &ops), LS_CODE_USAGE, "0 shards");
    args.shards = 16;
    must_refuse(canonical()->build(comms[0], &args, &ops), LS_CODE_USAGE,
                "the number of partial sums from rank 0 is 1, but");
    for (int r = 0; r < 3; r++)
        ls_comm_close(comms[r]);
    ls_op_list_clear(&ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_give_the_bits_of_the_tree),
        cmocka_unit_test(subtrees_are_finished),
        cmocka_unit_test(terms_are_folded),
        cmocka_unit_test(wrong_sums_are_refused),
    };
    const struct CMUnitTest again[] = {
        /* on queues ordered by events */
        cmocka_unit_test(all_ranks_give_the_bits_of_the_tree),
    };
    return cmocka_run_group_tests(tests, setup_devices, teardown) +
           cmocka_run_group_tests_name("together", again, setup_together, teardown);
}
