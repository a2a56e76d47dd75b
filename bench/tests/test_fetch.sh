#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# datasets/fetch.sh downloads CIFAR-10 to where the program looks for it, here a made-up archive from a local server.
# Cases: correct, already there, truncated, truncated twice, wrong checksum, a different archive, no such address.
# Leaves out the authors' server.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
command -v curl >/dev/null || { echo "skipped: curl is not installed"; exit 77; }
server=
cleanup_more() { [ -z "$server" ] || kill "$server" 2>/dev/null || true; }

# The archive has 40 records per file. The server: /whole sends it, /cut at most 400,000 bytes of the requested range,
# /once the same a single time, then 503; requests.log lists each request's path and range.
python3 - <<'P'
import random, tarfile
random.seed(1)
with tarfile.open("cifar.tar.gz", "w:gz") as archive:
    import io
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        data = b"".join(bytes([i % 10]) + random.randbytes(3072) for i in range(40))
        entry = tarfile.TarInfo("cifar-10-batches-bin/" + name)
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
with tarfile.open("other.tar.gz", "w:gz") as archive:
    archive.add("cifar.tar.gz")
P
cat >server.py <<'P'
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    once = False
    def do_GET(self):
        kind, _, name = self.path[1:].partition("/")
        asked = self.headers.get("Range")
        with open("requests.log", "a") as log:
            print(self.path, asked, file=log)
        if kind not in ("whole", "cut", "once") or kind == "once" and Handler.once:
            return self.send_error(503 if kind == "once" else 404)
        Handler.once |= kind == "once"
        data = open(name, "rb").read()
        size, start = len(data), int(asked[6:].rstrip("-")) if asked else 0
        if start >= size:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{size}")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        self.send_header("Content-Length", str(size - start))
        self.end_headers()
        self.wfile.write(data[start:] if kind == "whole" else data[start:start + 400000])
    def log_message(self, *arguments):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
with open("port", "w") as file:
    print(server.server_port, file=file)
server.serve_forever()
P
mkfifo port
python3 server.py &
server=$!
read -r port <port
right=$(md5sum <cifar.tar.gz | cut -d' ' -f1)
mkdir datasets
cp "$SOURCE_DIR/datasets/fetch.sh" datasets
part=datasets/cifar-10-binary.tar.gz.part

fetch() { # PATH [MD5]: exit status in $code, outputs in out and err
    command_line="(datasets/fetch.sh cifar10, $*)"
    code=0
    : >requests.log
    env CIFAR10_URL="http://127.0.0.1:$port/$1" CIFAR10_MD5="${2:-$right}" no_proxy=127.0.0.1 \
        timeout 50 datasets/fetch.sh cifar10 >out 2>err </dev/null || code=$?
}
fetched() { # WHAT: all files are there, no others are left, and the program finds them
    expect "$1: the status" test "$code" -eq 0
    expect "$1: nothing else is said" test ! -s err
    expect "$1: nothing else is left" test "$(ls -A datasets)" = $'cifar-10-batches-bin\nfetch.sh'
    lockstep_ok run --model cifar10 --batch 8 --steps 2 --warmup 0 --gate-steps 0 --results none --format jsonl
    rows "$1: trained and tested on it" "r['case']['data'] == 'cifar10' and 0 <= r['train']['accuracy'] <= 1"
}
refused() { # WHAT STATUS WORDS: one line that contains these words
    expect "$1: status $2" test "$code" -eq "$2"
    expect "$1: one line" test "$(wc -l <err)/$(wc -l <out)" = 1/0
    expect "$1: says $3" grep -q "^datasets/fetch.sh: .*$3" err
    expect "$1: nothing half done is left" test ! -e datasets/cifar-10-batches-bin -a -z "$(ls -d datasets/.fetch* 2>/dev/null)"
}
requests() { expect "$1: the requests are $2" test "$(paste -sd' ' requests.log)" = "$2"; }

lockstep run --model cifar10 --steps 1 --results none
expect "what is missing: the script is named" one_line "datasets/cifar-10-batches-bin/.*datasets/fetch.sh cifar10"
fetch whole/cifar.tar.gz
fetched "right"
requests "right" "/whole/cifar.tar.gz None"
fetch whole/cifar.tar.gz
fetched "there already"
requests "there already" ""
rm datasets/cifar-10-batches-bin/test_batch.bin
fetch whole/cifar.tar.gz
expect "a file has gone: named" grep -q "has no test_batch.bin; remove" err
rm -r datasets/cifar-10-batches-bin

fetch cut/cifar.tar.gz
fetched "cut"
requests "cut" "/cut/cifar.tar.gz None /cut/cifar.tar.gz bytes=400000-"
rm -r datasets/cifar-10-batches-bin
fetch once/cifar.tar.gz
refused "broken off" 3 "503.*; 400000 bytes are in $part"
expect "broken off: what came is kept" test "$(stat -c %s $part)" = 400000
fetch whole/cifar.tar.gz
fetched "broken off, run again"
requests "broken off, run again" "/whole/cifar.tar.gz bytes=400000-"
rm -r datasets/cifar-10-batches-bin
cp cifar.tar.gz "$part"
fetch whole/cifar.tar.gz
fetched "all of it came, the run ended"
requests "all of it came, the run ended" ""
rm -r datasets/cifar-10-batches-bin
cp cifar.tar.gz datasets/cifar-10-binary.tar.gz
fetch whole/cifar.tar.gz
fetched "brought by hand"
requests "brought by hand" ""
rm -r datasets/cifar-10-batches-bin

fetch whole/cifar.tar.gz 0123456789abcdef0123456789abcdef
refused "wrong checksum" 3 "has MD5 $right, not 0123456789abcdef0123456789abcdef: kept as .*.bad"
expect "wrong checksum: put aside" cmp -s cifar.tar.gz datasets/cifar-10-binary.tar.gz.bad
expect "wrong checksum: in nobody's way" test ! -e "$part" -a ! -e datasets/cifar-10-binary.tar.gz
rm datasets/*.bad
fetch whole/cifar.tar.gz
fetched "after a wrong checksum"
rm -r datasets/cifar-10-batches-bin
fetch whole/other.tar.gz "$(md5sum <other.tar.gz | cut -d' ' -f1)"
refused "another archive" 3 "has no cifar-10-batches-bin/data_batch_1.bin"
rm datasets/*.gz
fetch whole/server.py "$(md5sum <server.py | cut -d' ' -f1)"
refused "no archive" 3 "cannot be unpacked: "
rm datasets/*.gz
cat cifar.tar.gz cifar.tar.gz >"$part"
fetch whole/cifar.tar.gz
refused "more than there is" 3 "has MD5 .*, not $right: kept as .*.bad; run this again"
rm datasets/*.bad
fetch nowhere
refused "no such address" 3 "127.0.0.1.*404.*; CIFAR10_URL"
for arguments in "" nope "cifar10 cifar10"; do
    code=0
    datasets/fetch.sh $arguments >out 2>err || code=$?
    refused "wrong usage: '$arguments'" 2 "valid is cifar10"
done
finish
