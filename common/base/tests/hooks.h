/* SPDX-License-Identifier: MIT */
/*
 * Hooks: faults that tests plant in a program built with LOCKSTEP_HOOKS, to check that its checks
 * detect them. Sources do not call them: their copies do, as impl/tests/hooks.txt says. Environment
 * variables, read once, switch them on:
 *     LOCKSTEP_PLANT=BUG           plants a bug of hooks.txt
 *     LOCKSTEP_EDIT=KIND:NUMBER    edits a task or a wait of the step (impl/tests/step_edits.c)
 *     LOCKSTEP_FUZZ=SEED           threads pause at random before queue, event and rank operations
 *     LOCKSTEP_FAIL=DEVICE:STEP[:OPERATION][!], or open:NUMBER
 *     LOCKSTEP_SLOW=NAME:TIME      operations whose names begin with NAME take longer
 * LOCKSTEP_FAIL makes an operation on a device's queue fail: operation OPERATION of step STEP, both
 * counted from 0 since the queue was opened, or the last one if the step has fewer. With `!` the
 * device is lost afterwards. open:NUMBER makes the opening of session NUMBER fail, counting
 * sessions that train from 0.
 */
#pragma once

#include "common/base/status.h"
#include "planted.h"

#include <stdint.h>

#define LS_PLANT_NUMBER(name) LS_PLANT_##name,
enum { LS_PLANTED_BUGS(LS_PLANT_NUMBER) LS_PLANTS };

/** Whether this bug is planted. */
bool ls_hooks_planted(int bug);

/** The edit that LOCKSTEP_EDIT asks for, or NULL. */
const char *ls_hooks_edit(void);

/** Whether steps that are built now are edited. ls_hooks_spare(true) switches that off while the
 * gate's judges are opened, whose steps stay as they are. */
bool ls_hooks_edits(void);
void ls_hooks_spare(bool on);

/** LS_CODE_USAGE where one of these variables has an invalid value. */
ls_status ls_hooks_check(void);

/** Names a queue's thread, so that its pauses are the same in every run with a seed, and counts its
 * steps and operations from 0. */
void ls_hooks_thread(void);

/** Pauses the calling thread at random, mostly not. */
void ls_hooks_pause(void);

/** Until when an operation of this name that begins now is to sleep; 0: it is not to be slow. */
uint64_t ls_hooks_slow(const char *operation);

/** The failure to inject into the thread's next operation, or LS_OK. `last`: the last of a step. */
ls_status ls_hooks_fail(const char *device, bool last);

/** The failure to inject into the session that is being opened to train, or LS_OK. */
ls_status ls_hooks_open(void);
