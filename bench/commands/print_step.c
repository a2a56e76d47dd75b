/* SPDX-License-Identifier: MIT */
/* The tasks of a case's step; see run_parts.h. */
#include "bench/commands/run_parts.h"

#include "bench/output/standard_output.h"
#include "bench/train/world.h"
#include "common/base/grow.h"
#include "impl/step/run/run.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

static const char legend[] =
    "Tasks of one lane, a queue of a device, run one after the other, in this order. Besides, a\n"
    "task waits for the tasks of other lanes that it names; begin: for the end of the step "
    "before.\n"
    "Within an all-reduce its ends wait for each other. What a task writes it may read, too. "
    "Memory\n"
    "is the device's own where no other is named.\n";

/* With --quiet without the head. */
static void print_texts(const ls_plan_of_case *plan, bool quiet, const char *text, int ranks)
{
    if (!quiet)
        fprintf(ls_output(), "One step of %s, %s, as tasks.\n%s", plan->strategy->name,
                plan->config->model, legend);
    for (int r = 0; r < ranks; r++) {
        const bool first = quiet && r == 0;
        if (ranks > 1)
            fprintf(ls_output(), "%sRank %d of %d\n", first ? "" : "\n", r, ranks);
        fputs(text + (first && ranks == 1 && *text == '\n'), ls_output());
        text += strlen(text) + 1;
    }
}

static ls_status print_session(const ls_session *session, bool quiet)
{
    ls_comm *comm = session->job.ranks.comm;
    const int ranks = comm ? comm->size : 1;
    ls_auto char *own = NULL, *all = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&own, &size);
    ls_status status =
        stream ? ls_steps_list(session->run, stream) : ls_fail_memory("listing", BUFSIZ);
    if (stream && fclose(stream) && !status)
        status = ls_fail_memory("listing", size);
    LS_TRY(ls_comm_gather(comm, status, own, size + 1, &all, NULL));
    if (all)
        print_texts(session->plan, quiet, all, ranks);
    return LS_OK;
}

/* A step of CPU devices is listed in memory that is only counted, so that a model of any size has
 * one. GPUs cannot count. */
ls_status ls_print_step(ls_workplace *workplace, ls_plan_of_case *plan)
{
    ls_closing(ls_session_close) ls_session session = {0};
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* without training, huge pages only cost time */
    if (plan->devices->kind != LS_DEVICE_GPU) {
        LS_TRY(ls_session_open(workplace, plan, (ls_opening){.counted = true}, &session));
    } else {
        LS_TRY(ls_world_agree(plan->job.ranks.comm, ls_plan_draw(workplace, plan)));
        LS_TRY(ls_session_open(workplace, plan, (ls_opening){0}, &session));
    }
    return print_session(&session, workplace->request->log.level == LS_LOG_QUIET);
}
