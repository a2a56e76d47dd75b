/* SPDX-License-Identifier: MIT */
/*
 * Communicator nccl without a GPU: its logic on functions that replace the library's
 * (nccl_emulate.h), as one process and as several, which are threads here; its refusals; and
 * loading the library that the build found, with all its functions. No tolerance: bits. Skipped in
 * a build without NCCL.
 */
#include "common/comm/tests/comm_fixture.h"
#include "common/device/backend.h"

#include <stdio.h>

#if LS_HAS_NCCL
#include "common/comm/tests/nccl_emulate.h"

enum { RANKS = 3, COUNT = 1000 };

static const uint64_t short_ns = 20000000, long_ns = 60000000000;

typedef struct group {
    ls_comm *comms[RANKS];
    ls_op_list ops[RANKS];
    ls_comm_list lists[RANKS];
    float *data[RANKS], *expected;
} group;

static void open_group(fixture *f, group *g)
{
    const ls_allreduce *library;
    ls_nccl nccl = {.call = nccl_emulated};
    *g = (group){0};
    emulated.destroyed = emulated.ids = 0;
    atomic_store(&emulated.aborted, 0);
    must(ls_allreduce_find("library", &library));
    must(ls_comm_nccl_open(&nccl, LS_OK, NULL, f->device, RANKS, g->comms));
    g->expected = calloc(COUNT, sizeof *g->expected);
    for (int r = 0; r < RANKS; r++) {
        g->data[r] = random_floats("nccl", r, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            g->expected[i] = r ? g->expected[i] + g->data[r][i] : g->data[r][i];
        must(library->build(g->comms[r], &(ls_allreduce_args){.data = g->data[r], .count = COUNT},
                            &g->ops[r]));
        g->lists[r] = (ls_comm_list){&g->ops[r], f->queue[r]};
    }
}

static void close_group(group *g)
{
    for (int r = 0; r < RANKS; r++)
        free(g->data[r]);
    free(g->expected);
    close_all(g->comms, g->ops, RANKS);
}

static void ranks_of_a_process_are_one_group(void **state)
{
    fixture *f = *state;
    group g;
    open_group(f, &g);
    assert_true(emulated.joined == RANKS && emulated.ids == 1);
    assert_true(ls_comm_is_joint(g.comms[0]));
    assert_string_equal(ls_allreduce_auto(g.comms[0], 1 << 20)->name, "library");
    must(ls_comm_enqueue(g.comms, g.lists, RANKS));
    for (int r = 0; r < RANKS; r++) {
        assert_memory_equal(g.data[r], g.expected, COUNT * sizeof(float));
        must(g.comms[r]->backend->wait(g.comms[r], f->queue[r], f->queue[r], long_ns));
    }
    close_group(&g);
    assert_true(emulated.destroyed == RANKS && emulated.aborted == 0);
}

/* Shares of one size are NCCL's reduce-scatter and all-gather; others a call each, in one group. */
static void halves_are_calls_of_the_library(void **state)
{
    fixture *f = *state;
    static const size_t counts[] = {999, COUNT, 2, 0};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        const size_t count = counts[c];
        const bool even = count % RANKS == 0 && count;
        const int filled = count < RANKS ? (int)count : RANKS;
        int before[EMULATED_BROADCAST + 1], called[EMULATED_BROADCAST + 1];
        const ls_allreduce *library;
        group g;
        open_group(f, &g);
        must(ls_allreduce_find("library", &library));
        memcpy(before, emulated.calls, sizeof before);
        for (ls_half half = LS_REDUCE_SCATTER; half <= LS_ALL_GATHER; half++) {
            for (int r = 0; r < RANKS; r++) {
                const ls_allreduce_args args = {.data = g.data[r], .count = count};
                ls_op_list_clear(&g.ops[r]);
                must(library->half(g.comms[r], half, &args, &g.ops[r]));
            }
            must(ls_comm_enqueue(g.comms, g.lists, RANKS));
            for (int r = 0; r < RANKS; r++) {
                const size_t first = half == LS_ALL_GATHER ? 0 : ls_comm_share(count, r, RANKS),
                             end =
                                 half == LS_ALL_GATHER ? count : ls_comm_share(count, r + 1, RANKS);
                assert_memory_equal(g.data[r] + first, g.expected + first,
                                    (end - first) * sizeof(float));
            }
        }
        for (int k = 0; k <= EMULATED_BROADCAST; k++)
            called[k] = emulated.calls[k] - before[k];
        assert_int_equal(called[EMULATED_SUM], 0);
        assert_int_equal(called[EMULATED_SCATTER], even);
        assert_int_equal(called[EMULATED_GATHER], even);
        assert_int_equal(called[EMULATED_REDUCE], even ? 0 : filled);
        assert_int_equal(called[EMULATED_BROADCAST], even ? 0 : filled);
        for (int r = 0; r < RANKS; r++)
            must(g.comms[r]->backend->wait(g.comms[r], f->queue[r], f->queue[r], long_ns));
        close_group(&g);
    }
}

