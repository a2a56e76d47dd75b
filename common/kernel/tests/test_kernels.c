/* SPDX-License-Identifier: MIT */
/*
 * The cpu table against the reference, every entry but those of images and sequences
 * (test_layer_kernels.c), over edge shapes. u = 2^-24. Other files include this one to do the same
 * with another table (kernel_fixture.h).
 *
 * Bounds:
 *     gemm, dense_*            (terms + 4) u sum |terms|: the bound of any order of summation
 *     relu, add, fill, polynomial, gather, batch_indices, count_correct, add_loss, finish_step
 *                              the same bits
 *     softmax_cross_entropy    dlogits: (32 + classes / 16) u scale. loss: scale rows (32 + classes
 *                              / 16 + range) u, where logits lie in [-range / 2, range / 2]
 *     squared_error            dy: 4 u |dy|; loss: 4 u loss
 *     optimizer                slots: 4 u sum |terms|; weight: 2 u |w| + 16 u (update with |terms|)
 */
#include "common/kernel/tests/kernel_fixture.h"
#include "common/kernel/tests/kernel_products.h"
#include "common/kernel/tests/kernel_combine.h"
#include "common/kernel/tests/kernel_ranges.h"
#include "common/kernel/tests/kernel_storage.h"
#include "common/kernel/tests/kernel_targets.h"

static const int64_t sizes[] = {0, 1, 2, 3, 7, 16, 17, 31, 64, 97, 130};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* ---- Elementwise: the same bits ------------------------------------------------------------ */

static void test_relu_forward(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < SIZES; i++) {
        int64_t count = sizes[i] * 200;
        float *x = randoms(count, 1), *got = randoms(count, 1), *want = randoms(count, 2);
        apply_relu_forward(f, f->cpu, &(ls_relu_forward_args){count, got, got});
        apply_relu_forward(f, f->reference, &(ls_relu_forward_args){count, x, want});
        same_bits("relu_forward", got, want, (size_t)count * sizeof *got);
        free(x), free(got), free(want);
    }
}

static void test_relu_backward(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < SIZES; i++) {
        int64_t count = sizes[i] * 200;
        float *y = randoms(count, 1), *dy = randoms(count, 2), *got = randoms(count, 2);
        float *want = randoms(count, 3);
        for (int64_t j = 0; j < count; j += 2)
            y[j] = 0;
        apply_relu_backward(f, f->cpu, &(ls_relu_backward_args){count, y, got, got});
        apply_relu_backward(f, f->reference, &(ls_relu_backward_args){count, y, dy, want});
        same_bits("relu_backward", got, want, (size_t)count * sizeof *got);
        free(y), free(dy), free(got), free(want);
    }
}

static void test_polynomial(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < SIZES; i++) {
        int64_t rows = sizes[i];
        float *x = randoms(rows, 1), *got = randoms(3 * rows, 2), *want = randoms(3 * rows, 3);
        apply_polynomial(f, f->cpu, &(ls_polynomial_args){rows, x, got});
        apply_polynomial(f, f->reference, &(ls_polynomial_args){rows, x, want});
        same_bits("polynomial", got, want, (size_t)(3 * rows) * sizeof *got);
        free(x), free(got), free(want);
    }
}

static void test_add(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < SIZES; i++) {
        int64_t count = sizes[i] * 200;
        float *a = randoms(count, 1), *b = randoms(count, 2), *got = randoms(count, 1);
        float *want = randoms(count, 3);
        apply_add(f, f->cpu, &(ls_add_args){count, got, b, got});
        apply_add(f, f->reference, &(ls_add_args){count, a, b, want});
        same_bits("add", got, want, (size_t)count * sizeof *got);
        apply_add(f, f->cpu, &(ls_add_args){count, a, NULL, got});
        apply_add(f, f->reference, &(ls_add_args){count, a, NULL, want});
        same_bits("copy", got, a, (size_t)count * sizeof *got);
        same_bits("copy", want, a, (size_t)count * sizeof *got);
        free(a), free(b), free(got), free(want);
    }
}

