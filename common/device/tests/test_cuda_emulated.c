/* SPDX-License-Identifier: MIT */
/*
 * Host logic of the CUDA devices without a GPU, on functions that replace the run-time library's
 * (cuda_emulate.h): meaning and wording of failures, a lost device, counts of copies, no leaks. No
 * tolerance. Skipped in a build without CUDA.
 */
#include "common/base/tests/must.h"
#include "common/device/machine_private.h"

#include <stdio.h>
#include <stdlib.h>

#if LS_HAS_CUDA
#include "common/device/cuda/cuda.h"
#include "common/device/tests/cuda_emulate.h"

typedef struct fixture {
    ls_machine *machine;
    ls_device *device[EMULATED_GPUS + 1]; /* the last one is cpu:0 */
    ls_queue *queue[EMULATED_GPUS];
} fixture;

static void says(ls_status status, const char *part)
{
    if (!strstr(ls_status_text(status), part))
        fail_msg("%s", ls_status_text(status));
    ls_status_free(status);
}

/* A machine with emulated GPUs. */
static ls_machine *open_machine(int logical)
{
    ls_machine *machine;
    must(ls_machine_open(&(ls_machine_options){.cpu_devices = 1}, &machine));
    for (int i = 0; i < machine->gpus.count; i++)
        ls_arena_destroy(machine->arenas[i]);
    free(machine->arenas);
    free(machine->gpus.items);
    machine->logical_gpus = logical;
    ls_gpus gpus = {.items = calloc(EMULATED_GPUS, sizeof(ls_gpu)), .count = EMULATED_GPUS};
    for (int i = 0; i < EMULATED_GPUS; i++) {
        gpus.items[i].multiprocessors = 132;
        snprintf(gpus.items[i].pci, sizeof gpus.items[i].pci, "0000:%02x:00.0", i + 1);
    }
    must(ls_machine_take_gpus(machine, &gpus));
    return machine;
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    f->machine = open_machine(1);
    for (int i = 0; i < EMULATED_GPUS; i++) {
        const ls_device_name name = {.kind = LS_DEVICE_GPU, .index = i, .logical = -1};
        must(ls_device_open(f->machine, &name, &policy, &f->device[i]));
        must(ls_queue_open(f->device[i], "test", &f->queue[i]));
    }
    const ls_device_name cpu = {.kind = LS_DEVICE_CPU, .logical = -1};
    must(ls_device_open(f->machine, &cpu, &policy, &f->device[EMULATED_GPUS]));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < EMULATED_GPUS; i++)
        ls_queue_close(f->queue[i]);
    for (int i = 0; i <= EMULATED_GPUS; i++)
        ls_device_close(f->device[i]);
    ls_machine_close(f->machine);
    free(f);
    assert_int_equal(cuda_emulated.pieces, 0);
    return 0;
}

static void failures_say_what_they_mean(void **state)
{
    assert_null(ls_cuda_check("gpu:0", "x", cudaSuccess));
    ls_status status = ls_cuda_check("gpu:0", "multiply", cudaErrorIllegalAddress);
    assert_true(ls_status_is_final(status));
    says(status, "gpu: gpu:0: multiply: ");
    status = ls_cuda_check_code("gpu:0", "sum", cudaErrorStreamCaptureUnsupported);
    assert_false(ls_status_is_final(status));
    says(status, "; use --capture no");
    says(ls_cuda_check("gpu:0", "sum", cudaErrorStreamCaptureWrongThread), "--capture no");
    says(ls_cuda_check("gpu:0", "allocate 77 bytes", cudaErrorMemoryAllocation),
         "allocate 77 bytes: out of memory (cudaErrorMemoryAllocation); the GPU has "
         "4294967296 bytes free of 8589934592; try --memory growth or fraction=F, a smaller batch");
    status = ls_cuda_fail("gpu:0", "instantiate", cudaErrorMemoryAllocation, "--capture no works");
    says(status, "bytes free of 8589934592; --capture no works");
    status = ls_cuda_check("gpu:0", "launch", cudaErrorInvalidValue);
    assert_null(strchr(ls_status_text(status), ';'));
    ls_status_free(status);
}

/* A library only reports failure; the device knows the reason. */
static void libraries_failures_are_blamed(void **state)
{
    assert_null(ls_cuda_blame(LS_OK));
    ls_status status = ls_cuda_blame(ls_fail(LS_CODE_MISSING, "cuBLASLt", NULL, "it failed"));
    assert_false(ls_status_is_final(status));
    cuda_emulated.memory_info = cudaErrorLaunchFailure;
    status = ls_cuda_blame(status);
    cuda_emulated.memory_info = cudaSuccess;
    assert_true(ls_status_is_final(status));
    says(status, "cuBLASLt: it failed");
}

static ls_status fail_op(ls_op *op, ls_queue *queue)
{
    return ls_fail(LS_CODE_MISSING, "cuBLASLt", "multiply", "it failed");
}

static void keep(ls_op *op)
{
}

static void a_captured_failure_names_the_option(void **state)
{
    fixture *f = *state;
    ls_op op = {.name = "broken", .run = fail_op, .destroy = keep};
    ls_status status = ls_queue_enqueue(f->queue[0], &op);
    assert_string_equal(ls_status_text(status), "cuBLASLt: multiply: it failed");
    ls_status_free(status);
    cuda_emulated.capturing = true;
    status = ls_queue_enqueue(f->queue[0], &op);
    cuda_emulated.capturing = false;
    assert_string_equal(ls_status_text(status), "cuBLASLt: multiply: it failed; use --capture no");
    ls_status_free(status);
}

