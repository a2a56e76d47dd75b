/* SPDX-License-Identifier: MIT */
/*
 * Seed 14: an operation on a missing device is refused; the error names the operation, the
 * requested device, and the devices that exist. With soft placement it runs on an existing device,
 * and the log says so.
 */
#define _POSIX_C_SOURCE 200809L /* fmemopen */

#include "impl/examples/example.h"
#include "impl/examples/placed.h"

#include <string.h>

static const float a[2][3] = {{1, 2, 3}, {4, 5, 6}};
static const float b[3][2] = {{1, 2}, {3, 4}, {5, 6}};

static ls_status product_on(const ls_placement *placement, const char *device, float got[2][2])
{
    ls_placed *program;
    const ls_matrix *left, *right, *result;
    LS_TRY(ls_placed_open(placement, &program));
    ls_status status =
        ls_placed_constant(program, (ls_place){"a", "/cpu:0"}, 2, 3, &a[0][0], &left);
    if (!status)
        status = ls_placed_constant(program, (ls_place){"b", "/cpu:0"}, 3, 2, &b[0][0], &right);
    if (!status)
        status = ls_placed_matmul(program, (ls_place){"product", device}, left, right, &result);
    if (!status)
        status = ls_placed_run(program);
    if (!status)
        status = ls_placed_read(program, result, &got[0][0]);
    ls_placed_close(program);
    return status;
}

static ls_status show(example *e)
{
    static const float right[2][2] = {{22, 28}, {49, 64}};
    char text[1024] = "";
    float got[2][2];
    ls_placement placement = {.machine = e->machine, .logged = true};
    ls_status status = product_on(&placement, "/device:GPU:77", got);
    const char *why = ls_status_text(status);
    puts(why);
    const bool named = status && strstr(why, "product") && strstr(why, "gpu:77") &&
                       strstr(why, "devices are cpu:0, cpu:1");
    ls_status_free(status);
    LS_TRY(example_expect(named, "a refusal with the operation and the devices"));
    const ls_log log = {.stream = fmemopen(text, sizeof text, "w"), .level = LS_LOG_NORMAL};
    placement.log = &log;
    placement.soft = true;
    status = product_on(&placement, "/device:GPU:77", got);
    fclose(log.stream);
    fputs(text, stdout);
    LS_TRY(status);
    printf("product = [[%g,%g],[%g,%g]]\n", got[0][0], got[0][1], got[1][0], got[1][1]);
    LS_TRY(example_expect(!memcmp(got, right, sizeof got), "the product"));
    return example_expect(strstr(text,
                                 "soft placement: product: '/device:GPU:77' names a device "
                                 "that this machine does not have; cpu:0 is used instead") != NULL,
                          "a line of the log that says what was replaced");
}

int main(void)
{
    return example_main(2, show);
}
