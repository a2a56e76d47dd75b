/* SPDX-License-Identifier: MIT */
/*
 * A table on host memory whose operations run on another device: what an operation accesses is
 * copied there, the operation runs, and what it writes is copied back. So the tests of the kernel
 * tables, which work on host memory, run on a GPU. It only knows which memory the checks of
 * kernel_check.h declare, and verifies that: the operation itself declares the same; guards around
 * all copies must be intact afterwards; inputs must be unchanged. With `guarded`, on CPU devices,
 * each tensor has its own pages, which are accessible only while an operation that declares them
 * runs, and writable only if that declares so; an undeclared pointer points to inaccessible pages
 * (if the compiler distinguishes pointers from padding).
 */
#pragma once

#include "common/kernel/kernel_check.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { STAGED_GUARD = 64, STAGED_GUARD_BYTE = 0xA5, STAGED_PAGE = 4096, STAGED_NOBODYS = 1 << 28 };

typedef struct staging_kernels {
    ls_kernels base;
    ls_kernel_table table; /* without what the inner one lacks */
    ls_kernels *inner;
    ls_queue *queue; /* of the inner table's device */
    bool guarded;
    char *nobodys; /* if guarded: inaccessible pages */
} staging_kernels;

/* A test's memory, and its copy on the device: a guard, the bytes, aligned as on the host, a
 * guard. */
typedef struct staged_field {
    void *host;
    char *device;
    size_t offset, bytes, whole;
    bool written;
} staged_field;

typedef struct staged_op {
    ls_op op;
    ls_op *inner;
    staging_kernels *kernels;
    int count;
    staged_field *fields;
} staged_op;

static inline staging_kernels *staging_of(ls_kernels *kernels)
{
    return (staging_kernels *)kernels;
}

/* ---- Guarded pages --------------------------------------------------------------------------- */

/* The current operation, and where it accessed undeclared memory; one runs at a time. */
static struct {
    const staged_op *op;
    const char *volatile at;
} staged_guard;

/* Lets the thread go on, so that the test fails with words; elsewhere it is a fault like any. */
static inline void staged_fault(int number, siginfo_t *info, void *context)
{
    const staged_op *s = staged_guard.op;
    const char *at = info->si_addr;
    (void)context;
    for (int i = -1; s && i < s->count; i++) {
        char *begin = i < 0 ? s->kernels->nobodys : s->fields[i].device - STAGED_PAGE;
        const size_t all = i < 0 ? STAGED_NOBODYS : s->fields[i].whole + 2 * STAGED_PAGE;
        if (at < begin || at >= begin + all || mprotect(begin, all, PROT_READ | PROT_WRITE) != 0)
            continue;
        staged_guard.at = at;
        return;
    }
    signal(number, SIG_DFL);
}

static inline void staged_allow(const staged_field *f, int protection)
{
    if (mprotect(f->device, f->whole, protection) != 0)
        abort();
}

