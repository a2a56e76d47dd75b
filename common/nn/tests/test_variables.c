/* SPDX-License-Identifier: MIT */
/* Variables, models, texts of optimizers: layout, initial values, files, digests, comparison. */
#include "common/base/tests/must.h"
#include "common/nn/model.h"
#include "common/nn/optimizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Mean of n uniform numbers on +-limit: standard deviation limit / sqrt(3 n); five of them. */
static const double mean_deviations = 5;

/* Refused with `code`, in one line that contains `part`. */
static void refused(ls_status status, ls_code code, const char *part)
{
    assert_non_null(status);
    assert_int_equal(ls_status_code(status), code);
    if (!strstr(ls_status_text(status), part))
        fail_msg("'%s' does not say '%s'", ls_status_text(status), part);
    assert_null(strchr(ls_status_text(status), '\n'));
    ls_status_free(status);
}

static void mlp_layout(void **state)
{
    ls_model *model;
    (void)state;
    must(ls_model_open("mlp", &model));
    const ls_variables *v = &model->graph->variables;
    assert_string_equal(model->name, "mlp:784-128-10");
    assert_int_equal(v->elements, 784 * 128 + 128 + 128 * 10 + 10);
    assert_int_equal(v->count, 4);
    assert_string_equal(v->items[0].name, "dense0.weight");
    assert_int_equal(v->items[0].shape[0], 128);
    assert_int_equal(v->items[0].shape[1], 784);
    assert_string_equal(v->items[3].name, "dense1.bias");
    assert_int_equal(v->items[1].offset, 784 * 128); /* no padding */
    assert_ptr_equal(ls_variables_holding(v, 784 * 128), &v->items[1]);
    assert_null(ls_variables_holding(v, v->elements));
    /* 2 x (784 x 128 x 2 + 128 x 10 x 3): the first layer has no data gradient */
    assert_true(ls_graph_flops(model->graph) == 2.0 * (784 * 128 * 2 + 128 * 10 * 3));
    ls_model_close(model);
}

static void initial_values(void **state)
{
    ls_model *model, *wide;
    (void)state;
    must(ls_model_open("mlp:784-128-10", &model));
    must(ls_model_open("mlp:784-128-64-10", &wide));
    const ls_variables *v = &model->graph->variables;
    float *a = malloc(v->elements * sizeof *a), *b = malloc(v->elements * sizeof *b);
    float *c = malloc(wide->graph->variables.elements * sizeof *c);
    ls_variables_initialize(v, 1, a);
    ls_variables_initialize(v, 2, b);
    ls_variables_initialize(&wide->graph->variables, 1, c);
    double limit = sqrt(6.0 / (784 + 128)), sum = 0, largest = 0;
    size_t n = v->items[0].count;
    for (size_t i = 0; i < n; i++) {
        sum += (double)a[i];
        largest = fmax(largest, fabs((double)a[i]));
    }
    assert_true(largest <= limit * (1 + 1e-6) && largest > 0.999 * limit);
    assert_true(fabs(sum / (double)n) < mean_deviations * limit / sqrt(3.0 * (double)n));
    for (size_t i = 0; i < v->items[1].count; i++)
        assert_true(a[v->items[1].offset + i] == 0.0f);
    assert_memory_not_equal(a, b, n * sizeof *a);
    assert_memory_equal(a, c, n * sizeof *a); /* by name, in any model */
    free(a);
    free(b);
    free(c);
    ls_model_close(model);
    ls_model_close(wide);
}

/* Biases of an LSTM: i, f, g, o of three, the forget gate's 1. */
static void forget_gates(void **state)
{
    static const float expected[12] = {0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0};
    ls_model *model;
    (void)state;
    must(ls_model_open("twin-lstm:3", &model));
    const ls_variables *v = &model->graph->variables;
    float *values = calloc(v->elements, sizeof *values);
    ls_variables_initialize(v, 1, values);
    assert_string_equal(v->items[2].name, "lstm0.bias");
    assert_memory_equal(values + v->items[2].offset, expected, sizeof expected);
    double limit = sqrt(6.0 / (256 + 12)), largest = 0; /* fan_out: all four gates */
    for (size_t i = 0; i < v->items[0].count; i++)
        largest = fmax(largest, fabs((double)values[i]));
    assert_true(largest <= limit * (1 + 1e-6) && largest > 0.99 * limit);
    free(values);
    ls_model_close(model);
}

