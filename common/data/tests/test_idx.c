/* SPDX-License-Identifier: MIT */
/* IDX files: reading from memory and from files, plain and gz, and refusals. Exact. */
#include "common/data/idx.h"

#include "common/data/tests/fixture.h"

#include <sys/stat.h>

static void expect_broken(const bytes *file, const char *why)
{
    ls_idx idx;
    char path[32];
    const int memory = open_memory(file->data, file->size, path);
    expect_refusal(ls_idx_read(path, &idx), LS_CODE_MISSING, path, why);
    close(memory);
}

/* Plain and gz. */
static void expect_both_broken(const bytes *plain, const char *why, const char *gz_why)
{
    bytes gz = make_gz(plain);
    expect_broken(plain, why);
    expect_broken(&gz, gz_why);
}

static void check_contents(ls_idx *idx)
{
    assert_int_equal(idx->rank, 3);
    assert_int_equal(idx->shape[0], 5);
    assert_int_equal(idx->shape[1], 2);
    assert_int_equal(idx->shape[2], 3);
    assert_int_equal(idx->bytes, 30);
    for (int i = 0; i < 30; i++)
        assert_int_equal(idx->data[i], i);
    free(idx->data);
}

static void test_round_trip(void **state)
{
    char directory[128], path[256];
    make_directory(directory);
    join(path, directory, "idx");
    bytes plain = make_idx(8, 3, (uint32_t[]){5, 2, 3}, 30), gz = make_gz(&plain);
    const bytes *const forms[] = {&plain, &gz};
    for (int i = 0; i < 2; i++) {
        ls_idx idx;
        write_file(path, forms[i]->data, forms[i]->size);
        must(ls_idx_read(path, &idx));
        check_contents(&idx);
    }
    unlink(path);
    rmdir(directory);
}

/* Larger than the reader's pieces, and than zlib's window. */
static void test_large_gz_file(void **state)
{
    enum { COUNT = 1500000 };
    char directory[128], path[256];
    make_directory(directory);
    join(path, directory, "large.gz");
    gzFile file = gzopen(path, "wb1");
    const uint8_t head[8] = {0,          0, 8, 1, COUNT >> 24, COUNT >> 16 & 255, COUNT >> 8 & 255,
                             COUNT & 255};
    uint8_t *data = malloc(COUNT);
    uint32_t word = 1;
    for (int i = 0; i < COUNT; i++) {
        word = word * 1664525u + 1013904223u;
        data[i] = (uint8_t)(word >> 24);
    }
    assert_int_equal(gzwrite(file, head, 8), 8);
    assert_int_equal(gzwrite(file, data, COUNT), COUNT);
    assert_int_equal(gzclose(file), Z_OK);
    ls_idx idx;
    must(ls_idx_read(path, &idx));
    assert_int_equal(idx.bytes, COUNT);
    assert_memory_equal(idx.data, data, COUNT);
    free(idx.data);
    assert_int_equal(truncate(path, 700000), 0);
    expect_refusal(ls_idx_read(path, &idx), LS_CODE_MISSING, path, "truncated");
    free(data);
    unlink(path);
    rmdir(directory);
}

static void test_every_truncation(void **state)
{
    bytes plain = make_idx(8, 2, (uint32_t[]){4, 3}, 12), gz = make_gz(&plain);
    for (bytes cut = plain; cut.size;) {
        cut.size--;
        expect_broken(&cut, "truncated");
    }
    for (bytes cut = gz; cut.size > 2;) {
        cut.size--;
        expect_broken(&cut, "truncated");
    }
}

static void test_wrong_header(void **state)
{
    bytes file = make_idx(8, 1, (uint32_t[]){6}, 6);
    file.data[0] = 1;
    expect_both_broken(&file, "is not an IDX file", "is not an IDX file");
    file = make_idx(0x0d, 1, (uint32_t[]){6}, 24);
    expect_both_broken(&file, "type 0x0d", "type 0x0d");
    file = make_idx(8, 0, NULL, 6);
    expect_both_broken(&file, "0 dimensions", "0 dimensions");
    file = make_idx(8, 5, (uint32_t[]){1, 1, 1, 1, 1}, 1);
    expect_both_broken(&file, "5 dimensions", "5 dimensions");
    file = make_idx(8, 2, (uint32_t[]){0, 6}, 0);
    expect_both_broken(&file, "this file is empty: dimension 1 of the 2 in its header is 0",
                       "dimension 1 of the 2");
}

static void test_wrong_sizes(void **state)
{
    bytes file = make_idx(8, 1, (uint32_t[]){7}, 6);
    expect_both_broken(&file,
                       "its 6 data bytes are fewer than the 7 bytes of data that the header says",
                       "has less data than its header says");
    file = make_idx(8, 1, (uint32_t[]){5}, 6);
    expect_both_broken(&file, "has 1 bytes more than its header says",
                       "has more data than its header says");
    file = make_idx(8, 4, (uint32_t[]){UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}, 6);
    expect_both_broken(&file, "out of range", "out of range");
    /* 4 GiB and 2^62 bytes: sizes that are valid, but not in so small a file. */
    file = make_idx(8, 1, (uint32_t[]){UINT32_MAX}, 6);
    expect_both_broken(&file, "6 data bytes are fewer than the",
                       "compressed bytes cannot expand to the");
    file = make_idx(8, 2, (uint32_t[]){1u << 31, 1u << 31}, 6);
    expect_both_broken(&file, "6 data bytes are fewer than the",
                       "compressed bytes cannot expand to the");
}

static void test_damaged_gz(void **state)
{
    bytes plain = make_idx(8, 1, (uint32_t[]){60}, 60), gz = make_gz(&plain);
    bytes wrong = gz;
    wrong.data[wrong.size - 8] ^= 1;
    expect_broken(&wrong, "damaged (incorrect data check)");
    wrong = gz;
    wrong.data[wrong.size - 1] ^= 1;
    expect_broken(&wrong, "damaged (incorrect length check)");
    wrong = gz;
    wrong.data[2] = 7;
    expect_broken(&wrong, "damaged (unknown compression method)");
    wrong = gz;
    add_bytes(&wrong, "x", 1);
    expect_broken(&wrong, "has bytes after the end of its gzip stream");
    wrong = gz;
    add_bytes(&wrong, gz.data, gz.size);
    expect_broken(&wrong, "has bytes after the end of its gzip stream");
}

static void test_not_a_file(void **state)
{
    char directory[128], path[256];
    ls_idx idx;
    make_directory(directory);
    join(path, directory, "none");
    expect_refusal(ls_idx_read(path, &idx), LS_CODE_MISSING, path, "No such file");
    expect_refusal(ls_idx_read(directory, &idx), LS_CODE_MISSING, directory, "regular");
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refusal(ls_idx_read(path, &idx), LS_CODE_MISSING, path, "regular");
    unlink(path);
    write_file(path, "", 0);
    expect_refusal(ls_idx_read(path, &idx), LS_CODE_MISSING, path, "truncated");
    unlink(path);
    rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),       cmocka_unit_test(test_large_gz_file),
        cmocka_unit_test(test_every_truncation), cmocka_unit_test(test_wrong_header),
        cmocka_unit_test(test_wrong_sizes),      cmocka_unit_test(test_damaged_gz),
        cmocka_unit_test(test_not_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
