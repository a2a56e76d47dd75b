/* SPDX-License-Identifier: MIT */
/* Part of test_kernels.c: combinations of two arrays, whose bits are those of the loop that defines
 * them, also in place. */
#pragma once

static void test_combine(void **state)
{
    fixture *f = *state;
    for (int64_t count = 0; count < 40000; count = 5 * count + 1) {
        float *x = randoms(count, 1), *y = randoms(count, 2);
        float *got = randoms(count, 3), *want = randoms(count, 3);
        apply_combine(f, f->cpu, &(ls_combine_args){count, 0.9, x, -1, y, 3, got});
        apply_combine(f, f->reference, &(ls_combine_args){count, 0.9, x, -1, y, 3, want});
        same_bits("combine", got, want, ((size_t)count + 1) * sizeof *got);
        for (int64_t e = 0; e < count; e++)
            assert_true(fabs((0.9 * (double)x[e] - (double)y[e]) / 3 - (double)got[e]) <
                        4 * U * (fabs((double)x[e]) + fabs((double)y[e])));
        /* in place, of one array */
        apply_combine(f, f->cpu, &(ls_combine_args){count, 1, y, 0, NULL, 1, got});
        same_bits("copy", got, y, (size_t)count * sizeof *got);
        apply_combine(f, f->cpu, &(ls_combine_args){count, -1, got, 1, x, 1, got});
        apply_combine(f, f->reference, &(ls_combine_args){count, 1, x, -1, y, 1, want});
        same_bits("difference", got, want, (size_t)count * sizeof *got);
        free(x), free(y), free(got), free(want);
    }
}
