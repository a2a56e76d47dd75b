/* SPDX-License-Identifier: MIT */
/*
 * Hostile rows in every form of output (row_outputs.h), made of pseudo-random inputs, the same in
 * each run. fuzz_rows.c searches for more. No tolerance.
 */
#include "bench/tests/row_outputs.h"
#include "common/base/tests/thorough.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { INPUTS = 60, INPUTS_QUICK = 6, INPUT_SIZE = 160 };

static void each_form_has_text_only(void **state)
{
    (void)state;
    char folder[] = "/tmp/lockstep-outputs-XXXXXX";
    uint64_t random = 1;
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < (thorough() ? INPUTS : INPUTS_QUICK); i++) {
        uint8_t bytes[INPUT_SIZE];
        for (size_t k = 0; k < sizeof bytes; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            bytes[k] = (uint8_t)(random >> 56);
        }
        check_outputs(bytes, sizeof bytes - (size_t)(i % 2), folder);
    }
    rmdir(folder);
}

/* Two quotes that begin a text of gnuplot's script would end it: another character stands first. */
static void quotes_begin_texts(void **state)
{
    (void)state;
    static const char *const kinds[] = {"lines", "bars", "ranges"};
    static const char *const texts[] = {
        "'fast' against 'slow'", "''", "'50%' of\"`x`",
        "''''''''''''''''''''''''''''''''''''''''''''''''''''''''''''''''''''''''"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            const char *text = texts[i];
            char title[200];
            snprintf(title, sizeof title, "A title whose second line begins with one: in %s", text);
            json_auto_t *figure =
                json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:[s],s:[{s:s,s:[[f,f,f,f]]}]}", "name",
                          "figure", "kind", kinds[k], "title", title, "sub", text, "foot", text,
                          "x", text, "y", text, "unit", "", "categories", text, "series", "name",
                          text, "points", 1.0, 2.0, 1.0, 3.0);
            assert_non_null(figure);
            written out;
            begin(&out);
            json_auto_t *figures = json_pack("[O]", figure);
            ls_status status = ls_draw_script(out.stream, figures, LS_PICTURE_SVG);
            check_script(end(&out, status));
            assert_non_null(strstr(out.text, "'|''"));
            free(out.text);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_form_has_text_only),
                                       cmocka_unit_test(quotes_begin_texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