/* A step of one rank has no all-reduce; one that is requested is enqueued, and adds no node of ours
 * on a CPU. */
static void a_rank_alone_keeps_its_bits(void **state)
{
    fixture *f = *state;
    const ls_allreduce *library;
    ls_nccl nccl = {.call = nccl_emulated};
    ls_op_list ops = {0};
    ls_op *op;
    ls_comm *comm;
    ls_program *program;
    float *data = random_floats("nccl", 0, COUNT), *expected = random_floats("nccl", 0, COUNT);
    must(ls_allreduce_find("library", &library));
    must(ls_comm_nccl_open(&nccl, LS_OK, NULL, f->device, 1, &comm));
    must(library->build(comm, &(ls_allreduce_args){.data = data, .count = COUNT}, &ops));
    assert_int_equal(ops.count, 0);
    must(comm->backend->library(comm, LS_HALVES, data, COUNT, &op));
    must(ls_op_list_add(&ops, op));
    const ls_comm_list list = {&ops, f->queue[0]};
    const uint64_t rounds = emulated.rounds;
    must(ls_program_begin(f->queue[0]));
    must(ls_comm_enqueue(&comm, &list, 1));
    must(ls_program_end(f->queue[0], &program));
    must(ls_program_launch(program, 2));
    must(comm->backend->wait(comm, f->queue[0], f->queue[0], long_ns));
    must(ls_queue_sync(f->queue[0]));
    assert_memory_equal(data, expected, COUNT * sizeof *data);
    assert_int_equal(emulated.rounds - rounds, 1); /* it was enqueued, in a group */
    assert_int_equal(ls_program_describe(program).nodes, 0);
    ls_program_close(program);
    close_all(&comm, &ops, 1);
    free(expected);
    free(data);
}

/* ---- Several processes, which are threads here ----------------------------------------------- */

typedef struct process {
    ls_comm *self; /* among the processes */
    ls_device *device;
    ls_queue *queue;
    float *data;
    bool fails;
    ls_status status;
} process;

static ls_status run_process(process *p)
{
    const ls_allreduce *library;
    ls_nccl nccl = {.call = nccl_emulated};
    ls_op_list ops = {0};
    ls_comm *comm;
    LS_TRY(ls_comm_nccl_open(
        &nccl, p->fails ? ls_fail(LS_CODE_MISSING, "NCCL", NULL, "is not here; none") : LS_OK,
        p->self, &p->device, 1, &comm));
    must(ls_allreduce_find("library", &library));
    must(library->build(comm, &(ls_allreduce_args){.data = p->data, .count = COUNT}, &ops));
    assert_true(comm->rank == p->self->rank && comm->size == RANKS);
    const ls_comm_list list = {&ops, p->queue};
    ls_status status = ls_comm_enqueue(&comm, &list, 1);
    ls_op_list_clear(&ops);
    ls_comm_close(comm);
    return status;
}

static void *process_thread(void *context)
{
    process *p = context;
    p->status = run_process(p);
    return NULL;
}

static void run_processes(fixture *f, int culprit, process *p)
{
    pthread_t threads[RANKS];
    ls_comm *selves[RANKS];
    must(ls_comm_open(NULL, NULL, f->device, RANKS, selves));
    for (int r = 0; r < RANKS; r++) {
        p[r] = (process){selves[r],    f->device[r], f->queue[r], random_floats("nccl", r, COUNT),
                         r == culprit, LS_OK};
        assert_int_equal(pthread_create(&threads[r], NULL, process_thread, &p[r]), 0);
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < RANKS; r++)
        ls_comm_close(selves[r]);
}