static void test_fill(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < SIZES; i++) {
        int64_t count = sizes[i] * 200;
        float *got = randoms(count, 1), *want = randoms(count, 1);
        apply_fill(f, f->cpu, &(ls_fill_args){count, 0.1, got});
        apply_fill(f, f->reference, &(ls_fill_args){count, 0.1, want});
        same_bits("fill", got, want, ((size_t)count + 1) * sizeof *got); /* and no more */
        free(got), free(want);
    }
}

static void test_scale(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < SIZES; i++) {
        int64_t count = sizes[i] * 200;
        float *got = randoms(count, 1), *want = randoms(count, 1);
        const ls_clip clip = {7, 1.0 / 3};
        apply_scale(f, f->cpu,
                    &(ls_scale_args){count, i % 2 ? 1.0 / 3 : 5, got, i % 2 ? NULL : &clip});
        apply_scale(f, f->reference, &(ls_scale_args){count, 1.0 / 3, want, NULL});
        same_bits("scale", got, want, ((size_t)count + 1) * sizeof *got);
        free(got), free(want);
    }
}

/* ---- Losses -------------------------------------------------------------------------------- */

static void check_softmax(fixture *f, int64_t rows, int64_t classes, float range, bool backward)
{
    float *z = randoms(rows * classes, 1), *got = randoms(rows * classes, 2);
    float *want = randoms(rows * classes, 3);
    int32_t *labels = calloc((size_t)rows + 1, sizeof *labels);
    double got_loss = -1, want_loss = -2, scale = 1.0 / 77, terms = 32 + (double)classes / 16;
    for (int64_t i = 0; i < rows * classes; i++)
        z[i] *= range / 2;
    for (int64_t i = 0; i < rows; i++)
        labels[i] = (int32_t)(i * 7 % classes);
    ls_softmax_cross_entropy_args args = {
        rows, classes, z, labels, scale, NULL, backward ? got : NULL, &got_loss};
    apply_softmax_cross_entropy(f, f->cpu, &args);
    args.dlogits = want, args.loss = &want_loss;
    apply_softmax_cross_entropy(f, f->reference, &args);
    if (backward)
        compare("dlogits", got, want, NULL, terms * U * scale, rows * classes);
    assert_true(fabs(got_loss - want_loss) <= scale * (double)rows * (terms + (double)range) * U);
    free(z), free(got), free(want), free(labels);
}

static void test_softmax_cross_entropy(void **state)
{
    static const int64_t classes[] = {1, 2, 3, 10, 15, 16, 17, 31, 33, 100, 1000, 4099, 5000};
    static const int64_t rows[] = {0, 1, 2, 15, 16, 17, 67, 256};
    for (size_t c = 0; c < sizeof classes / sizeof *classes; c++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            for (int backward = 0; backward < 2; backward++)
                if (classes[c] * rows[r] < 300000) {
                    check_softmax(*state, rows[r], classes[c], 4, backward);
                    check_softmax(*state, rows[r], classes[c], 300, backward);
                }
}

static void test_squared_error(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < SIZES; i++)
        for (int way = 0; way < 3; way++) {
            int64_t rows = sizes[i], outputs = way + 1, count = rows * outputs;
            float *y = randoms(count, 1), *t = randoms(count, 2), *got = randoms(count, 3);
            float *want = randoms(count, 4);
            double got_loss = -1, want_loss = -2;
            ls_squared_error_args args = {rows,     outputs, y, t, 1.0 / 77, way == 2 ? NULL : got,
                                          &got_loss};
            apply_squared_error(f, f->cpu, &args);
            args.dy = want, args.loss = &want_loss;
            apply_squared_error(f, f->reference, &args);
            float *limit = absolutes(want, count);
            if (way != 2)
                compare("squared_error", got, want, limit, 4 * U, count);
            assert_true(fabs(got_loss - want_loss) <= 4 * U * want_loss);
            free(y), free(t), free(got), free(want), free(limit);
        }
}

