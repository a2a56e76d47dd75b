/* SPDX-License-Identifier: MIT */
/* Placement: names, the default, missing devices, soft placement, the log's lines. Exact. */
#include "common/base/tests/must.h"
#include "common/device/placement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture {
    ls_machine *machine;
    char text[1024];
    ls_log log;
    ls_placement placement;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    must(ls_machine_open(&(ls_machine_options){.cpu_devices = 3}, &f->machine));
    f->log = (ls_log){.stream = fmemopen(f->text, sizeof f->text, "w"), .level = LS_LOG_NORMAL};
    f->placement = (ls_placement){.machine = f->machine, .log = &f->log};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    fclose(f->log.stream);
    ls_machine_close(f->machine);
    free(f);
    return 0;
}

static const char *logged(fixture *f)
{
    fflush(f->log.stream);
    return f->text;
}

static void expect_device(fixture *f, const char *spec, const char *device)
{
    ls_device_name name;
    char text[32];
    must(ls_placement_device(&f->placement, "product", spec, &name));
    assert_string_equal(ls_device_name_text(&name, text), device);
}

static void named_and_default(void **state)
{
    fixture *f = *state;
    expect_device(f, "/device:CPU:2", "cpu:2");
    expect_device(f, NULL, ls_machine_count(f->machine, LS_DEVICE_GPU) ? "gpu:0" : "cpu:0");
    assert_string_equal(logged(f), "");
}

static void expect_refusal(ls_status status, ls_code code, const char *text)
{
    assert_int_equal(ls_status_code(status), code);
    if (strcmp(ls_status_text(status), text) != 0)
        fail_msg("'%s' is not '%s'", ls_status_text(status), text);
    ls_status_free(status);
}

static void missing_is_refused(void **state)
{
    fixture *f = *state;
    ls_device_name name, *names;
    size_t count;
    bool replaced = true;
    char why[512], list[256];
    ls_machine_list(f->machine, list, sizeof list);
    snprintf(why, sizeof why,
             "device: cpu:7: this device does not exist on this machine; devices are %s", list);
    expect_refusal(
        ls_placement_resolve(&f->placement, NULL, "cpu:0+cpu:7", &names, &count, &replaced),
        LS_CODE_MISSING, why);
    assert_false(replaced);
    snprintf(why, sizeof why,
             "operation: product: device: cpu:7: this device does not exist on this machine; "
             "devices are %s",
             list);
    expect_refusal(ls_placement_device(&f->placement, "product", "/cpu:7", &name), LS_CODE_MISSING,
                   why);
    expect_refusal(
        ls_placement_device(&f->placement, "product", "cpu:0+cpu:1", &name), LS_CODE_USAGE,
        "operation: product: this operation runs on one device, not on 2; name one device");
}

static void soft_replaces(void **state)
{
    fixture *f = *state;
    ls_device_name *names;
    size_t count;
    bool replaced = false;
    if (ls_machine_count(f->machine, LS_DEVICE_GPU)) {
        print_message("skipped: the names below are those of a machine without a GPU\n");
        skip();
    }
    f->placement.soft = true;
    expect_device(f, "gpu:7", "cpu:0");
    must(ls_placement_resolve(&f->placement, NULL, "gpu:0+cpu:9", &names, &count, &replaced));
    assert_true(replaced);
    assert_int_equal(count, 2);
    assert_int_equal(names[1].index, 1);
    free(names);
    must(ls_placement_resolve(&f->placement, NULL, "cpu:2", &names, &count, &replaced));
    assert_false(replaced);
    assert_int_equal(names[0].index, 2);
    free(names);
    assert_string_equal(
        logged(f), "lockstep: soft placement: product: 'gpu:7' names a device that this machine "
                   "does not have; cpu:0 is used instead\nlockstep: soft placement: 'gpu:0+cpu:9' "
                   "names a device that this machine does not have; cpu:0+cpu:1 is used instead\n");
    ls_status status = ls_placement_resolve(&f->placement, NULL, "x", &names, &count, &replaced);
    assert_int_equal(ls_status_code(status), LS_CODE_USAGE); /* invalid text is not replaced */
    ls_status_free(status);
}

static void log_lists_operations(void **state)
{
    fixture *f = *state;
    const ls_device_name cpu = {.kind = LS_DEVICE_CPU, .index = 1, .logical = -1};
    const ls_device_name gpu = {.kind = LS_DEVICE_GPU, .logical = -1};
    ls_placement_log(&f->placement, "silent", &cpu, NULL);
    f->placement.logged = true;
    ls_placement_log(&f->placement, "product", &gpu, NULL);
    ls_placement_log(&f->placement, "node 2 dense", &gpu, &cpu);
    assert_string_equal(logged(f), "lockstep: placement: product: gpu:0\n"
                                   "lockstep: placement: node 2 dense: gpu:0, variables cpu:1\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(named_and_default, setup, teardown),
        cmocka_unit_test_setup_teardown(missing_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(soft_replaces, setup, teardown),
        cmocka_unit_test_setup_teardown(log_lists_operations, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
