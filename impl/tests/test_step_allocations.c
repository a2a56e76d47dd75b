/* SPDX-License-Identifier: MIT */
/*
 * What a replayed step allocates: our own code nothing, libraries the same number of calls in each
 * step. Every function of the malloc family is intercepted, and attributed to the object that
 * contains its caller. No tolerance. The steps are enclosed by two getppid calls, which
 * test_syscalls.sh looks for in a trace of this program.
 */
#include "common/base/tests/must.h"
#include "common/comm/comm.h"
#include "impl/slice.h"
#include "impl/strategies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifdef SANITIZED
int main(void)
{
    puts("skipped: the sanitizer's own malloc cannot be intercepted");
    return 77;
}
#else

static _Atomic long own_calls, library_calls;
static _Atomic int counting;

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

/* Our code is in this executable, which links the library statically. */
static void count_call(const void *caller)
{
    Dl_info theirs, mine;
    if (!atomic_load(&counting))
        return;
    atomic_store(&counting, 0); /* dladdr may allocate */
    int own = dladdr(caller, &theirs) && dladdr((const void *)&count_call, &mine) &&
              theirs.dli_fbase == mine.dli_fbase;
    atomic_fetch_add(own ? &own_calls : &library_calls, 1);
    atomic_store(&counting, 1);
}

__attribute__((noinline)) void *malloc(size_t size)
{
    count_call(__builtin_return_address(0));
    return __libc_malloc(size);
}

__attribute__((noinline)) void *calloc(size_t count, size_t size)
{
    count_call(__builtin_return_address(0));
    return __libc_calloc(count, size);
}

__attribute__((noinline)) void *realloc(void *memory, size_t size)
{
    count_call(__builtin_return_address(0));
    return __libc_realloc(memory, size);
}

__attribute__((noinline)) void *aligned_alloc(size_t alignment, size_t size)
{
    count_call(__builtin_return_address(0));
    return __libc_memalign(alignment, size);
}

__attribute__((noinline)) int posix_memalign(void **out, size_t alignment, size_t size)
{
    count_call(__builtin_return_address(0));
    *out = __libc_memalign(alignment, size);
    return *out ? 0 : ENOMEM;
}

enum { STEPS = 250 };

typedef struct counts {
    long own, library;
} counts;

static counts count_steps(ls_run *run, uint64_t steps)
{
    must(run->kind->sync(run));
    atomic_store(&own_calls, 0);
    atomic_store(&library_calls, 0);
    atomic_store(&counting, 1);
    if (run->job->capture) /* otherwise the host, which enqueues every operation, sometimes waits */
        (void)getppid();
    ls_status put = run->kind->step(run, false, steps);
    ls_status done = run->kind->sync(run);
    if (run->job->capture)
        (void)getppid();
    atomic_store(&counting, 0);
    must(put);
    must(done);
    return (counts){own_calls, library_calls};
}

static void check(const char *model_name, const char *data_name, bool exact, bool capture)
{
    ls_machine *machine;
    ls_device *device;
    ls_model *model;
    ls_data *data;
    ls_run *run;
    const ls_device_name name = {.kind = LS_DEVICE_CPU, .index = 0, .logical = -1};
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    must(ls_machine_open(&(ls_machine_options){0}, &machine));
    must(ls_device_open(machine, &name, &policy, &device));
    must(ls_model_open(model_name, &model));
    must(ls_data_open(data_name, &model->need, &data));
    ls_job job = {.model = model,
                  .data = data,
                  .devices = &device,
                  .device_count = 1,
                  .batch = model->kind->default_batch,
                  .seed = 1,
                  .shuffle = true,
                  .flip_replica = -1,
                  .schedule = {.initial = 0.001},
                  .exact = exact,
                  .micro_shards = capture ? 4 : 64,
                  .capture = capture,
                  .records = 64};
    must(ls_optimizer_parse(model->kind->default_optimizer, &job.optimizer));
    must(ls_strategy_open(&ls_strategy_single, &job, &run));
    float *values = calloc(model->graph->variables.elements, sizeof *values);
    ls_variables_initialize(&model->graph->variables, 1, values);
    must(run->kind->load(run, values));
    must(run->kind->step(run, false, 10)); /* warm-up */
    counts once = count_steps(run, STEPS), again = count_steps(run, 2 * STEPS);
    print_message("%s: a step allocates %ld times by our code, %ld by libraries\n", model_name,
                  once.own / STEPS, once.library / STEPS);
    assert_int_equal(once.own, 0);
    assert_int_equal(again.own, 0);
    assert_int_equal(once.library % STEPS, 0);
    assert_int_equal(again.library, 2 * once.library);
    free(values);
    run->kind->close(run);
    ls_data_close(data);
    ls_model_close(model);
    ls_device_close(device);
    ls_machine_close(machine);
}

static void mlp_fast(void **state)
{
    (void)state;
    check("mlp:784-128-10", "synthetic:2000", false, true);
}

static void mlp_exact(void **state)
{
    (void)state;
    check("mlp:784-128-10", "synthetic:2000", true, true);
}

static void poly_fast(void **state)
{
    (void)state;
    check("poly", "synthetic", false, true);
}

/* A step of more operations than a queue's initial size; the ring grows in the warm-up. */
static void uncaptured(void **state)
{
    (void)state;
    check("poly", "synthetic", true, false);
}

/* The messages between parameter servers and their workers in a step. */
static void small_messages(void **state)
{
    enum { BYTES = 64, TAG = 1 };
    ls_machine *machine;
    ls_device *device[2];
    ls_comm *comms[2];
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    char message[BYTES] = "", more[BYTES];
    (void)state;
    must(ls_machine_open(&(ls_machine_options){0}, &machine));
    for (int i = 0; i < 2; i++) {
        const ls_device_name name = {.kind = LS_DEVICE_CPU, .index = i, .logical = -1};
        must(ls_device_open(machine, &name, &policy, &device[i]));
    }
    must(ls_comm_open(NULL, NULL, device, 2, comms));
    const ls_comm_backend *b = comms[0]->backend;
    atomic_store(&own_calls, 0);
    atomic_store(&counting, 1);
    for (int i = 0; i < STEPS; i++) {
        int from;
        size_t bytes;
        ls_status_free(b->send(comms[0], 1, TAG, message, BYTES));
        ls_status_free(b->send(comms[1], 1, TAG, message, BYTES));
        ls_status_free(b->receive(comms[1], 0, TAG, more, BYTES));
        ls_status_free(b->receive_any(comms[1], TAG, more, BYTES, &from, &bytes));
    }
    atomic_store(&counting, 0);
    assert_int_equal(own_calls, 0);
    for (int i = 0; i < 2; i++)
        ls_comm_close(comms[i]);
    for (int i = 0; i < 2; i++)
        ls_device_close(device[i]);
    ls_machine_close(machine);
}

/* Checks the interception: an allocation here counts as ours. */
static void interception_counts(void **state)
{
    (void)state;
    atomic_store(&own_calls, 0);
    atomic_store(&counting, 1);
    void *volatile memory = malloc(100);
    atomic_store(&counting, 0);
    free(memory);
    assert_int_equal(own_calls, 1);
}

/* An argument names a test to skip. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interception_counts), cmocka_unit_test(mlp_fast),
        cmocka_unit_test(mlp_exact),           cmocka_unit_test(poly_fast),
        cmocka_unit_test(uncaptured),          cmocka_unit_test(small_messages),
    };
    if (argc > 1)
        cmocka_set_skip_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
