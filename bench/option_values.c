/* SPDX-License-Identifier: MIT */
/*
 * Option values: see option_values.h. Names are looked up in the registries that the caller of
 * ls_request_parse passed; whether a device exists here is for the machine to say, later.
 */
#include "bench/option_values.h"

#include "bench/option_ps.h"

#include "bench/format.h"
#include "bench/options.h"
#include "common/base/numbers.h"
#include "common/device/device_name.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void *field(const ls_setting *setting)
{
    char *base = setting->one ? (char *)setting->one : (char *)setting->request;
    return base + setting->option->offset;
}

bool ls_applies_ranks(const ls_case *one)
{
    return one->ranks > 1;
}

bool ls_applies_hybrid(const ls_case *one)
{
    return strcmp(one->strategy, "hybrid") == 0;
}

int ls_case_split_replicas(const ls_case *one, bool divided)
{
    return !divided ? 0 : ls_applies_hybrid(one) ? one->hybrid_replicas : 1;
}

bool ls_applies_mirrored(const ls_case *one)
{
    return strcmp(one->strategy, "mirrored") == 0 || ls_applies_hybrid(one);
}

bool ls_applies_buckets(const ls_case *one)
{
    return ls_applies_mirrored(one) && one->reduce == LS_REDUCE_FAST;
}

bool ls_applies_towers(const ls_case *one)
{
    return strcmp(one->strategy, "towers") == 0;
}

bool ls_applies_variable_device(const ls_case *one)
{
    return ls_applies_towers(one) || (ls_applies_ps(one) && one->ranks == 1);
}

bool ls_applies_model_parallel(const ls_case *one)
{
    return strcmp(one->strategy, "model-parallel") == 0 ||
           (ls_applies_hybrid(one) && !one->hybrid_pipeline);
}

bool ls_applies_pipeline(const ls_case *one)
{
    return strcmp(one->strategy, "pipeline") == 0 ||
           (ls_applies_hybrid(one) && one->hybrid_pipeline);
}

bool ls_applies_link(const ls_case *one)
{
    int64_t number;
    return strcmp(one->strategy, "single") != 0 || one->ranks > 1 || strchr(one->devices, '+') ||
           ls_parse_integer(one->devices, 2, INT32_MAX, &number);
}

/* Whether a text of a model or a data set is of this kind, with whatever sizes or place. */
static bool is_of(const char *text, const char *kind)
{
    const size_t length = strlen(kind);
    return strncmp(text, kind, length) == 0 && (!text[length] || text[length] == ':');
}

/* The data set that has images to crop, named or the model's. */
bool ls_applies_augment(const ls_case *one)
{
    static const char name[] = "cifar10";
    if (!*one->data)
        return is_of(one->model, name) || is_of(one->model, "resnet");
    return is_of(one->data, name);
}

bool ls_applies_sync_bn(const ls_case *one)
{
    return is_of(one->model, "resnet");
}

bool ls_applies_exact(const ls_case *one)
{
    return one->reduce == LS_REDUCE_EXACT;
}

ls_status ls_set_nothing(const ls_setting *setting)
{
    (void)setting;
    return LS_OK;
}

/* ---- Numbers, words, text ------------------------------------------------------------------ */

static ls_status read_integer(const ls_setting *setting, int64_t *out)
{
    const ls_option *option = setting->option;
    if (ls_parse_integer(setting->text, option->low, option->high, out))
        return LS_OK;
    bool list = !option->sweeps && strchr(setting->text, ',');
    return ls_setting_refuse(
        setting, LS_CODE_USAGE, "'%s' is not valid%s; a whole number from %" PRId64 " to %" PRId64,
        setting->text, list ? ", and this option takes no list" : "", option->low, option->high);
}

ls_status ls_set_int64(const ls_setting *setting)
{
    return read_integer(setting, field(setting));
}

ls_status ls_set_int(const ls_setting *setting)
{
    int64_t value;
    LS_TRY(read_integer(setting, &value));
    *(int *)field(setting) = (int)value;
    return LS_OK;
}

ls_status ls_set_seed(const ls_setting *setting)
{
    int64_t value;
    LS_TRY(read_integer(setting, &value));
    *(uint64_t *)field(setting) = (uint64_t)value;
    return LS_OK;
}

