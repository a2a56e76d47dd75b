/* SPDX-License-Identifier: MIT */
/* World: communication between processes outside of steps; see world.h. */
#include "bench/train/world.h"
#include "common/base/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 1024 };

/* What a rank contributes when all ranks agree. */
typedef struct saying {
    ls_code code;
    int stop, follows, final; /* its failure follows from another's; it ends the sweep */
    uint64_t number;
    char host[64], text[LINE];
} saying;

static void name_host(char host[64])
{
    if (gethostname(host, 64))
        memcpy(host, "unknown", sizeof "unknown");
    host[63] = 0;
}

/* Gathers every rank's contribution, owned by the caller. */
static ls_status hear_all(ls_comm *comm, const saying *own, saying **out)
{
    LS_TRY(ls_allocate("ranks", out, (size_t)comm->size, sizeof **out));
    return ls_comm_collect(comm, own, sizeof *own, *out);
}

static ls_status word_failure(const saying *all, int ranks, int culprit)
{
    const saying *c = &all[culprit];
    bool everybody = true;
    char rank[100];
    for (int r = 0; r < ranks; r++)
        everybody &= all[r].code == c->code && strcmp(all[r].text, c->text) == 0;
    snprintf(rank, sizeof rank, "rank %d on %s", culprit, c->host);
    ls_status status =
        ls_fail(c->code, everybody || culprit == 0 ? NULL : rank, NULL, "%s", c->text);
    return c->final ? ls_status_final(status) : status;
}

ls_status ls_world_turn(ls_comm *comm, ls_status own_status, uint64_t *number, bool *stop)
{
    saying said = {
        .code = ls_status_code(own_status), .stop = stop && *stop, .number = number ? *number : 0};
    ls_auto saying *all = NULL;
    if (!comm)
        return own_status;
    said.follows = ls_status_is_consequence(own_status);
    said.final = ls_status_is_final(own_status);
    name_host(said.host);
    if (own_status)
        snprintf(said.text, sizeof said.text, "%s", ls_status_text(own_status));
    ls_status status = hear_all(comm, &said, &all);
    if (status && own_status) { /* the first failure says more than "nobody answers" */
        ls_status_free(status);
        return own_status;
    }
    LS_TRY(status);
    ls_status_free(own_status);
    /* The rank whose failure is reported: the first that does not follow from another's. */
    int culprit = -1;
    for (int r = 0; r < comm->size; r++)
        if (all[r].code && (culprit < 0 || (all[culprit].follows && !all[r].follows)))
            culprit = r;
    for (int r = 0; r < comm->size && stop; r++)
        *stop |= all[r].stop;
    if (number)
        *number = all[0].number;
    return culprit >= 0 ? word_failure(all, comm->size, culprit) : LS_OK;
}

ls_status ls_world_agree(ls_comm *comm, ls_status own_status)
{
    ls_code worst = LS_CODE_OK;
    if (!comm)
        return own_status;
    ls_status heard = ls_comm_worst(comm, ls_status_code(own_status), &worst);
    if (heard || !worst) /* no failure, nothing to report */
        return ls_status_first(own_status, heard);
    return ls_world_turn(comm, own_status, NULL, NULL);
}

ls_status ls_world_same(ls_comm *comm, const char *what, uint64_t value, const char *text)
{
    saying said = {.number = value};
    ls_auto saying *all = NULL;
    char rank[100];
    if (!comm)
        return LS_OK;
    name_host(said.host);
    snprintf(said.text, sizeof said.text, "%.300s", text ? text : "");
    LS_TRY(hear_all(comm, &said, &all));
    int other = 0;
    while (other < comm->size && all[other].number == all[0].number)
        other++;
    if (other == comm->size)
        return LS_OK;
    snprintf(rank, sizeof rank, "%d on %s", other, all[other].host);
    const char *open = text ? " (`" : "", *close = text ? "`)" : "";
    return ls_fail(LS_CODE_USAGE, "rank", rank,
                   "its %s%s%s%s differs from rank 0's%s%s%s; start all ranks with the same "
                   "program, options and files",
                   what, open, all[other].text, close, open, all[0].text, close);
}

ls_status ls_world_differs(ls_comm *comm, uint64_t value, int *rank)
{
    const saying said = {.number = value};
    ls_auto saying *all = NULL;
    *rank = -1;
    if (!comm)
        return LS_OK;
    LS_TRY(hear_all(comm, &said, &all));
    for (int r = comm->size; r-- > 1;)
        if (all[r].number != all[0].number)
            *rank = r;
    return LS_OK;
}

ls_status ls_world_gather_json(ls_comm *comm, const json_t *value, json_t **out)
{
    ls_auto char *text = value ? json_dumps(value, JSON_COMPACT) : NULL, *all = NULL;
    const size_t bytes = text ? strlen(text) + 1 : 0;
    const int ranks = comm ? comm->size : 1;
    *out = json_array();
    LS_TRY(ls_comm_gather(comm, text ? LS_OK : ls_fail_memory("ranks", bytes), text, bytes, &all,
                          NULL));
    const char *next = all;
    for (int r = 0; r < ranks && next; r++, next += strlen(next) + 1)
        if (json_array_append_new(*out, json_loads(next, 0, NULL)))
            return ls_fail_memory("ranks", strlen(next));
    return LS_OK;
}
