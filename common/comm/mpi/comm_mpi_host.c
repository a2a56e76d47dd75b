/* SPDX-License-Identifier: MIT */
/*
 * Host calls of the MPI back end. A message is a header, then its bytes; whoever waits for one
 * takes what has come to this process from MPI into one list of the group, where its members look.
 * So a sender can take what comes to it while it waits, and senders in a ring end. Calls that all
 * members make together meet in each process first; the last to come meets the other processes,
 * through process 0. For set-up and parameter servers; queues have operations (comm_mpi.c).
 */
#include "common/comm/mpi/comm_mpi.h"

#include "common/base/clock.h"

#include <stdlib.h>
#include <string.h>

enum { BODY_MOST = 1 << 30, TAG_MEET = -1, TAG_MET = -2 };

/* ---- Messages ------------------------------------------------------------------------------- */

static mpi_wait begin_wait(mpi_comm *comm, const char *what, int peer, size_t bytes)
{
    return (mpi_wait){
        .comm = comm, .what = what, .peer = peer, .bytes = bytes, .since_ns = ls_clock_ns()};
}

static ls_status check_rank(const ls_comm *comm, int rank)
{
    if (rank >= 0 && rank < comm->size)
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, "communicator", "message", "no rank %d; ranks are 0 to %d", rank,
                   comm->size - 1);
}

static void keep_message(mpi_group *group, mpi_message *message)
{
    message->next = NULL;
    pthread_mutex_lock(&group->mutex);
    *group->messages_end = message;
    group->messages_end = &message->next;
    pthread_cond_broadcast(&group->changed);
    pthread_mutex_unlock(&group->mutex);
}

/* Takes a message that the probe has found; its bytes follow from the same process. */
static ls_status take_in(mpi_group *group, MPI_Message *found, int process)
{
    mpi_header header;
    LS_TRY(ls_comm_mpi_check(
        MPI_Mrecv(&header, (int)sizeof header, MPI_BYTE, found, MPI_STATUS_IGNORE), "MPI_Mrecv"));
    ls_comm_mpi_heard(group, process, ls_clock_ns());
    mpi_message *message = malloc(sizeof *message + header.bytes);
    if (!message)
        return ls_fail_memory("message", header.bytes);
    message->header = header;
    char *body = (char *)(message + 1);
    for (size_t done = 0; done < header.bytes; done += BODY_MOST) {
        size_t left = header.bytes - done;
        int error = MPI_Recv(body + done, left < BODY_MOST ? (int)left : BODY_MOST, MPI_BYTE,
                             process, ls_comm_mpi_host_tag(group), group->comm, MPI_STATUS_IGNORE);
        if (error != MPI_SUCCESS) {
            free(message);
            return ls_comm_mpi_check(error, "MPI_Recv");
        }
    }
    keep_message(group, message);
    return LS_OK;
}

/* All messages that have come to this process go into its list. One thread at a time: a header's
 * bytes are the next message from there. */
static ls_status pull(mpi_group *group)
{
    ls_status status = LS_OK;
    if (pthread_mutex_trylock(&group->pulling))
        return LS_OK;
    for (int flag = 1; flag && !status;) {
        MPI_Message found;
        MPI_Status from;
        status = ls_comm_mpi_check(MPI_Improbe(MPI_ANY_SOURCE, ls_comm_mpi_host_tag(group),
                                               group->comm, &flag, &found, &from),
                                   "MPI_Improbe");
        if (!status && flag)
            status = take_in(group, &found, from.MPI_SOURCE);
    }
    pthread_mutex_unlock(&group->pulling);
    return status;
}

