/* SPDX-License-Identifier: MIT */
/* The part of a row that identifies its case; see row.h. */
#include "bench/row/row.h"

#include "bench/case/case_facts.h"
#include "bench/case/graph_file.h"
#include "bench/output/format_parts.h"
#include "impl/ps/ps_layout.h"
#include "impl/slice.h"
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
    int64_t first = d, last = d + 1, parts = n;
    if (job->exact) { /* whole shards */
        parts = job->micro_shards < job->batch ? job->micro_shards : job->batch;
        first = ls_slice_begin(parts, d, n);
        last = ls_slice_begin(parts, d + 1, n);
    }
    return ls_slice_begin(job->batch, last, parts) - ls_slice_begin(job->batch, first, parts);
}

/* The resolved placement of the first replica, balanced or named: "dense0=cpu:0,relu0=cpu:0,...".
 * With several processes, "/task:1/cpu:0" is a device of rank 1. */
static void put_placement(json_t *group, const ls_plan_of_case *plan)
{
    const ls_graph *graph = plan->model->graph;
    const int here = (int)plan->device_count;
    char *text = NULL, name[LS_NODE_NAME], device[32], task[32] = "";
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size); /* long for a deep network */
    for (int n = 0; n < graph->count && stream; n++) {
        const int place = plan->place[n];
        if (!graph->nodes[n].input_count)
            continue;
        if (ls_job_places(&plan->job) > here)
            snprintf(task, sizeof task, "/task:%d/", place / here);
        fprintf(stream, "%s%s=%s%s", ftell(stream) ? "," : "", ls_graph_node_name(graph, n, name),
                task, ls_device_name_text(&plan->devices[place % here], device));
    }
    if (stream && fclose(stream) == 0)
        ls_put_text(group, "model_parallel_place", text);
    free(text);
}

/* Steps that were trained and timed, and those that were asked for: --until-precision adds some, an
 * interrupt or a loss that is not finite leaves some out. */
static void put_steps(json_t *group, const ls_row_facts *f)
{
    const uint64_t asked = (uint64_t)f->plan->timed;
    const uint64_t steps = f->trial ? f->trial->timed.done : f->unfinished ? 0 : asked;
    const double precision = f->workplace->request->precision;
    ls_put_integer(group, "steps", steps);
    if (steps != asked)
        ls_put_integer(group, "steps_asked", asked);
    if (precision > 0)
        ls_put_real(group, "until_precision", precision);
}

/* Length of the training, optimizer and data. */
static void put_training(json_t *group, const ls_row_facts *f)
{
    const ls_plan_of_case *plan = f->plan;
    const ls_case *c = plan->config;
    const ls_job *job = &plan->job;
    char text[256];
    ls_put_text(group, "scaling", ls_scaling_words[c->scaling]);
    put_steps(group, f);
    ls_put_integer(group, "warmup", (uint64_t)plan->warmup);
    if (job->period)
        ls_put_integer(group, "period", (uint64_t)job->period);
    if (job->epochs)
        ls_put_integer(group, "epochs", (uint64_t)c->epochs);
    if (!f->workplace->request->verify)
        ls_put_integer(group, "blocks", (uint64_t)f->workplace->request->blocks);
    ls_put_integer(group, "seed", c->seed);
    json_object_set_new(group, "shuffle", json_boolean(c->shuffle));
    ls_put_text(group, "optimizer", ls_optimizer_text(&job->optimizer, text, sizeof text));
    if (job->clip > 0)
        ls_put_real(group, "clip", job->clip);
    ls_put_real(group, "lr", job->schedule.initial);
    ls_put_text(group, "reduce", ls_reduce_words[c->reduce]);
    if (c->eval_samples == LS_EVAL_ALL)
        ls_put_text(group, "eval_samples", "all");
    else if (c->eval_samples != LS_EVAL_AUTO)
        ls_put_integer(group, "eval_samples", (uint64_t)c->eval_samples);
    if (job->exact)
        ls_put_integer(group, "micro_shards", (uint64_t)job->micro_shards);
    if (ls_job_slices(job) || ls_case_has_slices(c))
        ls_put_integer(group, "micro_splits", (uint64_t)ls_job_splits(job));
}

