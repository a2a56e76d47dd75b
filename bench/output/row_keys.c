/* SPDX-License-Identifier: MIT */
/*
 * Keys; see row_keys.h. One pass over all paths: a whole path wins; else those whose last part is
 * the name are counted and listed. For an unknown name the candidates are the paths that contain
 * it, or its last part, or begin as it does; with none of these, some that people ask for.
 */
#include "bench/output/row_keys.h"

#include "bench/output/format_parts.h"

#include <stdio.h>
#include <string.h>

enum { LISTED = 8, LIST_SIZE = 512 };

/* What the paths are compared with, and what was found. */
typedef struct key_search {
    const char *name;
    bool whole;
    size_t ends;              /* paths that end in the name */
    size_t ending, near_ones; /* how many are in the lists */
    ls_row_key found;
    char ending_list[LIST_SIZE], near_list[LIST_SIZE];
} key_search;

static void list(char text[LIST_SIZE], size_t *count, const char *path)
{
    const size_t used = strlen(text);
    if (*count < LISTED)
        snprintf(text + used, LIST_SIZE - used, "%s%s", used ? ", " : "", path);
    if (*count == LISTED)
        snprintf(text + used, LIST_SIZE - used, ", ...");
    (*count)++;
}

/* How much of two names is alike from their beginnings. */
static size_t common_start(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n])
        n++;
    return n;
}

static const char *last_part(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

static void compare(void *context, const char *path)
{
    key_search *search = context;
    const char *last = last_part(path);
    if (search->whole)
        return;
    if (strcmp(path, search->name) == 0) {
        search->whole = true;
        snprintf(search->found.path, sizeof search->found.path, "%s", path);
    } else if (strcmp(last, search->name) == 0 && strncmp(path, "train.target.", 13) != 0) {
        if (search->ends++ == 0)
            snprintf(search->found.path, sizeof search->found.path, "%s", path);
        list(search->ending_list, &search->ending, path);
    } else if (*search->name) {
        const char *mine = last_part(search->name);
        const size_t start = common_start(last, mine);
        if ((*mine && strstr(path, mine)) || (start >= 3 && start + 3 >= strlen(mine)))
            list(search->near_list, &search->near_ones, path);
    }
}

ls_status ls_row_key_find(const char *option, const char *name, size_t length, ls_row_key *out)
{
    char text[LS_ROW_PATH_SIZE];
    key_search search = {.name = text};
    snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text), name);
    ls_row_paths(compare, &search);
    if (search.whole || search.ends == 1) {
        *out = search.found;
        return LS_OK;
    }
    if (search.ends > 1)
        return ls_fail(LS_CODE_USAGE, option, text,
                       "is the last part of several keys; give one of %s", search.ending_list);
    return ls_fail(LS_CODE_USAGE, option, *text ? text : "''", "unknown key; %s%s",
                   search.near_ones ? "near are: "
                                    : "valid are the columns of --format csv, such as ",
                   search.near_ones ? search.near_list
                                    : "case.model, case.strategy, case.devices, "
                                      "time.step_ms.median, time.samples_per_s, result.status, "
                                      "label, provenance.commit");
}
