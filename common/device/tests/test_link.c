/* SPDX-License-Identifier: MIT */
/*
 * Shaped links: the value of --link, bookings of ports, and copies that take their time. No
 * tolerance: bookings are exact in the clock's time; real sleeps are only checked not to be shorter
 * than the formula.
 */
#include "common/base/clock.h"
#include "common/device/tests/device_fixture.h"

#include <stdlib.h>
#include <string.h>

enum { DEVICES = 3, REPLAYS = 5, COPY_BYTES = 50000 };

/* 100 ns of latency; one byte per nanosecond. */
static const ls_link quick = {.latency_ns = 100, .bytes_per_s = 1e9};
/* A link with real waits: a copy of COPY_BYTES takes 2.5 ms. */
static const ls_link slow = {.latency_ns = 2000000, .bytes_per_s = 1e8};
static const uint64_t slow_occupied_ns = COPY_BYTES * 10;

static void *memory[DEVICES]; /* [COPY_BYTES] */

static int setup(void **state)
{
    open_cpus(state, DEVICES);
    for (int i = 0; i < DEVICES; i++)
        must(ls_device_allocate(((fixture *)*state)->device[i], LS_MEMORY_WORKSPACE, COPY_BYTES,
                                &memory[i]));
    return 0;
}

/* ---- The value ----------------------------------------------------------------------------- */

static void values_are_read(void **state)
{
    ls_link link;
    must(ls_link_parse("latency=50us,bandwidth=1GB/s", &link));
    assert_true(link.latency_ns == 50000 && link.bytes_per_s == 1e9);
    must(ls_link_parse("bandwidth=2MiB/s,latency=1ms", &link));
    assert_true(link.latency_ns == 1000000 && link.bytes_per_s == 2097152);
    must(ls_link_parse("latency=10s", &link));
    assert_true(link.latency_ns == 10000000000u && link.bytes_per_s == 0);
    must(ls_link_parse("bandwidth=1kB/s", &link));
    assert_true(link.latency_ns == 0 && link.bytes_per_s == 1000);
    must(ls_link_parse("none", &link));
    assert_true(link.latency_ns == 0 && link.bytes_per_s == 0);
}

static void wrong_values_are_refused(void **state)
{
    static const char *const wrong[][2] = {
        {"latency=", "latency is not a valid time"},
        {"latency=-1us", "latency is not a valid time"},
        {"latency=5 light-years", "latency is not a valid time"},
        {"latency=10001ms", "latency is not a valid time"},
        {"bandwidth=1GB", "bandwidth is not a valid rate"},
        {"bandwidth=1", "bandwidth is not a valid rate"},
        {"bandwidth=0GB/s", "bandwidth is not a valid rate"},
        {"bandwidth=-1GB/s", "bandwidth is not a valid rate"},
        {"bandwidth=nanGB/s", "bandwidth is not a valid rate"},
        {"bandwidth=999B/s", "bandwidth is not a valid rate"},
        {"latency=1us,latency=1us", "latency= is given twice"},
        {"bandwidth=1GB/s,latency=1us,bandwidth=1GB/s", "bandwidth= is given twice"},
        {"loss=1", "neither latency= nor bandwidth="},
        {"latency=1us,", "neither latency= nor bandwidth="},
        {"", "neither latency= nor bandwidth="},
        {"none,latency=1us", "neither latency= nor bandwidth="},
    };
    ls_link link = {.latency_ns = 7};
    char long_text[200];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        must_refuse(ls_link_parse(wrong[i][0], &link), LS_CODE_USAGE, wrong[i][1]);
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    must_refuse(ls_link_parse(long_text, &link), LS_CODE_USAGE, "too long");
    assert_true(link.latency_ns == 7); /* set only on success */
    ls_network *network;
    must_refuse(ls_network_open(&quick, 0, &network), LS_CODE_USAGE, "1 to 65536");
    must_refuse(ls_network_open(&quick, 65537, &network), LS_CODE_USAGE, "65537");
}

/* ---- Bookings ------------------------------------------------------------------------------ */

