/* SPDX-License-Identifier: MIT */
/*
 * Hooks: switches from the environment; see hooks.h. What is read, once, is the library's only
 * mutable state outside its objects, and exists only with LOCKSTEP_HOOKS. Pauses are Philox numbers
 * of (seed, thread, count). For each seed one thread in four is slow: it sleeps at every sixth
 * place, so that other threads overtake it wherever nothing but luck prevents that.
 */
#include "common/base/tests/hooks.h"

#include "common/base/clock.h"
#include "common/base/numbers.h"
#include "common/base/random/philox.h"
#include "common/base/signal.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUG_NAME(name) #name,
static const char *const names[] = {LS_PLANTED_BUGS(BUG_NAME) NULL};

static struct {
    pthread_once_t once;
    int plant; /* -1: none */
    bool fuzz, fail, final, spares;
    const char *edit;
    uint64_t seed;
    char device[32];
    int64_t step, operation;
    int opening; /* -1: none */
    char slow[32];
    uint64_t slow_ns;
    ls_status refused;
} hooks = {.once = PTHREAD_ONCE_INIT, .plant = -1, .opening = -1};

static _Atomic uint64_t threads;
static atomic_int openings;
static _Thread_local uint64_t thread, pauses;
static _Thread_local int64_t next_step, next_operation;

static ls_status read_plant(const char *text)
{
    char list[4096] = "";
    size_t used = 0;
    for (int i = 0; names[i] && used < sizeof list; i++) {
        if (strcmp(text, names[i]) == 0)
            hooks.plant = i;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
    }
    if (hooks.plant < 0)
        return ls_fail(LS_CODE_USAGE, "LOCKSTEP_PLANT", text, "no such bug; bugs are: %s", list);
    return LS_OK;
}

static ls_status read_fuzz(const char *text)
{
    int64_t seed;
    if (!ls_parse_integer(text, 0, INT64_MAX, &seed))
        return ls_fail(LS_CODE_USAGE, "LOCKSTEP_FUZZ", text, "is not a seed; give a number");
    hooks.seed = (uint64_t)seed;
    hooks.fuzz = true;
    return LS_OK;
}

static ls_status read_fail(const char *text)
{
    char kind[8];
    int device, length = 0;
    long long step, operation = 0;
    int fields = sscanf(text, "%7[a-z]:%d:%lld%n:%lld%n", kind, &device, &step, &length, &operation,
                        &length);
    if (fields == 2 && sscanf(text, "open:%d%n", &hooks.opening, &length) == 1 && !text[length])
        return LS_OK;
    hooks.final = fields >= 3 && strcmp(text + length, "!") == 0;
    if (fields < 3 || (text[length] && !hooks.final))
        return ls_fail(
            LS_CODE_USAGE, "LOCKSTEP_FAIL", text,
            "is not a place; give DEVICE:STEP[:OPERATION], such as cpu:1:20:3, or open:NUMBER");
    snprintf(hooks.device, sizeof hooks.device, "%s:%d", kind, device);
    hooks.step = step;
    hooks.operation = operation;
    hooks.fail = true;
    return LS_OK;
}

static ls_status read_edit(const char *text)
{
    static const char *const kinds[] = {"drop", "double",    "swap",
                                        "turn", "drop-wait", "drop-begin"};
    char kind[16] = "", end = 0;
    unsigned number;
    const int fields = sscanf(text, "%15[a-z-]:%u%c", kind, &number, &end);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kind, kinds[i]) == 0 && (fields == 2 || (fields == 3 && end == '?')))
            hooks.edit = text;
    if (!hooks.edit)
        return ls_fail(
            LS_CODE_USAGE, "LOCKSTEP_EDIT", text,
            "is not an edit; give drop:N, double:N, swap:N, turn:N, drop-wait:N or drop-begin:N, "
            "or one of these and a question mark");
    return LS_OK;
}

