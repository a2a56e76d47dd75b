/* SPDX-License-Identifier: MIT */
/* Escape: what each destination gets of hostile text, how it is cut, and what counts as a
 * character. No tolerance. */
#include "common/base/escape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void assert_put(ls_escape as, const char *text, const char *want)
{
    char *got = NULL, copy[256];
    size_t size;
    FILE *stream = open_memstream(&got, &size);
    assert_non_null(stream);
    ls_escape_put(stream, text, SIZE_MAX, as);
    fclose(stream);
    assert_string_equal(got, want);
    assert_string_equal(ls_escape_copy(copy, sizeof copy, text, as), want);
    free(got);
}

/* Signs that mean something in one of the languages. */
static void signs(void **state)
{
    static const char text[] = "50% '\"<b>&]]>` \\ a|b #*_[x](y)!~ $x {y} @m ::";
    (void)state;
    assert_put(LS_ESCAPE_LINE, text, text);
    assert_put(LS_ESCAPE_MARKUP, text,
               "50% &#39;&quot;&lt;b&gt;&amp;]]&gt;` \\ a|b #*_[x](y)!~ $x {y} @m ::");
    assert_put(LS_ESCAPE_MARKDOWN, text,
               "50% '\"\\<b\\>\\&\\]\\]\\>\\` \\\\ a\\|b \\#\\*\\_\\[x\\](y)\\!\\~ \\$x {y} @m ::");
    assert_put(LS_ESCAPE_GNUPLOT, text, "50% ''\"<b>&]]>` \\ a|b #*_[x](y)!~ $x {y} @m ::");
    assert_put(LS_ESCAPE_TICK, text, "50%% ''\"<b>&]]>` \\ a|b #*_[x](y)!~ $x {y} @m ::");
    assert_put(LS_ESCAPE_CSV, text, "50% '\"\"<b>&]]>` \\ a|b #*_[x](y)!~ $x {y} @m ::");
    assert_put(LS_ESCAPE_JSON, text, "50% '\\\"<b>&]]>` \\\\ a|b #*_[x](y)!~ $x {y} @m ::");
    assert_put(LS_ESCAPE_BIBTEX, text, "50\\% '\"<b>\\&]]>`   a|b \\#*\\_[x](y)!~ \\$x  y  @m ::");
    assert_put(LS_ESCAPE_GITHUB, text, "50%25 '\"<b>&]]>` \\ a|b #*_[x](y)!~ $x {y} @m ::");
}

/* Escape, line feed, return, tab, delete; of Unicode: CSI, right-to-left override, line separator,
 * byte order mark, no character; then letters of two to four bytes. */
static void hidden(void **state)
{
    static const char text[] = "\x1b[2J\n\r\t\x7f\xc2\x9b\xe2\x80\xae\xe2\x80\xa8\xef\xbb\xbf"
                               "\xef\xbf\xbf \xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
    static const char shown[] = "\\x1b[2J\\n\\r\\t\\x7f\\u009b\\u202e\\u2028\\ufeff\\uffff "
                                "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
    static const ls_escape alike[] = {LS_ESCAPE_LINE, LS_ESCAPE_MARKUP, LS_ESCAPE_GNUPLOT,
                                      LS_ESCAPE_TICK, LS_ESCAPE_GITHUB};
    (void)state;
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
        assert_put(alike[i], text, shown);
    assert_put(LS_ESCAPE_LINE, shown, shown); /* once more changes nothing */
    assert_put(LS_ESCAPE_FONT, "\xc3\xa9\xe2\x82\xac\x1b\xe6\x97\xa5\xf0\x9f\x98\x80",
               "\xc3\xa9\xe2\x82\xac\\x1b\\u65e5\\U0001f600");
    assert_put(LS_ESCAPE_MARKDOWN, "\x1b[", "\\\\x1b\\[");
    assert_put(LS_ESCAPE_CSV, "a\n\tb\r\x1b", "a\n\tb\\r\\x1b");
    assert_put(LS_ESCAPE_JSON, "\x1b\n\x7f\xc2\x9b\xe2\x80\xae", "\\u001b\\n\\u007f\\u009b\\u202e");
    assert_put(LS_ESCAPE_BIBTEX, "a\x1b\nb", "a  b");
}

/* Bytes that are no UTF-8: alone, cut, overlong, a surrogate, beyond the last character. */
static void no_characters(void **state)
{
    (void)state;
    assert_put(LS_ESCAPE_LINE, "a\xff\x80z", "a\\xff\\x80z");
    assert_put(LS_ESCAPE_LINE, "\xe2\x82", "\\xe2\\x82");
    assert_put(LS_ESCAPE_LINE, "\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80",
               "\\xc0\\xaf\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80");
    assert_put(LS_ESCAPE_JSON, "\xff", "\\ufffd");
    assert_int_equal(ls_escape_step("\xe2\x82\xac"), 3);
    assert_int_equal(ls_escape_step("\xe2\x82"), 1);
}

/* Between two characters, never inside an escape. */
static void cuts(void **state)
{
    char *got = NULL, copy[8];
    size_t size;
    (void)state;
    FILE *stream = open_memstream(&got, &size);
    assert_non_null(stream);
    ls_escape_put(stream, "\xc3\xa9\x1b<more", 3, LS_ESCAPE_MARKUP);
    fputc(' ', stream);
    ls_escape_put(stream, "abc", 3, LS_ESCAPE_MARKUP);
    ls_escape_put(stream, NULL, 3, LS_ESCAPE_MARKUP);
    fclose(stream);
    assert_string_equal(got, "\xc3\xa9\\x1b&lt;\xe2\x80\xa6 abc");
    free(got);
    assert_string_equal(ls_escape_copy(copy, 8, "abcde\x1b", LS_ESCAPE_LINE), "abcde");
    assert_string_equal(ls_escape_copy(copy, 8, "abcdef\xc3\xa9", LS_ESCAPE_LINE), "abcdef");
    assert_string_equal(ls_escape_copy(copy, 8, "abcdefghi", LS_ESCAPE_LINE), "abcdefg");
    assert_string_equal(ls_escape_copy(copy, 1, "a", LS_ESCAPE_LINE), "");
    assert_string_equal(ls_escape_copy(copy, 8, NULL, LS_ESCAPE_LINE), "");
}

/* What is written as a value of a list is that value again. */
static void lists(void **state)
{
    static const char *const values[] = {"a",       "a,b", "\\",  "a\\,b", ",",
                                         "\\\\,\\", "",    "\\n", "=,x"};
    char *list = NULL, *rest;
    size_t size, count = 0;
    FILE *stream = open_memstream(&list, &size);
    (void)state;
    assert_non_null(stream);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        fputs(i ? "," : "", stream);
        ls_list_put(stream, values[i], NULL);
    }
    fclose(stream);
    for (char *one = list; one; one = rest) {
        rest = ls_list_cut(one, NULL);
        assert_string_equal(one, values[count++]);
    }
    assert_int_equal(count, sizeof values / sizeof *values);
    free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signs),         cmocka_unit_test(hidden), cmocka_unit_test(lists),
        cmocka_unit_test(no_characters), cmocka_unit_test(cuts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
