/* SPDX-License-Identifier: MIT */
/*
 * Seed 13: an operation without a device runs on the default device: an accelerator rather than a
 * CPU, and of several the one with the lowest number. So gpu:0 if there is one, else cpu:0.
 */
#include "common/device/placement.h"
#include "impl/examples/example.h"

#include <string.h>

static ls_status show(example *e)
{
    const ls_placement placement = {.machine = e->machine};
    ls_device_name name;
    char list[256], text[32];
    LS_TRY(ls_placement_device(&placement, "product", NULL, &name));
    printf("of %s the default is %s\n", ls_machine_list(e->machine, list, sizeof list),
           ls_device_name_text(&name, text));
    const bool accelerator = ls_machine_count(e->machine, LS_DEVICE_GPU) > 0;
    if (!accelerator)
        printf("there is no accelerator here: %s\n", ls_machine_describe(e->machine)->gpu);
    return example_expect(!strcmp(text, accelerator ? "gpu:0" : "cpu:0"), "the default device");
}

int main(void)
{
    return example_main(4, show);
}
