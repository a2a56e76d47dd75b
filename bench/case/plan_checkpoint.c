/* SPDX-License-Identifier: MIT */
/*
 * Checkpoints of a case: what a run that goes on must have in common with the one that wrote
 * (ls_plan_agreed), and the plan that goes on (ls_plan_resume). Everything else may differ: layout,
 * devices, ranks, how gradients are reduced.
 */
#include "bench/case/workplace.h"

#include "bench/case/case_facts.h"
#include "bench/case/graph_file.h"
#include "bench/checkpoint/checkpoint.h"
#include "build_info.h"
#include "common/base/digest.h"
#include "common/base/grow.h"
#include "impl/strategies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ls_resumed {
    ls_checkpoint checkpoint;
    ls_checkpoint_files *files;
    uint64_t hash; /* of the manifest */
    ls_state_source state;
};

/* ---- What must agree ------------------------------------------------------------------------- */

/* The members of `case`, and each one's option. */
static const struct {
    const char *member, *option;
} agreed[] = {
    {"model", "--model"},
    {"data", "--data"},
    {"samples", "--data"},
    {"batch_global", "--batch"},
    {"counts", "--epochs"},
    {"seed", "--seed"},
    {"shuffle", "--shuffle"},
    {"augment", "--augment"},
    {"sync_bn", "--sync-bn"},
    {"optimizer", "--optimizer"},
    {"clip", "--clip"},
    {"lr", "--lr"},
    {"lr_schedule", "--lr-schedule"},
    {"lr_warmup_steps", "--lr-warmup-steps"},
    {"lr_decay_steps", "--lr-decay-steps"},
    {"min_lr", "--min-lr"},
    {"lr_wsd_decay_steps", "--lr-wsd-decay-steps"},
    {"lengths", "--lengths"},
    {"dropout", "--dropout"},
};
enum { AGREED = sizeof agreed / sizeof *agreed };

static void put_rate(const ls_case *c, const ls_rate_schedule *s, json_t *out)
{
    const bool constant = s->kind == LS_RATE_CONSTANT;
    json_object_update_new(out, json_pack("{s:f,s:s,s:I}", "lr", s->initial, "lr_schedule",
                                          !constant   ? c->lr_schedule
                                          : s->period ? "the model's"
                                                      : "constant",
                                          "lr_warmup_steps", (json_int_t)s->warmup));
    if (!constant)
        json_object_update_new(out, json_pack("{s:I,s:f}", "lr_decay_steps", (json_int_t)s->decay,
                                              "min_lr", s->least));
    if (s->kind == LS_RATE_WSD)
        json_object_set_new(out, "lr_wsd_decay_steps", json_integer((json_int_t)s->down));
}

/* Options that models and data declare, by their names. */
static void put_declared(const ls_case *c, json_t *out)
{
    const ls_declared_option *own[LS_DECLARED_HAD];
    const size_t count = ls_case_own(c, own);
    for (size_t i = 0; i < count; i++) {
        const ls_declared_option *o = own[i];
        const int64_t number = ls_declared_number(&c->own, o);
        char member[64], option[64];
        ls_declared_field(o->name, member);
        snprintf(option, sizeof option, "--%s", o->name);
        for (size_t a = 0; a < AGREED; a++)
            if (strcmp(agreed[a].option, option) == 0)
                json_object_set_new(out, member,
                                    o->type == LS_DECLARED_REAL
                                        ? json_real(ls_declared_real(&c->own, o))
                                    : o->type == LS_DECLARED_SWITCH ? json_boolean(number)
                                    : o->type == LS_DECLARED_WORD   ? json_string(o->words[number])
                                                                    : json_integer(number));
    }
}

