/* SPDX-License-Identifier: MIT */
/*
 * Memory that processes of one host share: all-reduce `direct` between them.
 * board     Each process allocates a page or so with a slot for each of its members; when a
 *           communicator is opened, the processes exchange the addresses and map all boards.
 * buffers   An all-reduce registers its data (ls_device_register); in its first run each member
 *           maps the others' data, and keeps the mapping as long as the operation lives.
 * direct    As between threads (comm_thread_direct.c): all publish their buffers and pass a
 *           barrier; each sums its slice of all buffers in rank order and writes it to all; a
 *           second barrier ends it. Up to 8 elements are published as values, with one barrier.
 *           A half of it only sums, or only writes.
 * barrier   A member raises its own counter and polls the others', in the loop that waits for
 *           messages (comm_mpi_wait.c), with its timeout and its error messages.
 * Leaves out sleeping until another process wakes this one.
 */
#include "common/comm/mpi/comm_mpi.h"

#include "common/base/clock.h"
#include "common/base/signal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Polls before the core is yielded to other threads. */
enum { SPINS = 100 };

/* What a member publishes in an all-reduce: the address of its data in its process, or the data. */
typedef struct mpi_shown {
    _Alignas(64) uint64_t address, count;
    float few[LS_DIRECT_FEW];
} mpi_shown;

/* One member's slot. Operations use the two entries alternately: an entry is rewritten only after a
 * barrier that every member entered after reading it. */
struct mpi_slot {
    _Alignas(64) _Atomic uint64_t met; /* barriers that it has reached */
    mpi_shown shown[2];
    int file; /* descriptor of its device's registered pages, in its process */
};

/* A process's board. */
struct mpi_board {
    uint64_t token; /* identifies the process and the communicator */
    struct mpi_slot slots[];
};

static size_t board_bytes(int members)
{
    return sizeof(struct mpi_board) + (size_t)members * sizeof(struct mpi_slot);
}

/* ---- Boards --------------------------------------------------------------------------------- */

void ls_comm_mpi_offer(int rank, int members, mpi_offer *out, struct mpi_board **board)
{
    *out = (mpi_offer){.members = members, .file = -1};
    *board = NULL;
    if (members <= 0)
        return;
    void *memory = MAP_FAILED;
    const int file = memfd_create("lockstep board", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, (off_t)board_bytes(members)) == 0)
        memory = mmap(NULL, board_bytes(members), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) {
        out->error = errno;
        if (file >= 0)
            close(file);
        return;
    }
    *board = memory;
    (*board)->token = out->token = ls_clock_ns() << 16 | (uint64_t)(rank & 0xffff);
    out->file = file;
}

void ls_comm_mpi_withdraw(const mpi_offer *offer, struct mpi_board *board)
{
    if (board)
        munmap(board, board_bytes(offer->members));
    if (offer->file >= 0)
        close(offer->file);
}

/* Maps bytes of a file that another process of this host has open; NULL, with the reason. */
static void *map_file(const mpi_peer *peer, int file, uint64_t offset, size_t bytes, char why[128])
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", peer->pid, file);
    void *memory = MAP_FAILED;
    const int opened = open(path, O_RDWR | O_CLOEXEC);
    if (opened >= 0)
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, opened,
                      (off_t)offset);
    const int error = errno;
    if (opened >= 0)
        close(opened);
    if (memory != MAP_FAILED)
        return memory;
    snprintf(why, 128, "%s: %s", path, strerror(error));
    return NULL;
}

static const mpi_peer *peer_of(const mpi_group *group, int process)
{
    return &group->life->peers[process];
}

/* The board of another process; NULL, with the reason. */
static struct mpi_board *map_board(const mpi_group *group, int process, const mpi_offer *offer,
                                   char why[128])
{
    if (offer->file < 0) {
        snprintf(why, 128, "memfd_create: %s", strerror(offer->error));
        return NULL;
    }
    struct mpi_board *board =
        map_file(peer_of(group, process), offer->file, 0, board_bytes(offer->members), why);
    if (!board || board->token == offer->token)
        return board;
    munmap(board, board_bytes(offer->members)); /* another process has this number here */
    snprintf(why, 128, "/proc/%d is not the process of that rank", peer_of(group, process)->pid);
    return NULL;
}

/* Whether all processes with members are on one host, and so can share memory. */
static bool on_one_host(const mpi_group *group)
{
    if (!group->life->peers)
        return false;
    for (int m = 1; m < group->size; m++)
        if (peer_of(group, group->members[m].process)->leader !=
            peer_of(group, group->members[0].process)->leader)
            return false;
    return true;
}

