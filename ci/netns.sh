#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Emulates several hosts on one machine: ci/netns.sh [--rate 100mbit] HOSTS COMMAND... Each host is a network, a
# mount and a UTS namespace with a name (node0, node1, ..), an address and its own wire to a switch. COMMAND runs on
# node0; its environment has the names of the hosts (NETNS_HOSTS), what starts a command on one of them instead of ssh
# (NETNS_AGENT), their addresses (NETNS_NETWORK) and the interface (NETNS_WIRE; empty: /sys does not show it), which
# bench/tests/mpirun.sh tells the launcher:
#
#     ci/netns.sh 3 bench/tests/mpirun.sh 3 build/lockstep verify --strategy mirrored
#
# --rate applies to each end of a wire (tc tbf). Needs root; exit status 77, with the reason, without root or if
# namespaces cannot be created. Ends all processes that it started. Leaves out separate file systems, processes and
# cores, which the hosts share.
set -euo pipefail

skip() { echo "skipped: $1"; exit 77; }

# The launcher's agent, instead of ssh: [-x] HOST COMMAND...
if [ "$(basename "$0")" = netns-agent ]; then
    [ "$1" != -x ] || shift
    pid=$(cat "$NETNS_FOLDER/$1")
    shift
    exec nsenter --target "$pid" --net --uts ${NETNS_WIRE:+--mount --root --wd} -- sh -c "$*"
fi

rate=
if [ "${1:-}" = --rate ]; then
    rate=${2:-}
    shift 2
fi
[ $# -ge 2 ] && [[ $1 =~ ^[1-9][0-9]?$ ]] || { echo "ci/netns.sh: the number of hosts, or the command, is missing; use ci/netns.sh 2 COMMAND..." >&2; exit 2; }
hosts=$1
shift
[ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
for tool in ip unshare nsenter; do
    command -v $tool >/dev/null || skip "$tool is not installed (iproute2, util-linux)"
done
unshare --net --uts true 2>/dev/null || skip "namespaces cannot be made here"

folder=$(mktemp -d)
mkdir "$folder/cgroup"
holders=()
end() {
    [ ${#holders[@]} -eq 0 ] || kill -9 "${holders[@]}" 2>/dev/null || true
    rm -rf "$folder"
}
trap end EXIT

# In a mount namespace of its own (not in a chroot), a host's /sys shows its network, where UCX looks for it.
own="--mount --propagation private"
own_sys="mount --rbind /sys/fs/cgroup '$folder/cgroup' && mount -t sysfs sysfs /sys &&
    mount --move '$folder/cgroup' /sys/fs/cgroup &&"
unshare --net $own sh -c "$own_sys true" 2>/dev/null || own=

# hold NAME: starts a process that keeps a host's namespaces; its number goes into the folder.
hold() {
    unshare --net --uts $own sh -c "${own:+$own_sys} hostname $1 && exec sleep infinity" &
    holders+=($!)
    disown $!
    echo $! >"$folder/$1"
    until [ "$(nsenter --target $! --uts hostname 2>/dev/null)" = "$1" ]; do sleep 0.01; done
}
inside() { # inside NAME COMMAND...
    local pid
    pid=$(cat "$folder/$1")
    shift
    nsenter --target "$pid" --net --uts ${own:+--mount --root --wd} -- "$@"
}
shape() { # shape NAME DEVICE
    [ -z "$rate" ] || inside "$1" tc qdisc add dev "$2" root tbf rate "$rate" burst 64kb latency 50ms ||
        skip "tc cannot give a wire a rate here"
}

names=()
hold switch
inside switch ip link add name bridge type bridge 2>/dev/null || skip "a bridge cannot be made here"
inside switch ip link set bridge up
for ((h = 0; h < hosts; h++)); do
    hold node$h
    inside node$h ip link set lo up
    inside node$h ip link add name wire type veth peer name port$h netns "$(cat "$folder/switch")"
    inside node$h ip address add 10.77.0.$((h + 1))/24 dev wire
    inside node$h ip link set wire up
    inside switch ip link set port$h master bridge up
    shape node$h wire
    shape switch port$h
    names+=("node$h")
done

ln -s "$(cd "$(dirname "$0")" && pwd)/netns.sh" "$folder/netns-agent"
export NETNS_FOLDER=$folder NETNS_HOSTS="${names[*]}" NETNS_AGENT=$folder/netns-agent
export NETNS_NETWORK=10.77.0.0/24 NETNS_WIRE=${own:+wire}
inside node0 "$@"