/* Options declared by strategies, models and data: --ps-mode becomes the field ps_mode. */
static void put_own(json_t *group, const ls_case *config)
{
    const ls_declared_option *own[LS_DECLARED_HAD];
    const size_t count = ls_case_own(config, own);
    for (size_t i = 0; i < count; i++) {
        const int64_t number = ls_declared_number(&config->own, own[i]);
        const double real = ls_declared_real(&config->own, own[i]);
        char name[64];
        ls_declared_field(own[i]->name, name);
        if (own[i]->type == LS_DECLARED_NUMBER)
            json_object_set_new(group, name, json_integer((json_int_t)number));
        else if (own[i]->type == LS_DECLARED_REAL)
            ls_put_real(group, name, real);
        else if (own[i]->type == LS_DECLARED_SWITCH)
            json_object_set_new(group, name, json_boolean(number));
        else
            ls_put_text(group, name,
                        own[i]->type == LS_DECLARED_WORD ? own[i]->words[number]
                                                         : ls_declared_text(&config->own, own[i]));
    }
}

/* Fields that only some strategies have. */
static void put_strategy(json_t *group, const ls_plan_of_case *plan)
{
    const ls_job *job = &plan->job;
    if (plan->strategy->reduces) {
        ls_put_text(group, "allreduce", job->allreduce->name);
        ls_put_integer(group, "bucket_bytes",
                       job->bucket_bytes == SIZE_MAX
                           ? plan->model->graph->variables.elements * sizeof(float)
                           : job->bucket_bytes);
        json_object_set_new(group, "overlap", json_boolean(job->overlap));
    }
    if (ls_strategy_splits(plan->strategy))
        ls_put_text(group, "allreduce", job->allreduce->name);
    if (plan->place && !ls_job_slices(job))
        put_placement(group, plan);
}

/* Of a model from a file: its text, and a hash that tells it from others of that path. */
static void put_file(json_t *group, const ls_model *model)
{
    char digest[17];
    if (!ls_graph_file_text(model))
        return;
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)ls_graph_file_digest(model));
    ls_put_text(group, "model_digest", digest);
    ls_put_text(group, "model_text", ls_graph_file_text(model));
}

json_t *ls_row_case(const ls_row_facts *f)
{
    const ls_plan_of_case *plan = f->plan;
    const ls_case *c = plan->config;
    const ls_job *job = &plan->job;
    json_t *group = json_object(), *devices = json_array(), *batches = json_array();
    char text[256];
    for (size_t i = 0; i < plan->device_count; i++) {
        json_array_append_new(devices, json_string(ls_device_name_text(&plan->devices[i], text)));
        json_array_append_new(batches, json_integer(slice_of(plan, (int64_t)i)));
    }
    ls_put_text(group, "model", plan->model->name);
    put_file(group, plan->model);
    ls_put_text(group, "data", *c->data ? c->data : plan->model->family->default_data);
    put_own(group, c);
    ls_put_text(group, "strategy", plan->strategy->name);
    if (plan->soft_placed)
        ls_put_text(group, "devices_asked", c->devices);
    if (plan->variables_placed) {
        const ls_declared_option *option = &ls_option_variable_device;
        ls_put_text(group, "variable_device_asked", ls_declared_text(&c->own, option));
        ls_put_text(group, "variable_device", ls_device_name_text(&plan->variable_device, text));
    }
    json_object_set_new(group, "devices", devices);
    ls_put_integer(group, "ranks", (uint64_t)c->ranks);
    ls_put_integer(group, "hosts",
                   (uint64_t)(job->comm ? f->workplace->request->processes->hosts : 1));
    ls_put_integer(group, "batch_global", (uint64_t)job->batch);
    json_object_set_new(group, "batch_per_device", batches);
    put_training(group, f);
    put_strategy(group, plan);
    ls_put_text(group, "comm", job->transport->name);
    ls_put_text(group, "memory",
                *c->memory_text                        ? c->memory_text
                : plan->devices->kind == LS_DEVICE_GPU ? "all"
                                                       : "growth");
    if (*c->link_text)
        ls_put_text(group, "link", c->link_text);
    if (c->fault.kind)
        ls_put_text(group, "inject", ls_fault_text(&c->fault, text, sizeof text));
    if (plan->devices->kind == LS_DEVICE_GPU) /* other kinds have one arithmetic only */
        ls_put_text(group, "math", ls_math_words[c->math]);
    if (plan->devices->kind == LS_DEVICE_GPU && ls_case_convolves(c))
        ls_put_text(group, "convolution", ls_convolution_words[c->convolution]);
    json_object_set_new(group, "capture", json_boolean(job->capture));
    ls_put_integer(group, "parameters", plan->model->graph->variables.elements);
    return group;
}
