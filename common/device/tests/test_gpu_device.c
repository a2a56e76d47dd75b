/* SPDX-License-Identifier: MIT */
/*
 * Devices on a GPU: memory, copies, queues, events, programs, logical devices, failures. Skipped
 * without a GPU. Only copies are enqueued, so no kernel is needed: a step swaps
 * two values, which shows how often it ran. No tolerance: all is exact.
 */
#include "common/device/tests/device_fixture.h"

#include <stdio.h>
#include <unistd.h>
#include <stdlib.h>
#include <string.h>

#include <stdatomic.h>

#if LS_HAS_CUDA
#include "common/base/clock.h"
#include "common/device/cuda/cuda.h"
#include "common/device/watch.h"
#endif

enum { DEVICES = 2 }; /* gpu:0/0 and gpu:0/1 */

static const size_t mib = (size_t)1 << 20;

static int setup(void **state)
{
    return open_gpu_parts(state, DEVICES);
}

static void *take(ls_device *device, size_t bytes)
{
    void *memory = NULL;
    must(ls_device_allocate(device, LS_MEMORY_WORKSPACE, bytes, &memory));
    assert_int_equal((uintptr_t)memory % 64, 0);
    return memory;
}

static uint64_t value_at(ls_queue *queue, const void *place)
{
    uint64_t value = 0;
    must(ls_queue_read(queue, &value, place, sizeof value));
    return value;
}

static void *take_value(fixture *f, int device, uint64_t value)
{
    void *place = take(f->device[device], sizeof value);
    must(ls_queue_write(f->queue[device], place, &value, sizeof value));
    return place;
}

/* Larger than the staging buffer, and not a multiple of it. */
static void memory_is_cleared_and_keeps_its_bytes(void **state)
{
    fixture *f = *state;
    const size_t bytes = 5 * mib + 13;
    unsigned char *host = malloc(bytes), *back = malloc(bytes);
    assert_non_null(host);
    assert_non_null(back);
    for (size_t i = 0; i < bytes; i++)
        host[i] = (unsigned char)(i * 31 + (i >> 12));
    for (int pass = 0; pass < 2; pass++) { /* the second time in used memory */
        void *memory = take(f->device[0], bytes), *copy = take(f->device[1], bytes);
        memset(back, 1, bytes);
        must(ls_queue_read(f->queue[0], back, memory, bytes));
        for (size_t i = 0; i < bytes; i++)
            assert_int_equal(back[i], 0);
        must(ls_queue_write(f->queue[0], memory, host, bytes));
        must(ls_queue_copy(f->queue[1], copy, f->device[1], memory, f->device[0], bytes));
        must(ls_queue_read(f->queue[1], back, copy, bytes));
        assert_memory_equal(host, back, bytes);
        ls_device_release(f->device[0], memory);
        ls_device_release(f->device[1], copy);
    }
    free(host);
    free(back);
}

typedef struct swap {
    void *a, *b, *rest;
} swap;

static void put_copy(fixture *f, int queue, void *to, const void *from)
{
    must(ls_queue_copy(f->queue[queue], to, f->device[queue], from, f->device[queue],
                       sizeof(uint64_t)));
}

static void put_swap(fixture *f, int queue, const swap *s)
{
    put_copy(f, queue, s->rest, s->a);
    put_copy(f, queue, s->a, s->b);
    put_copy(f, queue, s->b, s->rest);
}

static swap make_swap(fixture *f, int device, uint64_t a, uint64_t b)
{
    return (swap){take_value(f, device, a), take_value(f, device, b), take_value(f, device, 0)};
}

static void program_replays(void **state)
{
    fixture *f = *state;
    const swap s = make_swap(f, 0, 7, 9);
    ls_program *program;
    must(ls_program_begin(f->queue[0]));
    must_refuse(ls_program_begin(f->queue[0]), LS_CODE_USAGE, "has already begun");
    must_refuse(ls_queue_sync(f->queue[0]), LS_CODE_USAGE,
                "cannot wait for a queue that is being captured");
    put_swap(f, 0, &s);
    must(ls_program_end(f->queue[0], &program));
    assert_int_equal(ls_program_describe(program).nodes, 3);
    assert_true(ls_program_describe(program).build_ns > 0);
    assert_true(value_at(f->queue[0], s.a) == 7); /* recorded, not run */
    must(ls_program_launch(program, 1001));
    assert_true(value_at(f->queue[0], s.a) == 9);
    must(ls_program_launch(program, 0));
    must(ls_program_launch(program, 2000));
    assert_true(value_at(f->queue[0], s.a) == 9 && value_at(f->queue[0], s.b) == 7);
    ls_program_close(program);
    ls_program_close(NULL);
    must_refuse(ls_program_end(f->queue[0], &program), LS_CODE_USAGE, "no capture has begun");
}