json_t *ls_plan_agreed(const ls_plan_of_case *plan)
{
    const ls_case *c = plan->config;
    const ls_job *job = &plan->job;
    char text[256], model[sizeof plan->model->name];
    const char *data = *c->data ? c->data : plan->model->family->default_data;
    snprintf(model, sizeof model, "%s", plan->model->name);
    if (ls_graph_file_text(plan->model))
        snprintf(model, sizeof model, "graph:%016llx",
                 (unsigned long long)ls_graph_file_digest(plan->model));
    json_t *out = json_pack(
        "{s:s,s:s%,s:I,s:I,s:s,s:I,s:b,s:s,s:f}", "model", model, "data", data, strcspn(data, ":"),
        "samples", (json_int_t)plan->data->train.samples, "batch_global", (json_int_t)job->batch,
        "counts", job->sampling.epochs ? "epochs" : "steps", "seed", (json_int_t)c->seed, "shuffle",
        (int)c->shuffle, "optimizer", ls_optimizer_text(&job->update.optimizer, text, sizeof text),
        "clip", job->update.clip);
    put_rate(c, &job->update.schedule, out);
    put_declared(c, out);
    return out;
}

json_t *ls_plan_written(const ls_plan_of_case *plan)
{
    const ls_case *c = plan->config;
    return json_pack("{s:s, s:i, s:i, s:s, s:I, s:i, s:s}", "strategy", plan->strategy->name,
                     "devices", plan->all_devices, "ranks", c->ranks, "reduce",
                     ls_reduce_words[c->reduce], "micro_shards", (json_int_t)c->micro_shards,
                     "micro_splits", ls_job_splits(&plan->job), "commit", LS_GIT_COMMIT);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static void value_text(const json_t *value, char text[80])
{
    if (!value)
        snprintf(text, 80, "none");
    else if (json_is_string(value))
        snprintf(text, 80, "%.79s", json_string_value(value));
    else if (json_is_integer(value))
        snprintf(text, 80, "%lld", (long long)json_integer_value(value));
    else if (json_is_boolean(value))
        snprintf(text, 80, "%s", json_is_true(value) ? "yes" : "no");
    else
        snprintf(text, 80, "%.17g", json_number_value(value));
}

static ls_status compare_agreed(const ls_plan_of_case *plan, const ls_checkpoint *checkpoint)
{
    const ls_case *c = plan->config;
    json_auto_t *values = ls_plan_agreed(plan);
    const json_t *saved = json_object_get(checkpoint->manifest, "case");
    for (size_t a = 0; a < AGREED; a++) {
        char current[80], stored[80];
        const char *member = agreed[a].member, *option = agreed[a].option;
        value_text(json_object_get(values, member), current);
        value_text(json_object_get(saved, member), stored);
        if (strcmp(current, stored) == 0)
            continue;
        if (strcmp(member, "lr_decay_steps") == 0 && !c->lr_decay)
            return ls_fail(LS_CODE_USAGE, "option --lr-schedule", c->lr_schedule,
                           "the schedule ends after %s steps in this run, but after %s in the "
                           "checkpoint %s; use --lr-decay-steps %s",
                           current, stored, checkpoint->folder, stored);
        if (strcmp(member, "model") == 0 && ls_graph_file_is(current) && ls_graph_file_is(stored))
            return ls_fail(LS_CODE_USAGE, "option", option,
                           "the model's file differs from the file used for the checkpoint %s; "
                           "restore that file, or start from the checkpoint's parameters alone "
                           "with --load",
                           checkpoint->folder);
        if (strcmp(member, "counts") == 0)
            return ls_fail(LS_CODE_USAGE, "option",
                           strcmp(current, "steps") ? "--epochs" : "--steps",
                           "the length of the checkpoint's run (%s) was given in %s, but the "
                           "length of this run in %s; use --%s",
                           checkpoint->folder, stored, current, stored);
        return ls_fail(LS_CODE_USAGE, "option", option,
                       "%s is %s in this run, but %s in the checkpoint %s; change %s to match, or "
                       "start from the checkpoint's parameters alone with --load",
                       strcmp(member, "batch_global") == 0 ? "the batch of all devices together"
                       : strcmp(member, "samples") == 0    ? "the number of training samples"
                                                           : "the value",
                       current, stored, checkpoint->folder, option);
    }
    return LS_OK;
}

/* Replicas that are not alike have no state that any layout could go on with. */
static ls_status check_alike(const ls_plan_of_case *plan, const char *option)
{
    const bool alone = ls_strategy_alone(plan->strategy);
    if (!alone && !ls_ps_by_arrival(&plan->job.ps))
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, "option", option,
                   "cannot be used with --strategy %s, since %s; use %s, or --save and --load",
                   plan->strategy->name,
                   alone ? "its replicas have different parameters"
                         : "its servers apply gradients as they arrive",
                   alone ? "another strategy, such as --strategy mirrored"
                         : "--ps-mode sync --ps-backup-workers 0");
}