/* Puts header and bytes on their way; `requests` has room for 1 + the parts of the body. */
static ls_status post_message(mpi_group *group, int process, const mpi_header *header,
                              const void *data, MPI_Request *requests, int *count)
{
    const int tag = ls_comm_mpi_host_tag(group);
    pthread_mutex_lock(&group->sending);
    ls_status status = ls_comm_mpi_check(MPI_Isend(header, (int)sizeof *header, MPI_BYTE, process,
                                                   tag, group->comm, &requests[(*count)++]),
                                         "MPI_Isend");
    for (size_t done = 0; done < header->bytes && !status; done += BODY_MOST) {
        size_t left = header->bytes - done;
        status = ls_comm_mpi_check(MPI_Isend((const char *)data + done,
                                             left < BODY_MOST ? (int)left : BODY_MOST, MPI_BYTE,
                                             process, tag, group->comm, &requests[(*count)++]),
                                   "MPI_Isend");
    }
    pthread_mutex_unlock(&group->sending);
    return status;
}

/* Sends to a process, and waits until the memory is free again. */
static ls_status send_to(mpi_comm *comm, int process, const mpi_header *header, const void *data)
{
    mpi_group *group = comm->group;
    mpi_wait wait = begin_wait(comm, "a message to be taken", header->to, header->bytes);
    size_t parts = 2 + header->bytes / BODY_MOST;
    MPI_Request *requests = malloc(parts * sizeof *requests);
    int count = 0, flag = 0;
    if (!requests)
        return ls_fail_memory("message", parts * sizeof *requests);
    ls_status status = post_message(group, process, header, data, requests, &count);
    while (!status && !flag) {
        status = ls_comm_mpi_check(MPI_Testall(count, requests, &flag, MPI_STATUSES_IGNORE),
                                   "MPI_Isend");
        if (!status && !flag)
            status = pull(group);
        if (!status && !flag)
            status = ls_comm_mpi_pause(&wait);
    }
    ls_comm_mpi_end_wait(group);
    for (int i = 0; status && i < count; i++)
        if (requests[i] != MPI_REQUEST_NULL)
            MPI_Request_free(&requests[i]);
    free(requests);
    return status;
}

ls_status ls_comm_mpi_send(ls_comm *base, int to, int tag, const void *data, size_t bytes)
{
    mpi_comm *comm = (mpi_comm *)base;
    mpi_group *group = comm->group;
    const mpi_header header = {.from = base->rank, .to = to, .tag = tag, .bytes = bytes};
    LS_TRY(check_rank(base, to));
    if (ls_comm_mpi_is_abandoned(group))
        return ls_comm_mpi_abandoned(comm);
    ls_comm_mpi_count(comm, 1, bytes);
    if (group->places[to].process != group->process)
        return send_to(comm, group->places[to].process, &header, data);
    mpi_message *message = malloc(sizeof *message + bytes);
    if (!message)
        return ls_fail_memory("message", bytes);
    message->header = header;
    if (bytes)
        memcpy(message + 1, data, bytes);
    keep_message(group, message);
    return LS_OK;
}

/* With the mutex held: where the first message hangs that is for `to`, of this tag, from `from` or
 * (-1) from any; NULL. */
static mpi_message **find_message(mpi_group *group, int to, int from, int tag)
{
    for (mpi_message **at = &group->messages; *at; at = &(*at)->next) {
        const mpi_header *h = &(*at)->header;
        if (h->to == to && h->tag == tag && (from < 0 || h->from == from))
            return at;
    }
    return NULL;
}

/* Takes such a message out of the list, for the caller to free; NULL: there is none. */
static mpi_message *take_out(mpi_group *group, int to, int from, int tag)
{
    pthread_mutex_lock(&group->mutex);
    mpi_message **at = find_message(group, to, from, tag), *message = at ? *at : NULL;
    if (at) {
        *at = message->next;
        if (!*at)
            group->messages_end = at;
    }
    pthread_mutex_unlock(&group->mutex);
    return message;
}

static ls_status take_message(mpi_comm *comm, const mpi_header *wanted, mpi_message **out)
{
    mpi_wait wait = begin_wait(comm, "a message", wanted->from, wanted->bytes);
    while (!(*out = take_out(comm->group, wanted->to, wanted->from, wanted->tag))) {
        LS_TRY(pull(comm->group));
        if ((*out = take_out(comm->group, wanted->to, wanted->from, wanted->tag)))
            break;
        LS_TRY(ls_comm_mpi_pause(&wait));
    }
    ls_comm_mpi_end_wait(comm->group);
    return LS_OK;
}

