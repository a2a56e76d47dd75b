/* SPDX-License-Identifier: MIT */
/*
 * A step, said in textbook order: what all replicas do, as if one thing were done after the other.
 *
 * A strategy's `build` says it by the verbs below, once for the full batch and once for an epoch's
 * last, smaller one. Each verb appends *tasks*: operations on one queue (a *lane*), with the memory
 * that they read and write. Nobody says what waits for what: of two tasks on different lanes, of
 * which one writes what the other touches, the later one waits for the earlier one. From that
 * follow events, captured programs, counted traffic, the listing and the race check.
 *
 *     member    a device's share: buffers, a compute queue, and mostly a replica (or, where a model
 *               is divided, a part of one) with its slice of the batch. Numbered from 0 in this
 *               process, in the order of devices; each process says its own members' part
 *     place     which of its replica's devices a member is: 0, unless the model is divided
 *     holder    the member that has the variables, where not every replica has its own
 *     range     elements of the flat buffers (parameters, gradients, optimizer state)
 *     span      memory of one member
 *     group     members, also of other processes, that reduce gradients together
 *
 * Verbs return nothing: after the first error later ones do nothing, and who built reports it.
 */
#pragma once

#include "impl/job.h"
#include "impl/pipeline_schedule.h"
#include "impl/ps/ps_order.h"
#include "impl/slice.h"

typedef struct ls_step ls_step;

/** Memory of a member: so many bytes. */
typedef struct ls_span {
    int member;
    void *memory;
    size_t bytes;
} ls_span;

/** A range that a server holds and whose gradients travel together. */
typedef struct ls_pushed {
    ls_range range;
    int server;
    bool last; /**< of that server's */
} ls_pushed;

/* ---- Who and what ---------------------------------------------------------------------------- */

const ls_job *ls_step_job(const ls_step *step);

/** Whether the step is the last of a period of steps (ls_job.period). */
bool ls_ends_period(const ls_step *step);

/** Replicas of this process, of which some members are here: members 0 to this - 1, unless the
 *  model is divided. Where variables are served, of all processes: what is said of a member
 *  elsewhere is left to its process. */
int ls_replicas(const ls_step *step);

/** All that compute, but for a holder by itself and shadows. */
int ls_members(const ls_step *step);
int ls_place_of(const ls_step *step, int member);

/** The places of a divided model, and its nodes, which each are on one of them. */
int ls_places(const ls_step *step);
int ls_nodes(const ls_step *step);

/** The member that has the variables: a replica on that device, or one more; -1: each its own. */
int ls_holder(const ls_step *step);

/** Where the job wants backward passes on the holder's device: the member there that has the same
 *  slice as the replica, with memory of its own, and the holder's variables. */
int ls_shadow(const ls_step *step, int replica);

/** All elements; part i of n equal ones, which may be empty. */
ls_range ls_all(const ls_step *step);
ls_range ls_part(const ls_step *step, int i, int n);

/** Those that the member has and nobody else: of a divided model its place's variables. */
ls_range ls_owned(const ls_step *step, int member);

/** Bucket number `b` of those that a place's gradients are reduced in, in the order in which
 * backward makes them final. Places: 0, unless a replica is divided over several members. */
ls_range ls_bucket(const ls_step *step, int place, int b);
int ls_buckets_of(const ls_step *step, int place);

/** Shards of the tree that exact mode adds a batch of this size up; fast mode: 0. */
int64_t ls_shards(const ls_step *step);

/** Sums that the replica's gradient comes in: one, or of an empty slice none; in exact mode its
 *  finished subtrees (slice.h). */
size_t ls_sums(const ls_step *step, int replica);

ls_span ls_parameters(const ls_step *step, int member, ls_range range);

/** Of a replica's gradient sum number `sum`; of a server's the place where sum number `sum` of all
 *  arrives, the first in the gradient that it updates by. */
ls_span ls_gradient(ls_step *step, int member, size_t sum, ls_range range);

/** Servers, where variables are served: of all processes; the member that number k is. */
int ls_servers(const ls_step *step);
int ls_server(const ls_step *step, int k);

/** Range number i of those that a server holds, by place in the flat buffer; false: there are no
 *  more. */
bool ls_shard_range(const ls_step *step, int server, size_t i, ls_range *out);

/** Piece number i of all these, cut by the buckets in which backward makes gradients final, in the
 *  order of these; false: there are no more. */
bool ls_pushed_range(const ls_step *step, size_t i, ls_pushed *out);

/** Whether members are on different devices: what they tell each other is traffic. */
bool ls_apart(const ls_step *step, int a, int b);

/* ---- A replica's own work -------------------------------------------------------------------- */

/** Gathers the member's slice of the batch, and takes it (of several pieces the first) forward. */
void ls_forward(ls_step *step, int member);