static void test_count_correct(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < SIZES; i++)
        for (int64_t classes = 1; classes < 40; classes += 9) {
            const int64_t targets = 1 + i % 3, rows = sizes[i] * targets;
            float *z = randoms(rows * classes, 1);
            int32_t *labels = calloc((size_t)rows + 1, sizeof *labels);
            ls_step_state at = {.position = 1000};
            uint64_t got = 5, want = 5;
            for (int64_t j = 0; j < rows; j++)
                labels[j] = (int32_t)(j % (classes > 1 ? classes : 2)); /* one: logistic */
            for (int64_t j = 0; j < rows * classes; j++)
                z[j] = roundf(3 * z[j]); /* many ties */
            ls_count_correct_args args = {rows, classes, targets, z, labels, &at, 1050, &got};
            apply_count_correct(f, f->cpu, &args);
            args.correct = &want;
            apply_count_correct(f, f->reference, &args);
            assert_int_equal(got, want);
            free(z), free(labels);
        }
}

/* ---- Batches ------------------------------------------------------------------------------- */

static void test_batch_indices(void **state)
{
    fixture *f = *state;
    static const uint64_t samples[] = {1, 2, 3, 97, 1000, 10007, 60000};
    for (size_t s = 0; s < sizeof samples / sizeof *samples; s++)
        for (int way = 0; way < 2 * SIZES; way++) {
            int64_t rows = 3 * sizes[way / 2];
            uint32_t *got = calloc((size_t)rows + 1, 4), *want = calloc((size_t)rows + 1, 4);
            ls_step_state at = {.position = samples[s] * 5 - 3};
            ls_batch_indices_args args = {rows, {samples[s], 7, way & 1}, 2, &at, got};
            apply_batch_indices(f, f->cpu, &args);
            args.indices = want;
            apply_batch_indices(f, f->reference, &args);
            same_bits("batch_indices", got, want, (size_t)rows * sizeof *got);
            free(got), free(want);
        }
}

static void check_gather(fixture *f, int64_t rows, int64_t width, ls_gather_type type)
{
    enum { SAMPLES = 53 };
    uint8_t *source = malloc((size_t)(SAMPLES * width + 1) * 4);
    uint32_t *indices = calloc((size_t)rows + 1, sizeof *indices), seed = 3;
    int64_t count = rows * width * (type == LS_GATHER_ONE_HOT ? 256 : 1);
    float *got = randoms(count, 1), *want = randoms(count, 1);
    for (int64_t i = 0; i < SAMPLES * width * 4; i++)
        source[i] = (uint8_t)(i * 37 + i / 251);
    for (int64_t i = 0; i < rows; i++) {
        noise(&seed);
        indices[i] = (seed >> 8) % SAMPLES;
    }
    ls_gather_args args = {rows, width, type, source, indices, got, SAMPLES};
    apply_gather(f, f->cpu, &args);
    args.out = want;
    apply_gather(f, f->reference, &args);
    same_bits("gather", got, want, (size_t)(count + 1) * sizeof *got);
    free(source), free(indices), free(got), free(want);
}

static void test_gather(void **state)
{
    static const ls_gather_type types[] = {LS_GATHER_BYTES_TO_UNIT, LS_GATHER_FLOAT,
                                           LS_GATHER_ONE_HOT, LS_GATHER_INT32};
    for (int r = 0; r < SIZES; r++)
        for (int w = 0; w < SIZES; w++)
            for (size_t t = 0; t < sizeof types / sizeof *types; t++)
                check_gather(*state, sizes[r], sizes[w], types[t]);
    check_gather(*state, 256, 784, LS_GATHER_BYTES_TO_UNIT);
    check_gather(*state, 256, 1, LS_GATHER_INT32);
}

