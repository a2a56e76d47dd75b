/* SPDX-License-Identifier: MIT */
/*
 * Bisection: the commits after GOOD up to BAD (first parents) are built in a work tree of their
 * own and compared with GOOD's program, by halves. A commit that is slower is behind the change,
 * one that is the same or faster before it. One that does not build, does not run or cannot be told
 * is passed over, its neighbours are tried; what is left between the last before and the first
 * behind is the answer: one commit, or a range.
 */
#include "bench/regress/child.h"
#include "bench/regress/compared.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COMMITS_MOST = 4096 };

static const uint64_t build_most_ns = 7200ull * 1000000000;

typedef struct commit {
    char *name, *subject;
    bool tried;
} commit;

typedef struct bisection {
    const ls_regress_task *task;
    const ls_bisection *asked;
    char folder[256]; /* holds the work trees good and new */
    commit *commits;  /* [0]: good; the last: bad */
    size_t count;
    json_t *steps;
} bisection;

/* Runs a command; its output, owned by the caller, where `out` is not NULL. */
static ls_status command(char *const argv[], const char *folder, char **out)
{
    ls_child child;
    char line[512];
    ls_status status = ls_child_run(argv, folder, build_most_ns, &child);
    if (!status && child.code != 0)
        status = ls_fail(LS_CODE_MISSING, "regress", argv[0], "%s failed with status %d: %s",
                         argv[1], child.code, ls_child_says(&child, line, sizeof line));
    if (!status && out) {
        *out = child.out;
        child.out = NULL;
    }
    ls_child_free(&child);
    return status;
}

static char *text(const char *constant)
{
    return (char *)(size_t)constant;
}

/* ---- Commits -------------------------------------------------------------------------------- */

static ls_status add_commit(bisection *b, char *line)
{
    commit *commits = realloc(b->commits, (b->count + 1) * sizeof *commits);
    if (!commits)
        return ls_fail_memory("commits", sizeof *commits);
    b->commits = commits;
    char *subject = strchr(line, ' ');
    if (subject)
        *subject++ = 0;
    commits[b->count++] = (commit){strdup(line), strdup(subject ? subject : ""), false};
    return LS_OK;
}

static ls_status add_commits(bisection *b, char *lines)
{
    for (char *line = lines, *next; *line; line = next) {
        next = line + strcspn(line, "\n");
        if (*next)
            *next++ = 0;
        if (b->count == COMMITS_MOST)
            return ls_fail(LS_CODE_USAGE, "--bisect", b->asked->good,
                           "is more than %d commits before", COMMITS_MOST);
        LS_TRY(add_commit(b, line));
    }
    return LS_OK;
}

static ls_status list_commits(bisection *b)
{
    char range[512], *lines;
    snprintf(range, sizeof range, "%s..%s", b->asked->good, b->asked->bad);
    char *const first[] = {text("git"),          text("log"), text("-1"), text("--format=%H %s"),
                           text(b->asked->good), text("--"),  NULL};
    char *const others[] = {text("git"),
                            text("log"),
                            text("--reverse"),
                            text("--first-parent"),
                            text("--format=%H %s"),
                            range,
                            text("--"),
                            NULL};
    for (int part = 0; part < 2; part++) {
        LS_TRY(command(part ? others : first, NULL, &lines));
        ls_status status = add_commits(b, lines);
        free(lines);
        if (status)
            return status;
    }
    if (b->count < 2)
        return ls_fail(LS_CODE_USAGE, "--bisect", b->asked->bad, "has no commit after %s",
                       b->asked->good);
    return LS_OK;
}

/* ---- Work trees ----------------------------------------------------------------------------- */

static const char *const trees[] = {"good", "new"};

static ls_status open_trees(bisection *b)
{
    const char *where = getenv("TMPDIR");
    snprintf(b->folder, sizeof b->folder, "%s/lockstep-bisect-XXXXXX", where ? where : "/tmp");
    if (!mkdtemp(b->folder)) {
        *b->folder = 0;
        return ls_fail(LS_CODE_MISSING, "--bisect", where ? where : "/tmp",
                       "no folder can be made in it");
    }
    for (size_t i = 0; i < 2; i++) {
        char tree[300];
        snprintf(tree, sizeof tree, "%s/%s", b->folder, trees[i]);
        char *const argv[] = {text("git"), text("worktree"),   text("add"), text("--detach"),
                              tree,        b->commits[0].name, NULL};
        LS_TRY(command(argv, NULL, NULL));
    }
    return LS_OK;
}

