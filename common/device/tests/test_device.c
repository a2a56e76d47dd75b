/* SPDX-License-Identifier: MIT */
/* Devices on CPUs: queues, events, programs, memory, failures. No tolerance: all is exact. */
#include "common/base/clock.h"
#include "common/device/backend.h"
#include "common/device/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES = 3, REPLAYS = 1000 };

#include "common/device/tests/device_fixture.h"

/* An operation of the test: value = value * factor + addend, so that order shows. */
typedef struct affine {
    ls_op op;
    uint64_t *value, factor, addend;
    const uint64_t *also; /* added, too; may be NULL */
} affine;

static ls_status run_affine(ls_op *op, ls_queue *queue)
{
    affine *a = (affine *)op;
    (void)queue;
    *a->value = *a->value * a->factor + a->addend + (a->also ? *a->also : 0);
    return LS_OK;
}

static affine make_affine(uint64_t *value, uint64_t factor, uint64_t addend)
{
    return (affine){.op = {.name = "affine", .run = run_affine, .destroy = keep},
                    .value = value,
                    .factor = factor,
                    .addend = addend};
}

static void refused(ls_status status, ls_code code)
{
    assert_non_null(status);
    assert_int_equal(ls_status_code(status), code);
    ls_status_free(status);
}

static void operations_run_in_order(void **state)
{
    fixture *f = *state;
    uint64_t value = 1;
    affine three = make_affine(&value, 3, 0), plus = make_affine(&value, 1, 1);
    uint64_t expected = 1;
    for (int i = 0; i < 2000; i++) { /* more than the ring holds */
        must(ls_queue_put(f->queue[0], i % 2 ? &plus.op : &three.op));
        expected = i % 2 ? expected + 1 : expected * 3;
    }
    must(ls_queue_sync(f->queue[0]));
    assert_true(value == expected);
}

static void program_replays(void **state)
{
    fixture *f = *state;
    uint64_t value = 1, expected = 1;
    affine three = make_affine(&value, 3, 0), plus = make_affine(&value, 1, 1);
    ls_program *program;
    must(ls_program_begin(f->queue[0]));
    must(ls_queue_put(f->queue[0], &three.op));
    must(ls_queue_put(f->queue[0], &plus.op));
    refused(ls_queue_sync(f->queue[0]), LS_CODE_USAGE);
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

/* Queue 0 makes x; queues 1 and 2 each take it and make their own; queue 0 adds them up. */
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
    must(ls_queue_put(f->queue[0], &grow.op));
    must(ls_queue_record(f->queue[0], ready));
    for (int i = 0; i < 2; i++) {
        must(ls_queue_wait(f->queue[i + 1], ready));
        must(ls_queue_put(f->queue[i + 1], &take[i].op));
        must(ls_queue_record(f->queue[i + 1], done[i]));
        must(ls_queue_wait(f->queue[0], done[i]));
        must(ls_queue_put(f->queue[0], &add[i].op));
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
    must(ls_queue_put(f->queue[1], &op.op));
    refused(ls_program_end(f->queue[0], &program), LS_CODE_USAGE);
    must(ls_queue_put(f->queue[1], &op.op)); /* no longer captured */
    must(ls_queue_sync(f->queue[1]));
    assert_int_equal(value, 1);
    ls_event_close(event);
}

/* What was recorded in a capture that has ended is nothing to wait for. */
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
    must(ls_queue_put(f->queue[1], &op.op));
    must(ls_queue_sync(f->queue[1]));
    assert_int_equal(value, 1);
    ls_program_close(program);
    must(ls_queue_wait(f->queue[1], event));
    must(ls_queue_sync(f->queue[1]));
    ls_event_close(event);
}

