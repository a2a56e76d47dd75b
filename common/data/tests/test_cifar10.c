/* SPDX-License-Identifier: MIT */
/* CIFAR-10's binary files: where each value is read from, and refusals. Exact. */
#include "common/data/data.h"
#include "common/data/tests/fixture.h"

enum { PIXELS = 3072, RECORD = 3073 };

static const ls_data_need need = {
    .inputs = 1, .rank = {3}, .shape = {{3, 24, 24}}, .classes = 10, .synthetic = "classes"};
static const char *const names[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                    "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};

/* Record i of file f: label (f + i) % 10, pixel p = f + 3 i + p modulo 256. */
static void write_records(const char *directory, int f, int records)
{
    static uint8_t data[8 * RECORD];
    char path[256];
    assert_true(records <= 8);
    for (int i = 0; i < records; i++) {
        data[i * RECORD] = (uint8_t)((f + i) % 10);
        for (int p = 0; p < PIXELS; p++)
            data[i * RECORD + 1 + p] = (uint8_t)(f + 3 * i + p);
    }
    write_file(join(path, directory, names[f]), data, (size_t)records * RECORD);
}

static void write_all(const char *directory)
{
    for (int f = 0; f < 6; f++)
        write_records(directory, f, f + 1);
}

static void remove_all(const char *directory)
{
    char path[256];
    for (int f = 0; f < 6; f++)
        unlink(join(path, directory, names[f]));
    rmdir(directory);
}

static void check_records(const ls_split *split, size_t at, int f)
{
    const uint8_t *pixels = split->input[0].data;
    const int32_t *labels = split->target.data;
    for (int i = 0; i <= f; i++, at++) {
        assert_int_equal(labels[at], (f + i) % 10);
        for (int p = 0; p < PIXELS; p++)
            assert_int_equal(pixels[at * PIXELS + (size_t)p], (uint8_t)(f + 3 * i + p));
    }
}

static void test_files(void **state)
{
    char directory[128], spec[200];
    ls_data *data;
    make_directory(directory);
    write_all(directory);
    snprintf(spec, sizeof spec, "cifar10:%s", directory);
    must(ls_data_open(spec, &need, &data));
    assert_int_equal(data->train.samples, 1 + 2 + 3 + 4 + 5);
    assert_int_equal(data->test.samples, 6);
    assert_int_equal(data->train.input[0].type, LS_ARRAY_IMAGE);
    assert_int_equal(data->train.input[0].width, PIXELS);
    assert_int_equal(data->train.input[0].side, 32);
    size_t at = 0;
    for (int f = 0; f < 5; at += (size_t)++f)
        check_records(&data->train, at, f);
    check_records(&data->test, 0, 5);
    ls_data_close(data);
    remove_all(directory);
}

static void test_refusals(void **state)
{
    char directory[128], path[256], spec[200];
    static uint8_t bytes_of[2 * RECORD + 2];
    ls_data *data;
    const ls_data_need mlp = {.inputs = 1, .rank = {1}, .shape = {{3072}}, .classes = 10};
    make_directory(directory);
    snprintf(spec, sizeof spec, "cifar10:%s", directory);
    expect_refusal(ls_data_open(spec, &mlp, &data), LS_CODE_USAGE, "32x32", "model cifar10");
    write_all(directory);
    unlink(join(path, directory, names[3]));
    expect_refusal(ls_data_open(spec, &need, &data), LS_CODE_MISSING, names[3], "No such file");
    expect_refusal(ls_data_open(spec, &need, &data), LS_CODE_MISSING, "datasets/fetch.sh cifar10",
                   "--data synthetic");
    write_file(path, bytes_of, RECORD + 5);
    expect_refusal(ls_data_open(spec, &need, &data), LS_CODE_MISSING, "3078 bytes", "3073");
    write_file(path, bytes_of, 2 * RECORD + 2);
    expect_refusal(ls_data_open(spec, &need, &data), LS_CODE_MISSING, names[3], "CIFAR-100");
    write_file(path, bytes_of, 0);
    expect_refusal(ls_data_open(spec, &need, &data), LS_CODE_MISSING, names[3], "0 bytes");
    bytes_of[RECORD] = 10;
    write_file(path, bytes_of, 2 * RECORD);
    expect_refusal(ls_data_open(spec, &need, &data), LS_CODE_MISSING, names[3],
                   "record 1 has label 10");
    remove_all(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
