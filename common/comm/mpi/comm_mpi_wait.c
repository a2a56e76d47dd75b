/* SPDX-License-Identifier: MIT */
/*
 * Waiting in the MPI back end, and giving up. A wait polls its requests, first yielding the core in
 * between, later sleeping briefly: MPI progresses only while it is called. Several queues' threads
 * poll at once, so the library must provide MPI_THREAD_MULTIPLE (mpi_processes.c). A member that
 * gives up notifies every process, which makes their waits fail. A wait fails if it exceeds the
 * timeout without a sign of life, or if this process is asked to end. Then some process is lost:
 * all waits in all groups fail, and each process records what it waited for (mpi_autopsy.c).
 */
#include "common/comm/mpi/comm_mpi.h"

#include "common/base/clock.h"

#include <stdio.h>

enum {
    LOOKS = 256,    /* polls between checks of rare events */
    SLEEPS = 16,    /* sleeps between checks of rare events; on a busy machine a sleep takes
                       milliseconds, and a launcher that ended this process leaves it one second
                       to report */
    YIELDS = 20000, /* polls before sleeping in between; LOOKS for every 2 us that a yield took */
    VAIN_LOOKS = 8  /* checks that a timeout includes at least */
};

static const uint64_t nap_ns = 20000;

/* A wait that sleeps until a link's time checks rare events this often. */
static const uint64_t long_nap_ns = 5000000;

/* The part of launchers' last second in which healthy ranks finish their steps. It is longer if all
 * ranks are on this host, where each sees which ranks live. */
static const uint64_t ending_ns = 400000000, ending_here_ns = 800000000;

ls_status ls_comm_mpi_check(int error, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (error == MPI_SUCCESS)
        return LS_OK;
    MPI_Error_string(error, text, &length);
    return ls_fail(LS_CODE_MISSING, "MPI", call,
                   "this call failed (MPI reports '%s'); see the messages of all ranks and of "
                   "mpirun for the cause",
                   text);
}

/* ---- Giving up, and waiting ----------------------------------------------------------------- */

ls_status ls_comm_mpi_fail(const mpi_comm *comm, const char *why)
{
    char rank[32];
    snprintf(rank, sizeof rank, "rank %d", comm->base.rank);
    return ls_fail(LS_CODE_MISSING, "communicator", rank, "%s", why);
}

/* Names the member that gave up ("rank 2"), or the process that lost another. */
static void name_abandoner(const mpi_group *group, char name[32])
{
    int who = atomic_load(&group->abandoned);
    if (!who)
        who = atomic_load(&group->world->abandoned);
    snprintf(name, 32, "rank %d", who - 1);
}

ls_status ls_comm_mpi_abandoned(const mpi_comm *comm)
{
    char who[32], why[128];
    name_abandoner(comm->group, who);
    snprintf(why, sizeof why,
             "this rank was abandoned by %s; the message of that rank names the reason", who);
    return ls_status_follows(ls_comm_mpi_fail(comm, why));
}

/* Records that a member of this process, or (by a message) of another, gave up, so that waits here
 * fail. False: another gave up before. */
static bool note_abandoned(mpi_group *group, int who)
{
    int none = 0;
    return atomic_compare_exchange_strong(&group->abandoned, &none, who);
}

void ls_comm_mpi_tell_all(const mpi_group *group, const int *from)
{
    for (int p = 0; p < group->processes; p++) {
        MPI_Request request;
        if (p != group->process && MPI_Isend(from, 1, MPI_INT, p, ls_comm_mpi_control_tag(group),
                                             group->comm, &request) == MPI_SUCCESS)
            MPI_Request_free(&request);
    }
}

/* Notifies all that member `who` of this process gave up. In the world every process notifies, even
 * after another has: one that does not counts as silent (mpi_autopsy.c). */
static void abandon(mpi_group *group, int who)
{
    const bool first = note_abandoned(group, who + 1);
    if (group->world == group ? atomic_exchange(&group->life->gave_up[who], true) : !first)
        return;
    group->control = who + 1;
    ls_comm_mpi_tell_all(group, &group->control);
}

void ls_comm_mpi_abandon(ls_comm *base)
{
    abandon(((mpi_comm *)base)->group, base->rank);
}

