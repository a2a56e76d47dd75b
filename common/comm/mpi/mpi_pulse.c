/* SPDX-License-Identifier: MIT */
/*
 * Signs of life (heartbeat): several times per timeout a thread checks whether this process made
 * progress, and if so notifies all others. Working threads send none themselves, so long steps, the
 * opening of a judge and other long work need no extra code. A process that waits, hangs or is
 * stopped makes no progress, and is silent. The thread also receives the others' messages, which
 * would pile up if this process never waits.
 */
#include "common/comm/mpi/comm_mpi.h"
#include "common/comm/processes.h"

#include "common/base/clock.h"

enum { BEATS = 16 }; /* per timeout */

static const uint64_t least_ns = 1000000;

static void *pulse_thread(void *argument)
{
    mpi_group *world = argument;
    mpi_life *life = world->life;
    pthread_mutex_lock(&life->pulse_mutex);
    while (life->moved) {
        /* until the next check, or the end */
        const uint64_t every_ns = atomic_load(&life->timeout_ns) / BEATS + least_ns;
        const struct timespec until = ls_clock_timespec(ls_clock_ns() + every_ns);
        pthread_cond_clockwait(&life->pulse_changed, &life->pulse_mutex, CLOCK_MONOTONIC, &until);
        const bool moved = life->moved && life->moved(life->moved_context);
        pthread_mutex_unlock(&life->pulse_mutex); /* MPI may block: the mutex must be free */
        if (!ls_comm_mpi_is_abandoned(world)) {
            ls_comm_mpi_read_control(world);
            if (moved)
                ls_comm_mpi_tell_all(world, &life->beat);
        }
        pthread_mutex_lock(&life->pulse_mutex);
    }
    pthread_mutex_unlock(&life->pulse_mutex);
    return NULL;
}

static ls_status begin(mpi_group *world, bool (*moved)(void *context), void *context)
{
    mpi_life *life = world->life;
    life->moved_context = context;
    life->moved = moved;
    if (pthread_create(&life->pulse, NULL, pulse_thread, world) == 0)
        return LS_OK;
    life->moved = NULL;
    return ls_fail(LS_CODE_MISSING, "MPI", "thread",
                   "the thread that sends heartbeats to other ranks could not be started; raise "
                   "the limit on threads (ulimit -u)");
}

/* Processes that have lost each other do not wait for this thread, which MPI may block. */
static void end(mpi_group *world)
{
    mpi_life *life = world->life;
    pthread_mutex_lock(&life->pulse_mutex);
    const bool began = life->moved != NULL;
    life->moved = NULL;
    pthread_cond_signal(&life->pulse_changed);
    pthread_mutex_unlock(&life->pulse_mutex);
    if (!began)
        return;
    if (ls_comm_mpi_is_abandoned(world))
        pthread_detach(life->pulse);
    else
        pthread_join(life->pulse, NULL);
}

ls_status ls_processes_pulse(const ls_processes *processes, bool (*moved)(void *context),
                             void *context)
{
    mpi_group *world = processes->comm ? ((mpi_comm *)processes->comm)->group : NULL;
    if (!world)
        return LS_OK;
    end(world);
    return moved ? begin(world, moved, context) : LS_OK;
}
