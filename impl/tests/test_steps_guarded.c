/* SPDX-License-Identifier: MIT */
/*
 * A step's tasks access only what they declare. Each task runs alone, in the described order.
 * Device memory that it does not declare lies on inaccessible pages, memory that it only reads on
 * read-only pages. A fault names the task and the memory. common/kernel/tests guards single kernels
 * more closely; this covers communicators, copies, and memory shared by a replica's operations.
 * Pages have 4096 bytes, so a wrong byte count inside one is not detected. Memory that no task
 * declares, such as workspace, belongs to the operations. No tolerance.
 */
#include "common/base/grow.h"
#include "common/base/tests/must.h"
#include "common/nn/divide/places.h"
#include "impl/replica/replicas.h"
#include "impl/step/program/names.h"
#include "impl/step/run/run.h"
#include "impl/strategies.h"
#include "impl/tests/set_option.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { DEVICES = 4, PAGE = 4096, MOST = 4096, NODES = 64 };

/* ---- Memory of devices, each piece on pages of its own ----------------------------------------
 */

typedef struct piece {
    char *memory;
    size_t bytes, asked; /* bytes: whole pages; 0: released */
    bool said;           /* declared by any task */
} piece;

static piece pieces[MOST];
static size_t piece_count;

/* Replaces the library's (the linker's --wrap). */
ls_status __wrap_ls_device_allocate(ls_device *device, ls_memory_use use, size_t bytes, void **out);
void __wrap_ls_device_release(ls_device *device, void *memory);
ls_status __wrap_ls_device_pieces(const ls_device *device, ls_memory_piece **out, size_t *count);

ls_status __wrap_ls_device_allocate(ls_device *device, ls_memory_use use, size_t bytes, void **out)
{
    const size_t whole = (bytes / PAGE + 1) * PAGE;
    (void)device;
    (void)use;
    *out = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(*out != MAP_FAILED && piece_count < MOST);
    pieces[piece_count++] = (piece){*out, whole, bytes, false};
    return LS_OK;
}

void __wrap_ls_device_release(ls_device *device, void *memory)
{
    (void)device;
    for (size_t i = 0; memory && i < piece_count; i++) {
        if (pieces[i].memory != memory || !pieces[i].bytes)
            continue;
        munmap(memory, pieces[i].bytes);
        pieces[i].bytes = 0;
    }
    while (piece_count && !pieces[piece_count - 1].bytes)
        piece_count--;
}

static int compare_pieces(const void *a, const void *b)
{
    const ls_memory_piece *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Of all devices. */
ls_status __wrap_ls_device_pieces(const ls_device *device, ls_memory_piece **out, size_t *count)
{
    (void)device;
    LS_TRY(ls_allocate("test", out, piece_count, sizeof **out));
    *count = piece_count;
    for (size_t i = 0; i < piece_count; i++) {
        const uintptr_t begin = (uintptr_t)pieces[i].memory;
        (*out)[i] = (ls_memory_piece){begin, begin + pieces[i].bytes};
    }
    qsort(*out, *count, sizeof **out, compare_pieces);
    return LS_OK;
}

static piece *piece_of(const void *memory)
{
    for (size_t i = 0; i < piece_count; i++)
        if ((const char *)memory >= pieces[i].memory &&
            (const char *)memory < pieces[i].memory + pieces[i].bytes)
            return &pieces[i];
    return NULL;
}

/* ---- The guard ------------------------------------------------------------------------------- */

static volatile bool guards;
static char *volatile touched; /* the first byte accessed without being declared */

/* Lets the thread continue, so that the test can report; elsewhere it is a normal fault. */
static void fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    const piece *p = guards ? piece_of(info->si_addr) : NULL;
    if (!p || mprotect(p->memory, p->bytes, PROT_READ | PROT_WRITE) != 0) {
        signal(number, SIG_DFL);
        return;
    }
    if (!touched)
        touched = info->si_addr;
}

static void allow_all(int protection)
{
    for (size_t i = 0; i < piece_count; i++)
        if (pieces[i].bytes && (pieces[i].said || protection != PROT_NONE))
            assert_int_equal(mprotect(pieces[i].memory, pieces[i].bytes, protection), 0);
}

static void allow(const ls_access *a, bool writes)
{
    const uintptr_t begin = (uintptr_t)a->memory / PAGE * PAGE;
    const size_t bytes = (uintptr_t)a->memory + a->bytes - begin;
    if (a->writes == writes && piece_of(a->memory))
        mprotect((void *)begin, bytes, writes ? PROT_READ | PROT_WRITE : PROT_READ);
}

