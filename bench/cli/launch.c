/* SPDX-License-Identifier: MIT */
/* Launch: tasks that a launcher started and MPI does not bring together; see launch.h. */
#include "bench/cli/launch.h"

#include "common/base/clock.h"

#include <stdio.h>
#include <string.h>

const char *ls_launch_option(int argc, char **argv, const char *name)
{
    const size_t length = strlen(name);
    for (int i = 1; i < argc; i++) {
        const char *value = argv[i] + length;
        if (strncmp(argv[i], name, length) != 0)
            continue;
        if (*value == '=')
            return value + 1;
        if (!*value && i + 1 < argc)
            return argv[i + 1];
    }
    return NULL;
}

bool ls_launch_none(int argc, char **argv)
{
    const char *value = ls_launch_option(argc, argv, "--launcher");
    return value && strcmp(value, "none") == 0;
}

/* Other tasks end this much later, since the first to end may end rank 0 before it has said why. */
static const uint64_t behind_ns = 1000000000;

ls_status ls_launch_check(const ls_processes *processes, const char *command)
{
    const int size = ls_processes_launched_size();
    char tasks[32];
    if (processes->size > 1 || size == 1)
        return LS_OK;
    if (processes->rank > 0)
        ls_clock_sleep(behind_ns);
    if (!ls_processes_built())
        return ls_fail(LS_CODE_MISSING, "MPI", command,
                       "a launcher started %d ranks, and this build has no MPI, by which they "
                       "meet; -DLOCKSTEP_MPI=ON builds it in, without a launcher it works, and "
                       "--launcher none runs each task alone",
                       size);
    snprintf(tasks, sizeof tasks, "%d tasks", size);
    if (ls_processes_stepped())
        return ls_fail(LS_CODE_MISSING, "launcher", tasks,
                       "srun started them, and MPI does not bring them together; srun --mpi=pmix, "
                       "or mpirun in the allocation, does, and --launcher none runs each task "
                       "alone");
    return ls_fail(LS_CODE_MISSING, "launcher", tasks,
                   "a launcher started them, and MPI does not bring them together; this MPI's own "
                   "mpirun does, and --launcher none runs each task alone");
}