/* Reads the pending messages: who gave up, a sign of life (0), or that this process was named. */
void ls_comm_mpi_read_control(mpi_group *group)
{
    for (int flag = 1; flag;) {
        MPI_Message message;
        MPI_Status from;
        int who;
        if (MPI_Improbe(MPI_ANY_SOURCE, ls_comm_mpi_control_tag(group), group->comm, &flag,
                        &message, &from) != MPI_SUCCESS ||
            !flag || MPI_Mrecv(&who, 1, MPI_INT, &message, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
        const uint64_t now_ns = ls_clock_ns();
        ls_comm_mpi_heard(group, from.MPI_SOURCE, now_ns);
        if (who == LS_COMM_MPI_NAMED) {
            atomic_store(&group->life->said, true);
        } else if (who) {
            note_abandoned(group, who);
            if (group->world == group)
                atomic_store(&group->life->gave_up[from.MPI_SOURCE], true);
        } else {
            atomic_store(&group->life->alive_ns, now_ns);
        }
    }
}

/* Names the step (", step 37"): the operation's if known, otherwise the last enqueued steps. */
static void name_step(const mpi_wait *wait, char text[64])
{
    const mpi_life *life = wait->comm->group->life;
    const unsigned long long first = atomic_load(&life->step), steps = atomic_load(&life->steps);
    *text = 0;
    if (!steps)
        return;
    if (!wait->turns)
        snprintf(text, 64, ", after step %llu", first + steps - 1);
    else if (atomic_load(&life->alike) && wait->turns->runs < steps)
        snprintf(text, 64, ", step %llu", first + wait->turns->runs);
    else
        snprintf(text, 64, ", one of steps %llu to %llu", first, first + steps - 1);
}

void ls_comm_mpi_describe(const mpi_wait *wait, char text[192])
{
    const mpi_group *group = wait->comm->group;
    char peer[64] = "any rank", bytes[48] = "", step[64];
    if (wait->peer >= 0) {
        const mpi_member *member = &group->members[wait->peer];
        if (group->size == group->processes)
            snprintf(peer, sizeof peer, "rank %d", member->process);
        else
            snprintf(peer, sizeof peer, "rank %d (its device %d)", member->process, member->local);
    }
    if (wait->bytes)
        snprintf(bytes, sizeof bytes, " of %zu bytes", wait->bytes);
    name_step(wait, step);
    snprintf(text, 192, "%s%s, %s%s", wait->what, bytes, peer, step);
}

/* Whether the wait is for a member of this process, which itself waits for another member. */
static bool is_local(const mpi_wait *wait)
{
    const mpi_group *group = wait->comm->group;
    return wait->peer >= 0 && group->members[wait->peer].process == group->process;
}

/* Records what this process waited for when processes lost each other: its part of the autopsy. The
 * other processes are notified first. */
static void note_wait(const mpi_wait *wait, const char *what)
{
    mpi_group *world = wait->comm->group->world;
    ls_comm_mpi_read_control(world);
    if (!atomic_load(&world->abandoned) || is_local(wait))
        return;
    pthread_mutex_lock(&world->mutex);
    if (!*world->life->waited)
        snprintf(world->life->waited, sizeof world->life->waited, "waited %.1f s for %s",
                 (double)(ls_clock_ns() - wait->since_ns) * 1e-9, what);
    pthread_mutex_unlock(&world->mutex);
    abandon(world, world->process);
}

/* Fails because another rank gave up, not necessarily the one that this wait was for. */
static ls_status fail_abandoned(const mpi_wait *wait)
{
    char what[192], who[32], why[320];
    ls_comm_mpi_describe(wait, what);
    note_wait(wait, what);
    name_abandoner(wait->comm->group, who);
    snprintf(why, sizeof why,
             "this rank was abandoned by %s while it waited for %s; the message of that rank names "
             "the reason",
             who, what);
    return ls_status_follows(ls_comm_mpi_fail(wait->comm, why));
}

/* Some process is lost, and the job with it: gives up in every group. */
static ls_status fail_late(const mpi_wait *wait, uint64_t waited_ns)
{
    mpi_group *group = wait->comm->group;
    char what[192], why[320];
    ls_comm_mpi_describe(wait, what);
    if (group->world != group)
        abandon(group->world, group->world->process);
    ls_comm_mpi_abandon(&wait->comm->base);
    note_wait(wait, what);
    snprintf(
        why, sizeof why,
        "waited %.1f s for %s, and saw no progress; check that the other ranks still run, or raise "
        "--timeout",
        (double)waited_ns * 1e-9, what);
    return ls_comm_mpi_fail(wait->comm, why);
}

/* A process of this host that is known to be dead or stopped; -1 if there is none. */
static int find_dead(const mpi_group *world)
{
    for (int p = 0; p < world->processes; p++)
        if (p != world->process && ls_comm_mpi_fate(world, p))
            return p;
    return -1;
}

uint64_t ls_comm_mpi_ending_ns(const mpi_group *world)
{
    const int *hosts = world->life->hosts;
    bool one_host = hosts != NULL;
    for (int p = 1; p < world->processes && one_host; p++)
        one_host = hosts[p] == hosts[0];
    return one_host ? ending_here_ns : ending_ns;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/*
 * This process was asked to end while it waits. Launchers ask all remaining processes as soon as
 * one is lost, and kill them a second later, so this one reports now what it waits for. If no
 * process is known to be lost, healthy ranks get time to finish their steps, as after an interrupt.
 */
static ls_status fail_ended(const mpi_wait *wait, uint64_t now_ns)
{
    mpi_group *world = wait->comm->group->world;
    mpi_life *life = world->life;
    uint64_t asked_ns = 0;
    char what[192], line[512], dead[160] = "";
    if (atomic_compare_exchange_strong(&life->asked_ns, &asked_ns, now_ns))
        asked_ns = now_ns;
    const int lost = find_dead(world);
    const uint64_t from_ns = later(asked_ns, later(wait->since_ns, atomic_load(&life->alive_ns)));
    if (lost < 0 && now_ns < from_ns + ls_comm_mpi_ending_ns(world))
        return LS_OK;
    ls_comm_mpi_describe(wait, what);
    if (lost >= 0)
        snprintf(dead, sizeof dead, "; rank %d on %.64s (pid %d) %s", lost, life->peers[lost].host,
                 life->peers[lost].pid, ls_comm_mpi_fate(world, lost));
    snprintf(line, sizeof line,
             "this rank was asked to end after it had waited %.1f s for %s%s; see the first rank's "
             "message",
             (double)(now_ns - wait->since_ns) * 1e-9, what, dead);
    note_abandoned(world, world->process + 1); /* the others are asked to end, too */
    note_abandoned(wait->comm->group, wait->comm->base.rank + 1);
    ls_comm_mpi_last_words(world, line);
    return ls_comm_mpi_fail(wait->comm, line);
}

/*
 * How long this wait has lasted without a sign of life. Between two checks at most a part of the
 * timeout counts: while this process was stopped, or had no core, it could not receive signs of
 * life, and must first read what the others sent.
 */
static uint64_t count_vain(mpi_wait *wait, uint64_t now_ns, uint64_t timeout_ns)
{
    const uint64_t alive_ns = atomic_load(&wait->comm->group->life->alive_ns);
    const uint64_t from_ns = later(wait->since_ns, alive_ns), most_ns = timeout_ns / VAIN_LOOKS;
    if (from_ns >= wait->looked_ns)
        wait->vain_ns = 0;
    const uint64_t since_ns = later(from_ns, wait->looked_ns);
    const uint64_t passed_ns = now_ns > since_ns ? now_ns - since_ns : 0;
    wait->vain_ns += passed_ns < most_ns ? passed_ns : most_ns;
    wait->looked_ns = now_ns;
    return wait->vain_ns;
}

/* Checks rare events: signs of life, the end of this process, the timeout. */
static ls_status look_up(mpi_wait *wait)
{
    mpi_group *group = wait->comm->group;
    mpi_life *life = group->life;
    uint64_t timeout_ns = atomic_load(&life->timeout_ns);
    if (is_local(wait)) /* the other member's wait is reported first */
        timeout_ns += timeout_ns / 4;
    ls_comm_mpi_read_control(group);
    if (group->world != group)
        ls_comm_mpi_read_control(group->world);
    const uint64_t now_ns = ls_clock_ns();
    if (ls_comm_mpi_is_abandoned(group)) /* by another member, which reports why */
        return fail_abandoned(wait);
    if (life->ending && life->ending() && !is_local(wait))
        LS_TRY(fail_ended(wait, now_ns));
    if (count_vain(wait, now_ns, timeout_ns) >= timeout_ns)
        return fail_late(wait, now_ns - wait->since_ns);
    return LS_OK;
}

ls_status ls_comm_mpi_pause(mpi_wait *wait)
{
    if (ls_comm_mpi_is_abandoned(wait->comm->group)) {
        ls_comm_mpi_end_wait(wait->comm->group);
        return fail_abandoned(wait);
    }
    const bool awake = ++wait->looks < YIELDS;
    if (wait->looks == 1 && !is_local(wait))
        ls_comm_mpi_begin_wait(wait);
    ls_status status = wait->looks % (awake ? LOOKS : SLEEPS) == 0 ? look_up(wait) : LS_OK;
    if (status)
        ls_comm_mpi_end_wait(wait->comm->group);
    else if (!awake)
        ls_clock_sleep(nap_ns);
    else
        wait->looks += ls_clock_yield() / LS_CLOCK_SWITCH_NS * LOOKS;
    return status;
}

ls_status ls_comm_mpi_pause_until(mpi_wait *wait, uint64_t until_ns)
{
    const uint64_t now_ns = until_ns ? ls_clock_ns() : 0;
    if (until_ns <= now_ns)
        return ls_comm_mpi_pause(wait);
    ls_clock_sleep_until(until_ns - now_ns < long_nap_ns ? until_ns : now_ns + long_nap_ns);
    wait->since_ns = later(wait->since_ns, until_ns);
    ls_status status = look_up(wait);
    if (status)
        ls_comm_mpi_end_wait(wait->comm->group);
    return status;
}
