/* SPDX-License-Identifier: MIT */
/* The reason given if there is no GPU, for emulated drivers' answers. No tolerance. */
#include "common/base/tests/must.h"
#include "common/device/gpus.h"

#include <string.h>

static void check_answer(ls_gpu_answer answer, const char *driver, const char *reason)
{
    ls_gpus gpus;
    memset(&gpus, 'x', sizeof gpus);
    answer.runtime = 13000;
    ls_gpus_explain(&answer, &gpus);
    assert_string_equal(gpus.driver, driver);
    assert_string_equal(gpus.reason, reason);
}

static void missing_gpus_are_explained(void **state)
{
    const char *none = "no CUDA-capable device is detected";
    check_answer((ls_gpu_answer){.error = "driver version is insufficient", .too_old = true}, "",
                 "no GPU driver is installed");
    check_answer(
        (ls_gpu_answer){.driver = 12040, .error = "insufficient", .too_old = true}, "CUDA 12.4",
        "the GPU driver is too old: it supports CUDA 12.4, but this build needs CUDA 13.0");
    check_answer((ls_gpu_answer){.driver = 13010, .error = none}, "CUDA 13.1",
                 "no GPU: no CUDA-capable device is detected");
    check_answer((ls_gpu_answer){.driver = 13000, .error = none, .visible = ""}, "CUDA 13.0",
                 "no GPU: no CUDA-capable device is detected (CUDA_VISIBLE_DEVICES is '')");
    check_answer((ls_gpu_answer){.driver = 13000}, "CUDA 13.0", "no GPU: the driver shows none");
    check_answer((ls_gpu_answer){.driver = 13000, .count = 2}, "CUDA 13.0", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(missing_gpus_are_explained)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
