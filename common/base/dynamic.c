/* SPDX-License-Identifier: MIT */
/* Libraries loaded at run time, through dlopen; see dynamic.h. */
#include "common/base/dynamic.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static void *open_library(const ls_dynamic *library, char why[256])
{
    enum { FLAGS = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE };
    void *handle = dlopen(library->file, FLAGS);
    const char *error = handle ? NULL : dlerror();
    snprintf(why, 256, "%s", error ? error : "");
    if (handle || !*library->folder)
        return handle;
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", library->folder, library->file) < (int)sizeof path)
        handle = dlopen(path, FLAGS);
    return handle;
}

static ls_status find_functions(const ls_dynamic *library, void *handle, void *functions)
{
    void **place = functions;
    for (size_t i = 0; library->symbols[i]; i++) {
        void *function = dlsym(handle, library->symbols[i]);
        if (!function)
            return ls_fail(LS_CODE_MISSING, library->name, library->file, "has no %s; %s",
                           library->symbols[i], library->remedy);
        memcpy(&place[i], &function, sizeof function);
    }
    return LS_OK;
}

ls_status ls_dynamic_load(const ls_dynamic *library, void *functions, void **out)
{
    char why[256];
    void *handle = open_library(library, why);
    if (!handle)
        return ls_fail(LS_CODE_MISSING, library->name, library->file, "cannot be loaded (%s); %s",
                       why, library->remedy);
    ls_status status = find_functions(library, handle, functions);
    const int major = status ? 0 : library->find_major(functions);
    if (!status && major != library->major)
        status = ls_fail(LS_CODE_MISSING, library->name, library->file,
                         "has version %d, this build is for version %d; %s", major, library->major,
                         library->remedy);
    if (status) {
        ls_dynamic_unload(handle);
        return status;
    }
    *out = handle;
    return LS_OK;
}

void ls_dynamic_unload(void *handle)
{
    if (handle)
        dlclose(handle);
}
