/* SPDX-License-Identifier: MIT */
/* Sums left over between exchanges of a step; see terms.c. */
#pragma once

#include "common/comm/comm.h"

/** Terms over the shards, ascending; each is in the slot `at`. All zero: none. */
typedef struct ls_terms {
    ls_term items[LS_SUBTREES];
    size_t count;
    size_t slots; /**< how many were in use at once */
} ls_terms;

/** What is told of each change, in order: a slot gets the finished sum number `sum` of the
 * exchange; or slot `from` is added to slot `into`. */
typedef struct ls_term_visitor {
    void (*take)(void *context, size_t slot, size_t sum);
    void (*add)(void *context, size_t into, size_t from);
    void *context;
} ls_term_visitor;

/** Takes the finished subtrees of one of `of.groups` parts of the shards, the next one that was not
 * taken. `visit` is NULL if nobody is told. */
void ls_terms_take(ls_terms *terms, ls_rank_group of, int64_t shards, const ls_term_visitor *visit);
