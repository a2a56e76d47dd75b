/* SPDX-License-Identifier: MIT */
/*
 * The heart of a step, by tables "tasks in, waits out" (program_text.h): order, implied waits,
 * components, the sweep over ranges, races, matching of ends, traffic, costs, the listing. No
 * device, no memory, no tolerance. test_wrong_edits_slow.sh shows what the tables find.
 */
#include "impl/step/program/names.h"
#include "impl/step/tests/program_text.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---- Order ----------------------------------------------------------------------------------- */

static const struct order_case {
    const char *name, *text;
    const char *components; /* of lanes 0, 1, 2; the drivers */
    const char *race;       /* task, earlier one, its step, bytes; NULL: none */
} order_cases[] = {
    {"who reads waits for the writer, who writes for all readers",
     "0 write w:a | begin\n"
     "1 read r:a | 0\n"
     "2 read r:a | 0\n"
     "0 write w:a | 2 1\n"
     "2 read r:a | 3\n",
     "0 0 0; 2", NULL},
    {"the driver does not wait for the beginning",
     "0 write w:a | -\n"
     "1 read r:a | 0\n"
     "2 read r:a | 0\n"
     "0 write w:a | 2 1\n",
     "0 0 0; 0", NULL},
    {"readers do not wait for each other", "0 read r:a | -\n1 read r:a | -\n2 read r:a | -\n",
     "0 1 2; 0 1 2", NULL},
    {"who writes waits for the writer", "0 write w:a | begin\n1 write w:a | 0\n", "0 0 -; 1", NULL},
    {"a task on the same lane is not waited for", "0 write w:a | -\n0 read r:a | -\n", "0 - -; 0",
     NULL},
    {"what another wait implies is left out",
     "0 write w:a | begin\n"
     "1 both r:a w:b | 0\n"
     "2 both r:a r:b | 1\n",
     "0 0 0; 2", NULL},
    {"what the lane waited for before is left out",
     "0 write w:a | begin\n"
     "1 read r:a | 0\n"
     "1 read r:a | -\n"
     "0 write w:b | -\n"
     "1 read r:b | 3\n",
     "0 0 -; 1", NULL},
    {"what a waited task's lane waited for is implied",
     "0 write w:a | begin\n"
     "1 read r:a | 0\n"
     "1 write w:b | -\n"
     "2 both r:b r:a | 2\n",
     "0 0 0; 2", NULL},
    {"an earlier task that was not waited for is not implied",
     "0 write w:a | begin\n"
     "0 write w:b | -\n"
     "1 both r:a w:c | 0\n"
     "2 both r:c r:b | 2 1\n",
     "0 0 0; 2", NULL},
    {"the latest task of a lane is enough",
     "0 write w:a | begin\n0 write w:b | -\n1 read r:a r:b | 1\n", "0 0 -; 1", NULL},
    {"the last task waits for the last one of every lane",
     "0 write w:a | begin\n"
     "1 read r:a | 0\n"
     "2 read r:a | 0\n"
     "0 write w:b | -\n"
     "2 write w:c | -\n"
     "1 write w:d | 4 3\n",
     "0 0 0; 1", NULL},
    {"a lane without a wait waits for the beginning, once",
     "0 write w:a | -\n"
     "1 write w:b | begin\n"
     "1 write w:c | -\n"
     "2 read r:b | 1\n"
     "0 read r:a r:b | 3 2\n",
     "0 0 0; 0", NULL},
    {"lanes without a conflict are apart",
     "0 write w:a | begin\n"
     "2 write w:c | -\n"
     "1 read r:a | 0\n"
     "2 read r:c | -\n",
     "0 0 1; 1 2", NULL},
    {"a joint call joins its lanes", "0 sum j:1 | begin\n1 sum j:1 | 0\n2 write w:a | -\n",
     "0 0 1; 1 2", NULL},
    {"two calls join nothing", "0 sum j:1 | -\n1 sum j:2 | -\n2 sum j:1 | -\n", "0 1 2; 0 1 2",
     NULL},
    {"tasks without a call join nothing", "0 x | -\n1 x | -\n", "0 1 -; 0 1", NULL},
    {"a chain is one component, though its ends do not meet",
     "2 write w:a | begin\n"
     "1 both r:a w:b | 0\n"
     "0 read r:b | 1\n",
     "0 0 0; 0", NULL},
    {"a lane without tasks is in no component", "1 write w:a | begin\n2 read r:a | 0\n", "- 0 0; 2",
     NULL},
    /* ---- Ranges ---- */
    {"bytes side by side do not conflict", "0 write w:a0-4 | -\n1 read r:a4-8 | -\n", "0 1 -; 0 1",
     NULL},
    {"one common byte does", "0 write w:a0-5 | begin\n1 read r:a4-8 | 0\n", "0 0 -; 1", NULL},
    {"a write over two writes waits for both",
     "0 write w:a0-4 | begin\n"
     "1 write w:a4-8 | begin\n"
     "2 write w:a0-8 | 1 0\n",
     "0 0 0; 2", NULL},
    {"a write in the middle leaves both ends to the writer before",
     "0 write w:a0-8 | begin\n"
     "1 write w:a2-4 | 0\n"
     "2 read r:a4-8 | 0\n"
     "2 read r:a0-2 | -\n"
     "2 read r:a2-4 | 1\n",
     "0 0 0; 2", NULL},
    {"a write waits for the readers of its bytes only",
     "0 read r:a0-4 | begin\n"
     "1 read r:a4-8 | begin\n"
     "0 write w:b | -\n"
     "2 write w:a2-3 | 0\n"
     "2 write w:a6-7 | 1\n"
     "2 read r:b | 2\n",
     "0 0 0; 2", NULL},
    {"readers of both halves of a range",
     "0 read r:a0-4 | begin\n1 read r:a4-8 | begin\n2 write w:a2-6 | 1 0\n", "0 0 0; 2", NULL},
    {"of a lane's reads the later one counts",
     "0 read r:a | begin\n"
     "0 read r:a | -\n"
     "1 write w:a | 1\n",
     "0 0 -; 1", NULL},
    {"a read on a third lane does not replace others",
     "0 read r:a | begin\n"
     "1 read r:a | begin\n"
     "2 read r:a | -\n"
     "2 write w:a | 1 0\n",
     "0 0 0; 2", NULL},
    {"reads and writes of one task",
     "0 both r:a w:b | begin\n"
     "1 both w:a r:b | 0\n"
     "2 read r:c | -\n"
     "2 read r:a r:b | 1\n",
     "0 0 0; 2", NULL},
    /* ---- Races, where a wait is taken away ---- */
    {"a reader without its wait", "0 write w:a | begin\n1 read r:a | 0!\n", "0 0 -; 1",
     "1 0 this a0-8"},
    {"a writer without its wait for a reader", "0 read r:a0-6 | begin\n1 write w:a4-8 | 0!\n",
     "0 0 -; 1", "1 0 this a4-6"},
    {"a writer without its wait for a writer", "0 write w:a | begin\n1 write w:a | 0!\n",
     "0 0 -; 1", "1 0 this a0-8"},
    {"a lane that does not wait for the beginning races with the step before",
     "0 write w:a | begin!\n1 read r:a | 0\n", "0 0 -; 1", "0 1 before a0-8"},
    {"without a wait that implies another one",
     "0 write w:a | begin\n"
     "1 both r:a w:b | 0\n"
     "2 read r:a | 0!\n"
     "2 read r:b | 1\n",
     "0 0 0; 2", "2 0 this a0-8"},
    {"a lane whose last task nothing waits for races with the next step",
     "0 write w:a | -\n"
     "1 read r:a | 0\n"
     "0 write w:b | 1!\n",
     "0 0 -; 0", "0 1 before a0-8"},
    {"a fence that no memory asks for",
     "0 write w:a | begin\n"
     "1 read r:a r:b | 0\n"
     "0 write w:b | 1\n"
     "0 write w:c | -\n"
     "1 write w:d | 3!\n",
     "0 0 -; 1", NULL},
};

