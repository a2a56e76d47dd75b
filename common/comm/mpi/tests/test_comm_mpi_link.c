/* SPDX-License-Identifier: MIT */
/*
 * Shaped links between members of the MPI back end, on several processes: bits and traffic do not
 * change; exchanges and host messages take at least latency + bytes / bandwidth, and those that
 * share a port at least the sum; a rank that fails wakes all. Times have exact lower bounds only: a
 * late thread cannot break them.
 */
#include "common/comm/mpi/tests/mpi_fixture.h"

enum { ELEMENTS = 5000, TAG = 1 }; /* 20,000 bytes */

/* Includes counts around the size of an exchange's pieces. */
static void links_change_no_bits(void **state)
{
    static const size_t counts[] = {0, 1, 1000, 65536, 300001};
    const ls_link link = {.latency_ns = 30000, .bytes_per_s = 4e9};
    const mpi_fixture *f = *state;
    plug_all(f->devices, &link);
    const ls_allreduce *a;
    for (const void *const *e = ls_allreduces.entries; (a = *e); e++)
        for (int locals = 1; locals <= MOST_LOCALS && a->oracle && !a->check; locals++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                try_allreduce(*state, a, &(workspace){.locals = locals, .count = counts[c]},
                              REPLAYS, c % 2);
    unplug_all(f->devices);
}

/* The time of each member's rounds, whenever the other members arrive. */
static void no_all_reduce_takes_less_than_its_closed_form(void **state)
{
    static const char *const names[] = {"ring", "flat"};
    const ls_link link = {.latency_ns = 2000000, .bytes_per_s = 20e6};
    const uint64_t L = 2000000, all = ELEMENTS * sizeof(float) * 50; /* ns for all bytes */
    const mpi_fixture *f = *state;
    plug_all(f->devices, &link);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int locals = 1; locals <= 2; locals++) {
            const ls_allreduce *a;
            const workspace size = {.locals = locals, .count = ELEMENTS};
            const uint64_t n = (uint64_t)(locals * ((const mpi_fixture *)*state)->processes.size);
            must(ls_allreduce_find(names[i], &a));
            uint64_t begin_ns = ls_clock_ns();
            try_allreduce(*state, a, &size, REPLAYS, 0);
            /* For flat, what every rank sees: its own sum is sent, and all sums are received. */
            assert_true(ls_clock_ns() - begin_ns >=
                        REPLAYS * (i ? 2 * (L + all) : 2 * (n - 1) * (L + all / n)));
        }
    unplug_all(f->devices);
}

/* Two concurrent exchanges on separate queues: member 0 with the last two members. */
static void exchanges_of_a_port_take_turns(void **state)
{
    const mpi_fixture *f = *state;
    const ls_link link = {.latency_ns = 20000000, .bytes_per_s = 1e6};
    const uint64_t L = 20000000, each = ELEMENTS * sizeof(float) * 1000;
    plug_all(f->devices, &link);
    ls_queue *second;
    float *data = calloc(2 * ELEMENTS, sizeof *data);
    must(ls_queue_open(f->devices->device[0], "second", &second));
    ls_queue *const queues[] = {f->devices->queue[0], second};
    for (int in = 0; in < 2; in++) { /* what member 0 sends, then what it receives */
        ls_comm *comms[2][2];
        ls_op *ops[2] = {NULL, NULL};
        uint64_t begin_ns;
        for (int i = 0; i < 2; i++)
            must(ls_comm_open(NULL, f->processes.comm, f->devices->device, 2, comms[i]));
        const int last = comms[0][0]->size - 1, first = comms[0][0]->rank;
        begin_ns = ls_clock_ns(); /* before anything is sent */
        must(ls_comm_agree(f->processes.comm, LS_OK));
        for (int i = 0; i < 2; i++) {
            const bool sends = first == 0 ? !in : in;
            const int peer = first == 0 ? last - i : 0;
            const int local = first == 0 ? 0 : 1 - i; /* of the last process: those two members */
            ls_exchange e = {.to = -1, .from = -1};
            if (first != 0 && first + 1 != last)
                continue;
            if (sends)
                e = (ls_exchange){
                    .to = peer, .send = data + i * ELEMENTS, .send_count = ELEMENTS, .from = -1};
            else
                e = (ls_exchange){.to = -1,
                                  .from = peer,
                                  .receive = data + i * ELEMENTS,
                                  .receive_count = ELEMENTS};
            must(ls_comm_exchange(comms[i][local], &e, &ops[i]));
            must(ls_queue_enqueue(first == 0 ? queues[i] : f->devices->queue[local], ops[i]));
        }
        for (int i = 0; i < 2; i++) {
            must(ls_queue_sync(queues[i]));
            must(ls_queue_sync(f->devices->queue[i]));
        }
        if (first == 0 || (!in && first + 1 == last)) /* including the last one of both receivers */
            assert_true(ls_clock_ns() - begin_ns >= L + 2 * each);
        for (int i = 0; i < 2; i++) {
            ls_op_free(ops[i]);
            for (int k = 0; k < 2; k++)
                ls_comm_close(comms[i][k]);
        }
    }
    ls_queue_close(second);
    free(data);
    unplug_all(f->devices);
}

