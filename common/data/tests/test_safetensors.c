/* SPDX-License-Identifier: MIT */
/* safetensors files: round trips, every refusal of the reader, and failed writes. Exact. */
#include "common/data/safetensors.h"

#include "common/data/tests/fixture.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define ENTRY(name, shape, begin, end)                                                             \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

static ls_status parse(const bytes *made, size_t size, char path[32], ls_tensor_file **out)
{
    const int memory = open_memory(made->data, size, path);
    ls_status status = ls_tensors_read(path, out);
    close(memory);
    return status;
}

static void expect_broken_bytes(const bytes *made, size_t size, const char *why)
{
    ls_tensor_file *file;
    char path[32];
    expect_refusal(parse(made, size, path, &file), LS_CODE_MISSING, path, why);
}

static void expect_broken(const char *header, size_t count, const char *why)
{
    const bytes made = make_tensors(header, count);
    expect_broken_bytes(&made, made.size, why);
}

static int count_files(const char *directory)
{
    DIR *open = opendir(directory);
    assert_non_null(open);
    int count = 0;
    while (readdir(open))
        count++;
    closedir(open);
    return count - 2; /* "." and ".." */
}

static void test_parse(void **state)
{
    /* Not in the order of the data, with metadata, an empty tensor, a scalar, and a header length
     * that is no multiple of 4. */
    bytes made = make_tensors(
        "{\"__metadata__\":{\"a\":\"b\"}," ENTRY("b", "[2,2]", "8", "24") "," ENTRY(
            "a", "[2]", "0", "8") "," ENTRY("none", "[3,0]", "8", "8") "," ENTRY("one", "[]", "24",
                                                                                 "28") "}   ",
        7);
    ls_tensor_file *file;
    char path[32];
    must(parse(&made, made.size, path, &file));
    assert_int_equal(ls_tensors_count(file), 4);
    assert_string_equal(ls_tensors_at(file, 0)->name, "a");
    const ls_tensor *b = ls_tensors_find(file, "b");
    assert_non_null(b);
    assert_int_equal(b->rank, 2);
    assert_int_equal(b->shape[0], 2);
    assert_int_equal(b->shape[1], 2);
    assert_int_equal(b->count, 4);
    for (int i = 0; i < 4; i++)
        assert_true(b->data[i] == (float)(2 + i));
    assert_int_equal(ls_tensors_find(file, "none")->count, 0);
    assert_true(ls_tensors_find(file, "one")->data[0] == 6);
    assert_null(ls_tensors_find(file, "c"));
    ls_tensors_close(file);
    ls_tensors_close(NULL);
}

#define NARROW(name, begin, end)                                                                   \
    "\"" name "\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[" begin "," end "]}"

static bool is_left_out(const char *name)
{
    return strcmp(name, "out") == 0;
}

/* bf16 tensors among float32 ones, with one left out: each element by its bits, widened. */
static void test_bf16(void **state)
{
    static const uint16_t first[3] = {0x3f80, 0xff80, 0x0001}, last[3] = {0x8000, 0x7f7f, 0x7fc1};
    bytes made = make_tensors("{" NARROW("x", "0", "6") "," ENTRY("y", "[1]", "6", "10") "," ENTRY(
                                  "out", "[5]", "10", "30") "," NARROW("z", "30", "36") "}",
                              0);
    const float y = -2.5f;
    add_bytes(&made, first, sizeof first);
    add_bytes(&made, &y, sizeof y);
    add_bytes(&made, "12345678901234567890", 20);
    add_bytes(&made, last, sizeof last);
    ls_tensor_file *file;
    char path[32];
    uint32_t wide[2][3];
    for (int i = 0; i < 3; i++) {
        wide[0][i] = (uint32_t)first[i] << 16;
        wide[1][i] = (uint32_t)last[i] << 16;
    }
    int memory = open_memory(made.data, made.size, path);
    must(ls_tensors_read(path, &file));
    assert_int_equal(ls_tensors_count(file), 4);
    assert_memory_equal(ls_tensors_find(file, "x")->data, wide[0], sizeof wide[0]);
    assert_memory_equal(ls_tensors_find(file, "z")->data, wide[1], sizeof wide[1]);
    assert_true(ls_tensors_find(file, "y")->data[0] == y);
    ls_tensors_close(file);
    must(ls_tensors_open(path, is_left_out, &file));
    assert_int_equal(ls_tensors_count(file), 3);
    assert_null(ls_tensors_find(file, "x")->data);
    for (size_t begin = 0; begin < 3; begin++) /* every range of elements */
        for (size_t count = 0; begin + count <= 3; count++)
            for (int k = 0; k < 2; k++) {
                float part[4] = {7, 7, 7, 7};
                must(ls_tensor_part(ls_tensors_find(file, k ? "z" : "x"), (ls_range){begin, count},
                                    part));
                assert_memory_equal(part, wide[k] + begin, count * sizeof *part);
                assert_true(part[count] == 7);
            }
    float rest[3];
    must(ls_tensor_part(ls_tensors_find(file, "y"), (ls_range){0, 1}, rest));
    assert_true(rest[0] == y);
    assert_int_equal(ftruncate(memory, (off_t)made.size - 2), 0); /* after it was opened */
    ls_status status = ls_tensor_part(ls_tensors_find(file, "z"), (ls_range){0, 3}, rest);
    expect_refusal(status, LS_CODE_MISSING, path, "2 bytes are missing");
    ls_tensors_close(file);
    close(memory);
    expect_broken("{" NARROW("x", "0", "12") "}", 3, "do not agree");
    expect_broken("{" NARROW("x", "0", "6") "}", 2, "after its last tensor");
}