static void events_order_queues(void **state)
{
    fixture *f = *state;
    ls_event *event;
    uint64_t x = 0, seen = 0;
    affine plus = make_affine(&x, 1, 1), look = make_affine(&seen, 0, 0);
    look.also = &x;
    must(ls_event_open(f->device[0], &event));
    for (uint64_t i = 1; i <= 500; i++) {
        must(ls_queue_put(f->queue[0], &plus.op));
        must(ls_queue_record(f->queue[0], event));
        must(ls_queue_wait(f->queue[1], event));
        must(ls_queue_put(f->queue[1], &look.op));
        must(ls_queue_record(f->queue[1], event));
        must(ls_queue_wait(f->queue[0], event));
    }
    must(ls_event_sync(event));
    assert_int_equal(seen, 500);
    must(ls_queue_sync(f->queue[0]));
    must(ls_queue_sync(f->queue[1]));
    ls_event_close(event);
}

/* Every other run is one to pass over. */
typedef struct choice {
    ls_op op;
    uint64_t runs;
    bool pass;
} choice;

static ls_status run_choice(ls_op *op, ls_queue *queue)
{
    choice *c = (choice *)op;
    (void)queue;
    c->pass = c->runs++ % 2 == 1;
    return LS_OK;
}

/* On the queue that chooses, and on one that waits for it; what is put afterwards runs always. */
static void operations_are_passed_over(void **state)
{
    fixture *f = *state;
    choice chooses = {.op = {.name = "choice", .run = run_choice, .destroy = keep}};
    uint64_t count[4] = {0};
    affine plus[4];
    ls_event *chosen, *done;
    ls_program *program;
    for (int i = 0; i < 4; i++)
        plus[i] = make_affine(&count[i], 1, 1);
    must(ls_event_open(f->device[0], &chosen));
    must(ls_event_open(f->device[1], &done));
    must(ls_program_begin(f->queue[0]));
    must(ls_queue_put(f->queue[0], &chooses.op));
    must(ls_queue_record(f->queue[0], chosen));
    must(ls_queue_wait(f->queue[1], chosen));
    for (int q = 0; q < 2; q++) {
        must(ls_queue_pass(f->queue[q], &chooses.pass));
        must(ls_queue_put(f->queue[q], &plus[2 * q].op));
        must(ls_queue_pass(f->queue[q], NULL));
        must(ls_queue_put(f->queue[q], &plus[2 * q + 1].op));
    }
    must(ls_queue_record(f->queue[1], done));
    must(ls_queue_wait(f->queue[0], done));
    must(ls_program_end(f->queue[0], &program));
    must(ls_program_launch(program, REPLAYS));
    must(ls_queue_sync(f->queue[0]));
    must(ls_queue_sync(f->queue[1]));
    for (int i = 0; i < 4; i++)
        assert_int_equal(count[i], i % 2 ? REPLAYS : REPLAYS / 2);
    chooses.pass = true;
    must(ls_queue_pass(f->queue[0], &chooses.pass));
    must(ls_queue_put(f->queue[0], &plus[0].op));
    must(ls_queue_pass(f->queue[0], NULL));
    must(ls_queue_put(f->queue[0], &plus[1].op));
    must(ls_queue_sync(f->queue[0]));
    assert_int_equal(count[0], REPLAYS / 2);
    assert_int_equal(count[1], REPLAYS + 1);
    ls_program_close(program);
    ls_event_close(chosen);
    ls_event_close(done);
}

