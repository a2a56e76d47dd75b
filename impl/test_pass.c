/* SPDX-License-Identifier: MIT */
/* Test pass; see test_pass.h. */
#include "impl/test_pass.h"

#include "common/base/digest.h"
#include "common/base/grow.h"
#include "common/comm/comm.h"
#include "impl/carried.h"

#include <stdlib.h>

/* Outputs are read, and hashed, in pieces of at most this size. */
enum { PIECE_BYTES = 1 << 20 };

/* The model's outputs for a batch of the test set, in runs: one for all positions, or for each
 * block of positions; for logits in slices the loss's parts, each slice a run. */
struct ls_test_outputs {
    const void *device; /* real: the runs, each [rows, targets, classes, or LS_SOFTMAX_PART] */
    const ls_graph_blocks *blocks;
    uint64_t rows, done, digest; /* done: samples so far */
    uint64_t targets;            /* of a sample, in all blocks */
    uint64_t runs;
    size_t target_bytes; /* of one target's outputs */
    unsigned char host[PIECE_BYTES];
};

/* A run: its first byte, its targets of a sample, and its number in all outputs. */
typedef struct test_run {
    size_t at;
    int64_t targets;
    uint64_t number;
} test_run;

static test_run run_of(const struct ls_test_outputs *o, uint64_t i)
{
    const bool blocks = o->blocks->whole;
    const size_t before = (size_t)i * (size_t)(blocks ? (uint64_t)o->blocks->count[0] : o->targets);
    return (test_run){o->rows * before * o->target_bytes,
                      blocks ? o->blocks->count[i] : (int64_t)o->targets,
                      blocks ? (uint64_t)o->blocks->first[i] : i};
}

/* ---- Operations of a replica ----------------------------------------------------------------- */

/* Appends counting the correct predictions of a run; of slices, of all. */
static ls_status append_count(ls_replica *r, const ls_net *net, uint64_t i, int64_t classes)
{
    const struct ls_test_outputs *o = r->test.outputs;
    const ls_kernel_table *table = r->kernels->table;
    const test_run run = run_of(o, i);
    const ls_count_correct_args whole = {.rows = (int64_t)o->rows * run.targets,
                                         .classes = classes,
                                         .targets = run.targets,
                                         .logits = (const char *)o->device + run.at,
                                         .labels = (const int32_t *)ls_net_target(net) +
                                                   run.at / o->target_bytes,
                                         .state = r->test.state,
                                         .samples = r->test.end,
                                         .correct = r->test.correct};
    const ls_count_parts_args parts = {.rows = whole.rows,
                                       .slices = r->graph->slices.splits,
                                       .targets = whole.targets,
                                       .parts = ls_net_loss_parts(net),
                                       .labels = whole.labels,
                                       .state = whole.state,
                                       .samples = whole.samples,
                                       .correct = whole.correct};
    ls_op *op;
    LS_TRY(parts.parts ? table->count_parts(r->kernels, &parts, &op)
                       : table->count_correct(r->kernels, &whole, &op));
    return ls_op_list_add(&r->test.count, op);
}

static ls_status build(const ls_tested *part)
{
    ls_replica *r = part->replica;
    ls_net *net = part->net;
    for (int c = 0; c < part->chunk_count; c++)
        LS_TRY(ls_replica_feed_test(r, part->chunks[c], &r->test.feed));
    if (!part->chunks)
        LS_TRY(ls_replica_feed_test(r, net, &r->test.feed));
    if (!part->counts || !ls_net_target(net)) /* another place has the model's output */
        return LS_OK;
    const ls_graph *graph = r->graph->blocks.whole ? r->graph : r->job->model->graph;
    const ls_node *loss = &graph->nodes[graph->count - 1];
    const int64_t targets = ls_graph_targets(graph);
    const int64_t classes = ls_shape_elements(&loss->shape) / targets;
    const void *parts = ls_net_loss_parts(net);
    LS_TRY(ls_allocate("replica", &r->test.outputs, 1, sizeof *r->test.outputs));
    struct ls_test_outputs *o = r->test.outputs;
    o->device = parts;
    if (!parts)
        LS_TRY(ls_net_read_output(net, &r->test.count, &o->device));
    o->blocks = &r->graph->blocks;
    o->rows = (uint64_t)ls_net_rows(net);
    o->targets = (uint64_t)targets;
    o->runs = parts ? (uint64_t)r->graph->slices.splits : o->blocks->whole ? 2 : 1;
    o->target_bytes = (size_t)(parts ? LS_SOFTMAX_PART : classes) * r->kernels->table->real_bytes;
    for (uint64_t i = 0; i < (parts ? 1 : o->runs); i++)
        LS_TRY(append_count(r, net, i, classes));
    return LS_OK;
}

void ls_replica_forget_test(ls_replica *r)
{
    ls_op_list_clear(&r->test.feed);
    ls_op_list_clear(&r->test.count);
    free(r->test.outputs);
    r->test.outputs = NULL;
    r->test.net = NULL;
}

/* ---- Variables ------------------------------------------------------------------------------- */

