/* SPDX-License-Identifier: MIT */
/*
 * How a wait for another lane is divided, and what memory a member's formula has, by tables without
 * devices. A line of a trace is a slice: LANE WHAT BEGIN-END [CAUSE], where WHAT is compute, copy,
 * sum (communication), peer (a wait for a peer), or wait (for slice number CAUSE of another lane).
 * Slices are in the order of lanes. No tolerance.
 */
#include "common/comm/comm.h"
#include "impl/step/resources.h"
#include "impl/step/trace/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LANES = 3, SLICES = 16, TEXT = 200 };

static const struct blame_case {
    const char *name, *slices;
    const char *parts; /* "SLICE BEGIN-END USE": c communication, d data (copies), w waiting */
} cases[] = {
    {"computing elsewhere is waiting", "0 wait 10-20 1\n1 compute 0-20\n", "0 10-20 w"},
    {"communication and copies count as such",
     "0 wait 10-40 3\n1 compute 0-15\n1 sum 15-30\n1 copy 30-40\n",
     "0 10-15 w, 0 15-30 c, 0 30-40 d"},
    {"gaps count as waiting", "0 wait 10-40 2\n1 sum 12-20\n1 sum 25-30\n",
     "0 10-12 w, 0 12-20 c, 0 20-25 w, 0 25-30 c, 0 30-40 w"},
    {"parts of one use are one", "0 wait 10-40 3\n1 sum 0-20\n1 sum 20-30\n1 compute 30-40\n",
     "0 10-30 c, 0 30-40 w"},
    {"a wait for a peer is waiting", "0 wait 0-10 1\n1 peer 0-10\n", "0 0-10 w"},
    {"a slice that ended when the wait begins does not count",
     "0 wait 10-20 2\n1 sum 0-10\n1 copy 10-20\n", "0 10-20 d"},
    {"a slice that ends later counts up to the end", "0 wait 10-20 1\n1 sum 5-30\n", "0 10-20 c"},
    {"while the other lane waited, what the third one did counts",
     "0 wait 0-30 2\n1 wait 0-20 3\n1 compute 20-30\n2 copy 5-20\n",
     "0 0-5 w, 0 5-20 d, 0 20-30 w, 1 0-5 w, 1 5-20 d"},
    {"a wait of unknown cause is waiting", "0 wait 0-10 -1\n1 sum 0-10\n", "0 0-10 w"},
    {"the other lane's wait of unknown cause, too", "0 wait 0-10 1\n1 wait 0-10 -1\n",
     "0 0-10 w, 1 0-10 w"},
    {"two lanes that wait for each other end", "0 wait 0-10 1\n1 wait 0-10 0\n",
     "0 0-10 w, 1 0-10 w"},
    {"nothing waits", "0 compute 0-10\n1 sum 0-10\n", ""},
};

static void add_slice(ls_trace *trace, size_t *begin, char *line)
{
    char what[16];
    int lane, cause = -1;
    unsigned long long from, to;
    if (sscanf(line, "%d %15s %llu-%llu %d", &lane, what, &from, &to, &cause) < 4)
        fail_msg("%s", line);
    const bool waits = strcmp(what, "wait") == 0, peer = strcmp(what, "peer") == 0;
    const bool copy = strcmp(what, "copy") == 0, sum = strcmp(what, "sum") == 0;
    trace->slices[trace->slice_count++] = (ls_trace_slice){.begin_ns = from,
                                                           .end_ns = to,
                                                           .lane = lane,
                                                           .kind = waits  ? LS_STRETCH_EVENT
                                                                   : copy ? LS_STRETCH_COPY
                                                                   : peer ? LS_STRETCH_PEER
                                                                          : LS_STRETCH_OP,
                                                           .use = sum    ? LS_TIME_COMMUNICATION
                                                                  : peer ? LS_TIME_WAIT
                                                                         : LS_TIME_IDLE,
                                                           .cause = cause};
    for (int l = lane + 1; l <= LANES; l++)
        begin[l] = trace->slice_count;
}

static void waits_are_divided(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[SLICES * TEXT], got[TEXT] = "", *line, *rest = text;
        ls_trace_slice slices[SLICES];
        size_t begin[LANES + 1] = {0}, used = 0;
        ls_trace trace = {.slices = slices};
        snprintf(text, sizeof text, "%s", cases[i].slices);
        while ((line = strsep(&rest, "\n")) && *line)
            add_slice(&trace, begin, line);
        assert_null(ls_trace_blame(&trace, begin));
        for (size_t k = 0; k < trace.part_count; k++) {
            const ls_trace_part *p = &trace.parts[k];
            used += (size_t)snprintf(got + used, sizeof got - used, "%s%lld %llu-%llu %c",
                                     k ? ", " : "", (long long)p->slice,
                                     (unsigned long long)p->begin_ns, (unsigned long long)p->end_ns,
                                     p->use == LS_TIME_COMMUNICATION ? 'c'
                                     : p->use == LS_TIME_COPY        ? 'd'
                                                                     : 'w');
        }
        if (strcmp(got, cases[i].parts) != 0)
            fail_msg("%s: %s, not %s", cases[i].name, got, cases[i].parts);
        free(trace.parts);
    }
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static size_t memory_of_comm(const ls_comm *comm)
{
    return (size_t)comm->rank * 100;
}

/* A member's memory: its replica's buffers by use, its operations' scratch, its communicators. */
static void memory_is_a_sum(void **state)
{
    (void)state;
    ls_replica_buffer buffers[] = {{.use = LS_MEMORY_PARAMETERS, .bytes = 5},
                                   {.use = LS_MEMORY_COMMUNICATION, .bytes = 7},
                                   {.use = LS_MEMORY_PARAMETERS, .bytes = 11}};
    ls_scratch_block block = {.bytes = 64};
    ls_kernels kernels[] = {{.scratch = {.blocks = &block, .count = 1}}, {.device = NULL}};
    ls_replica replicas[] = {{.buffers = buffers, .buffer_count = 3, .kernels = &kernels[0]},
                             {.buffers = buffers, .buffer_count = 1, .kernels = &kernels[1]}};
    ls_member members[] = {{.replica = &replicas[0]}, {.replica = &replicas[1]}};
    const ls_comm_backend with = {.memory = memory_of_comm}, without = {.name = "none"};
    ls_comm comms[] = {{.backend = &with, .rank = 1},
                       {.backend = &with, .rank = 2},
                       {.backend = &without, .rank = 3}};
    ls_connection connections[] = {{.comm = &comms[0], .member = 0},
                                   {.comm = &comms[1], .member = 1},
                                   {.comm = &comms[2], .member = 0}};
    const ls_resources r = {.members = members, .connections = connections, .connection_count = 3};
    ls_memory_formula one = {0}, both = {0};
    ls_resources_memory(&r, 0, &one);
    assert_int_equal(one.bytes[LS_MEMORY_PARAMETERS], 16);
    assert_int_equal(one.bytes[LS_MEMORY_COMMUNICATION], 107);
    ls_resources_memory(&r, 0, &both);
    ls_resources_memory(&r, 1, &both);
    assert_int_equal(both.bytes[LS_MEMORY_PARAMETERS], 21);
    assert_int_equal(both.bytes[LS_MEMORY_COMMUNICATION], 307);
    for (int use = 0; use < LS_MEMORY_USES; use++)
        if (use != LS_MEMORY_PARAMETERS && use != LS_MEMORY_COMMUNICATION)
            assert_int_equal(both.bytes[use], use == LS_MEMORY_WORKSPACE ? 64 : 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(waits_are_divided),
                                       cmocka_unit_test(memory_is_a_sum)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