static ls_status run_failing(ls_op *op, ls_queue *queue)
{
    (void)op;
    (void)queue;
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
    must(ls_queue_put(f->queue[0], &failing));
    must(ls_queue_put(f->queue[0], &plus.op));
    must(ls_queue_record(f->queue[0], event));
    must(ls_queue_wait(f->queue[1], event));
    must(ls_queue_put(f->queue[1], &waits.op));
    ls_status second = ls_queue_sync(f->queue[1]), first = ls_queue_sync(f->queue[0]);
    assert_non_null(second);
    assert_string_equal(ls_status_text(first), "operation: cpu:0 failing: test: op: fails; "
                                               "nothing would work");
    first = ls_status_first(second, first); /* the cause, whoever was asked first */
    assert_non_null(strstr(ls_status_text(first), "failing"));
    refused(first, LS_CODE_MISSING);
    assert_int_equal(value, 0);       /* skipped */
    assert_int_equal(other, 0);       /* by who waits, too */
    must(ls_queue_sync(f->queue[0])); /* reported once */
    must(ls_queue_sync(f->queue[1]));
    must(ls_queue_put(f->queue[0], &plus.op));
    must(ls_queue_sync(f->queue[0]));
    assert_int_equal(value, 1); /* usable again */
    must(ls_queue_record(f->queue[0], event));
    must(ls_queue_wait(f->queue[1], event));
    must(ls_queue_put(f->queue[1], &waits.op));
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

/* In replay 700 queue 1 fails, which queue 0 waits for; queue 2 waits for queue 0 alone. None
 * counts much further, and the program runs again when all have been asked. */
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
            must(ls_queue_put(f->queue[i], &failing.op));
        must(ls_queue_put(f->queue[i], &plus[i].op));
        must(ls_queue_record(f->queue[i], done[i]));
        must(ls_queue_wait(f->queue[0], done[i]));
    }
    must(ls_queue_put(f->queue[0], &plus[0].op));
    must(ls_program_end(f->queue[0], &program));
    must(ls_program_launch(program, REPLAYS));
    ls_status status = LS_OK;
    for (int i = DEVICES; i-- > 0;) {
        ls_status mine = ls_queue_sync(f->queue[i]);
        assert_non_null(mine);
        status = ls_status_first(status, mine);
    }
    assert_non_null(strstr(ls_status_text(status), "cpu:1 failing"));
    refused(status, LS_CODE_MISSING);
    assert_int_equal(count[0], 700);
    assert_int_equal(count[1], 700);
    assert_int_equal(count[2], 701); /* it was at work when the other failed */
    must(ls_program_launch(program, 3));
    for (int i = 0; i < DEVICES; i++)
        must(ls_queue_sync(f->queue[i]));
    assert_int_equal(count[0], 703);
    ls_program_close(program);
    ls_event_close(ready);
    for (int i = 0; i < DEVICES; i++)
        ls_event_close(done[i]);
}

static void memory_is_zero_and_counted(void **state)
{
    fixture *f = *state;
    unsigned char *memory;
    void *empty;
    must(ls_device_allocate(f->device[0], LS_MEMORY_ACTIVATIONS, 12345, (void **)&memory));
    must(ls_device_allocate(f->device[0], LS_MEMORY_GRADIENTS, 0, &empty));
    assert_int_equal((uintptr_t)memory % 64, 0);
    for (size_t i = 0; i < 12345; i++)
        assert_int_equal(memory[i], 0);
    memset(memory, 7, 12345);
    assert_int_equal(ls_device_ledger(f->device[0]).in_use[LS_MEMORY_ACTIVATIONS], 12345);
    ls_device_release(f->device[0], memory);
    must(ls_device_allocate(f->device[0], LS_MEMORY_ACTIVATIONS, 12345, (void **)&memory));
    for (size_t i = 0; i < 12345; i++)
        assert_int_equal(memory[i], 0); /* also when it was used before */
    ls_device_release(f->device[0], memory);
    ls_device_release(f->device[0], empty);
    assert_int_equal(ls_device_ledger(f->device[0]).in_use[LS_MEMORY_ACTIVATIONS], 0);
}

static void memory_that_does_not_fit_is_refused(void **state)
{
    fixture *f = *state;
    const ls_device_name name = {.kind = LS_DEVICE_CPU, .index = 0, .logical = -1};
    const ls_memory_policy policy = {.kind = LS_MEMORY_FRACTION, .fraction = 0.001};
    ls_device *small;
    void *memory;
    must(ls_device_open(f->machine, &name, &policy, &small));
    size_t capacity = ls_device_describe(small)->capacity;
    refused(ls_device_allocate(small, LS_MEMORY_PARAMETERS, capacity / 500, &memory),
            LS_CODE_MISSING);
    assert_true(ls_device_ledger(small).reserved <= capacity / 1000 + 1);
    ls_device_close(small);
}

