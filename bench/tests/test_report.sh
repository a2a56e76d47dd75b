#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `lockstep report` as a user sees it: files, contents and structure of the page, bad input. The rows are made here,
# so figures are known. Pictures are checked if there is gnuplot; in the fast tier only those of the first page.
set -euo pipefail
# shellcheck source=bench/tests/lib.sh
source "$SOURCE_DIR/bench/tests/lib.sh"
gnuplot=$(command -v gnuplot || true)

# make_rows FILE KIND: see below
make_rows() {
    python3 - "$1" "$2" <<'EOF'
import json, sys
path, kind = sys.argv[1:]
HOSTILE = ("\"><script>alert(1)</script><img src=x onerror=alert(1)>' ; `touch pwned` $(touch pwned) "
           "@m %s \\n '; drop table rows; set output 'pwned'; !touch pwned\n|x| &amp;")
def row(number, strategy, devices, ms, host="here", **more):
    case = {"model": "mlp", "data": "synthetic", "strategy": strategy,
            "devices": [f"cpu:{i}" for i in range(devices)], "ranks": 1, "hosts": 1,
            "batch_global": 64, "batch_per_device": [64 // devices] * devices, "scaling": "strong",
            "steps": 9, "warmup": 1, "seed": 1, "optimizer": "sgd", "lr": 0.1, "reduce": "fast",
            "comm": "thread", "memory": "growth", **more}
    return {"schema": 1, "id": f"{host}-{number}", "timestamp": f"2026-11-20T00:00:{number % 60:02}Z",
            "command": f"lockstep run --strategy {strategy}", "case": case, "result": {"status": "ok"},
            "time": {"step_ms": {"mean": ms, "median": ms, "p10": ms, "p90": ms, "p99": 2 * ms,
                                 "ci95": [0.99 * ms, 1.01 * ms], "n": 9},
                     "samples_per_s": 64e3 / ms, "samples_per_s_mean": 64e3 / ms,
                     "speedup": 8 / ms, "efficiency": 8 / ms / devices},
            "waterfall": {"compute_ms": 0.75 * ms, "wait_ms": 0.25 * ms},
            "equivalence": {"grade": "none" if strategy == "independent" else "bounded",
                            "pass": True, "steps": 10, "oracle": "same bits"},
            "provenance": {"commit": "c0ffee", "cpu": "Abacus", "host": host, "cores_per_device": [1]}}
rows = [row(1, "single", 1, 8.0), row(2, "mirrored", 2, 5.0), row(3, "mirrored", 4, 2.5),
        row(4, "towers", 2, 6.0), row(5, "towers", 4, 5.0), row(6, "independent", 4, 2.0)]
if kind == "hostile":
    for each in rows:
        each["label"] = HOSTILE + "A" * 10000
        each["command"] = "lockstep run --label " + HOSTILE
        each["case"]["model"] = each["provenance"]["cpu"] = each["provenance"]["commit"] = HOSTILE
        each["case"]["strategy"] = HOSTILE if each["case"]["strategy"] == "towers" else each["case"]["strategy"]
    rows[0]["result"] = {"status": "failed", "reason": HOSTILE}
elif kind == "turns": # on 4 devices two groups, the machine twice as slow in the second
    rows = [row(1, "mirrored", 2, 5.0), row(2, "towers", 2, 6.0), row(3, "mirrored", 4, 2.5), row(4, "towers", 4, 4.0)]
    for each, group in zip(rows, (1, 1, 1, 2)):
        each["time"].update(group=group, groups=2)
        each["time"]["speedup"] *= group
        each["time"]["speedup_ci95"] = [k * each["time"]["speedup"] for k in (0.99, 1.01)]
elif kind == "machines":
    rows += [row(n, r["case"]["strategy"], len(r["case"]["devices"]), 2 * r["time"]["step_ms"]["mean"],
                 host="there") for n, r in enumerate(rows)]
elif kind == "odd":
    for each in rows[:4]: # where a label may be cut: a character of two bytes, one that XML forbids
        each["label"] = "xy" + "\u00e9" * 5000 + each["case"]["strategy"]
        each["command"] = "\ufffe\uffff"
    rows[3]["case"]["strategy"] = "of-another-version"
    rows[4]["provenance"]["dirty"] = True
    rows.append(row(7, "ps", 2, 9.0, ps_mode="async")) # whose workers do one step each
    rate = 2 * rows[1]["time"]["samples_per_s"]
    rows[-1]["time"].update(samples_per_s=rate, samples_per_s_mean=rate, samples_per_s_of="mean",
                            samples_per_s_mean_ci95=[0.99 * rate, 1.01 * rate])
    rows += [row(10 + n, "mirrored", 2, 5.0 + n, allreduce=name) for n, name in enumerate(("ring", "tree"))]
    rows += [{"schema": 1, "id": f"m{n}", "timestamp": "2026-11-20T00:01:00Z", "micro": {
        "op": "layers", "shape": f"dense{n} forward", "type": "float", "ranks": 1, "time_us": 1000.0 * n, "time_p10_us": 1.0,
        "time_p90_us": 3000.0, "roof_us": 500.0, "wrong": int(n == 3)}} for n in (1, 2, 3)]
elif kind == "equal": # two equal rows of ours, and one that cannot be compared
    rows = [row(1, "mirrored", 1, 4.0), row(2, "towers", 1, 4.0), row(3, "mirrored", 2, 4.0),
            row(4, "towers", 2, 4.0), row(5, "independent", 1, 3.0), row(6, "independent", 2, 2.0)]
elif kind == "modes": # of ps, one with a slow worker; and a row without speed-up
    rows += [row(10 + 10 * n + delay, "ps", 2, 5.0 + n + delay, ps_mode=mode, inject=f"delay=1:{delay}ms")
             for n, mode in enumerate(("async", "ssp", "sync")) for delay in (0, 5)]
    for each in rows[6:]:
        each["provenance"]["dirty"] = True
        each["time"]["samples_per_s_mean_ci95"] = [k * each["time"]["samples_per_s_mean"] for k in (0.99, 1.01)]
    del rows[1]["time"]["speedup"]
elif kind == "repeats": # the newest one is fast by chance
    rows = [row(n, "mirrored", 2, ms) for n, ms in enumerate((5.2, 5.4, 5.0, 6.0, 2.0))]
    rows += [row(9 + n, "towers", 2, ms) for n, ms in enumerate((4.0, 4.4))]
elif kind == "noise": # inside each other's intervals
    rows = [row(n, name, devices, ms / devices) for n, (name, devices, ms) in enumerate(
        (("mirrored", 1, 5.0), ("mirrored", 2, 5.0), ("towers", 1, 5.0), ("towers", 2, 5.02)))]
elif kind == "close": # as noise, but for one device
    rows = [row(1, "single", 1, 8.0)] + [row(10 * n + k, name, n, 8.0 / n) for n in (2, 4, 8) for k, name in enumerate(("mirrored", "towers"))]
elif kind == "groups": # the largest groups have one place
    rows = [row(4 * batch + n, "mirrored", 2, 5.0, batch_global=batch) for batch in (1, 2, 3) for n in range(4)]
    rows += [row(20 + devices, "mirrored", devices, 5.0, batch_global=9) for devices in (1, 2)]
elif kind == "mixed": # cases that differ in more than strategy and devices, each fault in its own batch
    rows = [row(1, "single", 1, 8.0), row(2, "mirrored", 2, 5.0, optimizer="adam"), row(3, "towers", 2, 6.0),
            row(4, "mirrored", 4, 2.5, optimizer="adam"), row(5, "towers", 4, 3.5)]
    rows += [row(10, "single", 1, 8.0, batch_global=128), row(11, "single", 1, 4.0, batch_global=128)]
    rows[-1]["provenance"]["cores_per_device"] = [2]
    rows += [row(20 + n, "mirrored", n, 5.0, batch_global=256, link="latency=1us") for n in (2, 4, 8)]
    rows += [row(30, "mirrored", 2, 2.0, batch_global=256), row(31, "towers", 2, 2.0, batch_global=256)]
    rows += [row(40 + n, "mirrored", 4, 3.0 * n, batch_global=512, ranks=4, hosts=n) for n in (1, 2)]
    rows += [row(50 + n, "pipeline", 2 * n, 3.0, batch_global=1024, pipeline_microbatches=4 + 4 * (n > 2)) for n in (1, 2, 4, 8)]
    rows += [row(70 + 10 * k + n, name, n, 3.0 + k, batch_global=1024, **more) for n in (2, 4) for k, (name, more) in enumerate(
        [("tensor-parallel", {"link": f"latency=200us,bandwidth={n}GB/s"}) for n in (1, 2)] + [("context-parallel", {})])]
    rows += [row(60 + n, "mirrored", 2 * n, 3.0, batch_global=2048, seed=n, allreduce=("ring", "tree")[n - 1]) for n in (1, 2)]
    rows += [{"schema": 1, "id": f"m{n}-{k}", "timestamp": "2026-11-20T00:01:00Z", "micro": {
        "op": "allreduce", "kernel": "ring", "comm": "thread", "type": "float", "ranks": 2, "time_us": 10.0, "size_bytes": 4 ** n,
        "busbw_gbs": 10.0 / k, "wrong": 0, **({"link": "latency=1us"} if k > 1 else {})}} for n in (5, 6) for k in (1, 2)]
elif kind == "apart": # slower where a variable was set; a peer's row does not tell
    rows += [row(n, r["case"]["strategy"], len(r["case"]["devices"]), 3 * r["time"]["step_ms"]["mean"], host="set")
             for n, r in enumerate(rows)] + [row(20, "torch", 2, 4.0)]
    for each in rows:
        each["provenance"].update(host="here", library_isa="AVX2")
        if each["id"].startswith("set"):
            each["provenance"].update(environment={"DNNL_MAX_CPU_ISA": "SSE41"}, library_isa="SSE41")
        else:
            each["provenance"]["environment"] = {"OMP_PROC_BIND": "true"}
    rows[-1]["provenance"] = {"cpu": "Abacus", "host": "here", "cores_per_device": [2]}
    rows[-1]["peer"] = {"what": "PyTorch"}
elif kind == "commits": # of which each is of a machine of its own
    rows += [row(n, r["case"]["strategy"], len(r["case"]["devices"]), 2 * r["time"]["step_ms"]["mean"],
                 host="there") for n, r in enumerate(rows)]
    for each in rows[6:]:
        each["provenance"]["commit"] = "decade"
elif kind == "shares": # an older row of mirrored, one of other buckets, one on more devices
    rows = [row(1, "mirrored", 2, 1.0, bucket_bytes=64), row(2, "mirrored", 2, 5.0, bucket_bytes=64),
            row(3, "mirrored", 2, 2.0, bucket_bytes=128), row(4, "mirrored", 4, 4.0, bucket_bytes=64),
            row(5, "zero", 4, 3.0, bucket_bytes=64, zero_stage=1), row(6, "zero", 2, 5.5, bucket_bytes=64, zero_stage=3)]
    for each, held in zip(rows, (9000, 1000, 9000, 1000, 800, 600)):
        each["memory"] = {"devices": [{"device": "cpu:0", "peak": held}, {"device": "cpu:1", "peak": held / 2}]}
        each["traffic"] = {"bytes_sent": 3 * held if held == 600 else 1200}
    rows += [row(7, "mirrored", 2, 1.0, bucket_bytes=64), row(8, "mirrored", 8, 1.0, bucket_bytes=64), row(9, "zero", 8, 1.0, bucket_bytes=64, zero_stage=1)]
    rows[6]["memory"] = rows[1]["memory"] # of --steps 0
    for each in rows[6:]: # of verify
        del each["time"]
elif kind == "lengths": # of gpt, with what recomputation leaves
    rows = [row(1000 * k + T, "single", 1, 5.0 + k, model=f"gpt:4-4-64-{T}-256", **({"recompute": mode} if k else {}))
            for T in (64, 128) for k, mode in enumerate(("none", "mlp", "full"))]
    for each, held in zip(rows, (1900, 1100, 700, 3800, 2200, 1400)):
        each["memory"] = {"devices": [{"device": "cpu:0", "parameters": 100, "gradients": 100, "optimizer": 200,
                                       "activations": held, "communication": 0, "workspace": 0, "peak": held + 400}]}
elif kind == "layouts": # of 4 devices; two cases of the pipeline; and servers, of which one lets workers be late
    rows = [row(1, "mirrored", 4, 5.0, bucket_bytes=64), row(2, "zero", 4, 5.02, bucket_bytes=64, zero_stage=3, zero_reshard=True),
            row(3, "pipeline", 4, 7.0, pipeline_microbatches=4), row(4, "pipeline", 4, 6.0, pipeline_microbatches=8),
            row(5, "hybrid", 4, 4.0, hybrid_replicas=2, hybrid_inner="pipeline", pipeline_microbatches=4,
                model_parallel_place="fc1=cpu:0,fc2=cpu:1"),
            row(6, "hybrid", 4, 8.0, hybrid_replicas=2, hybrid_inner="tensor-parallel", hybrid_stages=1,
                model_parallel_place="fc1=cpu:0"),
            row(7, "hybrid", 4, 9.0, hybrid_replicas=2, hybrid_inner="zero", zero_stage=1, zero_reshard=False), row(8, "independent", 4, 1.0),
            row(11, "hybrid", 4, 9.5, hybrid_replicas=2, hybrid_inner="context-parallel"),
            row(9, "ps", 2, 5.0, ps_mode="sync", batch_global=32), row(10, "ps", 2, 5.0, ps_mode="async", batch_global=16)]
    for each, held in zip(rows, (1000, 400, 500, 600, 700, 650, 300, 100, 900)):
        each["memory"] = {"devices": [{"device": "cpu:0", "peak": held}]}
    for each, late in zip(rows[9:], ([8], [4, 4])):
        each["lead"] = each["staleness"] = {"max": len(late) - 1, "histogram": late}
    rows += [row(20 + n, name, 2, ms, batch_global=8, link=f"latency={us}us,bandwidth={mb}MB/s") for n, (name, ms, us, mb) in
             enumerate((("mirrored", 9.0, 1, 10), ("mirrored", 3.0, 1, 100), ("towers", 8.0, 1, 10), ("towers", 4.0, 1, 100),
                        ("towers", 7.0, 5, 100)))]
elif kind == "layouts again": # repeats, on 4 devices and on 2; the pipeline in two ways
    rows = [row(1, "single", 1, 9.0)] + [row(100 * d + 10 * k + n, name, d, ms, **more) for d in (4, 2) for k, (name, more, all) in enumerate((
        ("mirrored", {}, (1.0, 3.0, 2.0)), ("zero", {}, (3.0, 4.0)), ("ps", {}, (7.0, 6.0)),
        ("pipeline", {"pipeline_microbatches": 2}, (8.0,)), ("pipeline", {"pipeline_microbatches": 4}, (9.0,)))) for n, ms in enumerate(all)]
    for each in rows:
        held = {"mirrored": 900, "zero": 400, "ps": 1000, "pipeline": 500}
        each["memory"] = {"devices": [{"device": "cpu:0", "peak": held.get(each["case"]["strategy"], 100)}]}
elif kind == "pools": # of one size: cases of two links
    rows = [row(10 * us + n, name, 2, n + us, link=f"latency={us}us") for us in (1, 2) for n, name in enumerate(("mirrored", "zero", "towers"), 4)]
elif kind == "integers": # at the end of their range
    for each in rows:
        each["train"] = {"losses": [3.0, 2.0]}
    most = 2 ** 63 - 1
    rows[1]["case"]["warmup"] = most
    rows[1]["staleness"] = {"max": 1, "histogram": [most, 1]}
    rows[2]["provenance"]["cores_per_device"] = [most, 1]
    rows[3]["waterfall"].update(compute_ms=most, wait_ms=most)
elif kind == "many":
    rows = [row(n, ("single", "mirrored", "towers", "independent", "local-sgd")[n % 5], (1, 2, 4, 8)[n // 5 % 4],
                2.0 + n % 7, seed=n, model=("mlp", "poly", "cnn")[n // 20 % 3], batch_global=(64, 128)[n // 60 % 2])
            for n in range(1000)]
    for each in rows:
        each["label"], each["command"] = "L" * 10000, f"lockstep run --label {each['id']}" + "L" * 10000
        each["memory"] = {"devices": [{"peak": 1e6, "parameters": 4e5, "gradients": 4e5, "activations": 2e5}], "growth_per_step": 5}
        each["program"], each["time"]["build_ms"] = {"nodes": 40 * len(each["case"]["devices"])}, 0.5
        each["train"] = {"losses": [2 / (1 + i) for i in range(200)]}
with open(path, "w", encoding="utf-8") as stream:
    stream.writelines(json.dumps(each) + "\n" for each in rows)
EOF
}

# page CONDITION: a Python expression over `page`, the text of out/index.html
page() {
    python3 - "$1" <<'EOF'
import html.parser, re, sys
page = open("page/index.html", encoding="utf-8").read().replace("\u00a0", " ")
class Look(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.images, self.loads, self.handlers = [], [], [], []
    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        attrs = dict(attrs)
        if tag == "img":
            self.images.append(attrs)
        self.handlers += [name for name in attrs if name.startswith("on")]
        if tag in ("img", "script", "link", "iframe", "object", "image", "use"):
            self.loads += [v for k, v in attrs.items() if k in ("src", "href", "xlink:href", "data")
                           and v and not v.startswith(("#", "data:"))]
look = Look()
look.feed(page)
sys.exit(not eval("(" + sys.argv[1] + ")"))
EOF
}

# makes ARGUMENTS: a page is made. Without gnuplot it lacks its pictures: status 3, and a line says so.
makes() {
    if [ -n "$gnuplot" ]; then
        lockstep_ok report "$@"
    else
        lockstep report "$@"
        expect "without gnuplot: status 3, one line" eval '[ $code -eq 3 ] && one_line "report: gnuplot: gnuplot is not installed"'
    fi
}

# report ARGUMENTS: writes to an empty folder, so no file of an earlier report can count
report() {
    rm -rf page
    makes "$@" --out page
}

# told_apart: "yes" if no two pictures have the same heading or the same text in their place
told_apart() {
    python3 - <<'EOF'
import re
text, page = (open(f"page/{name}", encoding="utf-8").read() for name in ("report.md", "index.html"))
found = [re.findall(r"^## (.+)", text, re.M), re.findall(r"^!\[(.*)\]\(", text, re.M), re.findall(r"<img alt=\"([^\"]*)", page)]
found.append(re.findall(r"<h3>([^<]*)", page) + re.findall(r"<figure[^>]*><div [^>]*aria-label=\"([^\"]*)", page))
print("yes" if found[3] and all(len(each) == len(set(each)) for each in found) else found)
EOF
}

make_rows scaling.jsonl scaling
report --results scaling.jsonl
[ -z "$gnuplot" ] || expect "the file to open is named" grep -qx "page/index.html" out
expect "the fastest that is proven, by how much, on what" page \
    '"<h1>Fastest on 2 and 4 devices: mirrored; on 1: single (the only case)</h1>" in " ".join(page.split())
     and "<li>4 devices: mirrored is the fastest: 25,600 samples/s, 2.00 (1.97 to 2.03) times towers" in " ".join(page.split())
     and "<li>2 devices: mirrored is the fastest: 12,800 samples/s, 1.20" in " ".join(page.split())
     and "<li>1 device: single is the only case: 8,000 samples/s" in page and "Proven equal to single: yes, grade bounded over 10" in page and "Abacus, host here" in page'
expect "nothing is loaded, no handlers, one script" page \
    'not look.loads and not look.handlers and look.tags.count("script") == 1'
expect "its words are a reader's" eval '! grep -q "LS_[A-Z]" page/index.html page/report.md'
expect "every row opens" page 'page.count("<tr class=o>") == 6 and page.count("lockstep run --strategy") >= 6'
expect "what is left out is said with the reason" grep -q "bus-bandwidth: no rows for it; wanted" page/report.md
expect "report.md has the table" grep -q "^| mirrored on 4 | 1 | 25,600 (25,347 to 25,859) | 2.5 | 1 | 3.20 | 80% | bounded |" page/report.md
for name in throughput-strong speed-up-strong efficiency-strong waterfall step-times; do
    expect "the data of $name" test -s "page/$name.csv"
done
expect "data are the rows'" grep -q '^"mirrored",4,25600,25346' page/throughput-strong.csv
if [ -n "$gnuplot" ]; then
    expect "each picture says what it is" page 'len(look.images) >= 5 and all(i.get("alt") for i in look.images)'
    expect "ids are unique" page '(lambda ids: len(ids) == len(set(ids)))(re.findall(r" id=[\"\x27]?([^ \"\x27>]+)", re.sub("\"data:[^\"]*\"", "", page)))'
    for ending in svg png pdf; do
        expect "a $ending" test -s "page/throughput-strong.$ending"
    done
    expect "its title is what is shown" grep -q "<title>Samples per second by devices (" page/throughput-strong.svg
    expect "svg is XML" python3 -c 'import glob, xml.dom.minidom as d; [d.parse(f) for f in glob.glob("page/*.svg")]'
    expect "ticks have their unit" grep -q '>samples/s, thousands<' page/throughput-strong.svg
    expect "a strategy has its colour in each picture" eval 'for picture in throughput-strong step-times; do
        grep -q "rgb(  0, 114, 178)" "page/$picture.svg"; done'
    expect "it turns dark" grep -q "prefers-color-scheme:dark" page/throughput-strong.svg
fi

if ! thorough; then # other pages' pictures are drawn in the slow tier
    mkdir bin
    ln -s /usr/bin/* bin
    rm -f bin/gnuplot*
    export PATH=$work/bin
    gnuplot=
fi
expect "a phone's table has its heads in each cell" page '"data-h=\"samples/s\">25,600" in page'
expect "LaTeX has the first table" grep -qxF 'mirrored on 4 & 25,600 & 2.5 & 3.20 & 80\% & bounded \\' page/table.tex
key() { grep -o '^@misc{lockstep-[^,]*' page/report.bib; }
first=$(key)
expect "BibTeX's title is the model and the day" grep -qE '^  title = \{Training speed of .+, 20[0-9-]+\},$' page/report.bib
expect "BibTeX has no address unless asked to" eval '! grep -q url page/report.bib'
report --results scaling.jsonl --where strategy=towers --url https://example.org/a_b
expect "else as it is" grep -qxF '  url = "https://example.org/a_b",' page/report.bib
expect "other rows have another key" [ "$(key)" != "$first" ]
expect "--where chooses" page 'page.count("<tr class=o>") == 2'
head -n 2 scaling.jsonl >two.jsonl
report --results two.jsonl --results scaling.jsonl
expect "a row of two files counts once" page 'page.count("<tr class=o>") == 6'
head -n 1 scaling.jsonl >one.jsonl
report --results one.jsonl
expect "one row makes a page" page '"<h1>Fastest on 1 device: single (the only case)</h1>" in page'

for wrong in "--url a{b" "--font-size 3" "--font-size 8cm"; do
    lockstep report --results one.jsonl --out page $wrong
    expect "status 2: $wrong" eval '[ "$code" -eq 2 ] && one_line "is "'
done
make_rows equal.jsonl equal
report --results equal.jsonl
report --results equal.jsonl --where strategy=independent
expect "nothing is told of a strategy that is no candidate but its speed" grep -qx \
    '[-] 2 devices: independent is the only case: 32,000 samples/s. Proven .*' page/report.md
make_rows noise.jsonl noise
report --results noise.jsonl
make_rows close.jsonl close
report --results close.jsonl
expect "numbers of devices of which the same is told are joined, those of which nothing can be told last" grep -qx \
    '# Fastest on 1 device: single (the only case); on 2, 4 and 8: too close to tell' page/report.md
make_rows groups.jsonl groups
report --results groups.jsonl
expect "groups that make no picture take none's place" grep -q '^"mirrored",2,12800' page/throughput-strong.csv
make_rows turns.jsonl turns
report --results turns.jsonl
expect "of groups, the speed-up over each one's single tells" grep -qx \
    '[-] 4 devices: towers is the fastest: 16,000 samples/s, 1.25 (1.23 to 1.27) times mirrored, by speed-up over single in each group.s own turns[.] Proven .*' page/report.md
expect "and each number of devices has a line" grep -qx '[-] 2 devices: mirrored is the fastest: .* 1.20 (1.18 to 1.22) times towers[.] Proven .*' page/report.md
expect "as the headline says" grep -qx '# Fastest on 4 devices: towers; on 2: mirrored' page/report.md
expect "who is compared with the fastest on as many devices" grep -q '^| towers on 2 | 1 | [^|]* | 6 | 1.2 (1.18 to 1.22) | 1.33 ' page/report.md
sed '/"here-[25]"/!d; s/"status": "ok"/"status": "ok", "warnings": ["noisy"]/; s/"speedup": [0-9.]*/"speedup": 5.6/' \
    scaling.jsonl >busy.jsonl
sed '/"here-4"/!d' scaling.jsonl >>busy.jsonl
report --results busy.jsonl --where devices=cpu:0+cpu:1
expect "a speed-up beyond the devices on a busy machine makes no headline" grep -qx \
    '# Fastest on 2 devices: the machine was too busy to tell' page/report.md
expect "nor a line" grep -q '^- 2 devices: mirrored (noisy): 12,800 samples/s; the machine was too busy' page/report.md
make_rows repeats.jsonl repeats
report --results repeats.jsonl
expect "the median of repeats is told, and what their ranges hide" grep -qx \
    '[-] 2 devices: towers (15,273 samples/s, median of 2 rows) and mirrored cannot be told apart: their intervals overlap[.] Proven .*' page/report.md
expect "all figures of a case are medians" grep -q '^| towers on 2 | 2 | 15,273 (14,545 to 16,000) | 4.2 | 1 | 1.91 | 95% |' page/report.md
expect "as are their number and range" page '"mirrored on 2<td class=n data-h=\"rows\">5<td class=n\ndata-h=\"samples/s\">12,308 (10,667 to 32,000)" in page'
expect "and it is the one that is drawn" grep -q '^"compute","mirrored",3.9' page/waterfall.csv
expect "of others it is said" grep -q '^- step-times, waterfall: rows of cases whose median row is shown: 5$' page/report.md
make_rows modes.jsonl modes
report --results modes.jsonl
expect "speed-up has the interval of the rate" grep -q '^"towers",4,1.6[0-9]*,1.58[0-9]*,1.61' page/speed-up-strong.csv
expect "rows without a number are counted" grep -q '^- speed-up: rows without its numbers: 1' page/report.md
report --results modes.jsonl --where strategy=ps
expect "a changed tree is no commit" grep -q 'c0ffee+changes' page/report.bib
[ -z "$gnuplot" ] ||
    expect "nor below a picture" grep -q 'c0ffee+changes, 2026' page/stragglers-step.svg
expect "a step's is turned over" grep -q '^"ps ssp",5,11,10.89[0-9]*,11.1' page/stragglers-step.csv
[ -z "$gnuplot" ] || expect "what all series have stands in the sub-title" grep -q 'Time of a step, by delay of one worker (mlp,.* 2 devices' page/report.md
if [ -n "$gnuplot" ]; then
    expect "modes have dashes of their own" test \
        "$(grep -o "stroke-dasharray='[^']*'" page/stragglers-step.svg | sort -u | wc -l)" -eq 2
fi
sed -e 's/"ci95": .[^]]*.,//' -e '1s/"n": 9/"n": 1/' scaling.jsonl >apart.jsonl
report --results apart.jsonl
expect "without an interval no case is the fastest" grep -qx \
    '[-] 4 devices: mirrored (25,600 samples/s) and towers cannot be told apart: no interval is known[.] Proven .*' page/report.md
expect "one step has no spread" grep -q '^- .*step-times.*: rows without its numbers: 1' page/report.md
sed 's/"status": "ok"/"status": "failed"/' one.jsonl >failed.jsonl
rm -rf page
lockstep_ok report --results failed.jsonl --out page # has no picture: needs no gnuplot
expect "rows that failed are said to" page '"<h1>All rows here failed a check" in page'

make_rows pools.jsonl pools
report --results pools.jsonl
expect "cases that are compared stand together" [ "$(sed -n 's/^| \(.*\)latency=\(.\)us.* on 2 | 1 .*/\2/p' page/report.md | tr -d '\n')" = 111222 ]

make_rows machines.jsonl machines
report --results machines.jsonl
expect "machines are apart" test -s page/throughput-strong-2.csv
expect "as headings say" [ "$(grep -c '^## Samples per second by devices: .*host t\?here' page/report.md)/$(told_apart)" = 2/yes ]
makes --results machines.jsonl --against provenance.host --out together
expect "and side by side where asked" grep -q '^"mirrored, there",4,' together/throughput-strong.csv
[ -z "$gnuplot" ] || expect "which the picture says" grep -Eq ">several machines, commit.+c0ffee," together/throughput-strong.svg
expect "with the ratio of times" grep -q "0.5 (0.493.*to.*0.507)" together/index.html
expect "in report.md, too" grep -q "^|  | here | 1 | [0-9.]* | 0.5 (0.493 to 0.507) | faster |" together/report.md
sed '1s/"status": "ok"/"status": "ok", "warnings": ["predicted"]/' scaling.jsonl >mixed-in.jsonl
report --results mixed-in.jsonl
expect "a predicted row is not mixed in" grep -qx '# Fastest on 2 and 4 devices: mirrored' page/report.md
# A case without a partner, and what sets it apart from the nearest of another value.
python3 - <<'EOF'
import json
two, four = [json.loads(line) for line in open("scaling.jsonl")][1:3]
with open("lonely.jsonl", "w") as stream:
    for row, label, more in ((two, "a", {"bucket_bytes": 64}), (two, "b", {"allreduce": "ring", "bucket_bytes": 64}),
                             (two, "b", {"bucket_bytes": 64}), (four, "a", {}), (four, "b", {})):
        stream.write(json.dumps({**row, "id": label + str(more) + row["id"], "label": label, "case": {**row["case"], **more}}) + "\n")
EOF
makes --results lonely.jsonl --against label --out lonely
expect "a case without a partner is named, with the nearest" grep -qF \
    'mirrored allreduce=ring on 2 (mlp, global batch 64), b: the nearest case of another label (a) differs in case.allreduce' lonely/report.md
expect "none that has one" grep -qx 'Cases without a partner: 1' lonely/report.md
makes --results scaling.jsonl --against strategy --out strategies
expect "strategies stand side by side" [ "$(sed -n 's/^| \(.*\)| \([a-z]*\) | 1 | [0-9.]* | [^|]* | [a-z ]*|$/\1\2/p' strategies/report.md | head -2 | paste -sd,)" = \
    "on 2 (mlp, global batch 64) mirrored, towers" ]
expect "and are named once" test -z "$(grep 'towers[,(" ]*towers' strategies/report.md strategies/*.csv)"
# One case several times: as fast as the first, not, with a wide interval, and with none.
python3 - <<'EOF'
import json
first = json.loads(open("scaling.jsonl").readline())
with open("verdicts.jsonl", "w") as stream:
    for label, ms, half in (("a", 8.0, 0.01), ("b", 8.05, 0.01), ("c", 8.4, 0.01), ("d", 8.0, 0.2), ("e", 8.0, 0)):
        step = {**first["time"]["step_ms"], "median": ms, "ci95": [ms * (1 - half), ms * (1 + half)]}
        row = {**first, "id": label, "label": label, "time": {**first["time"], "step_ms": step, "samples_per_s": 64e3 / ms}}
        row["result"] = {"status": "ok", "warnings": ["short", "noisy"] if half > 0.1 else ["short"]}
        stream.write(json.dumps(row) + "\n")
EOF
makes --results verdicts.jsonl --against label --out verdicts
expect "a ratio of times has its verdict" [ "$(sed -n 's/^|  | \([b-e]\) .*| \([a-z ]*\) |$/\1 \2/p' verdicts/report.md | paste -sd,)" = \
    "b same,c slower,d cannot tell,e cannot tell" ]
lockstep_ok results import verdicts.jsonl --results verdicts.db
for verdict in "b : same" "c : B is slower" "d : cannot tell" "e (no interval: not both rows have one)"; do
    lockstep_ok results diff a "${verdict%% *}" --results verdicts.db
    expect "results diff has the report's verdict: $verdict" grep -q "^B / A, .* = [0-9.]*.*${verdict#* }\$" out
done
makes --results verdicts.jsonl --where 'label~d' --against label --out verdicts
expect "a noisy case is said to be" grep -q '^# Fastest on 1 device: single (d) (noisy)' verdicts/report.md
expect "no machine's ideal line is the other's" test -z "$(grep ideal together/throughput-strong.csv)"
expect "which is said" grep -q '^- throughput-strong: ideal lines, as each value' together/report.md

make_rows commits.jsonl commits
report --results commits.jsonl --against provenance.commit
expect "a commit is no machine: those of two are not compared" grep -q '^No case has timed rows of two values' page/report.md
makes --results commits.jsonl --against provenance.host --out together
expect "but hosts are, which is said" grep -q '^mlp, global batch 64, strong scaling, on several machines$' together/report.md
make_rows apart.jsonl apart
report --results apart.jsonl
expect "variables that were set make another machine" test -s page/throughput-strong-2.csv
expect "which says so" page '"Abacus, host here, DNNL_MAX_CPU_ISA=SSE41" in page and "Abacus, host here, OMP_PROC_BIND=true" in page'
expect "in no table with others" eval '! grep -q "^| mirrored on 4 | 2 " page/report.md'
expect "a peer is beside ours" grep -q '^| PyTorch on 2 | 1 .* peer |' page/report.md

make_rows mixed.jsonl mixed
report --results mixed.jsonl --where batch_global=64
expect "another optimizer is named, also of another strategy" grep -q '^| mirrored optimizer=adam on 4 | 1 | 25,600 ' page/report.md
expect "in pictures" grep -q '^"mirrored optimizer=adam",4,' page/throughput-strong.csv
expect "the most frequent one is not" grep -q '^| towers on 4 | 1 ' page/report.md
report --results mixed.jsonl --where batch_global=128
expect "cores of a device tell cases apart" grep -q '^| single cores.*device=2 on 1 | 1 | 16,000 ' page/report.md
report --results mixed.jsonl --where batch_global=256
expect "what lacks a link is not beside those that have it" grep -q '^| mirrored latency=1us on 2 | 1 ' page/report.md
expect "but a case of its own" grep -q '^| mirrored on 2 | 1 | 32,000 ' page/report.md
report --results mixed.jsonl --where batch_global=512
expect "nor are other numbers of hosts" grep -q '^| mirrored hosts=2 on 4 | 1 ' page/report.md
report --results mixed.jsonl --where batch_global=1024
expect "a strategy's options are" grep -q '^"pipeline microbatches=8",8,' page/throughput-strong.csv
if [ -n "$gnuplot" ]; then
    expect "long names that differ at their ends still do" [ "$(grep -oE '>tensor-parallel latency=200us,bandwidth=[12]GB/s<' page/throughput-strong.svg |
        sort -u | wc -l)" -eq 2 ]
    expect "those that share a colour have marks of their own" [ "$(grep -o "<use [^>]*color='rgb( 34,  34,  34)'" page/throughput-strong.svg |
        grep -o "gpPt[0-9]*" | sort -u | wc -l)" -eq 3 ]
fi
report --results mixed.jsonl --where batch_global=2048
expect "what a line mixes is said" grep -q '^- .*throughput-strong.*: rows of one line that differ in .*case.seed.*case.allreduce.*: 2$' page/report.md
report --results mixed.jsonl --where op=allreduce
expect "what no plan can have is not said to be repeated" eval '! grep -q "lockstep report\|run it again" page/report.{md,yaml} page/index.html'
expect "with a link and without are two pictures" test -s page/bus-bandwidth-2.csv

make_rows hostile.jsonl hostile
report --results hostile.jsonl
expect "nothing of a label is run" test ! -e pwned -a ! -e page/pwned
expect "nor taken for markup" page 'page.count("<script") == 1 and not look.loads and not look.handlers and look.tags.count("img") == page.count("<figure id=") * bool("<img" in page)
    and look.tags.count("script") == 1 and "&lt;script&gt;alert(1)" in page'
expect "the failed row is in no picture, and that is said" page '"rows that failed a check, could not run or were interrupted: 1" in page'
[ -z "$gnuplot" ] || expect "hostile svg is XML" python3 -c \
    'import glob, xml.dom.minidom as d; [d.parse(f) for f in glob.glob("page/*.svg")]'

# Labels appear as they were typed, whatever the environment has for gnuplot: texts of ticks are formats there, and its
# gnuplot leaves "]]>" in texts of SVG.
python3 - <<'EOF'
import json
first = json.loads(open("scaling.jsonl").readline())
with open("labels.jsonl", "w") as stream:
    for i, label in enumerate(("batch 50%", "100% a", "%s%n", "a]]>b <b>&", "#FFFFFF rgb(1,2,3)", "'q' ~ `t` {b}^_",
                               "\u65e5", "50% " + "\u0431\u044b\u0441\u0442\u0440\u0435\u0435 " * 5)):
        stream.write(json.dumps({**first, "id": f"l{i}", "label": label}) + "\n")
    stream.write(json.dumps({**first, "id": "end", "label": "\x1b[31m\u009b\u202e\n"})) # no line feed
EOF
if command -v gnuplot >/dev/null; then
    GNUTERM=x11 GNUPLOT_LIB=/none GNUPLOT_FONTPATH=/none GDFONTPATH=/none FIT_SCRIPT=none GNUHELP=none \
        report --results labels.jsonl --against label
    expect "a last line without line feed is a row" page 'page.count("<tr class=o>") == 9'
    expect "labels are drawn as they are" python3 - <<'EOF'
import xml.dom.minidom as d
texts = [t.firstChild.data for t in d.parse("page/waterfall.svg").getElementsByTagName("text") if t.firstChild]
for label in ("batch 50%", "100% a", "%s%n", "a]]>b <b>&", "#FFFFFF rgb(1,2,3)", "'q' ~ `t` {b}^_", "\u65e5",
              r"\x1b[31m\u009b\u202e\n"):
    assert "single, " + label in texts, (label, texts)
EOF
    expect "and say so on the page" page 'r"single on 1, \x1b[31m\u009b\u202e\n" in page
        and "single on 1, a]]&gt;b &lt;b&gt;&amp;" in page'
fi

# PNG and PDF have letters of usual fonts only: gnuplot draws a large box in place of one that no font has.
mkdir fake
cat >fake/gnuplot <<EOF
#!/bin/sh
env >>$work/script
cat >$work/last
cat $work/last >>$work/script
awk -F"'" '/^KIND =/ { kind = \$2 } /^NAME =/ { print \$2 "." kind }' $work/last | while read -r picture; do echo '<svg viewBox="0 0 1 1"></svg> IEND %%EOF' >"\$picture"; done
EOF
chmod +x fake/gnuplot
gnuplot=fake GNUTERM=x11 GNUPLOT_NEW=1 PATH=$work/fake:$PATH report --results labels.jsonl --against label
expect "no variable of gnuplot's comes to it" test "$(grep -c '^LC_ALL=C.UTF-8$' script)/$(grep -c '^GNU' script)" = 3/0
expect "letters in SVG" grep -q $'\'|single, \xe6\x97\xa5\'' script
expect "are numbers elsewhere" grep -qF "'|single, \\u65e5'" script

# A number that no axis can hold makes no picture fail.
sed 's/"ci95": .[^]]*.,//; s/"speedup": [0-9.]*/"speedup": 1.75e308/' scaling.jsonl >huge.jsonl
report --results huge.jsonl
expect "it is in no picture" test ! -e page/speed-up-strong.csv -a -s page/throughput-strong.csv

make_rows integers.jsonl integers
report --results integers.jsonl
expect "nor do integers without a sum" test -s page/staleness.csv
expect "steps that no axis tells apart are left out" eval '[ "$(grep -c "^\"towers" page/loss-steps.csv)" -eq 4 ] && ! grep -q "^\"mirrored.* on 2" page/loss-*.csv'

make_rows odd.jsonl odd
report --results odd.jsonl --against label
expect "a cut label loses no row" test "$(grep -c '^"mirrored, x' page/throughput-strong.csv)" -eq 2
report --results odd.jsonl
expect "and is text still" python3 -c 'open("page/index.html", encoding="utf-8").read()'
expect "a strategy of another version is drawn" grep -q '^"of-another-version",2,' page/throughput-strong.csv
expect "a tree that had changed is told" page 'page.count("+changes, row") == 1'
expect "all-reduces are cases of their own" grep -q '^"mirrored allreduce=tree",2,' page/throughput-strong.csv
expect "roofs of layers" grep -q '^"roof","dense2 forward",0.5,' page/roofs.csv
[ -z "$gnuplot" ] || expect "in no strategy's colour" test -z \
    "$(grep -E 'rgb\( *(0, 114, 178|213,  94,   0|123,  50, 148|0, 158, 115)\)' page/roofs.svg)"
expect "not of a layer that was wrong" test -z "$(grep dense3 page/roofs.csv)"
expect "what is compared is samples, not steps of a worker" grep -q '^| ps on 2 | 1 | 25,600 ([^|]*) | 9 | 1 ' page/report.md
# An older row, whose rate was said of the median step although steps are not alike.
sed '/"strategy": "ps"/!d; s/"samples_per_s": [0-9.]*/"samples_per_s": 12800.0/; s/"samples_per_s_of": "mean", //' odd.jsonl >older.jsonl
report --results older.jsonl
expect "one rate in titles and both tables" page '"25,600 samples/s" in page and "<td>25600" in page
    and "12800" not in page and "12,800" not in page'
report --results odd.jsonl --against case.allreduce --where strategy=mirrored,case.allreduce~r
expect "values of an option side by side" grep -q '<td>tree<td class=n>1<td class=n>6<td class=n>1.2 (1.18.*to' page/index.html

# A file whose last line is incomplete; a database that is still written, with an open transaction.
{ head -n 2 scaling.jsonl; printf '{"schema": 1, "id": "a", "time'; } >cut.jsonl
lockstep report --results cut.jsonl --out nothing
expect "an incomplete line is refused" test "$code" -eq 3 -a ! -e nothing
expect "which names it" one_line "cut.jsonl: line 3: this line is not valid JSON"
lockstep run --model poly --steps 3 --warmup 0 --blocks 1 --results grows.db --progress no
(for _ in 1 2 3 4 5 6; do "$LOCKSTEP" run --model poly --steps 3 --warmup 0 --blocks 1 --results grows.db --quiet; done) \
    >/dev/null 2>&1 &
writer=$!
for _ in 1 2 3; do
    report --results grows.db
    expect "a database that grows" page 'page.count("<tr class=o>") >= 1'
done
expect "its writer was not disturbed" wait "$writer"

# The plan recreates these rows: with both, --resume has nothing left to do.
run_again() {
    "$LOCKSTEP" run --steps 4 --warmup 1 --blocks 1 --gate-steps 2 --results again.db --label again --quiet --model \
        "$@" >/dev/null
}
run_again poly --strategy mirrored,towers --devices 1,2 --scaling weak
run_again mlp:784-8-8-10 --data synthetic:256 --batch 16 --strategy model-parallel --devices 2 --scaling weak
run_again poly --strategy ps --devices 2 --ps-mode ssp --ps-staleness 3
run_again poly --strategy mirrored --devices 2 --ranks 2 --reduce exact --micro-shards 8
run_again poly --strategy mirrored --devices 2 --inject delay=1:1ms --optimizer momentum:0.5
report --results again.db
lockstep run --plan page/report.yaml --label again --resume --results again.db
expect "report.yaml is the rows' cases" grep -q "8 of 8 cases have a row in again.db already; 0 cases are left" err
expect "report.bib names version and commit" grep -q "Report of 8 rows by Lockstep" page/report.bib
lockstep_ok results list --results again.db --format jsonl
expect "rows.jsonl is the rows" cmp -s page/rows.jsonl out
# The commands that the page prints, in its folder: the rows that they make are told from the first ones.
"$LOCKSTEP" run --model poly --steps 4 --warmup 1 --blocks 2 --strategy single,towers --label again --results loop.db --quiet >/dev/null
report --results loop.db
for file in report.md index.html report.yaml; do
    expect "$file has the commands" [ "$(grep -c 'lockstep .*rows.jsonl\|lockstep run .*report.yaml' page/$file)" -eq 3 ]
done
sed -n 's/^#   lockstep //p' page/report.yaml >loop
while read -r -u 3 -a words; do
    (cd page && code=0 && { "$LOCKSTEP" "${words[@]}" </dev/null >out 2>err || code=$?; } && echo "${words[0]} $code $(wc -l <err)") >>codes
done 3<loop
expect "they run, and nothing is to say" eval 'grep -qx "run 0 0" codes && grep -qx "report [03] [01]" codes && grep -q "^regress [014] 0" codes'
expect "each case side by side" [ "$(grep -cE '^\|  \| again-2 \| 1 ' page/again-2/report.md)" -eq 2 ]
makes --results page/rows.jsonl --results page/again-2/rows.jsonl --against label --out both
expect "two rows.jsonl are compared, a row of both counts once" \
    [ "$(grep -cE '^\|  \| again-2 \| 1 ' both/report.md)/$(wc -l <both/rows.jsonl)" = 2/4 ]
expect "the folder stands for its rows" lockstep_ok results import page --results folder.db
lockstep regress page page/again-2.db
expect "and is compared" [ "$(grep -cE '(same|cannot tell|faster|slower)' out)" -ge 2 ]
lockstep report --results page --where strategy=towers --out page
expect "rows are not lost" eval '[ "$code" -eq 2 ] && one_line "page: this folder is also the input, and 1 of its rows would be lost"'
# Of rows of ranks with their baseline and label, too.
of_ranks() { "$launcher" 2 "$LOCKSTEP" run --results "$@" --quiet >/dev/null; }
cases_of() { "$LOCKSTEP" results list --results "$1" --format csv --columns strategy,devices,case.ranks,case.comm,steps,label | sort; }
of_ranks ranks.db --model poly --steps 4 --warmup 1 --blocks 1 --strategy mirrored --devices 1 --baseline --label 'a "b"'
report --results ranks.db
expect "the plan of ranks names its start" grep -q '^# *mpirun -n 2 lockstep run --plan report.yaml ' page/report.yaml
expect "it runs there" of_ranks again-ranks.db --plan page/report.yaml --label 'a "b"'
expect "and makes the same cases" [ "$(cases_of ranks.db)" = "$(cases_of again-ranks.db)" ]
expect "which are two" [ "$(cases_of ranks.db | grep -c 'a ""b""')" -eq 2 ]
if [ "$(id -u)" = 0 ]; then # root can write to any folder
    mkdir -m 755 closed
    chmod 755 .
    code=0
    setpriv --reuid 65534 --clear-groups "$LOCKSTEP" report --results "$PWD/scaling.jsonl" --out closed >out 2>err || code=$?
    expect "no permission: 3, one line" test "$code" -eq 3 -a "$(grep -c 'closed: cannot be written: Permission denied' err)" -eq 1
fi

make_rows many.jsonl many
report --results many.jsonl
expect "1,000 rows are many pictures" page 'page.count("<figure id=") >= 20'
expect "and each says of what" [ "$(told_apart)/$(grep -c '^## Samples per second by devices: .*global batch' page/report.md)" = yes/3 ]
expect "1,000 rows are less than 3 MB" test "$(stat -c %s page/index.html)" -lt 3000000

: >empty.jsonl
lockstep report --results empty.jsonl --out nothing
expect "no row: 3, one line, no folder" test "$code" -eq 3 -a "$(wc -l <err)" -eq 1 -a ! -e nothing
lockstep report --results scaling.jsonl --where strategy=nothing --out nothing
expect "no row fits: 3" test "$code" -eq 3 -a ! -e nothing
lockstep report --results scaling.jsonl
expect "no folder is wrong usage" test "$code" -eq 2
lockstep report --results scaling.jsonl --out one.jsonl
expect "a file in the folder's place: 3" test "$code" -eq 3 -a "$(wc -l <err)" -eq 1
lockstep report --results scaling.jsonl --out /proc/nothing/here
expect "a folder that cannot be made: 3" test "$code" -eq 3 -a "$(wc -l <err)" -eq 1

# A second report in a folder removes the first one's pictures and data, and nothing else.
report --results modes.jsonl
touch page/notes.svg page/throughput-strong.txt
makes --results one.jsonl --out page
expect "what it does not make is not left" test ! -e page/throughput-strong.csv -a ! -e page/stragglers-step.svg
expect "what is another's stays" test -e page/notes.svg -a -e page/throughput-strong.txt
if [ -n "$gnuplot" ]; then
    mkdir -p in-the-way/throughput-strong.svg
    lockstep report --results scaling.jsonl --out in-the-way
    expect "what gnuplot could not do is told" grep -q \
        "set output 'throughput-strong.svg' .*cannot open file; output not changed.*Is a directory" err
    expect "on one line, by 3" test "$code" -eq 3 -a "$(wc -l <err)" -eq 1
fi

code=0
env PATH="$work/none" "$LOCKSTEP" report --results scaling.jsonl --out bare >out 2>err || code=$?
expect "without gnuplot: 3, the package named, page and data there" test "$code" -eq 3 -a -s \
    bare/index.html -a -s bare/report.md -a -s bare/efficiency-strong.csv -a ! -e bare/efficiency-strong.svg
expect "the package is named" grep -q "gnuplot-nox" err

# What shares save and cost beside mirrored: in a picture, and of a row. 5.5 over 5.0 ms, each within 1%.
for mean in 1e30 1e-8; do # of one loss: a range of its own, and numbers with an exponent
    python3 -c 'import json, sys
row = json.loads(open("odd.jsonl").readline())
row["time"]["step_ms"]["mean"], row["train"] = float(sys.argv[1]), {"losses": [0.5]}
print(json.dumps(row))' $mean >far.jsonl
    report --results far.jsonl
done
make_rows shares.jsonl shares
code=0
env PATH="$work/none" "$LOCKSTEP" report --results shares.jsonl --out shared >out 2>err || code=$?
expect "shares: a figure without its picture" [ "$code" -eq 3 -a -s shared/shares.csv ]
checks=$((checks + 1))
python3 - <<'EOF' 2>err || wrong "shares: figures"
import csv
rows = {(r["series"], float(r["devices"])): [float(r[k]) for k in list(r)[2:5]]
        for r in csv.DictReader(open("shared/shares.csv"))}
assert rows[("zero stage 3: memory", 2)] == [0.6] * 3 and rows[("zero stage 1: memory", 4)] == [0.8] * 3, rows
step = rows[("zero stage 3: step", 2)]
assert abs(step[0] - 1.1) < 1e-9 and abs(step[1] - 1.0845) < 1e-3 and abs(step[2] - 1.1156) < 1e-3, step
assert rows[("mirrored", 4)] == [1] * 3 and len(rows) == 6, rows
EOF

# Layouts of 4 devices: the fastest case of each, and those that none beats in both; only what is late is drawn; which
# strategy for which bandwidth.
make_rows layouts.jsonl layouts
code=0
env PATH="$work/none" "$LOCKSTEP" report --results layouts.jsonl --out layouts >out 2>err || code=$?
expect "layouts: a figure without its picture" [ "$code" -eq 3 -a -s layouts/layouts.csv ]
checks=$((checks + 1))
python3 - <<'EOF' 2>err || wrong "layouts: figures"
import collections, csv
series = collections.defaultdict(list)
for r in csv.reader(open("layouts/layouts.csv")):
    series[r[0]].append(tuple(r[1:3]))
assert series.pop("series") and series.pop("not beaten in both") == [("300", "9"), ("400", "5.0199999999999996"), ("700", "4")]
assert {name: points[0] for name, points in series.items()} == {
    "2 x 2 x 1 pipeline": ("700", "4"), "mirrored": ("1000", "5"), "zero stage 3": ("400", "5.0199999999999996"),
    "pipeline": ("600", "6"), "2 x 1 x 2 tensor-parallel": ("650", "8"), "2 x 1 x 2 context-parallel": ("900", "9.5"),
    "2 groups zero stage 1": ("300", "9")}, series
EOF
make_rows repeated.jsonl "layouts again"
report --results repeated.jsonl
for picture in layouts layouts-2; do
    expect "$picture: the median of repeats counts, of two the slower" [ "$(cut -d, -f 1-3 page/$picture.csv | sed 1d | paste -sd' ')" = \
        '"mirrored",900,2 "zero",400,4 "ps",1000,7 "pipeline",500,8 "not beaten in both",400,4 "not beaten in both",900,2' ]
done
expect "each number of devices is named" [ "$(grep -c '^## Time of a step and memory.*: [24] devices$' page/report.md)" -eq 2 ]
expect "complete rows are not called incomplete" grep -q '^- layouts: rows without several devices, a time and memory: 1$' page/report.md
expect "but left out by the true reasons" [ "$(grep -cE '^- layouts, layouts-2: (cases of a layout whose fastest is shown.*: 1|rows of cases whose median.*: 4)$' \
    page/report.md)" -eq 2 ]
expect "a placement that follows is not said" eval '! grep -q fc1= layouts/report.md'
expect "yes and no have their option's name" grep -q '^| zero stage=3 reshard=yes on 4 ' layouts/report.md
expect "late: one picture" [ -s layouts/lead.csv -a -s layouts/staleness.csv -a ! -e layouts/lead-2.csv ]
expect "late: of the other it is said" grep -qE '^- .*lead.*: rows of mlp, synthetic, global batch 32.*, which have 0: 1$' layouts/report.md
expect "bandwidth: a line each, at one latency" [ "$(grep -cE '^"(mirrored|towers)",(10|100),[3489],' \
    layouts/step-bandwidth.csv)" -eq 4 -a ! -e layouts/step-bandwidth-2.csv ]
expect "what was left out is folded" grep -q '<details class=m id=left><summary>Left out</summary><ul>' layouts/index.html
make_rows lengths.jsonl lengths
report --results lengths.jsonl
expect "memory by part, a line of activations for each way to recompute" [ "$(sed 1d page/memory-sequence.csv |
    sed -n 's/"\(.*\)",128,\([0-9]*\),.*/\1 \2/p' | paste -sd';')" = "parameters 100;gradients 100;optimizer 200;\
activations, recompute none 3800;activations, recompute full 1400;activations, recompute mlp 2200" ]
expect "what recomputation saves and costs" [ "$(grep -cE 'recompute.*(full saves 1.2 KiB of the 2.2|full saves 2.3 KiB of the 4.1|mlp saves 800 B of the 2.2|mlp saves 1.6 KiB of the 4.1) KiB .* for 1.[24]0 times the step\.' page/report.md)" -eq 4 ]
lockstep_ok results import lengths.jsonl --results lengths.db
lockstep_ok results show here-2064 --results lengths.db
expect "what recomputation saves and costs" grep -q "^saves  *1.2 KiB of the fullest device's 2.2 KiB, for 1.40 times the step, next" out
lockstep_ok results show here-64 --results lengths.db
expect "without it nothing is said" eval '! grep -q "^saves" out'
lockstep_ok results import shares.jsonl --results shares.db
lockstep_ok results show here-6 --results shares.db
expect "shares: of a row" grep -q 'fullest device 600 B, of mirrored 1000 B: 40% less; its step 1.10' out
expect "shares: whose row" grep -q 'times (1.08 to 1.12); bytes sent 1.50 times; row here-2' out
lockstep_ok results show here-9 --results shares.db
expect "no shares where no bytes are known" eval '! grep -q "of mirrored" out'
finish
