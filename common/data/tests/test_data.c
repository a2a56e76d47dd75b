/* SPDX-License-Identifier: MIT */
/* Data sources: names, MNIST's layout, synthetic data, users' files. */
#include "common/data/data.h"

#include "common/data/safetensors.h"
#include "common/data/tests/fixture.h"

#include <math.h>
#include <sys/stat.h>

static const ls_data_need mlp = {
    .inputs = 1, .rank = {1}, .shape = {{784}}, .classes = 10, .synthetic = "classes"};
static const ls_data_need small = {
    .inputs = 1, .rank = {1}, .shape = {{3}}, .classes = 4, .synthetic = "classes"};
static const ls_data_need poly = {
    .inputs = 1, .rank = {1}, .shape = {{1}}, .synthetic = "polynomial"};

static void expect_spec(const char *spec, const ls_data_need *need, ls_code code, const char *why)
{
    ls_data *data;
    expect_refusal(ls_data_open(spec, need, &data), code, spec, why);
}

static void test_names(void **state)
{
    expect_spec("", &mlp, LS_CODE_USAGE, "fashion-mnist, mnist, synthetic, file");
    expect_spec("nothing", &mlp, LS_CODE_USAGE, "fashion-mnist, mnist, synthetic, file");
    expect_spec("fashion", &mlp, LS_CODE_USAGE, "unknown name; valid are: fashion-mnist, mnist");
    expect_spec("mnist", &mlp, LS_CODE_USAGE, "mnist:DIR");
    expect_spec("mnist:", &mlp, LS_CODE_USAGE, "colon");
    expect_spec("file", &mlp, LS_CODE_USAGE, "file:PATH");
    for (int i = 0; ls_data_sources.entries[i]; i++) {
        const ls_data_source *source = ls_data_sources.entries[i];
        assert_true(*source->name && *source->help);
        assert_non_null(source->read);
    }
    char spec[700] = "mnist:";
    memset(spec + 6, 'a', 600);
    ls_data *data;
    expect_refusal(ls_data_open(spec, &mlp, &data), LS_CODE_USAGE, "mnist", "too long");
    ls_data_close(NULL);
}

/* A directory with the layout of MNIST: `images` images of 28x28, `labels` labels 0, 1, .. */
static void write_split(const char *directory, const char *prefix, uint32_t images, uint32_t labels)
{
    char path[256], name[64];
    snprintf(name, sizeof name, "%s-images-idx3-ubyte", prefix);
    bytes file = make_idx(8, 3, (uint32_t[]){images, 28, 28}, (size_t)images * 784);
    write_file(join(path, directory, name), file.data, file.size);
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte.gz", prefix);
    file = make_idx(8, 1, &labels, labels);
    file = make_gz(&file);
    write_file(join(path, directory, name), file.data, file.size);
}

static void remove_split(const char *directory, const char *prefix)
{
    char path[256], name[64];
    snprintf(name, sizeof name, "%s-images-idx3-ubyte", prefix);
    unlink(join(path, directory, name));
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte.gz", prefix);
    unlink(join(path, directory, name));
}

/* Refuses wrong files of the test split. Writes the path of the last one. */
static void refuse_wrong_files(const char *directory, const char *spec, char path[256])
{
    ls_data *data;
    write_split(directory, "t10k", 2, 3);
    expect_refusal(ls_data_open(spec, &mlp, &data), LS_CODE_MISSING, "t10k-labels",
                   "this file has 3 labels, but the file of images has 2 images");
    bytes wrong = make_idx(8, 1, (uint32_t[]){2}, 2);
    wrong.data[wrong.size - 1] = 17;
    write_file(join(path, directory, "t10k-labels-idx1-ubyte.gz"), wrong.data, wrong.size);
    expect_refusal(ls_data_open(spec, &mlp, &data), LS_CODE_MISSING, path, "label 17 at index 1");
    wrong = make_idx(8, 2, (uint32_t[]){2, 1}, 2);
    write_file(path, wrong.data, wrong.size);
    expect_refusal(ls_data_open(spec, &mlp, &data), LS_CODE_MISSING, path, "has 2 dimensions");
    wrong = make_idx(8, 3, (uint32_t[]){2, 14, 56}, 2 * 784);
    write_file(join(path, directory, "t10k-images-idx3-ubyte"), wrong.data, wrong.size);
    expect_refusal(ls_data_open(spec, &mlp, &data), LS_CODE_MISSING, path, "images of 28x28");
    write_file(path, wrong.data, 100);
    expect_refusal(ls_data_open(spec, &mlp, &data), LS_CODE_MISSING, path, "truncated");
}

