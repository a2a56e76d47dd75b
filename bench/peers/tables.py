# SPDX-License-Identifier: MIT
"""The tables of a file of rounds in Markdown, and its rows in the form of `lockstep run`.

Every time is the one statistic of rounds.py, every ratio one of two of them.
"""

import math

import measure
import rounds as book
import runners

FRAMEWORKS = {"torch": "PyTorch", "tensorflow": "TensorFlow", "jax": "JAX", "llmc": "llm.c"}
TITLES = {name: what for name, (_, _, what) in (runners.PEERS | runners.PAIRS).items()}
CASES = (("strong", 512), ("strong", 256), ("weak", 512))  # of two cores


def markdown(head, lines):
    """A table."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows).replace("| --- |", "|---|").replace(
        " --- |", "---|")


def milliseconds(value):
    """Three significant digits; nothing for NaN."""
    if math.isnan(value):
        return ""
    digits = max(0, 2 - math.floor(math.log10(value)))
    return f"{value:.{digits}f}"


def percent(value):
    """A share; nothing for NaN."""
    return "" if math.isnan(value) else f"{value:.0%}"


def quotient(value):
    """A ratio; nothing for NaN."""
    return "" if math.isnan(value) else f"{value:.2f}"


def framework(name):
    """Which of FRAMEWORKS a peer is of."""
    return name.split("-")[0]


def one_core(name):
    """What a name's speed-up is over: `single`, or the framework's one-core program."""
    return "single" if name in measure.STRATEGIES else framework(name)


# ---- One core -----------------------------------------------------------------------------------


def cases_of(rounds):
    """[(model, batch)] of `time`."""
    return list(dict.fromkeys(key[1:3] for key in rounds.keys("time")))


def peers_of(rounds, case):
    """{name: key} of the peers that have figures."""
    return {
        key[3]: key for key in rounds.keys("time")
        if key[1:3] == case and key[3] in runners.PEERS and rounds.blocks(key)
    }


def counted(rounds, case):
    """{name: ms} of the peers that are called every step."""
    found = peers_of(rounds, case)
    return {name: rounds.figure(key) for name, key in found.items() if name not in runners.ONE_CALL}


def note(rounds, key, most):
    """Says where fewer rounds were run than of lockstep."""
    count = rounds.rounds(key)
    return "" if count == most else f" [{count}]"


def summary(rounds):
    """Each framework by its fastest variant: results/README.md's table."""
    lines = []
    for model, batch in cases_of(rounds):
        key = ("time", model, batch, "lockstep", 1)
        own, most = rounds.figure(key), rounds.rounds(key)
        floor = rounds.figure(("time", model, batch, "floor", 1))
        times = counted(rounds, (model, batch))
        keys = peers_of(rounds, (model, batch))
        cells = [f"`{model}`", str(batch), milliseconds(floor), f"**{milliseconds(own)}**"]
        for word in FRAMEWORKS:
            ours = {name: ms for name, ms in times.items() if framework(name) == word}
            best = min(ours, key=ours.get, default=None)
            variant = best[len(word) + 1:] if best else ""
            cells.append("" if best is None else milliseconds(ours[best])
                         + (f" ({variant})" if variant else "") + note(rounds, keys[best], most))
        best = min(times, key=times.get, default=None)
        cells.append(f"{times[best] / own:.2f} ({best})" if best else "")
        lines.append([*cells, str(most)])
    head = ["model", "batch", "floor", "Lockstep", *FRAMEWORKS.values(),
            "fastest peer / Lockstep", "rounds"]
    return markdown(head, lines)


def variants(rounds):
    """Everyone: ms, in brackets over lockstep, and how far apart a tenth and nine tenths are."""
    lines = []
    for model, batch in cases_of(rounds):
        own = rounds.figure(("time", model, batch, "lockstep", 1))
        names = {"lockstep": ("time", model, batch, "lockstep", 1), **peers_of(rounds, (model, batch))}
        floor = ("time", model, batch, "floor", 1)
        if rounds.blocks(floor):
            names = {"floor": floor, **names}
        for name, key in names.items():
            blocks = rounds.blocks(key)
            spread = book.distribution(blocks) if len(blocks) > 1 else None
            lines.append([
                f"`{model}`", str(batch), f"`{name}`", milliseconds(rounds.figure(key)),
                f"{rounds.figure(key) / own:.2f}",
                f"{milliseconds(spread['p10'])} to {milliseconds(spread['p90'])}" if spread else "",
                str(rounds.rounds(key)), str(len(blocks)),
            ])
    head = ["model", "batch", "who", "ms", "over Lockstep", "a tenth to nine tenths", "rounds", "blocks"]
    return markdown(head, lines)