static void test_round_trip(void **state)
{
    char directory[128], path[256], link[256];
    make_directory(directory);
    join(path, directory, "values.safetensors");
    const float values[6] = {1.5f, -0.0f, INFINITY, NAN, 0x1p-149f, 3};
    const ls_tensor tensors[] = {
        {.name = "z \"quoted\" \xc3\xa9", .rank = 2, .shape = {2, 3}, .data = values, .count = 6},
        {.name = "a", .rank = 0, .data = values, .count = 1},
        {.name = "empty", .rank = 1, .shape = {0}, .data = NULL, .count = 0},
    };
    must(ls_tensors_write(path, tensors, 3));
    must(ls_tensors_write(path, tensors, 3)); /* again, over itself */
    assert_int_equal(symlink(path, join(link, directory, "link")), 0);
    must(ls_tensors_write(link, tensors, 3));
    assert_int_equal(count_files(directory), 2);

    ls_tensor_file *file;
    must(ls_tensors_read(path, &file));
    assert_int_equal(ls_tensors_count(file), 3);
    for (int i = 0; i < 3; i++) {
        const ls_tensor *read = ls_tensors_find(file, tensors[i].name);
        assert_non_null(read);
        assert_int_equal(read->rank, tensors[i].rank);
        assert_int_equal(read->count, tensors[i].count);
        for (int j = 0; j < read->rank; j++)
            assert_int_equal(read->shape[j], tensors[i].shape[j]);
        if (read->count)
            assert_memory_equal(read->data, tensors[i].data, read->count * sizeof(float));
        assert_int_equal((uintptr_t)read->data % sizeof(float), 0);
    }
    assert_string_equal(ls_tensors_at(file, 0)->name, tensors[0].name); /* the order given */
    ls_tensors_close(file);

    FILE *raw = fopen(path, "rb");
    uint64_t length;
    assert_int_equal(fread(&length, sizeof length, 1, raw), 1);
    assert_int_equal(length % 8, 0);
    fclose(raw);
    unlink(link);
    unlink(path);
    rmdir(directory);
}

static void test_broken_frame(void **state)
{
    bytes made = make_tensors("{" ENTRY("a", "[2]", "0", "8") "}", 2);
    for (size_t size = 0; size < made.size; size++)
        expect_broken_bytes(&made, size, "");
    for (int i = 0; i < 8; i++) { /* lengths up to 2^64 */
        bytes wrong = made;
        wrong.data[i] = 0xff;
        expect_broken_bytes(&wrong, wrong.size, "longer than the file");
    }
    bytes wrong = made;
    wrong.data[0] = 0;
    expect_broken_bytes(&wrong, wrong.size, "empty");
    add_bytes(&made, "1234", 4);
    expect_broken_bytes(&made, made.size, "after its last tensor");
}

