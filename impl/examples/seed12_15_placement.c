/* SPDX-License-Identifier: MIT */
/*
 * Seeds 12 and 15: the placement log, and towers. The log has the device of each operation.
 * [[1,2,3],[4,5,6]] x [[1,2],[3,4],[5,6]] = [[22,28],[49,64]], with a and b on /cpu:0 and the
 * product on the default device; then the product on two devices, with copied operands, and the sum
 * of both on /cpu:0: [[44,56],[98,128]].
 */
#define _POSIX_C_SOURCE 200809L /* fmemopen */

#include "impl/examples/example.h"
#include "impl/examples/placed.h"

#include <string.h>

static const float a[2][3] = {{1, 2, 3}, {4, 5, 6}};
static const float b[3][2] = {{1, 2}, {3, 4}, {5, 6}};

static ls_status constants(ls_placed *program, const ls_matrix **left, const ls_matrix **right)
{
    LS_TRY(ls_placed_constant(program, (ls_place){"a", "/cpu:0"}, 2, 3, &a[0][0], left));
    return ls_placed_constant(program, (ls_place){"b", "/cpu:0"}, 3, 2, &b[0][0], right);
}

static ls_status expect(ls_placed *program, const ls_matrix *tensor, const float right[2][2])
{
    float got[2][2];
    LS_TRY(ls_placed_run(program));
    LS_TRY(ls_placed_read(program, tensor, &got[0][0]));
    const ls_traffic sent = ls_placed_traffic(program);
    printf("%s = [[%g,%g],[%g,%g]], %zu nodes, %d copies between devices\n", tensor->name,
           got[0][0], got[0][1], got[1][0], got[1][1], ls_placed_describe(program).nodes,
           (int)sent.messages_sent);
    return example_expect(!memcmp(got, right, sizeof got), tensor->name);
}

static ls_status product(ls_placed *program)
{
    static const float right[2][2] = {{22, 28}, {49, 64}};
    const ls_matrix *left, *factor, *result;
    LS_TRY(constants(program, &left, &factor));
    LS_TRY(ls_placed_matmul(program, (ls_place){"product", NULL}, left, factor, &result));
    return expect(program, result, right);
}

static ls_status towers(ls_placed *program)
{
    static const float right[2][2] = {{44, 56}, {98, 128}};
    static const char *const devices[2] = {"/cpu:1", "/cpu:2"};
    static const char *const names[2] = {"tower 0", "tower 1"};
    const ls_matrix *left, *factor, *products[2], *sum;
    LS_TRY(constants(program, &left, &factor));
    for (int i = 0; i < 2; i++)
        LS_TRY(ls_placed_matmul(program, (ls_place){names[i], devices[i]}, left, factor,
                                &products[i]));
    LS_TRY(ls_placed_add_n(program, (ls_place){"sum", "/cpu:0"}, products, 2, &sum));
    LS_TRY(expect(program, sum, right));
    return example_expect(ls_placed_traffic(program).messages_sent == 6,
                          "a and b to each tower, a product back from each");
}

/* Makes and runs a program; its log must have the given lines. */
static ls_status with_log(example *e, ls_status (*make)(ls_placed *program), const char *listed)
{
    char text[1024] = "";
    FILE *stream = fmemopen(text, sizeof text, "w");
    const ls_log log = {.stream = stream, .level = LS_LOG_NORMAL};
    const ls_placement placement = {.machine = e->machine, .log = &log, .logged = true};
    ls_placed *program;
    LS_TRY(ls_placed_open(&placement, &program));
    ls_status status = make(program);
    ls_placed_close(program);
    fclose(stream);
    fputs(text, stdout);
    return status ? status : example_expect(!strcmp(text, listed), "the placement log");
}

static ls_status show(example *e)
{
    char device[32], listed[512];
    const ls_device_name best = {.kind = ls_machine_best_kind(e->machine), .logical = -1};
    snprintf(listed, sizeof listed,
             "lockstep: placement: a: cpu:0\nlockstep: placement: b: cpu:0\n"
             "lockstep: placement: product: %s\n",
             ls_device_name_text(&best, device));
    LS_TRY(with_log(e, product, listed));
    return with_log(e, towers,
                    "lockstep: placement: a: cpu:0\nlockstep: placement: b: cpu:0\n"
                    "lockstep: placement: tower 0: cpu:1\nlockstep: placement: tower 1: cpu:2\n"
                    "lockstep: placement: sum: cpu:0\n");
}

int main(void)
{
    return example_main(3, show);
}