# ---- Two cores ----------------------------------------------------------------------------------


def narrow(rounds):
    """bfloat16: Lockstep in both precisions, and the peers that have it."""
    lines = []
    for model, batch in cases_of(rounds):
        figure = lambda name, case=(model, batch): rounds.figure(("time", *case, name, 1))
        own, ours = figure("lockstep"), figure("lockstep-bf16")
        if math.isnan(ours):
            continue
        times = {name: figure(name) for name in runners.BF16_TIMED}
        lines.append([f"`{model}`", str(batch), milliseconds(own), f"**{milliseconds(ours)}**", quotient(own / ours),
                      *map(milliseconds, times.values()),
                      quotient(min((t for t in times.values() if not math.isnan(t)), default=math.nan) / ours)])
    head = ["model", "batch", "Lockstep float32", "Lockstep bf16", "ratio",
            *(runners.BF16_PEERS[name][2] for name in runners.BF16_TIMED), "fastest peer / Lockstep"]
    return markdown(head, lines)


def scaled(rounds, name, cores, batch):
    """A figure of `scaling`."""
    return rounds.figure(("scaling", measure.SCALED, batch, name, cores))


def speed_up(rounds, name, batch, scaling):
    """Of two cores over one: of the same work, or of half of it."""
    base = batch // 2 if scaling == "weak" else batch
    return scaled(rounds, one_core(name), 1, base) / scaled(rounds, name, 2, batch) * batch / base


def own_table(rounds):
    """lockstep's strategies at the larger batch: results/README.md's table of one core and two."""
    batch, lines = max(measure.BATCHES), []
    for name in measure.STRATEGIES:
        one, two = scaled(rounds, name, 1, batch), scaled(rounds, name, 2, batch)
        cells = [f"`{name}`", milliseconds(one), "", "", "", ""]
        if not math.isnan(two):
            gain = speed_up(rounds, name, batch, "strong")
            cells[2:] = [milliseconds(two), f"{batch / two * 1e3:.0f}", f"{gain:.2f}", f"{gain / 2:.2f}"]
        lines.append(cells)
    head = [f"strategy, global batch {batch}", "1 core: ms", "2 cores: ms", "samples/s", "speed-up",
            "efficiency"]
    return markdown(head, lines)


def pairs_table(rounds):
    """Strategies and peers on two cores: results/README.md's table."""
    batch, lines = max(measure.BATCHES), []
    names = [key[3] for key in rounds.keys("scaling") if key[4] == 2 and key[2] == batch]
    for name in sorted(names, key=lambda n: n in runners.PAIRS):
        cells = [TITLES.get(name, f"`{name}`")]
        for scaling, size in CASES:
            gain = speed_up(rounds, name, size, scaling)
            cells += [milliseconds(scaled(rounds, name, 2, size)), percent(gain / 2)]
        lines.append(cells)
    head = ["two cores"]
    for scaling, size in CASES:
        head += [f"{scaling}, {size}" if scaling == "strong" else f"weak, {size // 2} a core", ""]
    return markdown(head, lines)


def against(rounds):
    """How many times as fast `mirrored` is as each of the others on two cores."""
    lines = []
    for name in runners.PAIRS:
        ratios = [scaled(rounds, name, 2, b) / scaled(rounds, "mirrored", 2, b) for b in measure.BATCHES]
        lines.append([TITLES[name], *map(quotient, ratios)])
    return markdown(["`mirrored` is faster than", *(f"batch {b}" for b in measure.BATCHES)], lines)


# ---- Threads and processes ----------------------------------------------------------------------


# what results/README.md's table has: text, place without its kind, batch of `single`
PLACED = (
    ("`mirrored`, strong, 512", "mirrored", 512), ("`mirrored`, weak, 256 a core", "mirrored", 256),
    ("`ps`, sync, 1 worker and 1 server", "ps sync 1+1", 256),
    ("`ps`, async, 2 workers and 1 server", "ps async 2+1", 256),
)