static void files(void **state)
{
    char path[] = "test_variables_XXXXXX.safetensors";
    ls_model *model, *other;
    (void)state;
    close(mkstemps(path, 12));
    must(ls_model_open("mlp:6-4-3", &model));
    must(ls_model_open("mlp:6-4-2", &other));
    const ls_variables *v = &model->graph->variables;
    float a[64], b[64] = {0};
    assert_true(v->elements <= 64);
    ls_variables_initialize(v, 1, a);
    must(ls_variables_save(v, path, a));
    must(ls_variables_load(v, path, b));
    assert_memory_equal(a, b, v->elements * sizeof *a);
    refused(ls_variables_load(&other->graph->variables, path, b), LS_CODE_MISSING, "dense1.weight");
    a[30] = NAN;
    must(ls_variables_save(v, path, a));
    refused(ls_variables_load(v, path, b), LS_CODE_MISSING, "infinite or not a number");
    ls_variables fewer = {.items = v->items, .count = 3, .elements = v->elements - 3};
    ls_variables_initialize(v, 1, a);
    must(ls_variables_save(&fewer, path, a));
    refused(ls_variables_load(v, path, b), LS_CODE_MISSING, "dense1.bias");
    must(ls_variables_save(v, path, a));
    refused(ls_variables_load(&fewer, path, b), LS_CODE_MISSING, "dense1.bias");
    unlink(path);
    refused(ls_variables_load(v, path, b), LS_CODE_MISSING, path);
    ls_model_close(model);
    ls_model_close(other);
}

static void digests_and_differences(void **state)
{
    ls_model *model;
    char one[33], two[33];
    (void)state;
    must(ls_model_open("mlp:6-4-3", &model));
    const ls_variables *v = &model->graph->variables;
    float a[64], b[64];
    ls_variables_initialize(v, 1, a);
    memcpy(b, a, sizeof a);
    must(ls_variables_digest(v, a, one));
    must(ls_variables_digest(v, b, two));
    assert_string_equal(one, two);
    ls_difference d = ls_variables_compare(v, a, b);
    assert_true(d.same_bits && d.max_ulp == 0 && d.max_rel == 0 && d.first == SIZE_MAX);
    b[7] = nextafterf(nextafterf(b[7], 9), 9);
    must(ls_variables_digest(v, b, two));
    assert_string_not_equal(one, two);
    d = ls_variables_compare(v, a, b);
    assert_true(!d.same_bits && d.max_ulp == 2 && d.max_rel > 0 && d.first == 7);
    b[7] = a[7];
    b[v->elements - 1] = 0.5f; /* a bias, 0 in a: relative to b */
    d = ls_variables_compare(v, a, b);
    assert_true(d.first == v->elements - 1 && d.max_rel == 1.0);
    d = ls_variables_compare(v, b, a); /* b is 0: absolute */
    assert_true(d.max_rel == 0.5);
    b[0] = -0.0f;
    a[0] = 0.0f;
    assert_false(ls_variables_compare(v, a, b).same_bits); /* bits, not values */
    ls_model_close(model);
}

/* What is not finite on both sides does not differ, and hides no other difference; what is so on
 * one side is infinitely far. */
static void overflow_on_both_sides_is_no_difference(void **state)
{
    static const struct {
        float a, b;
        double apart;
        bool same;
    } pairs[] = {
        {NAN, NAN, 0, true},
        {NAN, -NAN, 0, true}, /* hardware decides the sign */
        {INFINITY, INFINITY, 0, true},
        {INFINITY, NAN, 0, false},
        {-INFINITY, INFINITY, INFINITY, false},
        {NAN, 1, INFINITY, false},
        {1, -INFINITY, INFINITY, false},
        {3e38f, -3e38f, 2.0 * 3e38f, false},
    };
    ls_model *model;
    (void)state;
    must(ls_model_open("mlp:6-4-3", &model));
    const ls_variables *v = &model->graph->variables;
    float a[64], b[64];
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        assert_true(ls_value_distance((double)pairs[i].a, (double)pairs[i].b) == pairs[i].apart);
        assert_true(ls_values_same((double)pairs[i].a, (double)pairs[i].b) == pairs[i].same);
        ls_variables_initialize(v, 1, a);
        memcpy(b, a, sizeof a);
        a[0] = pairs[i].a;
        b[0] = pairs[i].b;
        ls_difference d = ls_variables_compare(v, a, b);
        assert_true(d.same_bits == pairs[i].same && (d.max_ulp == 0) == d.same_bits);
        assert_true(ls_model_distance(v, a, b, 1) == d.max_rel);
        assert_true(pairs[i].apart > 0 ? d.max_rel > 0 : d.max_rel == 0);
        a[v->elements - 1] = b[v->elements - 1] + 1;
        d = ls_variables_compare(v, a, b);
        assert_true(!d.same_bits && d.max_rel >= 1 && ls_model_distance(v, a, b, 1) >= 1);
    }
    ls_model_close(model);
}

