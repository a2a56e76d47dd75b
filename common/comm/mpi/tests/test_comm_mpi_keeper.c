/* SPDX-License-Identifier: MIT */
/*
 * The keeper of a rank (mpi_keeper.c), without MPI and without Slurm: a child plays the rank, and
 * this process plays the daemon that its connection leads to. All that must come is waited for; the
 * test's time limit ends a wait in vain. "Uses no core" means: a twentieth of the keeper's life.
 * Leaves out what Slurm does then (test_slurm_slow.sh).
 */
#include "common/base/tests/must.h"
#include "common/comm/mpi/comm_mpi.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const uint64_t second_ns = 1000000000;
static const int some_ms = 100; /* in which a keeper that does not keep would have ended */

/* A rank that has a connection and a pipe; its keeper becomes this process's child when it dies. */
typedef struct played {
    pid_t rank;
    int connection, pipe; /* this process's ends */
} played;

/* The rank: keeps, connects, says that it is ready, and waits for its death; or ends in order. */
static void play_rank(struct sockaddr_in daemon, uint64_t linger_ns, bool orderly)
{
    mpi_keeper *keeper = NULL;
    const int file = socket(AF_INET, SOCK_STREAM, 0);
    ls_status status = ls_comm_mpi_keep(&keeper);
    if (status || !keeper || connect(file, (struct sockaddr *)&daemon, sizeof daemon))
        _exit(1);
    if (linger_ns)
        ls_comm_mpi_keep_for(keeper, linger_ns);
    if (write(file, "r", 1) != 1)
        _exit(1);
    if (!orderly)
        pause();
    ls_comm_mpi_dismiss(keeper);
    _exit(0);
}

static played play(uint64_t linger_ns, bool orderly)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int ends[2];
    char ready;
    played p;
    const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listening, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listening, 1), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&address, &length), 0);
    assert_int_equal(pipe(ends), 0);
    p.rank = fork();
    if (!p.rank) {
        close(ends[0]);
        close(listening);
        play_rank(address, linger_ns, orderly);
    }
    assert_true(p.rank > 0);
    close(ends[1]);
    p.pipe = ends[0];
    p.connection = accept(listening, NULL, NULL);
    assert_int_equal(read(p.connection, &ready, 1), 1);
    close(listening);
    return p;
}

static void kill_rank(const played *p)
{
    int how;
    assert_int_equal(kill(p->rank, SIGKILL), 0);
    assert_int_equal(waitpid(p->rank, &how, 0), p->rank);
    assert_true(WIFSIGNALED(how));
}

/* The keeper ends, and has used less than this time of a core. */
static void await_keeper(double most_s)
{
    struct rusage used;
    int how;
    assert_true(wait4(-1, &how, 0, &used) > 0);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    assert_true((double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                    (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6 <
                most_s);
}

static void nobody_is_left(void)
{
    assert_int_equal(waitpid(-1, NULL, 0), -1);
    assert_int_equal(errno, ECHILD);
}

static void it_ends_with_the_other_side(void **state)
{
    char byte;
    const played p = play(3600 * second_ns, false);
    kill_rank(&p);
    assert_int_equal(read(p.pipe, &byte, 1), 0); /* pipes are not kept */
    struct pollfd end = {.fd = p.connection, .events = POLLIN};
    assert_int_equal(poll(&end, 1, some_ms), 0); /* the connection is */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), 0);
    close(p.connection); /* a launcher that is killed closes it, too */
    await_keeper(1);
    nobody_is_left();
    close(p.pipe);
}

static void it_ends_when_its_time_is_over(void **state)
{
    const double life_s = 0.4;
    char byte;
    const played p = play((uint64_t)(life_s * 1e9), false);
    kill_rank(&p);
    await_keeper(life_s / 20);
    assert_int_equal(read(p.connection, &byte, 1), 0);
    nobody_is_left();
    close(p.connection);
    close(p.pipe);
}

