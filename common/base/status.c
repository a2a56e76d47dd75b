/* SPDX-License-Identifier: MIT */
/* Status: a heap-allocated code and line of text; see status.h. */
#include "common/base/status.h"

#include "common/base/escape.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ls_failure {
    ls_code code;
    bool follows;     /* from another failure */
    bool final;       /* the resource is lost for good */
    const char *text; /* after the struct, in the same allocation */
};

/* The failure that is reported if there is no memory for another. */
static const struct ls_failure out_of_memory = {LS_CODE_MISSING, false, false,
                                                "memory: out of memory while reporting a failure"};

ls_status ls_fail(ls_code code, const char *what, const char *where, const char *why, ...)
{
    va_list arguments;
    va_start(arguments, why);
    va_list again;
    va_copy(again, arguments);
    int why_length = vsnprintf(NULL, 0, why, arguments);
    va_end(arguments);
    const size_t size = (what ? strlen(what) + 2 : 0) + (where ? strlen(where) + 2 : 0) +
                        (size_t)(why_length > 0 ? why_length : 0) + 1;
    const size_t shown = 4 * size; /* bytes of the longest escape of one */
    struct ls_failure *failure = malloc(sizeof *failure + shown);
    char *text = malloc(size);
    if (failure && text) {
        const int used = snprintf(text, size, "%s%s%s%s", what ? what : "", what ? ": " : "",
                                  where ? where : "", where ? ": " : "");
        vsnprintf(text + used, size - (size_t)used, why, again);
        failure->code = code;
        failure->follows = failure->final = false;
        failure->text = ls_escape_copy((char *)(failure + 1), shown, text, LS_ESCAPE_LINE);
    } else {
        free(failure);
        failure = NULL;
    }
    va_end(again);
    free(text);
    return failure ? failure : &out_of_memory;
}

ls_status ls_fail_memory(const char *where, size_t bytes)
{
    if (bytes == SIZE_MAX)
        return ls_fail(
            LS_CODE_MISSING, "memory", where,
            "more memory would be needed than a size can express; use a smaller data set or model");
    return ls_fail(LS_CODE_MISSING, "memory", where,
                   "%zu bytes could not be allocated; use a smaller model, batch or data set, or "
                   "free memory on this host",
                   bytes);
}

ls_code ls_status_code(ls_status status)
{
    return status ? status->code : LS_CODE_OK;
}

const char *ls_status_text(ls_status status)
{
    return status ? status->text : "ok";
}

void ls_status_free(ls_status status)
{
    if (status != &out_of_memory)
        free((void *)status);
}

ls_status ls_status_follows(ls_status status)
{
    if (status && status != &out_of_memory)
        ((struct ls_failure *)status)->follows = true;
    return status;
}

ls_status ls_status_final(ls_status status)
{
    if (status && status != &out_of_memory)
        ((struct ls_failure *)status)->final = true;
    return status;
}

ls_status ls_status_within(const char *what, const char *where, ls_status status)
{
    if (!status)
        return LS_OK;
    ls_status outer = ls_fail(status->code, what, where, "%s", status->text);
    if (status->follows)
        outer = ls_status_follows(outer);
    if (status->final)
        outer = ls_status_final(outer);
    ls_status_free(status);
    return outer;
}

ls_status ls_status_first(ls_status first, ls_status second)
{
    const bool swapped = !first || (first->follows && second && !second->follows);
    ls_status kept = swapped ? second : first, other = swapped ? first : second;
    if (ls_status_is_final(other))
        kept = ls_status_final(kept);
    ls_status_free(other);
    return kept;
}

bool ls_status_is_final(ls_status status)
{
    return status && status->final;
}

bool ls_status_is_consequence(ls_status status)
{
    return status && status->follows;
}
