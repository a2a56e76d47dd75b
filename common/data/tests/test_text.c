/* SPDX-License-Identifier: MIT */
/* Windows of bytes, from text files and synthetic: the contents of a sample, and refusals. Exact,
 * except counts of random labels: 5 sigma. */
#include "common/data/data.h"
#include "common/data/tests/fixture.h"

#include <math.h>
#include <sys/stat.h>

enum { STEPS = 140, LONG = 1500 };

static const ls_data_need twins = {.inputs = 2,
                                   .rank = {2, 2},
                                   .shape = {{STEPS, 256}, {STEPS, 256}},
                                   .classes = 2,
                                   .synthetic = "windows"};
static const ls_data_need one = {
    .inputs = 1, .rank = {2}, .shape = {{STEPS, 256}}, .classes = 2, .synthetic = "windows"};

/* A file of LONG bytes: a letter in the training part, its capital in the last sixth. */
static void write_letter(const char *directory, const char *name, char letter)
{
    char path[256], text[LONG];
    memset(text, letter, LONG);
    memset(text + LONG - LONG / 6, letter - 'a' + 'A', LONG / 6);
    write_file(join(path, directory, name), text, LONG);
}

static void remove_all(const char *directory)
{
    static const char *const names[] = {"one", "two", "three", "link", "short"};
    char path[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(join(path, directory, names[i]));
    rmdir(directory);
}

/* Every byte of a window is its file's letter, from the right split; labels say whether files
 * agree. */
static void check_split(const ls_split *split, const ls_data_need *need, char first)
{
    const int inputs = need->inputs;
    const size_t window = inputs == 1 ? STEPS / 2 : STEPS;
    const int32_t *labels = split->target.data;
    double alike = 0;
    int seen[3] = {0};
    for (size_t i = 0; i < split->samples; i++) {
        const uint8_t *a = (const uint8_t *)split->input[0].data + i * STEPS;
        const uint8_t *b =
            inputs == 1 ? a + window : (const uint8_t *)split->input[1].data + i * STEPS;
        for (size_t t = 0; t < window; t++)
            assert_true(a[t] == a[0] && b[t] == b[0]);
        assert_in_range(a[0], first, first + 2);
        assert_in_range(b[0], first, first + 2);
        assert_int_equal(labels[i], a[0] == b[0]);
        seen[a[0] - first]++;
        alike += labels[i];
    }
    double n = (double)split->samples;
    assert_true(fabs(alike - n / 2) < 5 * sqrt(n / 4));
    for (int k = 0; k < 3; k++)
        assert_true(fabs(seen[k] - n / 3) < 5 * sqrt(n * 2 / 9));
}

static void test_windows_of_files(void **state)
{
    char directory[128], path[256], target[256], spec[200];
    make_directory(directory);
    write_letter(directory, "one", 'a');
    write_letter(directory, "two", 'b');
    write_letter(directory, "three", 'c');
    assert_int_equal(symlink(join(target, directory, "one"), join(path, directory, "link")), 0);
    snprintf(spec, sizeof spec, "text:%s", directory);
    for (int inputs = 1; inputs <= 2; inputs++) {
        const ls_data_need *need = inputs == 1 ? &one : &twins;
        ls_data *data, *again;
        must(ls_data_open(spec, need, &data));
        assert_int_equal(data->train.samples, 12000);
        assert_int_equal(data->test.samples, 2000);
        assert_int_equal(data->train.input[0].type, LS_ARRAY_ONE_HOT);
        check_split(&data->train, need, 'a'); /* the link is one of the three: counted once */
        check_split(&data->test, need, 'A');
        must(ls_data_open(spec, need, &again));
        assert_true(data->digest == again->digest);
        ls_data_close(again);
        ls_data_close(data);
    }
    remove_all(directory);
}

/* Equal pairs are drawn by bytes, unequal ones by file: a file of twice the bytes is in half of the
 * equal pairs of three files, and in a third of the others. */
static void test_long_files(void **state)
{
    char directory[128], path[256], spec[200], text[2 * LONG];
    ls_data *data;
    make_directory(directory);
    write_letter(directory, "one", 'a');
    write_letter(directory, "two", 'b');
    memset(text, 'c', sizeof text);
    write_file(join(path, directory, "three"), text, sizeof text);
    snprintf(spec, sizeof spec, "text:%s", directory);
    must(ls_data_open(spec, &twins, &data));
    const int32_t *labels = data->train.target.data;
    double pairs = 0, others = 0, in_pairs = 0, in_others = 0;
    for (size_t i = 0; i < data->train.samples; i++) {
        bool c = ((const uint8_t *)data->train.input[0].data)[i * STEPS] == 'c';
        *(labels[i] ? &pairs : &others) += 1;
        *(labels[i] ? &in_pairs : &in_others) += c;
    }
    assert_true(fabs(in_pairs - pairs / 2) < 5 * sqrt(pairs / 4));
    assert_true(fabs(in_others - others / 3) < 5 * sqrt(others * 2 / 9));
    ls_data_close(data);
    remove_all(directory);
}

static void test_refusals(void **state)
{
    char directory[128], path[256], spec[200];
    ls_data *data;
    const ls_data_need mlp = {.inputs = 1, .rank = {1}, .shape = {{784}}, .classes = 10};
    make_directory(directory);
    snprintf(spec, sizeof spec, "text:%s", directory);
    expect_refusal(ls_data_open(spec, &twins, &data), LS_CODE_MISSING, directory,
                   "text files in this directory: 0, ");
    write_letter(directory, "one", 'a');
    expect_refusal(ls_data_open(spec, &twins, &data), LS_CODE_MISSING, directory,
                   "text files in this directory: 1, ");
    write_file(join(path, directory, "short"), "too short", 9);
    expect_refusal(ls_data_open(spec, &twins, &data), LS_CODE_MISSING,
                   "short: this file has 9 bytes", "840 bytes");
    expect_refusal(ls_data_open(spec, &mlp, &data), LS_CODE_USAGE, "text", "twin-lstm");
    remove_all(directory);
    expect_refusal(ls_data_open(spec, &twins, &data), LS_CODE_MISSING, directory, "No such file");
    expect_refusal(ls_data_open("text:/dev/null", &twins, &data), LS_CODE_MISSING, "/dev/null",
                   "text:DIR");
}

/* Half of a window's bytes are one of its source's 16 values; the others are so with 1/16. */
static int source_of(const uint8_t *window, size_t count)
{
    int hits[16] = {0}, best = 0;
    for (size_t t = 0; t < count; t++)
        hits[window[t] / 16]++;
    for (int k = 1; k < 16; k++)
        best = hits[k] > hits[best] ? k : best;
    return best;
}

static void test_synthetic_windows(void **state)
{
    for (int inputs = 1; inputs <= 2; inputs++) {
        ls_data *data;
        must(ls_data_open("synthetic:3000", inputs == 1 ? &one : &twins, &data));
        const int32_t *labels = data->train.target.data;
        const size_t window = inputs == 1 ? STEPS / 2 : STEPS;
        double alike = 0;
        for (size_t i = 0; i < 3000; i++) {
            const uint8_t *a = (const uint8_t *)data->train.input[0].data + i * STEPS;
            const uint8_t *b =
                inputs == 1 ? a + window : (const uint8_t *)data->train.input[1].data + i * STEPS;
            assert_int_equal(labels[i], source_of(a, window) == source_of(b, window));
            alike += labels[i];
        }
        assert_true(fabs(alike - 1500) < 5 * sqrt(750));
        ls_data_close(data);
    }
    const ls_data_need mlp = {
        .inputs = 1, .rank = {1}, .shape = {{784}}, .classes = 10, .synthetic = "windows"};
    ls_data *data;
    expect_refusal(ls_data_open("synthetic", &mlp, &data), LS_CODE_USAGE, "synthetic",
                   "two classes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows_of_files),
        cmocka_unit_test(test_long_files),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_synthetic_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
