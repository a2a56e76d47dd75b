/* SPDX-License-Identifier: MIT */
/*
 * Messages between ranks in the tests of host calls, for any back end: all ranks run each function
 * at once, each on its own thread. Statics; for inclusion by tests.
 */
#pragma once

#include "common/comm/tests/comm_fixture.h"

#include <pthread.h>

enum { MESSAGES = 200, TAG_DATA = 1, TAG_ANY = 2, TAG_NEVER = 3 };

static inline void talk_in_order(ls_comm *comm)
{
    const ls_comm_backend *b = comm->backend;
    int next = (comm->rank + 1) % comm->size, before = (comm->rank + comm->size - 1) % comm->size;
    for (int i = 0; i < MESSAGES; i++) {
        int out[2] = {comm->rank, i}, in[2] = {-1, -1};
        must(b->send(comm, next, TAG_DATA, out, sizeof out));
        must(b->send(comm, next, TAG_ANY, NULL, 0)); /* another tag does not get in between */
        must(b->receive(comm, before, TAG_DATA, in, sizeof in));
        assert_true(in[0] == before && in[1] == i);
    }
    for (int i = 0; i < MESSAGES; i++)
        must(b->receive(comm, before, TAG_ANY, NULL, 0));
    assert_true(ls_comm_traffic(comm).messages_sent == 2 * MESSAGES);
    assert_true(ls_comm_traffic(comm).bytes_sent == MESSAGES * 2 * sizeof(int));
}

/* Rank 0 serves: receives from any rank, and receives nothing for a tag that is never sent. */
static inline void talk_to_anyone(ls_comm *comm)
{
    const ls_comm_backend *b = comm->backend;
    int next[MOST_RANKS] = {0};
    if (comm->rank > 0) {
        for (int i = 0; i < MESSAGES; i++)
            must(b->send(comm, 0, TAG_ANY, &i, sizeof i));
        must(ls_comm_agree(comm, LS_OK));
        return;
    }
    for (int k = 0; k < MESSAGES * (comm->size - 1); k++) {
        int value, from;
        size_t bytes;
        must(b->receive_any(comm, TAG_ANY, &value, sizeof value, &from, &bytes));
        assert_true(from > 0 && from < comm->size && bytes == sizeof value);
        assert_int_equal(value, next[from]++); /* in order for each sender */
    }
    must(ls_comm_agree(comm, LS_OK));
    must(b->send(comm, 0, TAG_NEVER, "x", 1));
    int from;
    size_t bytes;
    must_refuse(b->receive_any(comm, TAG_NEVER, NULL, 0, &from, &bytes), LS_CODE_USAGE,
                "the buffer has room for");
    must(b->send(comm, 0, TAG_NEVER, next, 8));
    must_refuse(b->receive(comm, 0, TAG_NEVER, next, 4), LS_CODE_USAGE, "8 bytes");
}

static inline void talk_in_agreement(ls_comm *comm)
{
    static const ls_code codes[] = {LS_CODE_OK, LS_CODE_USAGE, LS_CODE_CHECK, LS_CODE_MISSING};
    for (int i = 0; i < MESSAGES; i++) {
        ls_code worst, mine = (comm->rank + i) % comm->size ? LS_CODE_OK : codes[i % 4];
        must(ls_comm_worst(comm, mine, &worst));
        assert_int_equal(worst, codes[i % 4]);
        must(ls_comm_agree(comm, LS_OK));
    }
}

/* Rank 0 gives up while the others wait, each in another call. */
static inline void talk_and_give_up(ls_comm *comm)
{
    const ls_comm_backend *b = comm->backend;
    int data, from;
    size_t bytes;
    if (comm->rank == 0) {
        ls_clock_sleep(20000000);
        b->abandon(comm);
        must_refuse(b->send(comm, 1, 0, &data, 4), LS_CODE_MISSING, "abandoned by rank 0");
    } else if (comm->rank == 1) {
        must_refuse(b->receive(comm, 0, 0, &data, 4), LS_CODE_MISSING, "abandoned by rank 0");
        must_refuse(ls_comm_agree(comm, LS_OK), LS_CODE_MISSING,
                    "rank 1: this rank was abandoned by rank 0");
    } else {
        must_refuse(b->receive_any(comm, 0, &data, 4, &from, &bytes), LS_CODE_MISSING, "abandoned");
    }
}

typedef struct talker {
    pthread_t thread;
    ls_comm *comm;
    void (*talk)(ls_comm *comm);
} talker;

static inline void *talk_thread(void *argument)
{
    talker *t = argument;
    t->talk(t->comm);
    return NULL;
}

/* Ranks of this process, each with a thread of its own. */
static inline void talk_all(fixture *f, ls_comm *processes, int count, void (*talk)(ls_comm *comm))
{
    talker talkers[MOST_RANKS];
    ls_comm *comms[MOST_RANKS];
    must(ls_comm_open(NULL, processes, f->device, count, comms));
    for (int i = 0; i < count; i++) {
        talkers[i] = (talker){.comm = comms[i], .talk = talk};
        assert_int_equal(pthread_create(&talkers[i].thread, NULL, talk_thread, &talkers[i]), 0);
    }
    for (int i = 0; i < count; i++)
        pthread_join(talkers[i].thread, NULL);
    for (int i = 0; i < count; i++)
        ls_comm_close(comms[i]);
}
