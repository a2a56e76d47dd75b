/* SPDX-License-Identifier: MIT */
/* Status: a heap-allocated code and line of text; see status.h. */
#include "common/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ls_failure {
    ls_code code;
    bool is_static;
    char text[];
};

/* What is left to say when there is no memory to say more. Never written to. */
static struct {
    struct ls_failure head;
    char text[64];
} const out_of_memory = {{LS_CODE_MISSING, true}, "memory: out of memory while reporting a failure"};

static ls_status static_failure(void)
{
    return (ls_status)(void *)(size_t)&out_of_memory.head;
}

ls_status ls_fail(ls_code code, const char *what, const char *where, const char *why, ...)
{
    va_list arguments;
    va_start(arguments, why);
    va_list again;
    va_copy(again, arguments);
    int why_length = vsnprintf(NULL, 0, why, arguments);
    va_end(arguments);
    size_t size = (what ? strlen(what) + 2 : 0) + (where ? strlen(where) + 2 : 0) +
                  (size_t)(why_length > 0 ? why_length : 0) + 1;
    struct ls_failure *failure = malloc(sizeof *failure + size);
    if (!failure) {
        va_end(again);
        return static_failure();
    }
    failure->code = code;
    failure->is_static = false;
    int used = snprintf(failure->text, size, "%s%s%s%s", what ? what : "", what ? ": " : "",
                        where ? where : "", where ? ": " : "");
    vsnprintf(failure->text + used, size - (size_t)used, why, again);
    va_end(again);
    for (char *c = failure->text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    return failure;
}

ls_status ls_fail_memory(const char *where, size_t bytes)
{
    return ls_fail(LS_CODE_MISSING, "memory", where,
                   "%zu bytes could not be allocated; a smaller model or batch needs less", bytes);
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
    if (status && !status->is_static)
        free(status);
}

ls_status ls_status_first(ls_status first, ls_status second)
{
    if (first)
        ls_status_free(second);
    return first ? first : second;
}
