/* SPDX-License-Identifier: MIT */
/* Libraries loaded at run time, tested with libz, which every build has. No tolerance. */
#include "common/base/dynamic.h"
#include "common/base/tests/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct zlib_functions {
    const char *(*version)(void);
    unsigned long (*compress_bound)(unsigned long bytes);
} zlib_functions;

static int zlib_major(const void *functions)
{
    return atoi(((const zlib_functions *)functions)->version());
}

static const char *const zlib_symbols[] = {"zlibVersion", "compressBound", NULL};

static ls_dynamic zlib(void)
{
    return (ls_dynamic){.name = "zlib",
                        .file = "libz.so.1",
                        .folder = "",
                        .remedy = "install zlib1g",
                        .major = 1,
                        .find_major = zlib_major,
                        .symbols = zlib_symbols};
}

static void functions_are_found(void **state)
{
    const ls_dynamic library = zlib();
    zlib_functions functions = {NULL, NULL};
    void *handle = NULL;
    assert_null(ls_dynamic_load(&library, &functions, &handle));
    assert_int_equal(functions.version()[0], '1');
    assert_true(functions.compress_bound(1000) > 1000);
    ls_dynamic_unload(handle);
    ls_dynamic_unload(NULL);
}

static void refused(const ls_dynamic *library, const char *expected)
{
    zlib_functions functions;
    void *handle = &functions;
    ls_status status = ls_dynamic_load(library, &functions, &handle);
    assert_int_equal(ls_status_code(status), LS_CODE_MISSING);
    if (!strstr(ls_status_text(status), expected))
        fail_msg("%s", ls_status_text(status));
    assert_non_null(strstr(ls_status_text(status), "; install zlib1g"));
    assert_ptr_equal(handle, &functions);
    ls_status_free(status);
}

static void failures_are_one_line(void **state)
{
    ls_dynamic library = zlib();
    library.file = "libz-that-nobody-has.so.1";
    refused(&library, "zlib: libz-that-nobody-has.so.1: cannot be loaded (");
    library.folder = "/nowhere";
    refused(&library, "cannot be loaded (libz-that-nobody-has.so.1: cannot open");

    library = zlib();
    library.major = 9;
    refused(&library,
            "zlib: libz.so.1: this library has version 1, but this build is for version 9");

    static const char *const more[] = {"zlibVersion", "inflateIntoTheVoid", NULL};
    library = zlib();
    library.symbols = more;
    refused(&library, "zlib: libz.so.1: this library is too old or incomplete: it does not have "
                      "the function inflateIntoTheVoid");
}

/* A file of this name in its own folder that is not a library. */
static void a_broken_file_is_not_absent(void **state)
{
    char folder[] = "/tmp/ls_dynamic_XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/libz-that-nobody-has.so.1", folder);
    ls_dynamic library = zlib();
    assert_false(ls_dynamic_absent(&library));
    library.file = "libz-that-nobody-has.so.1";
    assert_true(ls_dynamic_absent(&library));
    library.folder = folder;
    assert_true(ls_dynamic_absent(&library));
    FILE *file = fopen(path, "w");
    fputs("no library\n", file);
    fclose(file);
    assert_false(ls_dynamic_absent(&library));
    refused(&library, path); /* the loader's message, about this file */
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_found),
        cmocka_unit_test(failures_are_one_line),
        cmocka_unit_test(a_broken_file_is_not_absent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
