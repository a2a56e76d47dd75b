/* SPDX-License-Identifier: MIT */
/* The part of a row that identifies its case; see row.h. */
#include "bench/row/row.h"

#include "bench/case/case_facts.h"
#include "bench/case/graph_file.h"
#include "bench/rows/put.h"
#include "common/nn/models.h"
#include "impl/ps/ps_layout.h"
#include "impl/replica/slice.h"
#include "impl/strategies.h"

#include <stdio.h>
#include <stdlib.h>

/* Samples of a full batch that device i of this process computes. */
static int64_t slice_of(const ls_plan_of_case *plan, int64_t i)
{
    const ls_job *job = &plan->job;
    int64_t n = ls_job_replicas(job), d = ls_job_member(job, (size_t)i) / ls_job_places(job);
    if (ls_strategy_serves(plan->strategy))
        d = ls_ps_worker_on(job, (int)i);
    if (d < 0) /* a server */
        return 0;
    int64_t sum = 0;
    for (int e = 0; e < ls_slice_exchanges(job); e++)
        sum += ls_slice_samples(job, job->batch, (int)d, (int)n, e);
    return sum;
}

/* The resolved placement of the first replica, balanced or named: "dense0=cpu:0,relu0=cpu:0,...".
 * With several processes, "/task:1/cpu:0" is a device of rank 1. */
static void put_placement(const ls_plan_of_case *plan, json_t *row)
{
    const ls_graph *graph = plan->model->graph;
    const int local = (int)plan->device_count;
    char *text = NULL, name[LS_NODE_NAME], device[32], task[32] = "";
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size); /* long for a deep network */
    for (int n = 0; n < graph->count && stream; n++) {
        const int place = plan->place[n];
        if (!graph->nodes[n].input_count)
            continue;
        if (ls_job_places(&plan->job) > local)
            snprintf(task, sizeof task, "/task:%d/", place / local);
        fprintf(stream, "%s%s=%s%s", ftell(stream) ? "," : "", ls_graph_node_name(graph, n, name),
                task, ls_device_name_text(&plan->devices[place % local], device));
    }
    if (stream && fclose(stream) == 0)
        json_object_set_new(ls_row_make(row, LS_G_case), "model_parallel_place", json_string(text));
    free(text);
}

/* The learning rate, and its schedule where it is not the model's own. */
static void put_rate(const ls_case *c, const ls_rate_schedule *s, json_t *row)
{
    ls_put_case_lr(row, s->initial);
    ls_put_case_lr_schedule(row, ls_nonempty(c->lr_schedule));
    ls_put_case_lr_warmup_steps(row, ls_nonzero(s->warmup));
    if (s->kind == LS_RATE_CONSTANT)
        return;
    ls_put_case_lr_decay_steps(row, s->decay);
    ls_put_case_min_lr(row, s->least);
    ls_put_case_lr_wsd_decay_steps(row, s->kind == LS_RATE_WSD ? s->down : LS_ABSENT);
}

/* Length of the training, optimizer and data. */
static void put_training(const ls_row_facts *f, json_t *row)
{
    const ls_plan_of_case *plan = f->plan;
    const ls_request *request = f->workplace->request;
    const ls_case *c = plan->config;
    const ls_job *job = &plan->job;
    /* --until-precision adds some, an interrupt or a loss that is not finite leaves some out. */
    const int64_t steps = f->trial        ? (int64_t)f->trial->timed.done
                          : f->unfinished ? 0
                                          : plan->timed;
    char text[256];
    ls_put_case_scaling(row, ls_scaling_words[c->scaling]);
    ls_put_case_steps(row, steps);
    ls_put_case_steps_asked(row, steps != plan->timed ? plan->timed : LS_ABSENT);
    ls_put_case_until_precision(row, ls_positive(request->precision));
    ls_put_case_epochs(row, job->sampling.epochs ? c->epochs : LS_ABSENT);
    ls_put_case_warmup(row, plan->warmup);
    ls_put_case_period(row, ls_nonzero(job->update.period));
    ls_put_case_blocks(row, request->verify ? LS_ABSENT : request->blocks);
    ls_put_case_seed(row, c->seed);
    ls_put_case_shuffle(row, c->shuffle);
    ls_put_case_optimizer(row, ls_optimizer_text(&job->update.optimizer, text, sizeof text));
    if (job->accumulation.pieces > 1)
        ls_put_case_gradient_accumulation_steps(row, job->accumulation.pieces);
    if (job->drops) {
        snprintf(text, sizeof text, "%d", job->drops);
        ls_put_case_recompute(row, job->drops > LS_REPEAT_FULL     ? text
                                   : job->drops == LS_REPEAT_NORMS ? "mlp"
                                                                   : "full");
    }
    ls_put_case_clip(row, ls_positive(job->update.clip));
    put_rate(c, &job->update.schedule, row);
    ls_put_case_reduce(row, ls_reduce_words[c->reduce]);
    if (c->eval_samples == LS_EVAL_ALL)
        ls_put_case_eval_samples(row, "all");
    else if (c->eval_samples != LS_EVAL_AUTO) /* the field is a text or a number */
        ls_row_put_int(row, LS_F_case_eval_samples, c->eval_samples);
    ls_put_case_micro_shards(row, job->exact.on ? job->exact.shards : LS_ABSENT);
    if (ls_job_slices(job) || (ls_case_is_exact(c) && ls_strategy_slices(c->strategy)))
        ls_put_case_micro_splits(row, ls_job_splits(job));
}