/* Indices and rows in one operation: the bits of two operations. */
static void check_gather_batch(fixture *f, int64_t rows, const int64_t widths[3], int count)
{
    enum { SAMPLES = 53 };
    static const ls_gather_type types[] = {LS_GATHER_BYTES_TO_UNIT, LS_GATHER_INT32,
                                           LS_GATHER_ONE_HOT};
    uint32_t *indices = calloc((size_t)rows + 1, 4), *want_indices = calloc((size_t)rows + 1, 4);
    const ls_step_state at = {.position = 5 * SAMPLES - 3};
    ls_gather_batch_args args = {{rows, {SAMPLES, 7, true}, 2, &at, indices}, count, {{0}}};
    ls_batch_indices_args alone = args.indices;
    float *got[3], *want[3];
    ls_op *op;
    alone.indices = want_indices;
    apply_batch_indices(f, f->reference, &alone);
    for (int i = 0; i < 3; i++) {
        const int64_t out = rows * widths[i] * (i == 2 ? 256 : 1);
        got[i] = randoms(out, 1), want[i] = randoms(out, 1);
        args.gather[i] = (ls_gather_args){
            rows, widths[i], types[i], randoms(SAMPLES * widths[i], 2), indices, got[i], SAMPLES};
        ls_gather_args one = args.gather[i];
        one.indices = want_indices, one.out = want[i];
        must(f->reference->table->gather(f->reference, &one, &op));
        if (i < count)
            run(f, op);
        else
            ls_op_free(op);
    }
    apply_gather_batch(f, f->cpu, &args);
    same_bits("gather_batch", indices, want_indices, (size_t)rows * sizeof *indices);
    for (int i = 0; i < 3; i++) {
        const int64_t out = rows * widths[i] * (i == 2 ? 256 : 1);
        same_bits("gather_batch", got[i], want[i], (size_t)(out + 1) * sizeof *got[i]);
        free(got[i]), free(want[i]), free((void *)(uintptr_t)args.gather[i].source);
    }
    free(indices), free(want_indices);
}

/* Tables may lack it. */
static void test_gather_batch(void **state)
{
    static const int64_t widths[][3] = {{1, 1, 1}, {784, 1, 3}, {13, 4, 20}, {4, 0, 1}};
    const fixture *f = *state;
    for (int r = 0; r < SIZES && f->cpu->table->gather_batch; r++)
        for (int way = 0; way < 16; way++)
            check_gather_batch(*state, sizes[r], widths[way / 4], way % 4);
}

/* ---- Optimizer ----------------------------------------------------------------------------- */

/* The tolerances of one element, from its values before the step. */
static void optimizer_limits(const ls_optimizer_args *o, double w, double g, double a, double b,
                             double limit[3])
{
    double t = (double)o->state->step + 1, rate = o->state->learning_rate, update = 0;
    double m = o->beta1 * fabs(a) + (1 - o->beta1) * fabs(g);
    const bool adam = o->kind == LS_OPTIMIZER_ADAM || o->kind == LS_OPTIMIZER_ADAMW;
    double keep = adam ? o->beta2 : o->rho;
    double v = keep * (adam ? b : a) + (1 - keep) * g * g;
    limit[1] = limit[2] = 0;
    switch (o->kind) {
    case LS_OPTIMIZER_SGD:
        update = rate * fabs(g);
        break;
    case LS_OPTIMIZER_MOMENTUM:
        limit[1] = 4 * U * (o->mu * fabs(a) + fabs(g));
        update = rate * (o->mu * fabs(a) + fabs(g));
        break;
    case LS_OPTIMIZER_ADAM:
    case LS_OPTIMIZER_ADAMW:
        limit[1] = 4 * U * m, limit[2] = 4 * U * v;
        update =
            rate * m / (1 - pow(o->beta1, t)) / (sqrt(v / (1 - pow(o->beta2, t))) + o->epsilon);
        break;
    case LS_OPTIMIZER_RMSPROP:
        limit[1] = 4 * U * v;
        update = rate * fabs(g) / (sqrt(v) + o->epsilon);
        break;
    }
    limit[0] = 2 * U * fabs(w) + 16 * U * update;
}