static void close_trees(bisection *b)
{
    for (size_t i = 0; i < 2 && *b->folder; i++) {
        char tree[300];
        snprintf(tree, sizeof tree, "%s/%s", b->folder, trees[i]);
        char *const argv[] = {text("git"), text("worktree"), text("remove"), text("--force"), tree,
                              NULL};
        ls_status_free(command(argv, NULL, NULL));
    }
    if (*b->folder)
        rmdir(b->folder);
}

static ls_status build(const bisection *b, size_t tree, const char *name)
{
    char folder[300];
    snprintf(folder, sizeof folder, "%s/%s", b->folder, trees[tree]);
    char *const checkout[] = {text("git"),     text("checkout"), text("--detach"),
                              text("--force"), text(name),       NULL};
    char *const make[] = {text("sh"), text("-c"), text(b->asked->build), NULL};
    LS_TRY(command(checkout, folder, NULL));
    return command(make, folder, NULL);
}

/* ---- Steps ---------------------------------------------------------------------------------- */

typedef enum place { BEFORE, BEHIND, UNKNOWN } place;

static place place_of(const ls_regress *regress)
{
    bool all = true;
    for (size_t i = 0; i < regress->count; i++) {
        if (regress->cases[i].result.verdict == LS_VERDICT_SLOWER)
            return BEHIND;
        all &= regress->cases[i].result.verdict != LS_VERDICT_CANNOT_TELL;
    }
    return all ? BEFORE : UNKNOWN;
}

static void note_step(bisection *b, const commit *one, const ls_regress *regress, const char *why)
{
    static const char *const names[] = {"not slower", "slower", "cannot tell"};
    json_t *step = json_pack("{s:s,s:s,s:s}", "commit", one->name, "subject", one->subject,
                             "verdict", why ? "error" : names[place_of(regress)]);
    if (why)
        json_object_set_new(step, "error", json_string(why));
    for (size_t i = 0; i < regress->count && !why; i++) { /* the slowest case */
        const ls_ratio_result *result = &regress->cases[i].result;
        if (result->blocks == 0 ||
            result->ratio < json_number_value(json_object_get(step, "ratio")))
            continue;
        json_object_set_new(step, "ratio", json_real(result->ratio));
        json_object_set_new(step, "ci95", json_pack("[f,f]", result->ci95[0], result->ci95[1]));
        json_object_set_new(step, "blocks", json_integer((json_int_t)result->blocks));
    }
    fprintf(stderr, "lockstep: regress: %.12s %s: %s\n", one->name, one->subject,
            why ? why : names[place_of(regress)]);
    json_array_append_new(b->steps, step);
}

/* Builds a commit and compares it with the good one. Of what fails here the commit is unknown; only
 * an interruption ends the search. */
static ls_status try_commit(bisection *b, size_t at, place *out)
{
    char programs[LS_SIDES][320];
    ls_regress_task task = *b->task;
    ls_regress regress = {0};
    for (int side = 0; side < LS_SIDES; side++) {
        snprintf(programs[side], sizeof programs[side], "%s/%s/build/lockstep", b->folder,
                 trees[side]);
        task.side[side] = programs[side];
    }
    b->commits[at].tried = true;
    ls_status status = build(b, 1, b->commits[at].name);
    if (!status)
        status = ls_regress_compare(&task, &regress);
    if (status && ls_status_code(status) == LS_CODE_INTERRUPTED)
        return status;
    *out = status ? UNKNOWN : place_of(&regress);
    note_step(b, &b->commits[at], &regress, status ? ls_status_text(status) : NULL);
    ls_status_free(status);
    ls_regress_close(&regress);
    return LS_OK;
}

/* The commit between, not tried, that is nearest to the middle; 0: none. */
static size_t choose(const bisection *b, size_t before, size_t behind)
{
    const size_t middle = before + (behind - before) / 2;
    size_t best = 0, best_far = (size_t)-1;
    for (size_t i = before + 1; i < behind; i++) {
        const size_t far = i > middle ? i - middle : middle - i;
        if (!b->commits[i].tried && far < best_far) {
            best = i;
            best_far = far;
        }
    }
    return best;
}