static void ports_take_turns(void **state)
{
    ls_network *n;
    must(ls_network_open(&quick, 4, &n));
    assert_true(ls_network_reserve(n, 0, 1, 1000, 5000) == 6100); /* both ports until 6000 */
    assert_true(ls_network_reserve(n, 0, 2, 1000, 5000) == 7100); /* sending port of 0 was busy */
    assert_true(ls_network_reserve(n, 3, 1, 1000, 5500) == 7100); /* receiving port of 1 was busy */
    assert_true(ls_network_reserve(n, 3, 2, 10, 0) == 7110);      /* both were busy, until 7000 */
    assert_true(ls_network_reserve(n, 3, 2, 10, 9000) == 9110);   /* free for long */
    assert_true(ls_network_reserve(n, 3, 2, 0, 9000) == 9110);    /* no byte: latency only */
    ls_network_close(n);
    ls_network_close(NULL);
}

/* Two transfers of 1000 ns without a common port overlap. */
static void other_ports_overlap(void **state)
{
    ls_network *n;
    must(ls_network_open(&quick, 4, &n));
    assert_true(ls_network_reserve(n, 0, 1, 1000, 0) == 1100);
    assert_true(ls_network_reserve(n, 1, 0, 1000, 0) == 1100); /* full duplex */
    assert_true(ls_network_reserve(n, 2, 3, 1000, 0) == 1100);
    assert_true(ls_network_reserve(n, 3, 2, 1000, 0) == 1100);
    ls_network_close(n);
}

static void either_part_may_be_left_out(void **state)
{
    const ls_link late = {.latency_ns = 100}, thin = {.bytes_per_s = 3e9};
    ls_network *n;
    must(ls_network_open(&late, 2, &n));
    for (int i = 0; i < 3; i++) /* occupies no port */
        assert_true(ls_network_reserve(n, 0, 1, (size_t)1 << 40, 50) == 150);
    ls_network_close(n);
    must(ls_network_open(&thin, 2, &n));
    assert_true(ls_network_reserve(n, 0, 1, 3000, 50) == 1050);
    assert_true(ls_network_reserve(n, 0, 1, 1, 50) == 1051); /* rounds up a third of a ns */
    ls_network_close(n);
}

/* Variables of b bytes from one device to n - 1 others, and their gradients back. */
static void a_star_is_bound_by_its_middle(void **state)
{
    static const int counts[] = {2, 3, 4, 8};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        ls_network *network;
        const uint64_t b = 4096, others = (uint64_t)counts[k] - 1;
        uint64_t arrival[8] = {0}, last = 0;
        must(ls_network_open(&quick, counts[k], &network));
        for (int i = 1; i < counts[k]; i++)
            arrival[i] = ls_network_reserve(network, 0, i, b, 0);
        assert_true(arrival[counts[k] - 1] == others * b + 100);
        for (int i = 1; i < counts[k]; i++) /* back at once: each when it has all */
            last = ls_network_reserve(network, i, 0, b, arrival[i]);
        assert_true(last == others * b + 100 + b + 100); /* all but one out and in overlap */
        for (int i = 1; i < counts[k]; i++)              /* all back at the same time */
            last = ls_network_reserve(network, i, 0, b, 1000000);
        assert_true(last == 1000000 + others * b + 100);
        ls_network_close(network);
    }
}

/* ---- Copies -------------------------------------------------------------------------------- */

/* When an empty message at time 0 would have its ports: 0 unless something was booked. */
static uint64_t booked(ls_network *network, int from, int to, const ls_link *link)
{
    return ls_network_reserve(network, from, to, 0, 0) - link->latency_ns;
}

static ls_status put_copy(fixture *f, int queue, int to, int from)
{
    return ls_queue_copy(f->queue[queue], memory[to], f->device[to], memory[from], f->device[from],
                         COPY_BYTES);
}

