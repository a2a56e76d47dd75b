/* SPDX-License-Identifier: MIT */
/* The group `environment` of a row, made of text from outside; and arithmetic that the environment
 * overrides. No tolerance: texts are compared. */
#include "bench/row/provenance.h"

#include "bench/output/format.h"
#include "common/base/tests/must.h"
#include "common/kernel/kernel.h"

#include <stdlib.h>
#include <string.h>

/* The group of variables that stand one after the other, each with its zero. */
static json_t *group_of(const char *variables, size_t size)
{
    FILE *stream = fmemopen((void *)(uintptr_t)variables, size, "r");
    assert_non_null(stream);
    json_t *group = ls_environment_build(stream);
    fclose(stream);
    return group;
}

#define GROUP_OF(text) group_of(text, sizeof(text))

static void expect(const json_t *group, const char *name, const char *value)
{
    const char *found = json_string_value(json_object_get(group, name));
    assert_non_null(found);
    assert_string_equal(found, value);
}

static void test_listed(void **state)
{
    (void)state;
    json_t *group = GROUP_OF("UCX_TLS=tcp\0PATH=/bin\0DNNL_MAX_CPU_ISA=SSE41\0OMPI_MCA_btl=self\0"
                             "DNNL_MAX_CPU_ISA=AVX2\0NCCL_ALGO=\0NVIDIA_TF32_OVERRIDE=0");
    char *text = json_dumps(group, JSON_COMPACT);
    assert_string_equal(text, "{\"DNNL_MAX_CPU_ISA\":\"SSE41\",\"NCCL_ALGO\":\"\","
                              "\"NVIDIA_TF32_OVERRIDE\":\"0\",\"OMPI_MCA_btl\":\"self\","
                              "\"UCX_TLS\":\"tcp\"}");
    free(text);
    text = ls_value_text(group); /* a cell of CSV */
    assert_string_equal(text, "DNNL_MAX_CPU_ISA=SSE41+NCCL_ALGO=+NVIDIA_TF32_OVERRIDE=0+"
                              "OMPI_MCA_btl=self+UCX_TLS=tcp");
    free(text);
    json_decref(group);
}

/* Of a launcher, of a module, of nobody: a row without any of the table has no group. */
static void test_left_out(void **state)
{
    (void)state;
    assert_null(GROUP_OF(""));
    assert_null(GROUP_OF("PATH=/bin\0LD_LIBRARY_PATH=/x\0CUDA_VISIBLE_DEVICES=1\0NCCL_VERSION=2\0"
                         "UCX_HOME=/u\0OMPI_MCA_orte_launch=1\0OMPI_MCA_mpi_oversubscribe=1\0"
                         "OMPI_COMM_WORLD_RANK=0\0HFI_NO_BACKTRACE=1\0OMPI_MCA_pmix=^s1\0"
                         "OMPI_MCA_shmem_RUNTIME_QUERY_hint=mmap\0NCCL_ALGO\0=x\0"
                         "XNCCL_ALGO=1\0nccl_algo=1\0OMP_NUM_THREADS=4\0"
                         "OMPI_MCA_btl_base_warn_component_unused=0"));
}

static void test_hostile(void **state)
{
    (void)state;
    json_t *group = GROUP_OF("UCX_A=\xff\x1b[31m\xc2\x9b\n\x7f\0NCCL_\xff\x01=a,b+\"c\"=d\0FI_.=1");
    expect(group, "UCX_A", "\\xff\\x1b[31m\\xc2\\x9b\\x0a\\x7f");
    expect(group, "NCCL_\\xff\\x01", "a,b+\"c\"=d");
    expect(group, "FI_.", "1");
    assert_int_equal(json_object_size(group), 3);
    json_decref(group);
}

/* Two long values that differ at their ends are told apart. */
static void test_long(void **state)
{
    enum { LENGTH = 100000 };
    char *value = calloc(LENGTH + 1, 1), *seen[2];
    (void)state;
    assert_non_null(value);
    memset(value, '\xe9', LENGTH);
    memcpy(value, "FI_LONG=", 8);
    for (int i = 0; i < 2; i++) {
        value[LENGTH - 1] = (char)('a' + i);
        json_t *group = group_of(value, LENGTH + 1);
        seen[i] = strdup(json_string_value(json_object_get(group, "FI_LONG")));
        assert_non_null(seen[i]);
        assert_true(strlen(seen[i]) < 256);
        assert_non_null(strstr(seen[i], "... (99992 bytes, "));
        json_decref(group);
    }
    assert_string_not_equal(seen[0], seen[1]);
    free(seen[0]);
    free(seen[1]);
    memset(value + 4, 'N', LENGTH - 4); /* a long name */
    value[LENGTH - 2] = '=';
    memcpy(value, "UCX_", 4);
    json_t *group = group_of(value, LENGTH + 1);
    assert_int_equal(json_object_size(group), 1);
    json_decref(group);
    free(value);
}

static void check_override(const char *value, const char *float32, const char *tf32)
{
    const ls_kernel_table gpu = {.name = "gpu", .tf32 = true}, cpu = {.name = "cpu"};
    const char *said[] = {[LS_MATH_FLOAT32] = float32, [LS_MATH_TF32] = tf32};
    assert_int_equal(setenv("NVIDIA_TF32_OVERRIDE", value, 1), 0);
    must(ls_kernel_math_check(&cpu, LS_MATH_FLOAT32));
    for (int math = LS_MATH_FLOAT32; math <= LS_MATH_TF32; math++)
        if (said[math])
            must_refuse(ls_kernel_math_check(&gpu, (ls_math)math), LS_CODE_USAGE, said[math]);
        else
            must(ls_kernel_math_check(&gpu, (ls_math)math));
}

/* What NVIDIA's libraries would take over what they are asked for is refused. */
static void test_override(void **state)
{
    (void)state;
    check_override("", NULL, NULL);
    check_override("0", NULL, "--math float32");
    check_override("1", "--math tf32", NULL);
    assert_int_equal(unsetenv("NVIDIA_TF32_OVERRIDE"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_listed),   cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_hostile),  cmocka_unit_test(test_long),
        cmocka_unit_test(test_override),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