ls_status ls_comm_mpi_receive_any(ls_comm *base, int tag, void *data, size_t capacity, int *from,
                                  size_t *bytes)
{
    const mpi_header wanted = {.from = -1, .to = base->rank, .tag = tag};
    mpi_message *message;
    LS_TRY(take_message((mpi_comm *)base, &wanted, &message));
    const mpi_header came = message->header;
    ls_status status = LS_OK;
    if (came.bytes > capacity)
        status = ls_fail(LS_CODE_USAGE, "communicator", "message",
                         "%zu bytes came from rank %d, and there is room for %zu; make room",
                         came.bytes, came.from, capacity);
    else if (came.bytes)
        memcpy(data, message + 1, came.bytes);
    if (!status) {
        *from = came.from;
        *bytes = came.bytes;
    }
    free(message);
    return status;
}

/* From a member, or (to -1) a process: so many bytes. */
static ls_status receive_from(mpi_comm *comm, const mpi_header *wanted, void *data)
{
    mpi_message *message;
    LS_TRY(take_message(comm, wanted, &message));
    ls_status status = LS_OK;
    if (message->header.bytes != wanted->bytes)
        status = ls_fail(LS_CODE_USAGE, "communicator", "message",
                         "%zu bytes came from rank %d, where %zu are received; send as many",
                         message->header.bytes, wanted->from, wanted->bytes);
    else if (wanted->bytes)
        memcpy(data, message + 1, wanted->bytes);
    free(message);
    return status;
}

ls_status ls_comm_mpi_receive(ls_comm *base, int from, int tag, void *data, size_t bytes)
{
    const mpi_header wanted = {.from = from, .to = base->rank, .tag = tag, .bytes = bytes};
    LS_TRY(check_rank(base, from));
    return receive_from((mpi_comm *)base, &wanted, data);
}

ls_status ls_comm_mpi_test_any(ls_comm *base, int tag, bool *ready)
{
    mpi_comm *comm = (mpi_comm *)base;
    LS_TRY(pull(comm->group));
    pthread_mutex_lock(&comm->group->mutex);
    *ready = find_message(comm->group, base->rank, -1, tag) != NULL;
    pthread_mutex_unlock(&comm->group->mutex);
    if (!*ready && ls_comm_mpi_is_abandoned(comm->group))
        return ls_comm_mpi_abandoned(comm);
    return LS_OK;
}

/* ---- All members together ------------------------------------------------------------------- */

/* Every process's bytes, of each as many, in order, to all. By one member of each. */
static ls_status meet_processes(mpi_comm *comm, const void *mine, size_t bytes, void *all)
{
    mpi_group *group = comm->group;
    const size_t total = bytes * (size_t)group->processes;
    const mpi_header meet = {.from = group->process, .to = -1, .tag = TAG_MEET, .bytes = bytes};
    if (group->process > 0) {
        const mpi_header met = {.from = 0, .to = -1, .tag = TAG_MET, .bytes = total};
        LS_TRY(send_to(comm, 0, &meet, mine));
        return receive_from(comm, &met, all);
    }
    memcpy(all, mine, bytes);
    for (int p = 1; p < group->processes; p++) {
        const mpi_header from = {.from = p, .to = -1, .tag = TAG_MEET, .bytes = bytes};
        LS_TRY(receive_from(comm, &from, (char *)all + (size_t)p * bytes));
    }
    for (int p = 1; p < group->processes; p++) {
        const mpi_header met = {.from = 0, .to = -1, .tag = TAG_MET, .bytes = total};
        LS_TRY(send_to(comm, p, &met, all));
    }
    return LS_OK;
}

/* With the mutex held, which is let go meanwhile: waits for all members of this process; the last
 * one calls `finish`, whose failure lets everybody go. */
