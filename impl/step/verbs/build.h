/* SPDX-License-Identifier: MIT */
/* What verbs work on, and share: a plan and its resources, and the programs that they append to. */
#pragma once

#include "common/comm/comm_wire.h"
#include "impl/step/resources.h"
#include "impl/step/step.h"

/** Micro-batches that a part of a pipeline has run forward and freed, whose inputs it has fetched,
 * and how many it can hold. */
typedef struct ls_part_flow {
    int ran, freed, fetched, held;
    ls_pass last; /* of a stage */
} ls_part_flow;

/** A step while `build` describes it, or while a question about it is answered. */
struct ls_step {
    const ls_step_plan *plan;
    ls_resources *resources;
    int kind;                 /**< as in program.h, or LS_EVALUATION */
    int batch_kind;           /**< LS_FULL or LS_TAIL */
    int64_t batch;            /**< its samples */
    int exchange;             /**< of gradients, that the step has come to (ls_next_exchange) */
    int exchanged;            /**< how many there were before */
    ls_step_program *program; /**< what verbs append to */
    ls_step_program *before, *after; /**< programs of tasks outside steps */
    int *in_windows;                 /**< [windows] piece and unit whose outputs it has; or 0 */
    size_t *appended; /**< [members] appended acts of its slice, or [chunks, members] gathered
                           pieces */
    ls_pass *passes;  /**< [pass_count] of the replica whose passes are appended; owned */
    size_t pass_count;
    ls_part_flow *flow; /**< [stages x chunks] of that replica; owned. NULL means no schedule */
};

/** What a member brings to a call; `cut` NULL means `extent`. */
typedef struct ls_brought {
    ls_allreduce_args args;   /**< but `count` and `scratch` */
    ls_extent extent;         /**< of its elements */
    float *sums[LS_SUBTREES]; /**< memory for args.sums */
    float *blocks, *wide;     /**< of sums.c, where blocks of positions are copied */
    int node;                 /**< of the member's graph; -1 if none */
} ls_brought;

/** A call: what all members of a channel do together, an all-reduce or a half of one. */
typedef struct ls_call ls_call;
struct ls_call {
    const char *verb; /**< static text; NULL means the half's name */
    int channel;
    const ls_allreduce *algorithm; /**< NULL: `bring` appends all of a member's part */
    ls_half half;
    ls_range range; /**< of its tasks */
    /** Sets what a member brings, and appends what comes before. */
    ls_status (*bring)(ls_step *step, const ls_call *call, int member, ls_brought *brought,
                       ls_op_list *ops);
    /** Appends what comes behind. NULL if there is nothing. */
    ls_status (*take)(ls_step *step, const ls_call *call, int member, ls_brought *brought,
                      ls_op_list *ops);
    const void *of; /**< for both functions */
};

/** Appends rounding what is exchanged to bf16. */
ls_status ls_step_narrow(ls_kernels *kernels, size_t count, const float *x, void *y,
                         ls_op_list *ops);

/** What sums gradients: the job's all-reduce, or its form for rounded wires. */
static inline const ls_allreduce *ls_gradient_sum(const ls_job *job)
{
    return ls_allreduce_wired(job->exchange.allreduce, job->exchange.gradient_wire);
}

/** The parts of a divided model. */
static inline const ls_graph_parts *ls_step_parts(const ls_step *step)
{
    return &step->plan->parts;
}

/** Whether pieces run node by node, each node's gradients final before the next's, and are
 * exchanged one by one. */
static inline bool ls_step_by_node(const ls_step *step)
{
    return step->plan->job->gradients.windows;
}

/** Whether passes are those of a pipeline, over micro-batches. */
static inline bool ls_step_is_staged(const ls_step *step)
{
    return step->plan->job->division.microbatches;
}

/** Whether sums of several exchanges are finished subtrees, which are folded (terms.c). */
static inline bool ls_step_folds(const ls_job *job)
{
    return ls_slice_kept(job) > 1;
}

