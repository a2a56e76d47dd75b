/* SPDX-License-Identifier: MIT */
/*
 * NCCL on one GPU: a communicator of one rank opens; its all-reduces, captured or not, change no
 * bit and are counted; two ranks on one GPU are refused; one that was given up ends. Skipped
 * without a GPU or NCCL. No tolerance: bits. A step with one rank has no all-reduce, and NCCL
 * (2.28) enqueues nothing for one in place; what one GPU cannot show is printed at the end. The
 * surrounding logic is tested by test_comm_nccl, without NCCL.
 */
#include "common/comm/tests/comm_fixture.h"

#include <stdio.h>
#include <unistd.h>

#if LS_HAS_NCCL
#include "common/device/cuda/cuda.h"

enum { PARTS = 2, TIMES = 3, COUNT = 100003 };

static const char not_shown[] =
    "not shown on one GPU: a sum of several ranks, NCCL's kernels and how many nodes of a program "
    "they are, an all-reduce that hangs or fails, a graph that holds a communicator";

static const uint64_t long_ns = 20000000000;

static const ls_comm_backend *nccl;

/* gpu:0 as two logical devices, the second one to be refused. */
static int setup_gpu(void **state)
{
    return open_gpu_parts(state, PARTS);
}

/* A communicator of one rank, and an all-reduce requested of it. */
typedef struct alone {
    ls_comm *comm;
    ls_op_list ops;
    float *input, *data; /* [COUNT], on the host; on the GPU */
} alone;

static void open_alone(fixture *f, alone *a)
{
    const ls_allreduce *library;
    ls_op *op;
    void *memory;
    *a = (alone){.input = random_floats("nccl", 0, COUNT)};
    must(ls_allreduce_find("library", &library));
    must(ls_comm_open(nccl, NULL, f->device, 1, &a->comm));
    must(ls_device_allocate(f->device[0], LS_MEMORY_WORKSPACE, COUNT * sizeof(float), &memory));
    a->data = memory;
    must(ls_queue_write(f->queue[0], a->data, a->input, COUNT * sizeof(float)));
    must(library->build(a->comm, &(ls_allreduce_args){.data = a->data, .count = COUNT}, &a->ops));
    assert_int_equal(a->ops.count, 0); /* a step of one rank needs none */
    must(nccl->library(a->comm, LS_HALVES, a->data, COUNT, &op));
    must(ls_op_list_add(&a->ops, op));
}

static void close_alone(fixture *f, alone *a)
{
    close_all(&a->comm, &a->ops, 1);
    ls_device_release(f->device[0], a->data);
    free(a->input);
}

/* No bit has changed, and `sums` all-reduces were counted on this queue. */
static void judge(fixture *f, const alone *a, unsigned sums)
{
    float *got = calloc(COUNT, sizeof *got);
    must(nccl->wait(a->comm, f->queue[0], f->queue[0], long_ns));
    must(ls_queue_read(f->queue[0], got, a->data, COUNT * sizeof *got));
    assert_memory_equal(got, a->input, COUNT * sizeof *got);
    assert_int_equal(*ls_cuda_queue_pulse(f->queue[0]), sums);
    free(got);
}

static void a_sum_of_one_is_itself(void **state)
{
    fixture *f = *state;
    ls_program *program;
    alone a;
    open_alone(f, &a);
    const ls_comm_list list = {&a.ops, f->queue[0]};
    for (int time = 0; time < TIMES; time++)
        must(ls_comm_enqueue(&a.comm, &list, 1));
    judge(f, &a, TIMES);
    must(ls_program_begin(f->queue[0]));
    must(ls_comm_enqueue(&a.comm, &list, 1));
    must(ls_program_end(f->queue[0], &program));
    const size_t nodes = ls_program_describe(program).nodes;
    print_message("nodes: %zu, of which ours counts and the others are NCCL's\n", nodes);
    assert_true(nodes >= 1);
    must(ls_program_launch(program, TIMES));
    judge(f, &a, 2 * TIMES);
    ls_program_close(program);
    close_alone(f, &a);
}

static void what_is_given_up_ends(void **state)
{
    fixture *f = *state;
    ls_program *program;
    alone a;
    open_alone(f, &a);
    const ls_comm_list list = {&a.ops, f->queue[0]};
    must(ls_program_begin(f->queue[0]));
    must(ls_comm_enqueue(&a.comm, &list, 1));
    must(ls_program_end(f->queue[0], &program));
    nccl->abandon(a.comm);
    must_refuse(ls_comm_enqueue(&a.comm, &list, 1), LS_CODE_MISSING, "was aborted after a failure");
    must(nccl->wait(a.comm, f->queue[0], f->queue[0], long_ns));
    must(ls_queue_sync(f->queue[0]));
    ls_program_close(program);
    close_alone(f, &a);
}

static void two_ranks_on_one_gpu_are_refused(void **state)
{
    fixture *f = *state;
    ls_comm *comms[PARTS];
    const ls_device_name names[] = {ls_device_describe(f->device[0])->name,
                                    ls_device_describe(f->device[1])->name};
    must_refuse(nccl->check(names, PARTS), LS_CODE_USAGE, "NCCL refuses two ranks on one");
    must_refuse(ls_comm_open(nccl, NULL, f->device, PARTS, comms), LS_CODE_MISSING, "NCCL: ");
}

/* Why NCCL cannot run here; NULL if it can. */
static ls_status look(void)
{
    const ls_device_name name = {.kind = LS_DEVICE_GPU, .index = 0, .logical = -1};
    ls_machine *machine;
    must(ls_machine_open(&(ls_machine_options){0}, &machine));
    ls_status status = LS_OK;
    if (!ls_machine_count(machine, LS_DEVICE_GPU))
        status = ls_fail(LS_CODE_MISSING, NULL, NULL, "no GPU here: %s",
                         ls_machine_describe(machine)->gpu);
    ls_machine_close(machine);
    if (!status)
        status = ls_comm_backend_find("nccl", &nccl);
    return status ? status : nccl->check(&name, 1);
}

int main(void)
{
    ls_status status = look();
    if (status) {
        printf("skipped: %s\n", ls_status_text(status));
        ls_status_free(status);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sum_of_one_is_itself),
        cmocka_unit_test(what_is_given_up_ends),
        cmocka_unit_test(two_ranks_on_one_gpu_are_refused),
    };
    const int failed = cmocka_run_group_tests(tests, setup_gpu, teardown);
    puts(not_shown);
    fflush(NULL);
    _exit(failed); /* CUDA's destructors would run beside an abort that nobody waits for */
}
#else
int main(void)
{
    puts("skipped: this build has no NCCL");
    return 77;
}
#endif