/** The backward pass, and all that follows of further pieces, as far as makes the gradients of
 *  `range` final; does nothing where they are. */
void ls_backward(ls_step *step, int member, ls_range range);

/** Pieces that the replica's slice goes through in; of one of them, its forward pass, and its
 * backward pass with the sums that it completes. */
int ls_pieces(const ls_step *step, int replica);
void ls_forward_piece(ls_step *step, int member, int piece);
void ls_backward_piece(ls_step *step, int member, int piece);

/** Buffer number `index` of what a piece's backward pass reads of its forward pass (net.h). False:
 *  there are no more. */
bool ls_kept(const ls_step *step, int member, int piece, size_t index, ls_span *out);

/** The optimizer's update of a range of the member's variables. */
void ls_update(ls_step *step, int member, ls_range range);

/** The end of the member's step: its time and loss are recorded, its position moves on. The last
 *  one said of members that wait for each other ends their step. */
void ls_end(ls_step *step, int member);

/* ---- A divided replica ----------------------------------------------------------------------- */

/**
 * A node of a piece, on its place. Forward: the place has gathered its inputs of the piece before;
 * the output goes to the places that take it. Backward: the output's gradient goes back from there;
 * of variables that several places use, the gradients go to the owner, which adds them in the order
 * of the nodes; and behind its place's first node come the sums that the piece completes.
 */
void ls_forward_node(ls_step *step, int replica, int piece, int node);
void ls_backward_node(ls_step *step, int replica, int piece, int node);

/** The nodes of a stage, which is a place, of a micro-batch: all its pieces. The loss goes with the
 *  backward pass, which ends with what it adds up. */
void ls_forward_stage(ls_step *step, int replica, int stage, int microbatch);
void ls_backward_stage(ls_step *step, int replica, int stage, int microbatch);

/** The order of these. */
ls_schedule ls_schedule_of(const ls_step *step, int replica);

/** Updated variables that several places use go from their owners to the others. */
void ls_share_values(ls_step *step, int replica);

/* ---- Between members ------------------------------------------------------------------------- */

/** A copy by the member that gets it, or by the one that has it; counted where devices differ. */
void ls_fetch(ls_step *step, ls_span to, ls_span from);
void ls_send(ls_step *step, ls_span to, ls_span from);

/** A message between members, also of other processes: both ends put an operation, of which the one
 *  that gets it adds it to what is there, or overwrites that. Where messages overlap passes, a
 *  replica's have a lane of their own. */
void ls_message(ls_step *step, ls_span to, ls_span from, bool add);

/** The holder's gradient = the sum of the gradients of `members` [count], which are on its device
 * or are sent to it: in fast mode ((g0 + g1) + g2) + ..., in exact mode up the tree over their
 * sums. */
void ls_add_up(ls_step *step, const int *members, int count);

/** Of a range of a server's gradient: the whole of all sums that arrived, in exact mode up the
 * tree; in fast mode they were added where they arrived. */
void ls_add_arrived(ls_step *step, int server, ls_range range);

/** All-reduce of a bucket over that place of all replicas of all processes, by the job's algorithm.
 */
void ls_all_reduce(ls_step *step, int place, int b);

/** The parameters of a bucket become the mean of all replicas', which are added up as gradients are
 *  by ls_all_reduce. */
void ls_average(ls_step *step, int place, int b);

/* ---- Servers that serve whoever comes first ---------------------------------------------------
 */

/** The server serves by itself (ps_serve.h), as long as steps are put together: its ends of
 * messages that are said from here on are its own matter. */
void ls_serve(ls_step *step, int server);

/** What a worker says before it takes or sends the shard's ranges; after the last of the steps that
 *  are put together (LS_PS_BYE), and nothing then. With backup workers it hears, before it takes
 *  them, whether it is late. */
void ls_say(ls_step *step, int worker, int server, ls_ps_kind kind);

/** A worker's step begins: what is said of it from here on is passed over where it is late; until
 *  the end of that. */
void ls_begin_if_in_time(ls_step *step, int worker);
void ls_end_if_in_time(ls_step *step, int worker);

/* ---- Sums ------------------------------------------------------------------------------------ */

/** Fast mode's order of summation of an all-reduce: an entry of ls_strategy. */
ls_status ls_sum_by_algorithm(const ls_job *job, const bool *has, int count, ls_sum_order *out);

/* ---- Traffic by closed forms ----------------------------------------------------------------- */

/** Of all buckets of all places, as their algorithm says. */
ls_traffic ls_reduced_traffic(const ls_step *step);

/** Of borders between places and of the variables that several of these use, in all replicas. */
ls_traffic ls_border_traffic(const ls_step *step);
