/* SPDX-License-Identifier: MIT */
/*
 * Bisection: commits after GOOD up to BAD (first parents) are built in a separate work tree and
 * compared with GOOD's program. A slower commit lies after the change, one that is the same or
 * faster before it. A commit that does not build, does not run or cannot be decided is skipped, and
 * its neighbours are tried. The answer is what remains between the last commit before and the first
 * after: one commit or a range.
 */
#include "bench/regress/compared.h"
#include "common/base/log.h"

#include <math.h>
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
    char folder[256]; /* contains the work trees good and new */
    commit *commits;  /* [0]: good; the last one: bad */
    size_t count;
    json_t *steps;
} bisection;

/* Runs a command of at most seven words; NULL words are skipped. Its output goes to `out`, owned by
 * the caller, unless that is NULL. */
static ls_status command(const char *folder, char **out, const char *const words[7])
{
    char *argv[8] = {NULL}, line[512];
    ls_child child;
    for (size_t i = 0; i < 7; i++)
        argv[i] = (char *)(size_t)words[i];
    const bool cleans = words[2] && strcmp(words[2], "remove") == 0;
    ls_status status = ls_child_run(argv, folder, cleans, build_most_ns, &child);
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

/* ---- Commits -------------------------------------------------------------------------------- */

/* Parses commits from lines "name subject". */
static ls_status add_commits(bisection *b, char *lines)
{
    for (char *line = lines, *next; *line; line = next) {
        next = line + strcspn(line, "\n");
        if (*next)
            *next++ = 0;
        char *subject = line + strcspn(line, " ");
        if (*subject)
            *subject++ = 0;
        if (b->count == COMMITS_MOST)
            return ls_fail(LS_CODE_USAGE, "--bisect", b->asked->good,
                           "is more than %d commits before", COMMITS_MOST);
        /* a subject may be in any encoding */
        b->commits[b->count++] =
            (commit){strdup(line), ls_text_shown(subject, LS_ESCAPE_LINE), false};
    }
    return LS_OK;
}

static ls_status list_commits(bisection *b)
{
    char range[512], *lines;
    const char *const git[][7] = {
        {"git", "log", "-1", "--format=%H %s", b->asked->good, "--"},
        {"git", "log", "--reverse", "--first-parent", "--format=%H %s", range, "--"}};
    snprintf(range, sizeof range, "%s..%s", b->asked->good, b->asked->bad);
    for (int part = 0; part < 2; part++) {
        LS_TRY(command(NULL, &lines, git[part]));
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

enum { PATH_SIZE = 512 };

static void tree_path(const bisection *b, int side, char path[PATH_SIZE], const char *behind)
{
    snprintf(path, PATH_SIZE, "%s/%s%s", b->folder, side == LS_BASE ? "good" : "new", behind);
}

static ls_status open_trees(bisection *b)
{
    const char *where = getenv("TMPDIR");
    snprintf(b->folder, sizeof b->folder, "%s/lockstep-bisect-XXXXXX", where ? where : "/tmp");
    if (!mkdtemp(b->folder)) {
        *b->folder = 0;
        return ls_fail(LS_CODE_MISSING, "--bisect", where ? where : "/tmp",
                       "no folder can be made in it; TMPDIR names another");
    }
    for (int side = 0; side < LS_SIDES; side++) {
        char tree[PATH_SIZE];
        const char *const git[7] = {"git", "worktree", "add", "--detach", tree, b->commits[0].name};
        tree_path(b, side, tree, "");
        LS_TRY(command(NULL, NULL, git));
    }
    return LS_OK;
}

static void close_trees(bisection *b)
{
    for (int side = 0; side < LS_SIDES && *b->folder; side++) {
        char tree[PATH_SIZE];
        const char *const git[7] = {"git", "worktree", "remove", "--force", tree};
        tree_path(b, side, tree, "");
        ls_status_free(command(NULL, NULL, git));
    }
    if (*b->folder)
        rmdir(b->folder);
}

static ls_status build(const bisection *b, int side, const char *name)
{
    char tree[PATH_SIZE];
    const char *const git[7] = {"git", "checkout", "--detach", "--force", name};
    const char *const make[7] = {"sh", "-c", b->asked->build};
    tree_path(b, side, tree, "");
    LS_TRY(command(tree, NULL, git));
    return command(tree, NULL, make);
}

/* ---- Steps ---------------------------------------------------------------------------------- */

typedef enum verdict { BEFORE, BEHIND, UNKNOWN } verdict;

static verdict verdict_of(const ls_regress *regress)
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
                             "verdict", why ? "error" : names[verdict_of(regress)]);
    if (why)
        json_object_set_new(step, "error", json_string(why));
    for (size_t i = 0; i < regress->count && !why; i++) { /* the slowest case */
        const ls_ratio_result *result = &regress->cases[i].result;
        if (result->blocks == 0 ||
            result->ratio < json_number_value(json_object_get(step, "ratio")))
            continue;
        json_object_set_new(step, "ratio", json_real(result->ratio));
        json_object_del(step, "ci95");
        if (isfinite(result->ci95[0])) /* one block has none */
            json_object_set_new(step, "ci95", json_pack("[f,f]", result->ci95[0], result->ci95[1]));
        json_object_set_new(step, "blocks", json_integer((json_int_t)result->blocks));
    }
    ls_log_stderr("regress: %.12s %s: %s", one->name, one->subject,
                  why ? why : names[verdict_of(regress)]);
    json_array_append_new(b->steps, step);
}

/* Builds a commit and compares it with the good one. On failure the commit is unknown; only an
 * interrupt ends the search. */
static ls_status try_commit(bisection *b, size_t at, verdict *out)
{
    char programs[LS_SIDES][PATH_SIZE];
    ls_regress_task task = *b->task;
    ls_regress regress = {0};
    for (int side = 0; side < LS_SIDES; side++) {
        tree_path(b, side, programs[side], "/build/lockstep");
        task.side[side] = programs[side];
    }
    b->commits[at].tried = true;
    ls_status status = build(b, LS_NEW, b->commits[at].name);
    if (!status)
        status = ls_regress_compare(&task, &regress);
    if (status && ls_status_code(status) == LS_CODE_INTERRUPTED)
        return status;
    *out = status ? UNKNOWN : verdict_of(&regress);
    note_step(b, &b->commits[at], &regress, status ? ls_status_text(status) : NULL);
    ls_status_free(status);
    ls_regress_close(&regress);
    return LS_OK;
}

/* The untried commit nearest to the middle; 0: none. */
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

static ls_status search(bisection *b, size_t *before, size_t *behind, verdict *bad)
{
    *before = 0;
    *behind = b->count - 1;
    LS_TRY(build(b, LS_BASE, b->commits[0].name));
    LS_TRY(try_commit(b, *behind, bad));
    const char *why = json_string_value(json_object_get(json_array_get(b->steps, 0), "error"));
    if (why)
        return ls_fail(LS_CODE_MISSING, "--bisect", b->asked->bad, "%s", why);
    for (size_t at; *bad == BEHIND && (at = choose(b, *before, *behind));) {
        verdict found;
        LS_TRY(try_commit(b, at, &found));
        if (found == BEFORE)
            *before = at;
        else if (found == BEHIND)
            *behind = at;
    }
    return LS_OK;
}

/* ---- Answer --------------------------------------------------------------------------------- */

static void print_json(const bisection *b, size_t before, size_t behind, verdict bad, FILE *stream)
{
    json_t *range = json_array();
    for (size_t i = before + 1; i <= behind && bad == BEHIND; i++)
        json_array_append_new(range, json_string(b->commits[i].name));
    json_t *document =
        json_pack("{s:s,s:s,s:O,s:o}", "good", b->commits[0].name, "bad",
                  b->commits[b->count - 1].name, "steps", b->steps, "commits", range);
    ls_json_print(stream, document, 2);
    fputc('\n', stream);
    json_decref(document);
}

static ls_status answer(const bisection *b, size_t before, size_t behind, verdict bad, FILE *stream)
{
    static const ls_column column[] = {{"commit", "commit", 14, false, LS_CELL_TEXT, 0},
                                       {"verdict", "verdict", 0, false, LS_CELL_TEXT, 0},
                                       {"new/good", "ratio", 0, true, LS_CELL_FIGURE, 0},
                                       {"blocks", "blocks", 0, true, LS_CELL_TEXT, 1},
                                       {"subject", "subject", 50, false, LS_CELL_TEXT, 2}};
    const ls_columns columns = {
        .column = column, .count = sizeof column / sizeof *column, .alone = true};
    const commit *first = &b->commits[before + 1], *last = &b->commits[behind];
    if (strcmp(b->asked->format->name, "json") == 0) {
        print_json(b, before, behind, bad, stream);
        return LS_OK;
    }
    LS_TRY(ls_rows_write(b->asked->format, &columns, b->steps, stream));
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
    verdict bad = UNKNOWN;
    b.commits = calloc(COMMITS_MOST, sizeof *b.commits);
    ls_status status =
        b.commits ? list_commits(&b) : ls_fail_memory("commits", COMMITS_MOST * sizeof(commit));
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
