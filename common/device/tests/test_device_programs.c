/* SPDX-License-Identifier: MIT */
/* Devices on CPUs: programs, failures, devices of two kinds. No tolerance: all is exact. */
#include "common/device/backend.h"
#include "common/device/tests/device_affine.h"

#include <string.h>

enum { DEVICES = 3, REPLAYS = 1000 };

static int setup(void **state)
{
    return open_cpus(state, DEVICES);
}

static void program_replays(void **state)
{
    fixture *f = *state;
    uint64_t value = 1, expected = 1;
    affine three = make_affine(&value, 3, 0), plus = make_affine(&value, 1, 1);
    ls_program *program;
    must(ls_program_begin(f->queue[0]));
    must(ls_queue_enqueue(f->queue[0], &three.op));
    must(ls_queue_enqueue(f->queue[0], &plus.op));
    must_refuse(ls_queue_sync(f->queue[0]), LS_CODE_USAGE, "");
    must(ls_program_end(f->queue[0], &program));
    assert_true(value == 1); /* recorded, not run */
    assert_int_equal(ls_program_describe(program).nodes, 2);
    assert_true(ls_program_describe(program).bytes > 0);
    must(ls_program_launch(program, REPLAYS));
    must(ls_program_launch(program, 0));
    must(ls_program_launch(program, 1));
    must(ls_queue_sync(f->queue[0]));
    for (int i = 0; i < REPLAYS + 1; i++)
        expected = expected * 3 + 1;
    assert_true(value == expected);
    ls_program_close(program);
}

/* Queue 0 computes x; queues 1 and 2 read it and compute their own values; queue 0 adds them. */
static void program_joins_queues(void **state)
{
    fixture *f = *state;
    uint64_t x = 1, part[2] = {0, 0}, sum = 0;
    affine grow = make_affine(&x, 3, 1), take[2], add[2];
    ls_event *ready, *done[2];
    must(ls_event_open(f->device[0], &ready));
    for (int i = 0; i < 2; i++) {
        must(ls_event_open(f->device[i + 1], &done[i]));
        take[i] = make_affine(&part[i], 0, (uint64_t)i + 1);
        take[i].also = &x;
        add[i] = make_affine(&sum, 1, 0);
        add[i].also = &part[i];
    }
    ls_program *program;
    must(ls_program_begin(f->queue[0]));
    must(ls_queue_enqueue(f->queue[0], &grow.op));
    must(ls_queue_record(f->queue[0], ready));
    for (int i = 0; i < 2; i++) {
        must(ls_queue_wait(f->queue[i + 1], ready));
        must(ls_queue_enqueue(f->queue[i + 1], &take[i].op));
        must(ls_queue_record(f->queue[i + 1], done[i]));
        must(ls_queue_wait(f->queue[0], done[i]));
        must(ls_queue_enqueue(f->queue[0], &add[i].op));
    }
    must(ls_program_end(f->queue[0], &program));
    must(ls_program_launch(program, REPLAYS));
    must(ls_queue_sync(f->queue[0]));
    uint64_t expected_x = 1, expected = 0;
    for (int i = 0; i < REPLAYS; i++) {
        expected_x = expected_x * 3 + 1;
        expected += (expected_x + 1) + (expected_x + 2);
    }
    assert_true(sum == expected);
    ls_program_close(program);
    ls_event_close(ready);
    ls_event_close(done[0]);
    ls_event_close(done[1]);
}

static void capture_must_be_joined_back(void **state)
{
    fixture *f = *state;
    ls_event *event;
    uint64_t value = 0;
    affine op = make_affine(&value, 1, 1);
    ls_program *program;
    must(ls_event_open(f->device[0], &event));
    must(ls_program_begin(f->queue[0]));
    must(ls_queue_record(f->queue[0], event));
    must(ls_queue_wait(f->queue[1], event));
    must(ls_queue_enqueue(f->queue[1], &op.op));
    must_refuse(ls_program_end(f->queue[0], &program), LS_CODE_USAGE, "");
    must(ls_queue_enqueue(f->queue[1], &op.op)); /* no longer captured */
    must(ls_queue_sync(f->queue[1]));
    assert_int_equal(value, 1);
    ls_event_close(event);
}

