/* SPDX-License-Identifier: MIT */
/* Division of a job's model over the stages and slices of its mesh. */
#pragma once

#include "common/nn/divide/graph_split.h"
#include "impl/job.h"

/** Sets `split` to the model with layers in slices (graph NULL if none is), and `parts` to the
 * parts of a replica's places (count 0 if it is not divided by nodes or slices). Close both also on
 * failure. */
ls_status ls_divide(const ls_job *job, ls_graph_part *split, ls_graph_parts *parts);
