/* SPDX-License-Identifier: MIT */
/*
 * GPUs under a watch, emulated (cuda_emulate.h): replays that never finish end with one line that
 * names queue and step, in whatever call the host waits; slow replays are waited for, however long;
 * finished steps send signs of life to other ranks; a second SIGINT ends a waiting program. Nothing
 * depends on the machine's speed: an alarm ends a hang. Skipped in a build without CUDA.
 */
#include "bench/train/interrupt.h"
#include "bench/train/session.h"
#include "common/base/tests/must.h"
#include "common/device/machine_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#if LS_HAS_CUDA
#include "common/device/cuda/cuda.h"
#include "common/device/tests/cuda_emulate.h"

enum { SECONDS = 800, FIRST = 30, ENDED = 7, MANY = 5000 };

static const uint64_t short_ns = 200000000, long_ns = 60000000000;

typedef struct fixture {
    ls_machine *machine;
    ls_device *device;
    ls_watch *watch;
    ls_queue *queue;
    ls_program *program;
    ls_event *event;
} fixture;

static void open_watched(fixture *f, uint64_t timeout_ns)
{
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    const ls_device_name name = {.kind = LS_DEVICE_GPU, .logical = -1};
    ls_gpus gpus = {.items = calloc(1, sizeof(ls_gpu)), .count = 1};
    must(ls_machine_open(&(ls_machine_options){.cpu_devices = 1}, &f->machine));
    for (int i = 0; i < f->machine->gpus.count; i++)
        ls_arena_destroy(f->machine->arenas[i]);
    free(f->machine->arenas);
    free(f->machine->gpus.items);
    f->machine->logical_gpus = 1;
    must(ls_machine_take_gpus(f->machine, &gpus));
    must(ls_device_open(f->machine, &name, &policy, &f->device));
    must(ls_watch_open(timeout_ns, &f->watch));
    ls_device_watch(f->device, f->watch);
    must(ls_queue_open(f->device, "compute", &f->queue));
    must(ls_event_open(f->device, &f->event));
    must(ls_program_begin(f->queue));
    must(ls_program_end(f->queue, &f->program));
    ls_watch_begin(f->watch, FIRST);
}

/* As a session closes; does not wait for lost devices. */
static void close_watched(fixture *f)
{
    ls_program_close(f->program);
    ls_event_close(f->event);
    ls_queue_close(f->queue);
    ls_device_close(f->device);
    ls_watch_close(f->watch);
    ls_machine_close(f->machine);
}

/* The call in which the host waits for a queue. */
typedef enum way { BY_SYNC, BY_READ, BY_EVENT, BY_LAUNCH, BY_PUT, WAYS } way;

/* An operation of several launches. */
static ls_status run_some(ls_op *op, ls_queue *queue)
{
    (void)op;
    for (int i = 0; i < 4; i++)
        __wrap_cudaGraphLaunch(NULL, ls_queue_native(queue));
    return LS_OK;
}

static void keep(ls_op *op)
{
    (void)op;
}

static ls_status wait_by(fixture *f, way by)
{
    ls_op some = {.name = "some", .run = run_some, .destroy = keep};
    char memory[8];
    LS_TRY(ls_program_launch(f->program, by == BY_LAUNCH ? MANY : ENDED + 3));
    if (by == BY_EVENT) {
        must(ls_queue_record(f->queue, f->event));
        return ls_event_sync(f->event);
    }
    for (int i = 0; by == BY_PUT && i < MANY; i++)
        LS_TRY(ls_queue_enqueue(f->queue, &some));
    return by == BY_READ ? ls_queue_read(f->queue, memory, memory, sizeof memory)
                         : ls_queue_sync(f->queue);
}

/* The message of a session that has lost the device, without the time. */
static void tell(const fixture *f, char *out, size_t size)
{
    ls_session session = {.watch = f->watch,
                          .devices = (ls_device *[]){f->device},
                          .device_count = 1,
                          .latest_first = FIRST,
                          .latest_count = MANY,
                          .job.kernels.capture = true};
    ls_case one = {.ranks = 1};
    ls_plan_of_case plan = {.config = &one, .all_devices = 1, .device_count = 1};
    FILE *file = tmpfile();
    const int saved = dup(STDERR_FILENO);
    session.plan = &plan;
    assert_non_null(file);
    fflush(stderr);
    dup2(fileno(file), STDERR_FILENO);
    ls_session_autopsy(&session);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    out[fread(out, 1, size - 1, file)] = 0;
    fclose(file);
}

