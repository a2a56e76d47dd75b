/* SPDX-License-Identifier: MIT */
/*
 * The check of spans, by tables of memory and of what an operation or a copy declares: every end of
 * an access against every end of an allocation. No device, no tolerance.
 */
#include "impl/step/program/names.h"
#include "impl/step/tests/program_text.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Of members 0 and 1: memory `a` in two allocations side by side, and `b`. `h` is a buffer in host
 * memory of member 0, `d` one of all. */
static const struct span_case {
    const char *name;
    char letter;
    size_t first, bytes;
    int member;
    bool right;
} cases[] = {
    {"a whole allocation", 'a', 0, 8, 0, true},
    {"its first byte", 'a', 0, 1, 0, true},
    {"its last byte", 'a', 7, 1, 0, true},
    {"a byte more than an allocation", 'a', 0, 9, 0, false},
    {"the end of an allocation and the begin of the next", 'a', 7, 2, 0, false},
    {"the next allocation", 'a', 8, 8, 0, true},
    {"both allocations", 'a', 0, 16, 0, false},
    {"the byte behind the last allocation", 'a', 16, 1, 0, false},
    {"an allocation of zero bytes", 'c', 0, 1, 0, false},
    {"memory before all allocations", 'a', (size_t)-4, 4, 0, false},
    {"memory of another device", 'b', 0, 4, 0, false},
    {"that memory on its device", 'b', 0, 4, 1, true},
    {"a buffer in host memory", 'h', 0, 8, 0, true},
    {"more than that buffer", 'h', 4, 8, 0, false},
    {"a buffer of another member", 'h', 0, 8, 1, false},
    {"a buffer of all members", 'd', 2, 6, 1, true},
};

static uintptr_t at(char letter)
{
    return (uintptr_t)memory_of(letter);
}

/* `copies`: a copy from and to the memory declares it, else an operation. */
static ls_status check(const struct span_case *c, bool copies)
{
    ls_memory_piece first[] = {
        {at('a'), at('a') + 8}, {at('a') + 8, at('a') + 16}, {at('c'), at('c')}};
    ls_memory_piece second[] = {{at('b'), at('b') + 8}};
    const ls_allocated pieces[LANES] = {{first, 3}, {second, 1}, {NULL, 0}};
    ls_name buffers[] = {{at('d'), at('d') + 8, "data set", -1, 0},
                         {at('h'), at('h') + 8, "communicator", 0, 0}};
    ls_member_name members[LANES] = {{"here", 0, 4}, {"there", 0, 4}, {"rank 1", 0, 4}};
    text_program t;
    open_lanes(&t, LANES, false);
    const ls_names names = {.lanes = &t.lanes, .members = members, .items = buffers, .count = 2};
    ls_access access = {memory_of(c->letter) + c->first, c->bytes, true};
    ls_op op = {.name = "exchange.copy", .accesses = &access, .access_count = 1}, *ops[] = {&op};
    ls_step_program *p = &t.program[LS_FULL];
    ls_task *task = ls_task_begin(p, strdup("receive"), c->member, (ls_range){0});
    if (copies)
        task->copy = (ls_task_copy){.from_member = c->member,
                                    .to_member = c->member,
                                    .from = access.memory,
                                    .to = memory_of(c->letter) + c->first,
                                    .bytes = c->bytes};
    else
        ls_task_add_ops(p, &(ls_op_list){ops, 1});
    ls_task_finish(p);
    ls_status status = ls_names_check_spans(&names, p, pieces);
    close_text(&t);
    return status;
}

static void spans_are_in_one_allocation(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        ls_status status = check(&cases[i / 2], i % 2);
        if (!status != cases[i / 2].right)
            fail_msg("%s: %s", cases[i / 2].name, status ? ls_status_text(status) : "accepted");
        ls_status_free(status);
    }
}

static void a_refusal_names_task_operation_and_memory(void **state)
{
    (void)state;
    ls_status status = check(&(struct span_case){"", 'h', 4, 8, 0, false}, false);
    assert_string_equal(
        ls_status_text(status),
        "span: task 0 (here compute: receive): exchange.copy declares that it writes 8 bytes "
        "(activations, communicator) that are not inside one allocation of its device; let each "
        "operation declare only memory that it uses");
    assert_int_equal(ls_status_code(status), LS_CODE_CHECK);
    ls_status_free(status);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_are_in_one_allocation),
        cmocka_unit_test(a_refusal_names_task_operation_and_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
