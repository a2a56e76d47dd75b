/* SPDX-License-Identifier: MIT */
/*
 * Option values that are numbers, texts, names and words, and what a row says of them; see
 * option_values.h.
 */
#include "bench/cli/option_values.h"

#include "bench/case/case_facts.h"
#include "bench/case/profile.h"
#include "bench/output/format.h"
#include "bench/rows/row.h"
#include "common/base/numbers.h"
#include "common/data/data.h"
#include "common/nn/model.h"
#include "common/nn/optimizer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void *ls_setting_field(const ls_setting *setting)
{
    char *base = setting->one ? (char *)setting->one : (char *)setting->request;
    return base + setting->option->offset;
}

/* For options that are read elsewhere: --plan, and those of commands without cases. */
ls_status ls_set_nothing(const ls_setting *setting)
{
    (void)setting;
    return LS_OK;
}

/* ---- Numbers, words, text ------------------------------------------------------------------ */

static const char *const no_yes[] = {"no", "yes", NULL};

static const char *const *words_of(const ls_option *option)
{
    return option->is_switch ? no_yes : option->words;
}

ls_status ls_setting_check(const ls_setting *setting, bool valid)
{
    const ls_option *option = setting->option;
    const char *const *words = words_of(option);
    char text[160] = "";
    if (valid)
        return LS_OK;
    for (size_t i = 0; words && words[i]; i++)
        ls_text_add(text, sizeof text, "%s%s", i ? ", " : "one of ", words[i]);
    if (option->declared && !words)
        ls_declared_valid(option->declared, text, sizeof text);
    else if (option->valid && !words)
        snprintf(text, sizeof text, "%s", option->valid);
    else if (!words)
        snprintf(text, sizeof text, "a whole number from %" PRId64 " to %" PRId64, option->low,
                 option->high);
    const bool list = !option->sweeps && !words && !option->valid && strchr(setting->text, ',');
    return ls_setting_refuse(setting, LS_CODE_USAGE, "'%s' is not valid%s; use %s", setting->text,
                             list ? ", and this option takes no list" : "", text);
}

ls_status ls_set_int64(const ls_setting *setting)
{
    const ls_option *option = setting->option;
    return ls_setting_check(setting, ls_parse_integer(setting->text, option->low, option->high,
                                                      ls_setting_field(setting)));
}

ls_status ls_set_int(const ls_setting *setting)
{
    const ls_option *option = setting->option;
    int64_t value;
    LS_TRY(ls_setting_check(setting,
                            ls_parse_integer(setting->text, option->low, option->high, &value)));
    *(int *)ls_setting_field(setting) = (int)value;
    return LS_OK;
}

/* Within [least, most], or none. */
ls_status ls_set_real(const ls_setting *setting)
{
    const ls_option *option = setting->option;
    double value = 0;
    const bool none = strcmp(option->fallback, "none") == 0 && strcmp(setting->text, "none") == 0;
    LS_TRY(ls_setting_check(setting, none || (ls_parse_real(setting->text, &value) &&
                                              value >= option->least && value <= option->most)));
    *(double *)ls_setting_field(setting) = value;
    return LS_OK;
}

/* The number of the word that the value is, which must be one of the option's. */
static ls_status read_word(const ls_setting *setting, int *out)
{
    const char *const *words = words_of(setting->option);
    for (*out = 0; words[*out] && strcmp(setting->text, words[*out]) != 0;)
        ++*out;
    return ls_setting_check(setting, words[*out]);
}

ls_status ls_set_word(const ls_setting *setting)
{
    int word;
    LS_TRY(read_word(setting, &word));
    *(int *)ls_setting_field(setting) = word + (int)setting->option->low;
    return LS_OK;
}

ls_status ls_set_switch(const ls_setting *setting)
{
    int word;
    LS_TRY(read_word(setting, &word));
    *(bool *)ls_setting_field(setting) = word == 1;
    return LS_OK;
}

ls_status ls_set_text(const ls_setting *setting)
{
    char *copy = strdup(setting->text);
    if (!copy)
        return ls_fail_memory("options", strlen(setting->text));
    char **field = ls_setting_field(setting);
    free(*field);
    *field = copy;
    return LS_OK;
}

static ls_status refuse_length(const ls_setting *setting, size_t capacity)
{
    return ls_setting_refuse(setting, LS_CODE_USAGE,
                             "the value has %zu characters; use at most %zu", strlen(setting->text),
                             capacity - 1);
}

