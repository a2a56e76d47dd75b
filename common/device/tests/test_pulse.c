/* SPDX-License-Identifier: MIT */
/* Pulse: queues that progress are noticed by another thread than the working one; queues that wait,
 * rest or hang are not. No part depends on how long anything takes. */
#include "common/base/signal.h"
#include "common/device/machine_gpus.h"
#include "common/device/pulse.h"
#include "common/device/tests/device_fixture.h"

/* An operation that signals its start, and ends when the test releases it. */
typedef struct gate_op {
    ls_op op;
    ls_signal begun, go;
} gate_op;

static ls_status run_gate(ls_op *op, ls_queue *queue)
{
    gate_op *g = (gate_op *)op;
    ls_signal_post(&g->begun, 1);
    ls_signal_wait(&g->go, 1, 0);
    return LS_OK;
}

static ls_status touch(void *context)
{
    *(int *)context = 1;
    return LS_OK;
}

static void what_goes_on_is_seen(void **state)
{
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    const ls_device_name name = {.kind = LS_DEVICE_CPU, .index = 0, .logical = -1};
    gate_op first = {.op = {.name = "first", .run = run_gate, .destroy = keep}}, second = first;
    ls_machine *machine;
    ls_device *device;
    ls_queue *queue;
    void *memory;
    int touched = 0;
    must(ls_machine_open(&(ls_machine_options){.cpu_devices = 1}, &machine));
    ls_pulse *pulse = ls_machine_pulse(machine);
    assert_false(ls_pulse_moved(pulse)); /* no queue */
    must(ls_device_open(machine, &name, &policy, &device));
    must(ls_queue_open(device, "test", &queue));
    ls_pulse_moved(pulse);
    assert_false(ls_pulse_moved(pulse)); /* at rest */
    must(ls_queue_enqueue(queue, &first.op));
    must(ls_queue_enqueue(queue, &second.op));
    ls_signal_wait(&first.begun, 1, 0);
    assert_true(ls_pulse_moved(pulse));  /* has started an operation */
    assert_false(ls_pulse_moved(pulse)); /* is still in it: it may hang */
    ls_signal_post(&first.go, 1);
    ls_signal_wait(&second.begun, 1, 0);
    assert_true(ls_pulse_moved(pulse)); /* the next one */
    assert_false(ls_pulse_moved(pulse));
    must(ls_device_call(device, touch, &touched)); /* set-up, on a thread of the device */
    assert_true(touched && ls_pulse_moved(pulse));
    must(ls_device_allocate(device, LS_MEMORY_WORKSPACE, 100, &memory));
    assert_true(ls_pulse_moved(pulse));
    ls_signal_post(&second.go, 1);
    must(ls_queue_sync(queue));
    assert_true(ls_pulse_moved(pulse));
    assert_false(ls_pulse_moved(pulse));
    ls_device_release(device, memory);
    ls_queue_close(queue);
    ls_device_close(device);
    assert_false(ls_pulse_moved(pulse)); /* no queue is left */
    ls_machine_close(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_goes_on_is_seen)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
