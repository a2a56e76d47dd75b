/* SPDX-License-Identifier: MIT */
/*
 * Host calls of the thread back end: messages are copied into the group's mailbox. Over a link the
 * message departs when it is sent and can be received when it has arrived; the sender does not
 * wait. For set-up and parameter servers; queues use operations (comm_thread.c).
 */
#include "common/comm/comm_thread.h"

#include "common/base/clock.h"
#include "common/device/link.h"

#include <string.h>

ls_status ls_comm_thread_send(ls_comm *base, int to, int tag, const void *data, size_t bytes)
{
    thread_comm *comm = (thread_comm *)base;
    thread_group *group = comm->group;
    const ls_mail_header header = {.from = base->rank, .to = to, .tag = tag, .bytes = bytes};
    LS_TRY(ls_comm_check_rank(base, "message", to));
    if (ls_comm_thread_is_abandoned(comm))
        return ls_comm_thread_abandoned(comm);
    ls_mail *mail = ls_mail_make(&group->mail, &header);
    if (!mail)
        return ls_fail_memory("message", bytes);
    if (bytes)
        memcpy(mail + 1, data, bytes);
    ls_comm_sent(base, 1, bytes);
    pthread_mutex_lock(&group->mutex); /* messages to a rank arrive in the mailbox's order */
    mail->header.arrival_ns =
        ls_device_transfer(base->device, group->devices[to], bytes, ls_clock_ns());
    ls_mail_put(&group->mail, mail);
    pthread_mutex_unlock(&group->mutex);
    return LS_OK;
}

/* Receives from rank *from; if that is -1, from any rank, and sets it. */
static ls_status receive(thread_comm *comm, int tag, void *data, size_t room, int *from,
                         size_t *bytes)
{
    thread_group *group = comm->group;
    const ls_mail_header wanted = {.from = *from, .to = comm->base.rank, .tag = tag};
    ls_mail *mail = ls_mail_await(&group->mail, &wanted, &group->abandoned);
    return mail ? ls_mail_read(&group->mail, mail, data, room, from, bytes)
                : ls_comm_thread_abandoned(comm);
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
