/* SPDX-License-Identifier: MIT */
/* The device back end's own types, shared by its files: operations and putting (comm_device.c),
 * groups (comm_device_open.c). */
#ifndef LS_COMMON_COMM_COMM_DEVICE_H
#define LS_COMMON_COMM_COMM_DEVICE_H

#include "common/comm/comm_parts.h"

typedef struct device_op device_op;
typedef struct device_comm device_comm;

typedef struct device_group {
    int size, members;   /* members: ends that are not closed */
    device_comm **ranks; /* [size] */
    device_op **message; /* [size, size] from, to: the one that waits to be taken; NULL: none */
} device_group;

struct device_comm {
    ls_comm base;
    device_group *group;
    float *scratch; /* what is to be added arrives here, and sums of a few elements */
    size_t scratch_elements;
    ls_traffic sent;
    bool fixed; /* some operation has been put: scratch stays where it is */
    /* While lists are put. */
    size_t next;            /* operation of the rank's list */
    int stage;              /* of that operation */
    uint64_t shown, summed; /* direct operations that have come so far */
    device_op *direct[2];   /* those, taking turns */
};

struct device_op {
    ls_op op;
    device_comm *comm;
    /* One stage after the other; *done stays false where it needs of others what is not there. */
    ls_status (*put)(device_op *op, ls_queue *queue, bool *done);
    ls_exchange what; /* of an exchange */
    float *data;      /* of direct: [count] */
    size_t count;
    ls_event *ready, *taken;
    ls_op *sum, *write;       /* made when the others are first met; NULL: not yet, or none */
    const device_op *partner; /* of an exchange: whose message this one takes, always */
    device_op *taker;         /* of an exchange: what has taken its message */
};

/* comm_device.c */
ls_status ls_comm_device_exchange(ls_comm *comm, const ls_exchange *exchange, ls_op **out);
ls_status ls_comm_device_direct(ls_comm *comm, float *data, size_t elements, ls_op **out);
ls_status ls_comm_device_put(ls_comm *const *comms, const ls_comm_list *lists, int ranks);

#endif
