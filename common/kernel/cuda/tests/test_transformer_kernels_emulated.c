/* SPDX-License-Identifier: MIT */
/* The tests of test_transformer_kernels.c for the cuda table, without a GPU: see
 * test_kernels_emulated.c. */
#define FIXTURE_OPEN  open_emulated
#define FIXTURE_CLOSE close_emulated
#include "common/kernel/cuda/tests/kernel_emulated.h"

#define OTHER_MAIN
#include "common/kernel/tests/test_transformer_kernels.c"

/* The table whose arithmetic may be set. */
static ls_kernels *inner_kernels(fixture *f)
{
    return f->cpu;
}

#include "common/kernel/cuda/tests/attention_bf16_bits.h"
#include "common/kernel/cuda/tests/attention_float_bits.h"
#include "common/kernel/cuda/tests/transformer_bits.h"

/* What is no token: a fault, and NaN in its row. The gradient then reads and writes nothing else,
 * and the tokens of the next batch count as ever. */
static void test_token_fault(void **state)
{
    enum { ROWS = 40, TOKENS = 5, WIDTH = 3 };
    fixture *f = *state;
    static const float bad[] = {-1, TOKENS, 0.5f, 1e30f, NAN};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        float *x = token_rows(ROWS, TOKENS), *weight = randoms(TOKENS * WIDTH, 1);
        float *y = randoms(ROWS * WIDTH, 2), *got = randoms(TOKENS * WIDTH, 3);
        float *want = randoms(TOKENS * WIDTH, 3);
        const float right = x[7];
        ls_op *forward, *backward;
        must(f->cpu->table->embedding_forward(
            f->cpu, &(ls_embedding_forward_args){ROWS, TOKENS, WIDTH, x, weight, y, 0, 0},
            &forward));
        must(f->cpu->table->embedding_backward(
            f->cpu, &(ls_embedding_backward_args){ROWS, TOKENS, WIDTH, x, y, got, 0}, &backward));
        for (int again = 0; again < 2; again++) {
            x[7] = again ? right : bad[i], fault = 0;
            must(ls_queue_enqueue(f->queue, forward));
            must(ls_queue_enqueue(f->queue, backward));
            must(ls_queue_sync(f->queue));
            const bool refused = fault != 0 && isnan(y[7 * WIDTH]);
            assert_true(refused != (again == 1) && refused == (fault != 0));
            assert_true(!isnan(y[0]));
        }
        apply_embedding_backward(f, f->reference,
                                 &(ls_embedding_backward_args){ROWS, TOKENS, WIDTH, x, y, want, 0});
        compare("after a fault", got, want, NULL, 1e-5, TOKENS * WIDTH);
        ls_op_free(forward), ls_op_free(backward);
        free(x), free(weight), free(y), free(got), free(want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {TRANSFORMER_BITS_TESTS, ATTENTION_BF16_TESTS,
                                       ATTENTION_FLOAT_TESTS, cmocka_unit_test(test_token_fault)};
    return run_transformer_tests() + cmocka_run_group_tests(tests, setup, teardown);
}