static ls_status meet(mpi_comm *comm, ls_status (*finish)(mpi_comm *comm))
{
    mpi_group *group = comm->group;
    mpi_meeting *meeting = &group->meeting;
    uint64_t round = meeting->rounds;
    if (++meeting->entered == group->locals) {
        meeting->entered = 0;
        pthread_mutex_unlock(&group->mutex);
        ls_status status = finish(comm);
        if (status)
            ls_comm_mpi_abandon(&comm->base);
        pthread_mutex_lock(&group->mutex);
        if (!status)
            meeting->rounds++;
        pthread_cond_broadcast(&group->changed);
        return status;
    }
    while (meeting->rounds == round && !ls_comm_mpi_is_abandoned(group))
        pthread_cond_wait(&group->changed, &group->mutex);
    return meeting->rounds != round ? LS_OK : ls_comm_mpi_abandoned(comm);
}

static ls_status finish_agree(mpi_comm *comm)
{
    mpi_group *group = comm->group;
    const size_t n = (size_t)group->processes;
    const ls_code mine = group->meeting.worst;
    ls_code *all = calloc(n, sizeof *all);
    if (!all)
        return ls_fail_memory("communicator", n * sizeof *all);
    group->meeting.worst = LS_CODE_OK;
    group->meeting.result = LS_CODE_OK;
    ls_status status = meet_processes(comm, &mine, sizeof mine, all);
    for (size_t p = 0; p < n && !status; p++)
        if (all[p] > group->meeting.result)
            group->meeting.result = all[p];
    free(all);
    return status;
}

ls_status ls_comm_mpi_agree(ls_comm *base, ls_code mine, ls_code *worst)
{
    mpi_comm *comm = (mpi_comm *)base;
    mpi_meeting *meeting = &comm->group->meeting;
    pthread_mutex_lock(&comm->group->mutex);
    if (mine > meeting->worst)
        meeting->worst = mine;
    ls_status status = meet(comm, finish_agree);
    if (!status)
        *worst = meeting->result;
    pthread_mutex_unlock(&comm->group->mutex);
    return status;
}

ls_status ls_comm_mpi_barrier(ls_comm *base)
{
    ls_code worst;
    return ls_comm_mpi_agree(base, LS_CODE_OK, &worst);
}

/* ---- Splitting ------------------------------------------------------------------------------ */

/* What all members asked for; asked[2 m] is member m's color, asked[2 m + 1] its key. */
typedef struct splitting {
    mpi_comm *comm;
    int *asked;     /* [2 size] */
    int *order;     /* [size] members of the color at hand, in their new order */
    int *processes; /* [processes] of these, ascending */
    int members, process_count;
} splitting;

/* Whether member a comes before b among those of their color. */
static bool comes_before(const int *asked, int a, int b)
{
    return asked[2 * a + 1] < asked[2 * b + 1] || (asked[2 * a + 1] == asked[2 * b + 1] && a < b);
}

static void choose_color(splitting *s, int color)
{
    const mpi_group *group = s->comm->group;
    s->members = s->process_count = 0;
    for (int m = 0; m < group->size; m++) {
        if (s->asked[2 * m] != color)
            continue;
        int at = s->members++;
        for (; at > 0 && comes_before(s->asked, m, s->order[at - 1]); at--)
            s->order[at] = s->order[at - 1];
        s->order[at] = m;
    }
    for (int p = 0; p < group->processes; p++) {
        bool here = false;
        for (int i = 0; i < s->members; i++)
            here |= group->places[s->order[i]].process == p;
        if (here)
            s->processes[s->process_count++] = p;
    }
}

static mpi_place new_place(const splitting *s, int index)
{
    const mpi_group *group = s->comm->group;
    const int process = group->places[s->order[index]].process;
    mpi_place place = {0, 0};
    while (s->processes[place.process] != process)
        place.process++;
    for (int before = 0; before < index; before++)
        place.local += group->places[s->order[before]].process == process;
    return place;
}