/* Options declared by strategies, models and data: --ps-mode becomes the field ps_mode. */
static void put_own(const ls_case *config, const ls_accumulation *accumulation, json_t *row)
{
    const ls_declared_option *own[LS_DECLARED_HAD];
    const size_t count = ls_case_own(config, own);
    json_t *group = ls_row_make(row, LS_G_case);
    for (size_t i = 0; i < count; i++) {
        int64_t number = ls_declared_number(&config->own, own[i]);
        if (own[i] == &ls_option_accumulation_exchange)
            number = accumulation->each ? LS_EXCHANGE_EACH : LS_EXCHANGE_LAST;
        if (accumulation->pieces < 2 &&
            (own[i] == &ls_option_accumulation_exchange || own[i] == &ls_option_zero_accumulation))
            continue;
        if (own[i]->implied && ls_declared_is_default(&config->own, own[i]))
            continue; /* as in rows of before this option */
        char name[64];
        ls_declared_field(own[i]->name, name);
        json_t *value = own[i]->type == LS_DECLARED_NUMBER ? json_integer(number)
                        : own[i]->type == LS_DECLARED_REAL
                            ? json_real(ls_declared_real(&config->own, own[i]))
                        : own[i]->type == LS_DECLARED_SWITCH ? json_boolean(number)
                        : own[i]->type == LS_DECLARED_WORD
                            ? json_string(own[i]->words[number])
                            : ls_text_value(ls_declared_text(&config->own, own[i]));
        json_object_set_new(group, name, value);
    }
}

void ls_row_put_case(const ls_row_facts *f, json_t *row)
{
    const ls_plan_of_case *plan = f->plan;
    const ls_case *c = plan->config;
    const ls_job *job = &plan->job;
    const bool gpu = plan->devices->kind == LS_DEVICE_GPU;
    char text[256];
    ls_put_case_model(row, plan->model->name);
    if (ls_graph_file_text(plan->model)) { /* and a hash that tells it from others of that path */
        snprintf(text, sizeof text, "%016llx",
                 (unsigned long long)ls_graph_file_digest(plan->model));
        ls_put_case_model_digest(row, text);
        ls_put_case_model_text(row, ls_graph_file_text(plan->model));
    }
    ls_put_case_data(row, *c->data ? c->data : plan->model->family->default_data);
    put_own(c, &job->accumulation, row);
    ls_put_case_strategy(row, plan->strategy->name);
    ls_put_case_devices_asked(row, plan->soft_placed ? c->devices : NULL);
    if (plan->variables_placed) {
        const char *name = ls_device_name_text(&plan->variable_device, text);
        ls_put_case_variable_device_asked(row,
                                          ls_declared_text(&c->own, &ls_option_variable_device));
        json_object_set_new(ls_row_make(row, LS_G_case), "variable_device", json_string(name));
    }
    for (size_t i = 0; i < plan->device_count; i++) {
        ls_row_append(row, LS_F_case_devices,
                      json_string(ls_device_name_text(&plan->devices[i], text)));
        ls_row_append(row, LS_F_case_batch_per_device, json_integer(slice_of(plan, (int64_t)i)));
    }
    ls_put_case_ranks(row, c->ranks);
    ls_put_case_hosts(row, job->ranks.comm ? f->workplace->request->processes->hosts : 1);
    ls_put_case_batch_global(row, job->batch);
    put_training(f, row);
    if (ls_strategy_reduces(plan->strategy)) {
        const size_t all = plan->model->graph->variables.elements * sizeof(float);
        ls_put_case_bucket_bytes(
            row, job->exchange.bucket_bytes == SIZE_MAX ? all : job->exchange.bucket_bytes);
        ls_put_case_overlap(row, job->exchange.overlap);
    }
    if (ls_strategy_reduces(plan->strategy) || ls_strategy_splits(plan->strategy))
        ls_put_case_allreduce(row, job->exchange.allreduce->name);
    if (plan->place && !ls_job_slices(job))
        put_placement(plan, row);
    ls_put_case_comm(row, job->exchange.transport->name);
    ls_put_case_memory(row, *c->memory_text ? c->memory_text : gpu ? "all" : "growth");
    ls_put_case_link(row, ls_nonempty(c->link_text));
    ls_put_case_inject(row, c->fault.kind ? ls_fault_text(&c->fault, text, sizeof text) : NULL);
    ls_put_case_elastic(row, ls_nonempty(c->elastic));
    ls_put_case_on_failure(row, c->shrinks ? "shrink" : NULL);
    if (gpu) /* other kinds have one arithmetic only */
        ls_put_case_math(row, ls_math_words[c->math]);
    ls_put_case_precision(row, ls_precision_words[c->precision]);
    if (gpu && ls_case_convolves(c))
        ls_put_case_convolution(row, ls_convolution_words[c->convolution]);
    ls_put_case_capture(row, job->kernels.capture);
    ls_put_case_parameters(row, plan->model->graph->variables.elements);
}

json_t *ls_row_case(const ls_row_facts *facts)
{
    json_auto_t *row = json_object();
    ls_row_put_case(facts, row);
    return json_incref(ls_row_group(row, LS_G_case));
}
