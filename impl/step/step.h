/* SPDX-License-Identifier: MIT */
/*
 * A step, described in textbook order: what all replicas do, as a sequential program.
 *
 * A strategy's `build` describes it by the verbs below. It is called when a run is opened, once for
 * each kind of step that can occur: of the full batch and, if an epoch has one, of its smaller
 * remainder batch (ls_shards, ls_sums, ls_pieces answer for it); with a period of steps
 * (ls_job_update.period), of each size once for steps within a period and once for each of its
 * steps that exchanges parameters (ls_due). Behind what it describes, every member's step is ended
 * (time and loss are recorded, its position in the data advances) without a verb. Each verb appends
 * *tasks*: operations on one queue (a *lane*), with the memory that they read and write. No
 * strategy says what waits for what: of two tasks on different lanes with conflicting accesses, the
 * later one waits for the earlier one. Events, captured programs, counted traffic, the listing and
 * the race check follow from the tasks.
 *
 *     member    a device's share: buffers, a compute queue, and usually a replica (in a divided
 *               model, a part of one) with its slice of the batch. Numbered from 0 over all
 *               processes, in the order of devices; verbs about a member of another process append
 *               nothing
 *     place     a member's rank in its replica: 0, unless the model is divided
 *     holder    the member that owns the variables, if replicas have no variables
 *     range     elements of the flat buffers (parameters, gradients, optimizer state)
 *     span      memory of one member
 *     group     members of all processes that reduce gradients with each other
 *
 * Verbs return nothing: after the first failure later ones do nothing, and the caller of `build`
 * reports it. A verb that cannot act, such as an all-reduce by a strategy that does not declare
 * ls_strategy_reduces, fails.
 */
#pragma once

#include "common/comm/comm.h"
#include "impl/job.h"
#include "impl/pipeline/pipeline_schedule.h"
#include "impl/replica/slice.h"

typedef struct ls_step ls_step;

/** A span: bytes of a member's memory. */
typedef struct ls_span {
    int member;
    void *memory;
    size_t bytes;
} ls_span;

/* ---- Members, ranges and memory -------------------------------------------------------------- */

const ls_job *ls_step_job(const ls_step *step);

/** The elements that replicas exchange at the end of this step: with a period, only of its last
 * step or, with fragments (ls_job_update), of one fragment in turn; else all, in each step. And
 * whether bucket `b` is due; no bucket is in two fragments. */
ls_range ls_due(const ls_step *step);
bool ls_is_due(const ls_step *step, int b);

/** Replicas of all processes; with parameter servers, workers. Replica r is member r, unless the
 * model is divided: then its places are members r x places to (r + 1) x places - 1. */
int ls_replicas(const ls_step *step);

/** Members that compute: replicas, or their places; not shadows (ls_shadow), servers, nor a holder
 * that is not a replica. */
int ls_members(const ls_step *step);
int ls_place_of(const ls_step *step, int member);

/** How many places and nodes a divided model has; each node is on one place, or, if layers are
 * split and it has no slice, on all. */
int ls_places(const ls_step *step);
int ls_stages(const ls_step *step); /**< of a divided model: places, or groups of places */
int ls_nodes(const ls_step *step);

/** The member that owns the variables: a replica on the variable device, or one more member; -1 if
 * each replica has its own. */
int ls_holder(const ls_step *step);

/** The member that runs a replica's backward pass on the holder's device
 * (ls_job_division.backward_held). It has the replica's slice, its own memory, and the holder's
 * variables. */
int ls_shadow(ls_step *step, int replica);

/** All elements; and the i-th of n equal ranges, which may be empty. */
ls_range ls_all(const ls_step *step);
ls_range ls_part(const ls_step *step, int i, int n);

/** The elements that the member updates: all, or in a divided model its place's variables. A
 * variable that several places use has one owner. */
ls_range ls_owned(const ls_step *step, int member);

/** Bucket number `b` of a place's gradients, in the order in which backward makes them final; and
 * how many there are. The place is 0 unless the model is divided. */
ls_range ls_bucket(const ls_step *step, int place, int b);
int ls_buckets_of(ls_step *step, int place);

/** Number of shards of the step's batch in exact mode, the leaves of its tree; fast mode: 0. */
int64_t ls_shards(const ls_step *step);

/** Number of partial sums of the replica's gradient: 1, or 0 for an empty slice; in exact mode, one
 * for each of its finished subtrees (slice.h). */
size_t ls_sums(const ls_step *step, int replica);