/* From two members of the last process to member 0 of another: each message has its own sending
 * port, or shares one, and all share the receiving port. */
static void messages_take_the_links_time(void **state)
{
    enum { BYTES = 10000, EACH = 3 };
    const mpi_fixture *f = *state;
    const ls_link link = {.latency_ns = 20000000, .bytes_per_s = 1e6}; /* a byte a microsecond */
    plug_all(f->devices, &link);
    ls_comm *comms[2];
    char message[BYTES] = "out";
    must(ls_comm_open(NULL, f->processes.comm, f->devices->device, 2, comms));
    const ls_comm_backend *b = comms[0]->backend;
    assert_true(comms[0]->linked);
    const uint64_t begin_ns = ls_clock_ns(); /* before anything is sent */
    must(ls_comm_agree(f->processes.comm, LS_OK));
    for (int i = 0; i < 2 * EACH && f->processes.rank + 1 == f->processes.size; i++)
        must(b->send(comms[i % 2], 0, TAG, message, BYTES));
    for (uint64_t i = 1; i <= 2 * EACH && f->processes.rank == 0; i++) {
        int from;
        size_t bytes;
        memset(message, 0, sizeof message);
        must(b->receive_any(comms[0], TAG, message, BYTES, &from, &bytes));
        assert_true(ls_clock_ns() >= begin_ns + link.latency_ns + i * BYTES * 1000);
        assert_true(bytes == BYTES && strcmp(message, "out") == 0);
    }
    const uint64_t sent_ns = ls_clock_ns(); /* ports: one out, two in; also in the same process */
    must(ls_comm_agree(f->processes.comm, LS_OK));
    must(b->send(comms[0], 1 + comms[0]->rank, TAG, message, BYTES));
    must(b->send(comms[0], (comms[0]->rank + 3) % comms[0]->size, TAG, message, BYTES));
    must(b->receive(comms[1], comms[0]->rank, TAG, message, BYTES));
    assert_true(ls_clock_ns() >= sent_ns + link.latency_ns + BYTES * 1000);
    must(b->receive(comms[1], (comms[0]->rank + comms[0]->size - 2) % comms[0]->size, TAG, message,
                    BYTES));
    assert_true(ls_clock_ns() >= sent_ns + link.latency_ns + 2 * BYTES * 1000);
    for (int i = 0; i < 2; i++)
        ls_comm_close(comms[i]);
    unplug_all(f->devices);
}

static void what_no_link_can_shape_is_refused(void **state)
{
    const mpi_fixture *f = *state;
    const ls_link link = {.latency_ns = 1000};
    plug_all(f->devices, &link);
    const ls_allreduce *direct, *library;
    ls_comm *comms[2];
    must(ls_allreduce_find("direct", &direct));
    must(ls_allreduce_find("library", &library));
    must(ls_comm_open(NULL, f->processes.comm, f->devices->device, 2, comms));
    must_refuse(direct->check(comms[0]), LS_CODE_USAGE, "ring, tree");
    must_refuse(library->check(comms[1]), LS_CODE_USAGE, "ring, tree");
    for (size_t bytes = 4; bytes < (size_t)1 << 30; bytes *= 8)
        assert_non_null(ls_allreduce_auto(comms[0], bytes)->formula);
    for (int i = 0; i < 2; i++)
        ls_comm_close(comms[i]);
    unplug_all(f->devices);
}

/* While others' transfers are in flight. */
static void a_failed_rank_lets_all_go(void **state)
{
    const mpi_fixture *f = *state;
    const ls_link link = {.latency_ns = 300000, .bytes_per_s = 1e8};
    plug_all(f->devices, &link);
    const ls_allreduce *a;
    for (const void *const *e = ls_allreduces.entries; (a = *e); e++) {
        workspace w;
        ls_status status;
        if (!a->oracle || a->check)
            continue;
        open_workspace(f, 1, ELEMENTS, &w);
        const ls_allreduce_args args = {
            .data = w.data[0], .count = ELEMENTS, .scratch = scratch_of(w.comms[0])};
        must(a->build(w.comms[0], &args, &w.ops[0]));
        if (f->processes.rank == 1)
            put_op(&w.ops[0], run_failing, NULL, NULL, 0)->fail_at = 2;
        must(a->build(w.comms[0], &args, &w.ops[0]));
        replay_all(f->devices, w.ops, 1, 20, &status);
        if (f->processes.rank == 1)
            must_refuse(status, LS_CODE_CHECK, "planted");
        else
            must_refuse(status, LS_CODE_MISSING, "abandoned by rank 1");
        must(ls_comm_agree(f->processes.comm, LS_OK));
        close_workspace(&w);
    }
    unplug_all(f->devices);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_change_no_bits),
        cmocka_unit_test(no_all_reduce_takes_less_than_its_closed_form),
        cmocka_unit_test(exchanges_of_a_port_take_turns),
        cmocka_unit_test(messages_take_the_links_time),
        cmocka_unit_test(what_no_link_can_shape_is_refused),
        cmocka_unit_test(a_failed_rank_lets_all_go),
    };
    return run_group(tests, sizeof tests / sizeof *tests);
}