/* Pages between inaccessible ones; the bytes end at a page's end, or nearly. */
static inline ls_status guard_field(staged_field *f)
{
    const size_t room = f->bytes + STAGED_GUARD;
    f->whole = (room + STAGED_PAGE - 1) / STAGED_PAGE * STAGED_PAGE;
    f->offset = (f->whole - f->bytes) / STAGED_GUARD * STAGED_GUARD;
    f->offset += (uintptr_t)f->host % STAGED_GUARD;
    if (f->offset + f->bytes > f->whole)
        f->offset -= STAGED_GUARD;
    char *pages =
        mmap(NULL, f->whole + 2 * STAGED_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return ls_fail_memory("staging", f->whole);
    f->device = pages + STAGED_PAGE;
    return LS_OK;
}

static inline ls_status guarded_run(staged_op *s)
{
    for (int i = 0; i < s->count; i++)
        staged_allow(&s->fields[i], PROT_READ | (s->fields[i].written ? PROT_WRITE : 0));
    const struct sigaction caught = {.sa_sigaction = staged_fault, .sa_flags = SA_SIGINFO};
    struct sigaction before; /* cmocka's */
    sigaction(SIGSEGV, &caught, &before);
    staged_guard.op = s;
    staged_guard.at = NULL;
    ls_status status = ls_queue_enqueue(s->kernels->queue, s->inner);
    if (!status)
        status = ls_queue_sync(s->kernels->queue);
    staged_guard.op = NULL;
    sigaction(SIGSEGV, &before, NULL);
    const char *nobodys = s->kernels->nobodys, *at = staged_guard.at;
    if (!status && at >= nobodys && at < nobodys + STAGED_NOBODYS)
        status =
            ls_fail(LS_CODE_CHECK, s->op.name, "guard",
                    "it touched byte %td of an argument of which it says nothing", at - nobodys);
    for (int i = 0; i < s->count; i++) {
        const staged_field *f = &s->fields[i];
        const char *data = f->device + f->offset;
        staged_allow(f, PROT_READ | PROT_WRITE);
        if (!status && at >= f->device - STAGED_PAGE && at < f->device + f->whole + STAGED_PAGE)
            status = ls_fail(LS_CODE_CHECK, s->op.name, "guard",
                             "it touched byte %td of access %d, which says that %zu are %s",
                             at - data, i, f->bytes, f->written ? "written" : "read");
    }
    return status;
}

/* ---- Fields ---------------------------------------------------------------------------------- */

static inline ls_status put_field(const staged_op *s, const staged_field *f)
{
    char *all = malloc(f->whole);
    memset(all, STAGED_GUARD_BYTE, f->whole);
    memcpy(all + f->offset, f->host, f->bytes);
    if (s->kernels->guarded)
        staged_allow(f, PROT_READ | PROT_WRITE);
    ls_status status = ls_queue_write(s->kernels->queue, f->device, all, f->whole);
    free(all);
    return status;
}

static inline ls_status check_field(const staged_field *f, const char *op, const char *all)
{
    for (size_t i = 0; i < f->whole; i++)
        if ((i < f->offset || i >= f->offset + f->bytes) &&
            (unsigned char)all[i] != STAGED_GUARD_BYTE)
            return ls_fail(LS_CODE_CHECK, op, "staging", "it wrote outside its memory");
    if (!f->written && memcmp(all + f->offset, f->host, f->bytes) != 0)
        return ls_fail(LS_CODE_CHECK, op, "staging", "it wrote into an input");
    return LS_OK;
}

static inline ls_status take_field(const staged_op *s, const staged_field *f)
{
    char *all = malloc(f->whole);
    ls_status status = ls_queue_read(s->kernels->queue, all, f->device, f->whole);
    if (!status)
        status = check_field(f, s->op.name, all);
    if (!status && f->written)
        memcpy(f->host, all + f->offset, f->bytes);
    if (s->kernels->guarded)
        staged_allow(f, PROT_NONE);
    free(all);
    return status;
}

static inline ls_status open_field(const staged_op *s, const ls_access *access, staged_field *f)
{
    void *device;
    *f = (staged_field){.host = (void *)(uintptr_t)access->memory,
                        .offset = STAGED_GUARD + (uintptr_t)access->memory % STAGED_GUARD,
                        .bytes = access->bytes,
                        .written = access->writes};
    f->whole = f->offset + f->bytes + STAGED_GUARD;
    if (s->kernels->guarded)
        return guard_field(f);
    LS_TRY(ls_device_allocate(s->kernels->inner->device, LS_MEMORY_WORKSPACE, f->whole, &device));
    f->device = device;
    return LS_OK;
}

static inline void close_field(const staged_op *s, const staged_field *f)
{
    if (!s->kernels->guarded)
        ls_device_release(s->kernels->inner->device, f->device);
    else
        munmap(f->device - STAGED_PAGE, f->whole + 2 * STAGED_PAGE);
}

/* ---- Operations ------------------------------------------------------------------------------ */

static inline ls_status staged_run(ls_op *op, ls_queue *queue)
{
    (void)queue;
    staged_op *s = (staged_op *)op;
    for (int i = 0; i < s->count; i++)
        LS_TRY(put_field(s, &s->fields[i]));
    if (s->kernels->guarded)
        LS_TRY(guarded_run(s));
    else {
        LS_TRY(ls_queue_enqueue(s->kernels->queue, s->inner));
        LS_TRY(ls_queue_sync(s->kernels->queue));
    }
    for (int i = 0; i < s->count; i++)
        LS_TRY(take_field(s, &s->fields[i]));
    return LS_OK;
}

static inline void staged_destroy(ls_op *op)
{
    staged_op *s = (staged_op *)op;
    ls_op_free(s->inner);
    for (int i = 0; i < s->count; i++)
        close_field(s, &s->fields[i]);
    free(s->fields);
    free(s);
}

/* An operation that accesses what `work` declares, and has device memory for that. */
static inline ls_status staged_open(ls_kernels *kernels, const ls_work *work, staged_op **out)
{
    staged_op *s = calloc(1, sizeof *s);
    s->op = (ls_op){.name = "staged", .run = staged_run, .destroy = staged_destroy};
    s->kernels = staging_of(kernels);
    ls_status status = ls_op_touches(&s->op, work->accesses, work->access_count);
    s->fields = calloc(s->op.access_count + 1, sizeof *s->fields);
    for (size_t i = 0; i < s->op.access_count && !status; i++, s->count += !status)
        status = open_field(s, &s->op.accesses[i], &s->fields[i]);
    if (status)
        ls_op_free(&s->op);
    else
        *out = s;
    return status;
}

/* Whether what is not a pointer cannot look like one: clang has no such call in C. */
#if defined(__GNUC__) && !defined(__clang__)
#define CLEARS_PADDING      true
#define CLEAR_PADDING(data) __builtin_clear_padding(data)
#else
#define CLEARS_PADDING false
#define CLEAR_PADDING(data)
#endif

/* Whether that can be an address of something. */
static inline bool is_mapped(uintptr_t at)
{
    return at >= STAGED_PAGE &&
           msync((void *)(at / STAGED_PAGE * STAGED_PAGE), STAGED_PAGE, MS_ASYNC) == 0;
}

/* Whether a word is a pointer to memory of zero bytes that an operation declares. */
static inline bool is_empty(const ls_work *work, uintptr_t word)
{
    bool empty = false;
    for (size_t i = 0; i < work->access_count; i++)
        empty = empty || (uintptr_t)work->accesses[i].memory == word;
    return empty;
}

/* Replaces pointers in `words` by the device's, and undeclared ones by inaccessible ones. */
static inline void move_words(const staged_op *s, const ls_work *work, void *words, size_t bytes)
{
    for (size_t at = 0; at + sizeof(uintptr_t) <= bytes; at += sizeof(uintptr_t)) {
        uintptr_t word;
        int i = 0;
        memcpy(&word, (char *)words + at, sizeof word);
        while (i < s->count && (uintptr_t)s->fields[i].host != word)
            i++;
        if (i < s->count)
            word = (uintptr_t)(s->fields[i].device + s->fields[i].offset);
        else if (s->kernels->guarded && CLEARS_PADDING && !is_empty(work, word) && is_mapped(word))
            word = (uintptr_t)s->kernels->nobodys;
        memcpy((char *)words + at, &word, sizeof word);
    }
}

/* The argument that is an array of the host, which constructors copy; NULL: none. */
static inline void *array_of(const char *entry, void *arguments, size_t *bytes)
{
    ls_optimizer_args *o = arguments;
    ls_weight_decay_args *d = arguments;
    if (strcmp(entry, "optimizer") == 0) {
        *bytes = (size_t)o->range_count * sizeof *o->ranges;
        return &o->ranges;
    }
    ls_square_sums_args *q = arguments;
    if (strcmp(entry, "square_sums") == 0) {
        *bytes = (size_t)q->range_count * sizeof *q->ranges;
        return &q->ranges;
    }
    const bool decays = strcmp(entry, "weight_decay") == 0;
    *bytes = decays ? (size_t)d->range_count * sizeof *d->ranges : 0;
    return decays ? &d->ranges : NULL;
}

/* All arguments; *array becomes a copy of the array, to be freed, which has no pointers. */
static inline void move_arguments(const staged_op *s, const char *entry, const ls_work *work,
                                  void *arguments, size_t bytes, void **array)
{
    size_t array_bytes;
    void *place = array_of(entry, arguments, &array_bytes), *from = NULL;
    if (place)
        memcpy(&from, place, sizeof from);
    if (from) {
        *array = malloc(array_bytes);
        memcpy(*array, from, array_bytes);
        memset(place, 0, sizeof from);
    }
    move_words(s, work, arguments, bytes);
    if (from)
        memcpy(place, array, sizeof *array);
}

/* The operation itself declares the same accesses, of the device's memory. */
static inline ls_status staged_close(staged_op *s, ls_status status, ls_op **out)
{
    const ls_op *op = s->inner;
    for (int i = 0; i < s->count && !status; i++) {
        const staged_field *f = &s->fields[i];
        size_t a = 0;
        while (a < op->access_count && op->accesses[a].memory != f->device + f->offset)
            a++;
        if (a == op->access_count || op->accesses[a].bytes != f->bytes ||
            op->accesses[a].writes != f->written)
            status = ls_fail(LS_CODE_CHECK, op->name, "accesses", "it does not say number %d", i);
    }
    if (status) {
        ls_op_free(&s->op);
        return status;
    }
    s->op.name = s->inner->name;
    s->op.flops = s->inner->flops;
    s->op.bytes = s->inner->bytes;
    *out = &s->op;
    return LS_OK;
}

/* ---- The table ------------------------------------------------------------------------------- */

#define STAGING_ENTRY(entry, args)                                                                 \
    static inline ls_status staged_##entry(ls_kernels *k, const args *arguments, ls_op **out)      \
    {                                                                                              \
        args a = *arguments;                                                                       \
        ls_kernels *inner = staging_of(k)->inner;                                                  \
        staged_op *s = NULL;                                                                       \
        ls_work work = {.op = #entry, .real_bytes = inner->table->real_bytes};                     \
        void *array = NULL;                                                                        \
        ls_status status = ls_check_##entry(&a, &work);                                            \
        if (!status)                                                                               \
            status = staged_open(k, &work, &s);                                                    \
        CLEAR_PADDING(&a);                                                                         \
        if (!status)                                                                               \
            move_arguments(s, #entry, &work, &a, sizeof a, &array);                                \
        if (!status)                                                                               \
            status = inner->table->entry(inner, &a, &s->inner);                                    \
        free(array);                                                                               \
        free(work.accesses);                                                                       \
        return s ? staged_close(s, status, out) : status;                                          \
    }
LS_KERNEL_ENTRIES(STAGING_ENTRY)
#undef STAGING_ENTRY

/* From here on, of tables of CPU devices. */
static inline void staging_guard(ls_kernels *base)
{
    staging_kernels *kernels = staging_of(base);
    kernels->guarded = true;
    kernels->nobodys =
        mmap(NULL, STAGED_NOBODYS, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (kernels->nobodys == MAP_FAILED)
        abort();
}

static inline void staging_close(ls_kernels *base)
{
    staging_kernels *kernels = staging_of(base);
    ls_device *device = kernels->inner->device;
    kernels->inner->table->close(kernels->inner);
    ls_queue_close(kernels->queue);
    ls_device_close(device);
    if (kernels->guarded)
        munmap(kernels->nobodys, STAGED_NOBODYS);
    free(kernels);
}

/* Kernels on host memory whose operations `inner` runs on `queue`; both, and their own device, are
 * closed with it. */
static inline ls_kernels *staging_open(ls_kernels *inner, ls_queue *queue)
{
    staging_kernels *kernels = calloc(1, sizeof *kernels);
    kernels->table = (ls_kernel_table){
        .name = "staging", .real_bytes = inner->table->real_bytes, .close = staging_close};
#define STAGING_ENTRY(entry, args)                                                                 \
    if (inner->table->entry)                                                                       \
        kernels->table.entry = staged_##entry;
    LS_KERNEL_ENTRIES(STAGING_ENTRY)
#undef STAGING_ENTRY
    kernels->base.table = &kernels->table;
    kernels->base.multiplies_bf16 = inner->multiplies_bf16;
    kernels->base.attends_bf16 = inner->attends_bf16;
    kernels->inner = inner;
    kernels->queue = queue;
    return &kernels->base;
}