/* ---- Going on -------------------------------------------------------------------------------- */

/* Finds the checkpoint, if there is one to go on from. */
static ls_status find_checkpoint(ls_workplace *workplace)
{
    const ls_request *request = workplace->request;
    const bool automatic = strcmp(request->resume_from, "auto") == 0;
    const char *path = automatic ? request->checkpoint : request->resume_from;
    ls_auto char *folder = NULL;
    LS_TRY(ls_allocate("checkpoint", &workplace->resumed, 1, sizeof *workplace->resumed));
    LS_TRY(ls_checkpoint_find(path, &folder));
    if (!folder && automatic)
        return LS_OK;
    if (!folder)
        return ls_fail(LS_CODE_MISSING, "option --resume-from-checkpoint", path,
                       "this folder has no complete checkpoint: neither the folder nor one of its "
                       "step-* folders has a manifest.json; name another folder");
    return ls_checkpoint_open(folder, &workplace->resumed->checkpoint);
}

ls_status ls_plan_resume(ls_workplace *workplace, ls_plan_of_case *plan)
{
    const ls_request *request = workplace->request;
    if ((request->checkpoint || request->resume_from) && request->budget_ns)
        return ls_fail(LS_CODE_USAGE, "option",
                       request->checkpoint ? "--checkpoint" : "--resume-from-checkpoint",
                       "cannot be used with `budget:` in a plan, which chooses the number of "
                       "steps; replace `budget:` by `steps: N`");
    if (request->checkpoint)
        LS_TRY(check_alike(plan, "--checkpoint"));
    if (!request->resume_from)
        return LS_OK;
    LS_TRY(check_alike(plan, "--resume-from-checkpoint"));
    if (!workplace->resumed)
        LS_TRY(find_checkpoint(workplace));
    const ls_checkpoint *checkpoint = &workplace->resumed->checkpoint;
    if (!checkpoint->manifest)
        return LS_OK;
    LS_TRY(compare_agreed(plan, checkpoint));
    const uint64_t all = (uint64_t)(plan->warmup + plan->timed), done = checkpoint->step;
    if (done > all)
        return ls_fail(LS_CODE_USAGE, "option", plan->job.sampling.epochs ? "--epochs" : "--steps",
                       "the run ends after step %llu, warm-up included, but the checkpoint %s was "
                       "written after step %llu, so nothing is left to train; give more steps",
                       (unsigned long long)all, checkpoint->folder, (unsigned long long)done);
    const int64_t left = (int64_t)(all - done);
    plan->job.start = done;
    plan->timed = plan->timed < left ? plan->timed : left;
    plan->warmup = left - plan->timed;
    return LS_OK;
}

/* Says where the arithmetic of sums differs, so that bits will. */
static void tell_reduction(const ls_workplace *workplace, const ls_plan_of_case *plan)
{
    static const char *const members[] = {"reduce", "micro_shards", "micro_splits"};
    const char *const options[] = {"--reduce", "--micro-shards",
                                   plan->job.exact.on ? "--micro-splits" : "layers split by"};
    const ls_checkpoint *checkpoint = &workplace->resumed->checkpoint;
    json_auto_t *values = ls_plan_written(plan);
    const json_t *saved = json_object_get(checkpoint->manifest, "written");
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        char current[80], stored[80];
        value_text(json_object_get(values, members[i]), current);
        value_text(json_object_get(saved, members[i]), stored);
        if (strcmp(current, stored) != 0 && workplace->request->processes->rank == 0)
            ls_log_line(
                &workplace->request->log, LS_LOG_NORMAL,
                "checkpoint: %s: was written with %s %s, but this run has %s %s, so its results "
                "will differ in rounding from a run without interruption; to avoid this, use the "
                "checkpoint's value",
                checkpoint->folder, options[i], stored, options[i], current);
    }
}

