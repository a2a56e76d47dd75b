/* SPDX-License-Identifier: MIT */
/* Digests: known answers, ranges that combine, and every bit matters. No tolerance. */
#include "common/base/digest.h"
#include "common/base/tests/must.h"

#include <string.h>

enum { SIZE = 1000 };

static void fill(unsigned char *bytes)
{
    for (int i = 0; i < SIZE; i++)
        bytes[i] = (unsigned char)(i * 7);
}

/* XXH3 of no bytes, seed 0, from the specification of xxHash. */
static void test_known_answers(void **state)
{
    ls_digest *digest;
    char text[33];
    assert_true(ls_hash64("", 0) == 0x2d06800538d394c2u);
    assert_null(ls_digest_open(&digest));
    ls_digest_text(digest, text);
    assert_string_equal(text, "99aa06d3014798d86001c324468d497f");
    ls_digest_close(&digest);
    ls_digest_close(&(ls_digest *){NULL});
}

/* The digest of a sequence does not depend on how it is cut. */
static void test_ranges(void **state)
{
    unsigned char bytes[SIZE];
    fill(bytes);
    char whole[33], parts[33];
    ls_digest *digest;
    assert_null(ls_digest_open(&digest));
    ls_digest_add(digest, bytes, SIZE);
    ls_digest_text(digest, whole);
    ls_digest_close(&digest);
    for (size_t cut = 0; cut <= SIZE; cut += 37) {
        assert_null(ls_digest_open(&digest));
        ls_digest_add(digest, bytes, cut);
        ls_digest_text(digest, parts);
        ls_digest_add(digest, bytes + cut, SIZE - cut);
        ls_digest_text(digest, parts);
        ls_digest_close(&digest);
        assert_string_equal(parts, whole);
    }
    assert_int_equal(strlen(whole), 32);
    assert_int_equal(strspn(whole, "0123456789abcdef"), 32);
}

static void test_every_bit(void **state)
{
    unsigned char bytes[SIZE];
    fill(bytes);
    unsigned long long before = ls_hash64(bytes, SIZE);
    for (int bit = 0; bit < 8 * SIZE; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_true(ls_hash64(bytes, SIZE) != before);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    assert_true(ls_hash64(bytes, SIZE) == before);
}

static void test_version(void **state)
{
    char text[32];
    assert_ptr_equal(ls_digest_version(text), text);
    assert_int_equal(strspn(text, "0123456789."), strlen(text));
    assert_non_null(strchr(text, '.'));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_every_bit),
        cmocka_unit_test(test_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