/* Waiting for a record of a capture that has ended joins no capture. */
static void ended_capture_captures_nobody(void **state)
{
    fixture *f = *state;
    ls_event *event;
    uint64_t value = 0;
    affine op = make_affine(&value, 1, 1);
    ls_program *program;
    must(ls_event_open(f->device[0], &event));
    must(ls_program_begin(f->queue[0]));
    must(ls_queue_record(f->queue[0], event));
    must(ls_program_end(f->queue[0], &program));
    must(ls_queue_wait(f->queue[1], event));
    must(ls_queue_enqueue(f->queue[1], &op.op));
    must(ls_queue_sync(f->queue[1]));
    assert_int_equal(value, 1);
    ls_program_close(program);
    must(ls_queue_wait(f->queue[1], event));
    must(ls_queue_sync(f->queue[1]));
    ls_event_close(event);
}

static ls_status run_failing(ls_op *op, ls_queue *queue)
{
    return ls_fail(LS_CODE_MISSING, "test", "op", "fails; nothing would work");
}

static void failure_is_reported_and_hangs_nobody(void **state)
{
    fixture *f = *state;
    ls_event *event;
    uint64_t value = 0, other = 0;
    ls_op failing = {.name = "failing", .run = run_failing, .destroy = keep};
    affine plus = make_affine(&value, 1, 1), waits = make_affine(&other, 1, 1);
    must(ls_event_open(f->device[0], &event));
    must(ls_queue_enqueue(f->queue[0], &failing));
    must(ls_queue_enqueue(f->queue[0], &plus.op));
    must(ls_queue_record(f->queue[0], event));
    must(ls_queue_wait(f->queue[1], event));
    must(ls_queue_enqueue(f->queue[1], &waits.op));
    ls_status second = ls_queue_sync(f->queue[1]), first = ls_queue_sync(f->queue[0]);
    assert_non_null(second);
    assert_string_equal(ls_status_text(first), "operation: cpu:0 failing: test: op: fails; "
                                               "nothing would work");
    first = ls_status_first(second, first); /* the cause, whichever queue was asked first */
    assert_non_null(strstr(ls_status_text(first), "failing"));
    must_refuse(first, LS_CODE_MISSING, "");
    assert_int_equal(value, 0);       /* skipped */
    assert_int_equal(other, 0);       /* also skipped by the queue that waits */
    must(ls_queue_sync(f->queue[0])); /* reported once */
    must(ls_queue_sync(f->queue[1]));
    must(ls_queue_enqueue(f->queue[0], &plus.op));
    must(ls_queue_sync(f->queue[0]));
    assert_int_equal(value, 1); /* usable again */
    must(ls_queue_record(f->queue[0], event));
    must(ls_queue_wait(f->queue[1], event));
    must(ls_queue_enqueue(f->queue[1], &waits.op));
    must(ls_queue_sync(f->queue[1]));
    must(ls_queue_sync(f->queue[0]));
    assert_int_equal(other, 1);
    ls_event_close(event);
}

/* Fails in one of its runs. */
typedef struct failing_once {
    ls_op op;
    uint64_t runs, at;
} failing_once;

static ls_status run_failing_once(ls_op *op, ls_queue *queue)
{
    failing_once *f = (failing_once *)op;
    return f->runs++ == f->at ? run_failing(op, queue) : LS_OK;
}

/* In replay 700 queue 1 fails, for which queue 0 waits; queue 2 waits for queue 0 only. None counts
 * much further, and the program runs again once all queues have been asked. */
static void failure_travels_through_programs(void **state)
{
    fixture *f = *state;
    uint64_t count[DEVICES] = {0};
    affine plus[DEVICES];
    failing_once failing = {.op = {.name = "failing", .run = run_failing_once, .destroy = keep},
                            .at = 700};
    ls_event *ready, *done[DEVICES];
    ls_program *program;
    must(ls_event_open(f->device[0], &ready));
    must(ls_program_begin(f->queue[0]));
    must(ls_queue_record(f->queue[0], ready));
    for (int i = 0; i < DEVICES; i++) {
        plus[i] = make_affine(&count[i], 1, 1);
        must(ls_event_open(f->device[i], &done[i]));
        if (i == 0)
            continue;
        must(ls_queue_wait(f->queue[i], ready));
        if (i == 1)
            must(ls_queue_enqueue(f->queue[i], &failing.op));
        must(ls_queue_enqueue(f->queue[i], &plus[i].op));
        must(ls_queue_record(f->queue[i], done[i]));
        must(ls_queue_wait(f->queue[0], done[i]));
    }
    must(ls_queue_enqueue(f->queue[0], &plus[0].op));
    must(ls_program_end(f->queue[0], &program));
    must(ls_program_launch(program, REPLAYS));
    ls_status status = LS_OK;
    for (int i = DEVICES; i-- > 0;) {
        ls_status mine = ls_queue_sync(f->queue[i]);
        assert_non_null(mine);
        status = ls_status_first(status, mine);
    }
    assert_non_null(strstr(ls_status_text(status), "cpu:1 failing"));
    must_refuse(status, LS_CODE_MISSING, "");
    assert_int_equal(count[0], 700);
    assert_int_equal(count[1], 700);
    assert_int_equal(count[2], 701); /* it was running when the other failed */
    must(ls_program_launch(program, 3));
    for (int i = 0; i < DEVICES; i++)
        must(ls_queue_sync(f->queue[i]));
    assert_int_equal(count[0], 703);
    ls_program_close(program);
    ls_event_close(ready);
    for (int i = 0; i < DEVICES; i++)
        ls_event_close(done[i]);
}