/* Allows what `count` tasks declare, except `but`. Writes last, since a page may hold several. */
static void allow_said(const ls_step_program *p, const ls_task *task, size_t count,
                       const ls_access *but)
{
    for (int writes = 0; writes < 2; writes++)
        for (size_t t = 0; t < count; t++)
            for (size_t i = 0; i < task[t].accesses.count; i++) {
                const ls_access *a = &p->accesses[task[t].accesses.first + i];
                if (a != but)
                    allow(a, writes);
            }
}

/* ---- Tasks by themselves --------------------------------------------------------------------- */

static const ls_step_run *opened; /* the run of the current step */

static void put(const ls_step_program *p, const ls_task *task)
{
    ls_queue *queue = opened->queues[task->lane].queue;
    const ls_task_copy *copy = &task->copy;
    for (size_t i = 0; i < task->ops.count; i++)
        must(ls_queue_enqueue(queue, p->ops[task->ops.first + i]));
    if (copy->to)
        must(ls_queue_copy(queue, copy->to, ls_step_plan_device(&opened->plan, copy->to_member),
                           copy->from, ls_step_plan_device(&opened->plan, copy->from_member),
                           copy->bytes));
}

/* Ends of a communicator wait for each other: those of an all-reduce, or both ends of a message,
 * run concurrently. */
static size_t count_together(const ls_step_program *s, size_t t)
{
    size_t count = 1;
    if (s->tasks[t].end.peer >= 0)
        return 2;
    while (s->tasks[t].end.channel >= 0 && t + count < s->task_count &&
           s->tasks[t + count].end.channel == s->tasks[t].end.channel &&
           s->tasks[t + count].range.first == s->tasks[t].range.first)
        count++;
    return count;
}

/* Whether they accessed nothing else. */
static bool run_guarded(const ls_step_program *s, size_t t, size_t count, const ls_access *but)
{
    const struct sigaction caught = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};
    struct sigaction before; /* cmocka's */
    sigaction(SIGSEGV, &caught, &before);
    touched = NULL;
    allow_all(PROT_NONE);
    allow_said(s, &s->tasks[t], count, but);
    guards = true;
    for (size_t i = 0; i < count; i++)
        put(s, &s->tasks[t + i]);
    for (size_t i = 0; i < count; i++)
        must(ls_queue_sync(opened->queues[s->tasks[t + i].lane].queue));
    guards = false;
    allow_all(PROT_READ | PROT_WRITE);
    sigaction(SIGSEGV, &before, NULL);
    return !touched;
}

static void say_touched(const ls_step_program *s, const ls_task *task, const char *of)
{
    const ls_access at = {touched, 1, true};
    ls_names names;
    must(ls_steps_names(opened, &names));
    printf("%s: task %zu (", of, (size_t)(task - s->tasks));
    ls_names_lane(&names, task->lane, stdout);
    printf(": ");
    ls_names_task(&names, task, stdout);
    printf(") touches ");
    must(ls_names_accesses(&names, task, &at, 1, LS_WRITES, stdout));
    printf(", and does not say so\n");
    ls_names_close(&names);
}

/* Omits each declared access in turn, and counts those not detected. The step runs correctly. */
static void leave_out(const ls_step_program *s, size_t t, size_t count, size_t *left_out,
                      size_t *seen)
{
    for (size_t i = t; i < t + count; i++) {
        const ls_items all = s->tasks[i].accesses;
        for (size_t a = all.first; a < all.first + all.count; a++) {
            ++*left_out;
            *seen += !run_guarded(s, t, count, &s->accesses[a]);
        }
    }
}

static void note_said(const ls_step_program *s)
{
    for (size_t t = 0; t < s->task_count; t++) {
        const ls_items all = s->tasks[t].accesses;
        for (size_t a = all.first; a < all.first + all.count; a++) {
            piece *p = piece_of(s->accesses[a].memory);
            if (p)
                p->said = true;
        }
    }
}

static void check_step(const ls_step_program *s, const char *of, size_t *left_out, size_t *seen)
{
    note_said(s);
    for (size_t t = 0, count; t < s->task_count; t += count) {
        count = count_together(s, t);
        const bool well = run_guarded(s, t, count, NULL);
        if (!well)
            say_touched(s, &s->tasks[t], of);
        assert_true(well);
        if (left_out)
            leave_out(s, t, count, left_out, seen);
    }
}

/* A name that is too long hides the name of what lies behind it, of which accesses are refused. */
static void check_names(const char *of)
{
    ls_closing(ls_names_close) ls_names names = {0};
    must(ls_steps_names(opened, &names));
    for (size_t i = 0; i < names.count; i++) {
        const ls_name *name = &names.items[i];
        const piece *p = piece_of((const void *)name->begin);
        if (p && name->end > (uintptr_t)p->memory + p->asked)
            fail_msg("%s: the name %s is longer than its allocation", of, name->what);
    }
}

