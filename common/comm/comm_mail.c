/* SPDX-License-Identifier: MIT */
/* Mail of a process; see comm_mail.h. */
#include "common/comm/comm_mail.h"

#include "common/base/clock.h"
#include "common/comm/comm_parts.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Per block; a larger message is allocated each time. */
enum { SPARE_BYTES = 256 };

void ls_mailbox_open(ls_mailbox *box, int spares)
{
    pthread_mutex_init(&box->mutex, NULL);
    pthread_cond_init(&box->came, NULL);
    box->end = &box->first;
    for (ls_mail *mail; spares-- > 0 && (mail = malloc(SPARE_BYTES)); box->spares = mail)
        mail->next = box->spares;
}

void ls_mailbox_close(ls_mailbox *box)
{
    *box->end = box->spares;
    for (ls_mail *mail; (mail = box->first);) {
        box->first = mail->next;
        free(mail);
    }
    pthread_cond_destroy(&box->came);
    pthread_mutex_destroy(&box->mutex);
}

void ls_mailbox_wake(ls_mailbox *box)
{
    pthread_mutex_lock(&box->mutex);
    pthread_cond_broadcast(&box->came);
    pthread_mutex_unlock(&box->mutex);
}

ls_mail *ls_mail_make(ls_mailbox *box, const ls_mail_header *header)
{
    const size_t bytes = sizeof(ls_mail) + header->bytes;
    ls_mail *mail = NULL;
    if (bytes <= SPARE_BYTES) {
        pthread_mutex_lock(&box->mutex);
        mail = box->spares;
        box->spares = mail ? mail->next : NULL;
        pthread_mutex_unlock(&box->mutex);
    }
    if (!mail)
        mail = malloc(bytes > SPARE_BYTES ? bytes : SPARE_BYTES);
    if (mail)
        *mail = (ls_mail){.header = *header};
    return mail;
}

void ls_mail_free(ls_mailbox *box, ls_mail *mail)
{
    if (sizeof *mail + mail->header.bytes > SPARE_BYTES) {
        free(mail);
        return;
    }
    pthread_mutex_lock(&box->mutex);
    mail->next = box->spares;
    box->spares = mail;
    pthread_mutex_unlock(&box->mutex);
}

void ls_mail_put(ls_mailbox *box, ls_mail *mail)
{
    pthread_mutex_lock(&box->mutex);
    *box->end = mail;
    box->end = &mail->next;
    pthread_cond_broadcast(&box->came);
    pthread_mutex_unlock(&box->mutex);
}

/* The mutex must be held. */
static ls_mail *take(ls_mailbox *box, const ls_mail_header *wanted)
{
    for (ls_mail **at = &box->first; *at; at = &(*at)->next) {
        ls_mail *mail = *at;
        const ls_mail_header *h = &mail->header;
        if (h->to != wanted->to || h->tag != wanted->tag ||
            (wanted->from >= 0 && h->from != wanted->from))
            continue;
        *at = mail->next;
        mail->next = NULL;
        if (!*at)
            box->end = at;
        return mail;
    }
    return NULL;
}

ls_mail *ls_mail_take(ls_mailbox *box, const ls_mail_header *wanted)
{
    pthread_mutex_lock(&box->mutex);
    ls_mail *mail = take(box, wanted);
    pthread_mutex_unlock(&box->mutex);
    return mail;
}

ls_mail *ls_mail_await(ls_mailbox *box, const ls_mail_header *wanted, const _Atomic int *given_up)
{
    ls_mail *mail;
    pthread_mutex_lock(&box->mutex);
    while (!(mail = take(box, wanted)) && !atomic_load(given_up))
        pthread_cond_wait(&box->came, &box->mutex);
    pthread_mutex_unlock(&box->mutex);
    return mail;
}

ls_status ls_mail_read(ls_mailbox *box, ls_mail *mail, void *data, size_t room, int *from,
                       size_t *bytes)
{
    if (mail->header.arrival_ns)
        ls_clock_sleep_until(mail->header.arrival_ns);
    *from = mail->header.from;
    *bytes = mail->header.bytes;
    ls_status status = ls_comm_check_room(*from, *bytes, room);
    if (!status && *bytes)
        memcpy(data, mail + 1, *bytes);
    ls_mail_free(box, mail);
    return status;
}
