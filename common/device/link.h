/* SPDX-License-Identifier: MIT */
/*
 * Shaped links: a network between the devices of one machine that has a latency and a bandwidth.
 * Each device has a sending and a receiving port (full duplex, like a host's network card). A
 * transfer starts when it is requested and both its ports are free, occupies them for bytes /
 * bandwidth, and has arrived one latency later. So transfers over different ports overlap,
 * transfers over one port take turns in the order of their requests, and latencies overlap with
 * everything. Ports are booked in the clock's time, not when a thread wakes up: late wake-ups do
 * not accumulate. Between devices of different processes each end books its own port, by its own
 * clock: a transfer departs when its sender is ready and the sending port is free; it is received,
 * for the same duration and one latency later, when its receiver is ready, too, and the receiving
 * port is free. So a sending port does not depend on a late or busy receiver: the network buffers
 * what was sent. Links apply to copies between devices (ls_queue_copy) and messages between ranks
 * (comm.h), but not to copies within a device, copies to or from the host, and agreement (agree,
 * collect). Leaves out packets, switches, loss; a gap before a booked transfer is not used by a
 * later one.
 */
#pragma once

#include "common/base/status.h"
#include "common/device/device.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** All zero: no delay. */
typedef struct ls_link {
    uint64_t latency_ns;
    double bytes_per_s; /**< of each port; 0 if not limited */
} ls_link;

/** "latency=50us,bandwidth=1GB/s", or one of the two; "none" means no link, all zero. LS_CODE_USAGE
 * says what is valid. */
ls_status ls_link_parse(const char *text, ls_link *out);

typedef struct ls_network ls_network;

/** A network with `ports` free ports out and in, numbered from 0; at most 65,536. */
ls_status ls_network_open(const ls_link *link, int ports, ls_network **out);

/** After its devices are closed. Takes NULL. */
void ls_network_close(ls_network *network);

/** Books a transfer that may start at `ready_ns` (ls_clock_ns); returns when it has arrived. Any
 * thread. Does not wait; ls_clock_sleep_until does. */
uint64_t ls_network_reserve(ls_network *network, int from, int to, size_t bytes, uint64_t ready_ns);

/** When the latest booked transfer arrives; 0 if none was booked. Any thread. */
uint64_t ls_network_arrival_ns(ls_network *network);

/** Connects an idle device to a port that only it uses; a NULL network disconnects it. Borrows the
 * network. */
void ls_device_link(ls_device *device, ls_network *network, int port);

/** Whether transfers from one device to the other use a link. */
bool ls_device_linked(const ls_device *from, const ls_device *to);

/** Whether the device is plugged into a network. Either all processes plug in their devices, or
 * none does. */
bool ls_device_plugged(const ls_device *device);

/** Duration of a transfer of a connected device when its ports are free: latency + bytes /
 * bandwidth. */
uint64_t ls_device_transfer_ns(const ls_device *device, size_t bytes);

/** Books a plugged device's own port alone, out or in, for a transfer that starts at `ready_ns` or
 *  when the port is free; returns when it has arrived as far as this end knows. */
uint64_t ls_device_send(const ls_device *from, size_t bytes, uint64_t ready_ns);
uint64_t ls_device_receive(const ls_device *to, size_t bytes, uint64_t ready_ns);

/** Books a transfer, as ls_network_reserve; 0 without a link. */
uint64_t ls_device_transfer(const ls_device *from, const ls_device *to, size_t bytes,
                            uint64_t ready_ns);
