/* SPDX-License-Identifier: MIT */
/*
 * Messages of the MPI back end's host calls. A message is a header, then its bytes. Whoever waits
 * for a message moves all that MPI has received for this process into one list of the group, where
 * its members look. So a sender can take what comes to it while it waits, and senders in a ring
 * end. For set-up and parameter servers; queues have operations (comm_mpi.c). Over a link (link.h)
 * a message leaves at once and says when it will have arrived: by the clock that processes of a
 * host share, or by a delay after it was received. The sender does not wait.
 */
#include "common/comm/mpi/comm_mpi.h"

#include "common/base/clock.h"
#include "common/device/link.h"

#include <stdlib.h>
#include <string.h>

enum { BODY_MOST = 1 << 30 };

/* ---- Messages ------------------------------------------------------------------------------- */

/* `from`: a member, or -1. */
static mpi_wait begin_wait(mpi_comm *comm, const char *what, int from, size_t bytes)
{
    return (mpi_wait){
        .comm = comm, .what = what, .peer = from, .bytes = bytes, .since_ns = ls_clock_ns()};
}

/* When a message over a link will have arrived: the port in, too, is booked for it, in the order in
 * which messages are taken in. */
static void book_arrival(const mpi_group *group, mpi_header *h)
{
    const ls_device *device = group->devices[group->places[h->to].local];
    const int *hosts = group->life->hosts;
    const bool here = hosts && hosts[group->places[h->from].process] == hosts[group->process];
    const uint64_t end_ns = here ? h->arrival_ns : ls_clock_ns() + h->after_ns;
    h->arrival_ns =
        ls_device_receive(device, h->bytes, end_ns - ls_device_transfer_ns(device, h->bytes));
}

/* Room for a message of so many bytes; NULL: there is no memory. */
static mpi_message *make_message(mpi_group *group, size_t bytes)
{
    pthread_mutex_lock(&group->mutex);
    mpi_message *message = ls_spares_take(&group->spares, sizeof *message + bytes);
    pthread_mutex_unlock(&group->mutex);
    return message;
}

static void free_message(mpi_group *group, mpi_message *message)
{
    pthread_mutex_lock(&group->mutex);
    ls_spares_give(&group->spares, message, sizeof *message + message->header.bytes);
    pthread_mutex_unlock(&group->mutex);
}

static void keep_message(mpi_group *group, mpi_message *message)
{
    if (message->header.arrival_ns)
        book_arrival(group, &message->header);
    message->next = NULL;
    pthread_mutex_lock(&group->mutex);
    *group->messages_end = message;
    group->messages_end = &message->next;
    pthread_mutex_unlock(&group->mutex);
}

/* Gives up a message that is being received: its memory may still be written, so it is not freed
 * then. */
static void drop_body(mpi_group *group, mpi_message *message, MPI_Request *request)
{
    int flag = *request == MPI_REQUEST_NULL;
    if (!flag)
        MPI_Cancel(request);
    if (flag || (MPI_Test(request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && flag))
        free_message(group, message);
    else
        MPI_Request_free(request);
}

/* The bytes of a message whose header came from this process: whoever sent that may stop before it
 * sends them, so they are waited for like any other. */
static ls_status take_body(mpi_comm *comm, mpi_message *message, int process)
{
    mpi_group *group = comm->group;
    const size_t bytes = message->header.bytes;
    mpi_wait wait = begin_wait(comm, "the rest of a message", message->header.from, bytes);
    ls_status status = LS_OK;
    wait.looks = 1; /* the watcher goes on knowing the wait within which this one is */
    for (size_t done = 0; done < bytes && !status; done += BODY_MOST) {
        const size_t left = bytes - done;
        MPI_Request request;
        int flag = 0;
        status = ls_comm_mpi_check(
            MPI_Irecv((char *)(message + 1) + done, left < BODY_MOST ? (int)left : BODY_MOST,
                      MPI_BYTE, process, ls_comm_mpi_host_tag(group), group->comm, &request),
            "MPI_Irecv");
        if (status)
            free_message(group, message);
        while (!status && !flag) {
            status = ls_comm_mpi_check(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), "MPI_Irecv");
            if (!status && !flag)
                status = ls_comm_mpi_pause(&wait);
            if (status)
                drop_body(group, message, &request);
        }
    }
    return status;
}

