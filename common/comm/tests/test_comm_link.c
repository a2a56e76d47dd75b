/* SPDX-License-Identifier: MIT */
/*
 * Collectives over shaped links. Their closed forms, exactly: the operations that each rank
 * enqueues go through the bookings of a network, without sleeping. On queues: the same bits and
 * traffic as without links, never faster than the closed form. No tolerance. alarm() ends a hang.
 */
#include "common/comm/tests/comm_fixture.h"

#include <pthread.h>
#include <unistd.h>

enum { REPLAYS = 4, COUNT = 960, LONGEST_S = 800 };

/* ---- Closed forms -------------------------------------------------------------------------- */

/* One rank of a communicator whose operations are recorded. */
typedef struct noted {
    ls_comm base;
    ls_exchange ops[64];
    size_t count, next;
    uint64_t now_ns;     /* simulated time */
    bool sent, received; /* finished parts of the current operation */
    uint64_t end_ns;     /* of these parts */
} noted;

static ls_status note_exchange(ls_comm *comm, const ls_exchange *exchange, ls_op **out)
{
    noted *n = (noted *)comm;
    test_op *op = calloc(1, sizeof *op);
    op->op = (ls_op){.name = "noted", .run = run_delay};
    assert_true(n->count < sizeof n->ops / sizeof *n->ops);
    n->ops[n->count++] = *exchange;
    *out = &op->op;
    return LS_OK;
}

static const ls_comm_backend noting = {.name = "noting", .exchange = note_exchange};

/* Finishes the current operation if both its parts are finished. */
static bool advance(noted *n)
{
    const ls_exchange *e = &n->ops[n->next];
    if ((e->to >= 0 && !n->sent) || (e->from >= 0 && !n->received))
        return false;
    n->now_ns = n->end_ns;
    n->sent = n->received = false;
    n->next++;
    return true;
}

/* Rank r receives its message if the sender has reached that operation, too. */
static bool meet(ls_network *network, noted *ranks, int r)
{
    noted *to = &ranks[r];
    const ls_exchange *e = &to->ops[to->next];
    if (to->next == to->count || to->received || e->from < 0)
        return false;
    noted *from = &ranks[e->from];
    if (from->next == from->count || from->sent || from->ops[from->next].to != r)
        return false;
    assert_true(from->ops[from->next].send_count == e->receive_count);
    uint64_t ready = from->now_ns > to->now_ns ? from->now_ns : to->now_ns;
    uint64_t arrival =
        ls_network_reserve(network, e->from, r, e->receive_count * sizeof(float), ready);
    to->received = from->sent = true;
    to->end_ns = to->end_ns > arrival ? to->end_ns : arrival;
    from->end_ns = from->end_ns > arrival ? from->end_ns : arrival;
    (void)(advance(to) + advance(from));
    return true;
}

/* When the last of n ranks finishes an all-reduce of COUNT elements. */
static uint64_t calculate(const char *name, int n, const ls_link *link)
{
    noted *ranks = calloc((size_t)n, sizeof *ranks);
    const ls_allreduce *a;
    ls_network *network;
    float data[COUNT];
    uint64_t last = 0;
    bool moved = true;
    must(ls_allreduce_find(name, &a));
    must(ls_network_open(link, n, &network));
    for (int r = 0; r < n; r++) {
        ls_op_list ops = {0};
        ranks[r].base = (ls_comm){.backend = &noting, .rank = r, .size = n, .linked = true};
        must(a->build(&ranks[r].base, &(ls_allreduce_args){.data = data, .count = COUNT}, &ops));
        ls_op_list_clear(&ops);
    }
    while (moved) {
        moved = false;
        for (int r = 0; r < n; r++)
            moved |= meet(network, ranks, r);
    }
    for (int r = 0; r < n; r++) {
        assert_int_equal(ranks[r].next, ranks[r].count); /* no rank is left waiting */
        last = ranks[r].now_ns > last ? ranks[r].now_ns : last;
    }
    ls_network_close(network);
    free(ranks);
    return last;
}

static uint64_t rounds_of(int n)
{
    uint64_t rounds = 0;
    while (1 << rounds < n)
        rounds++;
    return rounds;
}

static void closed_forms_hold(void **state)
{
    static const int counts[] = {2, 3, 4, 8};
    const ls_link link = {.latency_ns = 70000, .bytes_per_s = 1e9}; /* a byte a nanosecond */
    const uint64_t L = 70000, all = COUNT * sizeof(float);          /* latency; bytes */
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        const uint64_t n = (uint64_t)counts[k], rounds = rounds_of(counts[k]);
        assert_int_equal(calculate("ring", counts[k], &link), 2 * (n - 1) * (L + all / n));
        assert_int_equal(calculate("flat", counts[k], &link), 2 * (n - 1) * (L + all));
        assert_int_equal(calculate("tree", counts[k], &link), 2 * rounds * (L + all));
        if (n != 3)
            assert_int_equal(calculate("halving-doubling", counts[k], &link),
                             2 * (rounds * L + (n - 1) * all / n));
    }
    const ls_link late = {.latency_ns = 70000};
    assert_int_equal(calculate("ring", 4, &late), 6 * L);
}

/* ---- On queues ----------------------------------------------------------------------------- */

