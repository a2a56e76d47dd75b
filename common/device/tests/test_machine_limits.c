/* SPDX-License-Identifier: MIT */
/* Limits of the process and names of processors, from made-up texts and control groups. Exact. */
#include "common/base/tests/must.h"
#include "common/device/machine_limits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Texts --------------------------------------------------------------------------------- */

static void quotas_parse(void **state)
{
    assert_true(ls_limits_cpu_max("150000 100000\n") == 1.5);
    assert_true(ls_limits_cpu_max("max 100000\n") == 0);
    assert_true(ls_limits_cpu_max("100000\n") == 0);
    assert_true(ls_limits_cpu_max("100000 0\n") == 0);
    assert_true(ls_limits_cpu_max("") == 0);
    assert_true(ls_limits_cpu_max("12x 100000") == 0);
    assert_true(ls_limits_cpu_max("50000\n 100000\n") == 0.5); /* version 1, in succession */
    assert_true(ls_limits_cpu_max("-1\n 100000\n") == 0);
    assert_true(ls_limits_cpu_max(" ") == 0);
}

static void memory_limits_parse(void **state)
{
    assert_int_equal(ls_limits_memory("1073741824\n"), 1073741824);
    assert_int_equal(ls_limits_memory("9223372036854771712\n"), 9223372036854771712u);
    assert_int_equal(ls_limits_memory("max\n"), SIZE_MAX);
    assert_int_equal(ls_limits_memory(""), SIZE_MAX);
    assert_int_equal(ls_limits_memory("-5"), SIZE_MAX);
    assert_int_equal(ls_limits_memory("99999999999999999999999"), SIZE_MAX);
}

static void cpu_models_parse(void **state)
{
    char model[16];
    assert_true(ls_limits_cpu_model("processor\t: 0\nmodel\t\t: 2\nmodel name\t: Fast 9\n", model,
                                    sizeof model));
    assert_string_equal(model, "Fast 9");
    assert_true(ls_limits_cpu_model("model name : a name that is too long", model, sizeof model));
    assert_string_equal(model, "a name that is ");
    assert_false(ls_limits_cpu_model("processor : 0\nmodel name :\n", model, sizeof model));
    assert_false(ls_limits_cpu_model("processor : 0\nBogoMIPS : 50.0\n", model, sizeof model));
}

/* Processors with the same name that differ: every number and flag matters, except values of one
 * core, of the next processor, or of the moment. */
static void cpu_identities_differ(void **state)
{
    static const char form[] =
        "processor\t: 0\ncpu family\t: %s\nmodel\t\t: %s\n"
        "model name\t: Xeon\nstepping\t: %s\ncpu MHz\t\t: %s\nflags\t\t: %s\n"
        "\nprocessor\t: 1\nmodel\t\t: 99\n";
    static const char *const values[][5] = {{"6", "143", "8", "2000", "fpu avx512f amx_tile"},
                                            {"6", "143", "8", "3000", "fpu avx512f amx_tile"},
                                            {"25", "143", "8", "2000", "fpu avx512f amx_tile"},
                                            {"6", "106", "8", "2000", "fpu avx512f amx_tile"},
                                            {"6", "143", "6", "2000", "fpu avx512f amx_tile"},
                                            {"6", "143", "8", "2000", "fpu avx512f"}};
    enum { COUNT = sizeof values / sizeof *values };
    char found[COUNT][96];
    for (size_t i = 0; i < COUNT; i++) {
        char text[512];
        const char *const *v = values[i];
        snprintf(text, sizeof text, form, v[0], v[1], v[2], v[3], v[4]);
        ls_limits_cpu_identity(text, found[i], sizeof found[i]);
        assert_int_equal(strncmp(found[i], "6-143-8 ", 8) == 0, i < 2 || i == 5);
        for (size_t k = 0; k < i; k++)
            assert_int_equal(strcmp(found[i], found[k]) == 0, i == 1 && k == 0);
    }
    ls_limits_cpu_identity("processor : 0\nFeatures : fp sve\nCPU part : 0xd40\nCPU revision : 1\n",
                           found[0], sizeof found[0]);
    assert_non_null(strstr(found[0], "0xd40-1"));
    ls_limits_cpu_identity("", found[0], sizeof found[0]);
    assert_string_equal(found[0], "");
    char little[8];
    ls_limits_cpu_identity("cpu family : 12345678\nmodel : 9\n", little, sizeof little);
    assert_string_equal(little, "1234567");
}

