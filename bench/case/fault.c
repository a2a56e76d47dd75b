/* SPDX-License-Identifier: MIT */
/* Faults of a rank on purpose; see fault.h. */
#include "bench/case/fault.h"

#include "common/base/numbers.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {
    [LS_FAULT_KILL] = "kill",
    [LS_FAULT_STOP] = "stop",
    [LS_FAULT_EXIT] = "exit",
    [LS_FAULT_HANG] = "hang",
};

bool ls_fault_parse(const char *text, ls_fault *out)
{
    const size_t length = strcspn(text, "=");
    char rank[16];
    int64_t number;
    for (int kind = LS_FAULT_KILL; kind <= LS_FAULT_HANG; kind++) {
        if (strlen(names[kind]) != length || strncmp(text, names[kind], length) != 0)
            continue;
        const char *value = text + length + (text[length] == '=');
        const size_t digits = strcspn(value, ":");
        if (value[digits] != ':' || digits >= sizeof rank)
            return false;
        memcpy(rank, value, digits);
        rank[digits] = 0;
        if (!ls_parse_integer(rank, 0, 1023, &number) ||
            !ls_parse_integer(value + digits + 1, 0, INT32_MAX, &out->step))
            return false;
        out->kind = (ls_fault_kind)kind;
        out->rank = (int)number;
        return true;
    }
    return false;
}

char *ls_fault_text(const ls_fault *fault, char *text, size_t size)
{
    snprintf(text, size, "%s=%d:%lld", names[fault->kind], fault->rank, (long long)fault->step);
    return text;
}

void ls_fault_strike(ls_fault_kind kind)
{
    if (kind == LS_FAULT_KILL)
        raise(SIGKILL);
    if (kind == LS_FAULT_STOP)
        raise(SIGSTOP);
    if (kind == LS_FAULT_EXIT)
        _exit(0);
    while (kind == LS_FAULT_HANG)
        pause();
}
