/* SPDX-License-Identifier: MIT */
/* Devices on CPUs: queues, events, memory, copies, threads. No tolerance: all is exact. */
#include "common/device/tests/device_affine.h"

#include <sched.h>
#include <string.h>

enum { DEVICES = 3, REPLAYS = 1000 };

static int setup(void **state)
{
    return open_cpus(state, DEVICES);
}

static void operations_run_in_order(void **state)
{
    fixture *f = *state;
    uint64_t value = 1;
    affine three = make_affine(&value, 3, 0), plus = make_affine(&value, 1, 1);
    uint64_t expected = 1;
    for (int i = 0; i < 2000; i++) { /* more than the ring holds */
        must(ls_queue_enqueue(f->queue[0], i % 2 ? &plus.op : &three.op));
        expected = i % 2 ? expected + 1 : expected * 3;
    }
    must(ls_queue_sync(f->queue[0]));
    assert_true(value == expected);
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
        must(ls_queue_enqueue(f->queue[0], &plus.op));
        must(ls_queue_record(f->queue[0], event));
        must(ls_queue_wait(f->queue[1], event));
        must(ls_queue_enqueue(f->queue[1], &look.op));
        must(ls_queue_record(f->queue[1], event));
        must(ls_queue_wait(f->queue[0], event));
    }
    must(ls_event_sync(event));
    assert_int_equal(seen, 500);
    must(ls_queue_sync(f->queue[0]));
    must(ls_queue_sync(f->queue[1]));
    ls_event_close(event);
}

/* Skips every other run. */
typedef struct choice {
    ls_op op;
    uint64_t runs;
    bool pass;
} choice;

static ls_status run_choice(ls_op *op, ls_queue *queue)
{
    choice *c = (choice *)op;
    c->pass = c->runs++ % 2 == 1;
    return LS_OK;
}

/* On the queue that chooses, and on one that waits for it; later operations always run. */
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
    must(ls_queue_enqueue(f->queue[0], &chooses.op));
    must(ls_queue_record(f->queue[0], chosen));
    must(ls_queue_wait(f->queue[1], chosen));
    for (int q = 0; q < 2; q++) {
        must(ls_queue_skip(f->queue[q], &chooses.pass));
        must(ls_queue_enqueue(f->queue[q], &plus[2 * q].op));
        must(ls_queue_skip(f->queue[q], NULL));
        must(ls_queue_enqueue(f->queue[q], &plus[2 * q + 1].op));
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
    must(ls_queue_skip(f->queue[0], &chooses.pass));
    must(ls_queue_enqueue(f->queue[0], &plus[0].op));
    must(ls_queue_skip(f->queue[0], NULL));
    must(ls_queue_enqueue(f->queue[0], &plus[1].op));
    must(ls_queue_sync(f->queue[0]));
    assert_int_equal(count[0], REPLAYS / 2);
    assert_int_equal(count[1], REPLAYS + 1);
    ls_program_close(program);
    ls_event_close(chosen);
    ls_event_close(done);
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
        assert_int_equal(memory[i], 0); /* also if it was used before */
    ls_device_release(f->device[0], memory);
    ls_device_release(f->device[0], empty);
    assert_int_equal(ls_device_ledger(f->device[0]).in_use[LS_MEMORY_ACTIVATIONS], 0);
    const size_t before = ls_device_ledger(f->device[0]).of_type[LS_MEMORY_FLOAT32];
    must(ls_device_allocate(f->device[0], LS_MEMORY_AS(LS_MEMORY_ACTIVATIONS, LS_MEMORY_BF16), 246,
                            (void **)&memory));
    const ls_memory_ledger ledger = ls_device_ledger(f->device[0]);
    assert_int_equal(ledger.in_use[LS_MEMORY_ACTIVATIONS], 246);
    assert_int_equal(ledger.of_type[LS_MEMORY_BF16], 246);
    assert_int_equal(ledger.of_type[LS_MEMORY_FLOAT32], before);
    ls_device_release(f->device[0], memory);
    assert_int_equal(ls_device_ledger(f->device[0]).of_type[LS_MEMORY_BF16], 0);
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
    must_refuse(ls_device_allocate(small, LS_MEMORY_PARAMETERS, capacity / 500, &memory),
                LS_CODE_MISSING, "");
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

/* What a thread of the device observes. */
typedef struct probe {
    ls_op op;
    int core;
    bool flushed;
} probe;

static ls_status run_probe(ls_op *op, ls_queue *queue)
{
    probe *p = (probe *)op;
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
        must(ls_queue_enqueue(f->queue[i], &p.op));
        must(ls_queue_sync(f->queue[i]));
        assert_int_equal(info->core_count, 1);
        assert_int_equal(p.core, info->cores[0]);
        assert_true(p.flushed == info->flushes_denormals);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_run_in_order),
        cmocka_unit_test(events_order_queues),
        cmocka_unit_test(memory_is_zero_and_counted),
        cmocka_unit_test(memory_that_does_not_fit_is_refused),
        cmocka_unit_test(copies_between_devices),
        cmocka_unit_test(operations_are_passed_over),
        cmocka_unit_test(threads_are_bound_and_flush_denormals),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