static void throttling_parses(void **state)
{
    assert_true(ls_limits_cpu_stat("usage_usec 9\nnr_periods 4\nnr_throttled 2\n"
                                   "throttled_usec 1500000\nnr_bursts 0\n") == 1.5);
    assert_true(ls_limits_cpu_stat("nr_periods 21\nnr_throttled 13\nthrottled_time 250000000\n") ==
                0.25);
    assert_true(ls_limits_cpu_stat("throttled_usec 0\n") == 0);
    assert_true(isnan(ls_limits_cpu_stat("usage_usec 9\nuser_usec 4\n"))); /* without quotas */
    assert_true(isnan(ls_limits_cpu_stat("")));
}

static const char mounts[] =
    "22 1 0:20 / /proc rw,nosuid - proc proc rw\n"
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "33 31 0:30 /docker/ab /sys/fs/cgroup/my\\040memory rw - cgroup cgroup rw,memory\n"
    "38 31 0:35 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

static void check_group(const char *groups, const char *controller, const char *folder, size_t top)
{
    char found[4096] = "none";
    size_t found_top = 0;
    assert_int_equal(ls_limits_group(groups, mounts, controller, found, &found_top),
                     folder != NULL);
    assert_string_equal(found, folder ? folder : "none");
    assert_int_equal(found_top, top);
}

static void groups_are_found(void **state)
{
    static const char groups[] = "5:cpu,cpuacct:/a/b\n"
                                 "4:memory:/docker/ab/c\n"
                                 "3:cpuset:/x\n"
                                 "0::/user.slice/s\n";
    check_group(groups, NULL, "/sys/fs/cgroup/unified/user.slice/s", 22);
    check_group(groups, "cpu", "/sys/fs/cgroup/cpu,cpuacct/a/b", 26);
    check_group(groups, "memory", "/sys/fs/cgroup/my memory/c", 24);
    check_group(groups, "cpuset", NULL, 0); /* not mounted */
    check_group(groups, "blkio", NULL, 0);
    check_group("0::/\n", NULL, "/sys/fs/cgroup/unified", 22);
    check_group("4:memory:/docker/ab\n", "memory", "/sys/fs/cgroup/my memory", 24);
    check_group("4:memory:/docker/abc\n", "memory", "/sys/fs/cgroup/my memory", 24);
    check_group("0::/../other\n", NULL, "/sys/fs/cgroup/unified", 22);
    check_group("", NULL, NULL, 0);
    check_group("no colons\n0:\n", NULL, NULL, 0);
}

/* ---- Control groups in a folder of our own ------------------------------------------------- */

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    fclose(file);
}

static void remove_in(const char *folder, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    remove(path);
}