/* Takes a message that the probe has found; its bytes follow from the same process. */
static ls_status take_in(mpi_comm *comm, MPI_Message *found, int process)
{
    mpi_group *group = comm->group;
    mpi_header header;
    LS_TRY(ls_comm_mpi_check(
        MPI_Mrecv(&header, (int)sizeof header, MPI_BYTE, found, MPI_STATUS_IGNORE), "MPI_Mrecv"));
    ls_comm_mpi_heard(group, process, ls_clock_ns());
    mpi_message *message = make_message(group, header.bytes);
    ls_status status = LS_OK;
    if (message) {
        message->header = header;
        status = take_body(comm, message, process);
    } else {
        status = ls_fail_memory("message", header.bytes);
    }
    if (status) /* what comes next would be taken for a header */
        ls_comm_mpi_abandon(&comm->base);
    else
        keep_message(group, message);
    return status;
}

/* All messages that have come to this process go into its list. One thread at a time: a header's
 * bytes are the next message from there. */
static ls_status pull(mpi_comm *comm)
{
    mpi_group *group = comm->group;
    ls_status status = LS_OK;
    if (pthread_mutex_trylock(&group->pulling))
        return LS_OK;
    for (int flag = 1; flag && !status;) {
        MPI_Message found;
        MPI_Status from;
        status = ls_comm_mpi_check(MPI_Improbe(MPI_ANY_SOURCE, ls_comm_mpi_host_tag(group),
                                               group->comm, &flag, &found, &from),
                                   "MPI_Improbe");
        if (!status && flag)
            status = take_in(comm, &found, from.MPI_SOURCE);
    }
    pthread_mutex_unlock(&group->pulling);
    return status;
}

/* Puts header and bytes on their way; `requests` has room for 1 + the parts of the body. */
static ls_status post_message(mpi_group *group, int process, const mpi_header *header,
                              const void *data, MPI_Request *requests, int *count)
{
    const int tag = ls_comm_mpi_host_tag(group);
    const char *from = (const char *)header;
    size_t left = sizeof *header + header->bytes;
    ls_status status = LS_OK;
    pthread_mutex_lock(&group->sending);
    while (left && !status) {
        const size_t part = *count == 0 ? sizeof *header : left < BODY_MOST ? left : BODY_MOST;
        status = ls_comm_mpi_check(
            MPI_Isend(from, (int)part, MPI_BYTE, process, tag, group->comm, &requests[*count]),
            "MPI_Isend");
        from = *count == 0 ? data : from + part;
        left -= part;
        *count += !status; /* what was refused is no request */
    }
    pthread_mutex_unlock(&group->sending);
    return status;
}

/* Sends to another process, and waits until the memory may be used again. */
static ls_status send_to(mpi_comm *comm, const mpi_header *header, const void *data)
{
    mpi_group *group = comm->group;
    const int process = group->places[header->to].process;
    mpi_wait wait = begin_wait(comm, "a message to be taken", header->to, header->bytes);
    size_t parts = 2 + header->bytes / BODY_MOST;
    MPI_Request few[4], *all = parts > 4 ? malloc(parts * sizeof *all) : NULL;
    MPI_Request *requests = all ? all : few;
    int count = 0, flag = 0;
    if (parts > 4 && !all)
        return ls_fail_memory("message", parts * sizeof *requests);
    ls_status status = post_message(group, process, header, data, requests, &count);
    if (status && count) /* what comes next would be taken for the rest */
        ls_comm_mpi_abandon(&comm->base);
    while (!status && !flag) {
        status = ls_comm_mpi_check(MPI_Testall(count, requests, &flag, MPI_STATUSES_IGNORE),
                                   "MPI_Isend");
        if (!status && !flag)
            status = pull(comm);
        if (!status && !flag)
            status = ls_comm_mpi_pause(&wait);
    }
    ls_comm_mpi_end_wait(group);
    for (int i = 0; status && i < count; i++)
        if (requests[i] != MPI_REQUEST_NULL)
            MPI_Request_free(&requests[i]);
    free(all);
    return status;
}

