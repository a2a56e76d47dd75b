#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The Debian package in a root file system with only Debian's base system, of the release that built it: apt installs
# it with its dependencies, the program trains, saves the row and finds it again, and the manual page is shown. Leaves
# out the package's files (test_install.sh), and mpirun and plots, which are recommended packages.
set -euo pipefail
skip() { echo "skipped: $1"; exit 77; }
build=$(dirname "$LOCKSTEP")
! grep -q 'LOCKSTEP_SANITIZE:STRING=.' "$build/CMakeCache.txt" || skip "a package is not built with a sanitizer"
[ "$(id -u)" -eq 0 ] || skip "only root may make a root and enter it"
for tool in debootstrap dpkg-shlibdeps unshare; do
  command -v $tool >/dev/null || skip "$tool is not here; ci/install.sh all brings it"
done
unshare --mount true 2>/dev/null || skip "no mount namespaces here"
# shellcheck source=/dev/null
. /etc/os-release
[ "$ID" = debian ] || skip "the package would be one for $ID"
dir=$(mktemp -d)
trap 'rm -rf --one-file-system "$dir"' EXIT
(cd "$build" && cpack -B "$dir/package") >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)
root=$dir/root
debootstrap --variant=minbase --include=ca-certificates "$VERSION_CODENAME" "$root" "${mirror%/}" >"$dir/log" 2>&1 ||
  skip "debootstrap: $(tail -n 1 "$dir/log")"
for path in apt/sources.list apt/sources.list.d apt/apt.conf.d apt/auth.conf.d apt/keyrings ssl/certs resolv.conf; do
  [ ! -e "/etc/$path" ] || { rm -rf "${root:?}/etc/$path" && cp -aL "/etc/$path" "$root/etc/$path"; }
done
cp -a /usr/share/keyrings/. "$root/usr/share/keyrings"
cp "$dir"/package/lockstep_*.deb "$root/tmp/lockstep.deb"

# The mounts exist in this namespace only, and end with it.
inside() { # inside WHAT COMMANDS: a step that must succeed
  unshare --mount --propagation private env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} bash -ec '
      for fs in proc sys dev; do mount --rbind "/$fs" "$0/$fs"; done
      exec chroot "$0" bash -euo pipefail -c "$1"' "$root" "$2" >"$dir/log" 2>&1 ||
    { echo "$1"; tail -n 40 "$dir/log"; exit 1; }
}
! chroot "$root" sh -c 'command -v lockstep' || { echo "the root is not bare"; exit 1; }
inside "apt does not install the package" 'apt-get update -qq
  apt-get install -y -qq --no-install-recommends /tmp/lockstep.deb
  [ "$(dpkg-query -W -f "\${db:Status-Status}" lockstep)" = installed ]'
inside "the program does not train" 'cd /tmp && lockstep --version
  lockstep run --model mlp:784-32-10 --data synthetic:640 --steps 5 --strategy mirrored --devices 2 --format jsonl
  [ -s results/lockstep.db ] && [ "$(lockstep results list --where status=ok --format jsonl | wc -l)" -eq 1 ]'
grep -q '"status":"ok"' "$dir/log" || { echo "no ok row"; cat "$dir/log"; exit 1; }
inside "the manual page is not shown" 'apt-get install -y -qq --no-install-recommends man-db
  MANWIDTH=80 man --warnings -P cat lockstep >/tmp/page 2>/tmp/warnings || { cat /tmp/warnings; exit 1; }
  [ ! -s /tmp/warnings ] || { cat /tmp/warnings; exit 1; }
  grep -q "^ *--strategy NAME|all" /tmp/page || { head -n 40 /tmp/page; exit 1; }'
