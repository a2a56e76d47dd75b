/* SPDX-License-Identifier: MIT */
/*
 * Mail of a process: messages of host calls that have arrived and were not taken yet, in order of
 * arrival. Small ones use recycled blocks, so that messages in steps allocate nothing. Any thread.
 */
#pragma once

#include "common/base/status.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ls_mail_header {
    int from, to, tag;
    size_t bytes;
    uint64_t arrival_ns; /**< over a link: not before that; else 0 */
    uint64_t after_ns;   /**< over a link, between processes: that after it was sent */
} ls_mail_header;

/** A message; its bytes follow. */
typedef struct ls_mail {
    struct ls_mail *next;
    ls_mail_header header;
} ls_mail;

typedef struct ls_mailbox {
    pthread_mutex_t mutex; /* protects the members below */
    pthread_cond_t came;
    ls_mail *first, **end;
    ls_mail *spares;
} ls_mailbox;

/** With blocks for so many small messages, as far as the system has them. */
void ls_mailbox_open(ls_mailbox *box, int spares);
void ls_mailbox_close(ls_mailbox *box);

/** Wakes waiting threads, which then check whether a rank gave up. */
void ls_mailbox_wake(ls_mailbox *box);

/** Room for a message with this header; NULL if there is no memory. */
ls_mail *ls_mail_make(ls_mailbox *box, const ls_mail_header *header);
void ls_mail_free(ls_mailbox *box, ls_mail *mail);

/** Adds a message that has arrived. */
void ls_mail_put(ls_mailbox *box, ls_mail *mail);

/** The first one for wanted->to with this tag, from wanted->from or (-1) from any; NULL if none has
 * arrived. */
ls_mail *ls_mail_take(ls_mailbox *box, const ls_mail_header *wanted);

/** As ls_mail_take, but waits; NULL if none has arrived, and *given_up is not 0. */
ls_mail *ls_mail_await(ls_mailbox *box, const ls_mail_header *wanted, const _Atomic int *given_up);

/** Waits for a link's time, copies the message, and frees it. */
ls_status ls_mail_read(ls_mailbox *box, ls_mail *mail, void *data, size_t room, int *from,
                       size_t *bytes);
