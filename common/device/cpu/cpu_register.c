/* SPDX-License-Identifier: MIT */
/*
 * Buffer registration: pages of a CPU device that other processes of this host map, too. The device
 * has one sparse file in memory, as large as the address space. A registered page lies in it at the
 * offset of its address, and is mapped from there over the private page, with the same contents. So
 * a page that two buffers share may be registered twice, and an address is also an offset in the
 * file. The device's own thread copies the contents, because of first touch. Pages stay registered
 * until the device closes; they are not returned to the system before.
 */
#include "common/device/cpu/cpu.h"
#include "common/device/pool.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct registration {
    cpu_device *device;
    char *first; /* first page */
    size_t bytes;
} registration;

static ls_status fail_call(const cpu_device *device, const char *call)
{
    return ls_fail(LS_CODE_MISSING, "shared memory", device->base.info.text,
                   "%s: %s; use --allreduce halving-doubling, which shares no memory", call,
                   strerror(errno));
}

static ls_status open_file(cpu_device *device)
{
    static const off_t address_space = (off_t)1 << 56; /* no processor has a larger one */
    struct rlimit limit;
    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY)
        return ls_fail(LS_CODE_MISSING, "shared memory", device->base.info.text,
                       "the limit on the size of files (ulimit -f) applies to shared memory, too, "
                       "and is too small; remove this limit, or use --allreduce halving-doubling");
    const int file = memfd_create("lockstep", MFD_CLOEXEC);
    if (file < 0)
        return fail_call(device, "memfd_create");
    if (ftruncate(file, address_space)) {
        ls_status status = fail_call(device, "ftruncate");
        close(file);
        return status;
    }
    device->pages_file = file;
    return LS_OK;
}

static ls_status register_pages(void *context)
{
    const registration *r = context;
    const int file = r->device->pages_file;
    for (size_t done = 0; done < r->bytes;) {
        /* A system call: the address sanitizer rejects reads beyond the buffer. */
        const long written = syscall(SYS_pwrite64, file, r->first + done, r->bytes - done,
                                     (off_t)(uintptr_t)(r->first + done));
        if (written <= 0)
            return fail_call(r->device, "pwrite");
        done += (size_t)written;
    }
    void *mapped = mmap(r->first, r->bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_FIXED | MAP_POPULATE, file, (off_t)(uintptr_t)r->first);
    return mapped == MAP_FAILED ? fail_call(r->device, "mmap") : LS_OK;
}

ls_status ls_cpu_register(ls_device *base, void *memory, size_t bytes, int *file)
{
    cpu_device *device = (cpu_device *)base;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), into = (uintptr_t)memory % page;
    registration r = {.device = device,
                      .first = (char *)memory - into,
                      .bytes = (into + bytes + page - 1) / page * page};
    if (device->pages_file < 0)
        LS_TRY(open_file(device));
    if (bytes && !ls_pool_is_counted(base->pool)) /* pages that stay untouched */
        LS_TRY(ls_device_call(base, register_pages, &r));
    *file = device->pages_file;
    return LS_OK;
}

void ls_cpu_unregister_all(cpu_device *device)
{
    if (device->pages_file >= 0)
        close(device->pages_file);
}