static void check_optimizer(fixture *f, ls_optimizer_kind kind, int64_t count, uint64_t step)
{
    ls_step_state at = {.step = step, .learning_rate = 0.01};
    float *g = randoms(count, 1), *w0 = randoms(count, 2), *a0 = randoms(count, 3);
    float *b0 = randoms(count, 4), *buffer[2][3];
    ls_kernels *tables[2] = {f->cpu, f->reference};
    ls_optimizer_args args = {.kind = kind, .count = count, .gradient = g, .mu = 0.9};
    args.beta1 = 0.9, args.beta2 = 0.999, args.rho = 0.9, args.epsilon = 1e-7, args.state = &at;
    const ls_update_range all = {0, count, 0, 0, true};
    args.decay = 0.1, args.ranges = &all, args.range_count = 1;
    const ls_clip clip = {2, 0.5};
    args.clip = step ? &clip : NULL;
    for (int64_t i = 0; i < count; i++) {
        a0[i] = kind == LS_OPTIMIZER_RMSPROP ? fabsf(a0[i]) : a0[i];
        b0[i] = fabsf(b0[i]);
    }
    for (int k = 0; k < 2; k++) {
        const float *start[3] = {w0, a0, b0};
        for (int j = 0; j < 3; j++) {
            buffer[k][j] = randoms(count, 0);
            memcpy(buffer[k][j], start[j], (size_t)count * sizeof(float));
        }
        args.weight = buffer[k][0], args.slot[0] = buffer[k][1], args.slot[1] = buffer[k][2];
        apply_optimizer(f, tables[k], &args);
    }
    for (int64_t i = 0; i < count; i++) {
        double limit[3];
        const double scaled = (double)g[i] * (step ? clip.factor : 1);
        optimizer_limits(&args, (double)w0[i], scaled, (double)a0[i], (double)b0[i], limit);
        for (int j = 0; j < 3; j++)
            compare("optimizer", buffer[0][j] + i, buffer[1][j] + i, NULL, limit[j], 1);
    }
    free(g), free(w0), free(a0), free(b0);
    for (int k = 0; k < 6; k++)
        free(buffer[k / 3][k % 3]);
}

static void test_optimizer(void **state)
{
    for (int kind = LS_OPTIMIZER_SGD; kind <= LS_OPTIMIZER_RMSPROP; kind++)
        for (int i = 0; i < SIZES; i++) {
            check_optimizer(*state, (ls_optimizer_kind)kind, sizes[i], 0);
            check_optimizer(*state, (ls_optimizer_kind)kind, 300 * sizes[i], 12345);
        }
}

/* ---- Without reals ------------------------------------------------------------------------- */

static void test_add_loss(void **state)
{
    fixture *f = *state;
    double a = 1.25, b = 2.5;
    apply_add_loss(f, f->cpu, &(ls_add_loss_args){&a, &b, &a});
    assert_true(a == 3.75);
}

static void test_finish_step(void **state)
{
    fixture *f = *state;
    ls_step_state at = {.step = 9, .position = 100, .record = 7, .learning_rate = 0.5};
    ls_step_record records[4] = {{0}};
    double loss = 42;
    ls_finish_step_args args = {
        &at, 32, {.initial = 0.5, .factor = 0.1, .period = 5}, &loss, records, 4, 0, NULL};
    apply_finish_step(f, f->cpu, &args);
    assert_int_equal(at.step, 10);
    assert_int_equal(at.position, 132);
    assert_int_equal(at.record, 8);
    assert_true(fabs(at.learning_rate - 0.005) < 1e-17);
    assert_true(records[3].loss == 42 && records[3].end_ns > 0);
    args.loss = NULL, args.schedule.period = 0;
    apply_finish_step(f, f->reference, &args);
    assert_true(at.learning_rate == 0.5 && records[0].loss == 0 && records[0].end_ns > 0);
}

