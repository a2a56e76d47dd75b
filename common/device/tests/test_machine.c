/* SPDX-License-Identifier: MIT */
/*
 * Machine: synthetic topologies (hwloc's HWLOC_SYNTHETIC), devices of machines with GPUs, and this
 * machine. Exact. Limits are in test_machine_limits.c.
 */
#include "common/base/tests/must.h"
#include "common/device/machine_limits.h"
#include "common/device/machine_private.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- This machine -------------------------------------------------------------------------- */

static ls_machine *open_machine(int cpu_devices, int cores_per_device)
{
    ls_machine *machine = NULL;
    const ls_machine_options options = {.cpu_devices = cpu_devices,
                                        .cores_per_device = cores_per_device};
    ls_status status = ls_machine_open(&options, &machine);
    assert_string_equal(ls_status_text(status), "ok");
    return machine;
}

static void this_machine_is_described(void **state)
{
    ls_machine *machine = open_machine(0, 0);
    const ls_machine_info *info = ls_machine_describe(machine);
    assert_true(info->cores_total >= 1);
    assert_in_range(info->cores_allowed, 1, info->cores_total);
    assert_true(info->memory_limit > 0 && info->memory_limit <= info->memory_total);
    assert_true(*info->host && *info->cpu && *info->arch && *info->kernel && *info->isa);
    const int gpus = ls_machine_count(machine, LS_DEVICE_GPU);
    assert_true(*info->gpu);
    assert_int_equal(!strcmp(info->gpu, "no GPU: this build has no CUDA"), !LS_HAS_CUDA);
    assert_true(gpus == 0 || *info->driver);
    assert_int_equal(ls_machine_count(machine, LS_DEVICE_CPU), info->cores_allowed);
    assert_int_equal(ls_machine_best_kind(machine), gpus ? LS_DEVICE_GPU : LS_DEVICE_CPU);
    assert_int_equal(ls_machine_cpu_capacity(machine),
                     info->memory_limit / (size_t)info->cores_allowed);
    assert_true(strncmp(ls_machine_hwloc_version(), "2.", 2) == 0);
    ls_machine_close(machine);
    ls_machine_close(NULL);
}

static void affinity_mask_is_respected(void **state)
{
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &before))
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
        ls_machine *machine = open_machine(0, 0);
        int core = -1;
        assert_int_equal(ls_machine_describe(machine)->cores_allowed, 1);
        assert_int_equal(ls_machine_count(machine, LS_DEVICE_CPU), 1);
        assert_int_equal(ls_machine_cores(machine, 5, &core, 1), 1);
        assert_int_equal(core, (int)cpu);
        ls_machine_close(machine);
    }
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

static void numbers_out_of_range_are_refused(void **state)
{
    static const struct {
        ls_machine_options options;
        const char *option;
    } bad[] = {{{.cpu_devices = -1}, "--cpu-devices: -1: "},
               {{.cpu_devices = 4097}, "--cpu-devices: 4097: "},
               {{.cores_per_device = -1}, "--cores-per-device: -1"},
               {{.cores_per_device = 65}, "--cores-per-device: 65: "},
               {{.logical_gpus = -1}, "--logical-gpus: -1: "},
               {{.logical_gpus = 65}, "--logical-gpus: 65: "}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ls_machine *machine = NULL;
        ls_status status = ls_machine_open(&bad[i].options, &machine);
        assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
        assert_non_null(strstr(ls_status_text(status), bad[i].option));
        assert_null(machine);
        ls_status_free(status);
    }
}

static void more_cores_than_there_are_is_refused(void **state)
{
    setenv("HWLOC_SYNTHETIC", "pack:1 core:2 pu:1", 1);
    ls_machine *machine = NULL;
    ls_status status = ls_machine_open(&(ls_machine_options){.cores_per_device = 3}, &machine);
    unsetenv("HWLOC_SYNTHETIC");
    assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
    assert_non_null(
        strstr(ls_status_text(status), "--cores-per-device: 3: this is more than the cores"));
    ls_status_free(status);
}

/* ---- Made-up topologies -------------------------------------------------------------------- */

