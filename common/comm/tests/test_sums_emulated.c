/* SPDX-License-Identifier: MIT */
/*
 * The kernel that adds ranges on a GPU, compiled for a CPU (gpu_emulate.h), against the CPU's
 * loops: more steps than one launch takes, steps that read what an earlier one wrote, lengths
 * around a block. No tolerance: bits, and nothing is written past the end.
 */
#include "common/base/bf16_inline.h"
#include "common/comm/comm_sums.h"
#include "common/comm/comm_wire_loops.h"
#include "common/comm/gpu_sums.h"
#include "common/comm/tests/comm_fixture.h"

enum { STEPS = 150, BUFFERS = 5 };

static const size_t counts[] = {0, 1, 2, 31, 255, 256, 257, 4097, 20000};

/* Dependent sums and copies over a few buffers. */
static void plan_steps(float *const *buffers, ls_sum_step *steps)
{
    for (size_t s = 0; s < STEPS; s++) {
        float *to = buffers[s * 7 % BUFFERS], *a = buffers[s * 3 % BUFFERS];
        steps[s] = (ls_sum_step){to, s % 4 == 1 ? a : to, buffers[(s + 1) * 3 % BUFFERS]};
        if (steps[s].b == to || s % 5 == 4) /* a copy */
            steps[s] = (ls_sum_step){to, a, NULL};
    }
}

static void kernel_has_the_loops_bits(void **state)
{
    fixture *f = *state;
    assert_int_equal(ls_gpu_load_sums(), 0);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        const size_t count = counts[c];
        float *looped[BUFFERS], *launched[BUFFERS];
        ls_sum_step steps[STEPS];
        ls_op *op;
        for (int b = 0; b < BUFFERS; b++) {
            looped[b] = random_floats("sums", b, count);
            launched[b] = random_floats("sums", b, count);
            looped[b][count] = launched[b][count] = 42.0f;
        }
        plan_steps(looped, steps);
        must(ls_sums_make(f->device[0], "test", steps, STEPS, count, &op));
        must(ls_queue_enqueue(f->queue[0], op));
        must(ls_queue_sync(f->queue[0]));
        plan_steps(launched, steps);
        assert_int_equal(ls_gpu_sums(NULL, steps, STEPS, count), 0);
        for (int b = 0; b < BUFFERS; b++) {
            assert_memory_equal(looped[b], launched[b], (count + 1) * sizeof(float));
            free(looped[b]);
            free(launched[b]);
        }
        ls_op_free(op);
    }
    unsigned pulses = 5;
    assert_int_equal(ls_gpu_pulse(NULL, &pulses), 0);
    assert_int_equal(pulses, 6);
}

/* Sums over a wire: of more blocks than one launch takes, of some, of none; packed into a block. */
static void wire_has_the_loops_bits(void **state)
{
    enum { BLOCKS = 130, COUNT = 700 };
    static const int ranks[] = {0, 1, 3, BLOCKS};
    float error = 0;
    (void)state;
    for (size_t r = 0; r < sizeof ranks / sizeof *ranks; r++) {
        uint16_t *of[2][BLOCKS + 1];
        float *values[2];
        for (int side = 0; side < 2; side++) {
            values[side] = random_floats("wire", 0, COUNT);
            for (int d = 0; d <= BLOCKS; d++) {
                float *x = random_floats("blocks", d, COUNT);
                of[side][d] = malloc(COUNT * sizeof **of[side]);
                for (size_t i = 0; i < COUNT; i++)
                    of[side][d][i] = ls_bf16_of_float(x[i]);
                free(x);
            }
        }
        const int out = ranks[r] > 1 ? 1 : BLOCKS;
        ls_wire_loop(&(ls_wire_work){.rows = {LS_WIRE_BF16, COUNT, 0, NULL},
                                     .in = (const unsigned char *const *)(void *)of[0],
                                     .ranks = ranks[r],
                                     .values = values[0],
                                     .out = (unsigned char *)of[0][out],
                                     .error = r % 2 ? &error : NULL});
        assert_int_equal(ls_gpu_wire(NULL, (const uint16_t *const *)of[1], ranks[r], COUNT,
                                     values[1], of[1][out]),
                         0);
        assert_memory_equal(values[0], values[1], COUNT * sizeof(float));
        assert_memory_equal(of[0][out], of[1][out], COUNT * sizeof(uint16_t));
        for (int side = 0; side < 2; side++) {
            free(values[side]);
            for (int d = 0; d <= BLOCKS; d++)
                free(of[side][d]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernel_has_the_loops_bits),
        cmocka_unit_test(wire_has_the_loops_bits),
    };
    return cmocka_run_group_tests(tests, setup_devices, teardown);
}
