/* SPDX-License-Identifier: MIT */
/*
 * What kinks choose in a forward pass: which units are above 0, where maxima are. A second net that
 * takes them over before its backward pass computes the gradient of the same smooth piece, so that
 * two gradients differ by the arithmetic alone. With `rows`, it takes over each node's output and
 * gradient, too, after comparing its own: errors of one layer do not grow in the next ones. Takes
 * over in host memory; notes on GPUs, too.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** One node's. */
typedef struct ls_node_choices {
    size_t count; /**< elements of its output */
    bool *above;  /**< [count] */
    void *kept;   /**< [kept_bytes] positions of maxima; NULL without maxima */
    size_t kept_bytes;
    double *value[2]; /**< [elements of `rows`] output, gradient times divisor; NULL if not noted */
    uint64_t wrong[2]; /**< elements of these that differed by more than `tolerance` */
} ls_node_choices;

/** Zero it before use; after it, ls_choices_close. */
typedef struct ls_choices {
    int nodes;             /**< of the graph; 0 until a net has noted its choices */
    ls_node_choices *node; /**< [nodes]; count is 0 where a layer chooses nothing */
    int64_t rows;          /**< whose values are taken over, too; 0 means none */
    double tolerance;      /**< of an element, over its magnitude and its node's root mean square */
    double distance;       /**< largest relative distance of a node's values, before that */
    char worst[64];        /**< where it is */
} ls_choices;

/** Takes zeroed ones. */
void ls_choices_close(ls_choices *choices);
