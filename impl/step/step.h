/* SPDX-License-Identifier: MIT */
/*
 * A step, described in textbook order: what all replicas do, as a sequential program.
 *
 * A strategy's `build` describes it by the verbs below. It is called when a run is opened, once for
 * each kind of step that can occur: of the full batch and, if an epoch has one, of its smaller
 * remainder batch (ls_sums, ls_pieces answer for it); with a period of steps
 * (ls_job_update.period), of each size once for steps within a period and once for each of its
 * steps that exchanges parameters (ls_bucket). Behind what it describes, every member's step is
 * ended (time and loss are recorded, its position in the data advances) without a verb. Each verb
 * appends *tasks*: operations on one queue (a *lane*), with the memory that they read and write. No
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

/** Replicas of all processes. Replica r is member r, unless the model is divided: then its places
 * are members r x places to (r + 1) x places - 1. */
int ls_replicas(const ls_step *step);

/** Members that compute: replicas, or their places; not shadows (ls_shadow), nor owners that are
 * not replicas. */
int ls_members(const ls_step *step);

/** How many nodes a divided model has; each is on one place, or, if layers are split, those of no
 * slice on all. */
int ls_nodes(const ls_step *step);

/** The member that owns the variables: a replica on the variable device, or one more member; -1 if
 * each replica has its own. */
int ls_holder(const ls_step *step);

/** The member that runs a replica's backward pass on the holder's device
 * (ls_job_division.backward_held). It has the replica's slice, its own memory, and the holder's
 * variables. */
int ls_shadow(ls_step *step, int replica);

/** All elements. */
ls_range ls_all(const ls_step *step);

/** Bucket number `b` among the ranges that replicas exchange, in the order in which backward makes
 * gradients final; and how many buckets there are. In a divided model each place has its own
 * buckets: the ones of place 0 come first. With a period a bucket is empty, except in the period's
 * last step or, with fragments (ls_job_update), in the step that exchanges its fragment. */
ls_range ls_bucket(const ls_step *step, int b);
int ls_bucket_count(ls_step *step);

/** What the member updates of a bucket: a share (ls_bucket_share), if it shares the update with
 * others (ls_job.state), else all; nothing of another place's. */
ls_range ls_share(const ls_step *step, int member, int b);

/** Number of partial sums of the replica's gradient: 1, or 0 for an empty slice; in exact mode, one
 * for each of its finished subtrees (slice.h). */
size_t ls_sums(const ls_step *step, int replica);

ls_span ls_parameters(const ls_step *step, int member, ls_range range);
/** A range of buffer number `i` that the strategy owns (ls_strategy.owns). */
ls_span ls_own(ls_step *step, int member, int i, ls_range range);

/** A replica's partial sum number `sum`; an owner's: see ps_step.h. */
ls_span ls_gradient(ls_step *step, int member, size_t sum, ls_range range);

/** Whether members are on different devices, so that what they exchange is traffic. */
bool ls_cross_devices(const ls_step *step, int a, int b);

/* ---- A replica's own work -------------------------------------------------------------------- */

/** Goes on to exchange number `i` of gradients, from 0: the verbs that follow run the pieces of the
 * slices before it, and ls_give adds its sum to the sums of earlier exchanges. Returns false if
 * there are no more. ls_run_pass chooses its own exchange. Without accumulation, or if gradients
 * are exchanged once, there is one exchange, of all pieces; a step need not call this for it. */
bool ls_next_exchange(ls_step *step, int i);

/** Gathers the member's slice of the batch and runs its forward pass, up to the first node that
 * needs variables behind `range`; if the member holds all variables whole, all of it. If the slice
 * has several pieces (ls_pieces), that of the first. */
void ls_forward(ls_step *step, int member, ls_range range);

/** Runs the backward pass (and both passes of further pieces) until the gradients of `range` are
 * final; nothing if they already are. */
void ls_backward(ls_step *step, int member, ls_range range);

/** Numbers of the replica's pieces up to the exchange that the step has come to: parts of its slice
 * that go forward and backward alone. */
ls_range ls_pieces(const ls_step *step, int replica);

/** A member's forward or backward pass over a piece (not LS_PASS_WEIGHTS); a backward pass with the
 * additions to the gradient that it makes possible. */
void ls_run_piece(ls_step *step, int member, size_t piece, ls_pass_kind kind);

/** Buffer number `index` of those that a piece's backward pass reads of its forward pass
 * (ls_net_kept). False: there are no more. */
bool ls_kept(const ls_step *step, int member, size_t piece, size_t index, ls_span *out);

enum { LS_TOGETHER = -1 };

/**
 * With job.update.clip, what scales gradients in the updates that follow: every member that updates
 * sums the squares of its variables' gradients, block by block; members with a part of the
 * variables (places of a replica, owners, replicas that share the update) send each other their
 * sums; each finds the norm from all. Weight decay becomes part of the gradients. Nothing without.
 * `member` is LS_TOGETHER, or one whose gradients are applied alone: if it does not update itself,
 * its gradients are scaled here.
 */