ls_span ls_parameters(const ls_step *step, int member, ls_range range);
/** A range of buffer number `i` that the strategy owns (ls_strategy.owns). */
ls_span ls_own(ls_step *step, int member, int i, ls_range range);

/** A replica's partial sum number `sum`. For servers, see ps_step.h. */
ls_span ls_gradient(ls_step *step, int member, size_t sum, ls_range range);

/** Whether members are on different devices, so that what they exchange is traffic. */
bool ls_apart(const ls_step *step, int a, int b);

/* ---- A replica's own work -------------------------------------------------------------------- */

/** Goes on to exchange number `i` of gradients, from 0: the verbs that follow run the pieces of the
 * slices before it, and ls_give adds its sum to the sums of earlier exchanges. Returns false if
 * there are no more. ls_run_pass chooses its own exchange. Without accumulation, or if gradients
 * are exchanged once, there is one exchange, of all pieces; a step need not call this for it. */
bool ls_next_exchange(ls_step *step, int i);

/** Gathers the member's slice of the batch and runs its forward pass; if the slice has several
 * pieces (ls_pieces), the first one's. */
void ls_forward(ls_step *step, int member);

/** Goes on with the forward pass, up to the first node that needs variables of a bucket before
 * number `b`: the forward pass begins with the last one. If the member holds all variables whole,
 * the whole forward pass. */
void ls_forward_bucket(ls_step *step, int member, int b);

/** Runs the backward pass (and both passes of further pieces) until the gradients of `range` are
 * final; nothing if they already are. */
void ls_backward(ls_step *step, int member, ls_range range);

/** The replica's pieces up to the exchange that the step has come to: parts of its slice that go
 * forward and backward alone. The number of the first one, and how many there are. */
int ls_first_piece(const ls_step *step, int replica);
int ls_pieces(const ls_step *step, int replica);
void ls_forward_piece(ls_step *step, int member, int piece);

/** A piece's backward pass, and the additions to the gradient that it makes possible. */
void ls_backward_piece(ls_step *step, int member, int piece);

/** Buffer number `index` among the buffers of the forward pass that a piece's backward pass reads
 * (ls_net_kept). False if there are no more. */
bool ls_kept(const ls_step *step, int member, int piece, size_t index, ls_span *out);

/**
 * With job.update.clip, what scales gradients in the updates that follow: every member that updates
 * sums the squares of its variables' gradients, block by block; members with a part of the
 * variables (places of a replica, servers, replicas that share the update) send each other their
 * sums; each finds the norm from all. Weight decay becomes part of the gradients. Nothing without.
 */
void ls_clip_gradients(ls_step *step);

/** As above, for a member whose gradients are applied alone. If it does not update, but a server
 * does, its gradients are scaled here. */
void ls_clip_alone(ls_step *step, int member);

/** The optimizer's update of a range of the member's variables. */
void ls_update(ls_step *step, int member, ls_range range);

/** After a change that is not an update, rounds the member's part of a range again, to the copy
 * that layers read. Does nothing if there is no such copy. */
void ls_refresh(ls_step *step, int member, ls_range range);

/** (a x + b y) / divisor, of spans of one size in one member's memory. */
typedef struct ls_combination {
    double a; /**< factors, divisor, products, sum and quotient are rounded to float32 */
    ls_span x;
    double b;
    ls_span y;      /**< no memory: there is no y */
    double divisor; /**< 0 means 1 */
} ls_combination;

/** Sets `to`, which may be x or y, elementwise. */
void ls_combine(ls_step *step, const char *verb, ls_span to, const ls_combination *of);

/* ---- A divided replica ----------------------------------------------------------------------- */

/**
 * A node's pass for a piece, on its place or on all. Forward: gathers the place's inputs first, if
 * it has any; then sends the output to the places that use it. Backward: the output's gradient
 * comes back from them. Gradients of variables that several places use go to the owner, which adds
 * them in the order of the nodes. Behind its place's first node follow the additions that the piece
 * makes possible.
 *
 * If layers are split (graph_split.h), what all places have of a sum is all-reduced between the
 * halves of a join's forward pass and of a fork's backward pass. If places have parts of the
 * positions (graph_context.h), what a node deals or has collected goes to or from other places: the
 * transfers of an exchange's c nodes on each of c places are an all-to-all.
 */
void ls_forward_node(ls_step *step, int replica, int piece, int node);
void ls_backward_node(ls_step *step, int replica, int piece, int node);

/** A node's weight pass for a piece, if its backward pass is a data pass: gradients of its
 * variables, and behind a part's first node the additions that they make possible. */
void ls_weights_node(ls_step *step, int replica, int piece, int node);

