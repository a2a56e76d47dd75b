/* SPDX-License-Identifier: MIT */
/*
 * All-reduce `library`: the back end's own (MPI_Iallreduce, ncclAllReduce), and its own halves
 * (MPI_Ireduce_scatter and MPI_Iallgatherv; ncclReduceScatter and ncclAllGather). Only the library
 * knows its messages and its reduction order: there is no formula and no oracle, its traffic is not
 * counted, and the halves may add in another order than the whole.
 */
#include "common/comm/comm_parts.h"

static ls_status check(const ls_comm *comm)
{
    if (comm->linked)
        return ls_fail(LS_CODE_USAGE, "all-reduce", "library",
                       "MPI's own all-reduce sends messages that --link cannot delay; use "
                       "--allreduce ring, tree, halving-doubling, flat or auto");
    if (comm->backend->library)
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, "all-reduce", "library",
                   "--comm %s has no library with an all-reduce; use --allreduce direct, flat, "
                   "ring, tree or halving-doubling",
                   comm->backend->name);
}

static ls_status put_half(ls_comm *comm, ls_half half, const ls_allreduce_args *a, ls_op_list *ops)
{
    LS_TRY(check(comm));
    return ls_comm_add_all(comm, half, LS_BY_LIBRARY, a, ops);
}

static ls_status build(ls_comm *comm, const ls_allreduce_args *a, ls_op_list *ops)
{
    return put_half(comm, LS_HALVES, a, ops);
}

const ls_allreduce ls_allreduce_library = {
    .name = "library",
    .help = "the communicator's own (MPI_Iallreduce, one device per rank; ncclAllReduce)",
    .check = check,
    .build = build,
    .half = put_half,
};
