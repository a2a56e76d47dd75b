#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Downloads a data set that no package has: datasets/fetch.sh cifar10 The authors' archive is checked against their
# checksum and unpacked next to this script, where `lockstep` finds it when it runs in the parent folder. Does nothing
# if it exists. An interrupted transfer is resumed, in this run or the next.
#   CIFAR10_URL, CIFAR10_MD5    another address of the archive; another archive's checksum
# Exit status: 0 it exists; 2 wrong usage; 3 the download failed, and one line says why.
set -euo pipefail
cd "$(dirname "$0")"

fail() { # STATUS WHERE WHY
  echo "datasets/fetch.sh: $2: $3" >&2
  exit "$1"
}

case "$#:${1:-}" in
1:cifar10) # address and MD5: https://www.cs.toronto.edu/~kriz/cifar.html, "binary version"
  url=${CIFAR10_URL:-https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz}
  md5=${CIFAR10_MD5:-c32a1d4ab5d03f1284b67883e8d87530}
  archive=cifar-10-binary.tar.gz
  folder=cifar-10-batches-bin
  files=(data_batch_{1..5}.bin test_batch.bin)
  ;;
*) fail 2 "${*:-no data set}" "not the name of one data set; valid is cifar10" ;;
esac

# has FOLDER: whether all files are in it; otherwise $lacking is the first missing one.
has() {
  for lacking in "${files[@]}"; do [ -s "$1/$lacking" ] || return 1; done
}

checksum() { md5sum "$1" | cut -d' ' -f1; }

# Each try resumes the last one; a try without progress is the last.
bring() {
  local before after=-1 why part=$archive.part progress=--silent
  command -v curl >/dev/null || fail 3 curl "not installed; apt-get install curl"
  [ ! -s "$part" ] || [ "$(checksum "$part")" != "$md5" ] || return 0 # complete: a server refuses to resume
  [ ! -t 2 ] || progress=--progress-bar
  until why=$(curl --fail --location "$progress" --connect-timeout 20 --speed-limit 1000 --speed-time 30 \
    --continue-at - --output "$part" --write-out '%{http_code} %{errormsg}' "$url"); do
    case $why in 416*) return 0 ;; esac # no more to come, which curl 8 takes as done: the checksum tells
    why=${why#* }
    before=$after
    after=$(stat -c %s "$part" 2>/dev/null || echo 0)
    [ "$after" -gt 0 ] || fail 3 "$url" "$why; CIFAR10_URL=ADDRESS names another place"
    [ "$after" -gt "$before" ] || fail 3 "$url" \
      "$why; $after bytes are in datasets/$part: run this again to go on, remove it to begin anew"
  done
}

if [ -e "$folder" ]; then
  has "$folder" || fail 3 "datasets/$folder" "has no $lacking; remove the folder and run this again"
  echo "datasets/$folder: there already"
  exit 0
fi
work=$(mktemp -d .fetch.XXXXXX)
trap 'rm -rf "$work"' EXIT
if [ ! -e "$archive" ]; then
  bring
  mv "$archive.part" "$archive"
fi
found=$(checksum "$archive")
if [ "$found" != "$md5" ]; then
  mv "$archive" "$archive.bad"
  fail 3 "datasets/$archive" "has MD5 $found, not $md5: kept as $archive.bad; run this again to have another"
fi
tar -xzf "$archive" --no-same-owner -C "$work" 2>"$work/tar" ||
  fail 3 "datasets/$archive" "cannot be unpacked: $(head -n 1 "$work/tar")"
has "$work/$folder" || fail 3 "datasets/$archive" "has no $folder/$lacking"
mv -T "$work/$folder" "$folder"
rm -f "$archive"
echo "datasets/$folder: fetched"
