/* SPDX-License-Identifier: MIT */
/* Sums left over between exchanges of a step; see terms.c. */
#pragma once

#include "common/comm/comm.h"

#include <stdbool.h>

/** Terms over the shards, ascending; each is in the slot `at`. All zero: none. */
typedef struct ls_terms {
    ls_term items[LS_SUBTREES];
    size_t count;
    size_t slots; /**< how many were in use at once */
    struct ls_term_step {
        bool adds; /**< adds slot `from` to `slot`; else sets `slot` to finished sum `from` */
        size_t slot, from;
    } steps[3 * LS_SUBTREES]; /**< [step_count] what the latest ones taken changed */
    size_t step_count;
} ls_terms;

/** Takes the finished subtrees of one of `of.groups` parts of the shards, the next one that was not
 * taken. */
void ls_terms_take(ls_terms *terms, ls_rank_group of, int64_t shards);