static void write_components(const ls_components *c, char *out)
{
    for (int l = 0; l < LANES; l++)
        out += c->component[l] < 0 ? sprintf(out, "- ") : sprintf(out, "%d ", c->component[l]);
    out += sprintf(out - 1, ";") - 1;
    for (int i = 0; i < c->count; i++)
        out += sprintf(out, " %d", c->items[i].driver);
}

/* Bytes of a letter's memory: "a0-8". */
static void write_bytes(const ls_access *access, char *out)
{
    const size_t at = (size_t)access->memory, letter = at >> 16, first = at & 0xffff;
    sprintf(out, "%c%zu-%zu", (char)('a' + letter - 1), first, first + access->bytes);
}

static void compare(const char *name, const char *what, const char *got, const char *wanted)
{
    if (strcmp(got, wanted) != 0)
        fail_msg("%s: %s: %s, not %s", name, what, got, wanted);
}

static void compare_waits(text_program *t, int kind, const char *name)
{
    ls_step_program *p = &t->program[kind];
    char got[TEXT], what[TEXT];
    for (size_t i = 0; i < p->task_count; i++) {
        char *wanted = t->expected[kind][i];
        snprintf(what, sizeof what, "task %zu waits", i);
        write_waits(p, &p->tasks[i], got);
        take_marked(p, &p->tasks[i], wanted);
        if (*wanted != '?')
            compare(name, what, got, wanted);
    }
}

