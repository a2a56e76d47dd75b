// SPDX-License-Identifier: MIT
// lockstep-simgrid: plays a graph of activities on a network simulated by SimGrid. The engine
// `simgrid` of `lockstep predict` starts it (bench/play/simgrid_engine.c), writes the graph to
// its standard input as text:
//
//     lockstep-simgrid 2
//     a platform, one of:
//         flat LATENCY BANDWIDTH DEVICES
//         two-level LATENCY BANDWIDTH LATENCY BANDWIDTH DEVICES PER_HOST
//         file DEVICES PER_HOST PATH
//
//     turn NS                     for which a thread keeps a core
//
//     nodes COUNT, then a line each, one of:
//         d NS FACTOR CORE        numbers of the factor and the core, from 1; 0: none
//         m FROM TO BYTES ROUNDS
//
//     edges COUNT, then a line each:
//         BEFORE AFTER
//
//     plays COUNT FACTORS, then so many factors for each play
//
// (latencies in ns, bandwidths in bytes a second, 0: not limited) and reads from its standard
// output the time at which each activity ends, in ns, as doubles of this machine, for each play. A
// play is a process of its own, since SimGrid's time cannot begin again. Exit status: 0;
// 3: the input or the platform is wrong; 4: some activities never end; 5: SimGrid or this program
// is wrong. The last line of standard error says what.
//
// SimGrid 3.32 or 4.0. Its settings make a message of B bytes take B / bandwidth; its latency is
// paid behind that by a timer, since SimGrid weighs flows by their latencies. Delays are timers.
// Activities are made when they are ready: SimGrid's own dependencies cost time in the number of
// all that exist. Ports of `flat` carry one flow at a time, first come, first served; others share
// by max-min fairness. Of a file, device i is on host i / PER_HOST; what its hosts are like inside,
// a file does not say: messages there take no time.
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>
#include <simgrid/version.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <signal.h>
#include <stdexcept>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unordered_map>
#include <vector>

#include "bench/play/cores.h"
#include "bench/play/simgrid/simgrid_input.hpp"
#include "bench/play/simgrid/simgrid_names.hpp"

namespace s4u = simgrid::s4u;
using simgrid::kernel::timer::Timer;

namespace
{

// ---- Platform -----------------------------------------------------------------------------------

struct Route {
    double latency_ns;
    std::vector<s4u::Link *> links;
};

class Platform
{
    std::vector<s4u::Host *> devices;
    std::unordered_map<size_t, Route> routes;
    double level_ns[2] = {0, 0}; // latencies of the two levels, which SimGrid is not told
    size_t per_host = 0;
    bool limited = true;
    std::unordered_map<s4u::Link *, double> carried; // bytes

