/* SPDX-License-Identifier: MIT */
/*
 * The packed product: an element is one chain of fused multiply-adds in the order of k, then bias,
 * ReLU and mask, with every instruction set of this machine, however rows, columns and threads
 * divide it: exact, also where numbers are so small that they are flushed to 0. And a device
 * without the library's kernels of AVX-512 uses it, in every operation. Tolerance: none.
 */
#include "common/device/cpu/team.h"
#include "common/kernel/cpu/product/cpu_product.h"
#define OTHER_MAIN
#include "common/kernel/tests/test_kernels.c"

#include <inttypes.h>
#include <pthread.h>

/* m, n, k: less than a tile, tiles and some, several blocks of columns and of k */
static const int64_t products[][3] = {{1, 1, 1},    {3, 10, 17},  {7, 33, 300}, {14, 32, 256},
                                      {29, 64, 40}, {61, 47, 19}, {5, 300, 9},  {20, 271, 520}};
#if defined(__SANITIZE_THREAD__)
enum { THREAD_SANITIZED = 1 };
#else
enum { THREAD_SANITIZED = 0 };
#endif
enum { PRODUCTS = sizeof products / sizeof *products, WAYS = 64 };

/* Operands, of which `spec.gemm.c` holds what is added to. */
typedef struct packed_case {
    ls_vector_product spec;
    float *a, *b, *bias, *mask, *start;
    size_t bytes; /* of c */
} packed_case;

/* Numbers around 2^-`smallest`. */
static float *scaled(int64_t count, uint32_t seed, int smallest)
{
    float *x = randoms(count, seed);
    for (int64_t i = 0; i < count; i++)
        x[i] = ldexpf(x[i], (int)(i * 7 % 13) - smallest);
    return x;
}

/* `way`: a bit each for both transpositions, accumulation, bias, ReLU and mask. */
static packed_case case_of(const int64_t size[3], int way, int smallest)
{
    const int64_t m = size[0], n = size[1], k = size[2];
    packed_case c = {.a = scaled(m * k, 1, smallest),
                     .b = scaled(k * n, 2, smallest),
                     .bias = scaled(n, 3, 2 * smallest),
                     .mask = randoms(m * n, 4),
                     .start = scaled(m * n, 5, 2 * smallest),
                     .bytes = (size_t)(m * n) * sizeof(float)};
    c.spec = (ls_vector_product){.gemm = {.transpose_a = way & 1,
                                          .transpose_b = way & 2,
                                          .accumulate = way & 4,
                                          .m = m,
                                          .n = n,
                                          .k = k,
                                          .a = c.a,
                                          .b = c.b,
                                          .c = malloc(c.bytes)},
                                 .bias = way & 8 ? c.bias : NULL,
                                 .relu = way & 16,
                                 .mask = way & 32 ? c.mask : NULL};
    assert_non_null(c.spec.gemm.c);
    return c;
}

static void free_case(packed_case *c)
{
    free(c->a), free(c->b), free(c->bias), free(c->mask), free(c->start), free(c->spec.gemm.c);
}

/* The part's elements, in four pieces that meet at `row` and `column`. */
static const float *computed(packed_case *c, const ls_vector_loops *loops, int64_t row,
                             int64_t column, float *scratch)
{
    const ls_gemm_args *g = &c->spec.gemm;
    const int64_t rows[] = {0, row, g->m}, columns[] = {0, column, g->n};
    memcpy(g->c, c->start, c->bytes);
    for (int i = 0; i < 4; i++) {
        const ls_vector_share share = {rows[i / 2], rows[i / 2 + 1], columns[i % 2],
                                       columns[i % 2 + 1]};
        if (share.first_row < share.last_row && share.first_column < share.last_column)
            loops->product(&c->spec, &share, scratch);
    }
    return g->c;
}

