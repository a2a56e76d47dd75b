/* SPDX-License-Identifier: MIT */
/* The options of `ps`, and the jobs that it refuses. */
#include "impl/ps/ps_layout.h"
#include "impl/strategies.h"
#include "impl/strategies/ps.h"

#include <string.h>

static const ls_declared_option mode = {
    "ps-mode",
    "sync|async|ssp",
    "sync",
    "",
    "sync: servers apply the gradients of a step together; async: each one when it arrives; ssp: "
    "like async, with bounded staleness",
    .type = LS_DECLARED_WORD,
    .words = (const char *const[]){"sync", "async", "ssp", NULL}};
static const ls_declared_option staleness = {"ps-staleness",
                                             "K",
                                             "2",
                                             "steps",
                                             "steps that a worker may be ahead of the slowest one",
                                             .low = 0,
                                             .high = 1000000,
                                             .when = "--ps-mode ssp"};
static const ls_declared_option servers = {"ps-servers",
                                           "N",
                                           "1",
                                           "ranks",
                                           "number of first ranks that are servers",
                                           .low = 1,
                                           .high = 1023,
                                           .when = "several ranks"};
static const ls_declared_option colocate = {"ps-colocate",
                                            "yes|no",
                                            "no",
                                            "",
                                            "yes: every rank is a worker, also the servers",
                                            .type = LS_DECLARED_SWITCH,
                                            .when = "several ranks"};
static const ls_declared_option shard = {"ps-shard",
                                         "bytes|variable",
                                         "bytes",
                                         "",
                                         "how variables are spread over servers; bytes: evenly, by "
                                         "cutting variables; variable: uncut, balanced greedily",
                                         .type = LS_DECLARED_WORD,
                                         .words = (const char *const[]){"bytes", "variable", NULL},
                                         .when = "several ranks"};
static const ls_declared_option backups = {
    "ps-backup-workers",
    "B",
    "0",
    "workers",
    "number of workers whose gradients a step does not wait for (the slowest)",
    .low = 0,
    .high = 1022,
    .when = "--ps-mode sync"};

const ls_declared_option *const ls_ps_declared[] = {
    &mode, &staleness, &servers, &colocate, &shard, &backups, &ls_option_variable_device, NULL};

bool ls_ps_has(const ls_declared_values *values, int ranks, const ls_declared_option *option)
{
    const int64_t m = ls_declared_number(values, &mode);
    if (option == &staleness)
        return m == LS_PS_SSP;
    if (option == &backups)
        return m == LS_PS_SYNC;
    if (option == &ls_option_variable_device) /* the server in one process */
        return ranks == 1;
    return option == &mode || ranks > 1;
}

void ls_ps_resolve(ls_job *job, int ranks)
{
    const ls_declared_values *v = &job->options;
    job->ps = (ls_ps_options){.ranks = ranks,
                              .mode = (ls_ps_mode)ls_declared_number(v, &mode),
                              .staleness = (int)ls_declared_number(v, &staleness),
                              .backups = (int)ls_declared_number(v, &backups),
                              .servers = (int)ls_declared_number(v, &servers),
                              .colocate = ls_declared_number(v, &colocate),
                              .by_variable = ls_declared_number(v, &shard)};
    job->update.own_mean = job->ps.mode != LS_PS_SYNC; /* gradients are applied one by one */
}

/* Refuses wrong numbers of ranks and servers; in one process, the only server is a device. */
ls_status ls_ps_check(const ls_outline *o)
{
    const bool device = strcmp(o->comm, "device") == 0, exact = o->job->exact.on;
    const ls_ps_options *ps = &o->job->ps;
    const int workers = ls_ps_workers(ps, (int)o->devices * o->ranks);
    if (device && ls_ps_by_arrival(ps))
        return ls_ps_refuse_arrival(o->comm);
    if (strcmp(o->comm, "thread") != 0 && strcmp(o->comm, "mpi") != 0 && !device)
        return ls_fail(
            LS_CODE_USAGE, "option", "--comm",
            "'%s' has no messages between two ranks, which servers need; use --comm thread, "
            "mpi, device or auto",
            o->comm);
    if (o->ranks == 1 && (ps->servers != 1 || ps->colocate))
        return ls_fail(LS_CODE_USAGE, "option", ps->colocate ? "--ps-colocate" : "--ps-servers",
                       "applies only to several ranks (in one process, the device that holds the "
                       "variables is the server); use --ranks N or mpirun -n N");
    if (exact && ps->mode != LS_PS_SYNC)
        return ls_fail(LS_CODE_USAGE, "option", "--ps-mode",
                       "'async' and 'ssp' apply gradients one by one, so no sum could be exact; "
                       "use --reduce fast, or --ps-mode sync");
    if (exact && ps->backups)
        return ls_fail(LS_CODE_USAGE, "option", "--ps-backup-workers",
                       "leaves out gradients, but --reduce exact sums all gradients; use --reduce "
                       "fast, or --ps-backup-workers 0");
    if (o->job->update.clip > 0 && ps->backups)
        return ls_fail(LS_CODE_USAGE, "option", "--ps-backup-workers",
                       "servers may leave out the gradients of different workers, but --clip needs "
                       "one norm over all servers; use --clip none, or --ps-backup-workers 0");
    if (o->ranks > 1 && o->devices != 1)
        return ls_fail(
            LS_CODE_USAGE, "option", "--devices",
            "--strategy ps has one device per rank, not %zu; use --devices 1 with more ranks",
            o->devices);
    if (o->ranks > 1 && ps->colocate && ps->servers > o->ranks)
        return ls_fail(
            LS_CODE_USAGE, "option", "--ps-servers",
            "%d servers are more than the %d ranks; use at most as many servers as ranks",
            ps->servers, o->ranks);
    if (o->ranks > 1 && !ps->colocate && ps->servers >= o->ranks)
        return ls_fail(LS_CODE_USAGE, "option", "--ps-servers",
                       "%d servers leave no worker among %d ranks; use at least %d ranks, or "
                       "--ps-colocate yes",
                       ps->servers, o->ranks, ps->servers + 1);
    if (ps->backups && ps->backups >= workers)
        return ls_fail(LS_CODE_USAGE, "option", "--ps-backup-workers",
                       "the backups (%d) must be fewer than the workers (%d); use "
                       "--ps-backup-workers of at most %d, or more workers",
                       ps->backups, workers, workers - 1);
    return LS_OK;
}
