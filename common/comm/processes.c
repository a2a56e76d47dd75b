/* SPDX-License-Identifier: MIT */
/*
 * Processes: what the launcher's variables tell before processes connect; see processes.h. Nothing
 * else in the program knows how launchers start and number ranks. The first whose variable is set
 * counts: mpirun within a step of srun takes precedence.
 */
#include "common/comm/processes.h"

#include <stdlib.h>

ls_processes ls_processes_alone(void)
{
    return (ls_processes){.size = 1, .hosts = 1, .neighbours = 1, .parts = 1};
}

/* What a launcher sets for each process that it starts. */
typedef struct launcher {
    const char *rank, *size;              /* size NULL if not set */
    enum { BY_NONE, BY_PMI, BY_ALL } met; /* which MPI finds its peers through it */
    const char *kills;                    /* set if the parent launcher kills the others on death */
} launcher;

/* The first launcher whose variables are set counts. */
static const launcher launchers[] = {
    /* Open MPI's mpirun: ORTE (4) and PRRTE (5), which sets the next one's variables, too */
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", BY_ALL, NULL},
    /* PMIx: srun --mpi=pmix */
    {"PMIX_RANK", NULL, BY_ALL, NULL},
    /* MVAPICH's mpirun */
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", BY_PMI, NULL},
    /* PMI: MPICH's mpirun (Hydra), and srun --mpi=pmi2 */
    {"PMI_RANK", "PMI_SIZE", BY_PMI, "MPI_LOCALNRANKS"},
    /* srun */
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", BY_NONE, NULL},
};
enum { LAUNCHERS = sizeof launchers / sizeof *launchers };

/* Larger step ids are not of srun's steps, but of batch scripts and shells. */
static const unsigned long long special_steps = 0xfffffff0;

bool ls_processes_stepped(void)
{
    const char *step = getenv("SLURM_STEP_ID");
    char *end = NULL;
    if (!getenv("SLURM_STEP_NUM_TASKS"))
        return false;
    return !step || (strtoull(step, &end, 10) < special_steps && end > step && !*end);
}

/* The value of a launcher's variable; srun's variables outside its steps describe a batch
 * script, and do not count. */
static const char *value_of(const launcher *by, const char *name)
{
    return name && (by->met != BY_NONE || ls_processes_stepped()) ? getenv(name) : NULL;
}

ls_processes_death ls_processes_when_one_dies(void)
{
    int i = 0;
    while (i < LAUNCHERS && !value_of(&launchers[i], launchers[i].rank))
        i++;
    if (i == 0)
        return LS_DEATH_SPARES;
    if (i < LAUNCHERS && launchers[i].kills && getenv(launchers[i].kills))
        return ls_processes_launched_size() > 1 ? LS_DEATH_BY_PARENT : LS_DEATH_SPARES;
    return ls_processes_stepped() ? LS_DEATH_BY_CONNECTION : LS_DEATH_SPARES;
}

int ls_processes_wire(void)
{
    const char *file = getenv("PMI_FD");
    return file ? (int)strtol(file, NULL, 10) : -1;
}

bool ls_processes_launched(void)
{
    const int least = ls_processes_take_pmi() ? BY_PMI : BY_ALL;
    for (int i = 0; i < LAUNCHERS; i++)
        if ((int)launchers[i].met >= least && value_of(&launchers[i], launchers[i].rank))
            return true;
    return false;
}

int ls_processes_launched_rank(void)
{
    const char *rank = NULL;
    for (int i = 0; i < LAUNCHERS && !rank; i++)
        rank = value_of(&launchers[i], launchers[i].rank);
    return rank ? (int)strtol(rank, NULL, 10) : 0;
}

int ls_processes_launched_size(void)
{
    const char *told_size = NULL;
    for (int i = 0; i < LAUNCHERS && !told_size; i++)
        told_size = value_of(&launchers[i], launchers[i].size);
    const int least = ls_processes_launched_rank() + 1; /* PMIx sets only the rank */
    const int size = told_size ? (int)strtol(told_size, NULL, 10) : 1;
    return size > least ? size : least;
}
