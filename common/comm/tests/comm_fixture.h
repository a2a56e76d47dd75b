/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the communicator share: devices and queues for up to 16 ranks, and operations
 * of their own: fill (a rank's inputs, times a power of two that changes with each replay, so that
 * bits scale exactly), check (bits against what is expected, each replay), delay (a random pause),
 * fail. Statics; for inclusion by the tests of this folder.
 */
#pragma once

#include "common/base/clock.h"
#include "common/base/random/philox.h"
#include "common/base/tests/thorough.h"
#include "common/comm/comm.h"
#include "common/comm/tests/comm_oracle.h"
#include "common/device/tests/device_fixture.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* Waiting between threads takes ten times as long with a sanitizer: fewer sizes are tested. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
enum { MOST_RANKS = MOST_DEVICES, MOST_SUMS = 16, SCALES = 3 };

enum { SCRATCH = 1 << 19 }; /* elements */

/* Scratch for a rank's all-reduces of up to 500,000 elements. */
static inline float *scratch_of(const ls_comm *comm)
{
    static float room[MOST_RANKS][SCRATCH];
    return room[comm->rank % MOST_RANKS];
}

static inline int setup_devices(void **state)
{
    open_fixture(&(ls_machine_options){0}, LS_DEVICE_CPU, MOST_RANKS, state);
    must(ls_comm_backend_find("thread", &((fixture *)*state)->backend));
    return 0;
}

/* Queues ordered by events; one call enqueues all ranks' operations. */
static inline int setup_together(void **state)
{
    setup_devices(state);
    must(ls_comm_backend_find("device", &((fixture *)*state)->backend));
    return 0;
}

/* The same if no rank may read another's memory: links without delay. */
static inline int setup_apart(void **state)
{
    setup_together(state);
    plug_all(*state, &(ls_link){0});
    return 0;
}

/* ---- Operations of the tests --------------------------------------------------------------- */

typedef struct test_op {
    ls_op op;
    float *data;
    const float *from; /* inputs, or what is expected */
    size_t count;
    uint64_t runs, wrong, fail_at;
    ls_random random; /* of a delay */
} test_op;

static inline float scale_of(uint64_t run)
{
    return (float)(1u << run % SCALES);
}

static inline ls_status run_fill(ls_op *op, ls_queue *queue)
{
    test_op *t = (test_op *)op;
    float scale = scale_of(t->runs++);
    for (size_t i = 0; i < t->count; i++)
        t->data[i] = t->from[i] * scale;
    return LS_OK;
}

static inline ls_status run_check(ls_op *op, ls_queue *queue)
{
    test_op *t = (test_op *)op;
    float scale = scale_of(t->runs++);
    for (size_t i = 0; i < t->count; i++) {
        float expected = t->from[i] * scale;
        t->wrong += memcmp(&expected, &t->data[i], sizeof expected) != 0;
    }
    return LS_OK;
}

/* Nothing, a yield, a short pause or a long one. */
static inline ls_status run_delay(ls_op *op, ls_queue *queue)
{
    test_op *t = (test_op *)op;
    uint32_t bits = ls_random_bits(t->random, t->runs++);
    if (bits % 16 == 0)
        ls_clock_sleep(1000 * (bits >> 8) % 50000);
    else if (bits % 4 == 1)
        sched_yield();
    else if (bits % 4 == 2)
        for (volatile uint32_t i = 0; i < (bits >> 8) % 1000; i++)
            ;
    return LS_OK;
}

static inline ls_status run_failing(ls_op *op, ls_queue *queue)
{
    test_op *t = (test_op *)op;
    if (t->runs++ == t->fail_at)
        return ls_fail(LS_CODE_CHECK, "test", "failing", "planted; none");
    return LS_OK;
}

static inline test_op *put_op(ls_op_list *ops, ls_status (*run)(ls_op *op, ls_queue *queue),
                              float *data, const float *from, size_t count)
{
    test_op *t = calloc(1, sizeof *t);
    t->op = (ls_op){.name = "test", .run = run};
    t->data = data;
    t->from = from;
    t->count = count;
    must(ls_op_list_add(ops, &t->op));
    return t;
}

