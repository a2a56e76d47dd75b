/* SPDX-License-Identifier: MIT */
/*
 * What a replayed step allocates: our own code nothing, libraries the same number of calls in each
 * step. And where a queue cannot grow, because an allocation fails: a program is launched on all of
 * its queues or on none, and of several programs that wait for each other none hangs. Every
 * function of the malloc family is intercepted, and attributed to the object that contains its
 * caller. No tolerance. The steps are enclosed by two getppid calls, which test_syscalls.sh looks
 * for in a trace of this program.
 */
#include "common/base/tests/must.h"
#include "common/comm/comm.h"
#include "common/device/cpu/cpu.h"
#include "impl/replica/slice.h"
#include "impl/step/run/run.h"
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

/* How many pieces of queues can still be allocated; below 0: any number. */
static _Atomic int pieces_left = -1;

static int has_none(size_t size)
{
    if (size != sizeof(cpu_segment) || atomic_load(&pieces_left) < 0)
        return 0;
    if (atomic_load(&pieces_left) == 0)
        return 1;
    atomic_fetch_sub(&pieces_left, 1);
    return 0;
}

__attribute__((noinline)) void *malloc(size_t size)
{
    if (has_none(size))
        return NULL;
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
    must(run->functions->sync(run));
    atomic_store(&own_calls, 0);
    atomic_store(&library_calls, 0);
    atomic_store(&counting, 1);
    if (run->job->kernels
            .capture) /* otherwise the host, which enqueues every operation, sometimes waits */
        (void)getppid();
    ls_status put = run->functions->step(run, LS_FULL, steps);
    ls_status done = run->functions->sync(run);
    if (run->job->kernels.capture)
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
                  .batch = model->family->default_batch,
                  .seed = 1,
                  .sampling.shuffle = true,
                  .faults.flip_replica = -1,
                  .update.schedule = {.initial = 0.001},
                  .exact.on = exact,
                  .exact.shards = capture ? 4 : 64,
                  .kernels.capture = capture,
                  .records = 64};
    must(ls_optimizer_parse(model->family->default_optimizer, &job.update.optimizer));
    must(ls_strategy_open(&ls_strategy_single, &job, &run));
    float *values = calloc(model->graph->variables.elements, sizeof *values);
    ls_variables_initialize(&model->graph->variables, 1, values);
    must(ls_run_load(run, values));
    must(run->functions->step(run, LS_FULL, 10)); /* warm-up */
    counts once = count_steps(run, STEPS), again = count_steps(run, 2 * STEPS);
    print_message("%s: a step allocates %ld times by our code, %ld by libraries\n", model_name,
                  once.own / STEPS, once.library / STEPS);
    assert_int_equal(once.own, 0);
    assert_int_equal(again.own, 0);
    assert_int_equal(once.library % STEPS, 0);
    assert_int_equal(again.library, 2 * once.library);
    free(values);
    run->functions->close(run);
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

/* ---- Where an allocation fails --------------------------------------------------------------- */

enum { LONGEST_S = 800 }; /* ends a test that waits for ever */

/* An operation that counts, and one that waits until it is let through. */
typedef struct counter {
    ls_op op;
    ls_signal let;
    uint64_t count;
} counter;

static ls_status run_count(ls_op *op, ls_queue *queue)
{
    (void)queue;
    ((counter *)op)->count++;
    return LS_OK;
}

static ls_status run_wait(ls_op *op, ls_queue *queue)
{
    (void)queue;
    ls_signal_wait(&((counter *)op)->let, 1, 0);
    return LS_OK;
}

static void keep(ls_op *op)
{
    (void)op;
}

static counter make_counter(ls_status (*run)(ls_op *op, ls_queue *queue))
{
    return (counter){.op = {.name = "count", .run = run, .destroy = keep}};
}

typedef struct pair {
    ls_machine *machine;
    ls_device *device[2];
} pair;

static pair open_pair(void)
{
    pair p;
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    must(ls_machine_open(&(ls_machine_options){.cpu_devices = 2}, &p.machine));
    for (int i = 0; i < 2; i++) {
        const ls_device_name name = {.kind = LS_DEVICE_CPU, .index = i, .logical = -1};
        must(ls_device_open(p.machine, &name, &policy, &p.device[i]));
    }
    alarm(LONGEST_S);
    return p;
}

static void close_pair(const pair *p)
{
    for (int i = 0; i < 2; i++)
        ls_device_close(p->device[i]);
    ls_machine_close(p->machine);
    alarm(0);
}

