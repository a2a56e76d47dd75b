/* SPDX-License-Identifier: MIT */
/*
 * The MPI back end's own types, shared by its files: queues (comm_mpi.c), waiting
 * (comm_mpi_wait.c), memory that processes of a host share (comm_mpi_shared.c), host calls
 * (comm_mpi_host.c), groups (comm_mpi_open.c), processes (mpi_processes.c), reports after processes
 * lose each other (mpi_autopsy.c, mpi_ending.c, mpi_keeper.c), signs of life (mpi_pulse.c). A rank
 * is a member: a device of some process. Members of one process use MPI, too: there is one code
 * path, and a message's tag names the sending and receiving member.
 */
#pragma once

#include "common/comm/comm_mail.h"
#include "common/comm/comm_parts.h"

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

/* Where a member is: its process in the group's MPI communicator, and its index there. */
typedef struct mpi_member {
    int process, local;
} mpi_member;

/* Identifies a process, for reports of what happened to it. */
typedef struct mpi_peer {
    char host[64];
    int leader;           /* lowest rank of its host */
    int pid;              /* on that host */
    uint64_t start_ticks; /* when it started, since pids are used again */
} mpi_peer;

/* A wait of a member, with the words for its report if it lasts too long. */
typedef struct mpi_wait {
    struct mpi_comm *comm;
    const char *what;              /* "a message" */
    int peer;                      /* member; -1 means any */
    size_t bytes;                  /* 0 if not known */
    const struct mpi_turns *turns; /* NULL means of no step */
    uint64_t since_ns;
    uint64_t looks;
    uint64_t looked_ns, vain_ns; /* latest look at rare events; time without any sign of life */
} mpi_wait;

/* mpi_keeper.c */
typedef struct mpi_keeper mpi_keeper;

/* What all groups of a process share. */
typedef struct mpi_life {
    mpi_keeper *keeper;         /* NULL if none */
    mpi_peer *peers;            /* [processes]; NULL until they are connected */
    _Atomic uint64_t *heard_ns; /* [processes] when something last came from each; 0 if never */
    _Atomic bool *gave_up;      /* [processes] which have notified that they gave up */
    _Atomic uint64_t timeout_ns;
    _Atomic uint64_t alive_ns; /* when another process last showed a sign of life */
    int beat;                  /* send buffer of this one's signs of life */
    _Atomic uint64_t starts;   /* how often steps were enqueued: each starts a new count of runs */
    _Atomic uint64_t step, steps; /* enqueued last: the first, how many; 0 if none */
    _Atomic bool alike;           /* every step runs the same operations */
    bool (*ending)(void);         /* whether this process was asked to end; NULL if not checked */
    void (*print)(const char *line);
    _Atomic uint64_t asked_ns; /* when a wait first saw `ending`; 0 if none has */
    _Atomic bool said;         /* this process has reported its part of an autopsy */
    int *hosts;                /* [processes] */
    ls_layout layout;  /* of all processes, with equally many members; processes 0 if unset */
    bool speaks;       /* this process names the silent ones */
    char waited[384];  /* what for, when it first gave up; behind the mutex */
    mpi_wait wait;     /* the one that began last, behind the mutex */
    pthread_t waiter;  /* the thread that waits */
    bool waits;        /* it has not ended */
    pthread_t watcher; /* mpi_ending.c */
    pthread_cond_t watch_changed;
    bool watched, watch_ends;
    pthread_t pulse; /* mpi_pulse.c */
    pthread_cond_t pulse_changed;
    pthread_mutex_t pulse_mutex;  /* of the following */
    bool (*moved)(void *context); /* whether this process made progress; NULL if not asked */
    void *moved_context;
} mpi_life;

/* How often an operation ran since steps were last enqueued, which gives its current step. */
typedef struct mpi_turns {
    uint64_t starts, runs;
} mpi_turns;