static void processes_get_the_id_of_the_first(void **state)
{
    process p[RANKS];
    run_processes(*state, -1, p);
    float *inputs[RANKS];
    for (int r = 0; r < RANKS; r++) {
        inputs[r] = random_floats("nccl", r, COUNT);
        must(p[r].status);
    }
    for (size_t i = 0; i < COUNT; i++)
        for (int r = 0; r < RANKS; r++)
            assert_true(p[r].data[i] == inputs[0][i] + inputs[1][i] + inputs[2][i]);
    for (int r = 0; r < RANKS; r++) {
        free(inputs[r]);
        free(p[r].data);
    }
}

/* The others report that they only follow; none waits for the rank that cannot. */
static void one_that_cannot_stops_all(void **state)
{
    for (int culprit = 0; culprit < RANKS; culprit++) {
        process p[RANKS];
        char expected[64];
        snprintf(expected, sizeof expected, "rank %d failed in this operation", culprit);
        run_processes(*state, culprit, p);
        for (int r = 0; r < RANKS; r++) {
            assert_true(ls_status_is_consequence(p[r].status) == (r != culprit));
            must_refuse(p[r].status, LS_CODE_MISSING, r == culprit ? "is not here" : expected);
            free(p[r].data);
        }
    }
}

/* Two processes were given the same GPU of one host: all are refused, with the same message. */
static void a_gpu_of_two_processes_is_refused(void **state)
{
    fixture *f = *state;
    process p[RANKS];
    for (int r = 0; r < RANKS; r++)
        snprintf(f->device[r]->info.pci, sizeof f->device[r]->info.pci, "0000:%d7:00.0", r % 2);
    run_processes(f, -1, p);
    for (int r = 0; r < RANKS; r++) {
        must_refuse(p[r].status, LS_CODE_USAGE,
                    "ranks 0 and 2 use the same GPU (PCI 0000:07:00.0), which NCCL does not allow");
        free(p[r].data);
        *f->device[r]->info.pci = 0;
    }
}

/* ---- What goes wrong ------------------------------------------------------------------------- */

static void lists_must_match(void **state)
{
    fixture *f = *state;
    group g;
    open_group(f, &g);
    must_refuse(ls_comm_enqueue(g.comms, g.lists, RANKS - 1), LS_CODE_USAGE, "matching");
    put_op(&g.ops[1], run_fill, NULL, NULL, 0);
    must_refuse(ls_comm_enqueue(g.comms, g.lists, RANKS), LS_CODE_USAGE, "matching");
    const ls_allreduce *ring;
    must(ls_allreduce_find("ring", &ring));
    must_refuse(
        ring->build(g.comms[0], &(ls_allreduce_args){.data = g.data[0], .count = COUNT}, &g.ops[0]),
        LS_CODE_USAGE, "only the all-reduce of the nccl library");
    must(ls_queue_enqueue(f->queue[0], g.ops[0].items[0]));
    must_refuse(ls_queue_sync(f->queue[0]), LS_CODE_USAGE, "ls_comm_enqueue");
    close_group(&g);
}

/* Blocks a queue until the test releases it. */
typedef struct gate_op {
    ls_op op;
    atomic_bool open;
} gate_op;

static ls_status run_gate(ls_op *op, ls_queue *queue)
{
    while (!atomic_load(&((gate_op *)op)->open))
        ls_clock_sleep(1000);
    return LS_OK;
}

/* An abort like NCCL's: kernels end at once; the call returns when no graph uses the communicator,
 * which is closed after the wait. */
static gate_op the_gate;
static atomic_bool graphs_are_gone;
static atomic_int aborts_over;

static void end_kernels_then_wait(void)
{
    atomic_store(&the_gate.open, true);
    while (!atomic_load(&graphs_are_gone))
        ls_clock_sleep(1000);
    atomic_fetch_add(&aborts_over, 1);
}