void ls_clip_gradients(ls_step *step, int member);

/** The optimizer's update of a range of the member's variables: of ls_all, what it updates. */
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
 * comes back from these; only to its inputs, where weight passes are apart. Weights: such a node's
 * gradients of variables. Gradients of variables that several places use go to the owner, which
 * adds them in the order of the nodes. Behind its place's first node follow the additions that the
 * piece makes possible.
 *
 * If layers are split (graph_split.h), what all places have of a sum is all-reduced between the
 * halves of a join's forward pass and of a fork's backward pass. If places have parts of the
 * positions (graph_context.h), what a node deals or has collected goes to or from other places: the
 * transfers of an exchange's c nodes on each of c places are an all-to-all.
 */
void ls_run_node(ls_step *step, int replica, size_t piece, int node, ls_pass_kind kind);

/** Pass number `i` of a divided replica: in a pipeline, of its stages over micro-batches, in the
 * order of the job's schedule; else over the pieces up to the exchange, each forward and back.
 * False if there are no more. */
bool ls_next_pass(ls_step *step, int replica, size_t i, ls_pass *out);

enum { LS_EVERY_REPLICA = -1 };

/** A stage's pass over all pieces of a micro-batch, or all nodes' over a piece. In a pipeline the
 * loss is part of the backward pass. Where gradients are in windows, LS_EVERY_REPLICA: all replicas
 * pass a node before any passes the next one, behind the gathers of what it is the first to need;
 * behind it the sums of what it makes final. */
void ls_run_pass(ls_step *step, int replica, const ls_pass *pass);

/** The one page of which all `build` are cases, but where others than replicas own the variables,
 * or replicas update alone: passes of whole or divided replicas, exchanges, updates (verbs/page.c).
 */
void ls_build(ls_step *step);

/* ---- Between members ------------------------------------------------------------------------- */

/** A message between members, of one size at both; counted as traffic if devices differ. The
 * receiver adds it to `to`, or overwrites that. With parameter servers, and between processes, it
 * is an operation at both ends; else a copy by the sender, or of what a holder has by the receiver.
 * Between processes, members of these, places of a replica over several processes and replicas with
 * peers have ends; for others it is refused. If messages overlap passes, they are on a lane of
 * their own in each replica. */
void ls_message(ls_step *step, ls_span to, ls_span from, ls_arriving arriving);

/** Sets the holder's gradient to the sum of all replicas' gradients. members[i] has the gradient of
 * replica i, on the holder's device or sent to it. Fast mode: ((g0 + g1) + g2) + ...; exact mode:
 * the tree. */
void ls_add_up(ls_step *step, const int *members, int count);

/** Sums a bucket of gradients over the replicas, and positions, of all processes, by the
 * job's algorithm: an all-reduce. If members share the update: a reduce-scatter, after which each
 * has the sum of its share and the rest is undefined; behind it, between groups of replicas,
 * all-reduces of shares. Gradients in windows (windows.h) are summed there. */
void ls_give(ls_step *step, int b);

/** If parameters are in shares between steps, an all-gather into a window: before a forward pass of
 * the bucket; before its backward pass of the one that is needed again, as many windows ahead.
 * Nothing if they are whole. */
void ls_need(ls_step *step, int b, ls_pass_kind before);

/** Behind all updates, brings variables to all members that have them between steps: all-gathers of
 * what members updated in shares, and messages from the owner of a variable that several places use
 * to the other places. */
void ls_settle(ls_step *step);

/** Replaces what replicas have in place of their parameters, in a bucket, by its mean over all: the
 * sum, as ls_give sums gradients, divided by their number. With job.exchange.wire it is rounded
 * before it is sent, each addend and the mean, and all take the mean as sent (comm_wire.h). */
void ls_mean(ls_step *step, int b);

/** Sets every replica's parameters, of elements that are exchanged in this step, at once, to the
 * mean of its own and its peers' parameters before (ls_strategy_average.peers), summed in the order
 * of their numbers. Without peers: to the mean of all replicas', summed bucket by bucket as ls_give
 * sums gradients. */
void ls_average(ls_step *step);

/* ---- Sums ------------------------------------------------------------------------------------ */

/** Fast mode's reduction order of an all-reduce: ls_strategy_witness.sum. */
ls_status ls_sum_by_algorithm(const ls_job *job, const bool *has, int count, ls_sum_order *out);

/* ---- Traffic by closed forms ----------------------------------------------------------------- */

/** The traffic of all that moves by the job's mesh and spreads: ls_give and ls_settle of all
 * buckets, with what windows gather again; in divided replicas what crosses between places, and
 * their sums. */
ls_traffic ls_moved_traffic(const ls_step *step);