/* Each curve at each of its steps, and the same bits from both tables. */
static void test_rates(void **state)
{
    fixture *f = *state;
    ls_step_record record;
    const double pi = acos(-1), peak = 0.37, least = 0.011;
    for (int kind = LS_RATE_LINEAR; kind <= LS_RATE_WSD; kind++) {
        const ls_rate_schedule s = {.initial = peak,
                                    .least = least,
                                    .kind = (ls_rate_kind)kind,
                                    .warmup = 7,
                                    .decay = 1000,
                                    .down = 90,
                                    .updates = 3};
        ls_step_state at = {0}, same = {0};
        const ls_finish_step_args args = {&at, 1, s, NULL, &record, 1, 0, NULL},
                                  again = {&same, 1, s, NULL, &record, 1, 0, NULL};
        for (int step = 1; step < 3300; step++) {
            const double t = step / 3, x = fmin(1, (t - 7) / 993);
            const double right =
                t < 7                    ? peak * (t + 1) / 7
                : kind == LS_RATE_COSINE ? least + (peak - least) * (1 + cos(pi * x)) / 2
                : kind == LS_RATE_LINEAR ? peak + (least - peak) * x
                                         : peak + (least - peak) * fmin(1, fmax(0, (t - 910) / 90));
            apply_finish_step(f, f->cpu, &args);
            apply_finish_step(f, f->reference, &again);
            assert_true(fabs(at.learning_rate - right) <= 1e-15 * peak);
            assert_memory_equal(&at, &same, sizeof at);
        }
    }
}

static void test_stamp(void **state)
{
    fixture *f = *state;
    ls_kernels *const both[] = {f->cpu, f->reference};
    for (int k = 0; k < 2; k++) {
        uint64_t times[2] = {0};
        for (int i = 0; i < 2; i++)
            apply_stamp(f, both[k], &(ls_stamp_args){&times[i]});
        assert_true(times[0] > 0 && times[1] >= times[0]);
    }
}

static void test_set_first(void **state)
{
    fixture *f = *state;
    const ls_step_state at = {.position = UINT64_C(5000000000)};
    ls_kernels *const both[] = {f->cpu, f->reference};
    for (int k = 0; k < 2; k++) {
        uint64_t first = 0;
        apply_set_first(f, both[k], &(ls_set_first_args){&at, 7, &first});
        assert_true(first == UINT64_C(5000000007));
    }
}

static void test_flip_bit(void **state)
{
    fixture *f = *state;
    float data[] = {1, -2.5f, 2.5f, 0.5f};
    ls_step_state at = {.step = 3};
    ls_kernels *const both[] = {f->cpu, f->reference};
    for (int k = 0; k < 2; k++) {
        ls_op *op;
        at.step = 3;
        must(both[k]->table->flip_bit(both[k], &(ls_flip_bit_args){4, data, &at, 4}, &op));
        must(ls_queue_enqueue(f->queue, op));
        must(ls_queue_sync(f->queue));
        assert_true(data[1] == -2.5f); /* another step */
        at.step = 4;
        run(f, op);
        assert_true(data[1] != -2.5f && data[2] == 2.5f && data[0] == 1 && data[3] == 0.5f);
        data[1] = -2.5f;
    }
}

static int run_kernel_tests(void)
{
    /* One test for each entry of the table: a new entry without a test does not compile. */
#define ENTRY_TEST(entry, args) cmocka_unit_test(test_##entry),
    const struct CMUnitTest tests[] = {
        LS_KERNEL_CORE_ENTRIES(ENTRY_TEST) LS_KERNEL_STORAGE_ENTRIES(ENTRY_TEST)
            LS_KERNEL_BF16_ENTRIES(ENTRY_TEST) LS_KERNEL_JOINT_ENTRIES(ENTRY_TEST)
                cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_rates), cmocka_unit_test(test_softmax_ragged)};
#undef ENTRY_TEST
    return cmocka_run_group_tests(tests, setup, teardown);
}

#ifndef OTHER_MAIN
int main(void)
{
    return run_kernel_tests();
}
#endif
