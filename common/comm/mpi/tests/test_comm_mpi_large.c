/* SPDX-License-Identifier: MIT */
/*
 * Counts beyond 2^31 between two processes: an exchange of 2^31 + 1000 elements and a host message
 * of 2^31 + 1000 bytes. The 8 GiB are address space: a few pages of a file in memory, mapped again
 * and again, except the beginning and the end, which have their own. No tolerance. Needs 5 GB for
 * the message. Leaves out additions, which use the same pieces, and the library's all-reduce, in
 * parts of 2^30 elements.
 */
#include "common/comm/mpi/tests/mpi_fixture.h"

#include <sys/mman.h>

static const size_t unit_bytes = (size_t)64 << 20, past = ((size_t)1 << 31) + 1000;

static void *map_unit(void *at, int file, size_t unit)
{
    void *memory = mmap(at, unit_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                        (off_t)(unit * unit_bytes));
    assert_true(memory == at);
    return memory;
}

/* Maps bytes in whole units: the first is unit 0 of a file, the last unit 2, all others unit 1. */
static char *map_large(size_t bytes, size_t *mapped)
{
    const int file = memfd_create("large", MFD_CLOEXEC);
    const size_t units = (bytes + unit_bytes - 1) / unit_bytes;
    assert_int_equal(ftruncate(file, (off_t)(3 * unit_bytes)), 0);
    *mapped = units * unit_bytes;
    char *memory =
        mmap(NULL, *mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(memory != MAP_FAILED);
    for (size_t u = 0; u < units; u++)
        map_unit(memory + u * unit_bytes, file, u == 0 ? 0 : u + 1 == units ? 2 : 1);
    close(file);
    return memory;
}

/* The value of element `i`, different at both ends. */
static float value_of(size_t i, size_t count)
{
    return (float)(i % 8191) + (count - i <= 1000 ? 0.5f : 0.0f);
}

static void check_end(const float *data, size_t first, size_t count, size_t total)
{
    for (size_t i = first; i < first + count; i++)
        assert_true(data[i] == value_of(i, total));
}

static void an_exchange_is_as_large_as_memory(void **state)
{
    const mpi_fixture *f = *state;
    const bool sends = f->processes.rank == 0;
    size_t mapped;
    float *data = (float *)map_large(past * sizeof(float), &mapped);
    ls_comm *comm;
    ls_op *op;
    for (size_t i = 0; sends && i < 1000; i++) {
        data[i] = value_of(i, past);
        data[past - 1 - i] = value_of(past - 1 - i, past);
    }
    must(ls_comm_open(NULL, f->processes.comm, f->devices->device, 1, &comm));
    const ls_exchange out = {.to = 1, .send = data, .send_count = past, .from = -1};
    const ls_exchange in = {.to = -1, .from = 0, .receive = data, .receive_count = past};
    if (f->processes.rank < 2) {
        must(ls_comm_exchange(comm, sends ? &out : &in, &op));
        must(ls_queue_enqueue(f->devices->queue[0], op));
        must(ls_queue_sync(f->devices->queue[0]));
        ls_op_free(op);
    }
    if (f->processes.rank == 1) {
        check_end(data, 0, 1000, past);
        check_end(data, past - 1000, 1000, past);
    }
    if (sends)
        assert_true(ls_comm_traffic(comm).bytes_sent == past * sizeof(float));
    ls_comm_close(comm);
    munmap(data, mapped);
}

static void a_message_is_as_large_as_memory(void **state)
{
    const mpi_fixture *f = *state;
    const ls_comm_backend *b = f->processes.comm->backend;
    size_t mapped;
    char *data = map_large(past, &mapped);
    if (f->processes.rank == 0) {
        memcpy(data, "begin", 6);
        memcpy(data + past - 4, "end", 4);
        must(b->send(f->processes.comm, 1, 1, data, past));
    }
    if (f->processes.rank == 1) {
        must(b->receive(f->processes.comm, 0, 1, data, past));
        assert_string_equal(data, "begin");
        assert_string_equal(data + past - 4, "end");
    }
    munmap(data, mapped);
}

/* Available megabytes; 0: unknown. */
static long available_mb(void)
{
    char line[128];
    long kilobytes = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file) &&
           sscanf(line, "MemAvailable: %ld", &kilobytes) != 1)
        ;
    if (file)
        fclose(file);
    return kilobytes / 1024;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exchange_is_as_large_as_memory),
        cmocka_unit_test(a_message_is_as_large_as_memory),
    };
    if (available_mb() < 5000) {
        printf("skipped: %ld MB of memory are free, and it takes 5000\n", available_mb());
        return 77;
    }
    return run_group(tests, sizeof tests / sizeof *tests);
}