/* What a process tells the others when a communicator is opened. */
typedef struct mpi_offer {
    int members;    /* negative if its devices cannot take part */
    int file;       /* descriptor of its board; -1 if none (`error` says why) */
    int error;      /* errno */
    uint64_t token; /* that the board begins with */
} mpi_offer;

typedef struct mpi_group {
    MPI_Comm comm;
    int process, processes;  /* this process, of how many; numbered as in the world */
    int size;                /* members */
    mpi_member *members;     /* [size] */
    int locals, most_locals; /* members of this process; most of any */
    int open;                /* ends that are not closed */
    ls_device **devices;     /* [locals] */
    struct mpi_group *world; /* of all processes; itself, where it is that */
    mpi_life *life;          /* the world's */
    _Atomic int abandoned;   /* 1 + member that gave up; 0 if none */
    int control;             /* `abandoned`, in the form that is sent */
    pthread_mutex_t mutex;   /* of `open`, and of the life's wait */
    ls_mailbox mail;         /* of all members of this process */
    /* Memory that a host shares (comm_mpi_shared.c); NULL if not opened by ls_comm_mpi_open. */
    mpi_offer *offers;         /* [processes] */
    struct mpi_board **boards; /* [processes]; NULL if not mapped */
    bool shared;               /* all are mapped */
    char unshared[192];        /* why not, though all are on one host */
    pthread_mutex_t pulling;   /* one thread at a time receives from MPI */
    pthread_mutex_t sending;   /* a message's header and bytes go one after the other */
} mpi_group;

typedef struct mpi_comm {
    ls_comm base;
    mpi_group *group;
    float *scratch; /* device memory: what is to be added arrives here */
    size_t scratch_elements;
    uint64_t meetings, directs; /* in shared memory, that its queue has been through */
} mpi_comm;

/* Tags: exchanges from 0 up by pair of local members, then the tags below. */
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

/* A control message to the process that was named as silent: it is to print nothing more. */
enum { LS_COMM_MPI_NAMED = -1 };

/* Whether a member gave up, or the processes have lost each other. */
static inline bool ls_comm_mpi_is_abandoned(const mpi_group *group)
{
    return atomic_load_explicit(&group->abandoned, memory_order_relaxed) != 0 ||
           atomic_load_explicit(&group->world->abandoned, memory_order_relaxed) != 0;
}

/* Something came from a process of the group. */
static inline void ls_comm_mpi_heard(const mpi_group *group, int process, uint64_t now_ns)
{
    atomic_store_explicit(&group->life->heard_ns[process], now_ns, memory_order_relaxed);
}

/* An operation runs once more. */
static inline void ls_comm_mpi_turn(const mpi_group *group, mpi_turns *turns)
{
    const uint64_t starts = atomic_load_explicit(&group->life->starts, memory_order_relaxed);
    turns->runs = turns->starts == starts ? turns->runs + 1 : 0;
    turns->starts = starts;
}

/* The failure of an MPI call; LS_OK for MPI_SUCCESS. */
ls_status ls_comm_mpi_check(int error, const char *call);

/* LS_CODE_MISSING: "communicator: rank R: <why>". */
ls_status ls_comm_mpi_fail(const mpi_comm *comm, const char *why);

/* The failure of an operation that cannot end because a member gave up. */
ls_status ls_comm_mpi_abandoned(const mpi_comm *comm);

/* comm_mpi_wait.c. Sends *from, which must not change, to every other process. */
void ls_comm_mpi_tell_all(const mpi_group *group, const int *from);

/* Receives pending control messages: who gave up, signs of life. */
void ls_comm_mpi_read_control(mpi_group *group);

/* Called between two polls of a wait: yields to others; fails if a member gave up, this process was
 * asked to end, or the timeout is over. */
ls_status ls_comm_mpi_pause(mpi_wait *wait);

/* As above, until `until_ns`: nothing can arrive before, so that time does not count towards the
 * timeout. */
ls_status ls_comm_mpi_pause_until(mpi_wait *wait, uint64_t until_ns);