    s4u::LinkInRoute port(s4u::NetZone *zone, const std::string &name, double bytes_per_s,
                          bool in_turns)
    {
        auto *link = zone->ADD(split_duplex_link)(name, bytes_per_s);
        link->set_latency(0);
        if (in_turns) {
            link->get_link_up()->set_concurrency_limit(1);
            link->get_link_down()->set_concurrency_limit(1);
        }
        link->seal();
        return s4u::LinkInRoute(link, s4u::LinkInRoute::Direction::UP);
    }
    void add_devices(s4u::NetZone *zone, size_t count, double bytes_per_s, bool in_turns)
    {
        for (size_t i = 0; i < count; i++) {
            const std::string name = "device" + std::to_string(devices.size());
            auto *host = zone->ADD(host)(name, 1e9);
            connect(zone, host, port(zone, name + ".port", bytes_per_s, in_turns));
            devices.push_back(host);
        }
    }
    void flat(Input &in, const s4u::Engine &engine)
    {
        level_ns[0] = in.number();
        const double bytes_per_s = in.number();
        const size_t count = in.count(1 << 16);
        limited = bytes_per_s > 0;
        auto *zone = add_star(engine, nullptr, "flat");
        add_devices(zone, count, limited ? bytes_per_s : 1, true);
        zone->seal();
        per_host = count;
    }
    void two_level(Input &in, const s4u::Engine &engine)
    {
        const double host_ns = in.number(), host_rate = in.number();
        const double net_ns = in.number(), net_rate = in.number();
        const size_t count = in.count(1 << 16);
        per_host = in.count(1 << 16);
        level_ns[0] = host_ns;
        level_ns[1] = host_ns + net_ns;
        auto *root = add_star(engine, nullptr, "net");
        for (size_t host = 0; devices.size() < count; host++) {
            const std::string name = "host" + std::to_string(host);
            auto *zone = add_star(engine, root, name);
            add_devices(zone, std::min(per_host, count - devices.size()), host_rate, false);
            auto *gateway = zone->ADD(router)(name + ".gateway");
            connect(root, zone, gateway, port(root, name + ".port", net_rate, false));
            zone->seal();
        }
        root->seal();
    }
    void file(Input &in, s4u::Engine &engine)
    {
        const size_t count = in.count(1 << 16), each = in.count(1 << 16);
        const size_t wanted = (count + each - 1) / each;
        engine.load_platform(in.line());
        for (const auto *link : engine.get_all_links())
            if (!(link->get_bandwidth() > 0) || !std::isfinite(link->get_bandwidth()) ||
                !(link->get_latency() >= 0) || !std::isfinite(link->get_latency()))
                fail(BAD_INPUT, std::string("link '") + link->get_cname() +
                                    "' has a bandwidth that is not above 0, or a latency below 0");
        devices = engine.get_all_hosts();
        if (devices.size() < wanted)
            fail(BAD_INPUT, "the platform has " + std::to_string(devices.size()) +
                                " hosts, and there are " + std::to_string(count) + " devices" +
                                (each > 1 ? ", " + std::to_string(each) + " a host" : ""));
        std::sort(devices.begin(), devices.end(), [](s4u::Host *a, s4u::Host *b) {
            return strverscmp(a->get_cname(), b->get_cname()) < 0;
        });
        const auto hosts = devices;
        devices.clear();
        for (size_t i = 0; i < count; i++)
            devices.push_back(hosts[i / each]);
    }

  public:
    void open(Input &in, s4u::Engine &engine)
    {
        const std::string kind = in.word();
        if (kind == "flat")
            flat(in, engine);
        else if (kind == "two-level")
            two_level(in, engine);
        else if (kind == "file")
            file(in, engine);
        else
            fail(BAD_INPUT, "input: '" + kind + "' is no kind of platform");
        engine.seal_platform();
    }
    size_t size() const
    {
        return devices.size();
    }
    bool is_limited() const
    {
        return limited;
    }
    s4u::Host *device(int number) const
    {
        return devices[static_cast<size_t>(number)];
    }
    const Route &route(int from, int to)
    {
        const size_t key = static_cast<size_t>(from) << 32 | static_cast<size_t>(to);
        const auto found = routes.find(key);
        if (found != routes.end())
            return found->second;
        Route route;
        double latency = 0;
        if (device(from) == device(to)) {
            route.latency_ns = 0;
            return routes[key] = route;
        }
        device(from)->route_to(device(to), route.links, &latency);
        if (route.links.empty())
            fail(BAD_INPUT, std::string("the platform has no route from ") +
                                device(from)->get_cname() + " to " + device(to)->get_cname());
        const size_t a = static_cast<size_t>(from), b = static_cast<size_t>(to);
        route.latency_ns = !per_host ? latency * 1e9 : level_ns[a / per_host != b / per_host];
        return routes[key] = route;
    }
    void carry(const Route &route, double bytes)
    {
        for (auto *link : route.links)
            carried[link] += bytes;
    }
    // No link may have carried more than its bandwidth allows.
    void check(double seconds) const
    {
        for (const auto &one : carried)
            if (limited && one.first->get_sharing_policy() != s4u::Link::SharingPolicy::FATPIPE &&
                one.second > one.first->get_bandwidth() * seconds * (1 + 1e-9))
                fail(BROKEN, std::string("link ") + one.first->get_cname() + " carried " +
                                 std::to_string(one.second) + " bytes in " +
                                 std::to_string(seconds) + " s");
    }
};

// ---- Playing ------------------------------------------------------------------------------------

class Player
{
    Platform &platform;
    std::vector<Node> nodes;
    std::vector<size_t> first;
    std::vector<unsigned> next;
    std::deque<unsigned> ready;
    std::unordered_map<const s4u::Activity *, unsigned> flows;
    std::vector<s4u::CommPtr> running; // by node
    std::vector<ls_core> cores;
    std::vector<ls_core_work> works; // by node
    double turn_ns = 0;
    double core_ns = -1;     // the time, while what follows an activity of a core begins
    s4u::CommPtr ended_last; // may only be released behind its callback
    size_t ended = 0;
    bool busy = false;