/* One program on two devices: the second joins through an event, and the first waits for it. */
static void capture_spans_queues(void **state)
{
    fixture *f = *state;
    const swap first = make_swap(f, 0, 1, 2), second = make_swap(f, 1, 3, 4);
    ls_event *begun, *done;
    ls_program *program;
    must(ls_event_open(f->device[0], &begun));
    must(ls_event_open(f->device[1], &done));
    must(ls_program_begin(f->queue[0]));
    put_swap(f, 0, &first);
    must(ls_queue_record(f->queue[0], begun));
    must(ls_queue_wait(f->queue[1], begun));
    put_swap(f, 1, &second);
    must(ls_queue_record(f->queue[1], done));
    must(ls_queue_wait(f->queue[0], done));
    must(ls_program_end(f->queue[0], &program));
    assert_int_equal(ls_program_describe(program).nodes, 6);
    must(ls_program_launch(program, 501));
    must(ls_queue_sync(f->queue[0]));
    assert_true(value_at(f->queue[0], first.a) == 2 && value_at(f->queue[1], second.a) == 4);
    ls_program_close(program);
    ls_event_close(begun);
    ls_event_close(done);
}

static void unjoined_capture_is_refused(void **state)
{
    fixture *f = *state;
    const swap s = make_swap(f, 0, 1, 2), other = make_swap(f, 1, 3, 4);
    ls_event *begun;
    ls_program *program = NULL;
    must(ls_event_open(f->device[0], &begun));
    must(ls_program_begin(f->queue[0]));
    put_swap(f, 0, &s);
    must(ls_queue_record(f->queue[0], begun));
    must(ls_queue_wait(f->queue[1], begun));
    put_swap(f, 1, &other);
    must_refuse(ls_program_end(f->queue[0], &program), LS_CODE_USAGE,
                "does not wait for another queue");
    assert_null(program);
    ls_event_close(begun);
    put_swap(f, 0, &s); /* the queue still works */
    assert_true(value_at(f->queue[0], s.a) == 2);
}

static void events_order_queues(void **state)
{
    fixture *f = *state;
    enum { ROUNDS = 200 };
    ls_event *event[DEVICES];
    const size_t bytes = 4 * mib; /* long enough to be overtaken */
    char *big = take(f->device[0], bytes), *copy = take(f->device[1], bytes);
    uint64_t round;
    for (int i = 0; i < DEVICES; i++)
        must(ls_event_open(f->device[i], &event[i]));
    void *place[DEVICES] = {take_value(f, 0, 0), take_value(f, 1, 0)};
    for (round = 1; round <= ROUNDS; round++) {
        void *source = take_value(f, 0, round);
        must(ls_queue_wait(f->queue[0], event[1])); /* the previous round's copy is finished */
        must(ls_queue_copy(f->queue[0], big, f->device[0], copy, f->device[1], bytes));
        put_copy(f, 0, place[0], source);
        must(ls_queue_record(f->queue[0], event[0]));
        must(ls_queue_wait(f->queue[1], event[0]));
        must(ls_queue_copy(f->queue[1], place[1], f->device[1], place[0], f->device[0],
                           sizeof round));
        must(ls_queue_record(f->queue[1], event[1]));
        must(ls_event_sync(event[1]));
        assert_true(value_at(f->queue[1], place[1]) == round);
        ls_device_release(f->device[0], source);
    }
    for (int i = 0; i < DEVICES; i++)
        ls_event_close(event[i]);
}

static void parts_have_a_share_each(void **state)
{
    fixture *f = *state;
    const ls_device_name whole_name = {.kind = LS_DEVICE_GPU, .index = 0, .logical = -1};
    const ls_memory_policy policy = {.kind = LS_MEMORY_FRACTION, .fraction = 0.5};
    ls_device *whole;
    void *memory;
    must(ls_device_open(f->machine, &whole_name, &policy, &whole));
    const size_t share = ls_device_describe(f->device[0])->capacity;
    assert_true(share > 0 && ls_device_describe(f->device[1])->capacity == share);
    assert_in_range(ls_device_describe(whole)->capacity, 2 * share, 2 * share + 1);
    assert_in_range(ls_device_ledger(whole).limit, share, share + 1);
    assert_int_equal(ls_device_describe(whole)->core_count, 0);
    must_refuse(ls_device_allocate(f->device[0], LS_MEMORY_PARAMETERS, share + 1, &memory),
                LS_CODE_MISSING, "memory: gpu:0/0: ");
    ls_device_release(f->device[0], take(f->device[0], mib)); /* it still works */
    ls_device_close(whole);
}