/** The program of evaluation has this kind; it is in no step. */
enum { LS_EVALUATION = -1 };

/** The verb of a repeated forward pass (repeat.h). */
static const char *const ls_verb_again = "forward again";

/** The range of tasks that work on no range of elements. */
static const ls_range ls_no_range = {0, 0};

/** Why verbs of buckets cannot act. */
static const char *const ls_no_buckets =
    "needs buckets, which exist only for values that are LS_PARTIAL; in the strategy's .spreads, "
    "set the gradients to LS_PARTIAL, or the parameters if replicas average them";

/** The elements that replicas exchange at the end of this step; without a period all. */
ls_range ls_step_due(const ls_step *step);
/** Number of shards of a batch of this kind, or of the step's, in exact mode, the leaves of its
 * tree; fast mode, or no such batch: 0. */
int64_t ls_shards_of(const ls_job *job, int batch_kind);
int64_t ls_step_shards(const ls_step *step);
/** The first set that has bucket *b of all, which becomes its number there. */
int ls_step_set_of(const ls_step_plan *plan, int *b);

/** Exchange number `i` of those that have samples; the number of all: there are no more. */
int ls_step_exchange(const ls_step *step, int i);
/** Whether no exchange of gradients follows the one that the step has come to. */
bool ls_step_last_exchange(const ls_step *step);

/** Keeps the first failure. */
void ls_step_fail(ls_step *step, ls_status status);
/** If the verb cannot act, LS_CODE_USAGE with why. Returns whether it can act and nothing failed.
 */
bool ls_step_can(ls_step *step, bool can, const char *verb, const char *why);

ls_member *ls_step_member(const ls_step *step, int member);
/** NULL if the member is in another process. */
ls_replica *ls_step_replica(const ls_step *step, int member);
/** Index, in the member's buffers, of the first element of a range of the model's flat buffers. */
size_t ls_step_offset(const ls_step *step, int member, ls_range range);

/** The replica's member that has a part, and the net of one of its pieces. */
int ls_step_member_at(const ls_step_plan *plan, int replica, int part);
ls_net *ls_step_net_of(const ls_step *step, int member, int piece, int node);

/** Pieces of a replica's pass number `pass`: of its micro-batch, its exchange or, without either,
 * the piece of this number. */
ls_range ls_step_pieces_of(const ls_step *step, int replica, int pass);
/** Whether a verb of passes can act: only in a divided model. */
bool ls_step_can_pass(ls_step *step, const char *verb);
/** Frees the order of a replica's passes. */
void ls_step_close_order(ls_step *step);

/** Appends a call: a task for each member of this process. */
void ls_step_call(ls_step *step, const ls_call *call);
/** A new ls_task.call, if a channel's members enqueue their tasks together; else -1. */
int ls_step_joint(ls_step *step, int channel);

/** Elements of scratch that calls of a group, or between places, need at an end. */
size_t ls_group_scratch(const ls_step_plan *plan, const ls_planned_group *group, int member,
                        const ls_comm *comm);
/** Slots that a group's exchanges need at a member (terms.c); elements of an end's shares of the
 * first buckets, and so of a slot. */
size_t ls_group_slots(const ls_step_plan *plan, const ls_planned_group *group, int member);
size_t ls_group_share_before(const ls_planned_group *group, size_t buckets, const ls_comm *comm);
/** The part of the shards that a member's group, if there are several, has for an exchange. */
ls_rank_group ls_step_dealt_to(const ls_step_plan *plan, int member, int exchange);
/** Appends what adds the finished sums of a member's share of a bucket to earlier exchanges' sums;
 * sets what is left of all to be brought to a sum between groups. */
ls_status ls_step_fold_share(const ls_step *step, const ls_end *end, int member, int bucket,
                             const ls_brought *brought, ls_op_list *ops);
void ls_step_bring_terms(const ls_step *step, int member, int bucket, ls_brought *brought);
size_t ls_mean_scratch(const ls_step_plan *plan, const ls_comm *comm);
size_t ls_sums_scratch(const ls_step_plan *plan, int member, const ls_end *end);

