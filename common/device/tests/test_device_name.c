/* SPDX-License-Identifier: MIT */
/* Device names: TensorFlow's forms and the short ones, and invalid ones. Exact. */
#include "common/base/tests/must.h"
#include "common/device/device_name.h"

#include <stdio.h>
#include <string.h>

typedef struct example {
    const char *text;
    ls_device_name name;
    const char *short_text;
} example;

#define ALONE "", -1, -1 /* no job, replica and task */

static const example good[] = {
    {"cpu:0", {LS_DEVICE_CPU, 0, -1, ALONE}, "cpu:0"},
    {"/cpu:0", {LS_DEVICE_CPU, 0, -1, ALONE}, "cpu:0"},
    {"CPU:3", {LS_DEVICE_CPU, 3, -1, ALONE}, "cpu:3"},
    {"/device:CPU:0", {LS_DEVICE_CPU, 0, -1, ALONE}, "cpu:0"},
    {"/device:GPU:1", {LS_DEVICE_GPU, 1, -1, ALONE}, "gpu:1"},
    {"/device:gPu:1", {LS_DEVICE_GPU, 1, -1, ALONE}, "gpu:1"},
    {"/gpu:1", {LS_DEVICE_GPU, 1, -1, ALONE}, "gpu:1"},
    {"gpu:0/1", {LS_DEVICE_GPU, 0, 1, ALONE}, "gpu:0/1"},
    {"/device:GPU:2/0", {LS_DEVICE_GPU, 2, 0, ALONE}, "gpu:2/0"},
    {"cpu:1048576", {LS_DEVICE_CPU, 1048576, -1, ALONE}, "cpu:1048576"},
    {"gpu:1048576/1048576", {LS_DEVICE_GPU, 1048576, 1048576, ALONE}, "gpu:1048576/1048576"},
    {"/job:worker/replica:0/task:1/device:GPU:0", {LS_DEVICE_GPU, 0, -1, "worker", 0, 1}, "gpu:0"},
    {"/job:ps/task:3/cpu:0", {LS_DEVICE_CPU, 0, -1, "ps", -1, 3}, "cpu:0"},
    {"/task:2/replica:1/job:a_1/gpu:0/1", {LS_DEVICE_GPU, 0, 1, "a_1", 1, 2}, "gpu:0/1"},
};

static const char *const bad[] = {
    "",
    "/",
    "cpu",
    "cpu:",
    "cpu:x",
    "cpu:-1",
    "cpu:+1",
    "cpu: 1",
    "cpu:1 ",
    " cpu:1",
    "cpu:1048577",
    "cpu:99999999999999999999",
    "//cpu:0",
    "cpu:0/",
    "cpu:0/1",
    "gpu:0/",
    "gpu:0/x",
    "gpu:0/1/2",
    "gpu:0/1048577",
    "tpu:0",
    "cpux:0",
    "/device:0",
    "/device:CPU",
    "/device:CPU:",
    "/device:device:CPU:0",
    "/Device:CPU:0",
    "/job:worker",
    "/job:worker/",
    "/job:/cpu:0",
    "/job:1a/cpu:0",
    "/job:a-b/cpu:0",
    "/job:a/job:b/cpu:0",
    "/task:0/task:0/cpu:0",
    "/replica:0/replica:1/cpu:0",
    "/task:x/cpu:0",
    "/job:abcdefghijklmnopqrstuvwxyz012345/cpu:0",
    "/cpu:0/job:a",
    "/cpu:0/gpu:0",
    "/cpu:*",
    "cpu:0+cpu:1",
    "0",
};

static void forms_parse(void **state)
{
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ls_device_name name;
        ls_status status = ls_device_name_parse(good[i].text, &name);
        assert_string_equal(ls_status_text(status), "ok");
        assert_int_equal(name.kind, good[i].name.kind);
        assert_int_equal(name.index, good[i].name.index);
        assert_int_equal(name.logical, good[i].name.logical);
        assert_string_equal(name.job, good[i].name.job);
        assert_int_equal(name.replica, good[i].name.replica);
        assert_int_equal(name.task, good[i].name.task);
        char text[32];
        assert_string_equal(ls_device_name_text(&name, text), good[i].short_text);
    }
}

static void garbage_is_refused(void **state)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ls_device_name name = {.index = 77};
        ls_status status = ls_device_name_parse(bad[i], &name);
        if (ls_status_code(status) != LS_CODE_USAGE)
            print_message("accepted: \"%s\"\n", bad[i]);
        assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
        assert_non_null(strstr(ls_status_text(status), "; names look like cpu:0, /gpu:1"));
        assert_int_equal(name.index, 77);
        ls_status_free(status);
    }
}

static void longest_job_name_fits(void **state)
{
    ls_device_name name;
    assert_null(ls_device_name_parse("/job:abcdefghijklmnopqrstuvwxyz01234/cpu:0", &name));
    assert_int_equal(strlen(name.job), 31);
}

static bool overlap(const char *first, const char *second)
{
    ls_device_name a, b;
    assert_null(ls_device_name_parse(first, &a));
    assert_null(ls_device_name_parse(second, &b));
    assert_int_equal(ls_device_name_overlaps(&a, &b), ls_device_name_overlaps(&b, &a));
    return ls_device_name_overlaps(&a, &b);
}

static void whole_overlaps_its_parts(void **state)
{
    assert_true(overlap("cpu:0", "/device:CPU:0"));
    assert_true(overlap("gpu:0", "gpu:0/1"));
    assert_true(overlap("gpu:0/1", "/gpu:0/1"));
    assert_false(overlap("gpu:0/0", "gpu:0/1"));
    assert_false(overlap("gpu:0/1", "gpu:1/1"));
    assert_false(overlap("cpu:0", "gpu:0"));
    assert_false(overlap("cpu:0", "cpu:1"));
}

static void parts_are_counted_once(void **state)
{
    const ls_device_name names[] = {
        {LS_DEVICE_GPU, 0, 0, ALONE}, {LS_DEVICE_GPU, 0, 1, ALONE},  {LS_DEVICE_GPU, 1, 1, ALONE},
        {LS_DEVICE_GPU, 0, 2, ALONE}, {LS_DEVICE_CPU, 0, -1, ALONE}, {LS_DEVICE_CPU, 1, -1, ALONE},
    };
    static const int expected[] = {0, 1, 1, 2, 2, 3, 4};
    for (int count = 0; count <= 6; count++)
        assert_int_equal(ls_device_name_wholes(names, count), expected[count]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_parse),
        cmocka_unit_test(garbage_is_refused),
        cmocka_unit_test(longest_job_name_fits),
        cmocka_unit_test(whole_overlaps_its_parts),
        cmocka_unit_test(parts_are_counted_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
