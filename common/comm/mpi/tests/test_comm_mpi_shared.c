/* SPDX-License-Identifier: MIT */
/*
 * All-reduce `direct` between processes of one host, besides its bits and traffic (test_comm_mpi):
 * pages shared by several buffers, buffers that are freed and allocated again, refusals of the
 * system, ranks that never come. No tolerance: bits.
 */
#include "common/comm/mpi/tests/mpi_fixture.h"

#include <sys/resource.h>

enum { ODD = 1001, BUFFERS = 5 };

static const ls_allreduce *find_direct(void)
{
    const ls_allreduce *direct;
    must(ls_allreduce_find("direct", &direct));
    return direct;
}

/* Element i of buffer b on a rank: small whole numbers, whose sums are exact. */
static float value_of(int rank, int buffer, size_t i)
{
    return (float)((rank * 31 + buffer * 7 + (int)(i % 97)) % 50);
}

static float sum_of(int ranks, int buffer, size_t i)
{
    float sum = 0;
    for (int r = 0; r < ranks; r++)
        sum += value_of(r, buffer, i);
    return sum;
}

/* Buffers share pages: every other one is reduced, then all. When allocated again, pages are
 * registered that already are. */
static void pages_next_door_keep_what_they_hold(void **state)
{
    const mpi_fixture *f = *state;
    ls_device *device = f->devices->device[0];
    for (int time = 0; time < 3; time++) {
        ls_comm *comm;
        ls_op_list ops[2] = {{0}};
        void *data[BUFFERS];
        must(ls_comm_open(NULL, f->processes.comm, &device, 1, &comm));
        assert_true(comm->shared);
        for (int b = 0; b < BUFFERS; b++) {
            must(ls_device_allocate(device, LS_MEMORY_GRADIENTS, ODD * sizeof(float), &data[b]));
            for (size_t i = 0; i < ODD; i++)
                ((float *)data[b])[i] = value_of(comm->rank, b, i);
        }
        for (int late = 0; late < 2; late++)
            for (int b = 1 - late; b < BUFFERS; b += 2) {
                const ls_allreduce_args args = {.data = data[b], .count = ODD};
                must(find_direct()->build(comm, &args, &ops[late]));
            }
        for (int late = 0; late < 2; late++) {
            replay_all(f->devices, &ops[late], 1, 1, NULL);
            for (int b = 0; b < BUFFERS; b++)
                for (size_t i = 0; i < ODD; i++) {
                    const bool added = late || b % 2;
                    assert_true(((float *)data[b])[i] ==
                                (added ? sum_of(comm->size, b, i) : value_of(comm->rank, b, i)));
                }
        }
        for (int late = 0; late < 2; late++)
            ls_op_list_clear(&ops[late]);
        ls_comm_close(comm);
        for (int b = 0; b < BUFFERS; b++)
            ls_device_release(device, data[b]);
    }
}

/* A process that may open no more files cannot share memory: all ranks are told, and none silently
 * uses another method. */
static void what_the_system_refuses_is_said(void **state)
{
    const mpi_fixture *f = *state;
    const bool last = f->processes.rank + 1 == f->processes.size;
    struct rlimit usual, none;
    ls_comm *comm;
    ls_op_list ops = {0};
    float data[ODD];
    const ls_allreduce_args args = {.data = data, .count = ODD};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    none = usual;
    none.rlim_cur = 0;
    if (last)
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    must(ls_comm_open(NULL, f->processes.comm, f->devices->device, 1, &comm));
    if (last)
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
    assert_false(comm->shared);
    must_refuse(find_direct()->check(comm), LS_CODE_MISSING, "Too many open files");
    must_refuse(find_direct()->build(comm, &args, &ops), LS_CODE_MISSING,
                "--allreduce halving-doubling");
    assert_ptr_not_equal(ls_allreduce_auto(comm, 1 << 20), find_direct());
    ls_comm_close(comm);
}

/* The last rank never comes. This ends the job, so it is the last test. */
static void who_does_not_come_is_named(void **state)
{
    const mpi_fixture *f = *state;
    const int last = f->processes.size - 1;
    ls_status status;
    char expected[128];
    workspace w;
    open_workspace(f, 1, 100, &w);
    const ls_allreduce_args args = {.data = w.data[0], .count = 100};
    must(find_direct()->build(w.comms[0], &args, &w.ops[0]));
    must(ls_comm_agree(f->processes.comm, LS_OK));
    if (f->processes.rank == last) { /* its own timeout is longer than all others' */
        must_refuse(ls_comm_agree(f->processes.comm, LS_OK), LS_CODE_MISSING, "abandoned by rank");
        close_workspace(&w);
        return;
    }
    ls_processes_set_timeout(&f->processes, 1000000000); /* for the others, however late they are */
    ls_processes_step(&f->processes, 37, 1, true);
    replay_all(f->devices, w.ops, 1, 1, &status);
    snprintf(expected, sizeof expected, "for an all-reduce of 400 bytes, rank %d, step 37", last);
    assert_non_null(strstr(ls_status_text(status), expected));
    ls_status_free(status);
    assert_true(ls_processes_lost(&f->processes));
    close_workspace(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_next_door_keep_what_they_hold),
        cmocka_unit_test(what_the_system_refuses_is_said),
        cmocka_unit_test(who_does_not_come_is_named),
    };
    return run_group(tests, sizeof tests / sizeof *tests);
}
