/* SPDX-License-Identifier: MIT */
/*
 * Elastic replicas: some leave or join before a step (--elastic), or die in one (--inject kill with
 * --on-failure shrink). So a case is a sequence of phases, each with a plan for the devices of its
 * members; between two phases the state goes from one layout to the other (bench/train/change.h).
 *
 * Moved bytes by formula, with Z arrays of slots and averages, and P elements: a replica that joins
 * gets 4 P (1 + Z). Where members share the update (zero), an element whose owner is another device
 * than before moves 4 Z, in stage 3 4 (1 + Z); of a bucket of P_u elements that is
 * P_u - sum over d of |I_d and I'_d|, I_d the share of device d; in stages 1 and 2 a joining
 * replica gets 4 P, too. In bfloat16 masters are shared out like slots: 4 (1 + Z) in each stage,
 * and copies, 2 P, for who joins in stages 1 and 2. Groups that share an update join and leave as
 * one.
 */
#pragma once

#include "bench/case/case_plan.h"

typedef enum ls_elastic_kind { LS_ELASTIC_LEAVE, LS_ELASTIC_JOIN, LS_ELASTIC_KILL } ls_elastic_kind;

/** Replica `replica` is out, or in, from before step `step` on; killed: it dies in that step. */
typedef struct ls_elastic_event {
    ls_elastic_kind kind;
    int replica;
    int64_t step;
} ls_elastic_event;

enum { LS_ELASTIC_EVENTS = 64 }; /* most events of a case */

typedef struct ls_elastic {
    ls_elastic_event events[LS_ELASTIC_EVENTS]; /**< by step; a step's deaths last */
    size_t count;
    int replicas; /**< all replicas, members or not; of `hybrid`: divided replicas, or groups */
    int each;     /**< devices of one */
} ls_elastic;

/** A stretch of steps with the same members. */
typedef struct ls_elastic_phase {
    struct ls_elastic_phase *next; /**< NULL means the last one */
    uint64_t first;                /**< its first step */
    size_t begin, end;             /**< its events, before that step */
    bool deaths;                   /**< they are deaths: `first` was begun by the phase before */
    int members;                   /**< replicas that take part */
    int *member;    /**< [devices of the case] number in this phase; -1 outside of it */
    ls_case config; /**< the case as if its members were all */
    char count[16]; /**< `members`, as text */
    ls_plan_of_case plan;
} ls_elastic_phase;

extern const char *const ls_elastic_words[]; /**< names of the kinds; NULL-terminated */

/** Reads "leave=D:STEP,join=D:STEP,..". false if it is not valid. */
bool ls_elastic_parse(const char *text, ls_elastic *out);

/** Reads the case's events, checks all but their last step, and that its strategy can run with the
 * members of every phase. LS_CODE_USAGE. `outline` is the outline of all devices. */
ls_status ls_elastic_check(const ls_case *one, const ls_outline *outline, ls_elastic *out);

/** The bytes that `to` moves by formula, when it follows `from`. */
ls_status ls_elastic_formula(const ls_elastic_phase *from, const ls_elastic_phase *to,
                             uint64_t *out);