/* Maps all boards; leaves `why` empty on success. */
static void map_boards(mpi_group *group, char why[sizeof group->unshared])
{
    char reason[128];
    for (int p = 0; p < group->processes && !*why; p++) {
        if (group->boards[p] || group->offers[p].members <= 0)
            continue;
        group->boards[p] = map_board(group, p, &group->offers[p], reason);
        if (!group->boards[p])
            snprintf(why, sizeof group->unshared,
                     "the memory of rank %d on this host cannot be shared (%s)", p, reason);
    }
}

/* All agree on the outcome of mapping; until then no board is freed. */
static ls_status agree_on_boards(ls_comm *processes, mpi_group *group)
{
    const size_t bytes = sizeof group->unshared;
    char own_reason[sizeof group->unshared] = "", *all;
    LS_TRY(ls_allocate("communicator", &all, (size_t)group->processes, bytes));
    map_boards(group, own_reason);
    ls_status status = ls_comm_collect(processes, own_reason, bytes, all);
    for (int p = 0; p < group->processes && !status && !*group->unshared; p++)
        memcpy(group->unshared, all + (size_t)p * bytes, bytes);
    free(all);
    group->shared = !status && !*group->unshared;
    return status;
}

ls_status ls_comm_mpi_join(ls_comm *processes, mpi_group *group, const mpi_offer *offers,
                           struct mpi_board *own)
{
    const size_t n = (size_t)group->processes;
    group->boards = calloc(n, sizeof(struct mpi_board *));
    group->offers = calloc(n, sizeof *group->offers);
    if (!group->boards || !group->offers) {
        ls_comm_mpi_withdraw(&offers[group->process], own);
        return ls_fail_memory("communicator", n * sizeof *group->offers);
    }
    memcpy(group->offers, offers, n * sizeof *offers);
    group->boards[group->process] = own;
    return on_one_host(group) ? agree_on_boards(processes, group) : LS_OK;
}

void ls_comm_mpi_part(mpi_group *group)
{
    for (int p = 0; group->boards && group->offers && p < group->processes; p++) {
        if (p == group->process)
            ls_comm_mpi_withdraw(&group->offers[p], group->boards[p]);
        else if (group->boards[p])
            munmap(group->boards[p], board_bytes(group->offers[p].members));
    }
    free(group->boards);
    free(group->offers);
}

static struct mpi_slot *slot_of(const mpi_group *group, int member)
{
    const mpi_member *slot = &group->members[member];
    return &group->boards[slot->process]->slots[slot->local];
}

/* ---- Direct --------------------------------------------------------------------------------- */

/* A member's data, mapped into this process. */
typedef struct window {
    uint64_t address; /* in its process; 0 if not mapped yet */
    void *pages;      /* here; NULL means member of this process */
    size_t bytes;
} window;

typedef struct direct_op {
    ls_op op;
    mpi_comm *comm;
    float *data;
    size_t count;
    ls_direct_part part;
    mpi_turns turns;
    window *windows; /* [size] */
    float *all[];    /* [size] */
} direct_op;

static ls_status meet(direct_op *d)
{
    mpi_comm *comm = d->comm;
    const mpi_group *group = comm->group;
    const uint64_t meeting = ++comm->meetings;
    mpi_wait wait = {.comm = comm,
                     .what = "an all-reduce",
                     .bytes = ls_comm_bytes(1, d->count),
                     .turns = &d->turns};
    atomic_store_explicit(&slot_of(group, comm->base.rank)->met, meeting, memory_order_release);
    for (int m = 0; m < group->size; m++) {
        const _Atomic uint64_t *met = &slot_of(group, m)->met;
        wait.peer = m;
        wait.since_ns = wait.looks = 0;
        for (int looks = 0; atomic_load_explicit(met, memory_order_acquire) < meeting; looks++) {
            if (looks < SPINS) {
                ls_cpu_relax();
                continue;
            }
            wait.since_ns = wait.since_ns ? wait.since_ns : ls_clock_ns();
            LS_TRY(ls_comm_mpi_pause(&wait));
        }
        if (!wait.since_ns)
            continue;
        ls_comm_mpi_end_wait(group);
        ls_comm_mpi_heard(group, group->members[m].process, ls_clock_ns());
    }
    return LS_OK;
}

