/* SPDX-License-Identifier: MIT */
/*
 * Signs of life: a thread that looks, some times a timeout, whether this process has gone on, and
 * tells all others if so. Working threads send none themselves, so a long step, the opening of a
 * judge, or any other long work need not think of it. A process that waits, hangs or is stopped
 * does not go on, and is silent. The thread also takes in what the others say, which would pile up
 * where this process never has to wait.
 */
#include "common/comm/mpi/comm_mpi.h"
#include "common/comm/processes.h"

#include "common/base/clock.h"

enum { BEATS = 16 }; /* a timeout */

static const uint64_t least_ns = 1000000;

/* With the mutex held: until it is time for a look, or to end. */
static void sleep_between(mpi_life *life)
{
    const uint64_t every_ns = atomic_load(&life->timeout_ns) / BEATS + least_ns;
    const struct timespec until = ls_clock_timespec(ls_clock_ns() + every_ns);
    pthread_cond_clockwait(&life->pulse_changed, &life->pulse_mutex, CLOCK_MONOTONIC, &until);
}

static void *pulse_thread(void *argument)
{
    mpi_group *world = argument;
    mpi_life *life = world->life;
    pthread_mutex_lock(&life->pulse_mutex);
    while (life->moved) {
        sleep_between(life);
        const bool moved = life->moved && life->moved(life->moved_context);
        pthread_mutex_unlock(&life->pulse_mutex); /* nobody waits for what MPI may hold */
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
                   "which tells other ranks that this one lives could not be started; is there a "
                   "limit?");
}

/* Processes that have lost each other do not wait for a thread that MPI may hold. */
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