static void test_broken_json(void **state)
{
    static char deep[3000];
    deep[0] = '{';
    memset(deep + 1, '[', sizeof deep - 2);
    expect_broken(deep, 0, "not valid JSON");
    expect_broken("[]", 0, "does not begin");
    expect_broken(" {}", 0, "does not begin");
    expect_broken("{", 0, "empty");
    expect_broken("{ ", 0, "not valid JSON");
    expect_broken("{} {}", 0, "not valid JSON");
    expect_broken("{\"\xff\":1}", 0, "not valid JSON");
    expect_broken("{" ENTRY("a", "[1]", "0", "4") "," ENTRY("a", "[1]", "4", "8") "}", 2,
                  "duplicate");
    expect_broken("{\"__metadata__\":1}", 0, "__metadata__");
    expect_broken("{\"__metadata__\":{\"a\":1}}", 0, "__metadata__");
    expect_broken("{\"a\":{}}", 0, "tensor 'a'");
    expect_broken("{\"a\":1}", 0, "tensor 'a'");
    expect_broken("{\"a\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]}}", 1, "F16");
    expect_broken("{\"a\":{\"dtype\":3,\"shape\":[1],\"data_offsets\":[0,4]}}", 1, "tensor 'a'");
    expect_broken("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 1,
                  "tensor 'a'");
}

