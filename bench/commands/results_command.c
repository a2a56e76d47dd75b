/* SPDX-License-Identifier: MIT */
/*
 * `lockstep results`: finds the verb, checks its arguments and options, opens the file, and runs
 * it. `import`, `label` and `prune --yes` write; the others only read.
 */
#include "bench/commands/command.h"
#include "common/base/escape.h"
#include "common/base/whole_file.h"
#include "bench/report/draw.h"
#include "bench/results/results_verbs.h"

#include <string.h>

typedef struct results_verb {
    const char *name;
    const char *operands; /* what follows the name: "A B" */
    const char *help;
    size_t count;        /* number of operands */
    const char *options; /* that apply, besides --results; a blank around each */
    ls_status (*run)(ls_results_task *task);
    bool more; /* or more operands */
    /* Refuses invalid options before the file is opened; may be NULL. */
    ls_status (*check)(const ls_option_set *set);
} results_verb;

static const results_verb verbs[] = {
#define VERB(name, operands, help, count, options, function, ...)                                  \
    {name, operands, help, count, options, .run = ls_results_##function, __VA_ARGS__},
#include "bench/commands/commands.def"
};

enum { VERB_COUNT = sizeof verbs / sizeof *verbs };

static const char known[] =
    "list, show ID, label ID.. TEXT, diff A B, trend KEY, export --to NAME, import FILE, "
    "prune --where ..";

void ls_command_results_help(FILE *stream)
{
    fputs("\nVerbs:\n", stream);
    for (size_t i = 0; i < VERB_COUNT; i++) {
        char left[32];
        snprintf(left, sizeof left, "%s %s", verbs[i].name, verbs[i].operands);
        fprintf(stream, "  %-12s %s\n", left, verbs[i].help);
    }
    fputs("\nExamples:\n"
          "  lockstep results list --where strategy=mirrored,median<5 --sort -samples_per_s\n"
          "  lockstep results diff last~1 last\n",
          stream);
}

static ls_status find_verb(const ls_option_set *set, const results_verb **out)
{
    const char *name = set->operand_count > 0 ? set->operands[0] : NULL;
    if (!name)
        return ls_fail(LS_CODE_USAGE, "results", "command line", "a verb is missing; valid are: %s",
                       known);
    for (size_t i = 0; i < VERB_COUNT; i++)
        if (strcmp(name, verbs[i].name) == 0)
            *out = &verbs[i];
    if (!*out)
        return ls_fail(LS_CODE_USAGE, "results", *name ? name : "''", "unknown verb; valid are: %s",
                       known);
    const size_t given = set->operand_count - 1;
    if (given < (*out)->count)
        return ls_fail(LS_CODE_USAGE, "results", name,
                       "%zu of %zu arguments are given; use lockstep results %s %s", given,
                       (*out)->count, name, (*out)->operands);
    if (given > (*out)->count && !(*out)->more)
        return ls_fail(LS_CODE_USAGE, "argument", set->operands[(*out)->count + 1],
                       "unexpected argument; use lockstep results %s%s%s [--OPTION VALUE]...", name,
                       *(*out)->operands ? " " : "", (*out)->operands);
    return LS_OK;
}

/* Refuses an option that the verb would ignore. */
static ls_status check_options(const ls_option_set *set, const results_verb *verb)
{
    static const char *const names[] = {"where",  "since", "last", "sort", "columns",
                                        "format", "to",    "out",  "yes",  "all"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char wanted[32], dashed[32], of[128] = "";
        snprintf(wanted, sizeof wanted, " %s ", names[i]);
        snprintf(dashed, sizeof dashed, "--%s", names[i]);
        if (!ls_option_set_has(set, names[i]) || strstr(verb->options, wanted))
            continue;
        for (size_t v = 0; v < VERB_COUNT; v++)
            if (strstr(verbs[v].options, wanted))
                ls_text_add(of, sizeof of, "%s%s", *of ? ", " : "", verbs[v].name);
        return ls_fail(
            LS_CODE_USAGE, "option", dashed,
            "is not an option of lockstep results %s, but of results %s; remove this option",
            verb->name, of);
    }
    return LS_OK;
}

static ls_status open_and_run(ls_results_task *task, const results_verb *verb)
{
    const char *out = ls_option_set_text(task->set, "out", NULL);
    if (out && ls_same_file(out, task->file))
        return ls_fail(LS_CODE_USAGE, "option --out", out,
                       "this file holds the rows, which would be overwritten; name another file");
    if (out)
        LS_TRY(ls_file_writable("--out", out, 0));
    const bool writes = verb->run == ls_results_import || verb->run == ls_results_label ||
                        ls_option_set_yes(task->set, "yes");
    if (writes && verb->run != ls_results_import) { /* the file must exist */
        LS_TRY(ls_results_open(task->file, false, &task->results));
        ls_results_close(task->results);
        task->results = NULL;
    }
    LS_TRY(ls_results_open(task->file, writes, &task->results));
    ls_status status = verb->run(task);
    ls_results_close(task->results);
    return status;
}

ls_status ls_command_results(const ls_invocation *in, int *exit_status)
{
    const ls_option_set *set = in->set;
    const results_verb *verb = NULL;
    ls_results_task task = {.set = set,
                            .file = ls_option_set_text(set, "results", LS_RESULTS_DEFAULT),
                            .draw = ls_draw_file};
    const char *form = ls_option_set_text(set, "format", NULL);
    *exit_status = 0;
    LS_TRY(find_verb(set, &verb));
    LS_TRY(check_options(set, verb));
    if (form)
        LS_TRY(ls_format_find(form, &task.form));
    LS_TRY(ls_chosen_read(ls_option_set_text(set, "columns", NULL), &task.chosen));
    if (verb->check)
        LS_TRY(verb->check(set));
    if (strcmp(task.file, "none") == 0)
        return ls_fail(LS_CODE_USAGE, "--results", "none",
                       "there is nothing to read; use --results FILE");
    ls_status status = ls_selection_open(ls_option_set_text(set, "where", NULL),
                                         ls_option_set_text(set, "since", NULL),
                                         ls_option_set_text(set, "last", NULL),
                                         ls_option_set_text(set, "sort", NULL), &task.selection);
    if (!status)
        status = open_and_run(&task, verb);
    ls_selection_close(&task.selection);
    return status;
}