/* ---- Strategies ------------------------------------------------------------------------------ */

typedef struct fixture {
    ls_machine *machine;
    ls_device *device[DEVICES];
    ls_model *model, *shared; /* in the second one, two places share a variable */
    ls_model *sequences;
    ls_data *data, *data_of_shared, *data_of_sequences;
    ls_job job;
} fixture;

static void check(const ls_job *asked, const char *name, size_t *left_out, size_t *seen)
{
    const size_t elements = asked->model->graph->variables.elements;
    float *initial = calloc(elements, sizeof *initial);
    const ls_strategy *strategy;
    ls_job job = *asked;
    ls_run *run;
    must(ls_strategy_find(name, &strategy));
    ls_strategy_resolve(strategy, &job, 1);
    must(ls_strategy_open(strategy, &job, &run));
    must(ls_run_load(run, initial));
    opened = ls_step_run_of(run);
    check_names(name);
    must(ls_steps_check(run));
    for (int kind = 0; kind < opened->kinds; kind++)
        check_step(&opened->program[kind], name, left_out, seen);
    run->functions->close(run);
    free(initial);
}

static void set(ls_job *job, const char *strategy, const char *option, const char *value)
{
    const ls_strategy *found;
    must(ls_strategy_find(strategy, &found));
    set_option(job, found, option, value);
}

static void check_served(const ls_job *job, size_t *left_out, size_t *seen)
{
    ls_job apart = *job;
    apart.device_count = DEVICES - 1; /* the last one is the server */
    apart.variable_device = job->devices[DEVICES - 1];
    apart.exchange.overlap = true;
    apart.exchange.bucket_bytes = 0;
    check(job, "ps", NULL, NULL); /* including a worker on the server's device */
    check(&apart, "ps", left_out, seen);
}

/* All devices are places, or each half of them is a replica. */
static void check_divided(const ls_job *job, size_t *left_out, size_t *seen)
{
    int place[NODES], half[NODES];
    ls_job all = *job, halves = *job, shares, pipelines;
    assert_true(job->model->graph->count <= NODES);
    must(ls_places_balance(job->model->graph, 2, half));
    must(ls_places_balance(job->model->graph, 3, place));
    all.device_count = 3;
    all.division.place = place;
    halves.division.place = half;
    halves.exchange.overlap = true;
    halves.exchange.bucket_bytes = 0;
    check(&all, "model-parallel", left_out, seen);
    check(&all, "pipeline", left_out, seen);
    check(&halves, "hybrid", left_out, seen);
    shares = all;
    set(&shares, "pipeline", "pipeline-schedule", "1f1b");
    check(&shares, "pipeline", NULL, NULL);
    set(&shares, "pipeline", "pipeline-schedule", "zb-h1");
    check(&shares, "pipeline", NULL, NULL);
    pipelines = halves;
    set(&pipelines, "hybrid", "hybrid-inner", "pipeline");
    set(&pipelines, "hybrid", "pipeline-microbatches", "2");
    set(&pipelines, "hybrid", "hybrid-outer", "zero");
    check(&pipelines, "hybrid", NULL, NULL);
}

/* Layers are split over all devices. */
static void check_split(const ls_job *job, size_t *left_out, size_t *seen)
{
    ls_job split = *job;
    split.exact.splits = DEVICES + 1;
    check(&split, "tensor-parallel", left_out, seen);
    set(&split, "hybrid", "hybrid-inner", "tensor-parallel");
    set(&split, "hybrid", "hybrid-outer", "zero");
    set(&split, "hybrid", "zero-stage", "3");
    split.exchange.overlap = true;
    split.exchange.bucket_bytes = 0;
    check(&split, "hybrid", NULL, NULL);
}

/* Variables that several places use, and their gradients, are copied between places. */
static void check_shared(const ls_job *job, const fixture *f)
{
    int place[NODES];
    ls_job shares = *job;
    shares.model = f->shared;
    shares.data = f->data_of_shared;
    shares.device_count = 2;
    shares.division.place = place;
    assert_true(f->shared->graph->count <= NODES);
    must(ls_places_balance(f->shared->graph, 2, place));
    check(&shares, "model-parallel", NULL, NULL);
}

/* Positions are divided over all devices, unevenly. */
static void check_context(const ls_job *job, const fixture *f)
{
    ls_job divided = *job;
    divided.model = f->sequences;
    divided.data = f->data_of_sequences;
    check(&divided, "context-parallel", NULL, NULL);
}