static void replays_that_never_drain_are_one_line(void **state)
{
    (void)state;
    for (way by = 0; by < WAYS; by++) {
        fixture f;
        char said[512];
        open_watched(&f, short_ns);
        emulate_launches(ls_queue_native(f.queue), ls_cuda_queue_steps(f.queue), 1, ENDED);
        ls_status status = wait_by(&f, by);
        assert_non_null(status);
        assert_true(ls_status_is_final(status) && ls_status_code(status) == LS_CODE_MISSING);
        assert_non_null(
            strstr(ls_status_text(status),
                   "device: gpu:0: this device has made no progress in queue compute for "));
        assert_non_null(
            strstr(ls_status_text(status), "; find what stops the device, or raise --timeout"));
        ls_status_free(status);
        tell(&f, said, sizeof said);
        assert_non_null(strstr(said, "lockstep: device gpu:0: silent: runs without progress in "
                                     "queue compute, last sign of life "));
        assert_non_null(
            strstr(said, " s ago, step 37; find what stops the device, or raise --timeout"));
        assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
        status = ls_queue_sync(f.queue); /* from here on without delay */
        assert_true(ls_status_is_final(status) && ls_status_is_consequence(status));
        ls_status_free(status);
        close_watched(&f);
    }
}

/* Three times the timeout in total, but each replay is shorter than that. */
static void slow_replays_are_waited_for(void **state)
{
    (void)state;
    for (way by = 0; by < BY_LAUNCH; by++) {
        fixture f;
        open_watched(&f, short_ns);
        emulate_launches(ls_queue_native(f.queue), ls_cuda_queue_steps(f.queue), short_ns / 4,
                         UINT64_MAX);
        must(ls_program_launch(f.program, 12));
        const uint64_t begin_ns = ls_clock_ns();
        must(wait_by(&f, by));
        assert_true(ls_clock_ns() - begin_ns > 2 * short_ns);
        assert_false(ls_watch_lost(f.watch));
        close_watched(&f);
        assert_int_equal(cuda_emulated.ended, 12 + ENDED + 3);
    }
}

/* One call enqueues many replays, although CUDA has room for few. */
static void the_host_is_some_replays_ahead(void **state)
{
    fixture f;
    (void)state;
    open_watched(&f, long_ns);
    emulate_launches(ls_queue_native(f.queue), ls_cuda_queue_steps(f.queue), 10000, UINT64_MAX);
    must(ls_program_launch(f.program, MANY));
    must(ls_queue_sync(f.queue));
    assert_int_equal(*ls_cuda_queue_steps(f.queue), FIRST + MANY);
    close_watched(&f);
}

/* For other ranks, sent by a thread that never calls CUDA. */
static void steps_that_end_are_signs_of_life(void **state)
{
    fixture f;
    bool busy = true;
    (void)state;
    open_watched(&f, long_ns);
    ls_pulse *pulse = ls_machine_pulse(f.machine);
    emulate_launches(ls_queue_native(f.queue), ls_cuda_queue_steps(f.queue), 1, ENDED);
    must(ls_program_launch(f.program, ENDED + 1));
    while (busy && cuda_emulated.ended < ENDED)
        busy = emulated_is_busy(ls_queue_native(f.queue));
    assert_true(ls_pulse_moved(pulse)); /* it was launched, and steps have finished */
    assert_false(ls_pulse_moved(pulse));
    cuda_emulated.last++;
    while (emulated_is_busy(ls_queue_native(f.queue)))
        ls_clock_sleep(1000);
    assert_true(ls_pulse_moved(pulse)); /* without any host call: the step itself signals */
    assert_false(ls_pulse_moved(pulse));
    close_watched(&f);
}

static void a_second_interrupt_ends_a_wait(void **state)
{
    int result = 0, ends[2];
    char byte = 0;
    (void)state;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        fixture f;
        ls_interrupt_install();
        open_watched(&f, long_ns);
        emulate_launches(ls_queue_native(f.queue), ls_cuda_queue_steps(f.queue), 1, ENDED);
        raise(SIGINT);
        _exit(write(ends[1], &byte, 1) == 1 && wait_by(&f, BY_LAUNCH) ? 3 : 0);
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    ls_clock_sleep(300000000); /* longer than a launcher takes to forward the first */
    kill(child, SIGINT);
    assert_int_equal(waitpid(child, &result, 0), child);
    close(ends[0]);
    close(ends[1]);
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), 130);
}

int main(void)
{
    alarm(SECONDS);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replays_that_never_drain_are_one_line),
        cmocka_unit_test(slow_replays_are_waited_for),
        cmocka_unit_test(the_host_is_some_replays_ahead),
        cmocka_unit_test(steps_that_end_are_signs_of_life),
        cmocka_unit_test(a_second_interrupt_ends_a_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    puts("skipped: this build has no CUDA");
    return 77;
}
#endif
