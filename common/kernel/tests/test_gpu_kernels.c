/* SPDX-License-Identifier: MIT */
/*
 * The cuda table against the reference: the tests of the cpu table, every entry, with their bounds
 * (test_kernels.c), and what a GPU alone does: faults of kernels, and a device that falls over.
 * Skipped where there is no GPU; not yet run on one.
 */
#define LS_KERNEL_TESTS_WITHOUT_MAIN
#include "common/kernel/tests/test_kernels.c"

#include "common/kernel/tests/gpu_mirror.h"

enum { SKIPPED = 77 };

static int setup_gpu(void **state)
{
    setup(state);
    fixture *f = *state;
    f->cpu->table->close(f->cpu);
    f->cpu = mirror_of(f->machine);
    return 0;
}

/* Says so at the next wait, once; the queue works on. */
static void a_label_that_is_no_class_is_a_fault(void **state)
{
    fixture *f = *state;
    const ls_queue *queue = ((const mirror_kernels *)f->cpu)->queue;
    float z[30] = {0};
    int32_t labels[3] = {0, 10, 1};
    double loss;
    ls_op *op;
    ls_softmax_cross_entropy_args args = {3, 10, z, labels, 1, NULL, &loss};
    must(f->cpu->table->softmax_cross_entropy(f->cpu, &args, &op));
    must(ls_queue_put(f->queue, op));
    ls_status status = ls_queue_sync(f->queue);
    assert_int_equal(ls_status_code(status), LS_CODE_MISSING);
    assert_non_null(strstr(ls_status_text(status), "a label of the batch is no class"));
    ls_status_free(status);
    labels[1] = 9;
    run(f, op);
    must(ls_queue_sync((ls_queue *)(uintptr_t)queue));
}

/* Reads where no memory is. Nothing hangs, every wait says it, in one line. Last: the device is
 * lost to this process. */
static void a_fallen_device_says_so(void **state)
{
    fixture *f = *state;
    mirror_kernels *m = (mirror_kernels *)f->cpu;
    void *memory;
    ls_op *op;
    must(ls_device_allocate(m->base.device, LS_MEMORY_WORKSPACE, 4096, &memory));
    const ls_gather_args args = {.rows = 16,
                                 .width = 16,
                                 .type = LS_GATHER_FLOAT,
                                 .source = (void *)(uintptr_t)64,
                                 .indices = memory,
                                 .out = (char *)memory + 2048};
    must(m->gpu->table->gather(m->gpu, &args, &op));
    must(ls_queue_put(m->queue, op));
    for (int i = 0; i < 2; i++) {
        ls_status status = ls_queue_sync(m->queue);
        assert_int_equal(ls_status_code(status), LS_CODE_MISSING);
        assert_non_null(strstr(ls_status_text(status), "gpu: gpu:0: "));
        assert_non_null(strstr(ls_status_text(status), "the device has fallen over"));
        ls_status_free(status);
    }
    ls_op_free(op);
}

int main(void)
{
    ls_machine *machine;
    must(ls_machine_open(&(ls_machine_options){0}, &machine));
    const bool here = ls_machine_count(machine, LS_DEVICE_GPU) > 0;
    if (!here)
        printf("skipped: no GPU here: %s\n", ls_machine_describe(machine)->gpu);
    ls_machine_close(machine);
    if (!here)
        return SKIPPED;
#define ENTRY_TEST(entry, args) cmocka_unit_test(test_##entry),
    const struct CMUnitTest tests[] = {
        LS_KERNEL_ENTRIES(ENTRY_TEST) cmocka_unit_test(a_label_that_is_no_class_is_a_fault),
        cmocka_unit_test(a_fallen_device_says_so),
    };
#undef ENTRY_TEST
    return cmocka_run_group_tests(tests, setup_gpu, teardown);
}
