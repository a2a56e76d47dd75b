/* SPDX-License-Identifier: MIT */
/*
 * Engines: play a graph of activities on a platform, and tell when each has ended.
 *     ports    here: flat platforms, with the arithmetic of shaped links (common/device/link.h):
 *              a message starts when it is ready and both its ports are free; messages that become
 *              ready earlier go first, then messages with smaller numbers. On a two-level
 *              platform, which only estimates use, each port serves messages in turn, and a message
 *              has come when the last of its ports has served it
 *     simgrid  the program lockstep-simgrid (bench/play/simgrid), which is found in this program's
 *              folder: any platform
 */
#pragma once

#include "bench/play/cores.h"
#include "bench/play/platform.h"
#include "bench/play/play_graph.h"

/** What is played. */
typedef struct ls_play {
    const ls_play_graph *graph; /**< sealed */
    const ls_platform *platform;
    int devices, devices_per_host;
    int cores;      /**< of a host, which its devices share (cores.h); 0 if each lane has its own */
    double turn_ns; /**< for which a thread keeps a core while another one waits */
    const double *factors; /**< [steps, devices] delays of a device in a step are multiplied by it;
                                NULL if all are 1 */
    size_t factor_count;   /**< steps x devices */
} ls_play;

/** Whether an activity is a delay that takes a core: the network's have rounds. */
static inline bool ls_play_computes(const ls_activity_node *node)
{
    return node->to < 0 && !node->rounds && node->amount > 0;
}

/** The duration of a delay with its factor; the amount of a message. */
static inline double ls_play_amount(const ls_play *play, const ls_activity_node *node)
{
    if (!play->factors || node->to >= 0 || node->rounds)
        return node->amount;
    return node->amount *
           play->factors[(size_t)node->step * (size_t)play->devices + (size_t)node->from];
}

typedef enum ls_engine { LS_ENGINE_AUTO, LS_ENGINE_SIMGRID, LS_ENGINE_PORTS } ls_engine;

/** NULL-terminated, in the order of ls_engine. */
extern const char *const ls_engine_words[];

/** Sets *engine, if it is auto: ports for flat platforms, else simgrid. LS_CODE_USAGE where the
 * engine does not play the platform, LS_CODE_MISSING if this build has no engine that does. */
ls_status ls_engine_choose(const ls_platform *platform, ls_engine *engine);

/** Plays with each of `plays` sets of factors, [plays, steps, devices]; one process of simgrid
 * plays them all. end_ns [plays, graph->played] gets the time at which each activity ends, from 0.
 * LS_CODE_CHECK if some never end, LS_CODE_INTERRUPTED after an interrupt. */
ls_status ls_engine_play(ls_engine engine, const ls_play *play, size_t plays, double *end_ns);

/** Whether the platform has so many devices, and routes between neighbours, and from and to the
 * first: LS_CODE_USAGE says what is wrong with it. */
ls_status ls_engine_probe(ls_engine engine, const ls_platform *platform, int devices,
                          int devices_per_host);

/** Sets *out to what all-reduces are chosen by; of a file, by playing messages between hosts at
 * several distances, all hosts at once. The platform has so many devices (ls_engine_probe). */
ls_status ls_engine_wires(ls_engine engine, const ls_platform *platform, int devices,
                          int devices_per_host, ls_wires *out);

/** That a play was interrupted (bench/train/interrupt.h): LS_CODE_INTERRUPTED. */
ls_status ls_engine_interrupted(void);

/** The engine `simgrid` (simgrid_engine.c): as ls_engine_play. */
ls_status ls_simgrid_play(const ls_play *play, size_t plays, double *end_ns);
