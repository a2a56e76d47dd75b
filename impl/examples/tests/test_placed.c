/* SPDX-License-Identifier: MIT */
/*
 * Placed operations: operands on another device are copied, once per device, in order; wrong
 * shapes, devices and foreign matrices are refused. Small integers: exact.
 */
#include "common/base/tests/must.h"
#include "impl/examples/placed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static const float two[2][2] = {{1, 2}, {3, 4}};

typedef struct fixture {
    ls_machine *machine;
    ls_placement placement;
    ls_placed *program;
    const ls_matrix *a;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    must(ls_machine_open(&(ls_machine_options){.cpu_devices = 3}, &f->machine));
    f->placement = (ls_placement){.machine = f->machine};
    must(ls_placed_open(&f->placement, &f->program));
    must(ls_placed_constant(f->program, (ls_place){"a", "cpu:0"}, 2, 2, &two[0][0], &f->a));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    ls_placed_close(f->program);
    ls_machine_close(f->machine);
    free(f);
    return 0;
}

static const ls_matrix *multiply(fixture *f, const char *device, const ls_matrix *x,
                                 const ls_matrix *y)
{
    const ls_matrix *product;
    must(ls_placed_matmul(f->program, (ls_place){"product", device}, x, y, &product));
    return product;
}

static void expect(fixture *f, const ls_matrix *matrix, const float right[2][2])
{
    float got[2][2] = {{0}};
    must(ls_placed_run(f->program));
    must(ls_placed_read(f->program, matrix, &got[0][0]));
    assert_memory_equal(got, right, sizeof got);
}

/* a a on two devices, their product on a third, a sum with a twice: equal values in many runs. */
static void operands_travel(void **state)
{
    fixture *f = *state;
    static const float squared[2][2] = {{7, 10}, {15, 22}};
    static const float sum[2][2] = {{201, 294}, {441, 642}}; /* a^4 + a + a */
    const ls_matrix *left = multiply(f, "cpu:1", f->a, f->a);
    const ls_matrix *right = multiply(f, "cpu:2", f->a, f->a);
    assert_int_equal(ls_placed_traffic(f->program).messages_sent, 2);
    expect(f, left, squared);
    expect(f, right, squared);
    const ls_matrix *terms[3] = {multiply(f, "cpu:1", left, right), f->a, f->a}, *total;
    must(ls_placed_add_n(f->program, (ls_place){"sum", "cpu:2"}, terms, 3, &total));
    const ls_traffic sent = ls_placed_traffic(f->program); /* `right` to 1, the product to 2 */
    assert_int_equal(sent.messages_sent, 4);
    assert_int_equal(sent.bytes_sent, 4 * sizeof two);
    assert_int_equal(ls_placed_describe(f->program).nodes, 0);
    for (int i = 0; i < 100; i++)
        expect(f, total, sum);
    assert_true(ls_placed_describe(f->program).nodes > 4);
}

static void refused(ls_status status, ls_code code, const char *word)
{
    assert_int_equal(ls_status_code(status), code);
    if (!strstr(ls_status_text(status), word))
        fail_msg("'%s' has no '%s'", ls_status_text(status), word);
    ls_status_free(status);
}

static void misuse_is_refused(void **state)
{
    fixture *f = *state;
    const ls_matrix *row, *out = NULL;
    const ls_place here = {"thing", "cpu:0"};
    ls_placed *other;
    float got[2] = {0};
    refused(ls_placed_constant(f->program, here, 0, 2, got, &out), LS_CODE_USAGE, "[0, 2]");
    refused(ls_placed_constant(f->program, here, INT64_MAX, 2, got, &out), LS_CODE_USAGE, "thing");
    must(ls_placed_constant(f->program, here, 1, 2, &two[0][0], &row));
    refused(ls_placed_matmul(f->program, here, f->a, row, &out), LS_CODE_USAGE,
            "[2, 2] times [1, 2]");
    refused(ls_placed_add_n(f->program, here, (const ls_matrix *[]){f->a, row}, 2, &out),
            LS_CODE_USAGE, "one shape");
    refused(ls_placed_add_n(f->program, here, &f->a, 1, &out), LS_CODE_USAGE, "terms (1)");
    refused(ls_placed_matmul(f->program, (ls_place){"far", "cpu:9"}, f->a, f->a, &out),
            LS_CODE_MISSING, "operation: far: device: cpu:9");
    must(ls_placed_open(&f->placement, &other));
    refused(ls_placed_run(other), LS_CODE_USAGE, "there are no operations to run");
    refused(ls_placed_read(other, row, got), LS_CODE_USAGE, "another list of operations");
    refused(ls_placed_matmul(other, here, f->a, f->a, &out), LS_CODE_USAGE,
            "another list of operations");
    ls_placed_close(other);
    assert_null(out);
    expect(f, f->a, two); /* refused operations changed nothing */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(operands_travel, setup, teardown),
        cmocka_unit_test_setup_teardown(misuse_is_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
