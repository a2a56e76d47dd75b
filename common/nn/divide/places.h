/* SPDX-License-Identifier: MIT */
/* Places: which device each node of a model runs on, named by the user or balanced. */
#pragma once

#include "common/device/device_name.h"
#include "common/nn/graph.h"

/**
 * Ranges of nodes, in the graph's order, whose floating-point operations per sample are balanced:
 * the largest sum is as small as it can be. `out` [nodes]: place of each. LS_CODE_USAGE where there
 * are fewer layers than places.
 */
ls_status ls_places_balance(const ls_graph *graph, int64_t places, int *out);

/**
 * "dense0=cpu:0,dense1=cpu:1", or the name of a file of such items, on separate lines or not, with
 * comments behind '#': a node by name (graph.h) on one of `devices` [places]. One that is not named
 * is where its first input is; inputs are where they are taken. LS_CODE_USAGE for unknown names,
 * listing what there is, for a node named twice, and for a device that has no node.
 */
ls_status ls_places_parse(const ls_graph *graph, const char *text, const ls_device_name *devices,
                          int places, int *out);

/** LS_CODE_USAGE where the graph cannot be cut so (graph_parts.h). */
ls_status ls_places_check(const ls_graph *graph, const int *place, int places);
