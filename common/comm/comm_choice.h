/* SPDX-License-Identifier: MIT */
/*
 * What a job says of communicators: names of back ends and algorithms, and traffic. How ranks
 * exchange is in comm.h, which a program that only trains does not need.
 */
#pragma once

#include "common/base/status.h"

#include <stdint.h>

/** One rank's end of a communicator (comm.h). */
typedef struct ls_comm ls_comm;

/** How ranks communicate: `thread`, `mpi`, `device`, `nccl` (comm.h). */
typedef struct ls_comm_backend ls_comm_backend;

/** Where the ranks of a communicator are (comm.h). */
typedef struct ls_layout ls_layout;

/** An algorithm that sums values over ranks (comm.h). */
typedef struct ls_allreduce ls_allreduce;

/** In which form numbers travel (comm_wire.h). */
typedef enum ls_wire_form { LS_WIRE_FLOAT32, LS_WIRE_BF16, LS_WIRE_INT8 } ls_wire_form;
enum { LS_WIRE_ROW = 512 }; /* most elements with one scale */

/** What a launcher started together (processes.h). */
typedef struct ls_processes ls_processes;

/** Payload that this rank sent to other devices. Control messages are not counted. */
typedef struct ls_traffic {
    uint64_t bytes_sent;    /**< of payload */
    uint64_t messages_sent; /**< that carried it */
} ls_traffic;

/** Adds `times` times as much. */
static inline void ls_traffic_add(ls_traffic *sum, ls_traffic more, uint64_t times)
{
    sum->bytes_sent += times * more.bytes_sent;
    sum->messages_sent += times * more.messages_sent;
}

/** Sets *out to the back end of this name, which is static. LS_CODE_USAGE with the valid names
 * where there is none. */
ls_status ls_comm_backend_find(const char *name, const ls_comm_backend **out);

/** Sets *out to the algorithm of this name, which is static: "ring", "tree", "canonical" (of exact
 *  mode), ... LS_CODE_USAGE with the valid names where there is none. */
ls_status ls_allreduce_find(const char *name, const ls_allreduce **out);