static void data_is_shared(void **state)
{
    fixture *f = *state;
    static const char data[] = "a data set";
    const void *shared[DEVICES];
    char back[sizeof data];
    for (int i = 0; i < DEVICES; i++)
        must(ls_device_share(f->device[i], data, sizeof data, &shared[i]));
    assert_ptr_equal(shared[0], shared[1]);
    must(ls_queue_read(f->queue[1], back, shared[1], sizeof back));
    assert_string_equal(back, data);
    for (int i = 0; i < DEVICES; i++)
        ls_device_unshare(f->device[i], shared[i]);
    ls_device_unshare(f->device[0], NULL);
}

static ls_status note(void *context)
{
    *(bool *)context = true;
    return LS_OK;
}

static ls_status give_up(void *context)
{
    return ls_fail(LS_CODE_CHECK, "test", NULL, "on purpose");
}

static ls_status fail_op(ls_op *op, ls_queue *queue)
{
    return ls_fail(LS_CODE_CHECK, "test", NULL, "on purpose");
}

static void failures_come_back(void **state)
{
    fixture *f = *state;
    bool called = false;
    ls_op op = {.name = "broken", .run = fail_op, .destroy = keep};
    must(ls_device_call(f->device[0], note, &called));
    assert_true(called);
    must_refuse(ls_device_call(f->device[0], give_up, NULL), LS_CODE_CHECK, "on purpose");
    must_refuse(ls_queue_enqueue(f->queue[0], &op), LS_CODE_CHECK, "on purpose");
    must(ls_queue_sync(f->queue[0]));
}

/* ---- A stream that hangs: a function of the host is what it waits for ------------------------ */

#if LS_HAS_CUDA
static atomic_bool released;

static void hold(void *context)
{
    while (!atomic_load(&released))
        ls_clock_sleep(1000000);
}

static ls_status run_hold(ls_op *op, ls_queue *queue)
{
    return ls_cuda_check("gpu:0", op->name, cudaLaunchHostFunc(ls_queue_native(queue), hold, NULL));
}
#endif

static void a_queue_that_hangs_is_lost(void **state)
{
#if LS_HAS_CUDA
    fixture *f = *state;
    ls_op op = {.name = "hold", .run = run_hold, .destroy = keep};
    ls_watch *watch;
    ls_queue *queue;
    must(ls_watch_open(200000000, &watch));
    ls_device_watch(f->device[0], watch);
    must(ls_queue_open(f->device[0], "stuck", &queue));
    must(ls_queue_sync(queue));
    must(ls_queue_enqueue(queue, &op));
    must_refuse(ls_queue_sync(queue), LS_CODE_MISSING,
                "gpu:0/0: this device has made no progress in queue stuck for ");
    must_refuse(ls_queue_sync(f->queue[1]), LS_CODE_MISSING, "the GPU failed"); /* one GPU */
    atomic_store(&released, true);
    ls_queue_close(queue);
    ls_queue_close(f->queue[0]);
    ls_device_close(f->device[0]);
    ls_watch_close(watch);
    f->queue[0] = NULL;
    f->device[0] = NULL;
#else
#endif
}

int main(void)
{
    if (no_gpu_here())
        return SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(memory_is_cleared_and_keeps_its_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(program_replays, setup, teardown),
        cmocka_unit_test_setup_teardown(capture_spans_queues, setup, teardown),
        cmocka_unit_test_setup_teardown(unjoined_capture_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(events_order_queues, setup, teardown),
        cmocka_unit_test_setup_teardown(parts_have_a_share_each, setup, teardown),
        cmocka_unit_test_setup_teardown(data_is_shared, setup, teardown),
        cmocka_unit_test_setup_teardown(failures_come_back, setup, teardown),
        cmocka_unit_test_setup_teardown(a_queue_that_hangs_is_lost, setup, teardown),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fflush(NULL);
    _exit(failed); /* CUDA's destructors would run beside the function that held the stream */
}
