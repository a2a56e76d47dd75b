/* SPDX-License-Identifier: MIT */
/* Planted faults; see fault.h. */
#include "bench/case/fault.h"

#include "common/base/escape.h"
#include "common/base/numbers.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {
    [LS_FAULT_KILL] = "kill", [LS_FAULT_STOP] = "stop",   [LS_FAULT_EXIT] = "exit",
    [LS_FAULT_HANG] = "hang", [LS_FAULT_DELAY] = "delay", [LS_FAULT_BITFLIP] = "bitflip",
};
static const uint64_t longest_ns = 10000000000;

const char *ls_fault_target(const char *text, const char *name, int *target)
{
    char digits[16];
    int64_t number;
    const size_t length = strlen(name);
    if (strncmp(text, name, length) != 0 || text[length] != '=')
        return NULL;
    const char *value = text + length + 1, *rest = strchr(value, ':');
    if (!rest || (size_t)(rest - value) >= sizeof digits)
        return NULL;
    snprintf(digits, sizeof digits, "%.*s", (int)(rest - value), value);
    if (!ls_parse_integer(digits, 0, 4095, &number))
        return NULL;
    *target = (int)number;
    return rest + 1;
}

bool ls_fault_parse(const char *text, ls_fault *out)
{
    for (int kind = LS_FAULT_KILL; kind <= LS_FAULT_BITFLIP; kind++) {
        const char *rest = ls_fault_target(text, names[kind], &out->target);
        if (!rest)
            continue;
        out->kind = (ls_fault_kind)kind;
        if (kind == LS_FAULT_DELAY)
            return ls_parse_duration(rest, &out->delay_ns) && out->delay_ns &&
                   out->delay_ns <= longest_ns;
        return ls_parse_integer(rest, 0, INT32_MAX, &out->step);
    }
    return false;
}

char *ls_fault_text(const ls_fault *fault, char *text, size_t size)
{
    snprintf(text, size, "%s=%d:", names[fault->kind], fault->target);
    return fault->kind == LS_FAULT_DELAY
               ? ls_text_add(text, size, "%gms", (double)fault->delay_ns * 1e-6)
               : ls_text_add(text, size, "%lld", (long long)fault->step);
}

bool ls_fault_strikes(const ls_fault *fault)
{
    return fault->kind >= LS_FAULT_KILL && fault->kind <= LS_FAULT_HANG;
}

void ls_fault_perform(ls_fault_kind kind)
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
