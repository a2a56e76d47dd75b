/* SPDX-License-Identifier: MIT */
/*
 * Processes: what a launcher (mpirun, srun) started together, each a rank of the job.
 *
 * MPI's own header stands in common/comm/mpi alone; whoever needs to know where this process is
 * among the others asks here. A build without MPI has the same calls: nothing is ever launched.
 */
#pragma once

#include "common/comm/comm.h"

#include <stdbool.h>

/** All zero but size, hosts, parts, neighbours = 1: a process alone. */
struct ls_processes {
    int rank, size;
    int host, hosts;  /**< hosts are numbered in the order of their lowest ranks */
    int neighbours;   /**< ranks on this host, this one too */
    int neighbour;    /**< which of them this is, in the order of ranks */
    int part, parts;  /**< ranks on this host with the same cores to use: which one, of how many */
    ls_layout layout; /**< of them; as long as they are together */
    ls_comm *comm;    /**< each process a rank, without a device; NULL: alone */
    char version[32]; /**< of the MPI library, "Open MPI 4.1.4"; "": none in use */
};

/** Whether this build can talk between processes. */
bool ls_processes_built(void);

/** Version of the MPI library in this build, "4.1.4"; NULL: none. Returns `text`. */
const char *ls_processes_library(char text[32]);

/** Whether the MPI of this build meets by PMI-1 and PMI-2, too, not only by PMIx and its mpirun. */
bool ls_processes_take_pmi(void);

/** Whether a launcher started this process by which MPI meets. */
bool ls_processes_launched(void);

/** How many processes a launcher, whichever it is, says it started, and which this one is: 1 and 0
 *  where it does not. */
int ls_processes_launched_size(void);
int ls_processes_launched_rank(void);

/** Whether this is a task of a step that Slurm's srun began: a batch script is none. */
bool ls_processes_stepped(void);

/** A process alone. */
ls_processes ls_processes_alone(void);

/** Meets the others; all do so, once. LS_CODE_MISSING where MPI, or what it must be able to, is not
 *  there. Who waits longer than the timeout for others to come has `late` called, on another
 * thread, which does not return: MPI itself waits for ever. */
ls_status ls_processes_start(uint64_t timeout_ns, void (*late)(void), ls_processes *out);

/** How long a wait for another process may last without any sign of life. Longer: the processes
 *  have lost each other, and every wait fails. */
void ls_processes_set_timeout(const ls_processes *processes, uint64_t timeout_ns);

/**
 * `ending` tells, from any thread, whether this process was told to end: a wait then fails, at once
 * where another process of this host is gone, else if nothing comes for a while. `say` is called
 * with what it waited for, a line with its newline; so is it by ls_processes_autopsy. `ending`
 * NULL: never.
 */
void ls_processes_watch(const ls_processes *processes, bool (*ending)(void),
                        void (*say)(const char *line));

/** Steps [first, first + count) are put next, which waits then name; `alike`: each of them runs the
 *  same operations. `count` 0: none are. Takes NULL. */
void ls_processes_step(const ls_processes *processes, uint64_t first, uint64_t count, bool alike);

/**
 * From here on all that wait get a sign of life whenever `moved` says that this process has gone
 * on: it is asked some times a timeout, by a thread of its own, so that whoever works need not
 * think of it. `moved` NULL: no more; it is not asked any more when the call returns. Does nothing
 * alone.
 */
ls_status ls_processes_pulse(const ls_processes *processes, bool (*moved)(void *context),
                             void *context);

/** Whether the processes have lost each other: a host call between them has failed. */
bool ls_processes_lost(const ls_processes *processes);

/**
 * Of processes that have lost each other, by `say` of ls_processes_watch, a line each: which are
 * gone or silent, since when, by one of the others; what each of the others waited for, by itself.
 * All that are left call it.
 */
void ls_processes_autopsy(const ls_processes *processes);

/** After every communicator is closed. `in_order`: all processes come here; else the launcher is
 *  told to end them all with this exit status, and the call does not return. */
void ls_processes_end(ls_processes *processes, bool in_order, int exit_status);
