/* SPDX-License-Identifier: MIT */
/*
 * Cores that threads share. A core runs one activity at a time. What becomes ready meanwhile waits
 * until the running thread has nothing more to do, or until a turn is over, which is how long the
 * system lets a thread run while another one waits; then they take turns. A thread whose next
 * activity is ready when one ends goes on. Plain functions, for C and C++: the engine looks at a
 * core at ls_core_next.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { LS_CORE_IDLE = UINT32_MAX }; /**< no activity */

#define LS_CORE_NEVER 1e300 /* ns */

typedef struct ls_core {
    uint32_t running;     /**< LS_CORE_IDLE: none */
    uint32_t first, last; /**< activities that wait, in order; LS_CORE_IDLE: none */
    uint32_t looks;       /**< changes so far: an older ls_core_next is void */
    double since_ns;      /**< from when on it runs */
    double switch_ns;     /**< when its turn is over; LS_CORE_NEVER: none waits */
    double freed_ns;      /**< when its latest activity ended */
} ls_core;

/** What is left of an activity. */
typedef struct ls_core_work {
    double left_ns;
    uint32_t next; /**< that waits for the same core */
} ls_core_work;

#define LS_CORE_FREE                                                                               \
    {                                                                                              \
        LS_CORE_IDLE, LS_CORE_IDLE, LS_CORE_IDLE, 0, 0, LS_CORE_NEVER, -1                          \
    }

/** The core of a device: devices of a host take the cores in turn, as in machine.h. */
static inline size_t ls_core_of(int device, int devices_per_host, int cores)
{
    return (size_t)(device / devices_per_host) * (size_t)cores +
           (size_t)(device % devices_per_host % cores);
}

static inline void ls_core_append(ls_core *core, ls_core_work *works, uint32_t number)
{
    works[number].next = LS_CORE_IDLE;
    if (core->first == LS_CORE_IDLE)
        core->first = number;
    else
        works[core->last].next = number;
    core->last = number;
}

/** Runs what has waited longest, if nothing runs. */
static inline void ls_core_dispatch(ls_core *core, const ls_core_work *works, double turn_ns,
                                    double ns)
{
    core->looks++;
    if (core->running != LS_CORE_IDLE || core->first == LS_CORE_IDLE)
        return;
    core->running = core->first;
    core->first = works[core->first].next;
    core->since_ns = ns;
    core->switch_ns = core->first == LS_CORE_IDLE ? LS_CORE_NEVER : ns + turn_ns;
}

/** An activity is ready: it runs, or waits. */
static inline void ls_core_begin(ls_core *core, ls_core_work *works, uint32_t number,
                                 double work_ns, double turn_ns, double ns)
{
    const int idle = core->running == LS_CORE_IDLE;
    const int goes_on = idle && core->freed_ns >= ns && core->switch_ns > ns;
    core->looks++;
    works[number].left_ns = work_ns;
    if (idle && (goes_on || core->first == LS_CORE_IDLE)) {
        core->running = number;
        core->since_ns = ns;
        return;
    }
    if (core->first == LS_CORE_IDLE)
        core->switch_ns = ns + turn_ns;
    ls_core_append(core, works, number);
}

/** When to look at the core next; LS_CORE_NEVER: not before something begins there. */
static inline double ls_core_next(const ls_core *core, const ls_core_work *works)
{
    if (core->running == LS_CORE_IDLE)
        return LS_CORE_NEVER;
    const double end_ns = core->since_ns + works[core->running].left_ns;
    return end_ns < core->switch_ns ? end_ns : core->switch_ns;
}

/** At ls_core_next: the activity that has ended, after whose followers ls_core_dispatch is called;
 * LS_CORE_IDLE: none has, the next one has its turn. */
static inline uint32_t ls_core_look(ls_core *core, ls_core_work *works, double turn_ns, double ns)
{
    const uint32_t ran = core->running;
    const int ended = core->since_ns + works[ran].left_ns <= ns;
    core->running = LS_CORE_IDLE;
    if (ended) {
        core->looks++;
        core->freed_ns = ns;
        return ran;
    }
    works[ran].left_ns -= ns - core->since_ns;
    ls_core_append(core, works, ran);
    ls_core_dispatch(core, works, turn_ns, ns);
    return LS_CORE_IDLE;
}
