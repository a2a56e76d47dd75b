#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs a Slurm of one node on this machine: ci/slurm/one-node.sh [--gpus N] COMMAND... COMMAND can use srun, sbatch
# and the others, from Debian's packages; there is no default MPI, as in a plain Slurm:
#
#     ci/slurm/one-node.sh srun -n 2 --mpi=pmix build/lockstep verify --strategy mirrored
#
# munged, slurmctld and slurmd listen on 127.0.0.1 and in their own folder, and are ended with COMMAND, by process
# number. --gpus: GPUs that Slurm counts, although the node has none. As root or not. Exit status 77, with the reason,
# if packages are missing. Leaves out several nodes, accounting, cgroups.
set -euo pipefail
export PATH=$PATH:/usr/sbin

skip() { echo "skipped: $1"; exit 77; }

gpus=0
if [ "${1:-}" = --gpus ]; then
    gpus=${2:-}
    shift 2
fi
[ $# -ge 1 ] && [[ $gpus =~ ^[0-9]+$ ]] ||
    { echo "ci/slurm/one-node.sh: the command is missing, or N is not a whole number; use ci/slurm/one-node.sh [--gpus N] COMMAND..." >&2; exit 2; }
for package in munge:munged slurmctld:slurmctld slurmd:slurmd slurm-client:srun; do
    command -v "${package#*:}" >/dev/null || skip "${package#*:} is not installed (${package%:*})"
done

host=$(hostname)
host=${host%%.*}
folder=$(mktemp -d)
daemons=()
end() {
    local i
    for ((i = ${#daemons[@]} - 1; i >= 0; i--)); do
        kill "${daemons[i]}" 2>/dev/null || continue
        timeout 10 tail --pid="${daemons[i]}" -f /dev/null || kill -9 "${daemons[i]}" 2>/dev/null || true
    done
    rm -rf "$folder"
}
trap end EXIT
failed() { # failed DAEMON
    echo "ci/slurm/one-node.sh: $1 does not answer; the log of $1 says why:" >&2
    tail -n 5 "$folder/$1.log" >&2
    exit 3
}
# await DAEMON COMMAND...: waits until the command succeeds, for at most half a minute.
await() {
    local daemon=$1 tries=0
    shift
    until "$@" >/dev/null 2>&1; do
        [ $((tries += 1)) -le 300 ] && kill -0 "${daemons[-1]}" 2>/dev/null || failed "$daemon"
        sleep 0.1
    done
}
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

umask 077
mkdir "$folder/state" "$folder/spool"
head -c 128 /dev/urandom >"$folder/key"
cat >"$folder/slurm.conf" <<C
ClusterName=one-node
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
AuthInfo=socket=$folder/munge
CredType=cred/munge
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
MpiDefault=none
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,bf_interval=1
ReturnToService=2
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) Gres=gpu:$gpus
PartitionName=all Nodes=ALL Default=YES
C
for ((g = 0; g < gpus; g++)); do
    : >"$folder/gpu$g"
    echo "Name=gpu File=$folder/gpu$g" >>"$folder/gres.conf"
done
export SLURM_CONF=$folder/slurm.conf
munged --foreground --force --socket="$folder/munge" --key-file="$folder/key" --log-file="$folder/munged.log" \
    --pid-file="$folder/munged.pid" --seed-file="$folder/seed" 2>"$folder/munged.err" &
daemons+=($!)
await munged munge --socket="$folder/munge" --no-input
slurmctld -D 2>/dev/null &
daemons+=($!)
await slurmctld scontrol ping
slurmd -D -N "$host" 2>/dev/null &
daemons+=($!)
await slurmd sh -c "sinfo -h -o %t | grep -qx idle"
umask 022
code=0
"$@" || code=$?
exit $code