    static double now_ns()
    {
        return s4u::Engine::get_clock() * 1e9;
    }
    void at(double ns, std::function<void()> what)
    {
        Timer::set(ns * 1e-9, std::move(what));
    }
    void end(unsigned node)
    {
        ends_ns[node] = now_ns();
        ended++;
        for (size_t e = first[node]; e < first[node + 1]; e++)
            if (--nodes[next[e]].waits == 0)
                ready.push_back(next[e]);
    }
    void end_and_go_on(unsigned node)
    {
        end(node);
        go_on();
    }
    void look_later(ls_core &core)
    {
        const double ns = ls_core_next(&core, works.data());
        const auto later = [this, &core, ns, looks = core.looks] {
            core.looks == looks ? look(core, ns) : void();
        };
        if (ns < LS_CORE_NEVER)
            at(ns, later);
    }
    // Activities that follow are ready before the core is given to another thread.
    void look(ls_core &core, double ns)
    {
        const unsigned ended = ls_core_look(&core, works.data(), turn_ns, ns);
        core_ns = ns;
        if (ended != LS_CORE_IDLE)
            end_and_go_on(ended);
        if (ended != LS_CORE_IDLE)
            ls_core_dispatch(&core, works.data(), turn_ns, ns);
        core_ns = -1;
        look_later(core);
    }
    void begin(unsigned node)
    {
        const Node &n = nodes[node];
        if (n.to < 0) {
            if (n.core) {
                ls_core_begin(&cores[n.core - 1], works.data(), node, n.amount, turn_ns,
                              core_ns >= 0 ? core_ns : now_ns());
                look_later(cores[n.core - 1]);
            } else if (n.amount > 0)
                at(now_ns() + n.amount, [this, node] { end_and_go_on(node); });
            else
                end(node);
            return;
        }
        const Route &route = platform.route(n.from, n.to);
        if (!(n.amount > 0) || !platform.is_limited() || route.links.empty()) {
            at(now_ns() + n.rounds * route.latency_ns, [this, node] { end_and_go_on(node); });
            return;
        }
        platform.carry(route, n.amount);
        auto comm = s4u::Comm::sendto_init(platform.device(n.from), platform.device(n.to));
        comm->set_payload_size(static_cast<uint64_t>(std::llround(n.amount)));
        flows[comm.get()] = node;
        running[node] = comm;
#if SIMGRID_VERSION >= 33400
        comm->start();
#else
        comm->vetoable_start();
#endif
    }
    // Begins all that is ready, in the order in which it became so.
    void go_on()
    {
        if (busy)
            return;
        busy = true;
        while (!ready.empty()) {
            const unsigned node = ready.front();
            ready.pop_front();
            begin(node);
        }
        busy = false;
    }
    void flow_ended(const s4u::Activity &activity)
    {
        const auto found = flows.find(&activity);
        if (found == flows.end())
            return;
        const unsigned node = found->second;
        flows.erase(found);
        ended_last = running[node];
        running[node] = nullptr;
        const double latency_ns =
            nodes[node].rounds * platform.route(nodes[node].from, nodes[node].to).latency_ns;
        if (latency_ns > 0)
            at(now_ns() + latency_ns, [this, node] { end_and_go_on(node); });
        else
            end_and_go_on(node);
    }

  public:
    std::vector<double> ends_ns;

