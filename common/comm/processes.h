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
    ls_layout layout; /**< of the processes; until ls_processes_end */
    ls_comm *comm;    /**< each process a rank, without a device; NULL: alone */
    char version[32]; /**< of the MPI library, "Open MPI 4.1.4"; "": none in use */
};

/** Whether this build can talk between processes. */
bool ls_processes_built(void);

/** Version of the MPI library in this build, "4.1.4"; NULL: none. Returns `text`. */
const char *ls_processes_library(char text[32]);

/** Whether this build's MPI finds its peers by PMI-1 and PMI-2, too, not only by PMIx and its
 * mpirun. */
bool ls_processes_take_pmi(void);

/** Whether this process was started by a launcher through which MPI finds its peers. */
bool ls_processes_launched(void);

/** How many processes a launcher of any kind says that it started, and which one this is; 1 and 0
 * where none says so. */
int ls_processes_launched_size(void);
int ls_processes_launched_rank(void);

/** Whether this is a task of a step that Slurm's srun began: a batch script is none. */
bool ls_processes_stepped(void);

/** A process alone. */
ls_processes ls_processes_alone(void);

/** Starts MPI, which meets the other processes; all do so, once. LS_CODE_MISSING where MPI is not
 * there, or without MPI_THREAD_MULTIPLE. Where the others do not come within the timeout, `late` is
 * called on another thread; it must not return, since MPI would wait for ever. */
ls_status ls_processes_start(uint64_t timeout_ns, void (*late)(void), ls_processes *out);

/** How long a wait for another process may last without any sign of life. Longer: the processes
 *  have lost each other, and every wait fails. */
void ls_processes_set_timeout(const ls_processes *processes, uint64_t timeout_ns);

/**
 * `ending`, called from any thread, tells whether this process was told to end (NULL: never). A
 * wait then fails: at once where another process of this host is gone, else if nothing comes for a
 * while. `say` gets lines, newline included: what a wait was for, and those of
 * ls_processes_autopsy.
 */
void ls_processes_watch(const ls_processes *processes, bool (*ending)(void),
                        void (*say)(const char *line));

/** Says that steps [first, first + count) are enqueued next, so that failed waits can name the
 * step; `alike`: each of them runs the same operations. `count` 0: none. Takes NULL. */
void ls_processes_step(const ls_processes *processes, uint64_t first, uint64_t count, bool alike);

/**
 * From here on a thread of its own calls `moved` several times per timeout, and sends the others a
 * sign of life where it says that this process has made progress. `moved` NULL ends that: it is not
 * called any more when this returns. Does nothing for a process alone.
 */
ls_status ls_processes_pulse(const ls_processes *processes, bool (*moved)(void *context),
                             void *context);

/** Whether the processes have lost each other: a host call between them has failed. */
bool ls_processes_lost(const ls_processes *processes);

/**
 * After processes have lost each other, writes lines by `say` of ls_processes_watch: one process
 * says which are gone or silent, and since when; each says what it waited for itself. All that are
 * left call it.
 */
void ls_processes_autopsy(const ls_processes *processes);

/** After every communicator is closed. `in_order`: all processes come here; else the launcher is
 *  told to end them all with this exit status, and the call does not return. */
void ls_processes_end(ls_processes *processes, bool in_order, int exit_status);