static float defined(const packed_case *c, int64_t i, int64_t j)
{
    const ls_gemm_args *g = &c->spec.gemm;
    float sum = g->accumulate ? c->start[i * g->n + j] : 0;
    for (int64_t k = 0; k < g->k; k++)
        sum = fmaf(c->a[g->transpose_a ? k * g->m + i : i * g->k + k],
                   c->b[g->transpose_b ? j * g->k + k : k * g->n + j], sum);
    if (c->spec.bias)
        sum += c->bias[j];
    if (c->spec.relu)
        sum = sum > 0 ? sum : 0;
    return !c->spec.mask || c->mask[i * g->n + j] > 0 ? sum : 0;
}

static float *scratch_of(int threads)
{
    float *scratch = aligned_alloc(64, ls_packed_scratch(threads));
    assert_non_null(scratch);
    return scratch;
}

static void test_definition(void **state)
{
    (void)state;
    const ls_vector_loops *list[4];
    const size_t tables = ls_vector_loops_list(list);
    float *scratch = scratch_of(1);
    for (int s = 0; s < PRODUCTS; s++)
        for (int way = s % 3; way < WAYS; way += 3) {
            packed_case c = case_of(products[s], way, 6);
            const int64_t m = products[s][0], n = products[s][1], step = m * n > 1000 ? 5 : 1;
            float *want = malloc(c.bytes);
            assert_non_null(want);
            for (int64_t i = 0; i < m * n; i++)
                want[i] = i % step ? 0 : defined(&c, i / n, i % n);
            for (size_t t = 0; t < tables; t++) {
                const float *got = computed(&c, list[t], m / 3, n / 2, scratch);
                for (int64_t i = 0; i < m * n; i += step)
                    if (memcmp(&got[i], &want[i], sizeof *got))
                        fail_msg("%s, case %d, way %d, element %" PRId64 ": %a, not %a",
                                 list[t]->isa, s, way, i, (double)got[i], (double)want[i]);
            }
            free(want);
            free_case(&c);
        }
    free(scratch);
}

/* With numbers that are flushed: as a device's threads do. *differs: a set that does. */
static void *compare_sets(void *differs)
{
    const char **wrong = differs;
    const ls_vector_loops *list[4];
    const size_t tables = ls_vector_loops_list(list);
    float *scratch = scratch_of(1);
    ls_flush_denormals();
    for (int s = 0; s < PRODUCTS; s++)
        for (int way = 0; way < WAYS; way += 11)
            for (int smallest = 10; smallest <= 70; smallest += 30) {
                packed_case c = case_of(products[s], way, smallest);
                float *want = malloc(c.bytes);
                assert_non_null(want);
                memcpy(want, computed(&c, list[0], 0, 0, scratch), c.bytes);
                for (size_t t = 0; t < tables; t++)
                    for (int64_t cut = 1; cut < 4; cut++)
                        if (memcmp(computed(&c, list[t], products[s][0] * cut / 4,
                                            products[s][1] * cut / 5, scratch),
                                   want, c.bytes))
                            *wrong = list[t]->isa;
                free(want);
                free_case(&c);
            }
    free(scratch);
    return NULL;
}

/* rows, steps, heads, width: whole blocks and odd ones; rows of scores as long as a product's, and
 * longer */
static const ls_attention_shape attentions[] = {{2, 1, 1, 3},  {1, 7, 2, 6},   {2, 33, 2, 16},
                                                {1, 40, 1, 8}, {1, 264, 1, 5}, {1, 265, 1, 33}};
enum { ATTENTIONS = sizeof attentions / sizeof *attentions };

