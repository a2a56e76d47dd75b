/* SPDX-License-Identifier: MIT */
/*
 * Processes: what the launcher's variables tell before processes connect; see processes.h. The
 * first variable of a list that is set counts: mpirun within a step of srun takes precedence.
 */
#include "common/comm/processes.h"

#include <stdlib.h>
#include <string.h>

ls_processes ls_processes_alone(void)
{
    return (ls_processes){.size = 1, .hosts = 1, .neighbours = 1, .parts = 1};
}

/* Variables of Open MPI's mpirun and PMIx (srun --mpi=pmix), through which every current MPI finds
 * its peers; of MVAPICH and PMI (MPICH's mpiexec, srun --mpi=pmi2), through which some do; of srun,
 * through which none does. */
static const char *const rank_names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK",
                                         "PMI_RANK", "SLURM_PROCID"};
static const char *const size_names[] = {"OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PMI_SIZE",
                                         "SLURM_STEP_NUM_TASKS"};
enum {
    RANKS = sizeof rank_names / sizeof *rank_names,
    SIZES = sizeof size_names / sizeof *size_names,
    BY_ALL = 2,
    BY_PMI = 4
};

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

static const char *find_variable(const char *const *names, size_t count)
{
    const bool stepped = ls_processes_stepped();
    for (size_t i = 0; i < count; i++)
        if (getenv(names[i]) && (stepped || strncmp(names[i], "SLURM_", 6) != 0))
            return names[i];
    return NULL;
}

bool ls_processes_launched(void)
{
    return find_variable(rank_names, ls_processes_take_pmi() ? BY_PMI : BY_ALL) != NULL;
}

int ls_processes_launched_rank(void)
{
    const char *name = find_variable(rank_names, RANKS);
    return name ? (int)strtol(getenv(name), NULL, 10) : 0;
}

int ls_processes_launched_size(void)
{
    const char *name = find_variable(size_names, SIZES);
    const int least = ls_processes_launched_rank() + 1; /* PMIx sets only the rank */
    const int size = name ? (int)strtol(getenv(name), NULL, 10) : 1;
    return size > least ? size : least;
}
