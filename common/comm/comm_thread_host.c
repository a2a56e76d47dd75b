/* SPDX-License-Identifier: MIT */
/*
 * Host calls of the thread back end: messages are copied into one list of the group, behind its
 * mutex. A message over a link leaves when it is sent and is there when it has arrived; the sender
 * does not wait. For set-up and parameter servers; queues have operations (comm_thread.c).
 */
#include "common/comm/comm_thread.h"

#include "common/base/clock.h"
#include "common/device/link.h"

#include <stdlib.h>
#include <string.h>

ls_status ls_comm_thread_send(ls_comm *base, int to, int tag, const void *data, size_t bytes)
{
    thread_comm *comm = (thread_comm *)base;
    thread_group *group = comm->group;
    LS_TRY(ls_comm_check_rank(base, "message", to));
    if (ls_comm_thread_is_abandoned(comm))
        return ls_comm_thread_abandoned(comm);
    pthread_mutex_lock(&group->mutex);
    thread_message *message = ls_spares_take(&group->spares, sizeof *message + bytes);
    pthread_mutex_unlock(&group->mutex);
    if (!message)
        return ls_fail_memory("message", bytes);
    *message = (thread_message){.from = base->rank, .to = to, .tag = tag, .bytes = bytes};
    if (bytes)
        memcpy(message + 1, data, bytes);
    ls_comm_thread_count(comm, 1, bytes);
    pthread_mutex_lock(&group->mutex);
    /* Booked with the mutex held: messages to one rank arrive in the order of the list. */
    message->arrival_ns =
        ls_device_transfer(base->device, group->devices[to], bytes, ls_clock_ns());
    *group->messages_end = message;
    group->messages_end = &message->next;
    pthread_cond_broadcast(&group->changed);
    pthread_mutex_unlock(&group->mutex);
    return LS_OK;
}

/* The link to the first message of this tag to this rank, from `from` or (-1) from any; NULL: none.
 */
static thread_message **find_message(thread_comm *comm, int from, int tag)
{
    for (thread_message **at = &comm->group->messages; *at; at = &(*at)->next)
        if ((*at)->to == comm->base.rank && (*at)->tag == tag && (from < 0 || (*at)->from == from))
            return at;
    return NULL;
}

static void free_message(thread_comm *comm, thread_message *message)
{
    pthread_mutex_lock(&comm->group->mutex);
    ls_spares_give(&comm->group->spares, message, sizeof *message + message->bytes);
    pthread_mutex_unlock(&comm->group->mutex);
}

/* Waits for a message and takes it out of the list, for the caller to free. */
static ls_status take_message(thread_comm *comm, int from, int tag, thread_message **out)
{
    thread_group *group = comm->group;
    thread_message **at;
    pthread_mutex_lock(&group->mutex);
    while (!(at = find_message(comm, from, tag)) && !ls_comm_thread_is_abandoned(comm))
        pthread_cond_wait(&group->changed, &group->mutex);
    *out = NULL;
    if (at) {
        *out = *at;
        *at = (*out)->next;
        if (!*at)
            group->messages_end = at;
    }
    pthread_mutex_unlock(&group->mutex);
    if (at && (*out)->arrival_ns)
        ls_clock_sleep_until((*out)->arrival_ns);
    return at ? LS_OK : ls_comm_thread_abandoned(comm);
}

/* Receives from *from; where that is -1 from any rank, to which it is set. */
static ls_status receive(thread_comm *comm, int tag, void *data, size_t room, int *from,
                         size_t *bytes)
{
    thread_message *message;
    LS_TRY(take_message(comm, *from, tag, &message));
    ls_status status = ls_comm_check_room(message->from, message->bytes, room);
    if (!status && message->bytes)
        memcpy(data, message + 1, message->bytes);
    *from = message->from;
    *bytes = message->bytes;
    free_message(comm, message);
    return status;
}

ls_status ls_comm_thread_receive_any(ls_comm *base, int tag, void *data, size_t capacity, int *from,
                                     size_t *bytes)
{
    *from = -1;
    return receive((thread_comm *)base, tag, data, capacity, from, bytes);
}

ls_status ls_comm_thread_receive(ls_comm *base, int from, int tag, void *data, size_t bytes)
{
    size_t came;
    LS_TRY(ls_comm_check_rank(base, "message", from));
    LS_TRY(receive((thread_comm *)base, tag, data, bytes, &from, &came));
    return ls_comm_check_bytes(from, came, bytes);
}
