/* SPDX-License-Identifier: MIT */
/* How often in a row a case could not be told: the JSON report of the comparison before, which CI
 * keeps, has the count. See regress.h. */
#include "bench/regress/regress.h"

#include "common/base/status.h"

#include <string.h>
#include <unistd.h>

/* The count of the case in the report before; 0 where it is not there. */
static json_int_t count_before(const json_t *before, const char *name)
{
    const json_t *cases = json_object_get(before, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i);
        const char *other = json_string_value(json_object_get(one, "name"));
        if (other && strcmp(other, name) == 0)
            return json_integer_value(json_object_get(one, "undecided"));
    }
    return 0;
}

ls_status ls_regress_count_undecided(const char *path, int64_t most, ls_regress *regress)
{
    json_error_t error;
    json_auto_t *before = json_load_file(path, 0, &error);
    const bool first = access(path, F_OK) != 0;
    if (!first && !json_is_array(json_object_get(before, "cases")))
        return ls_fail(LS_CODE_MISSING, "--fail-on undecided", path,
                       "is no report of a comparison: %s; delete it to count anew",
                       before ? "it has no cases" : error.text);
    for (size_t i = 0; i < regress->count; i++) {
        ls_regress_case *one = &regress->cases[i];
        if (one->result.verdict != LS_VERDICT_CANNOT_TELL || one->error)
            continue;
        const json_int_t were = count_before(before, one->name);
        one->undecided = were + 1;
        if (one->undecided >= most)
            json_array_append_new(one->worse,
                                  json_pack("{s:s,s:I,s:I,s:s}", "key", "undecided", "base", were,
                                            "new", one->undecided, "reason",
                                            "comparisons in a row that could not tell, which "
                                            "--fail-on undecided limits"));
    }
    return LS_OK;
}