static void test_broken_shapes(void **state)
{
    expect_broken("{" ENTRY("a", "[-1]", "0", "4") "}", 1, "whole number");
    expect_broken("{" ENTRY("a", "[1.0]", "0", "4") "}", 1, "whole number");
    expect_broken("{" ENTRY("a", "[\"1\"]", "0", "4") "}", 1, "whole number");
    expect_broken("{" ENTRY("a", "[99999999999999999999]", "0", "4") "}", 1, "too big");
    expect_broken("{" ENTRY("a", "[4294967296,4294967296]", "0", "0") "}", 0, "too many elements");
    expect_broken("{" ENTRY("a", "[4611686018427387904]", "0", "0") "}", 0, "too many elements");
    expect_broken("{" ENTRY("a", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 1, "9 dimensions");
    expect_broken("{" ENTRY("a", "[2]", "0", "4") "}", 1, "do not agree");
    expect_broken("{" ENTRY("a", "[1]", "0", "8") "}", 2, "do not agree");
}

static void test_broken_ranges(void **state)
{
    expect_broken("{" ENTRY("a", "[1]", "4", "0") "}", 1, "not a range");
    expect_broken("{" ENTRY("a", "[1]", "-4", "0") "}", 1, "not a range");
    expect_broken("{" ENTRY("a", "[1]", "0", "4") "}", 0, "outside of the file");
    expect_broken("{" ENTRY("a", "[1]", "9223372036854775800", "9223372036854775804") "}", 1,
                  "outside of the file");
    expect_broken("{" ENTRY("a", "[1]", "4", "8") "}", 2, "gap");
    expect_broken("{" ENTRY("a", "[2]", "0", "8") "," ENTRY("b", "[2]", "4", "12") "}", 3,
                  "overlap");
    expect_broken("{" ENTRY("a", "[2]", "0", "8") "," ENTRY("b", "[2]", "0", "8") "}", 2,
                  "overlap");
    expect_broken("{" ENTRY("a", "[1]", "0", "4") "," ENTRY("b", "[1]", "8", "12") "}", 3, "gap");
}

static void test_read_refusals(void **state)
{
    char directory[128], path[256];
    make_directory(directory);
    join(path, directory, "file");
    ls_tensor_file *file;
    expect_refusal(ls_tensors_read(path, &file), LS_CODE_MISSING, path, "No such file");
    expect_refusal(ls_tensors_read(directory, &file), LS_CODE_MISSING, directory, "regular");
    bytes made = make_tensors("{" ENTRY("a", "[2]", "0", "8") "}", 2);
    write_file(path, made.data, made.size - 1);
    expect_refusal(ls_tensors_read(path, &file), LS_CODE_MISSING, path, "tensor 'a'");
    write_file(path, made.data, 5);
    expect_refusal(ls_tensors_read(path, &file), LS_CODE_MISSING, path, "shorter");
    /* A sparse file of 200 MB whose header claims 100,000,001 bytes. */
    uint64_t length = 100000001;
    write_file(path, &length, sizeof length);
    assert_int_equal(truncate(path, 200000000), 0);
    expect_refusal(ls_tensors_read(path, &file), LS_CODE_MISSING, path, "at most 100000000");
    unlink(path);
    rmdir(directory);
}

/* ---- Shards ---------------------------------------------------------------------------------- */

static void write_text(const char *directory, const char *name, const char *text)
{
    char path[256];
    join(path, directory, name);
    write_file(path, text, strlen(text));
}

static void write_shard(const char *directory, const char *name, const char *header, size_t count)
{
    char path[256];
    join(path, directory, name);
    const bytes made = make_tensors(header, count);
    write_file(path, made.data, made.size);
}

#define INDEX(map) "{\"metadata\": {\"total_size\": 20}, \"weight_map\": {" map "}}"
#define BOTH       "\"a\": \"one\", \"b\": \"two\", \"c\": \"one\""

static bool is_c(const char *name)
{
    return strcmp(name, "c") == 0;
}

/* An index stands for its shards, and the file at fault is named. */
static void test_shards(void **state)
{
    static const struct {
        const char *index, *two; /* the second shard */
        size_t count;            /* its floats */
        const char *file, *why;
    } broken[] = {
        {INDEX(BOTH ", \"d\": \"three\""), NULL, 0, "three", "No such file"},
        {INDEX(BOTH ", \"d\": \"two\""), NULL, 0, "index",
         "'d': this tensor is not in its shard, two"},
        {INDEX("\"a\": \"one\", \"b\": \"two\""), NULL, 0, "one",
         "'c': the index does not list this tensor"},
        {INDEX(BOTH), "{" ENTRY("a", "[2]", "0", "8") "," ENTRY("b", "[1]", "8", "12") "}", 3,
         "two", "'a': this tensor is in this shard"},
        {INDEX(BOTH), "{" ENTRY("a", "[1]", "0", "4") "}", 1, "two",
         "'a': this tensor is in this shard"},
        {INDEX(BOTH), "{" ENTRY("b", "[3]", "0", "8") "}", 2, "two",
         "'b': this tensor's shape and"},
        {INDEX("\"a\": \"one\", \"a\": \"two\""), NULL, 0, "index", "duplicate"},
        {INDEX("\"a\": \"../one\""), NULL, 0, "index",
         "does not name a file in the index's own folder"},
        {INDEX("\"a\": 1"), NULL, 0, "index", "does not name a file in the index's own folder"},
        {INDEX("\"a\": \"index\""), NULL, 0, "index", "longer than the file"},
        {INDEX(""), NULL, 0, "index", "has no weight_map"},
        {"{\"weight_map\": [\"one\"]}", NULL, 0, "index", "has no weight_map"},
        {"{\"weight_map\": {\"one\"", NULL, 0, "index", "not valid JSON"},
    };
    static const char first[] =
        "{" ENTRY("a", "[2]", "0", "8") "," ENTRY("c", "[1]", "8", "12") "}";
    static const char second[] = "{" ENTRY("b", "[2,1]", "0", "8") "}";
    char directory[128], path[256], at[256];
    ls_tensor_file *file;
    make_directory(directory);
    join(path, directory, "index");
    write_shard(directory, "one", first, 3);
    write_shard(directory, "two", second, 2);
    write_text(directory, "index", INDEX(BOTH));
    must(ls_tensors_read(path, &file));
    assert_int_equal(ls_tensors_count(file), 3);
    assert_int_equal(ls_tensors_find(file, "b")->rank, 2);
    assert_int_equal(ls_tensors_find(file, "a")->count, 2);
    join(at, directory, "two");
    assert_string_equal(ls_tensors_find(file, "b")->file, at);
    ls_tensors_close(file);
    must(ls_tensors_open(path, is_c, &file));
    assert_int_equal(ls_tensors_count(file), 2);
    for (size_t i = 0; i < 2; i++) { /* each from its own shard */
        float part = 0;
        must(ls_tensor_part(ls_tensors_at(file, i), (ls_range){1, 1}, &part));
        assert_true(part == 1);
    }
    ls_tensors_close(file);
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        write_text(directory, "index", broken[i].index);
        write_shard(directory, "two", broken[i].two ? broken[i].two : second,
                    broken[i].two ? broken[i].count : 2);
        join(at, directory, broken[i].file);
        expect_refusal(ls_tensors_read(path, &file), LS_CODE_MISSING, at, broken[i].why);
    }
    unlink(path);
    join(at, directory, "one");
    unlink(at);
    join(at, directory, "two");
    unlink(at);
    rmdir(directory);
}