/* Maps the data of member `m`, published for the first time or moved. */
static ls_status map_window(direct_op *d, int m, uint64_t address)
{
    const mpi_group *group = d->comm->group;
    const int process = group->members[m].process;
    window *w = &d->windows[m];
    char why[128], text[240];
    if (w->pages)
        munmap(w->pages, w->bytes);
    *w = (window){.address = address};
    d->all[m] = (float *)(uintptr_t)address; /* NOLINT: an address of this process */
    if (process == group->process)
        return LS_OK;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), into = address % page;
    w->bytes = (size_t)((into + ls_comm_bytes(1, d->count) + page - 1) / page * page);
    w->pages =
        map_file(peer_of(group, process), slot_of(group, m)->file, address - into, w->bytes, why);
    if (w->pages) {
        d->all[m] = (float *)((char *)w->pages + into);
        return LS_OK;
    }
    w->address = 0;
    ls_comm_mpi_abandon(&d->comm->base);
    snprintf(text, sizeof text,
             "the memory of rank %d cannot be shared (%s); use --allreduce halving-doubling, which "
             "shares no memory",
             process, why);
    return ls_comm_mpi_fail(d->comm, text);
}

/* Reads what all members have published. */
static ls_status read_shown(direct_op *d, unsigned slot)
{
    const mpi_group *group = d->comm->group;
    for (int m = 0; m < group->size; m++) {
        const mpi_shown *shown = &slot_of(group, m)->shown[slot];
        if (shown->count != d->count)
            return ls_comm_mismatch(&d->comm->base, d->count, (size_t)shown->count, m, false);
        if (!d->part.few && shown->address != d->windows[m].address)
            LS_TRY(map_window(d, m, shown->address));
    }
    return LS_OK;
}

static void sum_few(direct_op *d, unsigned slot)
{
    const mpi_group *group = d->comm->group;
    for (size_t i = 0; i < d->count; i++) {
        float sum = slot_of(group, 0)->shown[slot].few[i];
        for (int m = 1; m < group->size; m++)
            sum = sum + slot_of(group, m)->shown[slot].few[i];
        d->data[i] = sum;
    }
}

static ls_status run_direct(ls_op *op, ls_queue *queue)
{
    direct_op *d = (direct_op *)op;
    mpi_comm *comm = d->comm;
    const unsigned slot = comm->directs++ % 2;
    mpi_shown *entry = &slot_of(comm->group, comm->base.rank)->shown[slot];
    if (ls_comm_mpi_is_abandoned(comm->group))
        return ls_comm_mpi_abandoned(comm);
    ls_comm_mpi_turn(comm->group, &d->turns);
    entry->address = (uintptr_t)d->data;
    entry->count = d->count;
    if (d->part.few)
        memcpy(entry->few, d->data, d->count * sizeof(float));
    const uint64_t begin_ns = ls_queue_wait_begin(queue);
    LS_TRY(meet(d));
    ls_queue_wait_end(queue, begin_ns);
    LS_TRY(read_shown(d, slot));
    ls_comm_sent(&comm->base, d->part.messages, d->part.bytes);
    if (d->part.few) {
        sum_few(d, slot);
        return LS_OK;
    }
    if (d->part.slice.count)
        ls_comm_direct_do(&d->part, d->all, comm->base.rank, comm->base.size);
    return meet(d);
}

static void abandon_direct(ls_op *op)
{
    ls_comm_mpi_abandon(&((direct_op *)op)->comm->base);
}

static void destroy_direct(ls_op *op)
{
    direct_op *d = (direct_op *)op;
    for (int m = 0; d->windows && m < d->comm->base.size; m++)
        if (d->windows[m].pages)
            munmap(d->windows[m].pages, d->windows[m].bytes);
    free(d->windows);
    free(d);
}

ls_status ls_comm_mpi_direct(ls_comm *base, ls_half half, float *data, ls_extent extent,
                             ls_op **out)
{
    mpi_comm *comm = (mpi_comm *)base;
    const size_t members = (size_t)base->size,
                 bytes = sizeof(direct_op) + members * sizeof(float *);
    const ls_direct_part part = ls_comm_direct_part(half, base->rank, base->size, extent);
    const size_t data_bytes = part.few ? 0 : extent.count * sizeof(float);
    LS_TRY(ls_device_register(base->device, data, data_bytes,
                              &slot_of(comm->group, base->rank)->file));
    direct_op *d = calloc(1, bytes);
    window *windows = calloc(members, sizeof *windows);
    if (!d || !windows) {
        free(d);
        free(windows);
        return ls_fail_memory("communicator", bytes);
    }
    d->windows = windows;
    d->op = (ls_op){.name = part.name,
                    .run = run_direct,
                    .abandon = abandon_direct,
                    .destroy = destroy_direct,
                    .use = LS_TIME_COMMUNICATION,
                    .flops = part.flops,
                    .bytes = part.moved};
    d->comm = comm;
    d->data = data;
    d->count = extent.count;
    ;
    d->part = part;
    *out = &d->op;
    return LS_OK;
}
