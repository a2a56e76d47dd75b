/* SPDX-License-Identifier: MIT */
/*
 * Platform: the network between virtual devices.
 *     flat       every device has a port out and a port in, of one bandwidth; a message takes one
 *                latency. Transfers of a port take turns (common/device/link.h)
 *     two-level  device i is on host floor(i / K); a message within a host takes the host's latency
 *                and the ports of both devices; one between hosts takes the latencies of host and
 *                network once each, and the ports of both devices and both hosts. Ports share
 *                fairly
 *     file       a SimGrid platform file; its hosts in the order of their names
 */
#pragma once

#include "common/comm/comm_network.h"

#include <stdbool.h>
#include <stdio.h>

typedef enum ls_platform_kind {
    LS_PLATFORM_NONE, /**< one device */
    LS_PLATFORM_FLAT,
    LS_PLATFORM_TWO_LEVEL,
    LS_PLATFORM_FILE
} ls_platform_kind;

/** One level of a network. */
typedef ls_wire ls_platform_level;

typedef struct ls_platform {
    ls_platform_kind kind;
    ls_platform_level device; /**< flat: the network; two-level: within a host */
    ls_platform_level net;    /**< two-level: between hosts */
    const char *text;         /**< as given; borrowed */
    const char *link;         /**< flat: as --link has it */
} ls_platform;

/** "flat:latency=10us,bandwidth=1GB/s", "two-level:host=1us@10GB/s,net=10us@25Gbps", the name of a
 * shipped one, or "FILE.xml". LS_CODE_USAGE says what is valid. */
ls_status ls_platform_parse(const char *text, ls_platform *out);

/** What a message between two devices takes, alone: latency, and bytes a second (0 if not limited).
 * Not of a file. */
ls_platform_level ls_platform_path(const ls_platform *platform, int devices_per_host, int from,
                                   int to);

/** How long such a message of so many bytes takes; of a file, whose network is not known, the least
 * that is worth a sleep. */
double ls_platform_message_ns(const ls_platform *platform, int devices_per_host, int from, int to,
                              double bytes);

/** The platform as all-reduces are chosen for it. Not of a file: ls_engine_wires. */
ls_wires ls_platform_wires(const ls_platform *platform);

/** For "list", the text of --platform, prints the shipped platforms with their sources. Returns
 * whether it did; `text` may be NULL. */
bool ls_platform_list(const char *text, FILE *stream);
