/* SPDX-License-Identifier: MIT */
/*
 * Host calls of the MPI back end. A message is a header, then its bytes. A thread that waits for a
 * message moves whatever MPI has received for this process into the group's mailbox, which its
 * members read. A sender does this too while it waits, so a ring of senders does not deadlock. For
 * set-up and parameter servers; queues use operations (comm_mpi.c). Over a link (link.h) a message
 * departs at once and carries its arrival time: by the clock that processes of a host share,
 * otherwise as a delay after reception. The sender does not wait.
 */
#include "common/comm/mpi/comm_mpi.h"

#include "common/base/clock.h"
#include "common/device/link.h"

#include <stdlib.h>
#include <string.h>

enum { BODY_MOST = 1 << 30 };

/* ---- Messages ------------------------------------------------------------------------------- */

/* `from`: a member, or -1 for any. */
static mpi_wait begin_wait(mpi_comm *comm, const char *what, int from, size_t bytes)
{
    return (mpi_wait){
        .comm = comm, .what = what, .peer = from, .bytes = bytes, .since_ns = ls_clock_ns()};
}

/* Sets when a message over a link will have arrived. The receiver's port is booked too, in the
 * order in which messages are received. */
static void book_arrival(const mpi_group *group, ls_mail_header *h)
{
    const ls_device *device = group->devices[group->members[h->to].local];
    const int *hosts = group->life->hosts;
    const bool same_host = hosts && hosts[group->members[h->from].process] == hosts[group->process];
    const uint64_t end_ns = same_host ? h->arrival_ns : ls_clock_ns() + h->after_ns;
    h->arrival_ns =
        ls_device_receive(device, h->bytes, end_ns - ls_device_transfer_ns(device, h->bytes));
}

static void keep_message(mpi_group *group, ls_mail *message)
{
    if (message->header.arrival_ns)
        book_arrival(group, &message->header);
    ls_mail_put(&group->mail, message);
}

/* Abandons a message that is being received. Its memory may still be written, in which case it is
 * not freed. */
static void drop_body(mpi_group *group, ls_mail *message, MPI_Request *request)
{
    int flag = *request == MPI_REQUEST_NULL;
    if (!flag)
        MPI_Cancel(request);
    if (flag || (MPI_Test(request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && flag))
        ls_mail_free(&group->mail, message);
    else
        MPI_Request_free(request);
}

/* Receives the bytes of a message whose header came from this process. The sender may stop before
 * sending them, so this waits as for any other message. */
static ls_status take_body(mpi_comm *comm, ls_mail *message, int process)
{
    mpi_group *group = comm->group;
    const size_t bytes = message->header.bytes;
    mpi_wait wait = begin_wait(comm, "the rest of a message", message->header.from, bytes);
    ls_status status = LS_OK;
    wait.looks = 1; /* the watcher keeps reporting the enclosing wait */
    for (size_t done = 0; done < bytes && !status; done += BODY_MOST) {
        const size_t left = bytes - done;
        MPI_Request request;
        int flag = 0;
        status = ls_comm_mpi_check(
            MPI_Irecv((char *)(message + 1) + done, left < BODY_MOST ? (int)left : BODY_MOST,
                      MPI_BYTE, process, ls_comm_mpi_host_tag(group), group->comm, &request),
            "MPI_Irecv");
        if (status)
            ls_mail_free(&group->mail, message);
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

/* Receives a message that the probe has found; its bytes follow from the same process. */
static ls_status take_in(mpi_comm *comm, MPI_Message *found, int process)
{
    mpi_group *group = comm->group;
    ls_mail_header header;
    LS_TRY(ls_comm_mpi_check(
        MPI_Mrecv(&header, (int)sizeof header, MPI_BYTE, found, MPI_STATUS_IGNORE), "MPI_Mrecv"));
    ls_comm_mpi_heard(group, process, ls_clock_ns());
    ls_mail *message = ls_mail_make(&group->mail, &header);
    ls_status status = LS_OK;
    if (message) {
        status = take_body(comm, message, process);
    } else {
        status = ls_fail_memory("message", header.bytes);
    }
    if (status) /* the next message would be read as a header */
        ls_comm_mpi_abandon(&comm->base);
    else
        keep_message(group, message);
    return status;
}

/* Moves all messages that have reached this process into its list. One thread at a time, since a
 * header's bytes are the next message from its process. */
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

/* Starts to send header and bytes; `requests` has room for 1 + the parts of the body. */
static ls_status post_message(mpi_group *group, int process, const ls_mail_header *header,
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
        *count += !status; /* a refused send has no request */
    }
    pthread_mutex_unlock(&group->sending);
    return status;
}

/* Sends to another process, and waits until the memory may be reused. */
static ls_status send_to(mpi_comm *comm, const ls_mail_header *header, const void *data)
{
    mpi_group *group = comm->group;
    const int process = group->members[header->to].process;
    mpi_wait wait = begin_wait(comm, "a message to be taken", header->to, header->bytes);
    size_t parts = 2 + header->bytes / BODY_MOST;
    MPI_Request few[4], *all = parts > 4 ? malloc(parts * sizeof *all) : NULL;
    MPI_Request *requests = all ? all : few;
    int count = 0, flag = 0;
    if (parts > 4 && !all)
        return ls_fail_memory("message", parts * sizeof *requests);
    ls_status status = post_message(group, process, header, data, requests, &count);
    if (status && count) /* the next message would be read as the rest */
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
    ls_mail_header header = {.from = base->rank, .to = to, .tag = tag, .bytes = bytes};
    LS_TRY(ls_comm_check_rank(base, "message", to));
    if (ls_comm_mpi_is_abandoned(group))
        return ls_comm_mpi_abandoned(comm);
    if (base->linked && to != base->rank) {
        const uint64_t now_ns = ls_clock_ns();
        header.arrival_ns = ls_device_send(base->device, bytes, now_ns);
        header.after_ns = header.arrival_ns - now_ns;
    }
    ls_comm_sent(base, 1, bytes);
    if (group->members[to].process != group->process)
        return send_to(comm, &header, data);
    ls_mail *message = ls_mail_make(&group->mail, &header);
    if (!message)
        return ls_fail_memory("message", bytes);
    if (bytes)
        memcpy(message + 1, data, bytes);
    keep_message(group, message);
    return LS_OK;
}

static ls_status await_message(mpi_wait *wait, const ls_mail_header *wanted, ls_mail **out)
{
    ls_mailbox *box = &wait->comm->group->mail;
    while (!(*out = ls_mail_take(box, wanted))) {
        LS_TRY(pull(wait->comm));
        if ((*out = ls_mail_take(box, wanted)))
            break;
        LS_TRY(ls_comm_mpi_pause(wait));
    }
    return LS_OK;
}

/* Receives from rank *from; if that is -1, from any rank, and sets it. Sets *bytes to the number
 * received. */
static ls_status receive(mpi_comm *comm, int tag, void *data, size_t room, int *from, size_t *bytes)
{
    const ls_mail_header wanted = {.from = *from, .to = comm->base.rank, .tag = tag};
    mpi_wait wait = begin_wait(comm, "a message", *from, *bytes);
    ls_mail *message;
    ls_status status = await_message(&wait, &wanted, &message);
    ls_comm_mpi_end_wait(comm->group); /* in any case: the watcher reports waits that last */
    return status ? status : ls_mail_read(&comm->group->mail, message, data, room, from, bytes);
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