/* Index of the value among `words`, which a NULL ends. */
ls_status ls_setting_word(const ls_setting *setting, const char *const *words, int *out)
{
    char valid[128] = "";
    size_t used = 0;
    for (int i = 0; words[i]; i++) {
        if (strcmp(setting->text, words[i]) == 0) {
            *out = i;
            return LS_OK;
        }
        used +=
            (size_t)snprintf(valid + used, sizeof valid - used, "%s%s", i ? ", " : "", words[i]);
    }
    return ls_setting_refuse(setting, LS_CODE_USAGE, "'%s' is not valid; valid are: %s",
                             setting->text, valid);
}

static const char *const no_yes[] = {"no", "yes", NULL};

ls_status ls_set_switch(const ls_setting *setting)
{
    int word;
    LS_TRY(ls_setting_word(setting, no_yes, &word));
    *(bool *)field(setting) = word == 1;
    return LS_OK;
}

ls_status ls_set_text(const ls_setting *setting)
{
    char *copy = strdup(setting->text);
    if (!copy)
        return ls_fail_memory("options", strlen(setting->text));
    char **place = field(setting);
    free(*place);
    *place = copy;
    return LS_OK;
}

/* Copies into the field, an array of `high` characters; the rest of it becomes zero. */
static ls_status set_array(const ls_setting *setting)
{
    size_t capacity = (size_t)setting->option->high, length = strlen(setting->text);
    if (length >= capacity)
        return ls_setting_refuse(setting, LS_CODE_USAGE,
                                 "the value has %zu characters; at most %zu are taken", length,
                                 capacity - 1);
    char *place = field(setting);
    memset(place, 0, capacity);
    memcpy(place, setting->text, length);
    return LS_OK;
}

/* Relays what the reader of a value says, with the option's name. */
static ls_status name_option(const ls_setting *setting, ls_status status)
{
    if (!status)
        return LS_OK;
    ls_status named =
        ls_setting_refuse(setting, ls_status_code(status), "%s", ls_status_text(status));
    ls_status_free(status);
    return named;
}

/* ---- Names of the registries --------------------------------------------------------------- */

static ls_status check_name(const ls_setting *setting, const ls_list_section *section,
                            const char *noun)
{
    size_t length = strcspn(setting->text, ":");
    for (size_t i = 0; i < section->count(); i++)
        if (strlen(section->name(i)) == length &&
            memcmp(section->name(i), setting->text, length) == 0)
            return LS_OK;
    char name[64], valid[512], hint[96] = "";
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name),
             setting->text);
    const char *nearest = ls_list_nearest(section, name);
    if (nearest)
        snprintf(hint, sizeof hint, "did you mean %s? ", nearest);
    return ls_setting_refuse(setting, LS_CODE_USAGE, "'%s' is no %s; %svalid are: %s", name, noun,
                             hint, ls_list_names(section, valid, sizeof valid));
}

static ls_status set_named(const ls_setting *setting, const ls_option_registry *registry,
                           const char *noun)
{
    if (registry->section)
        LS_TRY(check_name(setting, registry->section, noun));
    LS_TRY(set_array(setting));
    return name_option(setting, registry->check ? registry->check(setting->text) : LS_OK);
}

ls_status ls_set_model(const ls_setting *setting)
{
    return set_named(setting, &setting->names->models, "model");
}

ls_status ls_set_data(const ls_setting *setting)
{
    return set_named(setting, &setting->names->data, "data set");
}

ls_status ls_set_strategy(const ls_setting *setting)
{
    return set_named(setting, &setting->names->strategies, "strategy");
}

ls_status ls_set_schedule(const ls_setting *setting)
{
    static const char *const words[] = {"gpipe", "1f1b", NULL};
    int word;
    LS_TRY(ls_setting_word(setting, words, &word));
    *(bool *)field(setting) = word == 1;
    return LS_OK;
}

ls_status ls_set_inner(const ls_setting *setting)
{
    static const char *const words[] = {"model-parallel", "pipeline", NULL};
    int word;
    LS_TRY(ls_setting_word(setting, words, &word));
    *(bool *)field(setting) = word == 1;
    return LS_OK;
}

/* "none": the empty plan; nodes and devices are looked up when the model is known. */
ls_status ls_set_place(const ls_setting *setting)
{
    return strcmp(setting->text, "none") == 0 ? LS_OK : set_array(setting);
}

ls_status ls_set_allreduce(const ls_setting *setting)
{
    if (strcmp(setting->text, "auto") == 0)
        return set_array(setting);
    return set_named(setting, &setting->names->allreduces, "all-reduce algorithm");
}

