/* SPDX-License-Identifier: MIT */
/* What an operation declares to access: each memory once, with all declared accesses merged. */
#include "common/base/tests/must.h"
#include "common/device/device.h"

#include <stdlib.h>

static void memory_is_told_once(void **state)
{
    static const char a[8], b[8];
    const ls_access first[] = {{a, 4, false}, {NULL, 8, true}, {b, 0, true}, {b, 8, true}};
    const ls_access more[] = {{b, 2, false}, {a, 8, true}};
    ls_op *op = calloc(1, sizeof *op);
    must(ls_op_touches(op, first, 4));
    assert_int_equal(op->access_count, 2);
    assert_true(op->accesses[0].memory == a && op->accesses[0].bytes == 4);
    assert_false(op->accesses[0].writes);
    must(ls_op_touches(op, more, 2));
    assert_int_equal(op->access_count, 2);
    assert_true(op->accesses[0].bytes == 8 && op->accesses[0].writes);
    assert_true(op->accesses[1].memory == b && op->accesses[1].bytes == 8);
    assert_true(op->accesses[1].writes);
    ls_op_free(op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_is_told_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
