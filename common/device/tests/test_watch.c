/* SPDX-License-Identifier: MIT */
/*
 * Which device a watch names, from what devices report: GPUs here, which cannot tell computing from
 * waiting for each other. Real queues: test_watch_emulated and test_faults_devices. No tolerance.
 */
#include "common/base/clock.h"
#include "common/base/tests/must.h"
#include "common/device/backend.h"
#include "common/device/cpu/cpu.h"
#include "common/device/watch.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { DEVICES = 3, LOOKS_MOST = 20 };

typedef struct said_queue {
    ls_queue base;
    ls_activity at;
} said_queue;

static void tell(const ls_queue *queue, ls_activity *out)
{
    *out = ((const said_queue *)queue)->at;
}

/* Checks until a device is lost; the refusal contains its name. */
static void named(const uint64_t replays[DEVICES], const int at_work[DEVICES], const char *name)
{
    static const ls_device_backend backend = {.queue_activity = tell};
    ls_device devices[DEVICES] = {0};
    said_queue queues[DEVICES] = {0};
    ls_watch *watch;
    ls_status status = LS_OK;
    must(ls_watch_open(1000, &watch));
    for (int i = 0; i < DEVICES; i++) {
        devices[i].backend = &backend;
        devices[i].info.name.kind = LS_DEVICE_GPU;
        snprintf(devices[i].info.text, sizeof devices[i].info.text, "gpu:%d", i);
        queues[i].base = (ls_queue){.device = &devices[i], .name = "compute"};
        queues[i].at = (ls_activity){.kind = at_work[i] ? LS_AT_WORK : LS_AT_REST,
                                     .replays = replays[i],
                                     .what = "queue compute"};
        must(ls_watch_add(watch, &queues[i].base));
    }
    for (int look = 0; look < LOOKS_MOST && !status; look++)
        status = ls_watch_look(watch);
    if (!name) {
        assert_null(status);
    } else {
        assert_non_null(status);
        assert_non_null(strstr(ls_status_text(status), name));
        for (int i = 0; i < DEVICES; i++)
            assert_true(devices[i].lost); /* they share programs */
    }
    ls_status_free(status);
    ls_watch_close(watch);
}

static void the_gpu_that_ended_least_is_named(void **state)
{
    const int all[DEVICES] = {1, 1, 1}, two[DEVICES] = {1, 0, 1}, none[DEVICES] = {0};
    named((uint64_t[]){8, 7, 8}, all, "gpu:1: ");
    named((uint64_t[]){8, 8, 3}, all, "gpu:2: ");
    named((uint64_t[]){8, 8, 8}, all, "gpu:0: ");
    named((uint64_t[]){8, 2, 7}, two, "gpu:2: "); /* an idle device delays no other */
    named((uint64_t[]){UINT64_MAX, 9, 9}, all, "gpu:1: ");
    named((uint64_t[]){8, 7, 8}, none, NULL);
}

static bool never(void)
{
    return false;
}

static void *end_late(void *signal)
{
    ls_clock_sleep(1000000000);
    ls_signal_post(signal, 1);
    return NULL;
}

/* A device that works for 1 s while another rests is not lost after a second of a timeout of 10 s,
 * though the host, which heeds signals, wakes up each 0.1 s. */
static void a_slow_device_is_not_lost(void **state)
{
    static const ls_device_backend backend = {.queue_activity = tell};
    ls_device devices[2] = {0};
    said_queue queues[2] = {0};
    ls_watch *watch;
    ls_signal signal = {0};
    pthread_t thread;
    must(ls_watch_open(10000000000, &watch));
    for (int i = 0; i < 2; i++) {
        devices[i] = (ls_device){.backend = &backend, .watch = watch, .asked = never};
        queues[i].base = (ls_queue){.device = &devices[i], .name = "compute"};
        queues[i].at.kind = i ? LS_AT_REST : LS_AT_WORK;
        must(ls_watch_add(watch, &queues[i].base));
    }
    assert_int_equal(pthread_create(&thread, NULL, end_late, &signal), 0);
    must(ls_cpu_await(&devices[1], &signal, 1, true));
    assert_int_equal(pthread_join(thread, NULL), 0);
    ls_watch_close(watch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_gpu_that_ended_least_is_named),
                                       cmocka_unit_test(a_slow_device_is_not_lost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