/* No digest covers step and position. */
static ls_status check_position(const ls_job *job, const ls_checkpoint *checkpoint)
{
    const json_t *position = json_object_get(checkpoint->manifest, "position");
    const uint64_t samples = ls_job_samples(job, checkpoint->step);
    if ((uint64_t)json_integer_value(position) == samples)
        return LS_OK;
    return ls_fail(LS_CODE_MISSING, "checkpoint", checkpoint->path,
                   "the checkpoint says that %lld samples were read, but %llu steps of this case "
                   "read %llu samples; use an intact checkpoint, for instance an older one",
                   (long long)json_integer_value(position), (unsigned long long)checkpoint->step,
                   (unsigned long long)samples);
}

static ls_status read_state(const ls_state_source *source, ls_values array, ls_range range,
                            float *out)
{
    const struct ls_resumed *r = source->from;
    return ls_checkpoint_read(r->files, array, range, out);
}

static ls_status open_files(const ls_workplace *workplace, const ls_plan_of_case *plan,
                            const char *const names[LS_ARRAYS], struct ls_resumed *r)
{
    ls_check_share share;
    LS_TRY(ls_check_share_find(r->checkpoint.folder, workplace->request->processes->host,
                               plan->job.ranks.comm, LS_OK, &share));
    ls_auto char *text = json_dumps(r->checkpoint.manifest, JSON_COMPACT | JSON_SORT_KEYS);
    r->hash = text ? ls_hash64(text, strlen(text)) : 0;
    r->state = (ls_state_source){.read = read_state, .from = r};
    return ls_checkpoint_files_open(&r->checkpoint, &plan->model->graph->variables, names, share,
                                    &r->files);
}

ls_status ls_plan_read_state(ls_workplace *workplace, ls_plan_of_case *plan)
{
    struct ls_resumed *r = workplace->resumed;
    const char *names[LS_ARRAYS];
    for (int a = 0; a < LS_ARRAYS; a++)
        names[a] = ls_state_name(&plan->job, (ls_values)a);
    if (!r->files) {
        LS_TRY(open_files(workplace, plan, names, r));
        LS_TRY(check_position(&plan->job, &r->checkpoint));
        tell_reduction(workplace, plan);
    }
    plan->initial = r->state;
    plan->initial_hash = r->hash;
    plan->job.resumed = &r->state;
    return LS_OK;
}

bool ls_plan_is_resumed(const ls_workplace *workplace)
{
    return workplace->resumed && workplace->resumed->checkpoint.manifest;
}

ls_status ls_plan_open_parameters(const ls_workplace *workplace, const ls_plan_of_case *plan,
                                  struct ls_resumed **out, ls_state_source *source, uint64_t *hash)
{
    const char *folder = workplace->request->load;
    const char *const names[LS_ARRAYS] = {"param"};
    struct ls_resumed *r;
    ls_auto char *found = NULL;
    ls_status status = ls_allocate("checkpoint", &r, 1, sizeof *r);
    if (!status)
        status = ls_checkpoint_find(folder, &found);
    if (!status && !found)
        status = ls_fail(LS_CODE_MISSING, "load", folder,
                         "this folder has no complete checkpoint; name a safetensors file, or a "
                         "folder with a manifest.json");
    if (!status)
        status = ls_checkpoint_open(found, &r->checkpoint);
    status = ls_comm_agree(plan->job.ranks.comm, status);
    if (!status)
        status = open_files(workplace, plan, names, r);
    if (status) {
        ls_resumed_close(r);
        return status;
    }
    *out = r;
    *source = r->state;
    *hash = r->hash;
    return LS_OK;
}

void ls_resumed_close(struct ls_resumed *r)
{
    if (!r)
        return;
    ls_checkpoint_files_close(r->files);
    ls_checkpoint_close(&r->checkpoint);
    free(r);
}