/* The same operations with a delay before each. Takes ownership of them. */
static inline void delay_all(ls_op_list *ops, uint64_t seed, uint64_t stream)
{
    ls_op_list all = {0};
    for (size_t i = 0; i < ops->count; i++) {
        test_op *delay = put_op(&all, run_delay, NULL, NULL, 0);
        delay->random = (ls_random){.seed = seed, .stream = stream * 1000 + i};
        must(ls_op_list_add(&all, ops->items[i]));
    }
    free(ops->items);
    *ops = all;
}

static inline float *random_floats(const char *name, int number, size_t count)
{
    float *out = malloc((count + 1) * sizeof *out);
    ls_random random = ls_random_stream((uint64_t)number + 1, name);
    ls_random_fill(random, 0, count, -1.0f, 1.0f, out);
    return out;
}

/* ---- Programs of several ranks ------------------------------------------------------------- */

/* Captures each rank's list, launches all, waits for all; statuses[r] may be NULL: must be well. */
static inline void replay_all(fixture *f, const ls_op_list *ops, int ranks, uint64_t times,
                              ls_status *statuses)
{
    ls_program *program[MOST_RANKS];
    for (int r = 0; r < ranks; r++) {
        must(ls_program_begin(f->queue[r]));
        must(ls_op_list_enqueue(&ops[r], f->queue[r]));
        must(ls_program_end(f->queue[r], &program[r]));
    }
    for (int r = 0; r < ranks; r++)
        must(ls_program_launch(program[r], times));
    for (int r = 0; r < ranks; r++) {
        ls_status status = ls_queue_sync(f->queue[r]);
        if (statuses)
            statuses[r] = status;
        else
            must(status);
    }
    for (int r = 0; r < ranks; r++)
        ls_program_close(program[r]);
}

/* Captures all ranks' lists as a program of the first one's queue, which the others join. */
static inline ls_program *capture_together(fixture *f, ls_comm *const *comms, const ls_op_list *ops,
                                           int ranks)
{
    ls_event *begun, *left[MOST_RANKS];
    ls_comm_list lists[MOST_RANKS];
    ls_program *program;
    must(ls_event_open(f->device[0], &begun));
    must(ls_program_begin(f->queue[0]));
    must(ls_queue_record(f->queue[0], begun));
    for (int r = 0; r < ranks; r++) {
        lists[r] = (ls_comm_list){&ops[r], f->queue[r]};
        must(ls_event_open(f->device[r], &left[r]));
        if (r)
            must(ls_queue_wait(f->queue[r], begun));
    }
    must(ls_comm_enqueue(comms, lists, ranks));
    for (int r = 1; r < ranks; r++) {
        must(ls_queue_record(f->queue[r], left[r]));
        must(ls_queue_wait(f->queue[0], left[r]));
    }
    must(ls_program_end(f->queue[0], &program));
    ls_event_close(begun);
    for (int r = 0; r < ranks; r++)
        ls_event_close(left[r]);
    return program;
}

/* Launches what the back end asks for: a program of each rank, or one of all. Returns how often
 * traffic was counted. */
static inline uint64_t replay_comms(fixture *f, ls_comm *const *comms, const ls_op_list *ops,
                                    int ranks, uint64_t times)
{
    if (!ls_comm_is_joint(comms[0])) {
        replay_all(f, ops, ranks, times, NULL);
        return times;
    }
    ls_program *program = capture_together(f, comms, ops, ranks);
    must(ls_program_launch(program, times));
    for (int r = 0; r < ranks; r++)
        must(ls_queue_sync(f->queue[r]));
    ls_program_close(program);
    return 1;
}

static inline ls_traffic total_traffic(ls_comm *const *comms, int ranks)
{
    ls_traffic sum = {0};
    for (int r = 0; r < ranks; r++) {
        ls_traffic t = ls_comm_traffic(comms[r]);
        sum.bytes_sent += t.bytes_sent;
        sum.messages_sent += t.messages_sent;
    }
    return sum;
}

static inline void close_all(ls_comm **comms, ls_op_list *ops, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        ls_op_list_clear(&ops[r]);
        ls_comm_close(comms[r]);
    }
}
