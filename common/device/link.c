/* SPDX-License-Identifier: MIT */
/* Shaped links: see link.h. */
#include "common/device/link.h"

#include "common/base/numbers.h"
#include "common/device/backend.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A rank that sleeps until an arrival cannot be woken earlier, so latencies are limited. */
static const uint64_t most_latency_ns = 10000000000u;
static const double least_bytes_per_s = 1e3;

/* Until when a device's port is booked. */
typedef struct booking {
    uint64_t out_ns, in_ns;
} booking;

struct ls_network {
    ls_link link;
    pthread_mutex_t mutex;
    uint64_t arrival_ns; /* of the latest transfer */
    booking ports[];
};

/* ---- The value of --link ------------------------------------------------------------------- */

static ls_status refuse(const char *text, const char *why)
{
    return ls_fail(LS_CODE_USAGE, "link", text,
                   "%s; use --link latency=TIME (up to 10s), bandwidth=RATE (from 1kB/s), or both, "
                   "as in latency=50us,bandwidth=1GB/s; or --link none",
                   why);
}

/* Parses one part, "latency=50us"; `given` has a bit for each part that occurred before. */
static ls_status parse_part(const char *text, const char *part, unsigned *given, ls_link *link)
{
    static const char latency[] = "latency=", bandwidth[] = "bandwidth=";
    unsigned bit;
    bool valid;
    if (strncmp(part, latency, sizeof latency - 1) == 0) {
        bit = 1;
        valid = ls_parse_duration(part + sizeof latency - 1, &link->latency_ns) &&
                link->latency_ns <= most_latency_ns;
    } else if (strncmp(part, bandwidth, sizeof bandwidth - 1) == 0) {
        bit = 2;
        valid = ls_parse_bandwidth(part + sizeof bandwidth - 1, &link->bytes_per_s) &&
                link->bytes_per_s >= least_bytes_per_s;
    } else {
        return refuse(text, "a part is neither latency= nor bandwidth=");
    }
    if (*given & bit)
        return refuse(text, bit == 1 ? "latency= is given twice" : "bandwidth= is given twice");
    *given |= bit;
    if (!valid)
        return refuse(text, bit == 1 ? "the latency is not a valid time"
                                     : "the bandwidth is not a valid rate");
    return LS_OK;
}

ls_status ls_link_parse(const char *text, ls_link *out)
{
    char copy[96];
    unsigned given = 0;
    ls_link link = {0};
    size_t length = strlen(text);
    if (strcmp(text, "none") == 0) {
        *out = link;
        return LS_OK;
    }
    if (length >= sizeof copy)
        return refuse("value", "it is too long");
    memcpy(copy, text, length + 1);
    for (char *part = copy, *next; part; part = next) {
        next = strchr(part, ',');
        if (next)
            *next++ = 0;
        LS_TRY(parse_part(text, part, &given, &link));
    }
    *out = link;
    return LS_OK;
}

/* ---- Ports --------------------------------------------------------------------------------- */

ls_status ls_network_open(const ls_link *link, int ports, ls_network **out)
{
    if (ports < 1 || ports > UINT16_MAX + 1)
        return ls_fail(LS_CODE_USAGE, "network", "ports",
                       "a network cannot have %d ports; use 1 to %d ports", ports, UINT16_MAX + 1);
    size_t bytes = sizeof(ls_network) + (size_t)ports * sizeof(booking);
    ls_network *network;
    LS_TRY(ls_allocate("network", &network, 1, bytes));
    network->link = *link;
    pthread_mutex_init(&network->mutex, NULL);
    *out = network;
    return LS_OK;
}

void ls_network_close(ls_network *network)
{
    if (!network)
        return;
    pthread_mutex_destroy(&network->mutex);
    free(network);
}

/* Rounded up: a transfer never takes less than its formula. */
static uint64_t occupied_ns(const ls_link *link, size_t bytes)
{
    return link->bytes_per_s > 0 ? (uint64_t)ceil((double)bytes * 1e9 / link->bytes_per_s) : 0;
}

/* Books both ports; one port if both are equal, since the other end books its own. */
static uint64_t reserve(ls_network *network, uint64_t *out, uint64_t *in, size_t bytes,
                        uint64_t ready_ns)
{
    pthread_mutex_lock(&network->mutex);
    uint64_t start = *out > *in ? *out : *in;
    start = ready_ns > start ? ready_ns : start;
    *out = *in = start + occupied_ns(&network->link, bytes);
    const uint64_t arrival_ns = *out + network->link.latency_ns;
    if (arrival_ns > network->arrival_ns)
        network->arrival_ns = arrival_ns;
    pthread_mutex_unlock(&network->mutex);
    return arrival_ns;
}

uint64_t ls_network_reserve(ls_network *network, int from, int to, size_t bytes, uint64_t ready_ns)
{
    return reserve(network, &network->ports[from].out_ns, &network->ports[to].in_ns, bytes,
                   ready_ns);
}

uint64_t ls_network_arrival_ns(ls_network *network)
{
    pthread_mutex_lock(&network->mutex);
    const uint64_t arrival_ns = network->arrival_ns;
    pthread_mutex_unlock(&network->mutex);
    return arrival_ns;
}

/* ---- Devices ------------------------------------------------------------------------------- */

void ls_device_link(ls_device *device, ls_network *network, int port)
{
    device->network = network;
    device->port = port;
}

bool ls_device_linked(const ls_device *from, const ls_device *to)
{
    return from->network && from->network == to->network && from->port != to->port;
}

uint64_t ls_device_transfer(const ls_device *from, const ls_device *to, size_t bytes,
                            uint64_t ready_ns)
{
    if (!ls_device_linked(from, to))
        return 0;
    return ls_network_reserve(from->network, from->port, to->port, bytes, ready_ns);
}

bool ls_device_plugged(const ls_device *device)
{
    return device->network != NULL;
}

uint64_t ls_device_transfer_ns(const ls_device *device, size_t bytes)
{
    const ls_link *link = &device->network->link;
    return occupied_ns(link, bytes) + link->latency_ns;
}

uint64_t ls_device_send(const ls_device *from, size_t bytes, uint64_t ready_ns)
{
    uint64_t *port = &from->network->ports[from->port].out_ns;
    return reserve(from->network, port, port, bytes, ready_ns);
}

uint64_t ls_device_receive(const ls_device *to, size_t bytes, uint64_t ready_ns)
{
    uint64_t *port = &to->network->ports[to->port].in_ns;
    return reserve(to->network, port, port, bytes, ready_ns);
}
