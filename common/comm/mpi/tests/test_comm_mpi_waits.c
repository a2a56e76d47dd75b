/* SPDX-License-Identifier: MIT */
/*
 * How waits of the MPI back end end after an error: MPI returns one, or a peer stops in the middle
 * of a message. The last test ends the job. Functions here replace MPI's and fail. No tolerance; no
 * wait lasts much longer than its timeout.
 */
#include "common/comm/mpi/comm_mpi.h"
#include "common/comm/mpi/tests/mpi_fixture.h"

#include <mpi.h>

/* Number of calls after which MPI_Test and MPI_Isend fail, once each, and MPI_Improbe from then on:
 * the back end also asks for signs of life, which may fail. Negative: never. */
static _Atomic int probes_left = -1, tests_left = -1, sends_left = -1;

static bool fails_now(_Atomic int *left)
{
    return atomic_load(left) >= 0 && atomic_fetch_sub(left, 1) == 0;
}

static bool fails_from_now(_Atomic int *left)
{
    const int calls = atomic_load(left);
    if (calls > 0)
        atomic_fetch_sub(left, 1);
    return calls == 0;
}

int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                MPI_Status *status)
{
    return fails_from_now(&probes_left) ? MPI_ERR_OTHER
                                        : PMPI_Improbe(source, tag, comm, flag, message, status);
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    return fails_now(&tests_left) ? MPI_ERR_OTHER : PMPI_Test(request, flag, status);
}

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    memset(request, 0xa5, sizeof *request); /* a failed call leaves undefined bytes */
    return fails_now(&sends_left) ? MPI_ERR_OTHER
                                  : PMPI_Isend(data, count, type, to, tag, comm, request);
}

/* Polls of a wait; on a busy machine one takes up to 30 ms, and the timeout is 60 s. */
enum { WELL_WITHIN = 200, GO_TAG = 77 };

/* The others continue when rank 0 lets them, however long that takes; does not use the library. */
static void wait_for_rank_0(void)
{
    assert_int_equal(MPI_Recv(NULL, 0, MPI_BYTE, 0, GO_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                     MPI_SUCCESS);
}

static void let_others_go(int ranks)
{
    for (int r = 1; r < ranks; r++)
        assert_int_equal(MPI_Send(NULL, 0, MPI_BYTE, r, GO_TAG, MPI_COMM_WORLD), MPI_SUCCESS);
}

static mpi_group *group_of(const ls_comm *comm)
{
    return ((const mpi_comm *)comm)->group;
}

/* The wait is no longer recorded, so no later report mentions it. */
static void nobody_waits(const mpi_fixture *f)
{
    const mpi_group *world = group_of(f->processes.comm);
    assert_false(world->life->waits);
}

/* An MPI error ends rank 0's wait for a message after a while. */
static void a_message_that_mpi_fails_leaves_no_wait(void **state)
{
    enum { TAG = 5 };
    const mpi_fixture *f = *state;
    ls_comm *comm = f->processes.comm;
    char data[8] = "message";
    if (comm->rank > 0)
        wait_for_rank_0();
    if (comm->rank == 1)
        must(comm->backend->send(comm, 0, TAG, data, sizeof data));
    if (comm->rank == 0) {
        atomic_store(&probes_left, WELL_WITHIN);
        must_refuse(comm->backend->receive(comm, 1, TAG, data, sizeof data), LS_CODE_MISSING,
                    "MPI_Improbe");
        atomic_store(&probes_left, -1);
        nobody_waits(f);
        let_others_go(comm->size);
        must(comm->backend->receive(comm, 1, TAG, data, sizeof data));
    }
    must(ls_comm_agree(comm, LS_OK));
}

/* A message that MPI refuses has sent nothing, and has no request to be freed. */
static void a_message_that_mpi_refuses_is_none(void **state)
{
    enum { TAG = 5 };
    const mpi_fixture *f = *state;
    ls_comm *comm = f->processes.comm;
    char data[8] = "message";
    if (comm->rank == 1) {
        atomic_store(&sends_left, 0);
        must_refuse(comm->backend->send(comm, 0, TAG, "nothing", sizeof data), LS_CODE_MISSING,
                    "MPI_Isend");
        must(comm->backend->send(comm, 0, TAG, data, sizeof data));
    }
    if (comm->rank == 0) {
        must(comm->backend->receive(comm, 1, TAG, data, sizeof data));
        assert_string_equal(data, "message");
    }
    must(ls_comm_agree(comm, LS_OK));
}

/* The same for a library's all-reduce on a queue. */
static void a_sum_that_mpi_fails_leaves_no_wait(void **state)
{
    const mpi_fixture *f = *state;
    const ls_allreduce *library;
    ls_status status = LS_OK;
    workspace w;
    must(ls_allreduce_find("library", &library));
    open_workspace(f, 1, 1000, &w);
    const ls_allreduce_args args = {.data = w.data[0], .count = 1000};
    must(library->build(w.comms[0], &args, &w.ops[0]));
    if (w.first > 0)
        wait_for_rank_0();
    else
        atomic_store(&tests_left, WELL_WITHIN);
    replay_all(f->devices, w.ops, 1, 1, &status);
    if (w.first == 0)
        assert_int_equal(ls_status_code(status), LS_CODE_MISSING);
    else if (status) /* otherwise they had finished before they were notified */
        assert_non_null(strstr(ls_status_text(status), "abandoned by"));
    ls_status_free(status);
    nobody_waits(f);
    if (w.first == 0)
        let_others_go(f->processes.size);
    must(ls_comm_agree(f->processes.comm, LS_OK));
    close_workspace(&w);
}

/* The last rank announces eight bytes and sends none: rank 0, which has begun to receive them,
 * loses it when the timeout is over, as for any message. Ends the job. */
static void who_stops_in_a_message_is_lost_in_time(void **state)
{
    enum { TAG = 6 };
    const mpi_fixture *f = *state;
    ls_comm *comm = f->processes.comm;
    const mpi_group *group = group_of(comm);
    const int last = comm->size - 1;
    const ls_mail_header header = {.from = last, .to = 0, .tag = TAG, .bytes = 8};
    char data[8];
    must(ls_comm_agree(comm, LS_OK));
    ls_processes_set_timeout(&f->processes, 500000000);
    if (comm->rank == last) {
        assert_int_equal(
            MPI_Send(&header, sizeof header, MPI_BYTE, 0, ls_comm_mpi_host_tag(group), group->comm),
            MPI_SUCCESS);
    }
    if (comm->rank == 0) {
        must_refuse(comm->backend->receive(comm, last, TAG, data, sizeof data), LS_CODE_MISSING,
                    "and saw no progress");
        nobody_waits(f);
        let_others_go(comm->size);
    } else {
        wait_for_rank_0();
    }
    must_refuse(ls_comm_agree(comm, LS_OK), LS_CODE_MISSING, "abandoned by rank");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_that_mpi_fails_leaves_no_wait),
        cmocka_unit_test(a_message_that_mpi_refuses_is_none),
        cmocka_unit_test(a_sum_that_mpi_fails_leaves_no_wait),
        cmocka_unit_test(who_stops_in_a_message_is_lost_in_time),
    };
    return run_group(tests, sizeof tests / sizeof *tests);
}
