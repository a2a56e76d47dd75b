/* SPDX-License-Identifier: MIT */
/* List: `lockstep list [KIND]`, and names for errors; see list.h. */
#include "bench/cli/list.h"

#include "bench/cli/option.h"

#include <string.h>

static void print_section(FILE *stream, const ls_list_section *section)
{
    fprintf(stream, "%s\n", section->title);
    for (size_t i = 0; i < ls_registry_count(section->registry); i++)
        fprintf(stream, "  %-18s %s\n", ls_registry_name(section->registry, i),
                ls_registry_help(section->registry, i));
}

static const char *section_title(size_t index, const void *context)
{
    return ((const ls_list_section *)context)[index].title;
}

static const char *section_name(size_t index, const void *context)
{
    return ls_registry_name(context, index);
}

const char *ls_list_nearest(const ls_list_section *section, const char *text)
{
    return ls_nearest_name(text, section_name, ls_registry_count(section->registry),
                           section->registry);
}

static ls_status refuse_kind(const ls_list_section *sections, size_t count, const char *kind)
{
    char titles[512] = "", hint[96] = "";
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof titles; i++)
        used += (size_t)snprintf(titles + used, sizeof titles - used, "%s%s", i ? ", " : "",
                                 sections[i].title);
    const char *nearest = ls_nearest_name(kind, section_title, count, sections);
    if (nearest)
        snprintf(hint, sizeof hint, "did you mean '%s'? ", nearest);
    return ls_fail(LS_CODE_USAGE, "list", kind, "nothing is listed under this; %svalid are: %s",
                   hint, titles);
}

ls_status ls_list_print(FILE *stream, const ls_list_section *sections, size_t count,
                        const char *kind)
{
    for (size_t i = 0; kind && i < count; i++) {
        if (strcmp(sections[i].title, kind) == 0) {
            print_section(stream, &sections[i]);
            return LS_OK;
        }
    }
    if (kind)
        return refuse_kind(sections, count, kind);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            fputc('\n', stream);
        print_section(stream, &sections[i]);
    }
    return LS_OK;
}
