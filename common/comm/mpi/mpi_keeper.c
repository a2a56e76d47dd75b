/* SPDX-License-Identifier: MIT */
/*
 * Keeper: a process that shares the open files of this process, and so keeps its connections open
 * for a while after this process dies. Under srun a process's connection to Slurm's PMIx is its
 * sign of life: if the connection breaks, Slurm kills all tasks of the step by SIGKILL within
 * milliseconds (with --kill-on-bad-exit it sends SIGTERM first). No remaining process could then
 * report what it waited for and which process is lost, nor save the row of the current case. With a
 * keeper, a process that dies is silent like one that hangs: the others notice by their timeout,
 * report it, and end the step. The keeper starts before MPI, threads and devices, so that it copies
 * nothing of theirs. It sleeps, and exits with its process after an orderly end, otherwise with the
 * step. MPICH's mpirun also kills all ranks when its child dies by a signal: there the keeper is
 * the child, and the rank the child's. Not needed under Open MPI's mpirun, which gives the others a
 * second.
 */
#include "common/comm/mpi/comm_mpi.h"
#include "common/comm/processes.h"

#include "common/base/clock.h"

#include <dirent.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK = 64 << 10, CONNECTIONS = 256 };

/* In memory that both processes share; the keeper's stack follows. */
struct mpi_keeper {
    pid_t process, keeper;      /* keeper 0 if it is this process's parent */
    _Atomic uint64_t linger_ns; /* 0 means before ranks are connected there is nothing to keep */
    _Alignas(64) char stack[STACK];
};

/* Whether the file is a socket that is connected to another process, or could be. */
static bool is_connection(int file, int *peer_family)
{
    struct sockaddr_storage peer = {0};
    socklen_t length = sizeof peer;
    struct stat about;
    if (fstat(file, &about) || !S_ISSOCK(about.st_mode))
        return false;
    *peer_family = getpeername(file, (struct sockaddr *)&peer, &length) ? 0 : peer.ss_family;
    return true;
}

/* Closes all open files except connections, so that nobody waits for the end of pipes or locks.
 * Lists the connections that a peer can close. */
static int keep_connections(bool shared_files, struct pollfd *kept)
{
    const int wire = ls_processes_wire();
    int count = 0;
    DIR *files = shared_files && unshare(CLONE_FILES) ? NULL : opendir("/proc/self/fd");
    for (struct dirent *entry; files && (entry = readdir(files));) {
        const int file = (int)strtol(entry->d_name, NULL, 10);
        int family = 0;
        if (*entry->d_name == '.' || file == dirfd(files))
            continue;
        if (file <= 2 || !is_connection(file, &family))
            close(file);
        else if (count < CONNECTIONS && (family == AF_INET || family == AF_INET6 || file == wire))
            kept[count++] = (struct pollfd){.fd = file, .events = POLLRDHUP};
    }
    if (files)
        closedir(files);
    return count;
}

/* Waits until every connection's peer has closed it, or the time is over. */
static void linger(const struct mpi_keeper *k)
{
    const uint64_t linger_ns = atomic_load(&k->linger_ns);
    if (!linger_ns)
        return;
    const uint64_t end_ns = ls_clock_ns() + linger_ns;
    struct pollfd kept[CONNECTIONS];
    int count = keep_connections(k->keeper != 0, kept);
    for (uint64_t now_ns; count > 0 && (now_ns = ls_clock_ns()) < end_ns;) {
        const uint64_t left_ms = (end_ns - now_ns) / 1000000 + 1;
        if (poll(kept, (nfds_t)count, left_ms < INT_MAX ? (int)left_ms : INT_MAX) < 0)
            return;
        for (int i = count; i-- > 0;)
            if (kept[i].revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL))
                kept[i] = kept[--count];
    }
}

static void begin_keeping(void)
{
    sigset_t all;
    sigfillset(&all); /* the keeper ignores signals to the process */
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_NAME, "lockstep-keeper");
}

static int keep(void *argument)
{
    const struct mpi_keeper *k = argument;
    sigset_t wakes;
    begin_keeping();
    sigemptyset(&wakes);
    sigaddset(&wakes, SIGUSR1);
    prctl(PR_SET_PDEATHSIG, SIGUSR1);
    while (getppid() == k->process)
        sigwaitinfo(&wakes, NULL);
    linger(k);
    _exit(0);
}

/* This process is the keeper; its child is the rank. */
static _Noreturn void keep_above(const struct mpi_keeper *k, pid_t rank)
{
    int how;
    begin_keeping();
    if (waitpid(rank, &how, 0) != rank)
        how = SIGKILL; /* not known: as if it was killed */
    linger(k);
    _exit(WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how));
}

/* The rank goes on in a child, which has all that this process has: its connection to the launcher
 * is open already. Returns less than 0 if the fork fails. */
static pid_t descend(const struct mpi_keeper *k)
{
    signal(SIGCHLD, SIG_DFL); /* if it was ignored, waitpid would not tell how the rank ended */
    const pid_t rank = fork();
    if (rank > 0)
        keep_above(k, rank);
    if (!rank) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != k->process) /* it died before */
            raise(SIGKILL);
    }
    return rank;
}

ls_status ls_comm_mpi_keep(mpi_keeper **out)
{
    const ls_processes_death death = ls_processes_when_one_dies();
    *out = NULL;
    if (death == LS_DEATH_SPARES)
        return LS_OK;
    mpi_keeper *k =
        mmap(NULL, sizeof *k, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (k == MAP_FAILED)
        return ls_fail_memory("helper process", sizeof *k);
    k->process = getpid();
    k->keeper = death == LS_DEATH_BY_PARENT
                    ? descend(k)
                    : clone(keep, k->stack + STACK, SIGCHLD | CLONE_FILES, k);
    if (k->keeper < 0) {
        munmap(k, sizeof *k);
        return ls_fail(
            LS_CODE_MISSING, "MPI", NULL,
            "a helper process could not be started; raise the limit on processes (ulimit -u)");
    }
    *out = k;
    return LS_OK;
}

void ls_comm_mpi_keep_for(mpi_keeper *k, uint64_t linger_ns)
{
    if (k)
        atomic_store(&k->linger_ns, linger_ns);
}

void ls_comm_mpi_dismiss(mpi_keeper *k)
{
    if (!k)
        return;
    atomic_store(&k->linger_ns, 0);
    if (k->keeper) {
        kill(k->keeper, SIGKILL);
        waitpid(k->keeper, NULL, 0);
    }
    munmap(k, sizeof *k);
}