/* Copies the value into an array of `high` characters; the rest of it becomes zero. */
ls_status ls_set_array(const ls_setting *setting)
{
    const size_t capacity = (size_t)setting->option->high;
    if (strlen(setting->text) >= capacity)
        return refuse_length(setting, capacity);
    strncpy(ls_setting_field(setting), setting->text, capacity);
    return LS_OK;
}

ls_status ls_setting_relay(const ls_setting *setting, ls_status status)
{
    if (!status)
        return LS_OK;
    ls_status named =
        ls_setting_refuse(setting, ls_status_code(status), "%s", ls_status_text(status));
    ls_status_free(status);
    return named;
}

/* ---- Names of the registries --------------------------------------------------------------- */

/* Names in other programs, and their equivalents here. */
static const struct {
    const char *name, *known;
} other_names[] = {
    {"ddp", "that is --strategy mirrored here"},
    {"dp", "that is --strategy mirrored here"},
    {"data-parallel", "that is --strategy mirrored here"},
    {"dataparallel", "that is --strategy mirrored here"},
    {"horovod", "that is --strategy mirrored here, with --allreduce ring"},
    {"fsdp", "that is --strategy zero --zero-stage 3 here"},
    {"fully-sharded", "that is --strategy zero --zero-stage 3 here"},
    {"deepspeed", "that is --strategy zero here, with --zero-stage 1, 2 or 3"},
};

/* Whether the value begins with a name in the option's registry. */
static ls_status check_name(const ls_setting *setting)
{
    const ls_registry *registry = setting->option->registry;
    size_t length = strcspn(setting->text, ":");
    if (ls_registry_find(registry, setting->text, length))
        return LS_OK;
    char name[64], valid[512], nearest[LS_NAME_SIZE], hint[256] = "";
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name),
             setting->text);
    ls_registry_names(registry, valid, sizeof valid);
    if (ls_nearest_name(name, valid, nearest))
        snprintf(hint, sizeof hint, "did you mean %s? ", nearest);
    for (size_t i = 0; registry == &ls_strategies && i < sizeof other_names / sizeof *other_names;
         i++)
        if (strcasecmp(name, other_names[i].name) == 0)
            snprintf(hint, sizeof hint, "%s; ", other_names[i].known);
    return ls_setting_refuse(setting, LS_CODE_USAGE, "'%s' is not a valid %s; %svalid are: %s",
                             name, setting->option->noun, hint, valid);
}

/* A name of the registry, or auto. */
ls_status ls_set_named(const ls_setting *setting)
{
    if (strcmp(setting->text, "auto") != 0 || strcmp(setting->option->fallback, "auto") != 0)
        LS_TRY(check_name(setting));
    return ls_set_array(setting);
}

ls_status ls_check_models(const ls_setting *setting)
{
    char sizes[LS_MODEL_TEXT];
    const size_t length = strlen(setting->text);
    if (!length || strspn(setting->text, "0123456789,-") != length || length >= sizeof sizes)
        return LS_OK;
    for (size_t i = 0; i <= length; i++)
        sizes[i] = setting->text[i] == ',' ? '-' : setting->text[i];
    return ls_setting_refuse(
        setting, LS_CODE_USAGE, "'%s' are sizes without the name of a model%s; use --model mlp:%s",
        setting->text, strchr(setting->text, ',') ? ", and a comma begins another model" : "",
        sizes);
}

ls_status ls_set_model(const ls_setting *setting)
{
    ls_model *model = NULL;
    if (ls_profile_is(setting->text))
        LS_TRY(ls_set_array(setting));
    else
        LS_TRY(ls_set_named(setting));
    ls_status status = ls_case_model_open(setting->text, NULL, 0, &model);
    if (!status && setting->one)
        ls_case_note_model(setting->one, model);
    ls_model_close(model);
    return ls_setting_relay(setting, status);
}

ls_status ls_set_data(const ls_setting *setting)
{
    const char *foreign = ls_data_foreign(setting->text);
    if (foreign && !strchr(setting->text, ':'))
        return ls_setting_refuse(setting, LS_CODE_USAGE,
                                 "'%s' has a format that cannot be read (%s); " LS_DATA_CONVERTER,
                                 setting->text, foreign);
    return ls_set_named(setting);
}