static ls_status read_slow(const char *text)
{
    const char *time = strchr(text, ':');
    if (!time || time == text || time - text >= (ptrdiff_t)sizeof hooks.slow ||
        !ls_parse_duration(time + 1, &hooks.slow_ns))
        return ls_fail(LS_CODE_USAGE, "LOCKSTEP_SLOW", text,
                       "is not an operation and a time; give NAME:TIME, such as gather:2ms");
    snprintf(hooks.slow, sizeof hooks.slow, "%.*s", (int)(time - text), text);
    return LS_OK;
}

static void read_environment(void)
{
    static const struct {
        const char *variable;
        ls_status (*read)(const char *text);
    } all[] = {{"LOCKSTEP_SLOW", read_slow},
               {"LOCKSTEP_EDIT", read_edit},
               {"LOCKSTEP_PLANT", read_plant},
               {"LOCKSTEP_FUZZ", read_fuzz},
               {"LOCKSTEP_FAIL", read_fail}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const char *text = getenv(all[i].variable);
        if (text && *text)
            hooks.refused = ls_status_first(hooks.refused, all[i].read(text));
    }
}

ls_status ls_hooks_check(void)
{
    pthread_once(&hooks.once, read_environment);
    ls_status refused = hooks.refused;
    hooks.refused = LS_OK;
    return refused;
}

const char *ls_hooks_edit(void)
{
    pthread_once(&hooks.once, read_environment);
    return hooks.edit;
}

bool ls_hooks_edits(void)
{
    return !hooks.spares;
}

void ls_hooks_spare(bool on)
{
    hooks.spares = on;
}

bool ls_hooks_planted(int bug)
{
    pthread_once(&hooks.once, read_environment);
    return hooks.plant == bug;
}

uint64_t ls_hooks_slow(const char *operation)
{
    const bool slow = *hooks.slow && strncmp(operation, hooks.slow, strlen(hooks.slow)) == 0;
    return slow ? ls_clock_ns() + hooks.slow_ns : 0;
}

void ls_hooks_thread(void)
{
    thread = atomic_fetch_add(&threads, 1) + 1; /* 0 is the host's thread */
    pauses = 0;
    next_step = next_operation = 0;
}

void ls_hooks_pause(void)
{
    pthread_once(&hooks.once, read_environment);
    if (!hooks.fuzz)
        return;
    const uint32_t bits = ls_random_bits((ls_random){hooks.seed, thread}, ++pauses);
    const bool slow = ls_random_bits((ls_random){hooks.seed, thread}, 0) % 4 == 0;
    const uint32_t kind = bits % 256, length = bits >> 8;
    if (kind == 0)
        ls_clock_sleep(length % 2000000); /* ns: up to 2 ms */
    else if (kind < (slow ? 40 : 8))
        ls_clock_sleep(1000 + length % 200000);
    else if (kind < 80)
        sched_yield();
    else if (kind < 112)
        for (uint32_t i = 0; i < length % 2000; i++)
            ls_cpu_relax();
}

ls_status ls_hooks_fail(const char *device, bool last)
{
    pthread_once(&hooks.once, read_environment);
    const int64_t step = next_step, operation = next_operation;
    next_step += last;
    next_operation = last ? 0 : operation + 1;
    if (!hooks.fail || step != hooks.step || strcmp(device, hooks.device) != 0 ||
        (operation != hooks.operation && !(last && operation < hooks.operation)))
        return LS_OK;
    ls_status status = ls_fail(LS_CODE_MISSING, "LOCKSTEP_FAIL", device,
                               "fails in step %lld as it was told; unset it", (long long)step);
    return hooks.final ? ls_status_final(status) : status;
}

ls_status ls_hooks_open(void)
{
    pthread_once(&hooks.once, read_environment);
    if (atomic_fetch_add(&openings, 1) != hooks.opening)
        return LS_OK;
    return ls_fail(LS_CODE_MISSING, "LOCKSTEP_FAIL", "open", "fails as it was told; unset it");
}