ls_status ls_set_bucket(const ls_setting *setting)
{
    size_t bytes;
    int64_t *out = field(setting);
    *out = -1;
    if (strcmp(setting->text, "auto") == 0)
        return LS_OK;
    if (!ls_parse_bytes(setting->text, &bytes))
        return ls_setting_refuse(setting, LS_CODE_USAGE,
                                 "'%s' is not valid; auto, 0 for one per variable, or a size as "
                                 "25MiB",
                                 setting->text);
    *out = (int64_t)bytes;
    return LS_OK;
}

ls_status ls_set_optimizer(const ls_setting *setting)
{
    return set_named(setting, &setting->names->optimizers, "optimizer");
}

/* ---- Devices ------------------------------------------------------------------------------- */

/* Refuses a list of names, "cpu:0+cpu:1", that does not parse or has a device twice. */
static ls_status check_device_names(const ls_setting *setting, char *list)
{
    enum { CAPACITY = 128 };
    ls_device_name names[CAPACITY];
    size_t count = 0;
    for (char *next = list, *part; next; count++) {
        part = next;
        next = strchr(part, '+');
        if (next)
            *next++ = 0;
        if (count == CAPACITY)
            return ls_setting_refuse(setting, LS_CODE_USAGE,
                                     "more than %d names; a number "
                                     "makes more",
                                     CAPACITY);
        LS_TRY(name_option(setting, ls_device_name_parse(part, &names[count])));
        for (size_t i = 0; i < count; i++)
            if (ls_device_name_overlaps(&names[i], &names[count]))
                return ls_setting_refuse(setting, LS_CODE_USAGE,
                                         "%s is named twice; name each device once, or give a "
                                         "number of devices",
                                         part);
    }
    return LS_OK;
}

ls_status ls_set_devices(const ls_setting *setting)
{
    char copy[sizeof setting->one->devices];
    size_t length = strlen(setting->text);
    if (length >= sizeof copy)
        return ls_setting_refuse(setting, LS_CODE_USAGE,
                                 "the value has %zu characters; at most %zu are taken", length,
                                 sizeof copy - 1);
    int64_t number;
    memcpy(copy, setting->text, length + 1);
    if (strpbrk(copy, ":/+"))
        LS_TRY(check_device_names(setting, copy));
    else if (!ls_parse_integer(copy, setting->option->low, setting->option->high, &number))
        return ls_setting_refuse(setting, LS_CODE_USAGE,
                                 "'%s' is not valid; a number from %" PRId64 " to %" PRId64
                                 ", or names as cpu:0+cpu:1",
                                 copy, setting->option->low, setting->option->high);
    memset(setting->one->devices, 0, sizeof setting->one->devices);
    memcpy(setting->one->devices, setting->text, length);
    return LS_OK;
}

ls_status ls_set_device(const ls_setting *setting)
{
    ls_device_name name;
    ls_status status = ls_device_name_parse(setting->text, &name);
    if (status)
        ls_status_free(status);
    else if (strlen(setting->text) < (size_t)setting->option->high)
        return set_array(setting);
    return ls_setting_refuse(setting, LS_CODE_USAGE,
                             "'%.64s' is no device name; names are as /cpu:0, gpu:1, "
                             "/job:worker/task:1/device:GPU:0",
                             setting->text);
}

/* ---- Options with a grammar of their own --------------------------------------------------- */

ls_status ls_set_scaling(const ls_setting *setting)
{
    static const char *const words[] = {"strong", "weak", NULL};
    int word;
    LS_TRY(ls_setting_word(setting, words, &word));
    setting->one->scaling = word ? LS_SCALING_WEAK : LS_SCALING_STRONG;
    return LS_OK;
}

ls_status ls_set_epochs(const ls_setting *setting)
{
    LS_TRY(ls_set_int64(setting));
    setting->one->steps = -1;
    return LS_OK;
}

ls_status ls_set_learning_rate(const ls_setting *setting)
{
    double value;
    if (!ls_parse_real(setting->text, &value) || value < 1e-30 || value > 1e6)
        return ls_setting_refuse(setting, LS_CODE_USAGE,
                                 "'%s' is not valid; a number above 0, from 1e-30 to 1e6",
                                 setting->text);
    setting->one->learning_rate = value;
    return LS_OK;
}

/* The text after "<name>="; NULL where the value does not begin so. */
static const char *after_name(const char *text, const char *name)
{
    size_t length = strlen(name);
    return strncmp(text, name, length) == 0 && text[length] == '=' ? text + length + 1 : NULL;
}

