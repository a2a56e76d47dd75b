/* SPDX-License-Identifier: MIT */
/* A build without MPI: there is one process; see processes.h. */
#include "common/comm/processes.h"

#include <stdlib.h>

bool ls_processes_built(void)
{
    return false;
}

const char *ls_processes_library_name(void)
{
    return NULL;
}

const char *ls_processes_library(char text[32])
{
    (void)text;
    return NULL;
}

bool ls_processes_take_pmi(void)
{
    return false;
}

ls_status ls_processes_start(uint64_t timeout_ns, void (*late)(void), ls_processes *out)
{
    (void)timeout_ns;
    (void)late;
    *out = ls_processes_alone();
    return LS_OK;
}

void ls_processes_set_timeout(const ls_processes *processes, uint64_t timeout_ns)
{
    (void)processes;
    (void)timeout_ns;
}

void ls_processes_watch(const ls_processes *processes, bool (*ending)(void),
                        void (*print)(const char *line))
{
    (void)processes;
    (void)ending;
    (void)print;
}

void ls_processes_step(const ls_processes *processes, uint64_t first, uint64_t count, bool alike)
{
    (void)processes;
    (void)first;
    (void)count;
    (void)alike;
}

ls_status ls_processes_pulse(const ls_processes *processes, bool (*moved)(void *context),
                             void *context)
{
    (void)processes;
    (void)moved;
    (void)context;
    return LS_OK;
}

bool ls_processes_lost(const ls_processes *processes)
{
    (void)processes;
    return false;
}

void ls_processes_autopsy(const ls_processes *processes)
{
    (void)processes;
}

void ls_processes_end(ls_processes *processes, bool in_order, int exit_status)
{
    (void)processes;
    if (!in_order)
        _Exit(exit_status);
}
