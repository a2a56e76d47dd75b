/* SPDX-License-Identifier: MIT */
/*
 * A process that was asked to end while a call of MPI blocks it: Open MPI reports a broken
 * connection through its launcher, which does not answer while it ends the job. So a thread that
 * does not call MPI reports what this process waits for, unless a waiting thread has done so.
 */
#include "common/comm/mpi/comm_mpi.h"

#include "common/base/clock.h"

#include <stdio.h>

/* Longer than waiting threads take to report themselves. */
static const uint64_t held_ns = 100000000, look_ns = 50000000;

void ls_comm_mpi_begin_wait(const mpi_wait *wait)
{
    mpi_group *world = wait->comm->group->world;
    pthread_mutex_lock(&world->mutex);
    world->life->wait = *wait;
    world->life->waiter = pthread_self();
    world->life->waits = true;
    pthread_mutex_unlock(&world->mutex);
}

void ls_comm_mpi_end_wait(const mpi_group *group)
{
    mpi_group *world = group->world;
    pthread_mutex_lock(&world->mutex);
    if (pthread_equal(world->life->waiter, pthread_self()))
        world->life->waits = false;
    pthread_mutex_unlock(&world->mutex);
}

/* Words the wait that this process gave up, or a wait that began before it was asked to end. False:
 * none. The mutex must be held. */
static bool word_wait(mpi_life *life, uint64_t asked_ns, char line[512])
{
    char what[192];
    if (*life->waited) {
        snprintf(line, 512, "%s", life->waited);
        return true;
    }
    if (!life->waits || life->wait.since_ns > asked_ns)
        return false;
    ls_comm_mpi_describe(&life->wait, what);
    snprintf(line, 512,
             "this rank was asked to end after it had waited %.1f s for %s; see the first rank's "
             "message",
             (double)(ls_clock_ns() - life->wait.since_ns) * 1e-9, what);
    return true;
}

static void *watch_thread(void *argument)
{
    mpi_group *world = argument;
    mpi_life *life = world->life;
    uint64_t asked_ns = 0;
    char line[512];
    pthread_mutex_lock(&world->mutex);
    while (!life->watch_ends) {
        const struct timespec until = ls_clock_timespec(ls_clock_ns() + look_ns);
        pthread_cond_clockwait(&life->watch_changed, &world->mutex, CLOCK_MONOTONIC, &until);
        if (!asked_ns && life->ending())
            asked_ns = ls_clock_ns();
        if (asked_ns && ls_clock_ns() - asked_ns > ls_comm_mpi_ending_ns(world) + held_ns &&
            word_wait(life, asked_ns, line))
            ls_comm_mpi_last_words(world, line);
    }
    pthread_mutex_unlock(&world->mutex);
    return NULL;
}

void ls_comm_mpi_watch(mpi_group *world)
{
    mpi_life *life = world->life;
    if (life->watched || !life->ending)
        return;
    life->watch_ends = false;
    pthread_cond_init(&life->watch_changed, NULL);
    life->watched = pthread_create(&life->watcher, NULL, watch_thread, world) == 0;
    if (!life->watched) /* a waiting thread reports, unless MPI blocks it */
        pthread_cond_destroy(&life->watch_changed);
}

void ls_comm_mpi_end_watch(mpi_group *world)
{
    mpi_life *life = world->life;
    if (!life->watched)
        return;
    pthread_mutex_lock(&world->mutex);
    life->watch_ends = true;
    pthread_cond_signal(&life->watch_changed);
    pthread_mutex_unlock(&world->mutex);
    pthread_join(life->watcher, NULL);
    pthread_cond_destroy(&life->watch_changed);
    life->watched = false;
}