/* How long a process that was asked to end waits for others to finish their steps. */
uint64_t ls_comm_mpi_ending_ns(const mpi_group *world);

/* "a message of 8 bytes, rank 2, step 37": what it waits for, from whom, in which step. */
void ls_comm_mpi_describe(const mpi_wait *wait, char text[192]);

void ls_comm_mpi_abandon(ls_comm *comm);

/* Owns `comm` and `members` [size] from here on, even on failure; ls_comm_mpi_end makes the ends.
 */
ls_status ls_comm_mpi_group(MPI_Comm comm, mpi_member *members, int size, mpi_group *world,
                            mpi_group **out);

/* Member `local` of this process; takes part in the group until it is closed. */
ls_status ls_comm_mpi_end(mpi_group *group, int local, ls_device *device, ls_comm **out);

void ls_comm_mpi_close_group(mpi_group *group);

/* mpi_autopsy.c. What became of a process of this host: "has ended", "is stopped"; NULL if it runs,
 * or is elsewhere. */
const char *ls_comm_mpi_fate(const mpi_group *world, int process);

/* Identifies this process, except its leader. */
void ls_comm_mpi_introduce(mpi_peer *out);

/* Reports this process's part of an autopsy; once. */
void ls_comm_mpi_last_words(mpi_group *world, const char *line);

/* mpi_ending.c. The beginning and the end of a wait, on the same thread, for the watching thread.
 */
void ls_comm_mpi_begin_wait(const mpi_wait *wait);
void ls_comm_mpi_end_wait(const mpi_group *group);

/* Starts a thread that reports what this process waits for, if MPI blocks all other threads when it
 * is asked to end. */
void ls_comm_mpi_watch(mpi_group *world);
void ls_comm_mpi_end_watch(mpi_group *world);

/* Does not return. `world` NULL if there is none yet. */
void ls_comm_mpi_end_all(const mpi_group *world, int exit_status);

/* mpi_keeper.c. Starts a keeper if the launcher kills the others once this process dies; otherwise
 * NULL. Before MPI_Init, threads and devices. Under srun the keeper is a child; under MPICH's
 * mpirun this process becomes it, and the call returns in a new child, with another pid. */
ls_status ls_comm_mpi_keep(mpi_keeper **out);

/* From here on it keeps connections open for this long after this process died. Takes NULL. */
void ls_comm_mpi_keep_for(mpi_keeper *keeper, uint64_t linger_ns);

/* Ends the keeper, before this process exits in order; under MPICH's mpirun only tells it to keep
 * nothing: it ends with this process, and with its exit status. Takes NULL. */
void ls_comm_mpi_dismiss(mpi_keeper *keeper);

/* comm_mpi_shared.c. Creates a board for this process's members, and what others need to map it. */
void ls_comm_mpi_offer(int rank, int members, mpi_offer *out, struct mpi_board **board);

/* Takes ownership of the own board, and maps the others' if all are on one host. */
ls_status ls_comm_mpi_join(ls_comm *processes, mpi_group *group, const mpi_offer *offers,
                           struct mpi_board *own);
void ls_comm_mpi_part(mpi_group *group);
void ls_comm_mpi_withdraw(const mpi_offer *offer, struct mpi_board *board);
ls_status ls_comm_mpi_direct(ls_comm *comm, ls_half half, float *data, ls_extent extent,
                             ls_op **out);

/* comm_mpi_host.c */
ls_status ls_comm_mpi_send(ls_comm *comm, int to, int tag, const void *data, size_t bytes);
ls_status ls_comm_mpi_receive(ls_comm *comm, int from, int tag, void *data, size_t bytes);
ls_status ls_comm_mpi_receive_any(ls_comm *comm, int tag, void *data, size_t capacity, int *from,
                                  size_t *bytes);

/* comm_mpi_open.c: a device-level communicator of all processes' devices. */
ls_status ls_comm_mpi_open(ls_comm *processes, ls_device *const *devices, int count,
                           ls_comm **comms);