/* RANK:TIME of a delay. */
static ls_status set_delay(const ls_setting *setting, const char *text)
{
    char rank[24];
    const size_t length = strcspn(text, ":");
    int64_t number;
    uint64_t ns;
    bool valid = text[length] == ':' && length < sizeof rank;
    if (valid) {
        memcpy(rank, text, length);
        rank[length] = 0;
        valid = ls_parse_integer(rank, 0, 1023, &number) &&
                ls_parse_duration(text + length + 1, &ns) && ns > 0 && ns <= 10000000000u;
    }
    if (!valid)
        return ls_setting_refuse(setting, LS_CODE_USAGE,
                                 "'%s' is not valid; delay=RANK:TIME with a rank (in one process a "
                                 "device's number) and a time of each step up to 10s",
                                 setting->text);
    setting->one->delay_rank = (int)number;
    setting->one->delay_ns = ns;
    return LS_OK;
}

ls_status ls_set_inject(const ls_setting *setting)
{
    const char *text = after_name(setting->text, "bitflip");
    char device[24];
    size_t length = text ? strcspn(text, ":") : 0;
    int64_t number, step;
    if (after_name(setting->text, "delay"))
        return set_delay(setting, after_name(setting->text, "delay"));
    if (strcmp(setting->text, "none") == 0 || ls_fault_parse(setting->text, &setting->one->fault))
        return LS_OK;
    bool valid = text && text[length] == ':' && length < sizeof device;
    if (valid) {
        memcpy(device, text, length);
        device[length] = 0;
        valid = ls_parse_integer(device, 0, 1023, &number) &&
                ls_parse_integer(text + length + 1, 0, INT32_MAX, &step);
    }
    if (!valid)
        return ls_setting_refuse(setting, LS_CODE_USAGE,
                                 "'%s' is not valid; bitflip=DEVICE:STEP with a device of the case "
                                 "and a step that is compared; delay=RANK:TIME; kill=, "
                                 "stop=, exit= or hang=RANK:STEP",
                                 setting->text);
    setting->one->flip_device = (int)number;
    setting->one->flip_step = step;
    return LS_OK;
}

ls_status ls_set_target(const ls_setting *setting)
{
    const char *accuracy = after_name(setting->text, "accuracy");
    const char *loss = after_name(setting->text, "loss");
    double value;
    bool valid = ls_parse_real(accuracy ? accuracy : loss, &value) && value > 0;
    if (!valid || (accuracy && value > 1))
        return ls_setting_refuse(setting, LS_CODE_USAGE,
                                 "'%s' is not valid; accuracy=A with A above 0 and at most 1, or "
                                 "loss=L with L above 0",
                                 setting->text);
    setting->one->target_kind = accuracy ? LS_TARGET_ACCURACY : LS_TARGET_LOSS;
    setting->one->target = value;
    return LS_OK;
}

ls_status ls_set_reduce(const ls_setting *setting)
{
    static const char *const words[] = {"fast", "exact", NULL};
    int word;
    LS_TRY(ls_setting_word(setting, words, &word));
    setting->one->reduce = word ? LS_REDUCE_EXACT : LS_REDUCE_FAST;
    return LS_OK;
}

ls_status ls_set_memory(const ls_setting *setting)
{
    const char *fraction = after_name(setting->text, "fraction");
    ls_memory_policy_kind kind = LS_MEMORY_GROWTH;
    double share = 0;
    if (fraction && ls_parse_real(fraction, &share) && share > 0 && share <= 1)
        kind = LS_MEMORY_FRACTION;
    else if (strcmp(setting->text, "all") == 0)
        kind = LS_MEMORY_ALL;
    else if (strcmp(setting->text, "growth") != 0)
        return ls_setting_refuse(setting, LS_CODE_USAGE,
                                 "'%s' is not valid; valid are: growth, all, fraction=F with F "
                                 "above 0 and at most 1",
                                 setting->text);
    setting->one->memory.kind = kind;
    setting->one->memory.fraction = share;
    return set_array(setting);
}

ls_status ls_set_math(const ls_setting *setting)
{
    static const char *const words[] = {"float32", "tf32", NULL};
    int word;
    LS_TRY(ls_setting_word(setting, words, &word));
    if (word == 1 && !ls_kernel_table_default(LS_DEVICE_GPU))
        return ls_setting_refuse(setting, LS_CODE_USAGE,
                                 "tf32 concerns no case of this command; it concerns GPUs, which "
                                 "this build has not: float32");
    setting->one->math = word ? LS_MATH_TF32 : LS_MATH_FLOAT32;
    return LS_OK;
}

