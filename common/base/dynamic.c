/* SPDX-License-Identifier: MIT */
/* Libraries loaded at run time, through dlopen; see dynamic.h. */
#include "common/base/dynamic.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WHY = 256 };

static void *open_file(const char *file, char why[WHY])
{
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const char *error = handle ? NULL : dlerror();
    snprintf(why, WHY, "%s", error ? error : "");
    return handle;
}

/* The library's path in `folder`; false if it is not there. */
static bool path_in_folder(const ls_dynamic *library, char path[PATH_MAX])
{
    return *library->folder &&
           snprintf(path, PATH_MAX, "%s/%s", library->folder, library->file) < PATH_MAX &&
           access(path, F_OK) == 0;
}

/* The system's message contains a path if it found a file, otherwise only the name requested. */
static bool not_found(const ls_dynamic *library, const char *why)
{
    const size_t length = strlen(library->file);
    return strncmp(why, library->file, length) == 0 && why[length] == ':';
}

static ls_status find_functions(const ls_dynamic *library, void *handle, void *functions)
{
    void **slot = functions;
    for (size_t i = 0; library->symbols[i]; i++) {
        void *function = dlsym(handle, library->symbols[i]);
        if (!function)
            return ls_fail(
                LS_CODE_MISSING, library->name, library->file,
                "this library is too old or incomplete: it does not have the function %s; %s",
                library->symbols[i], library->remedy);
        memcpy(&slot[i], &function, sizeof function);
    }
    return LS_OK;
}

ls_status ls_dynamic_load(const ls_dynamic *library, void *functions, void **out)
{
    char why[WHY];
    /* A library that is found but broken is an error: no other one is tried. */
    char path[PATH_MAX];
    void *handle = open_file(library->file, why);
    if (!handle && not_found(library, why) && path_in_folder(library, path))
        handle = open_file(path, why);
    if (!handle)
        return ls_fail(LS_CODE_MISSING, library->name, library->file, "cannot be loaded (%s); %s",
                       why, library->remedy);
    ls_status status = find_functions(library, handle, functions);
    const int major = status ? 0 : library->find_major(functions);
    if (!status && major != library->major)
        status = ls_fail(LS_CODE_MISSING, library->name, library->file,
                         "this library has version %d, but this build is for version %d; %s", major,
                         library->major, library->remedy);
    if (status) {
        ls_dynamic_unload(handle);
        return status;
    }
    *out = handle;
    return LS_OK;
}

bool ls_dynamic_absent(const ls_dynamic *library)
{
    char why[WHY], path[PATH_MAX];
    void *handle = open_file(library->file, why);
    ls_dynamic_unload(handle);
    return !handle && not_found(library, why) && !path_in_folder(library, path);
}

void ls_dynamic_unload(void *handle)
{
    if (handle)
        dlclose(handle);
}
