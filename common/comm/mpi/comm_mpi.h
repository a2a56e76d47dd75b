/* SPDX-License-Identifier: MIT */
/*
 * The MPI back end's own types, shared by its files: queues (comm_mpi.c), waiting
 * (comm_mpi_wait.c), host calls (comm_mpi_host.c), groups (comm_mpi_open.c), processes
 * (mpi_processes.c).
 *
 * A rank is a member: a device of some process. Members of one process talk through MPI, too, to
 * their own process: one path for all, and which member a message is from and for is in its tag.
 */
#ifndef LS_COMMON_COMM_MPI_COMM_MPI_H
#define LS_COMMON_COMM_MPI_COMM_MPI_H

#include "common/comm/comm_parts.h"

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

/* Where a member is: process of the group's MPI communicator, and which of its members. */
typedef struct mpi_place {
    int process, local;
} mpi_place;

/* What goes before the bytes of a host message. to -1: between processes, `from` is one. */
typedef struct mpi_header {
    int from, to, tag;
    size_t bytes;
} mpi_header;

/* A host message that has come; its bytes follow. */
typedef struct mpi_message {
    struct mpi_message *next;
    mpi_header header;
} mpi_message;

/* Host calls that all members make together; the last one of a process meets the others'. */
typedef struct mpi_meeting {
    uint64_t rounds; /* finished */
    int entered;
    ls_code worst, result;
    int *asked;      /* [2 most_locals] color and key of each member of this process */
    ls_comm **split; /* [locals] */
} mpi_meeting;

typedef struct mpi_group {
    MPI_Comm comm;
    int process, processes;      /* this one, of how many */
    int size;                    /* members */
    mpi_place *places;           /* [size] */
    int locals, most_locals;     /* members of this process; most of any */
    int open;                    /* ends that are not closed */
    ls_device **devices;         /* [locals] */
    struct mpi_group *world;     /* of all processes; itself, where it is that */
    _Atomic uint64_t timeout_ns; /* world */
    _Atomic uint64_t alive_ns;   /* world: when another process showed a sign of life */
    _Atomic int abandoned;       /* 1 + member that gave up; 0: none */
    int control;                 /* that as it is sent */
    int beat;                    /* what a sign of life is sent from */
    pthread_mutex_t mutex;       /* of the following */
    pthread_cond_t changed;
    mpi_message *messages, **messages_end;
    mpi_meeting meeting;
    pthread_mutex_t pulling; /* one thread at a time takes messages from MPI */
    pthread_mutex_t sending; /* a message's header and bytes go one after the other */
} mpi_group;

typedef struct mpi_comm {
    ls_comm base;
    mpi_group *group;
    float *scratch; /* device memory: what is to be added arrives here */
    size_t scratch_elements;
    _Atomic uint64_t bytes_sent, messages_sent;
} mpi_comm;

/* What a member waits for, for the line that says so when it has waited too long. */
typedef struct mpi_wait {
    mpi_comm *comm;
    const char *what; /* "a message" */
    int peer;         /* member; -1: any */
    size_t bytes;     /* 0: not known */
    uint64_t since_ns;
    uint64_t looks;
} mpi_wait;

/* Tags: exchanges from 0 up by pair of local members, then these. */
static inline int ls_comm_mpi_tag(const mpi_group *group, int from, int to)
{
    return from * group->most_locals + to;
}

static inline int ls_comm_mpi_host_tag(const mpi_group *group)
{
    return group->most_locals * group->most_locals;
}

static inline int ls_comm_mpi_control_tag(const mpi_group *group)
{
    return ls_comm_mpi_host_tag(group) + 1;
}

static inline bool ls_comm_mpi_is_abandoned(const mpi_group *group)
{
    return atomic_load_explicit(&group->abandoned, memory_order_relaxed) != 0;
}

/* The failure of an MPI call; LS_OK for MPI_SUCCESS. */
ls_status ls_comm_mpi_check(int error, const char *call);

/* LS_CODE_MISSING: "communicator: rank R: <why>". */
ls_status ls_comm_mpi_fail(const mpi_comm *comm, const char *why);

/* The failure of what cannot end because a member gave up. */
ls_status ls_comm_mpi_abandoned(const mpi_comm *comm);

/* comm_mpi_wait.c. Between two looks at what is waited for: lets others run; fails where a member
 * gave up or the time is over. */
ls_status ls_comm_mpi_pause(mpi_wait *wait);

void ls_comm_mpi_abandon(ls_comm *comm);
void ls_comm_mpi_count(mpi_comm *comm, uint64_t messages, uint64_t bytes);

/* Takes over `comm` and `places` [size], also on failure; ends are made by ls_comm_mpi_end. */
ls_status ls_comm_mpi_group(MPI_Comm comm, mpi_place *places, int size, mpi_group *world,
                            mpi_group **out);

/* Member `local` of this process; takes part in the group until it is closed. */
ls_status ls_comm_mpi_end(mpi_group *group, int local, ls_device *device, ls_comm **out);

void ls_comm_mpi_close_group(mpi_group *group);

/* comm_mpi_host.c */
ls_status ls_comm_mpi_send(ls_comm *comm, int to, int tag, const void *data, size_t bytes);
ls_status ls_comm_mpi_receive(ls_comm *comm, int from, int tag, void *data, size_t bytes);
ls_status ls_comm_mpi_receive_any(ls_comm *comm, int tag, void *data, size_t capacity, int *from,
                                  size_t *bytes);
ls_status ls_comm_mpi_test_any(ls_comm *comm, int tag, bool *ready);
ls_status ls_comm_mpi_barrier(ls_comm *comm);
ls_status ls_comm_mpi_agree(ls_comm *comm, ls_code mine, ls_code *worst);
ls_status ls_comm_mpi_split(ls_comm *comm, int color, int key, ls_comm **out);

/* comm_mpi_open.c: a device-level communicator of what each process brings. */
ls_status ls_comm_mpi_open(ls_comm *processes, ls_device *const *devices, int count,
                           ls_comm **comms);

#endif