static void test_mnist(void **state)
{
    char directory[128], spec[300], path[256];
    make_directory(directory);
    snprintf(spec, sizeof spec, "mnist:%s", directory);
    write_split(directory, "train", 5, 5);
    ls_data *data;
    expect_refusal(ls_data_open(spec, &mlp, &data), LS_CODE_MISSING,
                   "t10k-images-idx3-ubyte.gz: there is no such file, with or without .gz",
                   "mnist:DIR");
    write_split(directory, "t10k", 2, 2);
    must(ls_data_open(spec, &mlp, &data));
    assert_string_equal(data->name, "mnist");
    assert_string_equal(data->path, directory);
    assert_int_equal(data->train.samples, 5);
    assert_int_equal(data->test.samples, 2);
    assert_int_equal(data->train.input[0].type, LS_ARRAY_UINT8);
    assert_int_equal(data->train.input[0].width, 784);
    assert_null(data->train.input[1].data);
    const uint8_t *images = data->train.input[0].data;
    const int32_t *labels = data->train.target.data;
    for (int i = 0; i < 5 * 784; i++)
        assert_int_equal(images[i], i & 255);
    assert_int_equal(data->train.target.type, LS_ARRAY_INT32);
    for (int i = 0; i < 5; i++)
        assert_int_equal(labels[i], i);
    uint64_t digest = data->digest;
    ls_data_close(data);

    const ls_data_need image = {.inputs = 1, .rank = {3}, .shape = {{1, 28, 28}}, .classes = 10};
    must(ls_data_open(spec, &image, &data));
    assert_true(data->digest == digest);
    ls_data_close(data);
    expect_refusal(ls_data_open(spec, &small, &data), LS_CODE_USAGE, "mnist", "takes 784 values");
    expect_refusal(ls_data_open(spec, &poly, &data), LS_CODE_USAGE, "mnist", "takes 784 values");
    ls_data_need four = mlp;
    four.classes = 4;
    expect_refusal(ls_data_open(spec, &four, &data), LS_CODE_USAGE,
                   "train-labels-idx1-ubyte.gz: label 4 at index 4", "10 outputs");

    refuse_wrong_files(directory, spec, path);
    char fashion[320];
    snprintf(fashion, sizeof fashion, "fashion-%s", spec);
    expect_refusal(ls_data_open(fashion, &mlp, &data), LS_CODE_MISSING, path,
                   "download an intact copy");
    unlink(path);
    expect_refusal(ls_data_open(fashion, &mlp, &data), LS_CODE_MISSING, path,
                   "package dataset-fashion-mnist");
    remove_split(directory, "train");
    remove_split(directory, "t10k");
    rmdir(directory);
}

/* The real data set, if installed: counts, and the sum of each class. */
static void test_fashion_mnist(void **state)
{
    if (access("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz", R_OK) != 0) {
        print_message("skipped: the Debian package dataset-fashion-mnist is not installed\n");
        skip();
    }
    ls_data *data;
    must(ls_data_open("fashion-mnist", &mlp, &data));
    assert_int_equal(data->train.samples, 60000);
    assert_int_equal(data->test.samples, 10000);
    int train[10] = {0}, test[10] = {0};
    for (int i = 0; i < 60000; i++)
        train[((const int32_t *)data->train.target.data)[i]]++;
    for (int i = 0; i < 10000; i++)
        test[((const int32_t *)data->test.target.data)[i]]++;
    for (int i = 0; i < 10; i++) {
        assert_int_equal(train[i], 6000);
        assert_int_equal(test[i], 1000);
    }
    assert_true(data->digest && data->read_ns);
    ls_data_close(data);
}

