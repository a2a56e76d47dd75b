/* SPDX-License-Identifier: MIT */
/*
 * A queue's size (ls_queue_enqueue, ls_device_turn): commands that wait for ones not yet enqueued
 * never block the host, however many there are; with turns, the queue keeps the size of a turn. No
 * tolerance. An alarm ends a test that fails by waiting for ever.
 */
#include "common/base/signal.h"
#include "common/device/tests/device_fixture.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { DEVICES = 2, MANY = 5000, STEP = 700, STEPS = 20, SECONDS = 800 };

static int setup(void **state)
{
    return open_cpus(state, DEVICES);
}

/* Waits for the other side's operation of the same number. */
typedef struct meeting {
    ls_op op;
    ls_signal *mine, *theirs;
    uint64_t done;
} meeting;

static ls_status run_meeting(ls_op *op, ls_queue *queue)
{
    meeting *m = (meeting *)op;
    ls_signal_post(m->mine, ++m->done);
    ls_signal_wait(m->theirs, m->done, 0);
    return LS_OK;
}

static meeting make_meeting(ls_signal *mine, ls_signal *theirs)
{
    return (meeting){.op = {.name = "meeting", .run = run_meeting, .destroy = keep},
                     .mine = mine,
                     .theirs = theirs};
}

/* Enqueues one queue's whole part before the other's, for which each of its operations waits. */
static void put_apart(fixture *f, int count, bool turns, int steps)
{
    ls_signal signals[DEVICES] = {0};
    meeting meetings[DEVICES] = {make_meeting(&signals[0], &signals[1]),
                                 make_meeting(&signals[1], &signals[0])};
    for (int s = 0; s < steps; s++) {
        for (int d = 0; d < DEVICES && turns; d++)
            ls_device_turn(f->device[d]);
        for (int d = 0; d < DEVICES; d++)
            for (int i = 0; i < count; i++)
                must(ls_queue_enqueue(f->queue[d], &meetings[d].op));
    }
    for (int d = 0; d < DEVICES; d++)
        must(ls_queue_sync(f->queue[d]));
    for (int d = 0; d < DEVICES; d++)
        assert_true(meetings[d].done == (uint64_t)(count * steps));
}

static void a_part_of_any_size_is_put_before_the_other(void **state)
{
    put_apart(*state, MANY, false, 1);
}

static void so_it_is_in_every_turn(void **state)
{
    put_apart(*state, STEP, true, STEPS);
}

static void turns_may_grow_and_shrink(void **state)
{
    for (int count = 1; count < MANY; count = 2 * count + 1)
        put_apart(*state, count, true, 2);
    put_apart(*state, 1, true, STEP);
}

/* ---- One who takes turns is not far ahead --------------------------------------------------- */

typedef struct producer {
    fixture *f;
    ls_op *op;
    ls_signal steps; /* enqueued so far */
} producer;

static void *produce(void *argument)
{
    producer *p = argument;
    for (uint64_t s = 1; s <= STEPS; s++) {
        ls_device_turn(p->f->device[0]);
        for (int i = 0; i < STEP; i++)
            must(ls_queue_enqueue(p->f->queue[0], p->op));
        ls_signal_post(&p->steps, s);
    }
    return NULL;
}

/* The first operation waits for the test: three more steps never fit in the queue, however long one
 * checks. */
static void turns_hold_up_who_is_ahead(void **state)
{
    ls_signal signals[DEVICES] = {0};
    meeting m = make_meeting(&signals[0], &signals[1]);
    producer p = {.f = *state, .op = &m.op};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, produce, &p), 0);
    ls_signal_wait(&p.steps, 1, 0); /* a whole step always fits */
    assert_false(ls_signal_wait_for(&p.steps, 3, 0, 200000000));
    ls_signal_post(&signals[1], UINT64_MAX);
    pthread_join(thread, NULL);
    must(ls_queue_sync(p.f->queue[0]));
    assert_true(m.done == STEP * STEPS);
}

/* ---- Order ----------------------------------------------------------------------------------- */

enum { ORDERED = 1100, MOST_BEFORE = 520 };

typedef struct numbered {
    ls_op op;
    int number, *next; /* the next to run */
    int *wrong;        /* how often another one ran */
} numbered;

static ls_status run_numbered(ls_op *op, ls_queue *queue)
{
    const numbered *n = (const numbered *)op;
    *n->wrong += n->number != *n->next;
    *n->next = n->number + 1;
    return LS_OK;
}

/* A queue that slept after any number of operations, even at the end of a segment, continues with
 * the next command, though the host enqueues so much before it wakes that a segment is added. */
static void a_queue_that_slept_goes_on_in_order(void **state)
{
    const fixture *f = *state;
    static numbered ops[ORDERED];
    for (int before = 1; before < MOST_BEFORE; before++) {
        ls_queue *queue;
        int next = 0, wrong = 0;
        must(ls_queue_open(f->device[0], "order", &queue));
        for (int i = 0; i < ORDERED; i++) {
            ops[i] = (numbered){
                {.name = "numbered", .run = run_numbered, .destroy = keep}, i, &next, &wrong};
            if (i == before)
                must(ls_queue_sync(queue));
            must(ls_queue_enqueue(queue, &ops[i].op));
        }
        must(ls_queue_sync(queue));
        ls_queue_close(queue);
        assert_int_equal(wrong, 0);
        assert_int_equal(next, ORDERED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_part_of_any_size_is_put_before_the_other, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(so_it_is_in_every_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(turns_may_grow_and_shrink, setup, teardown),
        cmocka_unit_test_setup_teardown(turns_hold_up_who_is_ahead, setup, teardown),
        cmocka_unit_test_setup_teardown(a_queue_that_slept_goes_on_in_order, setup, teardown),
    };
    alarm(SECONDS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