static void check_race(const text_program *t, const struct order_case *c)
{
    ls_race race;
    char got[TEXT] = "none", bytes[TEXT];
    assert_null(
        ls_step_programs_race(&t->program[LS_FULL], &t->program[LS_FULL], &t->components, &race));
    if (race.task) {
        write_bytes(&race.both, bytes);
        snprintf(got, sizeof got, "%zu %zu %s %.20s", (size_t)(race.task - race.program->tasks),
                 (size_t)(race.earlier - race.earlier_program->tasks),
                 race.step_before ? "before" : "this", bytes);
    }
    compare(c->name, "race", got, c->race ? c->race : "none");
}

static void waits_follow_from_accesses(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof order_cases / sizeof *order_cases; i++) {
        const struct order_case *c = &order_cases[i];
        text_program t;
        char got[TEXT];
        open_lanes(&t, LANES, false);
        add_text(&t, LS_FULL, c->text);
        assert_null(ls_step_programs_order(t.program, KINDS, &t.components));
        write_components(&t.components, got);
        compare(c->name, "components", got, c->components);
        compare_waits(&t, LS_FULL, c->name);
        check_race(&t, c);
        close_text(&t);
    }
}

/* Components are those of all kinds of steps together, and each has one driver. */
static void steps_of_all_kinds_share_components(void **state)
{
    (void)state;
    text_program t;
    char got[TEXT];
    open_lanes(&t, LANES, false);
    add_text(&t, LS_FULL, "0 x w:a | begin\n2 x w:c | -\n1 x w:b | 0\n");
    add_text(&t, LS_LAST, "0 x w:a | begin\n1 x r:a | 0\n");
    add_text(&t, AFTER, "2 x w:d | ?\n0 x | ?\n"); /* not the driver */
    assert_null(ls_step_programs_order(t.program, KINDS, &t.components));
    write_components(&t.components, got);
    compare("kinds", "components", got, "0 0 1; 1 2");
    compare_waits(&t, LS_FULL, "full");
    compare_waits(&t, LS_LAST, "last");
    for (int kind = 0; kind < STEPS; kind++) {
        assert_int_equal(t.components.items[0].has[kind],
                         kind == LS_FULL || kind == LS_LAST || kind == AFTER);
        assert_int_equal(t.components.items[1].has[kind], kind == LS_FULL || kind == AFTER);
    }
    assert_int_equal(t.components.items[0].lanes, 2);
    assert_int_equal(t.components.rank[0] + t.components.rank[1], 1);
    close_text(&t);
}

static void expect_failure(ls_status status, const char *name, const char *words)
{
    if (!words && status)
        fail_msg("%s: %s", name, ls_status_text(status));
    if (words && (!status || !strstr(ls_status_text(status), words)))
        fail_msg("%s: %s, not \"%s\"", name, status ? ls_status_text(status) : "no failure", words);
    ls_status_free(status);
}

static void both_batches_end_on_one_lane(void **state)
{
    (void)state;
    text_program t;
    open_lanes(&t, LANES, false);
    add_text(&t, LS_FULL, "1 x w:a | ?\n0 x r:a | ?\n");
    add_text(&t, LS_TAIL, "0 x w:a | ?\n1 x r:a | ?\n");
    expect_failure(ls_step_programs_order(t.program, KINDS, &t.components), "driver",
                   "this task ends the step of an epoch's smaller last batch, but a");
    close_text(&t);
}

/* ---- Matching -------------------------------------------------------------------------------- */

