/* SPDX-License-Identifier: MIT */
/*
 * Waiting in the MPI back end, and giving up. A wait looks at its requests between yields of the
 * core, later between short sleeps: MPI makes progress while somebody looks. Queues' threads look
 * at the same time, so the library must give MPI_THREAD_MULTIPLE (mpi_processes.c). A member that
 * gives up tells every process; a wait that sees that, or lasts longer than the timeout without a
 * sign of life, fails and lets all go.
 */
#include "common/comm/mpi/comm_mpi.h"

#include "common/base/clock.h"

#include <sched.h>
#include <stdio.h>

enum {
    LOOKS = 256,   /* between looks at what is rare */
    YIELDS = 20000 /* looks before sleeping between them */
};

static const uint64_t nap_ns = 20000;

void ls_comm_mpi_count(mpi_comm *comm, uint64_t messages, uint64_t bytes)
{
    atomic_fetch_add_explicit(&comm->messages_sent, messages, memory_order_relaxed);
    atomic_fetch_add_explicit(&comm->bytes_sent, bytes, memory_order_relaxed);
}

ls_status ls_comm_mpi_check(int error, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (error == MPI_SUCCESS)
        return LS_OK;
    MPI_Error_string(error, text, &length);
    return ls_fail(LS_CODE_MISSING, "MPI", call, "%s; is every rank still there?", text);
}

/* ---- Giving up, and waiting ----------------------------------------------------------------- */

ls_status ls_comm_mpi_fail(const mpi_comm *comm, const char *why)
{
    char rank[32];
    snprintf(rank, sizeof rank, "rank %d", comm->base.rank);
    return ls_fail(LS_CODE_MISSING, "communicator", rank, "%s", why);
}

ls_status ls_comm_mpi_abandoned(const mpi_comm *comm)
{
    char why[80];
    snprintf(why, sizeof why, "abandoned by rank %d; mend what that one says",
             atomic_load(&comm->group->abandoned) - 1);
    return ls_status_follows(ls_comm_mpi_fail(comm, why));
}

/* A member of this process, or (told by a message) of another one, gave up: who waits here looks.
 */
static void note_abandoned(mpi_group *group, int who)
{
    int none = 0;
    if (!atomic_compare_exchange_strong(&group->abandoned, &none, who))
        return;
    pthread_mutex_lock(&group->mutex);
    pthread_cond_broadcast(&group->changed);
    pthread_mutex_unlock(&group->mutex);
}

/* Sends the number that lies in `from`, which stays as it is, to every other process. */
static void tell_all(const mpi_group *group, const int *from)
{
    for (int p = 0; p < group->processes; p++) {
        MPI_Request request;
        if (p != group->process && MPI_Isend(from, 1, MPI_INT, p, ls_comm_mpi_control_tag(group),
                                             group->comm, &request) == MPI_SUCCESS)
            MPI_Request_free(&request);
    }
}

void ls_comm_mpi_abandon(ls_comm *base)
{
    mpi_group *group = ((mpi_comm *)base)->group;
    int none = 0;
    pthread_mutex_lock(&group->mutex);
    bool first = atomic_compare_exchange_strong(&group->abandoned, &none, base->rank + 1);
    if (first)
        group->control = base->rank + 1;
    pthread_cond_broadcast(&group->changed);
    pthread_mutex_unlock(&group->mutex);
    if (first)
        tell_all(group, &group->control);
}

/* Who gave up, or a sign of life (0): all that have come. */
static void read_control(mpi_group *group)
{
    for (int flag = 1; flag;) {
        MPI_Message message;
        int who;
        if (MPI_Improbe(MPI_ANY_SOURCE, ls_comm_mpi_control_tag(group), group->comm, &flag,
                        &message, MPI_STATUS_IGNORE) != MPI_SUCCESS ||
            !flag || MPI_Mrecv(&who, 1, MPI_INT, &message, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
        if (who)
            note_abandoned(group, who);
        else
            atomic_store(&group->world->alive_ns, ls_clock_ns());
    }
}

/* "a message of 8 bytes, rank 2": what is waited for, and from whom. */
static void describe_wait(const mpi_wait *wait, char text[128])
{
    char peer[32] = "any rank", bytes[48] = "";
    if (wait->peer >= 0)
        snprintf(peer, sizeof peer, "rank %d", wait->peer);
    if (wait->bytes)
        snprintf(bytes, sizeof bytes, " of %zu bytes", wait->bytes);
    snprintf(text, 128, "%s%s, %s", wait->what, bytes, peer);
}

/* Let go by another rank: it may be somebody else whom this one waited for. */
static ls_status fail_abandoned(const mpi_wait *wait)
{
    char what[128], why[256];
    describe_wait(wait, what);
    snprintf(why, sizeof why,
             "abandoned by rank %d while it waited for %s; mend what that one says",
             atomic_load(&wait->comm->group->abandoned) - 1, what);
    return ls_status_follows(ls_comm_mpi_fail(wait->comm, why));
}

/* All ranks are let go: this one will not come to what they wait for. */
static ls_status fail_late(const mpi_wait *wait, uint64_t waited_ns)
{
    char what[128], why[256];
    describe_wait(wait, what);
    ls_comm_mpi_abandon(&wait->comm->base);
    snprintf(why, sizeof why,
             "waited %.1f s for %s, and saw no progress; is that still running? --timeout gives it "
             "longer",
             (double)waited_ns * 1e-9, what);
    return ls_comm_mpi_fail(wait->comm, why);
}

ls_status ls_comm_mpi_pause(mpi_wait *wait)
{
    mpi_group *group = wait->comm->group;
    if (ls_comm_mpi_is_abandoned(group))
        return fail_abandoned(wait);
    if (++wait->looks % LOOKS == 0) {
        uint64_t now_ns = ls_clock_ns();
        uint64_t alive_ns = atomic_load(&group->world->alive_ns);
        uint64_t from_ns = alive_ns > wait->since_ns ? alive_ns : wait->since_ns;
        read_control(group);
        if (group->world != group)
            read_control(group->world);
        if (now_ns > from_ns && now_ns - from_ns > atomic_load(&group->world->timeout_ns))
            return fail_late(wait, now_ns - wait->since_ns);
    }
    if (wait->looks < YIELDS)
        sched_yield();
    else
        ls_clock_sleep(nap_ns);
    return LS_OK;
}