/* Bytes requested, free, and used by whom; and nothing leaks. */
static void missing_memory_is_explained(void **state)
{
    fixture *f = *state;
    ls_device *all;
    void *memory;
    const ls_device_name name = {.kind = LS_DEVICE_GPU, .index = 0, .logical = -1};
    const ls_memory_policy policy = {.kind = LS_MEMORY_ALL};
    const int before = cuda_emulated.pieces;
    cuda_emulated.malloc_error = cudaErrorMemoryAllocation;
    ls_status status = ls_device_allocate(f->device[0], LS_MEMORY_ACTIVATIONS, 4000000, &memory);
    assert_int_equal(ls_status_code(status), LS_CODE_MISSING);
    says(status, "memory: gpu:0: 4000000 bytes for activations do not fit (--memory ");
    status = ls_device_open(f->machine, &name, &policy, &all);
    says(status, "allocate 3570191565 bytes: out of memory (cudaErrorMemoryAllocation); "
                 "the GPU has 4294967296 bytes free of 8589934592; try --memory growth");
    cuda_emulated.malloc_error = cudaSuccess;
    assert_int_equal(cuda_emulated.pieces, before);
}

static void copies_are_counted_by_their_way(void **state)
{
    fixture *f = *state;
    enum { BYTES = 1000 };
    void *at[EMULATED_GPUS + 1];
    cuda_emulated.unreachable = true;
    for (int i = 0; i <= EMULATED_GPUS; i++)
        must(ls_device_allocate(f->device[i], LS_MEMORY_WORKSPACE, BYTES, &at[i]));
    must(ls_queue_copy(f->queue[0], at[0], f->device[0], at[0], f->device[0], BYTES));
    must(ls_queue_copy(f->queue[0], at[0], f->device[0], at[1], f->device[1], 7));
    must(ls_queue_copy(f->queue[0], at[1], f->device[1], at[0], f->device[0], 8));
    must(ls_queue_copy(f->queue[0], at[2], f->device[2], at[0], f->device[0], 100));
    must(ls_queue_copy(f->queue[0], at[3], f->device[3], at[0], f->device[0], 500));
    must(ls_queue_copy(f->queue[2], at[2], f->device[2], at[1], f->device[1], 30));
    const ls_copies first = ls_device_copies(f->device[0]), third = ls_device_copies(f->device[2]);
    assert_true(first.peer_bytes == 15 && first.staged_bytes == 100 && first.host_bytes == 500);
    assert_true(third.peer_bytes == 0 && third.staged_bytes == 30 && third.host_bytes == 0);
    assert_int_equal(ls_device_copies(f->device[EMULATED_GPUS]).host_bytes, 0);
    cuda_emulated.between = cudaErrorNotSupported;
    says(ls_queue_copy(f->queue[0], at[2], f->device[2], at[0], f->device[0], 1),
         "no peer access; if the copy cannot be captured, --capture no");
    cuda_emulated.between = cudaSuccess;
    cuda_emulated.unreachable = false;
}

/* Calls fail at once, closing does not wait; the other GPUs keep working. */
static void a_lost_device_is_left_alone(void **state)
{
    fixture *f = *state;
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    const ls_device_name name = {.kind = LS_DEVICE_GPU, .index = 1, .logical = -1};
    ls_device *judge, *late;
    ls_queue *queue;
    void *memory;
    must(ls_device_open(f->machine, &name, &policy, &judge));
    must(ls_queue_open(judge, "judge", &queue));
    must(ls_device_allocate(judge, LS_MEMORY_WORKSPACE, 100, &memory));
    const int before = cuda_emulated.pieces;
    ls_device_lose(judge);
    const int calls = cuda_emulated.calls;
    for (int i = 0; i < 2; i++) { /* also by the other logical device on that GPU */
        ls_status status = ls_queue_sync(i ? queue : f->queue[1]);
        assert_true(ls_status_is_final(status) && ls_status_is_consequence(status));
        says(status, "gpu: gpu:1: the GPU failed");
    }
    says(ls_device_open(f->machine, &name, &policy, &late), "the GPU failed");
    ls_queue_close(queue);
    ls_device_close(judge);
    ls_queue_close(f->queue[1]);
    ls_device_close(f->device[1]);
    f->queue[1] = NULL;
    f->device[1] = NULL;
    assert_int_equal(cuda_emulated.calls, calls);
    assert_int_equal(cuda_emulated.pieces, before);
    must(ls_queue_sync(f->queue[0]));
    cuda_emulated.pieces = before - 7; /* two queues of two, two services, a chunk: not freed */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_say_what_they_mean),
        cmocka_unit_test(libraries_failures_are_blamed),
        cmocka_unit_test_setup_teardown(a_captured_failure_names_the_option, setup, teardown),
        cmocka_unit_test_setup_teardown(missing_memory_is_explained, setup, teardown),
        cmocka_unit_test_setup_teardown(copies_are_counted_by_their_way, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lost_device_is_left_alone, setup, teardown),
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
