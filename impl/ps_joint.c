/* SPDX-License-Identifier: MIT */
/*
 * Parameter servers whose communicator's queues are ordered by events (GPUs of one process,
 * comm.h): a synchronous step of the server and all workers in one, and one program for it.
 *
 *     the server's shard to all workers; each forward and backward; all gradients to the server,
 *     added up in the order of workers; the update
 *
 * Same operations, same order of sums, as where each member has a step of its own.
 * Leaves out: gradients that travel while backward goes on, ranks of other processes, and servers
 * that take what comes first.
 */
#include "impl/ps.h"

#include <stdlib.h>

struct ls_ps_joint {
    ls_comm **comms; /* [members] in the order of ranks */
    ls_comm_list *lists;
    ls_event *begun; /* by the server's queue, which also ends the step */
    ls_event **left; /* [workers] has nothing more to do in it */
    ls_program *program[LS_BATCHES];
    ls_traffic sent[LS_BATCHES]; /* by one step */
};

bool ls_ps_is_joint(const ls_job *job)
{
    return job->transport && job->transport->put;
}

/* ---- The step ------------------------------------------------------------------------------- */

static ls_queue *server_queue(const ls_ps *run)
{
    return run->servers[0].replica->queue;
}

/* Puts what the server says with what each worker says; NULL: the pull, as workers' pushes are by
 * batch. */
static ls_status put_messages(ls_ps *run, const ls_op_list *servers, const int *which)
{
    const ls_ps_joint *joint = run->joint;
    for (int m = 0; m < run->layout.member_count; m++) {
        const ls_ps_member *place = &run->layout.members[m];
        ls_ps_worker *w = place->server ? NULL : &run->workers[place->number];
        joint->comms[m] = w ? w->comm : run->servers[0].comm;
        joint->lists[m] = w ? (ls_comm_list){which ? &w->push[*which][0] : &w->pull, w->queue}
                            : (ls_comm_list){servers, server_queue(run)};
    }
    return ls_comm_put(joint->comms, joint->lists, run->layout.member_count);
}

static ls_status put_step(ls_ps *run, int which)
{
    ls_ps_joint *joint = run->joint;
    ls_ps_server *server = &run->servers[0];
    LS_TRY(ls_queue_record(server_queue(run), joint->begun));
    for (int w = 0; w < run->worker_count; w++)
        LS_TRY(ls_queue_wait(run->workers[w].queue, joint->begun));
    LS_TRY(put_messages(run, &server->deal, NULL));
    for (int w = 0; w < run->worker_count; w++)
        LS_TRY(ls_ps_worker_compute(&run->workers[w], which));
    LS_TRY(put_messages(run, &server->step[which], &which));
    for (int w = 0; w < run->worker_count; w++) {
        LS_TRY(ls_op_list_put(&run->workers[w].member.finish[which], run->workers[w].queue));
        LS_TRY(ls_queue_record(run->workers[w].queue, joint->left[w]));
        LS_TRY(ls_queue_wait(server_queue(run), joint->left[w]));
    }
    return LS_OK;
}

static ls_traffic count_all(const ls_ps *run)
{
    ls_traffic sum = run->servers[0].comm->backend->traffic(run->servers[0].comm);
    for (int w = 0; w < run->worker_count; w++)
        ls_traffic_add(&sum, run->workers[w].comm->backend->traffic(run->workers[w].comm));
    return sum;
}

/* Counts are taken where operations are put: of a program once, for all its replays. */
static ls_status put_counted(ls_ps *run, int which)
{
    const ls_traffic before = count_all(run);
    LS_TRY(put_step(run, which));
    const ls_traffic after = count_all(run);
    run->joint->sent[which] = (ls_traffic){after.bytes_sent - before.bytes_sent,
                                           after.messages_sent - before.messages_sent};
    return LS_OK;
}

ls_status ls_ps_joint_step(ls_ps *run, int which, uint64_t times)
{
    if (run->joint->program[which])
        return ls_program_launch(run->joint->program[which], times);
    for (; times; times--) {
        ls_job_turn(run->base.job);
        LS_TRY(put_counted(run, which));
    }
    return LS_OK;
}

/* ---- Opening and closing -------------------------------------------------------------------- */

static ls_status open_events(ls_ps *run)
{
    LS_TRY(ls_event_open(run->servers[0].replica->device, &run->joint->begun));
    for (int w = 0; w < run->worker_count; w++)
        LS_TRY(ls_event_open(run->workers[w].member.replica->device, &run->joint->left[w]));
    return LS_OK;
}

ls_status ls_ps_joint_open(ls_ps *run)
{
    const ls_job *job = run->base.job;
    const size_t members = (size_t)run->layout.member_count;
    ls_ps_joint *joint = run->joint = calloc(1, sizeof *joint);
    if (!joint)
        return ls_fail_memory("ps", sizeof *joint);
    joint->comms = calloc(members, sizeof *joint->comms);
    joint->lists = calloc(members, sizeof *joint->lists);
    joint->left = calloc(members, sizeof *joint->left);
    if (!joint->comms || !joint->lists || !joint->left)
        return ls_fail_memory("ps", members * sizeof *joint->lists);
    LS_TRY(open_events(run));
    for (int b = 0; b < LS_BATCHES && job->capture; b++) {
        if (!ls_replicated_batch(job, b))
            continue;
        LS_TRY(ls_program_begin(server_queue(run)));
        ls_status put = put_counted(run, b);
        LS_TRY(ls_status_first(put, ls_program_end(server_queue(run), &joint->program[b])));
    }
    return LS_OK;
}

void ls_ps_joint_close(ls_ps *run)
{
    ls_ps_joint *joint = run->joint;
    if (!joint)
        return;
    for (int b = LS_BATCHES; b-- > 0;)
        ls_program_close(joint->program[b]);
    ls_event_close(joint->begun);
    for (int w = 0; joint->left && w < run->worker_count; w++)
        ls_event_close(joint->left[w]);
    free(joint->comms);
    free(joint->lists);
    free(joint->left);
    free(joint);
    run->joint = NULL;
}

/* ---- The rest ------------------------------------------------------------------------------- */

const ls_program *ls_ps_joint_program(const ls_ps *run)
{
    return run->joint ? run->joint->program[LS_FULL] : NULL;
}

ls_traffic ls_ps_joint_sent(const ls_ps *run, int which)
{
    return run->joint->sent[which];
}