ls_status ls_set_strategy(const ls_setting *setting)
{
    LS_TRY(check_name(setting));
    return ls_setting_relay(setting, ls_strategy_find(setting->text, &setting->one->strategy));
}

ls_status ls_set_declared(const ls_setting *setting)
{
    const ls_declared_option *option = setting->option->declared;
    double number;
    const bool valid = ls_declared_read(option, setting->text, &number);
    if (!valid && option->type == LS_DECLARED_TEXT)
        return refuse_length(setting, (size_t)option->high);
    LS_TRY(ls_setting_check(setting, valid));
    if (option->check)
        LS_TRY(ls_setting_relay(setting, option->check(setting->text)));
    return ls_setting_relay(setting, ls_declared_set(&setting->one->own, option, setting->text));
}

ls_status ls_set_bucket(const ls_setting *setting)
{
    size_t bytes = 0;
    const bool automatic = strcmp(setting->text, "auto") == 0;
    LS_TRY(ls_setting_check(setting, automatic || ls_parse_bytes(setting->text, &bytes)));
    setting->one->bucket_bytes = automatic ? -1 : (int64_t)bytes;
    return LS_OK;
}

ls_status ls_set_eval_samples(const ls_setting *setting)
{
    const ls_option *option = setting->option;
    int64_t *out = &setting->one->eval_samples;
    *out = strcmp(setting->text, "all") == 0 ? LS_EVAL_ALL : LS_EVAL_AUTO;
    return ls_setting_check(setting,
                            *out == LS_EVAL_ALL || strcmp(setting->text, "auto") == 0 ||
                                ls_parse_integer(setting->text, option->low, option->high, out));
}

ls_status ls_set_optimizer(const ls_setting *setting)
{
    ls_optimizer optimizer;
    LS_TRY(ls_set_named(setting));
    return ls_setting_relay(setting, ls_optimizer_parse(setting->text, &optimizer));
}

/* ---- Words and ranks ------------------------------------------------------------------------ */

ls_status ls_set_epochs(const ls_setting *setting)
{
    LS_TRY(ls_set_int64(setting));
    setting->one->steps = -1;
    return LS_OK;
}

/* Refuses a communicator that needs more processes or devices than the command has. */
static ls_status check_comm(const ls_setting *setting, const char *word)
{
    const ls_processes *processes = setting->processes;
    if ((strcmp(word, "nccl") == 0 && !LS_HAS_NCCL) ||
        (strcmp(word, "mpi") == 0 && !ls_processes_built()))
        return ls_setting_refuse(setting, LS_CODE_MISSING,
                                 "this build does not have '%s'; use --comm auto or thread", word);
    if (strcmp(word, "mpi") == 0 && (!processes || !processes->comm))
        return ls_setting_refuse(setting, LS_CODE_MISSING,
                                 "'mpi' needs ranks that a launcher started; start lockstep by "
                                 "mpirun -n N, or use --comm thread with --ranks N");
    const bool inside = strcmp(word, "thread") == 0 || strcmp(word, "device") == 0;
    if (inside && processes && processes->size > 1)
        return ls_setting_refuse(setting, LS_CODE_USAGE,
                                 "'%s' connects ranks of one process, but the launcher started %d "
                                 "processes; use --comm mpi or auto, or start without a launcher",
                                 word, processes->size);
    return LS_OK;
}

ls_status ls_set_comm(const ls_setting *setting)
{
    const ls_processes *processes = setting->processes;
    int word;
    LS_TRY(read_word(setting, &word));
    LS_TRY(check_comm(setting, setting->text));
    const char *name = word ? setting->text : processes && processes->comm ? "mpi" : "thread";
    setting->one->comm_auto = !word && strcmp(name, "mpi") == 0;
    strncpy(setting->one->comm, name, sizeof setting->one->comm);
    return LS_OK;
}

ls_status ls_set_ranks(const ls_setting *setting)
{
    const ls_processes *processes = setting->processes;
    LS_TRY(ls_set_int(setting));
    if (setting->one && strcmp(setting->one->comm, "mpi") == 0 &&
        setting->one->ranks != processes->size)
        return ls_setting_refuse(setting, LS_CODE_USAGE,
                                 "'%s' is not the number of ranks that the launcher started, %d; "
                                 "remove --ranks, or use mpirun -n %s",
                                 setting->text, processes->size, setting->text);
    return LS_OK;
}