/* What else is called a file of parameters is named, with what to do. */
static void test_other_formats(void **state)
{
    static const char *const others[][2] = {
        {"PK\x03\x04\x14\x01\x08\x08 archive/data.pkl", "torch.save writes it, not safetensors"},
        {"\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j", "is a pickle"},
        {"\x80\x05\x95\x1f\x01\x01\x01\x01\x01", "safetensors.torch.save_file"},
        {"\x89HDF\r\n\x1a\n", "HDF5"},
        {"\x93NUMPY\x01 ", "npy"},
        {"GGUF\x03\x01\x01\x01", "GGUF"},
        {"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"},
    };
    char directory[128], path[256];
    ls_tensor_file *file;
    make_directory(directory);
    join(path, directory, "file");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        write_text(directory, "file", others[i][0]);
        expect_refusal(ls_tensors_read(path, &file), LS_CODE_MISSING, path, others[i][1]);
    }
    unlink(path);
    rmdir(directory);
}

static void test_write_refusals(void **state)
{
    char directory[128], path[256];
    make_directory(directory);
    const float value[2] = {1, 2};
    ls_tensor tensors[2] = {{.name = "a", .rank = 1, .shape = {1}, .data = value, .count = 1},
                            {.name = "a", .rank = 1, .shape = {1}, .data = value, .count = 1}};
    join(path, directory, "file");
    expect_refusal(ls_tensors_write(path, tensors, 2), LS_CODE_MISSING, path,
                   "two tensors have this name");
    tensors[1].name = "__metadata__";
    expect_refusal(ls_tensors_write(path, tensors, 2), LS_CODE_MISSING, path, "reserves this name");
    tensors[1].name = "\xff";
    expect_refusal(ls_tensors_write(path, tensors, 2), LS_CODE_MISSING, path, "UTF-8");
    tensors[1] = tensors[0];
    tensors[1].shape[0] = 2;
    expect_refusal(ls_tensors_write(path, tensors + 1, 1), LS_CODE_MISSING, path,
                   "another number of elements");
    expect_refusal(ls_tensors_write(directory, tensors, 1), LS_CODE_MISSING, directory, "regular");
    join(path, directory, "pipe"); /* like /dev/null, it must not be replaced by a file */
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refusal(ls_tensors_write(path, tensors, 1), LS_CODE_MISSING, path, "regular");
    unlink(path);
    join(path, directory, "none/file");
    expect_refusal(ls_tensors_write(path, tensors, 1), LS_CODE_MISSING, path, "No such file");
    expect_refusal(ls_tensors_write("/proc/lockstep", tensors, 1), LS_CODE_MISSING,
                   "/proc/lockstep", "cannot be written");
    assert_int_equal(count_files(directory), 0);
    rmdir(directory);
}

/* A limit on file size emulates a full disk: the old file stays, and no other is left. */
static void test_full_disk(void **state)
{
    char directory[128], path[256];
    make_directory(directory);
    join(path, directory, "file");
    static float values[10000];
    const ls_tensor small = {.name = "a", .rank = 1, .shape = {1}, .data = values, .count = 1};
    const ls_tensor large = {
        .name = "a", .rank = 1, .shape = {10000}, .data = values, .count = 10000};
    must(ls_tensors_write(path, &small, 1));
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 8192;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ls_status status = ls_tensors_write(path, &large, 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    expect_refusal(status, LS_CODE_MISSING, path, "File too large");
    assert_int_equal(count_files(directory), 1);
    ls_tensor_file *file;
    must(ls_tensors_read(path, &file));
    assert_int_equal(ls_tensors_find(file, "a")->count, 1);
    ls_tensors_close(file);
    unlink(path);
    rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),          cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_broken_frame),
        cmocka_unit_test(test_broken_json),    cmocka_unit_test(test_broken_shapes),
        cmocka_unit_test(test_broken_ranges),  cmocka_unit_test(test_read_refusals),
        cmocka_unit_test(test_shards),         cmocka_unit_test(test_other_formats),
        cmocka_unit_test(test_write_refusals), cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
