/* SPDX-License-Identifier: MIT */
/*
 * The tests of test_layer_kernels.c for the cuda table, without a GPU: see test_kernels_emulated.c.
 * What that table promises beyond the bounds there is in layer_bits.h.
 */
#define FIXTURE_OPEN  open_emulated
#define FIXTURE_CLOSE close_emulated
#include "common/kernel/tests/kernel_emulated.h"

#define OTHER_MAIN
#include "common/kernel/tests/test_layer_kernels.c"

#include "common/kernel/tests/layer_bits.h"

/* A label that is none: a fault, and NaN in its row and in the loss. */
static void test_logistic_fault(void **state)
{
    fixture *f = *state;
    static const int32_t bad[] = {-1, 2, INT32_MIN, INT32_MAX};
    for (int i = 0; i < 4; i++) {
        float z[70] = {0}, dz[70];
        int32_t labels[70] = {0, 1, bad[i], 1};
        double loss = 123;
        ls_op *op;
        const ls_logistic_loss_args args = {70, z, labels, 1, dz, &loss};
        must(f->cpu->table->logistic_loss(f->cpu, &args, &op));
        fault = 0;
        must(ls_queue_put(f->queue, op));
        must(ls_queue_sync(f->queue));
        assert_true(fault != 0 && isnan(loss) && isnan(dz[2]) && dz[1] == -0.5f);
        labels[2] = 1, fault = 0;
        run(f, op);
        assert_true(fault == 0 && fabs(loss - 70 * log(2)) < 1e-12);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {LAYER_BITS_TESTS, cmocka_unit_test(test_logistic_fault)};
    return run_layer_tests() + cmocka_run_group_tests(tests, setup, teardown);
}
