/* SPDX-License-Identifier: MIT */
/* The table of fields as arrays, and look-ups by path; see fields.h. */
#include "bench/rows/fields.h"

#include <jansson.h>
#include <string.h>
#include <threads.h>

/* Names as the tables write them; F1 to F4 complete a type's. */
enum { OPTIMIZER = LS_CELL_OPTIMIZER, DEVICES = LS_CELL_DEVICES };
enum { FIGURE = LS_CELL_FIGURE, RATIO = LS_CELL_RATIO, PERCENT = LS_CELL_PERCENT };
enum { WHOLE = LS_CELL_WHOLE, SHARE = LS_CELL_SHARE, BYTES = LS_CELL_BYTES };
enum { HALF = LS_CELL_HALF, GATE = LS_CELL_GATE, STATUS = LS_CELL_STATUS };
enum { CASE = LS_IS_CASE, BUT_BLOCKS = LS_BUT_BLOCKS, BUT_STEPS = LS_BUT_STEPS };
enum { BUT_REPEATS = LS_BUT_REPEATS, OR_ABSENT = LS_OR_ABSENT, OF_CLASS = LS_OF_CLASS };
enum { OF_SHARE = LS_OF_SHARE, OF_HOST = LS_OF_HOST, OF_SETUP = LS_OF_SETUP };
enum { OF_COMMIT = LS_OF_COMMIT, OF_BUILD = LS_OF_BUILD, OF_SYSTEM = LS_OF_SYSTEM };
enum { OF_LABEL = LS_OF_LABEL, LESS = LS_WORSE_LESS };
enum { CONCAT = LS_JOIN_CONCAT, MAX = LS_JOIN_MAX, SUM = LS_JOIN_SUM, NAMED = LS_JOIN_NAMED };
enum { DIFF = LS_SHOWN_DIFF, DERIVED = LS_SHOWN_DERIVED, KEPT = LS_SHOWN_KEPT };
enum { BY_PATH = LS_SHOWN_BY_PATH };
enum { EACH = LS_GROUP_EACH, FULLEST = LS_GROUP_FULLEST, DECLARED = LS_GROUP_DECLARED };
enum { FOREIGN = LS_GROUP_FOREIGN };
#define AT(place)   (place)
#define LAST(place) (LS_SHOWN_LAST | (place))

const ls_field ls_fields[LS_FIELDS] = {
#define F1(a, kind, ...)       {.path = #a, .type = LS_TYPE_##kind, __VA_ARGS__},
#define F2(a, b, kind, ...)    {.path = #a "." #b, .type = LS_TYPE_##kind, __VA_ARGS__},
#define F3(a, b, c, kind, ...) {.path = #a "." #b "." #c, .type = LS_TYPE_##kind, __VA_ARGS__},
#define F4(a, b, c, d, kind, ...)                                                                  \
    {.path = #a "." #b "." #c "." #d, .type = LS_TYPE_##kind, __VA_ARGS__},
#include "bench/rows/fields.def"
};

const ls_field_group ls_field_groups[] = {
#define G1(a, ...)       {.path = #a, __VA_ARGS__},
#define G2(a, b, ...)    {.path = #a "." #b, __VA_ARGS__},
#define G3(a, b, c, ...) {.path = #a "." #b "." #c, __VA_ARGS__},
#include "bench/rows/groups.def"
};

const size_t ls_field_group_count = sizeof ls_field_groups / sizeof *ls_field_groups;

/* ---- Look-ups ------------------------------------------------------------------------------- */

/* {path: number} of all fields: made before the first look-up, and never changed. */
static json_t *numbers;
static once_flag numbered = ONCE_FLAG_INIT;

static void number_fields(void)
{
    numbers = json_object();
    for (json_int_t i = 0; i < LS_FIELDS; i++)
        json_object_set_new_nocheck(numbers, ls_fields[i].path, json_integer(i));
}

const ls_field *ls_field_find(const char *path)
{
    call_once(&numbered, number_fields);
    const json_t *number = json_object_get(numbers, path);
    return number ? &ls_fields[json_integer_value(number)] : NULL;
}

const ls_field_group *ls_field_group_of(const char *path, unsigned flag)
{
    for (size_t i = 0; i < ls_field_group_count; i++) {
        const ls_field_group *group = &ls_field_groups[i];
        const size_t length = strlen(group->path);
        if (group->flags & flag && strncmp(path, group->path, length) == 0 && path[length] == '.')
            return group;
    }
    return NULL;
}

const ls_field_group *ls_field_group_find(const char *path)
{
    for (size_t i = 0; i < ls_field_group_count; i++)
        if (strcmp(ls_field_groups[i].path, path) == 0)
            return &ls_field_groups[i];
    return NULL;
}
