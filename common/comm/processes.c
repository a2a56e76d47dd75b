/* SPDX-License-Identifier: MIT */
/* Processes: what is known before anybody is met; see processes.h. */
#include "common/comm/processes.h"

#include <stdlib.h>

ls_processes ls_processes_alone(void)
{
    return (ls_processes){.size = 1, .hosts = 1, .neighbours = 1, .parts = 1};
}

/* What Open MPI's mpirun, PMIx (srun too) and PMI launchers set. */
bool ls_processes_launched(void)
{
    static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (getenv(variables[i]))
            return true;
    return false;
}