static void wait_for_graphs(void)
{
    while (!atomic_load(&graphs_are_gone))
        ls_clock_sleep(1000);
    atomic_fetch_add(&aborts_over, 1);
}

static void open_stuck_group(fixture *f, group *g, void (*abort_call)(void))
{
    open_group(f, g);
    the_gate.op = (ls_op){.name = "gate", .run = run_gate, .destroy = keep};
    atomic_store(&the_gate.open, false);
    atomic_store(&graphs_are_gone, false);
    atomic_store(&aborts_over, 0);
    emulated.abort = abort_call;
    atomic_store(&emulated.async_error, ncclInProgress);
    must(ls_queue_enqueue(f->queue[0], &the_gate.op));
}

static void close_stuck_group(fixture *f, group *g)
{
    atomic_store(&the_gate.open, true);
    must(ls_queue_sync(f->queue[0]));
    close_group(g);
    atomic_store(&graphs_are_gone, true);
    while (atomic_load(&aborts_over) < RANKS)
        ls_clock_sleep(1000);
    atomic_store(&emulated.async_error, ncclSuccess);
    emulated.abort = NULL;
    assert_int_equal(emulated.destroyed, 0);
}

/* Every communicator is aborted, although no abort has returned. */
static void an_abort_that_waits_is_not_waited_for(void **state)
{
    fixture *f = *state;
    group g;
    open_stuck_group(f, &g, end_kernels_then_wait);
    const ls_comm_backend *b = g.comms[0]->backend;
    ls_status status = b->wait(g.comms[0], f->queue[0], f->queue[0], short_ns);
    assert_false(ls_status_is_final(status));
    must_refuse(status, LS_CODE_MISSING, "--timeout");
    while (atomic_load(&emulated.aborted) < RANKS)
        ls_clock_sleep(1000);
    assert_int_equal(atomic_load(&aborts_over), 0);
    close_stuck_group(f, &g);
}

/* Kernels that do not end after an abort: the wait ends, and its failure ends the sweep. */
static void a_queue_that_never_ends_is_lost(void **state)
{
    fixture *f = *state;
    group g;
    open_stuck_group(f, &g, wait_for_graphs);
    const ls_comm_backend *b = g.comms[0]->backend;
    ls_status status = b->wait(g.comms[0], f->queue[0], f->queue[0], short_ns);
    assert_true(ls_status_is_final(status));
    must_refuse(status, LS_CODE_MISSING, "--timeout");
    close_stuck_group(f, &g);
}

/* An error of another rank, and silence: one message each, and all waits end. */
static void errors_and_silence_end_the_wait(void **state)
{
    fixture *f = *state;
    for (int silent = 0; silent < 2; silent++) {
        group g;
        open_stuck_group(f, &g, end_kernels_then_wait);
        atomic_store(&graphs_are_gone, true);
        atomic_store(&emulated.async_error, silent ? ncclInProgress : ncclRemoteError);
        const ls_comm_backend *b = g.comms[0]->backend;
        must_refuse(b->wait(g.comms[0], f->queue[0], f->queue[0], silent ? short_ns : long_ns),
                    LS_CODE_MISSING, silent ? "--timeout" : "remote process exited");
        must(ls_queue_sync(f->queue[0]));
        must(b->wait(g.comms[1], f->queue[1], f->queue[1], long_ns)); /* reported once */
        must_refuse(ls_comm_enqueue(g.comms, g.lists, RANKS), LS_CODE_MISSING,
                    "was aborted after a failure");
        close_stuck_group(f, &g);
        assert_int_equal(atomic_load(&emulated.aborted), RANKS);
    }
}

static void a_clique_that_cannot_be_opened_is_refused(void **state)
{
    fixture *f = *state;
    ls_nccl nccl = {.call = nccl_emulated};
    ls_comm *comms[RANKS];
    atomic_store(&emulated.refuse_init, ncclInvalidUsage);
    ls_status status = ls_comm_nccl_open(&nccl, LS_OK, NULL, f->device, RANKS, comms);
    atomic_store(&emulated.refuse_init,
                 ncclSuccess); /* also for the next test, if this one fails */
    must_refuse(status, LS_CODE_MISSING, "'made up: the emulation says so'");
}

