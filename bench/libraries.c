/* SPDX-License-Identifier: MIT */
/*
 * Libraries: see libraries.h. Versions are those of the libraries loaded, not of their headers, so
 * the list is asked for once, at its first use, and is constant from then on.
 */
#include "bench/libraries.h"

#include "common/base/digest.h"
#include "common/device/machine.h"
#include "common/kernel/kernel.h"

#include <jansson.h>
#include <libfyaml.h>
#include <pthread.h>
#include <sqlite3.h>
#include <zlib.h>

enum { COUNT = 7 };

static struct {
    pthread_once_t once;
    ls_library_version list[COUNT];
    char hash_version[16];
} asked = {.once = PTHREAD_ONCE_INIT};

static void ask_once(void)
{
    const ls_library_version list[COUNT] = {
        {"oneDNN", ls_kernel_library_version()},
        {"hwloc", ls_machine_hwloc_version()},
        {"SQLite", sqlite3_libversion()},
        {"jansson", jansson_version_str()},
        {"xxHash", ls_digest_version(asked.hash_version)},
        {"libfyaml", fy_library_version()},
        {"zlib", zlibVersion()},
    };
    for (size_t i = 0; i < COUNT; i++)
        asked.list[i] = list[i];
}

const ls_library_version *ls_libraries(size_t *count)
{
    pthread_once(&asked.once, ask_once);
    *count = COUNT;
    return asked.list;
}