/* A failure to allocate, wherever it came from. */
static void is_memory(ls_status status)
{
    assert_non_null(status);
    assert_non_null(strstr(ls_status_text(status), "memory"));
    ls_status_free(status);
}

/* Two queues of which the second is full; each counts its part. */
static void a_program_is_launched_whole_or_not(void **state)
{
    pair p = open_pair();
    ls_queue *queue[2];
    ls_event *begin, *end;
    ls_program *program;
    counter parts[2] = {make_counter(run_count), make_counter(run_count)};
    counter gate = make_counter(run_wait), filler = make_counter(run_count);
    (void)state;
    for (int i = 0; i < 2; i++)
        must(ls_queue_open(p.device[i], "test", &queue[i]));
    must(ls_event_open(p.device[0], &begin));
    must(ls_event_open(p.device[1], &end));
    must(ls_program_begin(queue[0]));
    must(ls_queue_record(queue[0], begin));
    must(ls_queue_wait(queue[1], begin));
    must(ls_queue_enqueue(queue[1], &parts[1].op));
    must(ls_queue_record(queue[1], end));
    must(ls_queue_wait(queue[0], end));
    must(ls_queue_enqueue(queue[0], &parts[0].op));
    must(ls_program_end(queue[0], &program));
    must(ls_queue_enqueue(queue[1], &gate.op));
    for (int i = 1; i < LS_CPU_SEGMENT; i++)
        must(ls_queue_enqueue(queue[1], &filler.op));
    atomic_store(&pieces_left, 0);
    is_memory(ls_program_launch(program, 3));
    is_memory(ls_program_launch(program, 1));
    atomic_store(&pieces_left, -1);
    must(ls_queue_sync(queue[0])); /* has nothing to wait for */
    assert_true(parts[0].count == 0);
    must(ls_program_launch(program, 2)); /* there is memory again */
    ls_signal_post(&gate.let, 1);
    for (int i = 0; i < 2; i++)
        must(ls_queue_sync(queue[i]));
    assert_true(parts[0].count == 2 && parts[1].count == 2);
    ls_program_close(program);
    ls_event_close(begin);
    ls_event_close(end);
    for (int i = 0; i < 2; i++)
        ls_queue_close(queue[i]);
    close_pair(&p);
}

/* Two replicas, a program each, that wait for each other in all-reduces alone: the second cannot be
 * launched. */
static void programs_that_wait_for_each_other_end(void **state)
{
    pair p = open_pair();
    ls_model *model;
    ls_data *data;
    ls_run *run;
    counter gate = make_counter(run_wait);
    int launched = 0;
    float values[64] = {0};
    (void)state;
    must(ls_model_open("poly", &model));
    must(ls_data_open("synthetic", &model->need, &data));
    ls_job job = {.model = model,
                  .data = data,
                  .devices = p.device,
                  .device_count = 2,
                  .batch = 10,
                  .seed = 1,
                  .faults.flip_replica = -1,
                  .update.schedule = {.initial = 0.001},
                  .exchange.bucket_bytes = SIZE_MAX,
                  .kernels.capture = true,
                  .records = 64};
    must(ls_optimizer_parse("sgd", &job.update.optimizer));
    must(ls_allreduce_find("ring", &job.exchange.allreduce));
    must(ls_strategy_open(&ls_strategy_mirrored, &job, &run));
    const ls_step_run *steps = ls_step_run_of(run);
    assert_int_equal(steps->components.count, 2);
    must(ls_run_load(run, values));
    must(ls_queue_enqueue(steps->queues[0].queue, &gate.op));
    must(ls_queue_enqueue(steps->queues[1].queue, &gate.op));
    atomic_store(&pieces_left, 1); /* for the first */
    ls_status status = LS_OK;
    for (; !status && launched < 2 * LS_CPU_SEGMENT; launched++)
        status = run->functions->step(run, LS_FULL, 1);
    atomic_store(&pieces_left, -1);
    is_memory(status);
    ls_signal_post(&gate.let, 1);
    status = run->functions->sync(run); /* returns, and says that a step was given up */
    assert_non_null(status);
    ls_status_free(status);
    run->functions->close(run);
    ls_data_close(data);
    ls_model_close(model);
    close_pair(&p);
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
        cmocka_unit_test(a_program_is_launched_whole_or_not),
        cmocka_unit_test(programs_that_wait_for_each_other_end),
        cmocka_unit_test(interception_counts),
        cmocka_unit_test(mlp_fast),
        cmocka_unit_test(mlp_exact),
        cmocka_unit_test(poly_fast),
        cmocka_unit_test(uncaptured),
        cmocka_unit_test(small_messages),
    };
    if (argc > 1)
        cmocka_set_skip_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