static const struct match_case {
    const char *name, *text;
    const char *failure; /* NULL: all ends match */
    int arrivals;        /* 0: none */
    bool ends;
} match_cases[] = {
    {"a message", "0 send m:1/3/0 | ?\n1 receive m:0/0/3 | ?\n", NULL, 0, false},
    {"two sizes", "0 send m:1/3/0 | ?\n1 receive m:0/0/4 | ?\n", "task 0 cannot finish", 0, false},
    {"two senders", "0 send m:1/3/0 | ?\n1 send m:0/3/0 | ?\n", "task 0 cannot finish", 0, false},
    {"an end alone", "0 send m:1/3/0 | ?\n1 x | ?\n", "task 0 cannot finish", 0, false},
    {"an end for another member", "0 send m:1/3/0 | ?\n1 receive m:2/0/3 | ?\n",
     "task 0 cannot finish", 0, false},
    {"the other end comes later", "0 send m:1/3/0 | ?\n1 x | ?\n1 x | ?\n1 receive m:0/0/3 | ?\n",
     NULL, 0, false},
    {"two messages in one order",
     "0 send m:1/3/0 | ?\n0 receive m:1/0/3 | ?\n1 receive m:0/0/3 | ?\n1 send m:0/3/0 | ?\n", NULL,
     0, false},
    {"two messages in two orders",
     "0 send m:1/3/0 | ?\n0 receive m:1/0/3 | ?\n1 send m:0/3/0 | ?\n1 receive m:0/0/3 | ?\n",
     "task 0 cannot finish", 0, false},
    {"a ring of waiting ends",
     "0 send m:1/3/0 | ?\n0 receive m:2/0/3 | ?\n1 send m:2/3/0 | ?\n1 receive m:0/0/3 | ?\n"
     "2 send m:0/3/0 | ?\n2 receive m:1/0/3 | ?\n",
     "task 0 cannot finish", 0, false},
    {"a peer that waits for what follows the message",
     "0 send m:1/3/0 | ?\n0 write w:a | ?\n1 read r:a | ?\n1 receive m:0/0/3 | ?\n",
     "task 0 cannot finish", 0, false},
    {"an end that waits for what follows the other one",
     "0 send m:1/3/0 | ?\n0 write w:a | ?\n1 receive m:0/0/3 r:a | ?\n", "task 0 cannot finish", 0,
     false},
    {"an end of an all-reduce that does",
     "0 sum g:0-4 | ?\n0 write w:a | ?\n1 sum g:0-4 r:a | ?\n2 sum g:0-4 | ?\n",
     "task 0 cannot finish", 0, false},
    {"variables that were not asked for", "0 receive m:2/0/3 | ?\n", "task 0 cannot finish", 2,
     false},
    {"an end that is not free yet", "2 x w:a | ?\n0 send m:1/3/0 r:a | ?\n1 receive m:0/0/3 | ?\n",
     NULL, 0, false},
    {"an all-reduce", "0 sum g:0-4 | ?\n1 sum g:0-4 | ?\n2 sum g:0-4 | ?\n", NULL, 0, false},
    {"an all-reduce without an end", "0 sum g:0-4 | ?\n1 sum g:0-4 | ?\n2 x | ?\n",
     "task 0 cannot finish", 0, false},
    {"all-reduces of two ranges", "0 sum g:0-4 | ?\n1 sum g:0-4 | ?\n2 sum g:1-4 | ?\n",
     "task 0 cannot finish", 0, false},
    {"all-reduces of two lengths", "0 sum g:0-4 | ?\n1 sum g:0-5 | ?\n2 sum g:0-4 | ?\n",
     "task 0 cannot finish", 0, false},
    {"an all-reduce and a mean", "0 sum g:0-4 | ?\n1 mean g:0-4 | ?\n2 sum g:0-4 | ?\n",
     "task 0 cannot finish", 0, false},
    {"all-reduces in two orders",
     "0 sum g:0-4 | ?\n0 sum g:4-8 | ?\n1 sum g:4-8 | ?\n1 sum g:0-4 | ?\n2 sum g:0-4 | ?\n"
     "2 sum g:4-8 | ?\n",
     "cannot finish", 0, false},
    {"an all-reduce that follows what waits for it",
     "0 sum g:0-4 | ?\n0 write w:a | ?\n1 read r:a | ?\n1 sum g:0-4 | ?\n2 sum g:0-4 | ?\n",
     "task 0 cannot finish", 0, false},
    {"a message in an all-reduce's turn", "0 sum g:0-0 | ?\n1 sum m:0/0/0 | ?\n2 sum g:0-0 | ?\n",
     "cannot finish", 0, false},
    {"a server's answer", "0 ask q:2/0/3 | ?\n0 receive m:2/0/3 | ?\n", NULL, 2, false},
    {"an answer in two parts", "0 ask q:2/0/3 | ?\n0 receive m:2/0/1 | ?\n0 receive m:2/0/2 | ?\n",
     NULL, 2, false},
    {"a gradient for a server", "0 ask q:2/3/0 | ?\n0 send m:2/3/0 | ?\n", NULL, 2, false},
    {"an answer that nobody takes", "0 ask q:2/0/3 | ?\n0 x | ?\n",
     "announces messages that do not", 2, false},
    {"a part that nobody takes", "0 ask q:2/0/3 | ?\n0 receive m:2/0/1 | ?\n",
     "announces messages that do not", 2, false},
    {"a gradient that nobody sends", "0 ask q:2/3/0 | ?\n0 x | ?\n",
     "announces messages that do not", 2, false},
    {"more than was asked for", "0 ask q:2/0/3 | ?\n0 receive m:2/0/4 | ?\n",
     "announces messages that do not", 2, false},
    {"a gradient that was not announced", "0 send m:2/3/0 | ?\n", "task 0 cannot finish", 2, false},
    {"a request before the answer to the last",
     "0 ask q:2/0/3 | ?\n0 ask q:2/0/3 | ?\n0 receive m:2/0/3 | ?\n",
     "announces messages that do not", 2, false},
    {"a request before the answer of another server",
     "0 ask q:1/0/3 | ?\n0 ask q:2/0/3 | ?\n0 receive m:1/0/3 | ?\n0 receive m:2/0/3 | ?\n",
     "announces messages that do not", 1, false},
    {"two workers and one server",
     "0 ask q:2/0/3 | ?\n1 ask q:2/0/4 | ?\n1 receive m:2/0/4 | ?\n0 receive m:2/0/3 | ?\n", NULL,
     2, false},
    {"a worker's request is not another's", "0 ask q:2/0/3 | ?\n1 receive m:2/0/3 | ?\n",
     "announces messages that do not", 2, false},
    {"every step has an end", "0 x | ?\n0 end | ?\n1 x | ?\n1 end | ?\n", NULL, 0, true},
    {"a step without one", "0 x | ?\n0 end | ?\n1 x | ?\n", "task 2 is this device's last task", 0,
     true},
    {"work after the end", "0 end | ?\n0 x | ?\n", "task 1 is this device's last task", 0, true},
    {"a copy after the end", "0 x | ?\n0 end | ?\n0 send c:12 | ?\n0 send c:12 | ?\n", NULL, 0,
     true},
    {"a copy instead of the end", "0 x | ?\n0 send c:12 | ?\n", "task 0 is this device's last task",
     0, true},
};