/* Emulates another kind of device, without a GPU: the same functions in another table. */
static void be_another_kind(ls_device *device)
{
    static ls_device_backend elsewhere;
    elsewhere = *device->backend;
    device->backend = &elsewhere;
}

static void the_host_orders_kinds(void **state)
{
    fixture *f = *state;
    enum { ROUNDS = 200 };
    const ls_device_backend *own = f->device[1]->backend;
    uint64_t value = 1;
    ls_event *done[2];
    be_another_kind(f->device[1]);
    affine twice = make_affine(&value, 2, 0), more = make_affine(&value, 1, 3);
    for (int i = 0; i < 2; i++)
        must(ls_event_open(f->device[i], &done[i]));
    uint64_t expected = 1;
    for (int round = 0; round < ROUNDS; round++) { /* only events order these */
        must(ls_queue_enqueue(f->queue[0], &twice.op));
        must(ls_queue_record(f->queue[0], done[0]));
        must(ls_queue_wait(f->queue[1], done[0]));
        must(ls_queue_enqueue(f->queue[1], &more.op));
        must(ls_queue_record(f->queue[1], done[1]));
        must(ls_queue_wait(f->queue[0], done[1]));
        expected = expected * 2 + 3;
    }
    must(ls_queue_sync(f->queue[0]));
    assert_true(value == expected);
    for (int i = 0; i < 2; i++) { /* a queue may still be about to wake others */
        must(ls_queue_sync(f->queue[i]));
        ls_event_close(done[i]);
    }
    f->device[1]->backend = own;
}

/* What cannot be ordered in this way, and a failure that must stop the waiting queue. */
static void kinds_are_not_captured_together(void **state)
{
    fixture *f = *state;
    const ls_device_backend *own = f->device[1]->backend;
    ls_event *event, *captured;
    ls_program *program;
    ls_op bad = {.name = "failing", .run = run_failing, .destroy = keep};
    be_another_kind(f->device[1]);
    must(ls_event_open(f->device[1], &event));
    must(ls_event_open(f->device[0], &captured));
    must(ls_queue_record(f->queue[1], event));
    must(ls_program_begin(f->queue[0]));
    ls_status status = ls_queue_wait(f->queue[0], event);
    assert_non_null(strstr(ls_status_text(status), "cannot be captured while it waits"));
    must_refuse(status, LS_CODE_USAGE, "");
    must(ls_queue_record(f->queue[0], captured));
    must_refuse(ls_queue_wait(f->queue[1], captured), LS_CODE_USAGE, "");
    must(ls_program_end(f->queue[0], &program));
    ls_program_close(program);
    must(ls_queue_enqueue(f->queue[1], &bad));
    must(ls_queue_record(f->queue[1], event));
    status = ls_queue_wait(f->queue[0], event);
    assert_true(ls_status_is_consequence(status));
    must_refuse(status, LS_CODE_MISSING, "");
    ls_status_free(ls_queue_sync(f->queue[1]));
    must(ls_queue_sync(f->queue[0]));
    ls_event_close(event);
    ls_event_close(captured);
    f->device[1]->backend = own;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(program_replays),
        cmocka_unit_test(program_joins_queues),
        cmocka_unit_test(capture_must_be_joined_back),
        cmocka_unit_test(ended_capture_captures_nobody),
        cmocka_unit_test(failure_is_reported_and_hangs_nobody),
        cmocka_unit_test(failure_travels_through_programs),
        cmocka_unit_test(the_host_orders_kinds),
        cmocka_unit_test(kinds_are_not_captured_together),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
