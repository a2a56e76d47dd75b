/* SPDX-License-Identifier: MIT */
/* Processes: what is known before anybody is met; see processes.h. */
#include "common/comm/processes.h"

#include <stdlib.h>

ls_processes ls_processes_alone(void)
{
    return (ls_processes){.size = 1, .hosts = 1, .neighbours = 1, .parts = 1};
}

/* What Open MPI's mpirun, PMIx (srun too) and PMI launchers set: the first that is there. */
static const char *const rank_names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", NULL};
static const char *const size_names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS",
                                         NULL};

static const char *find_variable(const char *const *names)
{
    const char *value = NULL;
    for (; *names && !value; names++)
        value = getenv(*names);
    return value;
}

bool ls_processes_launched(void)
{
    return find_variable(rank_names) != NULL;
}

int ls_processes_launched_rank(void)
{
    const char *rank = find_variable(rank_names);
    return rank ? (int)strtol(rank, NULL, 10) : 0;
}

int ls_processes_launched_size(void)
{
    const char *size = ls_processes_launched() ? find_variable(size_names) : NULL;
    return size ? (int)strtol(size, NULL, 10) : 1;
}
