#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# bench/tests/mpirun.sh N COMMAND...: runs the command on N ranks of this machine, whatever its number of cores, as
# root or not. Exit status 77, with the reason, if there is no mpirun. A run that hangs is killed.
set -euo pipefail
command -v mpirun >/dev/null || { echo "skipped: mpirun is not installed (openmpi-bin)"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_base_warn_component_unused=0
ranks=$1
shift
exec timeout --kill-after=10 "${MPIRUN_SECONDS:-600}" mpirun --oversubscribe -n "$ranks" ${MPIRUN_FLAGS:-} "$@"
