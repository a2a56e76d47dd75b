/* SPDX-License-Identifier: MIT */
/*
 * Processes: the ranks of a job that a launcher (mpirun, srun) started. MPI's own header is only
 * included in common/comm/mpi; all other code asks here where this process is among the others. A
 * build without MPI has the same functions: nothing is ever launched.
 */
#pragma once

#include "common/comm/comm.h"

#include <stdbool.h>

/** A single process: all zero, except size, hosts, parts, neighbours = 1. */
struct ls_processes {
    int rank, size;
    int host, hosts;  /**< hosts are numbered in the order of their lowest ranks */
    int neighbours;   /**< ranks on this host, including this one */
    int neighbour;    /**< which of them this is, in rank order */
    int part, parts;  /**< ranks on this host with the same cores to use: which one, of how many */
    ls_layout layout; /**< of the processes; until ls_processes_end */
    ls_comm *comm;    /**< each process a rank, without a device; NULL means alone */
    char version[32]; /**< of the MPI library, "Open MPI 4.1.4", "MPICH 4.0.2"; "" if none */
};

/** Whether this build can communicate between processes. */
bool ls_processes_built(void);

/** Name and version of the MPI library in this build, "OpenMPI" or "MPICH" and "4.1.4"; NULL if
 * there is none. The version is written to `text`, and returned. */
const char *ls_processes_library_name(void);
const char *ls_processes_library(char text[32]);

/** Whether this build's MPI also finds its peers by PMI-1 and PMI-2 (MPICH and its relatives), not
 * only by PMIx and its mpirun (Open MPI). */
bool ls_processes_take_pmi(void);

/** Whether this process was started by a launcher through which MPI finds its peers. */
bool ls_processes_launched(void);

/** How many processes a launcher of any kind started, and which one this is, by its variables; 1
 * and 0 if there are none. */
int ls_processes_launched_size(void);
int ls_processes_launched_rank(void);

/** Whether this is a task of a step that Slurm's srun started; a batch script is not. */
bool ls_processes_stepped(void);

/** What the launcher does to the other ranks when one dies. */
typedef enum ls_processes_death {
    LS_DEATH_SPARES,        /**< leaves them a second: Open MPI's mpirun; or there are none */
    LS_DEATH_BY_CONNECTION, /**< kills them when its connection to the dead one breaks: srun */
    LS_DEATH_BY_PARENT      /**< as above, or when its child dies by a signal (MPICH's mpirun) */
} ls_processes_death;
ls_processes_death ls_processes_when_one_dies(void);

/** The open file that is this process's connection to the launcher; -1 if there is none, or not
 * known. */
int ls_processes_wire(void);

/** A single process. */
ls_processes ls_processes_alone(void);

/** Starts MPI, which connects the processes; all call it, once. LS_CODE_MISSING if there is no MPI,
 * or no MPI_THREAD_MULTIPLE. If the others do not start within the timeout, `late` is called on
 * another thread; it must not return, since MPI would wait for ever. */
ls_status ls_processes_start(uint64_t timeout_ns, void (*late)(void), ls_processes *out);

/** How long a wait for another process may last without a sign of life. After that the processes
 * have lost each other, and every wait fails. */
void ls_processes_set_timeout(const ls_processes *processes, uint64_t timeout_ns);

/**
 * `ending`, called from any thread, returns whether this process was asked to end (NULL means
 * never). A wait then fails: at once if another process of this host has ended, otherwise if
 * nothing arrives for a while. `print` gets lines, newline included: what a wait was for, and the
 * lines of ls_processes_autopsy.
 */
void ls_processes_watch(const ls_processes *processes, bool (*ending)(void),
                        void (*print)(const char *line));

/** Announces that steps [first, first + count) are enqueued next, so that failed waits can name the
 * step; `alike`: every step runs the same operations. `count` 0 if there is none. Takes NULL. */
void ls_processes_step(const ls_processes *processes, uint64_t first, uint64_t count, bool alike);

/**
 * From here on a separate thread calls `moved` several times per timeout, and sends the others a
 * sign of life if it returns that this process has made progress. If `moved` is NULL the calls end:
 * none happens after this function returns. Does nothing for a single process.
 */
ls_status ls_processes_pulse(const ls_processes *processes, bool (*moved)(void *context),
                             void *context);

/** Whether the processes have lost each other: a host call between them has failed. */
bool ls_processes_lost(const ls_processes *processes);

/**
 * After processes have lost each other, writes lines by `print` of ls_processes_watch: one process
 * names the processes that have ended or are silent, and since when; each prints what it waited
 * for. All remaining processes call it.
 */
void ls_processes_autopsy(const ls_processes *processes);

/** After every communicator is closed. `in_order`: all processes call this; otherwise the launcher
 * is asked to end them all with this exit status, and the call does not return. */
void ls_processes_end(ls_processes *processes, bool in_order, int exit_status);