static void before_ranks_are_connected_it_keeps_nothing(void **state)
{
    char byte;
    const played p = play(0, false);
    kill_rank(&p);
    await_keeper(1);
    assert_int_equal(read(p.connection, &byte, 1), 0);
    nobody_is_left();
    close(p.connection);
    close(p.pipe);
}

static void an_orderly_end_leaves_nobody(void **state)
{
    int how;
    char byte;
    const played p = play(3600 * second_ns, true);
    assert_int_equal(waitpid(p.rank, &how, 0), p.rank);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    assert_int_equal(read(p.connection, &byte, 1), 0);
    nobody_is_left();
    close(p.connection);
    close(p.pipe);
}

/* Open MPI's mpirun does not kill the others at once; a single rank of MPICH's has no others. */
static void only_ranks_that_die_at_once_have_one(void **state)
{
    mpi_keeper *keeper = NULL;
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    must(ls_comm_mpi_keep(&keeper));
    assert_null(keeper);
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("SLURM_STEP_NUM_TASKS");
    must(ls_comm_mpi_keep(&keeper));
    assert_null(keeper);
    setenv("PMI_RANK", "0", 1);
    setenv("PMI_SIZE", "1", 1);
    setenv("MPI_LOCALNRANKS", "1", 1);
    must(ls_comm_mpi_keep(&keeper));
    assert_null(keeper);
    unsetenv("PMI_RANK");
}

/* A child that MPICH's mpirun could have started; it sends the rank's pid. */
static pid_t play_under_mpich(int *wire, bool orderly)
{
    mpi_keeper *keeper = NULL;
    int ends[2];
    char number[16];
    pid_t rank;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const pid_t child = fork();
    if (!child) {
        close(ends[0]);
        snprintf(number, sizeof number, "%d", ends[1]);
        unsetenv("SLURM_STEP_NUM_TASKS");
        signal(SIGCHLD, SIG_IGN); /* as a parent may leave it */
        setenv("PMI_RANK", "0", 1);
        setenv("PMI_SIZE", "2", 1);
        setenv("MPI_LOCALNRANKS", "1", 1);
        setenv("PMI_FD", number, 1);
        ls_status status = ls_comm_mpi_keep(&keeper);
        rank = getpid();
        ls_comm_mpi_keep_for(keeper, 3600 * second_ns);
        if (status || !keeper || write(ends[1], &rank, sizeof rank) != sizeof rank)
            _exit(1);
        if (!orderly)
            pause();
        ls_comm_mpi_dismiss(keeper);
        _exit(3);
    }
    close(ends[1]);
    *wire = ends[0];
    assert_int_equal(read(*wire, &rank, sizeof rank), sizeof rank);
    assert_int_not_equal(rank, child);
    if (!orderly)
        assert_int_equal(kill(rank, SIGKILL), 0);
    return child;
}

/* MPICH's mpirun kills all when a child dies by a signal: the rank is the keeper's child. */
static void under_mpich_it_is_the_parent(void **state)
{
    int wire, how;
    pid_t child = play_under_mpich(&wire, false);
    struct pollfd end = {.fd = wire, .events = POLLIN};
    assert_int_equal(poll(&end, 1, some_ms), 0);
    assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
    close(wire);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 128 + SIGKILL);
    child = play_under_mpich(&wire, true);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 3);
    nobody_is_left();
    close(wire);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_ends_with_the_other_side),
        cmocka_unit_test(it_ends_when_its_time_is_over),
        cmocka_unit_test(before_ranks_are_connected_it_keeps_nothing),
        cmocka_unit_test(an_orderly_end_leaves_nobody),
        cmocka_unit_test(only_ranks_that_die_at_once_have_one),
        cmocka_unit_test(under_mpich_it_is_the_parent),
    };
    setenv("SLURM_STEP_NUM_TASKS", "2", 1);
    unsetenv("SLURM_STEP_ID");
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("PMI_RANK");
    unsetenv("PMI_FD");
    if (prctl(PR_SET_CHILD_SUBREAPER, 1)) {
        puts("skipped: orphans cannot be waited for here");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