/* The second copy starts when the first has arrived, since it follows it on the queue. */
static void copies_take_the_links_time(void **state)
{
    fixture *f = *state;
    ls_network *network = plug_all(f, &slow);
    ls_program *program;
    char *bytes = malloc(COPY_BYTES), *back = malloc(COPY_BYTES);
    for (int i = 0; i < COPY_BYTES; i++)
        bytes[i] = (char)(i * 7);
    must(ls_queue_write(f->queue[0], memory[0], bytes, COPY_BYTES));
    must(ls_program_begin(f->queue[1]));
    must(put_copy(f, 1, 1, 0));
    must(put_copy(f, 1, 2, 1));
    must(ls_program_end(f->queue[1], &program));
    uint64_t begin_ns = ls_clock_ns();
    must(ls_program_launch(program, REPLAYS));
    must(ls_queue_sync(f->queue[1]));
    uint64_t took_ns = ls_clock_ns() - begin_ns;
    assert_true(took_ns >= REPLAYS * 2 * (slow.latency_ns + slow_occupied_ns));
    must(ls_queue_read(f->queue[2], back, memory[2], COPY_BYTES));
    assert_memory_equal(back, bytes, COPY_BYTES);
    /* The last booking of device 2's port in ends a latency before the copy did. */
    uint64_t end_ns = booked(network, 0, 2, &slow);
    assert_true(end_ns > begin_ns && end_ns + slow.latency_ns <= begin_ns + took_ns);
    ls_program_close(program);
    unplug_all(f);
    free(bytes);
    free(back);
}

/* Concurrent copies of two queues take turns at device 0's sending port. */
static void queues_share_a_port(void **state)
{
    fixture *f = *state;
    ls_network *network = plug_all(f, &slow);
    uint64_t begin_ns = ls_clock_ns();
    for (int i = 0; i < REPLAYS; i++) {
        must(put_copy(f, 1, 1, 0));
        must(put_copy(f, 2, 2, 0));
    }
    must(ls_queue_sync(f->queue[1]));
    must(ls_queue_sync(f->queue[2]));
    assert_true(booked(network, 0, 1, &slow) >= begin_ns + 2 * REPLAYS * slow_occupied_ns);
    unplug_all(f);
}

static ls_status run_failing(ls_op *op, ls_queue *queue)
{
    return ls_fail(LS_CODE_USAGE, "test", "failing", "planted; none");
}

static void what_crosses_no_border_is_not_delayed(void **state)
{
    fixture *f = *state;
    ls_network *network = plug_all(f, &slow);
    ls_op failing = {.name = "failing", .run = run_failing, .destroy = keep};
    char *host = calloc(1, COPY_BYTES);
    must(put_copy(f, 0, 0, 0));
    must(ls_queue_write(f->queue[0], memory[0], host, COPY_BYTES));
    must(ls_queue_read(f->queue[0], host, memory[0], COPY_BYTES));
    must(ls_queue_copy(f->queue[1], memory[1], f->device[1], memory[0], f->device[0], 0));
    must(ls_queue_enqueue(f->queue[1], &failing)); /* a failed queue skips its copies */
    must(put_copy(f, 1, 1, 0));
    must_refuse(ls_queue_sync(f->queue[1]), LS_CODE_USAGE, "planted");
    assert_true(ls_device_transfer(f->device[0], f->device[0], COPY_BYTES, 1) == 0);
    assert_true(booked(network, 0, 1, &slow) == 0 && booked(network, 1, 0, &slow) == 0);
    ls_device_link(f->device[2], NULL, 0);
    must(put_copy(f, 2, 2, 0)); /* to a device that is not in the network */
    must(ls_queue_sync(f->queue[2]));
    assert_true(booked(network, 0, 2, &slow) == 0);
    must_refuse(put_copy(f, 2, 1, 0), LS_CODE_USAGE, "is not in that network");
    unplug_all(f);
    free(host);
}

static void sleeping_ends_in_time(void **state)
{
    uint64_t until = ls_clock_ns() + 3000000;
    ls_clock_sleep_until(until);
    assert_true(ls_clock_ns() >= until);
    ls_clock_sleep_until(until);
    ls_clock_sleep_until(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read),
        cmocka_unit_test(wrong_values_are_refused),
        cmocka_unit_test(ports_take_turns),
        cmocka_unit_test(other_ports_overlap),
        cmocka_unit_test(either_part_may_be_left_out),
        cmocka_unit_test(a_star_is_bound_by_its_middle),
        cmocka_unit_test(copies_take_the_links_time),
        cmocka_unit_test(queues_share_a_port),
        cmocka_unit_test(what_crosses_no_border_is_not_delayed),
        cmocka_unit_test(sleeping_ends_in_time),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
