// SPDX-License-Identifier: MIT
// What SimGrid 3.32 and 4.0 name differently: parts of a platform, and a setting.
#pragma once

#include <simgrid/s4u.hpp>
#include <simgrid/version.h>

#include <string>

#if SIMGRID_VERSION >= 33400
#define PRECISION "--cfg=precision/timing:"
#else
#define PRECISION "--cfg=surf/precision:"
#endif

// `outer` is null for the whole platform.
#if SIMGRID_VERSION >= 40000
#define ADD(part) add_##part
inline simgrid::s4u::NetZone *add_star(const simgrid::s4u::Engine &engine,
                                       simgrid::s4u::NetZone *outer, const std::string &name)
{
    return (outer ? outer : engine.get_netzone_root())->add_netzone_star(name);
}
inline void connect(simgrid::s4u::NetZone *zone, const simgrid::s4u::Host *host,
                    const simgrid::s4u::LinkInRoute &link)
{
    zone->add_route(host, nullptr, {link}, true);
}
inline void connect(simgrid::s4u::NetZone *outer, simgrid::s4u::NetZone *zone,
                    simgrid::kernel::routing::NetPoint *gateway,
                    const simgrid::s4u::LinkInRoute &link)
{
    zone->set_gateway(gateway);
    outer->add_route(zone, nullptr, {link}, true);
}
#else
#define ADD(part) create_##part
inline simgrid::s4u::NetZone *add_star(const simgrid::s4u::Engine &, simgrid::s4u::NetZone *outer,
                                       const std::string &name)
{
    auto *zone = simgrid::s4u::create_star_zone(name);
    if (outer)
        zone->set_parent(outer);
    return zone;
}
inline void connect(simgrid::s4u::NetZone *zone, const simgrid::s4u::Host *host,
                    const simgrid::s4u::LinkInRoute &link)
{
    zone->add_route(host->get_netpoint(), nullptr, nullptr, nullptr, {link}, true);
}
inline void connect(simgrid::s4u::NetZone *outer, simgrid::s4u::NetZone *zone,
                    simgrid::kernel::routing::NetPoint *gateway,
                    const simgrid::s4u::LinkInRoute &link)
{
    outer->add_route(zone->get_netpoint(), nullptr, gateway, nullptr, {link}, true);
}
#endif