ls_status ls_set_link(const ls_setting *setting)
{
    LS_TRY(name_option(setting, ls_link_parse(setting->text, &setting->one->link)));
    if (strcmp(setting->text, "none") != 0)
        return set_array(setting);
    memset(field(setting), 0, (size_t)setting->option->high);
    return LS_OK;
}

/* What a communicator needs of those that run the command. */
static ls_status check_comm(const ls_setting *setting, const char *word)
{
    const ls_processes *processes = setting->names->processes;
    if ((strcmp(word, "nccl") == 0 && !LS_HAS_NCCL) ||
        (strcmp(word, "mpi") == 0 && !ls_processes_built()))
        return ls_setting_refuse(setting, LS_CODE_MISSING,
                                 "%s is not in this build; auto or thread", word);
    if (strcmp(word, "mpi") == 0 && (!processes || !processes->comm))
        return ls_setting_refuse(setting, LS_CODE_MISSING,
                                 "mpi needs ranks that a launcher started; mpirun -n N lockstep, "
                                 "or thread with --ranks");
    const bool inside = strcmp(word, "thread") == 0 || strcmp(word, "device") == 0;
    if (inside && processes && processes->size > 1)
        return ls_setting_refuse(setting, LS_CODE_USAGE,
                                 "%s has its ranks in one process, and the launcher started %d; "
                                 "mpi or auto, or no launcher",
                                 word, processes->size);
    return LS_OK;
}

ls_status ls_set_comm(const ls_setting *setting)
{
    static const char *const words[] = {"auto", "thread", "mpi", "nccl", "device", NULL};
    const ls_processes *processes = setting->names->processes;
    int word;
    LS_TRY(ls_setting_word(setting, words, &word));
    LS_TRY(check_comm(setting, words[word]));
    const char *name = word ? words[word] : processes && processes->comm ? "mpi" : "thread";
    memset(setting->one->comm, 0, sizeof setting->one->comm);
    memcpy(setting->one->comm, name, strlen(name));
    return LS_OK;
}

ls_status ls_set_ranks(const ls_setting *setting)
{
    const ls_processes *processes = setting->names->processes;
    LS_TRY(ls_set_int(setting));
    if (setting->one && strcmp(setting->one->comm, "mpi") == 0 &&
        setting->one->ranks != processes->size)
        return ls_setting_refuse(setting, LS_CODE_USAGE,
                                 "'%s' are not the %d that the launcher started; leave it out, or "
                                 "mpirun -n %s",
                                 setting->text, processes->size, setting->text);
    return LS_OK;
}

ls_status ls_set_timeout(const ls_setting *setting)
{
    uint64_t ns;
    if (!ls_parse_duration(setting->text, &ns) || ns < 1000000 || ns > 86400u * 1000000000ull)
        return ls_setting_refuse(setting, LS_CODE_USAGE,
                                 "'%s' is not valid; a time from 1ms to 86400s: 20s, 500ms, 2min",
                                 setting->text);
    setting->request->timeout_ns = ns;
    return LS_OK;
}

ls_status ls_set_format(const ls_setting *setting)
{
    const ls_format *format;
    ls_status status = ls_format_find(setting->text, &format);
    if (status) {
        ls_status_free(status);
        return ls_setting_refuse(setting, LS_CODE_USAGE, "'%s' is no format; valid are: %s",
                                 setting->text, ls_format_names());
    }
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

ls_status ls_set_progress(const ls_setting *setting)
{
    static const char *const words[] = {"auto", "no", "yes", NULL};
    int word;
    LS_TRY(ls_setting_word(setting, words, &word));
    setting->request->progress = word - 1;
    return LS_OK;
}

/* --quiet and --verbose: the level where the switch is on. */
static ls_status set_level(const ls_setting *setting, ls_log_level level)
{
    int word;
    LS_TRY(ls_setting_word(setting, no_yes, &word));
    if (word)
        setting->request->log.level = level;
    return LS_OK;
}

ls_status ls_set_quiet(const ls_setting *setting)
{
    return set_level(setting, LS_LOG_QUIET);
}

ls_status ls_set_verbose(const ls_setting *setting)
{
    return set_level(setting, LS_LOG_VERBOSE);
}
