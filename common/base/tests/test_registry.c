/* SPDX-License-Identifier: MIT */
/* Registries: exact names are found, prefixes are not, and a refusal lists the valid names. */
#include "common/base/registry.h"
#include "common/base/tests/must.h"

#include <string.h>

static const struct entry {
    const char *name, *help;
    int value;
} ring = {"ring", "around", 1}, rings = {"rings", "several", 2};

static const ls_registry registry = {"thing", (const void *const[]){&ring, &rings, NULL}};

static void whole_names_are_found(void **state)
{
    assert_int_equal(ls_registry_count(&registry), 2);
    assert_string_equal(ls_registry_help(&registry, 1), "several");
    assert_ptr_equal(ls_registry_find(&registry, "ring", 4), &ring);
    assert_ptr_equal(ls_registry_find(&registry, "rings:3", 5), &rings);
    assert_null(ls_registry_find(&registry, "rin", 3));
    assert_null(ls_registry_find(&registry, "ringss", 6));
    assert_null(ls_registry_find(&registry, "", 0));
}

static void names_are_listed(void **state)
{
    char text[32], few[8];
    assert_string_equal(ls_registry_names(&registry, text, sizeof text), "ring, rings");
    assert_string_equal(ls_registry_names(&registry, few, sizeof few), "ring, r");
    ls_status refusal = ls_registry_refuse(&registry, "rang");
    assert_int_equal(ls_status_code(refusal), LS_CODE_USAGE);
    assert_string_equal(ls_status_text(refusal),
                        "thing: rang: unknown name; valid are: ring, rings");
    ls_status_free(refusal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_names_are_found),
        cmocka_unit_test(names_are_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