/* Saves what replicas have of the variables, or gives it back. */
static ls_status keep(const ls_test_pass *pass, ls_carried *kept)
{
    for (int i = 0; i < pass->lent_count; i++) {
        const ls_replica *r = pass->lent[i];
        for (size_t b = 0; b < r->buffer_count; b++)
            if (r->buffers[b].memory == r->parameters || r->buffers[b].memory == r->masters)
                LS_TRY(ls_carry_memory(kept, r->queue, r->buffers[b].memory, r->buffers[b].bytes));
    }
    return LS_OK;
}

static ls_status gather(const ls_test_pass *pass, ls_range block, float *out)
{
    return pass->gather ? pass->gather(pass->context, block, out)
                        : ls_replica_gather(*pass->lent, LS_AVERAGES, block, out);
}

/* Puts what is evaluated in the place of replicas' variables. After a failure here, the process
 * still takes part in what all gather together. */
static ls_status lend(const ls_test_pass *pass, const ls_job *job, ls_carried *kept)
{
    ls_auto float *block_values = NULL;
    const size_t elements = ls_job_elements(job).count, most = LS_STATE_BLOCK;
    ls_status status = ls_allocate("replica", &block_values, elements < most ? elements : most,
                                   sizeof *block_values);
    if (!status)
        status = keep(pass, kept);
    LS_TRY(ls_comm_agree(pass->comm, status));
    for (ls_range block = {0}; ls_state_next(elements, &block);) {
        LS_TRY(gather(pass, block, block_values));
        for (int i = 0; i < pass->lent_count && !status; i++)
            status = ls_replica_put(pass->lent[i], block, block_values);
    }
    return ls_comm_agree(pass->comm, status);
}

/* ---- Batches --------------------------------------------------------------------------------- */

static ls_status begin(const ls_tester *tester)
{
    for (int p = 0; p < tester->count; p++) {
        ls_replica *r = tester->parts[p].replica;
        if (r->test.net != tester->parts[p].net || r->test.end != tester->end) {
            ls_replica_forget_test(r);
            r->test.end = tester->end;
            LS_TRY(build(&tester->parts[p]));
            r->test.net = tester->parts[p].net;
        }
        if (r->test.outputs)
            r->test.outputs->done = r->test.outputs->digest = 0;
        LS_TRY(ls_queue_write(r->queue, r->test.correct, &(uint64_t){0}, sizeof *r->test.correct));
    }
    return LS_OK;
}

/* Adds the hash of a batch's outputs and of where they are, piece by piece; a sum does not depend
 * on the order. */
static ls_status hash_outputs(ls_replica *r, uint64_t position, uint64_t rows)
{
    struct ls_test_outputs *o = r->test.outputs;
    for (uint64_t i = 0; i < o->runs; i++) {
        const test_run run = run_of(o, i);
        const size_t bytes = rows * (size_t)run.targets * o->target_bytes;
        for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
            const size_t count = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
            const char *from = (const char *)o->device + run.at + at;
            LS_TRY(ls_queue_read(r->queue, o->host, from, count));
            const uint64_t said[] = {position, run.number, at, ls_hash64(o->host, count)};
            o->digest += ls_hash64(said, sizeof said);
        }
    }
    return LS_OK;
}

/* Counts a batch's correct predictions, if the net has the model's output. */
static ls_status count_right(ls_replica *r, const ls_tester *tester, bool outputs)
{
    struct ls_test_outputs *o = r->test.outputs;
    if (!o)
        return LS_OK;
    const uint64_t left = tester->end - tester->at, rows = left < o->rows ? left : o->rows;
    LS_TRY(ls_op_list_enqueue(&r->test.count, r->queue));
    if (outputs)
        LS_TRY(hash_outputs(r, tester->at, rows));
    o->done += rows;
    return LS_OK;
}

/* Runs a batch through nets that run alone, node by node: where the evaluation may be ended, no
 * more than a node is waited for. */
static ls_status predict_alone(const ls_test_pass *pass, const ls_evaluating *how)
{
    const ls_replica *r = pass->testers->parts->replica;
    for (int n = 0; n < r->graph->count; n++) {
        if (!ls_layer_predicts(r->graph->nodes[n].layer))
            continue;
        LS_TRY(ls_net_node_enqueue(pass->testers->parts->net, n, LS_NET_PREDICT, r->queue));
        if (how->check) {
            LS_TRY(ls_queue_sync(r->queue));
            LS_TRY(how->check(how->context));
        }
    }
    return LS_OK;
}