/* A rank never comes: NCCL waits, this process does not. */
static void an_opening_that_waits_is_left(void **state)
{
    fixture *f = *state;
    ls_nccl nccl = {.call = nccl_emulated, .open_ns = short_ns};
    ls_comm *comms[RANKS];
    atomic_store(&emulated.never_opens, true);
    atomic_store(&emulated.openings, 0);
    ls_status status = ls_comm_nccl_open(&nccl, LS_OK, NULL, f->device, RANKS, comms);
    assert_true(ls_status_is_final(status));
    must_refuse(status, LS_CODE_MISSING,
                "after 0.02 s the ranks are still not connected, so a rank has ended");
    assert_int_equal(atomic_load(&emulated.openings), 0);
    atomic_store(&emulated.never_opens, false);
    while (!atomic_load(&emulated.openings))
        ls_clock_sleep(1000);
}

static void devices_that_cannot_are_refused(void **state)
{
    const ls_comm_backend *nccl;
    const ls_device_name cpu = {.kind = LS_DEVICE_CPU, .logical = -1},
                         part = {.kind = LS_DEVICE_GPU, .logical = 0},
                         other = {.kind = LS_DEVICE_GPU, .logical = 1};
    must(ls_comm_backend_find("nccl", &nccl));
    must_refuse(nccl->check((ls_device_name[]){part, cpu}, 2), LS_CODE_MISSING,
                "between GPUs only");
    must_refuse(nccl->check((ls_device_name[]){part, other}, 2), LS_CODE_USAGE,
                "gpu:0/1: this device is on the same GPU as gpu:0/0");
}

/* The installed library: it loads, is complete, and has the headers' major version. */
static void the_library_has_all_functions(void **state)
{
    ls_nccl nccl;
    int version = 0;
    ls_status status = ls_nccl_load(&nccl);
    if (status && strstr(ls_status_text(status), "cannot be loaded")) {
        print_message("skipped: %s\n", ls_status_text(status));
        ls_status_free(status);
        skip();
    }
    must(status);
    assert_int_equal(nccl.call.ncclGetVersion(&version), ncclSuccess);
    print_message("NCCL %d\n", version);
    /* So `auto` takes it for GPUs of several processes, unless two ranks were on one GPU. */
    const ls_device_name gpus[] = {{.kind = LS_DEVICE_GPU, .index = 0, .logical = -1},
                                   {.kind = LS_DEVICE_GPU, .index = 1, .logical = -1},
                                   {.kind = LS_DEVICE_CPU}};
    const ls_comm_backend *found = ls_comm_backend_of_gpus(gpus, 2);
    assert_non_null(found);
    assert_string_equal(found->name, "nccl");
    assert_null(ls_comm_backend_of_gpus(gpus, 3));
    assert_null(ls_comm_backend_of_gpus((ls_device_name[]){gpus[0], gpus[0]}, 2));
    must_refuse(ls_nccl_check(&nccl, ncclInvalidArgument, "test"), LS_CODE_MISSING, "NCCL: test: ");
    ls_nccl_unload(&nccl);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_a_process_are_one_group),
        cmocka_unit_test(halves_are_calls_of_the_library),
        cmocka_unit_test(a_rank_alone_keeps_its_bits),
        cmocka_unit_test(processes_get_the_id_of_the_first),
        cmocka_unit_test(one_that_cannot_stops_all),
        cmocka_unit_test(a_gpu_of_two_processes_is_refused),
        cmocka_unit_test(lists_must_match),
        cmocka_unit_test(an_abort_that_waits_is_not_waited_for),
        cmocka_unit_test(a_queue_that_never_ends_is_lost),
        cmocka_unit_test(errors_and_silence_end_the_wait),
        cmocka_unit_test(a_clique_that_cannot_be_opened_is_refused),
        cmocka_unit_test(an_opening_that_waits_is_left),
        cmocka_unit_test(devices_that_cannot_are_refused),
        cmocka_unit_test(the_library_has_all_functions),
    };
    return cmocka_run_group_tests(tests, setup_devices, teardown);
}
#else
int main(void)
{
    puts("skipped: this build has no NCCL");
    return 77;
}
#endif