def processes_table(rounds):
    """Threads beside processes: results/README.md's table. Efficiency is over `single`, a core in use."""
    singles = {b: rounds.figure(("processes", measure.SCALED, b, "single", 1)) for b in measure.BATCHES}
    lines = []
    for text, place, base in PLACED:
        cells = [text]
        for kind in ("threads", "processes"):
            name = f"{place}, {kind}"
            _, cores, batch, _ = measure.PLACES.get(name, (0, 1, 1, ()))
            ms = rounds.figure(("processes", measure.SCALED, batch, name, cores))
            per_core = batch / ms * singles[base] / base / cores
            samples = "" if math.isnan(ms) else f"{batch / ms * 1e3:.0f}"
            cells += [milliseconds(ms), samples, percent(per_core)]
        lines.append(cells)
    head = [f"`{measure.SCALED}` on 2 cores", "threads: ms", "samples/s", "efficiency",
            "processes: ms", "samples/s", "efficiency"]
    single = ", ".join(f"{milliseconds(ms)} ms at global batch {b}" for b, ms in singles.items())
    keys = rounds.keys("processes")
    count = min(rounds.rounds(key) for key in keys)
    return (f"{markdown(head, lines)}\n\n`single` on one core: {single}. Efficiency is per core in use, "
            f"over `single` at 512, or with 256 samples for weak scaling and `ps`. Rounds: {count}.")


# ---- All of it ----------------------------------------------------------------------------------


def everything(rounds):
    """All tables that the file has figures for."""
    machine = rounds.machines[0]
    kept = f", all programs kept to {machine['isa']}" if machine.get("isa") else ""
    parts = [f"Rounds of {rounds.path.name}: {machine['cpu']}{kept}; medians over all blocks of "
             f"all rounds, {book.BLOCKS} blocks a round."]
    if rounds.keys("time"):
        parts += ["## One core", summary(rounds),
                  "In brackets the variant, and [n] where only n rounds were run: over "
                  f"{book.OUT_OF_REACH} times the fastest peer in the first.",
                  "### Every variant", variants(rounds)]
    if any(key[3] == "lockstep-bf16" for key in rounds.keys("time")):
        parts += ["### bfloat16, ms a step", narrow(rounds)]
    if rounds.keys("scaling"):
        parts += ["## One core and two", own_table(rounds), pairs_table(rounds), against(rounds)]
    if rounds.keys("processes"):
        parts += ["## Threads and processes", processes_table(rounds)]
    failed = [f"{' '.join(map(str, key))}: {why}" for key, why in rounds.failed()]
    return "\n\n".join([*parts, *(["## Failed", *failed] if failed else [])])


def row(rounds, key, scaling, session):
    """A row of `lockstep run`'s form; a peer is named beside it."""
    _, _, batch, name, cores = key
    devices = 1 if name.endswith("-threads") else cores
    base = batch // cores if scaling == "weak" else batch
    step_ms = book.distribution(rounds.blocks(key))
    gain = scaled(rounds, one_core(name), 1, base) / step_ms["median"] * batch / base
    first = rounds.turns[("scaling", measure.SCALED, batch, "single", 1)][1]["provenance"]
    kept = ("commit", "dirty", "version", "compiler", "libraries", "cpu", "isa", "os")
    stamp = session["time"].replace("+00:00", "Z")
    plain = stamp.replace("-", "").replace(":", "")
    result = {
        "schema": 1, "id": f"{plain}-{name}-{batch}-{devices}-{scaling}", "timestamp": stamp,
        "command": "ci/peers.sh scaling", "label": "scaling",
        "case": {
            "model": measure.SCALED, "strategy": name, "batch_global": batch,
            "devices": [f"cpu:{index}" for index in range(devices)],
            "batch_per_device": [batch // devices] * devices, "scaling": scaling,
        },
        "result": {"status": "ok"},
        "time": {
            "step_ms": step_ms, "samples_per_s": batch / step_ms["median"] * 1e3,
            "samples_per_s_mean": batch / step_ms["mean"] * 1e3,
            "speedup": gain, "efficiency": gain / cores,
        },
        "provenance": {
            **{field: first[field] for field in kept}, "python": session["python"],
            "cores_per_device": [cores // devices] * devices,
            "load_average": session["load_average"][0], "rounds": rounds.rounds(key),
        },
    }
    if name not in measure.STRATEGIES:
        result["peer"] = {"what": TITLES[name], "one_core": one_core(name), **session["peers"][name]}
    return result


def rows(rounds):
    """Strong at every batch, on one core and two; weak at WEAK_BATCH a core."""
    sessions = [machine for machine in rounds.machines if machine["part"] == "scaling"]
    keys = [key for key in rounds.keys("scaling") if rounds.blocks(key)]
    found = [row(rounds, key, "strong", sessions[0]) for key in keys]
    return found + [
        row(rounds, key, "weak", sessions[0]) for key in keys
        if key[4] == 2 and key[2] == 2 * measure.WEAK_BATCH
    ]