static void copies_between_devices(void **state)
{
    fixture *f = *state;
    void *from, *to;
    char text[32] = "over the border", back[32] = "";
    must(ls_device_allocate(f->device[0], LS_MEMORY_WORKSPACE, sizeof text, &from));
    must(ls_device_allocate(f->device[1], LS_MEMORY_WORKSPACE, sizeof text, &to));
    must(ls_queue_write(f->queue[0], from, text, sizeof text));
    must(ls_queue_copy(f->queue[1], to, f->device[1], from, f->device[0], sizeof text));
    must(ls_queue_read(f->queue[1], back, to, sizeof back));
    assert_string_equal(back, text);
    ls_device_release(f->device[0], from);
    ls_device_release(f->device[1], to);
}

/* What a thread of the device finds out about itself. */
typedef struct probe {
    ls_op op;
    int core;
    bool flushed;
} probe;

static ls_status run_probe(ls_op *op, ls_queue *queue)
{
    probe *p = (probe *)op;
    (void)queue;
    volatile float small = 1e-39f; /* a denormal */
    p->core = sched_getcpu();
    p->flushed = small * 1.0f == 0.0f;
    return LS_OK;
}

static void threads_are_bound_and_flush_denormals(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < DEVICES; i++) {
        probe p = {.op = {.name = "probe", .run = run_probe, .destroy = keep}};
        const ls_device_info *info = ls_device_describe(f->device[i]);
        must(ls_queue_put(f->queue[i], &p.op));
        must(ls_queue_sync(f->queue[i]));
        assert_int_equal(info->core_count, 1);
        assert_int_equal(p.core, info->cores[0]);
        assert_true(p.flushed == info->flushes_denormals);
    }
}

/* A device of another kind, as no GPU need be here: the same functions behind another table. */
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
    for (int round = 0; round < ROUNDS; round++) { /* never waited for but by events */
        must(ls_queue_put(f->queue[0], &twice.op));
        must(ls_queue_record(f->queue[0], done[0]));
        must(ls_queue_wait(f->queue[1], done[0]));
        must(ls_queue_put(f->queue[1], &more.op));
        must(ls_queue_record(f->queue[1], done[1]));
        must(ls_queue_wait(f->queue[0], done[1]));
        expected = expected * 2 + 3;
    }
    must(ls_queue_sync(f->queue[0]));
    assert_true(value == expected);
    for (int i = 0; i < 2; i++) { /* a queue may still be looking whom to wake */
        must(ls_queue_sync(f->queue[i]));
        ls_event_close(done[i]);
    }
    f->device[1]->backend = own;
}

/* What cannot be ordered so, and a failure that must not be waited past. */
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
    refused(status, LS_CODE_USAGE);
    must(ls_queue_record(f->queue[0], captured));
    refused(ls_queue_wait(f->queue[1], captured), LS_CODE_USAGE);
    must(ls_program_end(f->queue[0], &program));
    ls_program_close(program);
    must(ls_queue_put(f->queue[1], &bad));
    must(ls_queue_record(f->queue[1], event));
    status = ls_queue_wait(f->queue[0], event);
    assert_true(ls_status_is_consequence(status));
    refused(status, LS_CODE_MISSING);
    ls_status_free(ls_queue_sync(f->queue[1]));
    must(ls_queue_sync(f->queue[0]));
    ls_event_close(event);
    ls_event_close(captured);
    f->device[1]->backend = own;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_run_in_order),
        cmocka_unit_test(program_replays),
        cmocka_unit_test(program_joins_queues),
        cmocka_unit_test(capture_must_be_joined_back),
        cmocka_unit_test(ended_capture_captures_nobody),
        cmocka_unit_test(events_order_queues),
        cmocka_unit_test(failure_is_reported_and_hangs_nobody),
        cmocka_unit_test(failure_travels_through_programs),
        cmocka_unit_test(memory_is_zero_and_counted),
        cmocka_unit_test(memory_that_does_not_fit_is_refused),
        cmocka_unit_test(copies_between_devices),
        cmocka_unit_test(operations_are_passed_over),
        cmocka_unit_test(threads_are_bound_and_flush_denormals),
        cmocka_unit_test(the_host_orders_kinds),
        cmocka_unit_test(kinds_are_not_captured_together),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