/* The new group's ends of this process's members. */
static ls_status open_ends(const splitting *s, MPI_Comm mpi)
{
    mpi_group *group = s->comm->group, *made = NULL;
    mpi_place *places = calloc((size_t)s->members, sizeof *places);
    for (int i = 0; places && i < s->members; i++)
        places[i] = new_place(s, i);
    LS_TRY(ls_comm_mpi_group(mpi, places, s->members, group->world, &made));
    int local = 0;
    ls_status status = LS_OK;
    for (int i = 0; i < s->members && !status; i++) {
        const mpi_place *old = &group->places[s->order[i]];
        if (old->process == group->process)
            status = ls_comm_mpi_end(made, local++, group->devices[old->local],
                                     &group->meeting.split[old->local]);
    }
    return status;
}

/* Colors one after the other, in the same order everywhere; MPI makes a communicator of the
 * processes that have members of it. */
static ls_status open_color(const splitting *s)
{
    const mpi_group *group = s->comm->group;
    MPI_Group all, some;
    MPI_Comm made;
    bool mine = false;
    for (int i = 0; i < s->process_count; i++)
        mine |= s->processes[i] == group->process;
    if (!mine)
        return LS_OK;
    LS_TRY(ls_comm_mpi_check(MPI_Comm_group(group->comm, &all), "MPI_Comm_group"));
    MPI_Group_incl(all, s->process_count, s->processes, &some);
    ls_status status = ls_comm_mpi_check(
        MPI_Comm_create_group(group->comm, some, ls_comm_mpi_control_tag(group) + 1, &made),
        "MPI_Comm_create_group");
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    return status ? status : open_ends(s, made);
}

static ls_status open_colors(splitting *s)
{
    const mpi_group *group = s->comm->group;
    const size_t row = 2 * (size_t)group->most_locals;
    int *rows = calloc((size_t)group->processes * row, sizeof *rows);
    if (!rows)
        return ls_fail_memory("communicator", (size_t)group->processes * row * sizeof *rows);
    ls_status status = meet_processes(s->comm, group->meeting.asked, row * sizeof *rows, rows);
    for (int m = 0; m < group->size; m++) {
        const mpi_place *place = &group->places[m];
        memcpy(&s->asked[2 * m], &rows[(size_t)place->process * row + 2 * (size_t)place->local],
               2 * sizeof(int));
    }
    free(rows);
    for (int last = -1; !status;) {
        int color = -1; /* the lowest above the last one */
        for (int m = 0; m < group->size; m++)
            if (s->asked[2 * m] > last && (color < 0 || s->asked[2 * m] < color))
                color = s->asked[2 * m];
        if (color < 0)
            break;
        choose_color(s, color);
        status = open_color(s);
        last = color;
    }
    return status;
}

static ls_status finish_split(mpi_comm *comm)
{
    const mpi_group *group = comm->group;
    const size_t size = (size_t)group->size, processes = (size_t)group->processes;
    splitting s = {.comm = comm,
                   .asked = calloc(2 * size, sizeof *s.asked),
                   .order = calloc(size, sizeof *s.order),
                   .processes = calloc(processes, sizeof *s.processes)};
    memset(group->meeting.split, 0, (size_t)group->locals * sizeof(ls_comm *));
    ls_status status = s.asked && s.order && s.processes
                           ? open_colors(&s)
                           : ls_fail_memory("communicator", 2 * size * sizeof *s.asked);
    free(s.asked);
    free(s.order);
    free(s.processes);
    return status;
}

ls_status ls_comm_mpi_split(ls_comm *base, int color, int key, ls_comm **out)
{
    mpi_comm *comm = (mpi_comm *)base;
    mpi_group *group = comm->group;
    const int local = group->places[base->rank].local;
    pthread_mutex_lock(&group->mutex);
    group->meeting.asked[2 * local] = color;
    group->meeting.asked[2 * local + 1] = key;
    ls_status status = meet(comm, finish_split);
    if (!status)
        *out = group->meeting.split[local];
    pthread_mutex_unlock(&group->mutex);
    return status;
}