static void check_strategies(const ls_job *job, const fixture *f)
{
    ls_job one = *job, apart = *job, overlapped = *job;
    one.device_count = 1;
    set(&apart, "towers", "towers-staged", "yes");
    apart.division.backward_held = true;
    overlapped.exchange.overlap = true;
    overlapped.exchange.bucket_bytes = 0;
    check(&one, "single", NULL, NULL);
    check(job, "mirrored", NULL, NULL);
    check(&overlapped, "mirrored", NULL, NULL);
    check(&overlapped, "zero", NULL, NULL);
    set(&overlapped, "zero", "zero-stage", "2");
    check(&overlapped, "zero", NULL, NULL);
    overlapped.model = f->shared;
    overlapped.data = f->data_of_shared;
    set(&overlapped, "zero", "zero-stage", "3");
    check(&overlapped, "zero", NULL, NULL);
    set(&overlapped, "hybrid", "hybrid-inner", "zero");
    check(&overlapped, "hybrid", NULL, NULL);
    check(job, "towers", NULL, NULL);
    check(&apart, "towers", NULL, NULL);
    check_served(job, NULL, NULL);
    check_divided(job, NULL, NULL);
    check_split(job, NULL, NULL);
    check_shared(job, f);
    if (job->exact.on)
        return;
    check_context(job, f);
    check(job, "independent", NULL, NULL);
    check(job, "gossip", NULL, NULL);
    check(job, "local-sgd", NULL, NULL);
    overlapped.model = job->model;
    overlapped.data = job->data;
    check(&overlapped, "local-sgd", NULL, NULL);
}

static void tasks_touch_what_they_say(void **state)
{
    const fixture *f = *state;
    static const char *const algorithms[] = {"ring", "direct",           "tree",
                                             "flat", "halving-doubling", "owners"};
    ls_job job = f->job;
    for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++) {
        must(ls_allreduce_find(algorithms[i], &job.exchange.allreduce));
        check(&job, "mirrored", NULL, NULL);
    }
    check_strategies(&job, f);
    job.exact.on = true;
    job.exact.shards = 5;
    must(ls_allreduce_find("canonical", &job.exchange.allreduce));
    check_strategies(&job, f);
}

/* An undeclared access is detected, unless another one covers its pages, or the task declares but
 * does not access it. */
static void forgotten_accesses_are_seen(void **state)
{
    const fixture *f = *state;
    size_t left_out = 0, seen = 0;
    check(&f->job, "mirrored", &left_out, &seen);
    check(&f->job, "towers", &left_out, &seen);
    check_served(&f->job, &left_out, &seen);
    check_divided(&f->job, &left_out, &seen);
    check_split(&f->job, &left_out, &seen);
    printf("%zu of %zu accesses that were left out were seen\n", seen, left_out);
    assert_true(2 * seen > left_out);
}

static int open_all(void **state)
{
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    static fixture f;
    must(ls_machine_open(&(ls_machine_options){.cpu_devices = DEVICES}, &f.machine));
    for (int i = 0; i < DEVICES; i++) {
        const ls_device_name name = {.kind = LS_DEVICE_CPU, .index = i, .logical = -1};
        must(ls_device_open(f.machine, &name, &policy, &f.device[i]));
    }
    must(ls_model_open("mlp:64-32-10", &f.model));
    must(ls_data_open("synthetic:50", &f.model->need, &f.data));
    must(ls_model_open("twin-lstm:3", &f.shared));
    must(ls_data_open("synthetic:50", &f.shared->need, &f.data_of_shared));
    must(ls_model_open("gpt:1-4-8-9-16", &f.sequences));
    must(ls_data_open("synthetic:50", &f.sequences->need, &f.data_of_sequences));
    f.job = (ls_job){.model = f.model,
                     .data = f.data,
                     .devices = f.device,
                     .device_count = DEVICES,
                     .variable_device = f.device[1],
                     .batch = 20,
                     .sampling.epochs = true,
                     .seed = 1,
                     .update.schedule = {.initial = 0.1},
                     .exchange.bucket_bytes = SIZE_MAX,
                     .faults.flip_replica = -1,
                     .faults.delay_replica = -1,
                     .records = 4};
    must(ls_optimizer_parse("adam", &f.job.update.optimizer));
    must(ls_allreduce_find("ring", &f.job.exchange.allreduce));
    *state = &f;
    return 0;
}

static int close_all(void **state)
{
    fixture *f = *state;
    ls_data_close(f->data);
    ls_data_close(f->data_of_shared);
    ls_data_close(f->data_of_sequences);
    ls_model_close(f->model);
    ls_model_close(f->shared);
    ls_model_close(f->sequences);
    for (int i = 0; i < DEVICES; i++)
        ls_device_close(f->device[i]);
    ls_machine_close(f->machine);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tasks_touch_what_they_say),
                                       cmocka_unit_test(forgotten_accesses_are_seen)};
    return cmocka_run_group_tests(tests, open_all, close_all);
}
