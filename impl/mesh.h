/* SPDX-License-Identifier: MIT */
/*
 * Mesh: a job's devices as a grid, and how a buffer is spread over them. With G groups of M
 * replicas, each of S stages of t slices of c blocks of positions, device number
 * ((((g M + m) S + s) t + j) c + p) is at (g, m, s, j, p). A strategy declares the sizes.
 */
#pragma once

#include <stdint.h>

/** An axis of a mesh. */
typedef enum ls_axis {
    LS_MEMBER,   /**< replicas of a group, which may share the update out */
    LS_GROUP,    /**< groups of replicas; the outermost axis */
    LS_STAGE,    /**< parts of a replica by nodes (graph_parts.h) */
    LS_SLICE,    /**< slices of layers (graph_split.h) */
    LS_POSITION, /**< parts of the positions (graph_context.h) */
    LS_AXES
} ls_axis;

/** How many devices there are along each axis. */
typedef struct ls_mesh {
    int size[LS_AXES]; /**< as declared; 0 stands for 1 */
    ls_axis rest;      /**< the axis of all devices that the other sizes leave */
    int replicas;      /**< set by ls_mesh_of: groups times members */
    int places;        /**< set by ls_mesh_of: devices of a replica */
} ls_mesh;

/** How a buffer is spread along an axis. */
typedef enum ls_kind {
    LS_WHOLE,   /**< each has all of it */
    LS_SHARE,   /**< each has a share of every bucket (ls_bucket_share) */
    LS_PLACED,  /**< each element is on one: its node's, a holder's, a server's */
    LS_PARTIAL, /**< each has an addend of all of it */
    LS_HELD,    /**< of a strategy: placed on one device, the holder (job.variable_device) */
    LS_SERVED,  /**< of a strategy: placed on parameter servers (job.ps) */
    LS_OWN      /**< of a strategy: each has its own, which is never added */
} ls_kind;

enum { LS_ALL_WINDOWS = INT32_MAX }; /**< buckets stay whole until the step ends */

/** How a buffer is spread. */
typedef struct ls_spread {
    ls_kind on[LS_AXES]; /**< along each axis */
    int windows;         /**< buckets that a device holds whole at once (windows.h); 0 means all */
} ls_spread;

/** How a strategy spreads a model: gradients as backward leaves them; parameters are partial if
 * all-reduces average them. Options may add to it (ls_strategy.resolve). */
typedef struct ls_spreads {
    ls_mesh mesh;         /**< `rest`: the axis of its devices */
    ls_spread parameters; /**< between steps */
    ls_spread gradients;  /**< behind backward */
    ls_spread state;      /**< of the optimizer */
} ls_spreads;

/** The mesh of so many devices: with all sizes set. */
ls_mesh ls_mesh_of(ls_mesh declared, int devices);

/** The axis of `hybrid`'s copies: of groups, if each device has a replica; else of replicas. */
static inline ls_axis ls_mesh_outer(const ls_mesh *declared)
{
    return declared->rest == LS_MEMBER ? LS_GROUP : LS_MEMBER;
}