static void hardware_threads_count_once(void **state)
{
    setenv("HWLOC_SYNTHETIC", "pack:2 numa:1 l3:1(size=32MB) l2:3(size=1MB) core:1 pu:2", 1);
    ls_machine *machine = open_machine(0, 2);
    unsetenv("HWLOC_SYNTHETIC");
    const ls_machine_info *info = ls_machine_describe(machine);
    assert_int_equal(info->cores_total, 6);
    assert_int_equal(info->numa_nodes, 2);
    assert_int_equal(info->cache_count, 2);
    assert_int_equal(info->caches[0].level, 2);
    assert_int_equal(info->caches[0].count, 6);
    assert_int_equal(info->caches[1].bytes, 32000000);
    if (info->cpu_quota == 0) { /* a quota of the real process would reduce the cores */
        assert_int_equal(info->cores_allowed, 6);
        assert_int_equal(ls_machine_count(machine, LS_DEVICE_CPU), 3);
        int cores[4] = {-1, -1, -1, -1};
        assert_int_equal(ls_machine_cores(machine, 1, cores, 4), 2);
        assert_int_equal(cores[0], 4);
        assert_int_equal(cores[1], 6);
        assert_int_equal(cores[2], -1);
    }
    ls_machine_close(machine);
}

/* Processes with the same usable cores: each gets a share; if there are too many processes, one
 * core that others use, too. */
static void processes_share_out_the_cores(void **state)
{
    static const struct {
        int part, parts, count, first;
    } expected[] = {{0, 1, 6, 0}, {0, 2, 3, 0}, {1, 2, 3, 3}, {0, 4, 1, 0}, {1, 4, 2, 1},
                    {3, 4, 2, 4}, {0, 9, 1, 0}, {1, 9, 1, 0}, {8, 9, 1, 5}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const ls_machine_options options = {
            .part = expected[i].part, .parts = expected[i].parts, .neighbours = 2};
        ls_machine *machine = NULL;
        int core = -1;
        setenv("HWLOC_SYNTHETIC", "pack:1 core:6 pu:1", 1);
        assert_null(ls_machine_open(&options, &machine));
        unsetenv("HWLOC_SYNTHETIC");
        const ls_machine_info *info = ls_machine_describe(machine);
        if (info->cpu_quota == 0) { /* a quota of the real process would reduce the cores */
            assert_int_equal(info->cores_allowed, expected[i].count);
            assert_int_equal(ls_machine_cores(machine, 0, &core, 1), 1);
            assert_int_equal(core, expected[i].first);
            assert_true(info->memory_limit <= info->memory_total / 2);
        }
        ls_machine_close(machine);
    }
}

/* ---- Devices of a machine that is made up -------------------------------------------------- */

static int five_cores[] = {3, 5, 7, 9, 11};

static ls_machine made_up(int gpus, int logical)
{
    return (ls_machine){.info = {.cores_total = 8, .cores_allowed = 5, .memory_limit = 1000},
                        .cores = five_cores,
                        .cpu_devices = 2,
                        .cores_per_device = 2,
                        .gpus.count = gpus,
                        .logical_gpus = logical};
}

static void cores_go_round(void **state)
{
    const ls_machine machine = made_up(0, 1);
    static const int expected[][2] = {{3, 5}, {7, 9}, {11, 3}, {5, 7}, {9, 11}, {3, 5}};
    for (int i = 0; i < 6; i++) {
        int cores[2];
        assert_int_equal(ls_machine_cores(&machine, i, cores, 2), 2);
        assert_int_equal(cores[0], expected[i][0]);
        assert_int_equal(cores[1], expected[i][1]);
    }
    int core = -1;
    assert_int_equal(ls_machine_cores(&machine, 1, &core, 1), 2);
    assert_int_equal(core, 7);
    assert_int_equal(ls_machine_cores(&machine, 1 << 20, &core, 1), 2);
    assert_int_equal(ls_machine_cpu_capacity(&machine), 500);
}

static void shared_cores_are_seen(void **state)
{
    const ls_machine machine = made_up(0, 1);
    for (int a = 0; a < 12; a++) {
        for (int b = 0; b < a; b++) {
            int first[2], second[2];
            ls_machine_cores(&machine, a, first, 2);
            ls_machine_cores(&machine, b, second, 2);
            const bool share = first[0] == second[0] || first[0] == second[1] ||
                               first[1] == second[0] || first[1] == second[1];
            const ls_device_name names[2] = {{.kind = LS_DEVICE_CPU, .index = a},
                                             {.kind = LS_DEVICE_CPU, .index = b}};
            assert_int_equal(ls_machine_oversubscribed(&machine, names, 2), share);
            assert_false(ls_machine_oversubscribed(&machine, names, 1));
        }
    }
    ls_device_name gpus[3] = {{.kind = LS_DEVICE_GPU, .index = 0, .logical = 1},
                              {.kind = LS_DEVICE_GPU, .index = 1, .logical = 0},
                              {.kind = LS_DEVICE_CPU, .index = 0}};
    assert_false(ls_machine_oversubscribed(&machine, gpus, 3));
    gpus[1].index = 0;
    assert_true(ls_machine_oversubscribed(&machine, gpus, 3));
}