/** Tasks appended from now on belong to that piece of a replica's slice; replica -1 means to none.
 * Names the pieces of accumulated gradients, nothing else. */
void ls_step_enter_piece(ls_step *step, int replica, int piece);
enum { LS_ALL_CHUNKS = -1 };
/** Appends a task of a piece's acts of `kinds` (bits 1 << kind), of one chunk or all, of one node
 * or all (-1); none if they have no operations. */
void ls_step_append_acts(ls_step *step, const char *verb, int member, int piece, unsigned kinds,
                         int chunk, int node);
/** Appends a task of the member that sums all parts of so many replicas' gradients, up the tree,
 * into `out`, which may be the first part. None if there is one part. */
void ls_step_sum(ls_step *step, int member, ls_range range, const ls_span *parts, int replicas,
                 void *out);
/** Appends a task of a member that adds `more` to `sum`, both in its memory. */
void ls_step_add(ls_step *step, const char *verb, ls_span sum, ls_span more);
/** Appends the all-reduces of a bucket of all replicas' parameters, which become their sum. */
void ls_sum_parameters(ls_step *step, int b);
/** Appends messages of variables that several places use, in all replicas, from their owners: of a
 * place's, in a range of its elements; -1 means of all. */
void ls_step_share_values(ls_step *step, int place, ls_range range);
/** Closed forms of the traffic in all replicas: at boundaries between places, with variables that
 * several use; in sums between places; in all-to-alls. */
ls_traffic ls_step_border_traffic(const ls_step *step);
ls_traffic ls_step_sums_traffic(const ls_step *step);
ls_traffic ls_step_all_to_all_traffic(const ls_step *step);
/** What the exchange of sums of squares moves in one step (ls_clip_gradients). */
ls_traffic ls_step_clip_traffic(const ls_step *step);
/** Appends a copy on a lane; counted as traffic if devices differ. Refuses spans of two sizes, and
 * of two processes; nothing if both are in another process. */
void ls_step_copy(ls_step *step, const char *verb, int lane, ls_span to, ls_span from);
/** Appends the messages with what a node's pass has made final for other places, except outputs
 * that the other places fetch. `pass`: as of ls_step_sum_places. */
void ls_step_cross(ls_step *step, int replica, int piece, int node, ls_act_kind pass);
/** Whether a sum over places completes the node's pass. */
bool ls_step_is_summed(const ls_step *step, int node, bool backward);
/** Appends that sum, and the rest of the node's pass, if layers are split. `pass`: LS_ACT_FORWARD,
 * LS_ACT_BACKWARD or LS_ACT_AGAIN. */
void ls_step_sum_places(ls_step *step, int replica, int piece, int node, ls_act_kind pass);
/** For a divided replica: notes that a node's unit runs for a piece; behind its last node, before
 * its backward pass, appends the repeated forward pass, unless the window still has it. */
void ls_step_fill_window(ls_step *step, int replica, int piece, int node);
void ls_step_repeat_unit(ls_step *step, int replica, int piece, int node);
/** Appends a task of a node's pass of evaluation. */
void ls_step_predict(ls_step *step, const char *verb, int member, int piece, int node,
                     ls_net_pass pass);
/** Appends a node's forward pass, or repeated one (LS_ACT_AGAIN). */
void ls_step_forward_node(ls_step *step, int replica, int piece, int node, ls_act_kind pass);
/** Whether a node of a divided replica is repeated for a piece, by the order of passes: for closed
 * forms. */
bool ls_step_is_repeated(const ls_step *step, int replica, int piece, int node);
/** Where parameters are in windows, appends the gathers of what a node's pass on a place is the
 * first to need. */
void ls_step_gather_for(ls_step *step, int place, int node, ls_pass_kind kind);
/** Most pieces of a replica. */
int ls_step_most_pieces(const ls_step *step);
/** Appends the ends of all members' steps, behind all that `build` describes. */
void ls_step_append_ends(ls_step *step);