static void check_match(const struct match_case *c, const char *text, bool elsewhere)
{
    text_program t;
    open_lanes(&t, c->arrivals ? c->arrivals : LANES, c->ends);
    if (elsewhere)
        t.message_lane[2] = t.group_lane[2] = -1;
    add_text(&t, LS_FULL, text);
    assert_null(ls_step_programs_order(t.program, KINDS, &t.components));
    expect_failure(ls_step_program_match(&t.program[LS_FULL]), c->name, c->failure);
    close_text(&t);
}

static void ends_match(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof match_cases / sizeof *match_cases; i++)
        check_match(&match_cases[i], match_cases[i].text, false);
}

/* Ends in another process are assumed to match; those here still have to. */
static void ends_elsewhere_are_assumed(void **state)
{
    (void)state;
    const struct match_case whole = {.name = "elsewhere"};
    const struct match_case broken = {.name = "elsewhere", .failure = "task 2 cannot finish"};
    check_match(&whole, "0 send m:2/3/0 | ?\n0 sum g:0-4 | ?\n1 sum g:0-4 | ?\n", true);
    check_match(&broken, "0 send m:2/3/0 | ?\n1 send m:2/1/0 | ?\n0 sum g:0-4 | ?\n1 x | ?", true);
}

/* ---- Accesses, costs, traffic, listing ------------------------------------------------------- */

