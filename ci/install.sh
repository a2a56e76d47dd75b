#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs missing packages of Debian 12 and 13: ci/install.sh build | test | all
#   build    for building and running: MPI, gnuplot for plots, curl for datasets/fetch.sh, SimGrid for predict
#   test     also for the tests (clang, sanitizers, clang-format, cmocka, tools)
#   all      also for the slow tests (debootstrap; chromium; Slurm, whose daemons stay idle; zsh and lintian, which
#            test_install uses if installed; arm64's compiler and emulator)
# As root, or with sudo. Does nothing if all of them are installed. Where a release has renamed a package, the new one
# provides the old name: libpmix2t64 of Debian 13 and Ubuntu 24.04 provides libpmix2; chromium-browser of Ubuntu, a
# snap, provides chromium. Ubuntu 24.04 has the other names, too, by Ubuntu's lists of packages; this was not run there.
set -euo pipefail
packages=(gcc libc6-dev cmake ninja-build git ca-certificates libdnnl-dev libhwloc-dev
  libxxhash-dev libjansson-dev libsqlite3-dev libfyaml-dev zlib1g-dev libgomp1
  libopenmpi-dev openmpi-bin gnuplot-nox curl dataset-fashion-mnist g++ libsimgrid-dev)
test_packages=(libcmocka-dev pkgconf clang clang-format libclang-rt-dev python3 python3-jsonschema strace sqlite3
  ccache doxygen dpkg-dev file python3-yaml)
case "${1:-build}" in
build) ;;
test) packages+=("${test_packages[@]}") ;;
all) packages+=("${test_packages[@]}" chromium munge slurmctld slurmd slurm-client libpmix2 debootstrap
  zsh lintian gcc-aarch64-linux-gnu qemu-user-static) ;;
*) echo "usage: ci/install.sh build|test|all" >&2; exit 2 ;;
esac
declare -A installed
while read -r name _; do installed[$name]=1; done < <( # "NAME" or "NAME (= VERSION)", one a line
  dpkg-query -W -f '${db:Status-Status}, ${Package}, ${Provides}\n' | sed -n 's/^installed, //p' | tr ',' '\n' |
    grep '[a-z]')
missing=()
for package in "${packages[@]}"; do [ -n "${installed[$package]:-}" ] || missing+=("$package"); done
[ ${#missing[@]} -gt 0 ] || exit 0
run=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "ci/install.sh: packages: ${missing[*]}: these packages are missing, and without root or sudo they cannot be installed; ask an administrator to install them" >&2
    exit 3
  }
  run=(sudo)
fi
echo "installing: ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
if ! { "${run[@]}" apt-get update -qq && "${run[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "ci/install.sh: apt-get: apt-get could not install ${missing[*]}; the lines above say why" >&2
  exit 3
fi
rm -f "$log"