/* Checks bits and traffic; returns how long the replays took. */
static uint64_t run_linked(fixture *f, const ls_allreduce *a, int n)
{
    ls_comm *comms[MOST_RANKS];
    ls_op_list ops[MOST_RANKS] = {{0}};
    test_op *checks[MOST_RANKS];
    float *inputs[MOST_RANKS], *data[MOST_RANKS], expected[COUNT];
    must(ls_comm_open(NULL, NULL, f->device, n, comms));
    for (int r = 0; r < n; r++) {
        assert_true(comms[r]->linked);
        inputs[r] = random_floats("inputs", r, COUNT);
        data[r] = calloc(COUNT, sizeof(float));
        put_op(&ops[r], run_fill, data[r], inputs[r], COUNT);
        const ls_allreduce_args args = {data[r], COUNT, .scratch = scratch_of(comms[r])};
        must(a->build(comms[r], &args, &ops[r]));
        checks[r] = put_op(&ops[r], run_check, data[r], expected, COUNT);
    }
    must(allreduce_sum(a, (const float *const *)inputs, n, COUNT, expected, NULL));
    uint64_t begin_ns = ls_clock_ns();
    replay_all(f, ops, n, REPLAYS, NULL);
    uint64_t took_ns = ls_clock_ns() - begin_ns;
    ls_traffic moved = total_traffic(comms, n),
               formula = a->formula(n, ls_elements(COUNT), 0, NULL);
    assert_true(moved.bytes_sent == REPLAYS * formula.bytes_sent);
    assert_true(moved.messages_sent == REPLAYS * formula.messages_sent);
    for (int r = 0; r < n; r++) {
        assert_true(checks[r]->runs == REPLAYS && checks[r]->wrong == 0);
        free(inputs[r]);
        free(data[r]);
    }
    close_all(comms, ops, n);
    return took_ns;
}

static void links_change_no_bits(void **state)
{
    fixture *f = *state;
    const ls_link link = {.latency_ns = 30000, .bytes_per_s = 1e9};
    plug_all(f, &link);
    const ls_allreduce *a;
    for (const void *const *e = ls_allreduces.entries; (a = *e); e++)
        for (int n = 2; n <= 8 && a->oracle && !a->check; n++)
            run_linked(f, a, n);
    unplug_all(f);
}

static void no_step_takes_less_than_its_closed_form(void **state)
{
    fixture *f = *state;
    static const char *const names[] = {"ring", "flat", "tree"};
    const ls_link link = {.latency_ns = 1000000, .bytes_per_s = 4e6}; /* P: 0.96 ms */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int n = 2; n <= 4; n++) {
            const ls_allreduce *a;
            plug_all(f, &link);
            must(ls_allreduce_find(names[i], &a));
            assert_true(run_linked(f, a, n) >= REPLAYS * calculate(names[i], n, &link));
            unplug_all(f);
        }
}

static void direct_is_not_for_links(void **state)
{
    fixture *f = *state;
    const ls_link link = {.latency_ns = 1000};
    const ls_allreduce *direct;
    ls_comm *comms[2];
    ls_op_list ops = {0};
    float data[COUNT];
    const ls_allreduce_args args = {.data = data, .count = COUNT};
    must(ls_allreduce_find("direct", &direct));
    must(ls_comm_open(NULL, NULL, f->device, 2, comms));
    must(direct->check(comms[0]));
    assert_ptr_equal(ls_allreduce_auto(comms[0], 1000), direct);
    close_all(comms, (ls_op_list[2]){{0}}, 2);
    plug_all(f, &link);
    must(ls_comm_open(NULL, NULL, f->device, 2, comms));
    must_refuse(direct->check(comms[0]), LS_CODE_USAGE, "ring, tree");
    must_refuse(direct->build(comms[1], &args, &ops), LS_CODE_USAGE, "ring, tree");
    for (size_t bytes = 4; bytes < (size_t)1 << 30; bytes *= 8)
        assert_ptr_not_equal(ls_allreduce_auto(comms[1], bytes), direct);
    close_all(comms, (ls_op_list[2]){{0}}, 2);
    unplug_all(f);
}

/* ---- Host calls ---------------------------------------------------------------------------- */

static void messages_take_the_links_time(void **state)
{
    fixture *f = *state;
    const ls_link link = {.latency_ns = 20000000, .bytes_per_s = 1e6}; /* a byte a microsecond */
    enum { BYTES = 10000, TAG = 1, MESSAGES = 3 };
    plug_all(f, &link);
    ls_comm *comms[3];
    char out[BYTES] = "out", in[BYTES] = "";
    int from;
    size_t bytes;
    must(ls_comm_open(NULL, NULL, f->device, 3, comms));
    const ls_comm_backend *b = comms[0]->backend;
    uint64_t sent_ns = ls_clock_ns();
    for (int i = 0; i < MESSAGES; i++)
        must(b->send(comms[i % 2], 2, TAG, out, BYTES));
    for (uint64_t i = 1; i <= MESSAGES; i++) { /* they share rank 2's receiving port */
        must(b->receive_any(comms[2], TAG, in, BYTES, &from, &bytes));
        assert_true(ls_clock_ns() >= sent_ns + link.latency_ns + i * BYTES * 1000);
        assert_true(bytes == BYTES && from == (int)((i - 1) % 2) && strcmp(in, "out") == 0);
    }
    sent_ns = ls_clock_ns();
    must(b->send(comms[2], 0, TAG, NULL, 0));
    must(b->receive(comms[0], 2, TAG, NULL, 0));
    assert_true(ls_clock_ns() >= sent_ns + link.latency_ns);
    close_all(comms, (ls_op_list[3]){{0}}, 3);
    unplug_all(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_forms_hold),
        cmocka_unit_test(links_change_no_bits),
        cmocka_unit_test(no_step_takes_less_than_its_closed_form),
        cmocka_unit_test(direct_is_not_for_links),
        cmocka_unit_test(messages_take_the_links_time),
    };
    alarm(LONGEST_S);
    return cmocka_run_group_tests(tests, setup_devices, teardown);
}
