/* SPDX-License-Identifier: MIT */
/* Registries; see registry.h. */
#include "common/base/registry.h"

#include <stdio.h>
#include <string.h>

const char *ls_registry_name(const ls_registry *registry, size_t index)
{
    return ((const char *const *)registry->entries[index])[0];
}

const char *ls_registry_help(const ls_registry *registry, size_t index)
{
    return ((const char *const *)registry->entries[index])[1];
}

size_t ls_registry_count(const ls_registry *registry)
{
    size_t count = 0;
    while (registry->entries[count])
        count++;
    return count;
}

const void *ls_registry_find(const ls_registry *registry, const char *text, size_t length)
{
    for (size_t i = 0; registry->entries[i]; i++) {
        const char *name = ls_registry_name(registry, i);
        if (strlen(name) == length && strncmp(name, text, length) == 0)
            return registry->entries[i];
    }
    return NULL;
}

char *ls_registry_names(const ls_registry *registry, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; registry->entries[i] && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "",
                                 ls_registry_name(registry, i));
    return text;
}

bool ls_name_is_among(const char *name, const char *const *names)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names;
}

ls_status ls_registry_refuse(const ls_registry *registry, const char *text)
{
    char names[512];
    return ls_fail(LS_CODE_USAGE, registry->kind, text, "unknown name; valid are: %s",
                   ls_registry_names(registry, names, sizeof names));
}
