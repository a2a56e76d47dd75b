/* SPDX-License-Identifier: MIT */
/*
 * Names of memory, members and tasks, for the listing and the race check: plain data. Memory
 * outside the named buffers belongs to nets: activations.
 */
#pragma once

#include "impl/step/program/program.h"

enum { LS_MEMBER_NAME = 80 };

/** A named buffer. */
typedef struct ls_name {
    uintptr_t begin, end; /**< first member: the search key */
    const char *what;     /**< static text */
    int member;           /**< -1 means no member's */
    size_t element;       /**< bytes per element; 0 means ranges are not named */
} ls_name;

typedef struct ls_member_name {
    char text[LS_MEMBER_NAME]; /**< "cpu:0"; in another process "rank 1 device 0" */
    int place;
    size_t elements; /**< of its flat buffers */
} ls_member_name;

typedef struct ls_names {
    const ls_lanes *lanes;
    const ls_graph *graph;       /**< the model of members, if it is not divided */
    const ls_graph_parts *parts; /**< the model's, if it is divided */
    ls_member_name *members;     /**< by member */
    ls_name *items;              /**< [count] by address and disjoint, once ordered */
    size_t count;
} ls_names;

/** Adds a buffer; not one that is empty. */
ls_status ls_names_add(ls_names *names, ls_name name);
/** Orders the buffers: if some overlap, the first and largest is kept. */
void ls_names_order(ls_names *names);
void ls_names_close(ls_names *names);

/** Writes the names of the memory that accesses [count] of a task read, or write; "-" if none. */
ls_status ls_names_accesses(const ls_names *names, const ls_task *task, const ls_access *accesses,
                            size_t count, ls_touch touch, FILE *out);

/** Writes "backward, elements 0 to 1289", "forward, dense0, micro-batch 0"; of a copy or message
 * also how much goes where: "send, 12 bytes to cpu:1", to another process "to rank 1 device 0". */
void ls_names_task(const ls_names *names, const ls_task *task, FILE *out);

/** Name, in the whole model, of a node of a place's part; "" if it is not there. */
const char *ls_names_node(const ls_graph_parts *parts, int place, int node,
                          char text[LS_NODE_NAME]);

/** Writes "cpu:0 compute". */
void ls_names_lane(const ls_names *names, int lane, FILE *out);

/** Writes a line for each task of a program, in columns. */
ls_status ls_step_program_list(const ls_step_program *program, const ls_names *names, FILE *out);

/** Writes "task 3 (cpu:0 compute: forward, dense0)". */
void ls_names_numbered(const ls_names *names, const ls_step_program *program, const ls_task *task,
                       FILE *out);

/** LS_CODE_CHECK with the race's tasks and memory; LS_OK if there is none. */
ls_status ls_names_refuse_race(const ls_names *names, const ls_race *race);

/** Memory that a member's device has allocated. */
typedef struct ls_allocated {
    ls_memory_piece *items; /**< [count] by address */
    size_t count;
} ls_allocated;

/** spans.c: LS_CODE_CHECK for the first operation or copy that declares memory which is neither
 * inside one piece of its member's device, nor inside one named buffer in host memory of the member
 * or of all. pieces: [members]. */
ls_status ls_names_check_spans(const ls_names *names, const ls_step_program *program,
                               const ls_allocated *pieces);