/* ---- GPUs (whether a case has one is looked at when it is resolved) ------------------------- */

/* A word, of which all except the first need GPUs. */
ls_status ls_set_gpu_word(const ls_setting *setting)
{
    const ls_option *option = setting->option;
    LS_TRY(ls_set_word(setting));
    const int word = *(int *)ls_setting_field(setting);
    if (word && !ls_kernel_table_default(LS_DEVICE_GPU))
        return ls_setting_refuse(
            setting, LS_CODE_USAGE,
            "'%s' works on GPUs only, which this build does not support; use '%s'",
            option->words[word], option->words[0]);
    if (option->words == ls_convolution_words && word == LS_CONVOLUTION_CUDNN && !LS_HAS_CUDNN)
        return ls_setting_refuse(setting, LS_CODE_MISSING,
                                 "this build does not have cuDNN; use --convolution auto or own");
    return LS_OK;
}

/* ---- What the whole command has ------------------------------------------------------------- */

/* main.c reads it first; here it is only checked. */
ls_status ls_set_launcher(const ls_setting *setting)
{
    int word;
    if (setting->origin)
        return ls_setting_refuse(setting, LS_CODE_USAGE,
                                 "cannot be used in a plan, because ranks connect before they read "
                                 "the plan; give this option on the command line");
    return read_word(setting, &word);
}

ls_status ls_set_format(const ls_setting *setting)
{
    const ls_format *format;
    ls_status status = ls_format_find(setting->text, &format);
    if (status) {
        ls_status_free(status);
        return ls_setting_refuse(setting, LS_CODE_USAGE, "'%s' is not a format; valid are: %s",
                                 setting->text, ls_format_names());
    }
    return ls_set_text(setting);
}

ls_status ls_set_columns(const ls_setting *setting)
{
    ls_chosen chosen;
    LS_TRY(ls_chosen_read(setting->text, &chosen));
    return ls_set_text(setting);
}

ls_status ls_set_results(const ls_setting *setting)
{
    LS_TRY(ls_set_text(setting));
    if (strcmp(setting->text, "none") == 0) {
        free(setting->request->results);
        setting->request->results = NULL;
    }
    return LS_OK;
}

/* With "yes" the log's level becomes `low`. */
ls_status ls_set_level(const ls_setting *setting)
{
    int word;
    LS_TRY(read_word(setting, &word));
    if (word)
        setting->request->log.level = (ls_log_level)setting->option->low;
    return LS_OK;
}

/* ---- Of a row ------------------------------------------------------------------------------- */

/* Each rank's devices, as a number if that selects the same. */
static char *devices_of(const json_t *row, const char *kind)
{
    const int64_t ranks = ls_row_integer(row, LS_F_case_ranks);
    const size_t count = ls_row_count(row, LS_F_case_devices) / (ranks > 0 ? (size_t)ranks : 1);
    char *text, name[32];
    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%s:%zu", kind, i);
        if (strcmp(ls_row_string_at(row, LS_F_case_devices, i), name) != 0)
            return ls_value_text(ls_row_get(row, LS_F_case_devices));
    }
    return asprintf(&text, "%zu", count) < 0 ? NULL : text;
}

char *ls_option_of_row(const ls_option *option, const json_t *row, const char *kind)
{
    char field[64];
    if (strcmp(option->name, "devices") == 0)
        return devices_of(row, kind);
    if (strcmp(option->name, "batch") == 0) {
        /* With weak scaling the batch of one replica, which each of its devices has in
         * batch_per_device; servers have 0. */
        const char *scaling = ls_row_string(row, LS_F_case_scaling);
        const json_t *each, *most = NULL;
        size_t i;
        if (strcmp(scaling, ls_scaling_words[LS_SCALING_WEAK]) != 0)
            return ls_value_text(ls_row_get(row, LS_F_case_batch_global));
        json_array_foreach(ls_row_get(row, LS_F_case_batch_per_device), i, each)
        {
            if (json_integer_value(each) > json_integer_value(most))
                most = each;
        }
        return ls_value_text(most);
    }
    const json_t *group = ls_row_group(row, LS_G_case);
    const json_t *value = json_object_get(group, ls_declared_field(option->name, field));
    return value ? ls_option_text(value) : NULL;
}
