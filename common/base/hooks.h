/* SPDX-License-Identifier: MIT */
/*
 * Hooks: faults that tests plant in a program built with LOCKSTEP_HOOKS, to check that its checks
 * detect them. In any other build each hook is a constant and leaves no code. Environment
 * variables, read once, switch them on:
 *     LOCKSTEP_PLANT=BUG           plants a bug, by its name in the table below
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

#include <stdint.h>

/** The bugs: LS_PLANTED(ring_round) is true while LOCKSTEP_PLANT=ring_round. Bugs of a step are
 * edits of its tasks: see the table in impl/tests/step_edits.c. */
#define LS_PLANTED_BUGS(BUG)                                                                       \
    BUG(average)            /* slices are averaged over the replicas, not summed */                \
    BUG(local_scale)        /* a slice's loss is the mean over the slice, not over the batch */    \
    BUG(uneven_share)       /* the remainder of an uneven split goes to nobody */                  \
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
    BUG(bound_left_out)     /* ssp does not hold fast workers back */                              \
    BUG(tail_not_reduced)   /* gradients of an epoch's smaller last batch are not reduced */       \
    BUG(mask_left_out)      /* a fast dense layer's gradient goes past the ReLU before */          \
    BUG(not_turned)         /* Winograd's data gradient does not rotate the filters */             \
    BUG(order_noted)        /* servers record a gradient as missing */                             \
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
    BUG(border_wait)        /* a stage does not wait for what another one sends */                 \
    BUG(averaged_in_place)  /* a replica averages, and the others average what it has then */      \
    BUG(place_not_reduced)  /* the last stages of the replicas do not reduce their gradients */    \
    BUG(device_leak)        /* a step keeps 64 bytes of the first device's memory */               \
    BUG(heap_leak)          /* a step keeps 64 bytes of the host's heap */

#ifdef LOCKSTEP_HOOKS

#define LS_PLANT_NUMBER(name) LS_PLANT_##name,
enum { LS_PLANTED_BUGS(LS_PLANT_NUMBER) LS_PLANTS };

#define LS_PLANTED(name) ls_hooks_planted(LS_PLANT_##name)
bool ls_hooks_planted(int bug);

/** The edit that LOCKSTEP_EDIT asks for, or NULL. */
const char *ls_hooks_edit(void);

/** Whether steps that are built now are edited. ls_hooks_spare(true) switches that off while the
 * gate's judges are opened, whose steps stay as they are. */
bool ls_hooks_edits(void);
void ls_hooks_spare(bool on);

/** LS_CODE_USAGE where one of these variables has an invalid value. */
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

/** The failure to inject into this operation, or LS_OK. `last`: it is the last of its step. */
ls_status ls_hooks_fail(ls_hooks_place *place, const char *device, bool last);

/** The failure to inject into the session that is being opened to train, or LS_OK. */
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
