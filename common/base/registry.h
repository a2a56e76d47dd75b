/* SPDX-License-Identifier: MIT */
/*
 * Registry: a table of named things (models, strategies, all-reduces ..). It feeds the lookup by
 * name, the errors that list what is valid, `lockstep list`, and the tests that run over every
 * entry.
 */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>

/** A table of named things. */
typedef struct ls_registry {
    const char *kind; /**< what an entry is: "strategy" */
    /** NULL-terminated. Every entry begins with two `const char *`: its name, and a line of help.
     */
    const void *const *entries;
} ls_registry;

/** Name of entry `index`, below the count. */
const char *ls_registry_name(const ls_registry *registry, size_t index);
/** Its line of help. */
const char *ls_registry_help(const ls_registry *registry, size_t index);

/** How many entries there are. */
size_t ls_registry_count(const ls_registry *registry);

/** The entry whose name is the first `length` characters of `text`; NULL where there is none. */
const void *ls_registry_find(const ls_registry *registry, const char *text, size_t length);

/** "single, towers": the names, cut at `size`. Returns `text`. */
char *ls_registry_names(const ls_registry *registry, char *text, size_t size);

/** Whether the names, NULL-terminated, have this one. */
bool ls_name_is_among(const char *name, const char *const *names);

/** LS_CODE_USAGE with the valid names. */
ls_status ls_registry_refuse(const ls_registry *registry, const char *text);