static void smallest_limit_on_the_way_up_counts(void **state)
{
    char root[] = "test-cgroup-XXXXXX", middle[64], leaf[64], text[512];
    assert_non_null(mkdtemp(root));
    snprintf(middle, sizeof middle, "%s/a", root);
    snprintf(leaf, sizeof leaf, "%s/a/b", root);
    assert_int_equal(mkdir(middle, 0700), 0);
    assert_int_equal(mkdir(leaf, 0700), 0);
    write_file(leaf, "cpu.max", "max 100000\n");
    write_file(middle, "cpu.max", "150000 100000\n");
    write_file(root, "cpu.max", "400000 100000\n");
    write_file(leaf, "memory.max", "4096000\n");
    write_file(middle, "memory.max", "max\n");
    write_file(root, "memory.max", "1024000\n");
    snprintf(text, sizeof text, "1 0 0:1 / %s rw - cgroup2 none rw\n", root);
    ls_limits limits = ls_limits_find("0::/a/b\n", text);
    assert_true(limits.cpu_quota == 1.5);
    assert_int_equal(limits.memory, 1024000);

    write_file(leaf, "cpu.cfs_quota_us", "50000\n");
    write_file(leaf, "cpu.cfs_period_us", "100000\n");
    write_file(middle, "memory.limit_in_bytes", "512000\n");
    snprintf(text, sizeof text,
             "1 0 0:1 / %s rw - cgroup none rw,cpu\n2 0 0:2 / %s rw - cgroup none rw,memory\n",
             root, root);
    limits = ls_limits_find("2:memory:/a/b\n1:cpu,cpuacct:/a/b\n", text);
    assert_true(limits.cpu_quota == 0.5);
    assert_int_equal(limits.memory, 512000);

    limits = ls_limits_find("0::/a/b\n", ""); /* nothing mounted */
    assert_true(limits.cpu_quota == 0);
    assert_int_equal(limits.memory, SIZE_MAX);

    static const char *const files[] = {"cpu.max", "memory.max", "cpu.cfs_quota_us",
                                        "cpu.cfs_period_us", "memory.limit_in_bytes"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        remove_in(leaf, files[i]);
        remove_in(middle, files[i]);
        remove_in(root, files[i]);
    }
    rmdir(leaf);
    rmdir(middle);
    assert_int_equal(rmdir(root), 0);
}

/* Every group on the way up has a quota of its own; a container sees those below its root. */
static void throttling_of_all_parents_counts(void **state)
{
    static const struct {
        const char *groups, *root, *type;
        double expected_s; /* negative: NaN */
    } cases[] = {{"0::/a/b\n", "/", "cgroup2 none rw", 5},
                 {"0::/a\n", "/", "cgroup2 none rw", 1},
                 {"0::/\n", "/", "cgroup2 none rw", -1},
                 {"0::/job/a/b\n", "/job", "cgroup2 none rw", 5},
                 {"0::/../other\n", "/", "cgroup2 none rw", -1},
                 {"1:cpu:/a/b\n0::/\n", "/", "cgroup none rw,cpu", 5},
                 {"4:cpu,cpuacct:/a/b\n", "/", "cgroup none rw,cpu,cpuacct", 5},
                 {"4:cpuacct:/a/b\n", "/", "cgroup none rw,cpuacct", -1},
                 {"", "/", "cgroup2 none rw", -1}};
    char root[] = "test-cgroup-XXXXXX", middle[64], leaf[64], text[512];
    assert_non_null(mkdtemp(root));
    snprintf(middle, sizeof middle, "%s/a", root);
    snprintf(leaf, sizeof leaf, "%s/a/b", root);
    assert_int_equal(mkdir(middle, 0700), 0);
    assert_int_equal(mkdir(leaf, 0700), 0);
    write_file(leaf, "cpu.stat", "throttled_usec 4000000\n");
    write_file(middle, "cpu.stat", "nr_throttled 3\nthrottled_time 1000000000\n");
    write_file(root, "cpu.stat", "usage_usec 7\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, "1 0 0:1 %s %s rw - %s\n", cases[i].root, root, cases[i].type);
        const double found_s = ls_limits_throttled(cases[i].groups, text);
        if (cases[i].expected_s < 0 ? !isnan(found_s) : found_s != cases[i].expected_s)
            fail_msg("case %zu: %g s", i, found_s);
    }
    assert_true(isnan(ls_limits_throttled("0::/a/b\n", ""))); /* nothing mounted */
    remove_in(leaf, "cpu.stat");
    remove_in(middle, "cpu.stat");
    remove_in(root, "cpu.stat");
    rmdir(leaf);
    rmdir(middle);
    assert_int_equal(rmdir(root), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotas_parse),      cmocka_unit_test(memory_limits_parse),
        cmocka_unit_test(cpu_models_parse),  cmocka_unit_test(cpu_identities_differ),
        cmocka_unit_test(throttling_parses), cmocka_unit_test(throttling_of_all_parents_counts),
        cmocka_unit_test(groups_are_found),  cmocka_unit_test(smallest_limit_on_the_way_up_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