static void test_polynomial(void **state)
{
    ls_data *data;
    must(ls_data_open("synthetic", &poly, &data));
    assert_int_equal(data->train.samples, 60000);
    assert_int_equal(data->test.samples, 10000);
    assert_string_equal(data->path, "");
    const float *x = data->train.input[0].data, *y = data->train.target.data;
    double sum = 0;
    for (int i = 0; i < 60000; i++) {
        assert_true(x[i] >= -10 && x[i] < 10);
        assert_true(y[i] == 5.0f * (x[i] * x[i]) + 3.0f);
        sum += (double)x[i];
    }
    assert_true(fabs(sum / 60000) < 0.1); /* 4 sigma: 10 / sqrt(3) / sqrt(60000) * 4 = 0.094 */
    ls_data *fewer;
    must(ls_data_open("synthetic:7", &poly, &fewer));
    assert_int_equal(fewer->train.samples, 7);
    assert_int_equal(fewer->test.samples, 2);
    assert_memory_equal(fewer->train.input[0].data, x, 7 * sizeof(float));
    assert_memory_equal(fewer->test.input[0].data, data->test.input[0].data, 2 * sizeof(float));
    assert_true(data->digest != fewer->digest);
    const float *test = data->test.input[0].data;
    int same = 0; /* equal samples: two of 2^24 values coincide sometimes */
    for (int i = 0; i < 1000; i++)
        for (int j = 0; j < 1000; j++)
            same += test[i] == x[j];
    assert_in_range(same, 0, 10);
    ls_data_close(fewer);
    ls_data_close(data);
}

/* A nearest-prototype classifier, fitted to training samples, must do well on test samples. */
static void test_classes(void **state)
{
    enum { W = 64, C = 10, N = 3000 };
    const ls_data_need need = {
        .inputs = 2, .rank = {1, 2}, .shape = {{W}, {2, 3}}, .classes = C, .synthetic = "classes"};
    ls_data *data;
    must(ls_data_open("synthetic:3000", &need, &data));
    assert_int_equal(data->test.samples, N / 6);
    assert_int_equal(data->train.input[1].width, 6);
    static double mean[C][W];
    int count[C] = {0};
    const float *x = data->train.input[0].data;
    const int32_t *label = data->train.target.data;
    for (int i = 0; i < N; i++) {
        assert_in_range(label[i], 0, C - 1);
        count[label[i]]++;
        for (int j = 0; j < W; j++) {
            assert_true(x[i * W + j] >= 0 && x[i * W + j] <= 1);
            mean[label[i]][j] += (double)x[i * W + j];
        }
    }
    x = data->test.input[0].data;
    label = data->test.target.data;
    int correct = 0;
    for (int i = 0; i < N / 6; i++) {
        int best = 0;
        double least = INFINITY;
        for (int c = 0; c < C; c++) {
            double distance = 0;
            for (int j = 0; j < W; j++)
                distance += pow((double)x[i * W + j] - mean[c][j] / count[c], 2);
            if (distance < least) {
                least = distance;
                best = c;
            }
        }
        correct += best == label[i];
    }
    assert_true(correct > N / 6 * 8 / 10);
    ls_data_close(data);
}

static void test_synthetic_refusals(void **state)
{
    static const char *const wrong[] = {"0",   "-1",        "x",   "1e3",
                                        "nan", "100000001", "12x", "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char spec[64];
        snprintf(spec, sizeof spec, "synthetic:%s", wrong[i]);
        ls_data *data;
        expect_refusal(ls_data_open(spec, &poly, &data), LS_CODE_USAGE, "synthetic", wrong[i]);
    }
    ls_data_need huge = small;
    huge.shape[0][0] = INT64_MAX;
    ls_data *data;
    expect_refusal(ls_data_open("synthetic", &huge, &data), LS_CODE_USAGE, "x0", "too large");
    ls_data_need none = small;
    none.synthetic = NULL;
    expect_spec("synthetic", &none, LS_CODE_USAGE, "there are no synthetic data for this model");
}

typedef struct user_file {
    float x0[6], x1[4], y[2];
    ls_tensor tensors[4];
    size_t count;
} user_file;

static user_file make_user_file(void)
{
    return (user_file){
        .x0 = {0, 1, 2, 3, 4, 5},
        .x1 = {6, 7, 8, 9},
        .y = {3, 0},
        .tensors = {{.name = "y", .rank = 1, .shape = {2}, .count = 2},
                    {.name = "x0", .rank = 2, .shape = {2, 3}, .count = 6},
                    {.name = "x1", .rank = 2, .shape = {2, 2}, .count = 4},
                    {.name = "extra", .rank = 1, .shape = {2}, .count = 2}},
        .count = 2,
    };
}