/** The node with whose backward pass a bucket of a place becomes final. */
int ls_bucket_node(const ls_step *step, int place, int b);

/** Where parameters are in windows, the all-gathers of buckets that a node's pass on a place is the
 * first to need; nothing if parameters are complete. */
void ls_gather_for_node(ls_step *step, int place, int node, bool backward);

/** Pass number `i` of all stages of a replica, in the order of the job's schedule; false if there
 * are no more. */
bool ls_scheduled_pass(ls_step *step, int replica, size_t i, ls_pass *out);

enum { LS_EVERY_REPLICA = -1 };

/** A stage's pass for a micro-batch: the nodes of that place, for all its pieces. The loss is part
 * of the backward pass, which ends with the additions that it makes possible. Where gradients are
 * in windows, LS_EVERY_REPLICA: all replicas run a node together, behind the gathers of buckets
 * that it is the first to need; the sums of buckets that it makes final follow. */
void ls_run_pass(ls_step *step, int replica, const ls_pass *pass);

/** `build` of a strategy with one divided replica: its `passes`, then each member updates what it
 * owns, and sends that to the others that use it. */
void ls_build_divided(ls_step *step);

/* ---- Between members ------------------------------------------------------------------------- */

/** A copy within a process, run by the receiving member (fetch) or by the sending one (send);
 * counted as traffic if devices differ. Both spans have one size. */
void ls_fetch(ls_step *step, ls_span to, ls_span from);
void ls_send(ls_step *step, ls_span to, ls_span from);

/** A message between members. The receiver adds it to `to`, or overwrites that. With servers, and
 * between processes, it is an operation at both ends; else a copy by the sender. Between processes,
 * servers, places of a replica over several processes and replicas with peers have ends; for others
 * it is refused. If messages overlap passes, they are on a separate lane of each replica. */
void ls_message(ls_step *step, ls_span to, ls_span from, ls_arriving arriving);

/** Sets the holder's gradient to the sum of all replicas' gradients. members[i] has the gradient of
 * replica i, on the holder's device or sent to it. Fast mode: ((g0 + g1) + g2) + ...; exact mode:
 * the tree. */
void ls_add_up(ls_step *step, const int *members, int count);

/** What the member updates of a bucket of its place: a share (ls_bucket_share), if it shares the
 * update with others (ls_job.state), else all. */
ls_range ls_share(const ls_step *step, int member, int b);

/** Sums a bucket of a place's gradients over the replicas, and positions, of all processes, by the
 * job's algorithm: an all-reduce. If members share the update: a reduce-scatter, after which each
 * has the sum of its share and the rest is undefined; behind it, between groups of replicas,
 * all-reduces of shares. Gradients in windows (windows.h) are summed there. */
void ls_give(ls_step *step, int place, int b);

/** If parameters are in shares between steps: an all-gather of a bucket into its window, before its
 * use; nothing if they are whole, or if `b` is -1. */
void ls_need(ls_step *step, int place, int b);

/** Behind all updates, brings variables to all members that have them between steps: all-gathers of
 * what members updated in shares, and messages from the owner of a variable that several places use
 * to the other places. */
void ls_settle(ls_step *step);

/** The bucket to gather again before the backward pass of bucket `b`, because of windows; -1 if
 * there is none.
 */
int ls_bucket_ahead(const ls_step *step, int place, int b);

/** Replaces what replicas have in place of their parameters, in a bucket, by its mean over all: the
 * sum, as ls_give sums gradients, divided by their number. With job.exchange.wire it is rounded
 * before it is sent, each addend and the mean, and all take the mean as sent (comm_wire.h). */
void ls_mean(ls_step *step, int b);

/** Sets every replica's parameters, of elements that are due (ls_due), at once, to the mean of its
 * own and its peers' parameters before (ls_strategy_average.peers), summed in the order of their
 * numbers. If the strategy does not have peers, to the mean of all replicas', summed bucket by
 * bucket as ls_give sums gradients. */
void ls_average(ls_step *step);

/* ---- Sums ------------------------------------------------------------------------------------ */

/** Fast mode's reduction order of an all-reduce: ls_strategy_witness.sum. */
ls_status ls_sum_by_algorithm(const ls_job *job, const bool *has, int count, ls_sum_order *out);

/* ---- Traffic by closed forms ----------------------------------------------------------------- */

/** The traffic of all that moves by the job's mesh and spreads: ls_give and ls_settle of all
 * buckets, with what windows gather again; in divided replicas what crosses between places, and
 * their sums. */
ls_traffic ls_moved_traffic(const ls_step *step);
