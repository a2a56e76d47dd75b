/* SPDX-License-Identifier: MIT */
/* Status: text, codes, control characters, and which of two failures is kept. No tolerance. */
#include "common/base/status.h"
#include "common/base/tests/must.h"

#include <string.h>

static void test_line(void **state)
{
    ls_status status = ls_fail(LS_CODE_USAGE, "--steps", "run", "%d is wrong; %s", 7, "8 works");
    assert_string_equal(ls_status_text(status), "--steps: run: 7 is wrong; 8 works");
    assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
    ls_status_free(status);
    status = ls_fail(LS_CODE_CHECK, NULL, "where", "why");
    assert_string_equal(ls_status_text(status), "where: why");
    ls_status_free(status);
    status = ls_fail(LS_CODE_CHECK, "what", NULL, "why");
    assert_string_equal(ls_status_text(status), "what: why");
    ls_status_free(status);
    status = ls_fail(LS_CODE_CHECK, NULL, NULL, "%s", "");
    assert_string_equal(ls_status_text(status), "");
    ls_status_free(status);
}

static void test_final(void **state)
{
    ls_status status = ls_status_final(ls_fail(LS_CODE_MISSING, "gpu", "gpu:0", "fell over"));
    assert_true(ls_status_is_final(status));
    assert_false(ls_status_is_consequence(status));
    status = ls_status_within("operation", "gpu:0 copy", status);
    assert_true(ls_status_is_final(status)); /* also if it is part of another */
    ls_status_free(status);
    status = ls_status_within("a", "b", ls_fail(LS_CODE_MISSING, "c", NULL, "d"));
    assert_false(ls_status_is_final(status));
    ls_status_free(status);
    /* The cause is reported, but a consequence may set the severity. */
    status = ls_status_first(
        ls_fail(LS_CODE_MISSING, "cause", NULL, "it"),
        ls_status_final(ls_status_follows(ls_fail(LS_CODE_MISSING, "gpu", NULL, "lost"))));
    assert_string_equal(ls_status_text(status), "cause: it");
    assert_true(ls_status_is_final(status));
    ls_status_free(status);
    assert_false(ls_status_is_final(LS_OK));
    assert_null(ls_status_final(LS_OK));
}

static void test_ok(void **state)
{
    assert_int_equal(ls_status_code(LS_OK), LS_CODE_OK);
    assert_string_equal(ls_status_text(LS_OK), "ok");
    ls_status_free(LS_OK);
}

/* One line, even if a file's name has control characters; text beyond ASCII is kept. */
static void test_control_characters(void **state)
{
    ls_status status = ls_fail(LS_CODE_MISSING, "file", "a\nb\x1b[0m", "\t\x7f \xc3\xa9");
    assert_string_equal(ls_status_text(status), "file: a\\nb\\x1b[0m: \\t\\x7f \xc3\xa9");
    ls_status_free(status);
}

static void test_long_text(void **state)
{
    static char text[100000];
    memset(text, 'x', sizeof text - 1);
    ls_status status = ls_fail(LS_CODE_MISSING, text, text, "%s", text);
    assert_int_equal(strlen(ls_status_text(status)), 3 * (sizeof text - 1) + 4);
    ls_status_free(status);
}

static void test_memory(void **state)
{
    ls_status status = ls_fail_memory("batch", SIZE_MAX);
    assert_int_equal(ls_status_code(status), LS_CODE_MISSING);
    assert_non_null(strstr(ls_status_text(status), "memory: batch: more memory would be needed"));
    ls_status_free(status);
}

static ls_status relay(ls_status status, bool *reached)
{
    LS_TRY(status);
    *reached = true;
    return LS_OK;
}

static void test_relay(void **state)
{
    bool reached = false;
    ls_status status = relay(ls_fail(LS_CODE_CHECK, "a", "b", "c"), &reached);
    assert_string_equal(ls_status_text(status), "a: b: c");
    assert_false(reached);
    ls_status_free(status);
    assert_null(relay(LS_OK, &reached));
    assert_true(reached);
}

static void test_first(void **state)
{
    assert_null(ls_status_first(LS_OK, LS_OK));
    ls_status one = ls_fail(LS_CODE_CHECK, "one", NULL, "x");
    ls_status two = ls_fail(LS_CODE_CHECK, "two", NULL, "x");
    assert_ptr_equal(ls_status_first(LS_OK, one), one);
    assert_ptr_equal(ls_status_first(one, LS_OK), one);
    assert_ptr_equal(ls_status_first(one, two), one); /* frees two */
    ls_status_free(one);
}

static void test_follows(void **state)
{
    assert_null(ls_status_follows(LS_OK));
    assert_null(ls_status_within("a", "b", LS_OK));
    assert_false(ls_status_is_consequence(LS_OK));
    ls_status after = ls_status_follows(ls_fail(LS_CODE_MISSING, "after", NULL, "x"));
    after = ls_status_within("operation", "cpu:1 add", after);
    assert_string_equal(ls_status_text(after), "operation: cpu:1 add: after: x");
    assert_int_equal(ls_status_code(after), LS_CODE_MISSING);
    ls_status cause = ls_fail(LS_CODE_CHECK, "cause", NULL, "x");
    assert_true(ls_status_is_consequence(after) && !ls_status_is_consequence(cause));
    assert_ptr_equal(ls_status_first(after, cause), cause); /* frees after */
    after = ls_status_follows(ls_fail(LS_CODE_MISSING, "after", NULL, "x"));
    ls_status later = ls_status_follows(ls_fail(LS_CODE_MISSING, "later", NULL, "x"));
    assert_ptr_equal(ls_status_first(after, later), after); /* frees later */
    assert_ptr_equal(ls_status_first(cause, after), cause); /* frees after */
    ls_status_free(cause);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line),      cmocka_unit_test(test_final),
        cmocka_unit_test(test_ok),        cmocka_unit_test(test_control_characters),
        cmocka_unit_test(test_long_text), cmocka_unit_test(test_memory),
        cmocka_unit_test(test_relay),     cmocka_unit_test(test_first),
        cmocka_unit_test(test_follows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