/* A task's accesses: reads, then writes, by address, and what touches or overlaps is one. */
static void accesses_are_merged(void **state)
{
    (void)state;
    static const struct {
        bool writes;
        const char *bytes;
    } wanted[] = {
        {false, "a0-8"}, {false, "b1-2"}, {false, "b3-4"}, {true, "a2-6"}, {true, "c0-8"}};
    text_program t;
    char got[TEXT];
    open_lanes(&t, LANES, false);
    add_text(&t, LS_FULL,
             "0 x w:c r:b3-4 r:a4-8 r:a0-4 w:a2-5 r:b1-2 w:a3-6 r:a1-3 | ?\n1 y r:a | ?\n");
    const ls_step_program *p = &t.program[LS_FULL];
    assert_int_equal(p->tasks[0].accesses.count, 5);
    for (size_t i = 0; i < 5; i++) {
        write_bytes(&p->accesses[i], got);
        compare("accesses", "bytes", got, wanted[i].bytes);
        assert_int_equal(p->accesses[i].writes, wanted[i].writes);
    }
    assert_true(p->tasks[1].accesses.first == 5 && p->access_count == 6);
    close_text(&t);
}

static void costs_and_traffic_are_sums(void **state)
{
    (void)state;
    text_program t;
    open_lanes(&t, LANES, false);
    add_text(&t, LS_FULL,
             "0 x f:6/7 f:10/1 | ?\n0 send c:12 | ?\n0 send c:5= | ?\n0 send m:1/3/0 | ?\n"
             "1 receive m:0/0/3 | ?\n0 x f:1/2 | ?\n");
    ls_step_program *p = &t.program[LS_FULL];
    assert_true(p->tasks[0].flops == 16 && p->tasks[0].bytes == 8 && p->tasks[0].ops.count == 2);
    assert_true(p->tasks[5].flops == 1 && p->tasks[5].bytes == 2 && p->tasks[5].ops.first == 2);
    ls_comm end = {.rank = 1}; /* one message is sent; the other comes from an end without tasks */
    ls_op *op = p->ops[1], keep = *op;
    op->messages = (ls_op_message[]){{&end, 1, 0, 8}, {&end, 0, 1, 16}};
    op->message_count = 2;
    p->empty_copies = 4;
    ls_traffic sum = ls_step_program_traffic(p);
    assert_true(sum.bytes_sent == 12 + 8 && sum.messages_sent == 4 + 2);
    p->tasks[0].end = (ls_task_end){.channel = LS_MESSAGES, .peer = LANES};
    sum = ls_step_program_traffic(p);
    assert_true(sum.bytes_sent == 12 + 8 + 16 && sum.messages_sent == 4 + 3);
    *op = keep;
    close_text(&t);
}

static void a_program_is_listed(void **state)
{
    (void)state;
    text_program t;
    ls_member_name members[LANES] = {{"here", 0, 4}, {"there", 0, 4}, {"rank 1 device 0", 0, 4}};
    ls_name buffers[] = {{(size_t)memory_of('a'), (size_t)memory_of('a') + 16, "gradients", 0, 4},
                         {(size_t)memory_of('b'), (size_t)memory_of('b') + 8, "loss", 1, 0}};
    char *text;
    size_t size;
    open_lanes(&t, LANES, false);
    const ls_names names = {.lanes = &t.lanes, .members = members, .items = buffers, .count = 2};
    add_text(&t, LS_FULL, "0 write w:a | ?\n1 read r:a w:b | ?\n1 send m:2/3/0 r:x | ?\n");
    assert_null(ls_step_programs_order(t.program, KINDS, &t.components));
    FILE *out = open_memstream(&text, &size);
    assert_null(ls_step_program_list(&t.program[LS_FULL], &names, out));
    fclose(out);
    compare("listing", "text", text,
            "task  lane           what                               ops  waits for  reads"
            "                              writes\n"
            "0     here compute   write                              0    begin      -"
            "                                  gradients elements 0 to 1\n"
            "1     there compute  read                               0    0          gradients"
            " elements 0 to 1 of here  loss\n"
            "2     there compute  send, 12 bytes to rank 1 device 0  0    -          activations"
            "                        -\n");
    free(text);
    close_text(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_follow_from_accesses),
        cmocka_unit_test(steps_of_all_kinds_share_components),
        cmocka_unit_test(both_batches_end_on_one_lane),
        cmocka_unit_test(ends_match),
        cmocka_unit_test(ends_elsewhere_are_assumed),
        cmocka_unit_test(accesses_are_merged),
        cmocka_unit_test(costs_and_traffic_are_sums),
        cmocka_unit_test(a_program_is_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
