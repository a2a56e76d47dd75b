/* SPDX-License-Identifier: MIT */
/*
 * Option values with their own grammar: lists of devices, rates, faults, targets, memory, links,
 * times; see option_values.h. The machine checks later whether a device exists.
 */
#include "bench/cli/option_values.h"

#include "bench/case/elastic.h"
#include "common/base/numbers.h"
#include "common/device/device_name.h"
#include "common/nn/repeat.h"

#include <stdlib.h>
#include <string.h>

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
                                     "has more than %d names; give the number of devices instead",
                                     CAPACITY);
        LS_TRY(ls_setting_relay(setting, ls_device_name_parse(part, &names[count])));
        for (size_t i = 0; i < count; i++)
            if (ls_device_name_overlaps(&names[i], &names[count]))
                return ls_setting_refuse(
                    setting, LS_CODE_USAGE,
                    "'%s' is named twice, or is a part of another named device; name each device "
                    "only once, or give a number of devices",
                    part);
    }
    return LS_OK;
}

ls_status ls_set_devices(const ls_setting *setting)
{
    char copy[sizeof setting->one->devices];
    int64_t number;
    LS_TRY(ls_set_array(setting));
    memcpy(copy, setting->one->devices, sizeof copy);
    return strpbrk(copy, ":/+")
               ? check_device_names(setting, copy)
               : ls_setting_check(setting, ls_parse_integer(copy, 1, 4096, &number));
}

ls_status ls_set_recompute(const ls_setting *setting)
{
    static const char *const words[] = {"mlp", "none", "full"};
    const char *text = setting->text;
    int64_t *drops = &setting->one->drops;
    for (int i = 0; i < 3; i++)
        if (strcmp(text, words[i]) == 0) {
            *drops = LS_REPEAT_NORMS + i;
            return LS_OK;
        }
    if (strcmp(text, "selective") == 0)
        return ls_setting_refuse(setting, LS_CODE_USAGE,
                                 "'selective' is not needed, since attention's scores are never "
                                 "kept; use --recompute none (or mlp, full or a number of blocks)");
    return ls_parse_integer(text, 2, LS_JOB_REPLICAS, drops)
               ? LS_OK
               : ls_setting_refuse(setting, LS_CODE_USAGE,
                                   "'%s' is not valid; use --recompute none, mlp, full or a number "
                                   "of blocks, 2 or more",
                                   text);
}

/* The text after "<name>="; NULL if the value does not begin with that. */
static const char *after_name(const char *text, const char *name)
{
    size_t length = strlen(name);
    return strncmp(text, name, length) == 0 && text[length] == '=' ? text + length + 1 : NULL;
}

ls_status ls_set_inject(const ls_setting *setting)
{
    ls_fault fault = {0};
    const bool valid = strcmp(setting->text, "none") == 0 || ls_fault_parse(setting->text, &fault);
    if (!valid && after_name(setting->text, "delay"))
        return ls_setting_refuse(
            setting, LS_CODE_USAGE,
            "'%s' is not valid; use --inject delay=RANK:TIME, which adds TIME (at most 10s) to "
            "each step of RANK; in one process, RANK is the number of a device",
            setting->text);
    if (!valid)
        return ls_setting_refuse(setting, LS_CODE_USAGE,
                                 "'%s' is not valid; use --inject bitflip=DEVICE:STEP, "
                                 "delay=RANK:TIME, or kill=RANK:STEP (also stop=, exit= or hang=)",
                                 setting->text);
    setting->one->fault = fault;
    return LS_OK;
}

/* An array of characters, which is empty for "none". */
static ls_status set_array_or_none(const ls_setting *setting)
{
    if (strcmp(setting->text, "none") != 0)
        return ls_set_array(setting);
    memset(ls_setting_field(setting), 0, (size_t)setting->option->high);
    return LS_OK;
}

ls_status ls_set_elastic(const ls_setting *setting)
{
    ls_elastic events;
    LS_TRY(ls_setting_check(setting, strcmp(setting->text, "none") == 0 ||
                                         ls_elastic_parse(setting->text, &events)));
    return set_array_or_none(setting);
}

ls_status ls_set_target(const ls_setting *setting)
{
    ls_case *one = setting->one;
    const char *accuracy = after_name(setting->text, "accuracy");
    const char *loss = after_name(setting->text, "loss");
    one->target_kind = accuracy ? LS_TARGET_ACCURACY : loss ? LS_TARGET_LOSS : LS_TARGET_NONE;
    return ls_setting_check(setting, ls_parse_real(accuracy ? accuracy : loss, &one->target) &&
                                         one->target > 0 && !(accuracy && one->target > 1));
}

ls_status ls_set_memory(const ls_setting *setting)
{
    const char *fraction = after_name(setting->text, "fraction");
    const bool all = strcmp(setting->text, "all") == 0;
    ls_memory_policy *policy = &setting->one->memory;
    *policy = (ls_memory_policy){.kind = fraction ? LS_MEMORY_FRACTION
                                         : all    ? LS_MEMORY_ALL
                                                  : LS_MEMORY_GROWTH};
    LS_TRY(ls_setting_check(setting, fraction ? ls_parse_real(fraction, &policy->fraction) &&
                                                    policy->fraction > 0 && policy->fraction <= 1
                                              : all || strcmp(setting->text, "growth") == 0));
    return ls_set_array(setting);
}

ls_status ls_set_link(const ls_setting *setting)
{
    LS_TRY(ls_setting_relay(setting, ls_link_parse(setting->text, &setting->one->link)));
    return set_array_or_none(setting);
}

ls_status ls_set_duration(const ls_setting *setting)
{
    uint64_t ns;
    LS_TRY(ls_setting_check(setting, ls_parse_duration(setting->text, &ns) && ns >= 1000000 &&
                                         ns <= 86400u * 1000000000ull));
    *(uint64_t *)ls_setting_field(setting) = ns;
    return LS_OK;
}

ls_status ls_set_precision(const ls_setting *setting)
{
    char *end;
    const double percent = strtod(setting->text, &end);
    LS_TRY(ls_setting_check(setting, end != setting->text && strcmp(end, "%") == 0 &&
                                         percent >= 0.01 && percent <= 50 &&
                                         strchr("0123456789.", *setting->text)));
    setting->request->precision = percent / 100;
    return LS_OK;
}
