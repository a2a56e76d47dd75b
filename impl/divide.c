/* SPDX-License-Identifier: MIT */
/* Division of a model; see divide.h. */
#include "impl/divide.h"

ls_status ls_divide(const ls_job *job, ls_graph_part *split, ls_graph_parts *parts)
{
    const ls_mesh mesh = ls_job_mesh(job);
    const ls_graph *graph = job->model->graph;
    const int chunks = ls_job_chunks(job);
    const int stages = chunks * mesh.size[LS_STAGE], slices = ls_job_splits(job);
    const bool placed = mesh.rest == LS_SLICE;
    *split = (ls_graph_part){0};
    *parts = (ls_graph_parts){0};
    if (slices > 1 || placed) {
        LS_TRY(ls_graph_split(graph, slices, job->division.sequence, NULL, split));
        split->graph->slices.rounded = !job->exact.on;
    }
    if (placed)
        LS_TRY(
            ls_graph_split_places(split, job->division.place, stages, mesh.size[LS_SLICE], parts));
    else if (mesh.rest == LS_STAGE)
        LS_TRY(split->graph ? ls_graph_split_cut(split, job->division.place, stages, parts)
                            : ls_graph_parts_open(graph, job->division.place, stages, parts));
    return chunks > 1 ? ls_graph_parts_merge(parts, parts->count / chunks) : LS_OK;
}