ls_status ls_comm_mpi_send(ls_comm *base, int to, int tag, const void *data, size_t bytes)
{
    mpi_comm *comm = (mpi_comm *)base;
    mpi_group *group = comm->group;
    mpi_header header = {.from = base->rank, .to = to, .tag = tag, .bytes = bytes};
    LS_TRY(ls_comm_check_rank(base, "message", to));
    if (ls_comm_mpi_is_abandoned(group))
        return ls_comm_mpi_abandoned(comm);
    if (base->linked && to != base->rank) {
        const uint64_t now_ns = ls_clock_ns();
        header.arrival_ns = ls_device_send(base->device, bytes, now_ns);
        header.after_ns = header.arrival_ns - now_ns;
    }
    ls_comm_mpi_count(comm, 1, bytes);
    if (group->places[to].process != group->process)
        return send_to(comm, &header, data);
    mpi_message *message = make_message(group, bytes);
    if (!message)
        return ls_fail_memory("message", bytes);
    message->header = header;
    if (bytes)
        memcpy(message + 1, data, bytes);
    keep_message(group, message);
    return LS_OK;
}

/* With the mutex held: the link to the first message for `to`, of this tag, from `from` or (-1)
 * from any; NULL: none. */
static mpi_message **find_message(mpi_group *group, int to, int from, int tag)
{
    for (mpi_message **at = &group->messages; *at; at = &(*at)->next) {
        const mpi_header *h = &(*at)->header;
        if (h->to == to && h->tag == tag && (from < 0 || h->from == from))
            return at;
    }
    return NULL;
}

/* Takes such a message out of the list, for the caller to free; NULL: there is none. */
static mpi_message *take_out(mpi_group *group, int to, int from, int tag)
{
    pthread_mutex_lock(&group->mutex);
    mpi_message **at = find_message(group, to, from, tag), *message = at ? *at : NULL;
    if (at) {
        *at = message->next;
        if (!*at)
            group->messages_end = at;
    }
    pthread_mutex_unlock(&group->mutex);
    return message;
}

static ls_status await_message(mpi_wait *wait, const mpi_header *wanted, mpi_message **out)
{
    mpi_comm *comm = wait->comm;
    while (!(*out = take_out(comm->group, wanted->to, wanted->from, wanted->tag))) {
        LS_TRY(pull(comm));
        if ((*out = take_out(comm->group, wanted->to, wanted->from, wanted->tag)))
            break;
        LS_TRY(ls_comm_mpi_pause(wait));
    }
    return LS_OK;
}

static ls_status take_message(mpi_comm *comm, const mpi_header *wanted, mpi_message **out)
{
    mpi_wait wait = begin_wait(comm, "a message", wanted->from, wanted->bytes);
    ls_status status = await_message(&wait, wanted, out);
    ls_comm_mpi_end_wait(comm->group); /* however it ended: the watcher speaks of waits that last */
    if (!status && (*out)->header.arrival_ns)
        ls_clock_sleep_until((*out)->header.arrival_ns);
    return status;
}

/* Receives from *from, or where that is -1 from any rank, to which it is set; *bytes is set to the
 * number that came. */
static ls_status receive(mpi_comm *comm, int tag, void *data, size_t room, int *from, size_t *bytes)
{
    const mpi_header wanted = {.from = *from, .to = comm->base.rank, .tag = tag, .bytes = *bytes};
    mpi_message *message;
    LS_TRY(take_message(comm, &wanted, &message));
    const mpi_header came = message->header;
    ls_status status = ls_comm_check_room(came.from, came.bytes, room);
    if (!status && came.bytes)
        memcpy(data, message + 1, came.bytes);
    *from = came.from;
    *bytes = came.bytes;
    free_message(comm->group, message);
    return status;
}

ls_status ls_comm_mpi_receive_any(ls_comm *base, int tag, void *data, size_t capacity, int *from,
                                  size_t *bytes)
{
    *from = -1;
    *bytes = 0;
    return receive((mpi_comm *)base, tag, data, capacity, from, bytes);
}

ls_status ls_comm_mpi_receive(ls_comm *base, int from, int tag, void *data, size_t bytes)
{
    size_t came = bytes;
    LS_TRY(ls_comm_check_rank(base, "message", from));
    LS_TRY(receive((mpi_comm *)base, tag, data, bytes, &from, &came));
    return ls_comm_check_bytes(from, came, bytes);
}
