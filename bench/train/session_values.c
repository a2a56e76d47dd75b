/* SPDX-License-Identifier: MIT */
/*
 * The values of a session, block by block, so that no process needs room for the whole model: what
 * is read, checked, hashed and written of them is a loop over the same blocks in all processes.
 */
#include "bench/train/session.h"
#include "bench/train/world.h"
#include "common/base/digest.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ls_variables *variables_of(const ls_session *session)
{
    return &session->job.model->graph->variables;
}

/* Blocks of one variable after the other; a visit that fails is the last one here, but this process
 * goes on for the others. */
static ls_status each(ls_session *session, ls_values array, const size_t *order, float *block,
                      ls_values_visit *visit, void *context)
{
    const ls_variables *variables = variables_of(session);
    ls_status visited = LS_OK;
    for (size_t n = 0; n < variables->count; n++) {
        const ls_variable *v = &variables->items[order ? order[n] : n];
        for (ls_range at = {0}; ls_state_next(v->count, &at);) {
            const ls_range range = {v->offset + at.first, at.count};
            LS_TRY(session->run->functions->state(session->run, array, range, block));
            if (visit && !visited)
                visited = visit(context, range, block);
        }
    }
    return visited;
}

ls_status ls_session_each(ls_session *session, ls_values array, bool by_name,
                          ls_values_visit *visit, void *context)
{
    const ls_variables *variables = variables_of(session);
    ls_comm *comm = session->job.ranks.comm;
    const size_t most = variables->elements < LS_STATE_BLOCK ? variables->elements : LS_STATE_BLOCK;
    ls_auto size_t *order = NULL;
    ls_auto float *block = NULL;
    ls_status status = ls_allocate("values", &block, most, sizeof *block);
    if (!status && by_name)
        status = ls_variables_by_name(variables, &order);
    LS_TRY(ls_world_agree(comm, status));
    return ls_world_agree(comm, each(session, array, order, block, visit, context));
}

static ls_status copy(void *context, ls_range block, const float *values)
{
    float *all = context;
    memcpy(all + block.first, values, block.count * sizeof *values);
    return LS_OK;
}

ls_status ls_session_gather(ls_session *session, ls_values array, float *out)
{
    return ls_session_each(session, array, false, out ? copy : NULL, out);
}

/* ---- What is looked for in the parameters ---------------------------------------------------- */

typedef struct looking {
    ls_session *session;
    ls_session_found *out;
    ls_digest *digest;
    float *other; /* [LS_STATE_BLOCK] what a device or a replica has of the block */
} looking;

/* Notes the first element that differs from `values`: as `form` says, on device or replica `who`.
 */
static void compare(const looking *l, ls_range block, const float *values, const char *form,
                    int who)
{
    size_t i = 0;
    while (i < block.count && ls_values_same((double)l->other[i], (double)values[i]))
        i++;
    if (i == block.count || *l->out->differs)
        return;
    const ls_variable *v = ls_variables_holding(variables_of(l->session), block.first + i);
    snprintf(l->out->differs, sizeof l->out->differs, form, v->name, block.first + i - v->offset,
             ls_unsigned_nan((double)l->other[i]), who, ls_unsigned_nan((double)values[i]));
}

/* Replicas that have separate parameters must have equal ones; what a device has must equal the
 * whole. The whole takes split layers from each place in turn, and shares in groups from the first
 * group. So what several devices have is compared. */
static ls_status compare_all(const looking *l, ls_range block, const float *values)
{
    const ls_session *session = l->session;
    ls_run *run = session->run;
    const size_t local = session->job.device_count / (size_t)ls_job_places(&session->job);
    const ls_mesh *mesh = &session->job.mesh;
    const int windows = session->job.parameters.windows;
    const bool parts = mesh->rest == LS_SLICE || mesh->rest == LS_POSITION ||
                       (windows && mesh->size[LS_GROUP] > 1);
    const bool own = ls_strategy_reduces(run->strategy) && !ls_strategy_alone(run->strategy) &&
                     !windows && !parts;
    for (size_t i = 0; i < session->job.device_count && parts; i++) {
        memcpy(l->other, values, block.count * sizeof *values);
        LS_TRY(run->functions->gather_device(run, (int)i, false, block, l->other));
        compare(
            l, block, values,
            "%s element %zu, which several devices have, is %.9g on device %d, but %.9g on another",
            ls_job_member(&session->job, i));
    }
    for (size_t i = 1; i < local && own; i++) {
        memcpy(l->other, values, block.count * sizeof *values); /* of masters it has its share */
        LS_TRY(run->functions->gather_replica(run, (int)i, block, l->other));
        compare(l, block, values, "%s element %zu is %.9g on replica %d, but %.9g on replica 0",
                (int)i);
    }
    return LS_OK;
}

static ls_status look(void *context, ls_range block, const float *values)
{
    const looking *l = context;
    ls_digest_add(l->digest, values, block.count * sizeof *values);
    const size_t first = ls_first_not_finite(values, block.count);
    if (first < block.count && block.first + first < l->out->infinite)
        l->out->infinite = block.first + first;
    return compare_all(l, block, values);
}

ls_status ls_session_look(ls_session *session, ls_session_found *out)
{
    ls_auto float *other = NULL;
    ls_closing(ls_digest_close) ls_digest *digest = NULL;
    *out = (ls_session_found){.infinite = SIZE_MAX};
    ls_status status = ls_allocate("values", &other, LS_STATE_BLOCK, sizeof *other);
    status = status ? status : ls_digest_open(&digest);
    LS_TRY(ls_world_agree(session->job.ranks.comm, status));
    looking l = {.session = session, .out = out, .digest = digest, .other = other};
    LS_TRY(ls_session_each(session, LS_VALUES, true, look, &l));
    ls_digest_text(digest, out->digest);
    return LS_OK;
}

/* ---- A file of parameters -------------------------------------------------------------------- */

typedef struct saving {
    ls_session *session;
    FILE *stream;
    bool begun;
} saving;

static ls_status write_block(void *context, ls_range block, const float *values)
{
    const saving *s = context;
    fwrite(values, sizeof *values, block.count, s->stream);
    return LS_OK;
}

static ls_status write_all(FILE *stream, void *context)
{
    saving *s = context;
    s->stream = stream;
    s->begun = true;
    return ls_session_each(s->session, LS_VALUES, false, write_block, s);
}

ls_status ls_session_save(ls_session *session, const char *path)
{
    saving s = {.session = session};
    ls_status status = LS_OK;
    if (path)
        status = ls_variables_save_by(variables_of(session), path, write_all, &s);
    if (!s.begun) /* the others' blocks */
        status = ls_status_first(status, ls_session_each(session, LS_VALUES, false, NULL, NULL));
    return status;
}