/* A tester without samples left has its batch, too, of which nothing counts. */
static ls_status take_batch(const ls_test_pass *pass, const ls_evaluating *how)
{
    for (int t = 0; t < pass->count; t++) {
        const ls_tester *tester = &pass->testers[t];
        const ls_step_state state = {.position = tester->at};
        for (int p = 0; p < tester->count; p++) {
            ls_replica *r = tester->parts[p].replica;
            LS_TRY(ls_queue_write(r->queue, r->test.state, &state, sizeof state));
            LS_TRY(ls_op_list_enqueue(&r->test.feed, r->queue)); /* gathers the batch */
        }
    }
    LS_TRY(pass->predict ? pass->predict(pass->context, how) : predict_alone(pass, how));
    for (int t = 0; t < pass->count; t++)
        for (int p = 0; p < pass->testers[t].count; p++)
            LS_TRY(count_right(pass->testers[t].parts[p].replica, &pass->testers[t], how->outputs));
    for (int t = 0; t < pass->count; t++) {
        ls_tester *tester = &pass->testers[t];
        for (int p = 0; p < tester->count; p++)
            LS_TRY(ls_queue_sync(tester->parts[p].replica->queue));
        const uint64_t left = tester->end - tester->at;
        const uint64_t rows = (uint64_t)ls_net_rows(tester->parts->net);
        tester->at += rows < left ? rows : left;
    }
    return LS_OK;
}

/* Runs `batches` batches of each tester from number *round on. A check that ends the evaluation
 * fails with LS_CODE_INTERRUPTED. */
static ls_status run_some(const ls_test_pass *pass, const ls_evaluating *how, uint64_t batches,
                          uint64_t *round, bool *stopped)
{
    ls_status status = LS_OK;
    for (; batches && *round < pass->rounds && !status; batches--, ++*round)
        status = take_batch(pass, how);
    *stopped = ls_status_code(status) == LS_CODE_INTERRUPTED;
    if (*stopped) {
        ls_status_free(status);
        return LS_OK;
    }
    if (status && pass->abandon)
        pass->abandon(pass->context);
    return status;
}

/* Runs all batches; with turns, processes agree before the first ones, too, when all have begun. */
static ls_status run_all(const ls_test_pass *pass, const ls_evaluating *how, ls_status begun,
                         bool *stopped)
{
    ls_status status = begun;
    uint64_t batches = how->turn ? 1 : pass->rounds;
    for (uint64_t round = 0; round < pass->rounds && !*stopped;) {
        if (how->turn)
            status = how->turn(how->context, status, &batches, stopped);
        if (status)
            return status;
        if (!*stopped)
            status = run_some(pass, how, batches, &round, stopped);
    }
    return status;
}

/* ---- The outcome ----------------------------------------------------------------------------- */

void ls_evaluation_add(const ls_evaluation *part, ls_evaluation *sum)
{
    sum->right += part->right;
    sum->counted += part->counted;
    sum->outputs += part->outputs; /* in any order */
    sum->stopped |= part->stopped;
    sum->accuracy = sum->counted && !sum->stopped ? (double)sum->right / (double)sum->counted : -1;
}

static ls_status end(const ls_tester *tester, ls_evaluation *out)
{
    for (int p = 0; p < tester->count; p++) {
        ls_replica *r = tester->parts[p].replica;
        const struct ls_test_outputs *o = r->test.outputs;
        uint64_t right;
        LS_TRY(ls_queue_read(r->queue, &right, r->test.correct, sizeof right));
        const ls_evaluation evaluation = {
            .right = right, .counted = o ? o->done * o->targets : 0, .outputs = o ? o->digest : 0};
        ls_evaluation_add(&evaluation, out);
    }
    return LS_OK;
}

uint64_t ls_test_samples(const ls_job *job, const ls_evaluating *how)
{
    const uint64_t all = job->data->test.samples;
    return how->samples < all ? how->samples : all;
}

void ls_test_share(uint64_t samples, uint64_t rows, int index, int count, ls_tester *tester)
{
    const uint64_t batches = (samples + rows - 1) / rows, n = (uint64_t)count;
    const uint64_t first = batches * (uint64_t)index / n * rows;
    const uint64_t last = batches * (uint64_t)(index + 1) / n * rows;
    tester->at = first < samples ? first : samples;
    tester->end = last < samples ? last : samples;
}

uint64_t ls_test_rounds(uint64_t samples, uint64_t rows, int count)
{
    const uint64_t batches = (samples + rows - 1) / rows, n = (uint64_t)count;
    return (batches + n - 1) / n;
}

ls_status ls_test_pass_run(const ls_test_pass *pass, const ls_job *job, const ls_evaluating *how,
                           ls_evaluation *out)
{
    ls_closing(ls_carried_close) ls_carried kept = {0};
    const bool lends = pass->gather || (pass->lent_count && ls_state_name(job, LS_AVERAGES));
    bool stopped = false;
    ls_status status = LS_OK;
    *out = (ls_evaluation){.accuracy = -1};
    if (lends)
        LS_TRY(lend(pass, job, &kept));
    for (int t = 0; t < pass->count && !status; t++)
        status = begin(&pass->testers[t]);
    status = run_all(pass, how, status, &stopped);
    for (int t = 0; t < pass->count && !status; t++)
        status = end(&pass->testers[t], out);
    kept.gives = true;
    if (lends)
        status = ls_status_first(status, keep(pass, &kept));
    ls_evaluation_add(&(ls_evaluation){.stopped = stopped}, out);
    return status;
}
