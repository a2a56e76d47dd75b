/* SPDX-License-Identifier: MIT */
/* The table of optimizers and the text form of their values; see optimizer.h. */
#include "common/nn/optimizer.h"

#include "common/base/numbers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const ls_optimizer_rule sgd = {
    .name = "sgd",
    .help = "w -= lr g",
    .kind = LS_OPTIMIZER_SGD,
    .slots = 0,
};
static const ls_optimizer_rule momentum = {
    .name = "momentum",
    .help = "v = mu v + g, w -= lr v; momentum:0.9 or momentum:mu=0.9",
    .kind = LS_OPTIMIZER_MOMENTUM,
    .slots = 1,
    .slot_names = {"momentum_buffer"},
    .defaults = {.mu = 0.9},
};
static const ls_optimizer_rule adam = {
    .name = "adam",
    .help = "Kingma and Ba's algorithm 1; adam:beta1=0.9,beta2=0.999,eps=1e-8",
    .kind = LS_OPTIMIZER_ADAM,
    .slots = 2,
    .slot_names = {"exp_avg", "exp_avg_sq"},
    .defaults = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
};
static const ls_optimizer_rule adamw = {
    .name = "adamw",
    .help = "adam with decay of its own, w -= lr decay w, of variables of two or more dimensions; "
            "adamw:beta1=0.9,beta2=0.95,eps=1e-8,decay=0.1",
    .kind = LS_OPTIMIZER_ADAMW,
    .slots = 2,
    .slot_names = {"exp_avg", "exp_avg_sq"},
    .defaults = {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .decay = 0.1},
};
static const ls_optimizer_rule rmsprop = {
    .name = "rmsprop",
    .help = "v = rho v + (1-rho) g^2, w -= lr g / (sqrt(v) + eps); rmsprop:rho=0.9,eps=1e-7",
    .kind = LS_OPTIMIZER_RMSPROP,
    .slots = 1,
    .slot_names = {"square_avg"},
    .defaults = {.rho = 0.9, .epsilon = 1e-7},
};
static const void *const rules[] = {&sgd, &momentum, &adam, &adamw, &rmsprop, NULL};
const ls_registry ls_optimizer_rules = {"optimizer", rules};

/* The values of a rule: name, offset, and range [low, high). */
typedef struct value_field {
    ls_optimizer_kind kind;
    const char *name;
    size_t offset;
    double low, high;
} value_field;

static const value_field fields[] = {
    {LS_OPTIMIZER_MOMENTUM, "mu", offsetof(ls_optimizer, mu), 0, 1},
    {LS_OPTIMIZER_ADAM, "beta1", offsetof(ls_optimizer, beta1), 0, 1},
    {LS_OPTIMIZER_ADAM, "beta2", offsetof(ls_optimizer, beta2), 0, 1},
    {LS_OPTIMIZER_ADAM, "eps", offsetof(ls_optimizer, epsilon), 0, 1},
    {LS_OPTIMIZER_ADAMW, "beta1", offsetof(ls_optimizer, beta1), 0, 1},
    {LS_OPTIMIZER_ADAMW, "beta2", offsetof(ls_optimizer, beta2), 0, 1},
    {LS_OPTIMIZER_ADAMW, "eps", offsetof(ls_optimizer, epsilon), 0, 1},
    {LS_OPTIMIZER_ADAMW, "decay", offsetof(ls_optimizer, decay), 0, HUGE_VAL},
    {LS_OPTIMIZER_RMSPROP, "rho", offsetof(ls_optimizer, rho), 0, 1},
    {LS_OPTIMIZER_RMSPROP, "eps", offsetof(ls_optimizer, epsilon), 0, 1},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static double *field_at(ls_optimizer *optimizer, const value_field *field)
{
    return (double *)(void *)((char *)optimizer + field->offset);
}

/* Parses "name=value", or a bare value for the rule's first field if it is the `first` item. */
static ls_status parse_value(const char *item, bool first, unsigned *seen, ls_optimizer *out)
{
    const char *equals = strchr(item, '=');
    size_t length = equals ? (size_t)(equals - item) : 0;
    char names[128] = "";
    for (int i = 0; i < FIELDS; i++) {
        if (fields[i].kind != out->rule->kind)
            continue;
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", *names ? ", " : "",
                 fields[i].name);
        bool bare = !equals && first && out->rule->kind == LS_OPTIMIZER_MOMENTUM;
        if (!bare && (strlen(fields[i].name) != length || strncmp(fields[i].name, item, length)))
            continue;
        double value;
        if (*seen >> i & 1)
            return ls_fail(LS_CODE_USAGE, "optimizer", item, "%s is given twice; give it once",
                           fields[i].name);
        if (!ls_parse_real(bare ? item : equals + 1, &value) || value < fields[i].low ||
            value >= fields[i].high)
            return isinf(fields[i].high)
                       ? ls_fail(LS_CODE_USAGE, "optimizer", item,
                                 "%s is not a number of %g or more; give such a number",
                                 fields[i].name, fields[i].low)
                       : ls_fail(LS_CODE_USAGE, "optimizer", *item ? item : out->rule->name,
                                 "%s is missing, not a number, or out of range; write %s=VALUE, "
                                 "with a value from %g to below %g",
                                 fields[i].name, fields[i].name, fields[i].low, fields[i].high);
        *seen |= 1u << i;
        *field_at(out, &fields[i]) = value;
        return LS_OK;
    }
    return ls_fail(LS_CODE_USAGE, "optimizer", *item ? item : "(empty)",
                   "the optimizer %s has no such setting; %s%s", out->rule->name,
                   *names ? "give name=value, where name is one of "
                          : "give the optimizer's name alone",
                   names);
}

ls_status ls_optimizer_parse(const char *text, ls_optimizer *out)
{
    size_t length = strcspn(text, ":");
    const ls_optimizer_rule *rule = ls_registry_find(&ls_optimizer_rules, text, length);
    if (!rule)
        return ls_registry_refuse(&ls_optimizer_rules, text);
    ls_optimizer optimizer = rule->defaults;
    optimizer.rule = rule;
    unsigned seen = 0;
    char item[64];
    for (const char *rest = text[length] ? text + length + 1 : NULL; rest;) {
        size_t size = strcspn(rest, ",");
        if (size >= sizeof item)
            return ls_fail(LS_CODE_USAGE, "optimizer", text,
                           "a value is too long; use at most 63 characters");
        memcpy(item, rest, size);
        item[size] = 0;
        LS_TRY(parse_value(item, rest == text + length + 1, &seen, &optimizer));
        rest = rest[size] ? rest + size + 1 : NULL;
    }
    *out = optimizer;
    return LS_OK;
}

char *ls_optimizer_text(const ls_optimizer *optimizer, char *text, size_t size)
{
    ls_optimizer copy = *optimizer;
    size_t used = (size_t)snprintf(text, size, "%s", optimizer->rule->name);
    char mark = ':';
    for (int i = 0; i < FIELDS && used < size; i++) {
        if (fields[i].kind != optimizer->rule->kind)
            continue;
        used += (size_t)snprintf(text + used, size - used, "%c%s=%.9g", mark, fields[i].name,
                                 *field_at(&copy, &fields[i]));
        mark = ',';
    }
    return text;
}