    explicit Player(Platform &on) : platform(on)
    {
    }
    void read(Input &in)
    {
        in.expect("turn");
        turn_ns = in.number();
        in.expect("nodes");
        nodes.resize(in.count(1U << 31));
        for (auto &n : nodes) {
            const std::string kind = in.word();
            n = {0, 0, -1, 0, 0, 0, 0};
            if (kind == "m") {
                n.from = static_cast<int>(in.count(platform.size() - 1));
                n.to = static_cast<int>(in.count(platform.size() - 1));
            } else if (kind != "d") {
                fail(BAD_INPUT, "input: '" + kind + "' is no kind of activity");
            }
            n.amount = in.number();
            n.rounds = n.to >= 0 ? in.number() : 0;
            n.factor = n.to >= 0 ? 0 : in.count(SIZE_MAX / 2);
            n.core = n.to >= 0 ? 0 : in.count(1U << 24);
            cores.resize(std::max(cores.size(), n.core), ls_core LS_CORE_FREE);
            if (n.from == n.to)
                fail(BAD_INPUT, "input: a message from a device to itself");
        }
        in.expect("edges");
        std::vector<std::pair<unsigned, unsigned>> edges(in.count(size_t{1} << 33));
        first.assign(nodes.size() + 2, 0);
        for (auto &edge : edges) {
            edge.first = static_cast<unsigned>(in.count(nodes.size() - 1));
            edge.second = static_cast<unsigned>(in.count(nodes.size() - 1));
            first[edge.first + 2]++;
            nodes[edge.second].waits++;
        }
        for (size_t n = 2; n < first.size(); n++)
            first[n] += first[n - 1];
        next.resize(edges.size());
        for (const auto &edge : edges)
            next[first[edge.first + 1]++] = edge.second;
        ends_ns.assign(nodes.size(), 0);
        running.resize(nodes.size());
        works.resize(nodes.size());
    }
    void scale(const std::vector<double> &factors)
    {
        for (auto &n : nodes)
            if (n.factor > factors.size())
                fail(BAD_INPUT, "input: a factor that no play has");
            else if (n.factor)
                n.amount *= factors[n.factor - 1];
    }
    void play(s4u::Engine &engine)
    {
        s4u::Comm::on_completion_cb(
            [this](s4u::Activity const &activity) { flow_ended(activity); });
        for (unsigned n = 0; n < nodes.size(); n++)
            if (!nodes[n].waits)
                ready.push_back(n);
        at(0, [this] { go_on(); });
        engine.run();
        for (size_t n = 0; n < nodes.size() && ended < nodes.size(); n++)
            if (nodes[n].waits || running[n])
                fail(NEVER_ENDS, std::to_string(nodes.size() - ended) +
                                     " activities never end, as number " + std::to_string(n));
        platform.check(s4u::Engine::get_clock());
    }
};

// Plays in a child, which writes the times; a failure of it is this program's.
void play_apart(s4u::Engine &engine, Player &player, const std::vector<double> &factors)
{
    int status = 0;
    const pid_t child = fork();
    if (child < 0)
        fail(BROKEN, "no process for a play");
    if (child > 0) {
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
        if (WIFSIGNALED(status))
            raise(WTERMSIG(status));
        if (WEXITSTATUS(status))
            std::_Exit(WEXITSTATUS(status)); // it has said why
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    player.scale(factors);
    player.play(engine);
    if (std::fwrite(player.ends_ns.data(), sizeof(double), player.ends_ns.size(), stdout) !=
            player.ends_ns.size() ||
        std::fflush(stdout) != 0)
        fail(BROKEN, "the times could not be written");
    std::_Exit(0);
}

void run(Input &in)
{
    // Each key is set here, so that no platform file can set it.
    const char *settings[] = {
        "lockstep-simgrid",
        "--log=root.thres:critical",
        "--cfg=network/model:CM02",
        "--cfg=network/TCP-gamma:0",
        "--cfg=network/crosstraffic:0",
        "--cfg=network/weight-S:0",
        "--cfg=network/bandwidth-factor:1",
        "--cfg=network/latency-factor:0",
        PRECISION "1e-12",
    };
    int argc = static_cast<int>(std::size(settings));
    std::vector<char *> argv;
    for (const char *one : settings)
        argv.push_back(const_cast<char *>(one));
    argv.push_back(nullptr);
    s4u::Engine engine(&argc, argv.data());
    Platform platform;
    in.expect("lockstep-simgrid");
    in.expect("2");
    platform.open(in, engine);
    Player player(platform);
    player.read(in);
    in.expect("plays");
    const size_t plays = in.count(1U << 20);
    std::vector<double> factors(in.count(1U << 30));
    for (size_t i = 0; i < plays; i++) {
        for (auto &factor : factors)
            factor = in.number();
        play_apart(engine, player, factors);
    }
    std::_Exit(0);
}

} // namespace

int main(int argc, char **argv)
{
    if (argc > 1) {
        std::fprintf(stderr,
                     "lockstep-simgrid: %s: takes no arguments; lockstep predict --engine simgrid "
                     "starts it\n",
                     argv[1]);
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL); // in a process group of its own
    Input in;
    in.read();
    try {
        run(in);
    } catch (const std::exception &error) {
        const std::string text = error.what();
        fail(BAD_INPUT, text.substr(0, text.find('\n')));
    }
}