/* What attention and its gradient are by one set, one after the other: y, sums, dqkv. */
static float *attended(const ls_vector_loops *loops, const ls_attention_shape *s, float size,
                       size_t *count)
{
    const size_t rows = (size_t)(s->rows * s->steps), width = (size_t)s->width;
    const size_t heads = rows * (size_t)s->heads;
    const size_t scratch = (size_t)ls_vector_pad(ls_vector_attention_memory(s));
    float *out = malloc((4 * rows * width + heads) * sizeof *out);
    float *in = malloc(4 * rows * width * sizeof *in);
    float *memory = aligned_alloc(64, scratch * sizeof *memory);
    assert_true(out && in && memory);
    uint32_t seed = 5;
    for (size_t i = 0; i < 4 * rows * width; i++)
        in[i] = noise(&seed) * (i % (3 * width) < 2 * width ? 1 : size);
    for (size_t i = 0; i < scratch; i++)
        memory[i] = noise(&seed);
    float *sums = out + rows * width, *dy = in + 3 * rows * width;
    const int64_t all = s->rows * s->heads;
    loops->attention(&(ls_attention_forward_args){*s, in, out, sums, false}, 0, all, memory);
    loops->attention_back(&(ls_attention_backward_args){*s, in, out, dy, sums, sums + heads, false},
                          0, all, memory);
    free(in);
    free(memory);
    *count = 4 * rows * width + heads;
    return out;
}

/* Of each set; with values, and gradients of some, so small that they are flushed, too. */
static void *compare_attentions(void *differs)
{
    const char **wrong = differs;
    const ls_vector_loops *list[4];
    const size_t tables = ls_vector_loops_list(list);
    ls_flush_denormals();
    for (int a = 0; a < ATTENTIONS; a++)
        for (int small = 0; small < 2; small++)
            for (size_t t = 1; t < tables; t++) {
                size_t count;
                float *want = attended(list[0], &attentions[a], small ? 1e-36F : 1, &count);
                float *got = attended(list[t], &attentions[a], small ? 1e-36F : 1, &count);
                if (memcmp(got, want, count * sizeof *got))
                    *wrong = list[t]->isa;
                free(want);
                free(got);
            }
    return NULL;
}

static void in_a_device_thread(void *(*sets)(void *), const char *what)
{
    pthread_t thread;
    const char *wrong = NULL;
    assert_int_equal(pthread_create(&thread, NULL, sets, (void *)&wrong), 0);
    pthread_join(thread, NULL);
    if (wrong)
        fail_msg("%s by %s has other bits", what, wrong);
}

static void test_attention_sets(void **state)
{
    (void)state;
    in_a_device_thread(compare_attentions, "attention");
}

static void test_sets(void **state)
{
    (void)state;
    in_a_device_thread(compare_sets, "a product");
}

static void test_threads(void **state)
{
    (void)state;
    const ls_vector_loops *loops = ls_vector_loops_pick();
    float *scratch = scratch_of(5);
    for (int s = 0; s < PRODUCTS; s++)
        for (int way = 0; way < WAYS; way += 13) {
            packed_case c = case_of(products[s], way, 6);
            float *want = malloc(c.bytes);
            assert_non_null(want);
            memcpy(want, computed(&c, loops, 0, 0, scratch), c.bytes);
            for (int threads = 1; threads <= 5; threads++) {
                memcpy(c.spec.gemm.c, c.start, c.bytes);
                must(ls_packed_run(loops, &c.spec, threads, scratch));
                same_bits("threads", c.spec.gemm.c, want, c.bytes);
            }
            free(want);
            free_case(&c);
        }
    free(scratch);
}

/* In this process the library has no kernels of AVX-512. */
static void test_chosen(void **state)
{
    fixture *f = *state;
    float x[64 * 64], y[64 * 64];
    const ls_gemm_args gemm = {.m = 64, .n = 64, .k = 64, .a = x, .b = x, .c = y};
    ls_op *op;
    must(f->cpu->table->gemm(f->cpu, &gemm, &op));
    assert_string_equal(op->name, "gemm.packed");
    assert_true(ls_scratch_bytes(&f->cpu->scratch) > 0);
    ls_op_free(op);
}

int main(void)
{
    if (setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1))
        return 1;
    const struct CMUnitTest threaded[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test_setup_teardown(test_chosen, setup, teardown)};
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_definition),
                                       cmocka_unit_test(test_sets),
                                       cmocka_unit_test(test_attention_sets)};
    int failed = cmocka_run_group_tests(threaded, NULL, NULL);
    if (!failed && !THREAD_SANITIZED) /* which finds nothing in one thread */
        failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed || THREAD_SANITIZED ? failed : run_kernel_tests();
}
