/* SPDX-License-Identifier: MIT */
/* The scratch of a table's operations. No tolerance. */
#include "common/kernel/tests/kernel_fixture.h"

/* Operations share their scratch, and declare it, so that they wait for each other. */
static void test_scratch(void **state)
{
    fixture *f = *state;
    float logits[2 * 300] = {0};
    int32_t labels[2] = {0};
    double losses[2];
    ls_op *ops[2];
    size_t held[2];
    for (int i = 0; i < 2; i++) {
        const ls_softmax_cross_entropy_args args = {
            .rows = 2, .classes = 300, .logits = logits, .labels = labels, .loss = &losses[i]};
        must(f->cpu->table->softmax_cross_entropy(f->cpu, &args, &ops[i]));
        held[i] = ls_device_ledger(f->device).in_use[LS_MEMORY_WORKSPACE];
    }
    const ls_access *own[2];
    for (int i = 0; i < 2; i++)
        own[i] = &ops[i]->accesses[ops[i]->access_count - 1];
    assert_true(ls_scratch_bytes(&f->cpu->scratch) >= sizeof logits / 2);
    assert_int_equal(held[0], held[1]);
    assert_true(own[0]->writes && own[0]->bytes >= sizeof logits / 2);
    assert_ptr_equal(own[0]->memory, own[1]->memory);
    ls_op_free(ops[0]), ls_op_free(ops[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scratch)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
