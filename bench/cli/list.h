/* SPDX-License-Identifier: MIT */
/*
 * List: what can be named on the command line, a section for each registry. The same sections
 * feed `lockstep list` and the errors that list valid names.
 */
#pragma once

#include "common/base/registry.h"

#include <stddef.h>
#include <stdio.h>

/** A registry under the title that it is listed by. */
typedef struct ls_list_section {
    const char *title; /**< "models" */
    const ls_registry *registry;
} ls_list_section;

/** All sections, in the order in which they are printed. Supplied by registries.c. */
const ls_list_section *ls_list_sections(size_t *count);

/** Prints one section (`kind`, its title) or all of them (NULL). LS_CODE_USAGE lists the titles. */
ls_status ls_list_print(FILE *stream, const ls_list_section *sections, size_t count,
                        const char *kind);

/** The name nearest to a mistyped one; NULL where none is near. */
const char *ls_list_nearest(const ls_list_section *section, const char *text);