static ls_status search(bisection *b, size_t *before, size_t *behind, place *bad)
{
    *before = 0;
    *behind = b->count - 1;
    LS_TRY(build(b, 0, b->commits[0].name));
    LS_TRY(try_commit(b, *behind, bad));
    const char *why = json_string_value(json_object_get(json_array_get(b->steps, 0), "error"));
    if (why)
        return ls_fail(LS_CODE_MISSING, "--bisect", b->asked->bad, "%s", why);
    for (size_t at; *bad == BEHIND && (at = choose(b, *before, *behind));) {
        place found;
        LS_TRY(try_commit(b, at, &found));
        if (found == BEFORE)
            *before = at;
        else if (found == BEHIND)
            *behind = at;
    }
    return LS_OK;
}

/* ---- Answer --------------------------------------------------------------------------------- */

static ls_status print_steps(const bisection *b, FILE *stream)
{
    static const ls_column column[] = {{"commit", "commit", 14, false, LS_CELL_TEXT, 0},
                                       {"verdict", "verdict", 0, false, LS_CELL_TEXT, 0},
                                       {"new/good", "ratio", 0, true, LS_CELL_FIGURE, 0},
                                       {"blocks", "blocks", 0, true, LS_CELL_TEXT, 1},
                                       {"subject", "subject", 50, false, LS_CELL_TEXT, 2}};
    const ls_columns columns = {
        .column = column, .count = sizeof column / sizeof *column, .alone = true};
    const ls_format *form;
    ls_writer *writer;
    LS_TRY(ls_format_find(b->asked->format, &form));
    LS_TRY(ls_writer_open(form, stream, &writer));
    ls_writer_hold(writer);
    ls_writer_choose(writer, &columns);
    ls_status status = LS_OK;
    for (size_t i = 0; i < json_array_size(b->steps) && !status; i++)
        status = ls_writer_row(writer, json_array_get(b->steps, i));
    return ls_status_first(status, ls_writer_close(writer));
}

static ls_status answer(const bisection *b, size_t before, size_t behind, place bad, FILE *stream)
{
    const commit *first = &b->commits[before + 1], *last = &b->commits[behind];
    if (strcmp(b->asked->format, "json") == 0) {
        json_t *range = json_array();
        for (size_t i = before + 1; i <= behind && bad == BEHIND; i++)
            json_array_append_new(range, json_string(b->commits[i].name));
        json_t *document =
            json_pack("{s:s,s:s,s:O,s:o}", "good", b->commits[0].name, "bad",
                      b->commits[b->count - 1].name, "steps", b->steps, "commits", range);
        ls_json_print(stream, document, 2);
        fputc('\n', stream);
        json_decref(document);
        return LS_OK;
    }
    LS_TRY(print_steps(b, stream));
    if (bad == BEFORE)
        fprintf(stream, "\n%.12s is not slower than %.12s\n", last->name, b->commits[0].name);
    else if (bad == UNKNOWN)
        fprintf(stream, "\nwhether %.12s is slower than %.12s cannot be told\n", last->name,
                b->commits[0].name);
    else if (behind == before + 1)
        fprintf(stream, "\nslower since %s %s\n", last->name, last->subject);
    else
        fprintf(
            stream,
            "\nslower since one of %zu commits that cannot be told apart, from %s %s\nto %s %s\n",
            behind - before, first->name, first->subject, last->name, last->subject);
    return LS_OK;
}

ls_status ls_regress_bisect(const ls_regress_task *task, const ls_bisection *asked, FILE *stream,
                            int *exit_status)
{
    bisection b = {.task = task, .asked = asked, .steps = json_array()};
    size_t before = 0, behind = 0;
    place bad = UNKNOWN;
    ls_status status = list_commits(&b);
    if (!status)
        status = open_trees(&b);
    if (!status)
        status = search(&b, &before, &behind, &bad);
    close_trees(&b);
    if (!status)
        status = answer(&b, before, behind, bad, stream);
    *exit_status = bad == BEFORE                           ? LS_CODE_OK
                   : bad == BEHIND && behind == before + 1 ? LS_CODE_CHECK
                                                           : LS_CODE_UNDECIDED;
    for (size_t i = 0; i < b.count; i++) {
        free(b.commits[i].name);
        free(b.commits[i].subject);
    }
    free(b.commits);
    json_decref(b.steps);
    return status;
}