/* Checks the names that a spec resolves to, separated by spaces, or the refusal. */
static void check_resolve(const ls_machine *machine, const char *spec, ls_code code,
                          const char *expected)
{
    ls_device_name *names = NULL;
    size_t count = 0;
    ls_status status = ls_machine_resolve(machine, spec, &names, &count);
    char text[512] = "";
    for (size_t i = 0; i < count; i++) {
        char name[32];
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "",
                 ls_device_name_text(&names[i], name));
    }
    const char *found = status ? ls_status_text(status) : text;
    if (ls_status_code(status) != code || !strstr(found, expected))
        fail_msg("%s: %s", spec, found);
    free(names);
    ls_status_free(status);
}

static void specs_resolve(void **state)
{
    const ls_machine machine = made_up(0, 1);
    check_resolve(&machine, "1", LS_CODE_OK, "cpu:0");
    check_resolve(&machine, "4", LS_CODE_OK, "cpu:0 cpu:1 cpu:2 cpu:3");
    check_resolve(&machine, "/device:CPU:1+cpu:0", LS_CODE_OK, "cpu:1 cpu:0");
    check_resolve(&machine, "/job:worker/replica:0/task:0/cpu:1", LS_CODE_OK, "cpu:1");
    check_resolve(
        &machine, "gpu:0", LS_CODE_MISSING,
        "device: gpu:0: this device does not exist on this machine; devices are cpu:0, cpu:1");
    check_resolve(&machine, "cpu:0+cpu:2", LS_CODE_MISSING,
                  "device: cpu:2: this device does not exist on this machine");
    check_resolve(
        &machine, "/job:worker/task:1/cpu:1", LS_CODE_MISSING,
        "device: /job:worker/replica:0/task:1/cpu:1: this device belongs to another process");
    check_resolve(&machine, "cpu:0+/CPU:0", LS_CODE_USAGE,
                  "device: cpu:0: cpu:0 and cpu:0 are the same device, or");
    static const char *const bad[] = {
        "",    "0", "-1",     "4097",   "99999999999999999999", "2x",           "1.5",
        "cpu", "+", "cpu:0+", "+cpu:0", "cpu:0,cpu:1",          "cpu:0 + cpu:1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_resolve(&machine, bad[i], LS_CODE_USAGE, "device: ");
    ls_device_name *names;
    size_t count;
    assert_null(ls_machine_resolve(&machine, "4096", &names, &count));
    assert_int_equal(count, 4096);
    free(names);
}

static void gpus_come_first_and_split(void **state)
{
    const ls_machine whole = made_up(2, 1), split = made_up(2, 2);
    assert_int_equal(ls_machine_best_kind(&whole), LS_DEVICE_GPU);
    assert_int_equal(ls_machine_count(&split, LS_DEVICE_GPU), 4);
    check_resolve(&whole, "2", LS_CODE_OK, "gpu:0 gpu:1");
    check_resolve(&whole, "3", LS_CODE_MISSING, "devices are cpu:0, cpu:1, gpu:0, gpu:1");
    check_resolve(&whole, "gpu:0/1", LS_CODE_MISSING,
                  "device: gpu:0/1: this logical GPU does not exist");
    check_resolve(&split, "3", LS_CODE_OK, "gpu:0/0 gpu:0/1 gpu:1/0");
    check_resolve(&split, "gpu:0/0+gpu:0/1+cpu:1", LS_CODE_OK, "gpu:0/0 gpu:0/1 cpu:1");
    check_resolve(&split, "gpu:0+gpu:0/1", LS_CODE_USAGE,
                  "gpu:0 and gpu:0/1 are the same device, or");
    check_resolve(&split, "5", LS_CODE_MISSING, "gpu:0/0, gpu:0/1, gpu:1/0, gpu:1/1");
}

/* Each process of a host uses its own GPUs if there are enough; names do not change. */
static void neighbours_take_gpus_in_turn(void **state)
{
    static const char *const ones[] = {"gpu:0", "gpu:1", "gpu:2", "gpu:3", "gpu:0"};
    static const char *const twos[] = {"gpu:0 gpu:1", "gpu:2 gpu:3", "gpu:0 gpu:1"};
    static const char *const threes[] = {"gpu:0 gpu:1 gpu:2", "gpu:3 gpu:0 gpu:1"};
    static const char *const parts[] = {"gpu:0/0 gpu:0/1 gpu:1/0", "gpu:1/1 gpu:2/0 gpu:2/1"};
    ls_machine machine = made_up(4, 1), split = made_up(4, 2), none = made_up(0, 1);
    for (int r = 0; r < 5; r++) {
        machine.neighbour = split.neighbour = none.neighbour = r;
        check_resolve(&machine, "1", LS_CODE_OK, ones[r]);
        if (r < 3)
            check_resolve(&machine, "2", LS_CODE_OK, twos[r]);
        if (r < 2)
            check_resolve(&machine, "3", LS_CODE_OK, threes[r]);
        if (r < 2)
            check_resolve(&split, "3", LS_CODE_OK, parts[r]);
        check_resolve(&machine, "gpu:1", LS_CODE_OK, "gpu:1");
        check_resolve(&machine, "5", LS_CODE_MISSING, "more GPUs are named");
        check_resolve(&none, "2", LS_CODE_OK, "cpu:0 cpu:1");
    }
}

/* A list as a back end returns it, given to a machine that is already open. */
static void found_gpus_get_names(void **state)
{
    ls_machine *machine = open_machine(2, 0);
    for (int i = 0; i < machine->gpus.count; i++)
        ls_arena_destroy(machine->arenas[i]);
    free(machine->arenas);
    free(machine->gpus.items);
    machine->logical_gpus = 2;
    ls_gpus gpus = {.items = calloc(2, sizeof(ls_gpu)), .count = 2, .driver = "CUDA 13.0"};
    assert_non_null(gpus.items);
    gpus.items[0] = (ls_gpu){.name = "Made-up 1", .pci = "0000:17:00.0", .multiprocessors = 132};
    gpus.items[1] = (ls_gpu){.name = "Made-up 2", .memory = 4096};
    assert_null(ls_machine_take_gpus(machine, &gpus));
    assert_string_equal(ls_machine_describe(machine)->gpu, "Made-up 1");
    assert_string_equal(ls_machine_describe(machine)->driver, "CUDA 13.0");
    assert_int_equal(ls_machine_count(machine, LS_DEVICE_GPU), 4);
    assert_int_equal(ls_machine_logical_gpus(machine), 2);
    assert_int_equal(ls_machine_gpu(machine, 0)->multiprocessors, 132);
    assert_int_equal(ls_machine_gpu(machine, 1)->memory, 4096);
    assert_non_null(ls_machine_arena(machine, 1));
    assert_ptr_not_equal(ls_machine_arena(machine, 0), ls_machine_arena(machine, 1));
    check_resolve(machine, "1", LS_CODE_OK, "gpu:0/0");
    check_resolve(machine, "gpu:1+cpu:1", LS_CODE_OK, "gpu:1 cpu:1");
    check_resolve(machine, "gpu:1/2", LS_CODE_MISSING,
                  "device: gpu:1/2: this logical GPU does not exist; --logical-gpus N splits");
    check_resolve(machine, "gpu:2/0", LS_CODE_MISSING,
                  "device: gpu:2/0: this device does not exist on this machine; ");
    ls_machine_close(machine);
}

static void missing_gpu_says_why(void **state)
{
    ls_machine machine = made_up(0, 1);
    strcpy(machine.info.gpu, "no driver");
    check_resolve(
        &machine, "gpu:0", LS_CODE_MISSING,
        "device: gpu:0: this device cannot be used (no driver); devices are cpu:0, cpu:1");
    check_resolve(&machine, "cpu:0", LS_CODE_OK, "cpu:0");
}

static void lists_are_short(void **state)
{
    ls_machine machine = made_up(0, 1);
    char text[64];
    assert_string_equal(ls_machine_list(&machine, text, sizeof text), "cpu:0, cpu:1");
    machine.cpu_devices = 64;
    assert_string_equal(ls_machine_list(&machine, text, sizeof text), "cpu:0 to cpu:63");
    assert_string_equal(ls_machine_list(&machine, text, 8), "cpu:0 t");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(this_machine_is_described),
        cmocka_unit_test(affinity_mask_is_respected),
        cmocka_unit_test(numbers_out_of_range_are_refused),
        cmocka_unit_test(more_cores_than_there_are_is_refused),
        cmocka_unit_test(hardware_threads_count_once),
        cmocka_unit_test(processes_share_out_the_cores),
        cmocka_unit_test(cores_go_round),
        cmocka_unit_test(shared_cores_are_seen),
        cmocka_unit_test(specs_resolve),
        cmocka_unit_test(gpus_come_first_and_split),
        cmocka_unit_test(neighbours_take_gpus_in_turn),
        cmocka_unit_test(found_gpus_get_names),
        cmocka_unit_test(missing_gpu_says_why),
        cmocka_unit_test(lists_are_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
