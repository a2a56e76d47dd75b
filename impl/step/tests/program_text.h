/* SPDX-License-Identifier: MIT */
/*
 * Step programs as text, for tests without devices. Lane l is the compute lane of member l. A line
 * is a task:
 *
 *     LANE VERB [WORD..] | EXPECTED
 *
 *     r:a w:b4-8    reads all 8 bytes of memory `a`; writes bytes 4 to 7 of `b`. A letter is memory
 *     m:1/3/0       an end of a message with member 1: sends 3 elements, receives none
 *     q:1/0/3       a request to member 1 that announces such messages
 *     g:0-8         an end of an all-reduce of elements 0 to 7
 *     j:2           joint call number 2
 *     c:12 c:12=    a copy of 12 bytes to another device; to the same one
 *     f:6/7         an operation of 6 FLOPs that moves 7 bytes
 *
 * EXPECTED are the waits that ordering must give: "-", "begin", or tasks, the latest first; "?" is
 * not compared. One with `!` is taken away again before races are searched.
 */
#pragma once

#include "impl/step/program/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 3, TASKS = 12, TEXT = 200 };
enum { KINDS = 2 * LS_LAST, AFTER = KINDS + LS_AFTER, STEPS = KINDS + LS_UNORDERED }; /* programs */

typedef struct text_program {
    ls_lane lane[LANES];
    int message_lane[LANES], group_lane[LANES];
    ls_channel channel[2];
    ls_lanes lanes;
    ls_step_program program[STEPS];
    ls_components components;
    char expected[STEPS][TASKS][TEXT];
    ls_op op[STEPS * TASKS];
    int op_count;
} text_program;

/* From this member on, members are servers that serve requests as they arrive. */
static inline void open_lanes(text_program *t, int arrivals, bool ends)
{
    *t = (text_program){.op_count = 0};
    for (int l = 0; l < LANES; l++) {
        t->lane[l] = (ls_lane){.member = l, .name = "compute", .ends = ends};
        t->message_lane[l] = t->group_lane[l] = l;
    }
    t->channel[LS_MESSAGES] = (ls_channel){LANES, t->message_lane, arrivals, NULL, 0};
    t->channel[LS_GROUPS] = (ls_channel){LANES, t->group_lane, LANES, NULL, 0};
    t->lanes = (ls_lanes){t->lane, LANES, t->channel, 2};
    for (int kind = 0; kind < STEPS; kind++)
        t->program[kind].lanes = &t->lanes;
}

/* A mistake in a text. */
static inline void need(bool right)
{
    if (!right)
        abort();
}

/* Memory of a letter, spaced so that two letters never touch. */
static inline char *memory_of(char letter)
{
    return (char *)((size_t)(letter - 'a' + 1) << 16);
}

static inline void add_word(text_program *t, ls_step_program *p, ls_task *task, const char *word)
{
    size_t first = 0, last = 8;
    int peer;
    char same = 0;
    if (word[0] == 'r' || word[0] == 'w') {
        sscanf(word + 3, "%zu-%zu", &first, &last);
        ls_task_touch(p, memory_of(word[2]) + first, last - first,
                      word[0] == 'w' ? LS_WRITES : LS_READS);
    } else if (word[0] == 'm' || word[0] == 'q') {
        need(sscanf(word + 2, "%d/%zu/%zu", &peer, &first, &last) == 3);
        task->end = (ls_task_end){LS_MESSAGES, peer, first, last, word[0] == 'q'};
    } else if (word[0] == 'g') {
        need(sscanf(word + 2, "%zu-%zu", &first, &last) == 2);
        task->end.channel = LS_GROUPS;
        task->range = (ls_range){first, last - first};
    } else if (word[0] == 'j') {
        task->call = atoi(word + 2);
    } else if (word[0] == 'c') {
        sscanf(word + 2, "%zu%c", &first, &same);
        task->copy = (ls_task_copy){0, 1, memory_of('y'), memory_of('z'), first, same != '='};
    } else {
        ls_op *op = &t->op[t->op_count++], *items[] = {op};
        need(word[0] == 'f' && sscanf(word + 2, "%lf/%lf", &op->flops, &op->bytes) == 2);
        ls_task_add_ops(p, &(ls_op_list){items, 1});
    }
}

/* Appends the tasks of a text to the program of a kind of step. */
static inline void add_text(text_program *t, int kind, const char *text)
{
    ls_step_program *p = &t->program[kind];
    char copy[TASKS * TEXT], *line, *rest = copy;
    snprintf(copy, sizeof copy, "%s", text);
    while ((line = strsep(&rest, "\n")) && *line) {
        char *expected = strstr(line, " | "), *words = line;
        need(expected && p->task_count < TASKS);
        *expected = 0;
        snprintf(t->expected[kind][p->task_count], TEXT, "%s", expected + 3);
        const int lane = atoi(strsep(&words, " "));
        ls_task *task = ls_task_begin(p, strdup(strsep(&words, " ")), lane, (ls_range){0});
        for (char *word; (word = strsep(&words, " "));)
            add_word(t, p, task, word);
        ls_task_finish(p);
        need(!p->status);
    }
}

/* Writes a task's waits as in a text. */
static inline void write_waits(const ls_step_program *p, const ls_task *task, char out[TEXT])
{
    size_t used = (size_t)snprintf(out, TEXT, "%s", task->begins ? "begin" : "");
    for (size_t w = 0; w < task->waits.count; w++)
        used += (size_t)snprintf(out + used, TEXT - used, "%s%zu", used ? " " : "",
                                 p->waits[task->waits.first + w]);
    if (!used)
        snprintf(out, TEXT, "-");
}

/* Takes away the waits that are marked with `!`, and the marks. */
static inline void take_marked(ls_step_program *p, ls_task *task, char *expected)
{
    size_t kept = 0, w = 0;
    char copy[TEXT], *word, *rest = copy;
    snprintf(copy, sizeof copy, "%s", expected);
    *expected = 0;
    while ((word = strsep(&rest, " "))) {
        char *mark = strchr(word, '!');
        if (mark)
            *mark = 0;
        else if (task->waits.count)
            p->waits[task->waits.first + kept++] = p->waits[task->waits.first + w];
        w++;
        if (mark && strcmp(word, "begin") == 0)
            task->begins = false;
        snprintf(expected + strlen(expected), TEXT - strlen(expected), "%s%s", *expected ? " " : "",
                 word);
    }
    task->waits.count = task->waits.count ? kept : 0;
}

static inline void close_text(text_program *t)
{
    for (int kind = 0; kind < STEPS; kind++) {
        for (size_t i = 0; i < t->program[kind].task_count; i++)
            free((void *)(size_t)t->program[kind].tasks[i].verb);
        ls_step_program_close(&t->program[kind]);
    }
    ls_components_close(&t->components);
}
