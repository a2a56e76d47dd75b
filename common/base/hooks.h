/* SPDX-License-Identifier: MIT */
/*
 * Hooks: what the tests switch on in a program that is built with LOCKSTEP_HOOKS, to see that its
 * checks find what they are for. In any other build each hook is a constant, and nothing of this is
 * in the program. Switched by the environment, read once:
 *
 *     LOCKSTEP_PLANT=BUG           plants a bug, by its name in the table below
 *     LOCKSTEP_EDIT=KIND:NUMBER    edits a task or a wait of the step (impl/tests/step_edits.c)
 *     LOCKSTEP_FUZZ=SEED           threads pause at random before queue, event and rank operations
 *     LOCKSTEP_FAIL=DEVICE:STEP[:OPERATION][!], or open:NUMBER
 *     LOCKSTEP_SLOW=NAME:TIME      operations whose names begin so take longer: gather:2ms
 *
 * LOCKSTEP_FAIL makes an operation of a device's queue fail: of the step STEP since it was opened
 * the one of that number, both from 0, or the last where there are less; with `!` so that nothing
 * more can be done on it. Or of the sessions that are opened to train the one of that number, from
 * 0, cannot be.
 */
#pragma once

#include "common/base/status.h"

#include <stdint.h>

/** The bugs: LS_PLANTED(ring_round) is true while LOCKSTEP_PLANT=ring_round. Those that are a
 * step's are edits of it, by a table in impl/tests/step_edits.c. */
#define LS_PLANTED_BUGS(BUG)                                                                       \
    BUG(average)            /* slices are averaged over the replicas, not summed */                \
    BUG(local_scale)        /* a slice's loss is the mean over the slice, not over the batch */    \
    BUG(uneven_share)       /* what is left of an uneven split goes to nobody */                   \
    BUG(replica_seed)       /* the order of samples depends on the replica */                      \
    BUG(tree_order)         /* finished subtrees are added one after the other, not as a tree */   \
    BUG(bucket_left_out)    /* the last bucket is not reduced */                                   \
    BUG(bucket_early)       /* a bucket is reduced when its first variable is final */             \
    BUG(slice_element)      /* the last element of each rank's slice is not summed */              \
    BUG(ring_round)         /* the all-gather around the ring ends one round early */              \
    BUG(meeting_left_out)   /* ranks go on before the others have written their slices */          \
    BUG(shared_once)        /* shared variables are reported final after one of their uses */      \
    BUG(stale_variables)    /* towers do not fetch the variables after the first step */           \
    BUG(fetched_twice)      /* towers fetch the variables twice */                                 \
    BUG(tower_left_out)     /* the last tower's sum is not added */                                \
    BUG(done_wait)          /* sums do not wait for the last tower */                              \
    BUG(ready_wait)         /* towers do not wait for the variables of the step before */          \
    BUG(final_wait)         /* an overlapped bucket does not wait for backward */                  \
    BUG(reduced_wait)       /* an update does not wait for its overlapped bucket */                \
    BUG(applied_twice)      /* the gradient is applied twice */                                    \
    BUG(state_not_mirrored) /* optimizer state is set on the first device alone */                 \
    BUG(update_left_out)    /* the last replica does not update its first bucket */                \
    BUG(push_early)         /* a worker pushes a range before backward has made it final */        \
    BUG(push_overwrites)    /* a server keeps the last worker's gradient alone */                  \
    BUG(raw_evaluated)      /* servers' variables are evaluated, not their averages */             \
    BUG(bound_left_out)     /* ssp lets workers go on as far as they come */                       \
    BUG(tail_not_reduced)   /* gradients of an epoch's smaller last batch are not reduced */       \
    BUG(mask_left_out)      /* a fast dense layer's gradient goes past the ReLU before */          \
    BUG(not_turned)         /* Winograd's data gradient takes the windows as they are */           \
    BUG(order_noted)        /* servers note a gradient as none */                                  \
    BUG(mean_over_all)      /* with backup workers, a sum is not scaled to the samples used */     \
    BUG(late_added)         /* a gradient that came too late is added to the next step's */        \
    BUG(pull_wait)          /* a worker does not wait for the variables that it pulls */           \
    BUG(first_loss)         /* the first replica's part of the loss is taken for the whole */      \
    BUG(local_statistics)   /* batch statistics are not added up over the replicas */              \
    BUG(tail_position)      /* after an epoch's smaller last batch the position is a batch on */   \
    BUG(branch_left_out)    /* the gradient of a copy is not added to its owner's */               \
    BUG(copy_stale)         /* copies of shared variables keep their first values */               \
    BUG(stage_stale)        /* the last stage keeps its first variables */                         \
    BUG(micro_left_out)     /* the last micro-batch's gradient is not added */                     \
    BUG(border_wait)        /* a place does not wait for what comes over a border */               \
    BUG(place_not_reduced)  /* the last place of each replica keeps its own gradients */           \
    BUG(device_leak)        /* a step keeps 64 bytes of the first device's memory */               \
    BUG(heap_leak)          /* a step keeps 64 bytes of the host's heap */

#ifdef LOCKSTEP_HOOKS

#define LS_PLANT_NUMBER(name) LS_PLANT_##name,
enum { LS_PLANTED_BUGS(LS_PLANT_NUMBER) LS_PLANTS };

#define LS_PLANTED(name) ls_hooks_planted(LS_PLANT_##name)
bool ls_hooks_planted(int bug);

/** The edit that is asked for, or NULL. */
const char *ls_hooks_edit(void);

/** Whether steps that are said now are edited: those of judges are not, around whose opening this
 * is switched off. */
bool ls_hooks_edits(void);
void ls_hooks_spare(bool on);

/** LS_CODE_USAGE where a variable's value is none. */
ls_status ls_hooks_check(void);

/** Names the calling thread, so that its pauses are the same in every run with a seed. */
void ls_hooks_thread(void);

/** Pauses the calling thread at random, mostly not. */
void ls_hooks_pause(void);

/** Where a queue is in its steps. */
typedef struct ls_hooks_place {
    long long step, operation;
} ls_hooks_place;

/** Until when an operation of this name that begins now is to sleep; 0: it is not to be slow. */
uint64_t ls_hooks_slow(const char *operation);

/** The failure that is wanted of this operation, or LS_OK. `last`: it is the last of its step. */
ls_status ls_hooks_fail(ls_hooks_place *place, const char *device, bool last);

/** The failure that is wanted of the session that is being opened to train, or LS_OK. */
ls_status ls_hooks_open(void);

#else

#define LS_PLANTED(name) false

static inline void ls_hooks_spare(bool on)
{
    (void)on;
}

static inline ls_status ls_hooks_check(void)
{
    return LS_OK;
}

static inline ls_status ls_hooks_open(void)
{
    return LS_OK;
}

static inline void ls_hooks_thread(void)
{
}

static inline void ls_hooks_pause(void)
{
}

#endif
