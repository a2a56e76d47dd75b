/* SPDX-License-Identifier: MIT */
/*
 * Seed 16: how a device reserves memory. `all` reserves nearly the whole capacity (19 parts of 20)
 * at the start; `growth` reserves memory when it is allocated, and releases none; `fraction=0.4`
 * grows, too, but refuses to exceed 0.4 of the capacity.
 */
#include "impl/examples/example.h"

enum { DEVICES = 512 }; /* many devices, so that each has a small part of the memory */

/* Reserved memory, while eighths of the capacity are allocated and freed. */
enum { START, ONE, TWO, FREED, AGAIN, POINTS };

static ls_status print(const ls_device *device, const char *when, size_t *reserved)
{
    const ls_memory_ledger ledger = ls_device_ledger(device);
    printf("  %-12s reserved %9zu KiB, in use %9zu KiB\n", when, ledger.reserved >> 10,
           ledger.in_use[LS_MEMORY_ACTIVATIONS] >> 10);
    *reserved = ledger.reserved;
    return example_expect(ledger.reserved <= ledger.limit, "no more than the policy allows");
}

static ls_status use(ls_device *device, size_t reserved[POINTS])
{
    const size_t eighth = ls_device_describe(device)->capacity / 8;
    void *first, *second, *large;
    LS_TRY(print(device, "start", &reserved[START]));
    LS_TRY(ls_device_allocate(device, LS_MEMORY_ACTIVATIONS, eighth, &first));
    LS_TRY(print(device, "one eighth", &reserved[ONE]));
    LS_TRY(ls_device_allocate(device, LS_MEMORY_ACTIVATIONS, eighth, &second));
    LS_TRY(print(device, "two eighths", &reserved[TWO]));
    ls_device_release(device, first);
    ls_device_release(device, second);
    LS_TRY(print(device, "freed", &reserved[FREED]));
    LS_TRY(example_expect(ls_device_ledger(device).in_use[LS_MEMORY_ACTIVATIONS] == 0,
                          "nothing in use"));
    ls_status status = ls_device_allocate(device, LS_MEMORY_ACTIVATIONS, 4 * eighth, &large);
    printf("  %s\n", status ? ls_status_text(status) : "four eighths fit");
    const ls_code code = ls_status_code(status);
    ls_status_free(status);
    LS_TRY(print(device, "at the end", &reserved[AGAIN]));
    return code ? ls_fail(code, "device", NULL,
                          "this example allocates half of the device's memory, which this --memory "
                          "policy does not allow; use growth, or a larger fraction")
                : LS_OK;
}

static ls_status with_policy(const ls_machine *machine, const char *name,
                             const ls_memory_policy *policy)
{
    const ls_device_name cpu = {.kind = LS_DEVICE_CPU, .logical = -1};
    ls_device *device;
    size_t reserved[POINTS] = {0};
    LS_TRY(ls_device_open(machine, &cpu, policy, &device));
    const size_t capacity = ls_device_describe(device)->capacity;
    printf("%s, of a capacity of %zu KiB:\n", name, capacity >> 10);
    ls_status status = use(device, reserved);
    ls_device_close(device);
    const bool refused = ls_status_code(status) == LS_CODE_MISSING;
    if (status && !refused)
        return status;
    ls_status_free(status);
    if (policy->kind == LS_MEMORY_ALL)
        return example_expect(reserved[START] == capacity - capacity / 20 &&
                                  reserved[AGAIN] == reserved[START] && !refused,
                              "all but a twentieth, from start to end");
    LS_TRY(example_expect(reserved[START] == 0 && reserved[ONE] >= capacity / 8 &&
                              reserved[TWO] > reserved[ONE] && reserved[FREED] == reserved[TWO],
                          "growth on demand, nothing given back"));
    return example_expect(refused == (policy->kind == LS_MEMORY_FRACTION),
                          "half the capacity fits, unless only 0.4 of it may be taken");
}

static ls_status show(example *e)
{
    const ls_memory_policy all = {.kind = LS_MEMORY_ALL}, growth = {.kind = LS_MEMORY_GROWTH};
    const ls_memory_policy fraction = {.kind = LS_MEMORY_FRACTION, .fraction = 0.4};
    ls_machine *machine;
    (void)e;
    LS_TRY(ls_machine_open(&(ls_machine_options){.cpu_devices = DEVICES}, &machine));
    ls_status status = with_policy(machine, "all", &all);
    if (!status)
        status = with_policy(machine, "growth", &growth);
    if (!status)
        status = with_policy(machine, "fraction=0.4", &fraction);
    ls_machine_close(machine);
    return status;
}

int main(void)
{
    return example_main(1, show);
}
