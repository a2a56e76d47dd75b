/* SPDX-License-Identifier: MIT */
/*
 * Run of steps: what is executed: queues, events, captured programs, counters, profile. It is made
 * from a plan (plan.h) with its resources, and from programs (program.h).
 */
#pragma once

#include "impl/replica/replicas.h"
#include "impl/step/program/names.h"
#include "impl/step/program/program.h"
#include "impl/step/resources.h"

#include <stdio.h>

/** The queue of a lane, and its times. */
typedef struct ls_lane_queue {
    ls_queue *queue;       /**< NULL if the member is in another process */
    bool own;              /**< opened for the lane; false if it is the member's compute queue */
    const bool *skip;      /**< the flag on which tasks enqueued now are skipped; NULL if none */
    ls_time_profile times; /**< while profiled */
    ls_time_log log;       /**< while profiled */
} ls_lane_queue;

/** What tasks become on devices. */
typedef struct ls_lowered {
    ls_event ***events;     /**< [kinds, tasks] recorded behind the task, for others' waits; NULL */
    ls_event **begun;       /**< [components] recorded by the driver at a step's beginning */
    ls_program ***captured; /**< [components, kinds] */
    ls_traffic *called;     /**< [kinds] counted by communicators when a step is enqueued */
} ls_lowered;

/** How far the run is. */
typedef struct ls_run_counts {
    uint64_t at;        /**< number of the next step to be enqueued */
    uint64_t *enqueued; /**< [kinds] number of steps enqueued so far */
    ls_traffic before;  /**< traffic counted by earlier runs that this one continues */
} ls_run_counts;

/** A program enqueued a number of times. */
typedef struct ls_enqueued {
    const ls_step_program *program;
    uint64_t times;
} ls_enqueued;

typedef struct ls_run_profile {
    uint64_t steps;    /**< for which the lanes' logs have memory; 0 means no logs */
    ls_enqueued *list; /**< [count] programs enqueued while profiled, in order */
    size_t count, room;
} ls_run_profile;

typedef struct ls_step_run {
    ls_run base;
    ls_run_functions functions; /**< the functions of `base` */
    ls_step_plan plan;
    ls_resources resources;
    int kinds;                  /**< of steps */
    ls_step_program *program;   /**< [kinds + LS_UNORDERED] */
    ls_step_program evaluation; /**< forward passes; empty until first used (run_evaluate.c) */
    ls_components components;
    ls_lane_queue *queues; /**< [plan.lanes.count] */
    ls_lowered lowered;
    ls_run_counts counts;
    ls_run_profile profile;
} ls_step_run;

extern const ls_run_functions ls_run_of_steps; /**< run_facts.c */
/** The functions of a run whose variables are LS_SERVED (impl/arrival/run.c). */
ls_run_functions ls_arrival_functions(const ls_job *job);

/** The run that a strategy was opened as. */
static inline ls_step_run *ls_step_run_of(const ls_run *run)
{
    return (ls_step_run *)run;
}

/** Entries of ls_run_of_steps. */
ls_status ls_steps_enqueue(ls_run *run, ls_batch_kind kind, uint64_t times);
ls_status ls_steps_sync(ls_run *run);
ls_status ls_steps_mark(ls_run *run);
ls_status ls_steps_profile(ls_run *run, uint64_t steps);
void ls_steps_close(ls_run *run);
ls_status ls_steps_records(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                           uint64_t *mark_ns);
ls_status ls_steps_times(const ls_run *run, size_t devices, const uint64_t *ends_ns, size_t steps,
                         ls_time_profile *out);
ls_status ls_steps_parts(const ls_run *run, size_t devices, uint64_t mark_ns, uint64_t end_ns,
                         ls_time_profile *out);
ls_status ls_steps_evaluate(ls_run *run, const ls_evaluating *how, ls_evaluation *out);
ls_status ls_steps_norm(const ls_run *run, double *out); /* run_measures.c */
ls_status ls_steps_rates(const ls_run *run, double range[2]);
ls_status ls_steps_exchanged(const ls_run *run, ls_exchanged *out);

/** What a process sends for each record: its members' last end, in ns from its mark; weight decay's
 * part of the loss, of the first copy of the model; then its members' own numbers. */
enum { LS_READ_END, LS_READ_DECAY, LS_READ_MEMBERS };

