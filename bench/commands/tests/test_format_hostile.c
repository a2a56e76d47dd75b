/* SPDX-License-Identifier: MIT */
/*
 * Hostile rows in every form of output (row_outputs.h), made of pseudo-random inputs, the same in
 * each run. fuzz_rows.c searches for more. No tolerance.
 */
#include "bench/tests/row_outputs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { INPUTS = 60, INPUT_SIZE = 160 };

static void each_form_has_text_only(void **state)
{
    (void)state;
    char folder[] = "/tmp/lockstep-outputs-XXXXXX";
    uint64_t random = 1;
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < INPUTS; i++) {
        uint8_t bytes[INPUT_SIZE];
        for (size_t k = 0; k < sizeof bytes; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            bytes[k] = (uint8_t)(random >> 56);
        }
        check_outputs(bytes, sizeof bytes - (size_t)(i % 2), folder);
    }
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_form_has_text_only)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
