/* SPDX-License-Identifier: MIT */
/* Which options the cases of a command were given several values of; see command.h. */
#include "bench/commands/command.h"

#include "bench/cli/experiment.h"
#include "bench/cli/option_table.h"

#include <jansson.h>

/* Adds the fields of `case` of options with more than `most` values. */
static void add(json_t *out, const ls_option_set *set, size_t most)
{
    size_t count;
    const ls_option *table = ls_option_table(&count);
    for (size_t i = 0; i < count && set && set->given; i++) {
        char field[64];
        if (set->given[i].count > most)
            json_object_set_new(out, ls_declared_field(table[i].name, field), json_true());
    }
}

json_t *ls_swept_options(const ls_request *request)
{
    json_t *out = json_object();
    add(out, request->given, 1);
    for (size_t i = 0; request->plan && i < request->plan->cases.count; i++)
        add(out, &request->plan->cases.items[i].set, 0);
    return out;
}