/** Records of steps, read by all processes for all (records.c). */
typedef struct ls_reading {
    const ls_step_run *run;
    uint64_t first, count; /**< of records */
    /** How many numbers a member has; may be 0. */
    size_t (*width)(const ls_step_run *run, int member);
    /** Whether a member's ends are ends of steps. NULL if all are. */
    bool (*ends)(const ls_step_run *run, int member);
    /** Sets a member's numbers (NULL if they are 0) for record k, which ended `end_ns` behind the
     * mark; adds to its process's. */
    ls_status (*read)(struct ls_reading *reading, int member, uint64_t k, double end_ns,
                      double *process, double *own);
    bool gpu;                /**< some member of this process is on a GPU */
    uint64_t mark_ns;        /**< latest mark of this process */
    size_t *at, each;        /**< [members] where each one's numbers are, of `each` */
    ls_step_record *records; /**< [count] of the current member */
    double *sent, *all;      /**< [count, each] sent, [processes, count, each] received */
} ls_reading;

/** The caller sets what is before `gpu`; all else is zero. Close it also on failure. */
ls_status ls_reading_open(ls_reading *reading);
void ls_reading_close(ls_reading *reading);
/** A member's numbers for record k; the latest end of all processes; the batch of its step. */
const double *ls_reading_of(const ls_reading *reading, int member, uint64_t k);
uint64_t ls_reading_end(const ls_reading *reading, uint64_t k);
int64_t ls_reading_batch(const ls_reading *reading, uint64_t k);

/** What this process's ends have sent so far. */
ls_traffic ls_steps_sent(const ls_step_run *run);
/** Sum of all processes' `traffic`. All processes call it. */
ls_status ls_steps_collect(const ls_job *job, ls_traffic traffic, ls_traffic *sum);
/** As ls_run_functions.traffic, but with the traffic of all steps, over all processes, that is due;
 * NULL means by the strategy's formula. */
ls_status ls_steps_traffic(const ls_run *run, const ls_traffic *due, ls_traffic *sent,
                           ls_traffic *formula);

/** run_values.c: a block of an array of the state, float32 [block.count]; without averages, of the
 * variables. All processes call it. */
ls_status ls_steps_gather(ls_step_run *run, ls_values values, ls_range block, float *out);

/** check.c: names of this process's memory, members and lanes. Close them also on failure. */
ls_status ls_steps_names(const ls_step_run *run, ls_names *out);
/** Checks what all operations and copies of `count` programs declare (ls_names_check_spans). */
ls_status ls_steps_check_spans(const ls_step_run *run, const ls_step_program *programs, int count);
/** The name of one member: its device, or rank and device in another process. */
void ls_steps_name_member(const ls_step_run *run, int member, ls_member_name *out);
/** Prints this process's part of the steps of each kind: a line for each task. */
ls_status ls_steps_list(const ls_run *run, FILE *out);
/** The race check: in this process's part of two consecutive steps, conflicting tasks are ordered,
 * and no operation is twice in a step. LS_CODE_CHECK names the tasks and the memory. */
ls_status ls_steps_check(const ls_run *run);

/** owners.c: of each copy of the model, a step updates each element exactly once, over all members.
 * LS_CODE_CHECK names the first that it does not. All processes call it. */
ls_status ls_steps_owners(const ls_run *run);

/* lower.c: from tasks to queues, events and programs. */
ls_status ls_lower(ls_step_run *run);
void ls_lowered_close(ls_step_run *run);
/** Enqueues the tasks of a component, or of all (-1). */
ls_status ls_enqueue_step(ls_step_run *run, int kind, int component);
/** Enqueues tasks that run together, one node's on all members, or a sum's; waits for them; checks
 * for interrupts; then goes on. */
ls_status ls_enqueue_serially(ls_step_run *run, const ls_step_program *program,
                              const ls_evaluating *how);
/** Enqueues tasks that have no order. */
ls_status ls_enqueue_unordered(ls_step_run *run, const ls_step_program *program);

/* trace/blame.c */
/** Allocates the logs of lanes for so many steps. */
ls_status ls_steps_profile_open(ls_step_run *run, uint64_t steps);
/** Notes enqueued programs, for the trace. */
void ls_steps_profile_note(ls_step_run *run, const ls_step_program *program, uint64_t times);

/* In builds with LOCKSTEP_HOOKS: edit the tasks of a step, then its waits, and check it
 * (impl/tests/step_edits.c). */
#ifdef LOCKSTEP_HOOKS
ls_status ls_steps_edit_tasks(ls_step_run *run);
ls_status ls_steps_edit_waits(ls_step_run *run);
#define LS_STEPS_EDITED(edit) (edit)
#else
#define LS_STEPS_EDITED(edit) LS_OK
#endif
