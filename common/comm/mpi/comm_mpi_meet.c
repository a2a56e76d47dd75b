/* SPDX-License-Identifier: MIT */
/*
 * Host calls that all members of the MPI back end make together: they meet in each process first;
 * the last to come meets the other processes, through process 0. A split makes the communicators of
 * all colors one after the other, in the same order everywhere.
 */
#include "common/comm/mpi/comm_mpi.h"

#include <stdlib.h>
#include <string.h>

enum { TAG_MEET = -1, TAG_MET = -2 };

/* ---- All members together ------------------------------------------------------------------- */

/* Every process's bytes, of each as many, in order, to all. By one member of each. */
static ls_status meet_processes(mpi_comm *comm, const void *mine, size_t bytes, void *all)
{
    mpi_group *group = comm->group;
    const size_t total = bytes * (size_t)group->processes;
    const mpi_header meet = {.from = group->process, .to = -1, .tag = TAG_MEET, .bytes = bytes};
    if (group->process > 0) {
        const mpi_header met = {.from = 0, .to = -1, .tag = TAG_MET, .bytes = total};
        LS_TRY(ls_comm_mpi_send_to(comm, 0, &meet, mine));
        return ls_comm_mpi_receive_from(comm, &met, all);
    }
    memcpy(all, mine, bytes);
    for (int p = 1; p < group->processes; p++) {
        const mpi_header from = {.from = p, .to = -1, .tag = TAG_MEET, .bytes = bytes};
        LS_TRY(ls_comm_mpi_receive_from(comm, &from, (char *)all + (size_t)p * bytes));
    }
    for (int p = 1; p < group->processes; p++) {
        const mpi_header met = {.from = 0, .to = -1, .tag = TAG_MET, .bytes = total};
        LS_TRY(ls_comm_mpi_send_to(comm, p, &met, all));
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