/* Writes the file and opens it with `need`. */
static ls_status open_user_file(user_file *file, const ls_data_need *need, ls_data **out)
{
    char directory[128], path[256], spec[300];
    make_directory(directory);
    join(path, directory, "user.safetensors");
    const float *const values[] = {file->y, file->x0, file->x1, file->y};
    for (int i = 0; i < 4; i++)
        file->tensors[i].data = values[i];
    must(ls_tensors_write(path, file->tensors, file->count));
    snprintf(spec, sizeof spec, "file:%s", path);
    ls_status status = ls_data_open(spec, need, out);
    unlink(path);
    rmdir(directory);
    return status;
}

static void test_file(void **state)
{
    user_file file = make_user_file();
    ls_data *data;
    must(open_user_file(&file, &small, &data));
    assert_int_equal(data->train.samples, 2);
    assert_int_equal(data->test.samples, 0);
    assert_null(data->test.input[0].data);
    assert_int_equal(data->train.input[0].type, LS_ARRAY_FLOAT32);
    assert_int_equal(data->train.input[0].width, 3);
    assert_memory_equal(data->train.input[0].data, file.x0, sizeof file.x0);
    assert_int_equal(((const int32_t *)data->train.target.data)[0], 3);
    assert_int_equal(((const int32_t *)data->train.target.data)[1], 0);
    ls_data_close(data);

    ls_data_need two = {.inputs = 2, .rank = {1, 1}, .shape = {{3}, {2}}};
    file.count = 3;
    must(open_user_file(&file, &two, &data));
    assert_memory_equal(data->train.input[1].data, file.x1, sizeof file.x1);
    assert_int_equal(data->train.target.type, LS_ARRAY_FLOAT32);
    assert_memory_equal(data->train.target.data, file.y, sizeof file.y);
    ls_data_close(data);
}

static void expect_user_file(user_file file, const ls_data_need *need, const char *first,
                             const char *second)
{
    ls_data *data;
    expect_refusal(open_user_file(&file, need, &data), LS_CODE_MISSING, first, second);
}

static void test_file_refusals(void **state)
{
    const user_file good = make_user_file();
    user_file file = good;
    file.count = 1;
    expect_user_file(file, &small, "tensor 'x0' is missing", "[N,3]");
    file = good;
    file.count = 3;
    expect_user_file(file, &small, "tensor 'x1'", "no other tensors");
    ls_data_need two = {.inputs = 2, .rank = {1, 1}, .shape = {{3}, {2}}};
    expect_user_file(good, &two, "tensor 'x1' is missing", "[N,2]");
    file.count = 4;
    expect_user_file(file, &two, "tensor 'extra'", "x0, x1 and y");
    file = good;
    file.tensors[1] = (ls_tensor){.name = "x0", .rank = 1, .shape = {6}, .count = 6};
    expect_user_file(file, &small, "tensor 'x0' has the shape [6]", "[N,3]");
    file.tensors[1] = (ls_tensor){.name = "x0", .rank = 2, .shape = {3, 2}, .count = 6};
    expect_user_file(file, &small, "tensor 'x0' has the shape [3,2]", "[N,3]");
    file.tensors[1] = (ls_tensor){.name = "x0", .rank = 2, .shape = {1, 3}, .count = 3};
    expect_user_file(file, &small, "1 samples and y 2", "same number of samples");
    file = good;
    file.tensors[0] = (ls_tensor){.name = "y", .rank = 2, .shape = {2, 1}, .count = 2};
    expect_user_file(file, &small, "tensor 'y'", "[N]");
    file.tensors[0] = (ls_tensor){.name = "y", .rank = 1, .shape = {0}, .count = 0};
    expect_user_file(file, &small, "tensor 'y'", "[N]");
    const float labels[] = {4, -1, 0.5f, 1e30f};
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        file = good;
        file.y[1] = labels[i];
        expect_user_file(file, &small, "tensor 'y' holds", "at index 1");
    }
    const float odd[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        file = good;
        file.x0[4] = odd[i];
        expect_user_file(file, &small, "tensor 'x0': element", "element 4");
        file = good;
        file.y[0] = odd[i];
        expect_user_file(file, &small, "tensor 'y': element", "element 0");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),         cmocka_unit_test(test_mnist),
        cmocka_unit_test(test_fashion_mnist), cmocka_unit_test(test_polynomial),
        cmocka_unit_test(test_classes),       cmocka_unit_test(test_synthetic_refusals),
        cmocka_unit_test(test_file),          cmocka_unit_test(test_file_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