/* Of each value, either side may have lost up to the smallest normal number. */
static void what_may_be_flushed_is_no_difference(void **state)
{
    ls_model *model;
    (void)state;
    must(ls_model_open("mlp:6-4-3", &model));
    const ls_variables *v = &model->graph->variables;
    float a[64] = {0}, b[64] = {0};
    a[0] = 6 * FLT_MIN;
    assert_true(ls_model_distance(v, a, b, 3) == 0);
    assert_true(ls_model_distance(v, a, b, 2.9) == (double)a[0]); /* b is 0: absolute */
    b[0] = 3 * FLT_MIN;
    assert_true(ls_model_distance(v, a, b, 1.5) == 0);
    assert_true(ls_model_distance(v, a, b, 1) == 1.0);
    assert_true(ls_model_distance(v, a, b, 0) == ls_variables_compare(v, a, b).max_rel);
    a[1] = NAN; /* later variables, and what is allowed, do not hide it */
    assert_true(ls_model_distance(v, a, b, 1e30) == (double)INFINITY);
    ls_model_close(model);
}

static void refused_models(void **state)
{
    static const char *const texts[] = {
        "mlp:",        "mlp:784",     "mlp:784-0-10",
        "mlp:784--10", "mlp:784-10-", "mlp:-5-10",
        "mlp:7e2-10",  "poly:3",      "mlp:1-2-3-4-5-6-7-8-9-10-11-12-13-14-15-16-17"};
    ls_model *model;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        refused(ls_model_open(texts[i], &model), LS_CODE_USAGE, "model");
    refused(ls_model_open("mpl", &model), LS_CODE_USAGE, "mlp, poly");
}

static void optimizer_texts(void **state)
{
    static const char *const bad[] = {"adamx",         "adam:beta1=1",     "adam:beta1=nan",
                                      "adam:beta3=.9", "adam:eps=1,eps=2", "momentum:0.9,0.8",
                                      "sgd:0.1",       "momentum:",        "adam:0.9",
                                      "momentum:-0.1", "rmsprop:rho="};
    ls_optimizer o;
    char text[128];
    (void)state;
    must(ls_optimizer_parse("adam", &o));
    assert_string_equal(ls_optimizer_text(&o, text, sizeof text),
                        "adam:beta1=0.9,beta2=0.999,eps=1e-08");
    must(ls_optimizer_parse("adam:eps=1e-6,beta1=0.8", &o));
    assert_true(o.beta1 == 0.8 && o.beta2 == 0.999 && o.epsilon == 1e-6);
    must(ls_optimizer_parse("adamw:decay=0.2", &o));
    assert_string_equal(ls_optimizer_text(&o, text, sizeof text),
                        "adamw:beta1=0.9,beta2=0.95,eps=1e-08,decay=0.2");
    must(ls_optimizer_parse("momentum:0.5", &o));
    assert_true(o.mu == 0.5 && o.rule->slots == 1);
    must(ls_optimizer_parse("rmsprop", &o));
    assert_true(o.rho == 0.9 && o.epsilon == 1e-7);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused(ls_optimizer_parse(bad[i], &o), LS_CODE_USAGE, "optimizer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mlp_layout),
        cmocka_unit_test(initial_values),
        cmocka_unit_test(forget_gates),
        cmocka_unit_test(files),
        cmocka_unit_test(digests_and_differences),
        cmocka_unit_test(overflow_on_both_sides_is_no_difference),
        cmocka_unit_test(what_may_be_flushed_is_no_difference),
        cmocka_unit_test(refused_models),
        cmocka_unit_test(optimizer_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
