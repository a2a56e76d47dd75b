# SPDX-License-Identifier: MIT
"""The losses of the first steps: lockstep's against every peer's."""

import statistics

import models
import runners

MEDIAN_BOUND = 2e-5
MEDIAN_BOUNDS = {"gpt": 1e-5}  # where it is another
LARGEST_BOUND = 2e-2
# of losses in bfloat16 where not the same is rounded: one rounding that turns changes those behind it
BF16_BOUNDS = dict.fromkeys(runners.BF16_TIMED, 2e-3) | {"torch-rounded": 4e-5}
FIRST = {"torch-rounded": 5}  # steps, behind which such turns grow
# model, batch, what is not the model's own: the learning rate (rounding differences of cifar10 and resnet grow several
# times each step), the optimizer, clipping (with sgd, whose losses depend on the gradient's length), pieces and rates
OWN = ("optimizer", "clip", "gradient-accumulation-steps", "lr-schedule", "steps", "precision")  # what a line names
SCHEDULE = {"gradient-accumulation-steps": 4, "lr-schedule": "cosine", "lr-warmup-steps": 10, "steps": 40}
CASES = (
    ("mlp:784-128-10", 256, {}), ("poly", 100, {}), ("cnn", 256, {}), ("cifar10", 128, {"lr": 1e-3}),
    ("twin-lstm:64", 64, {}), ("lstm-stack:2", 64, {}), ("resnet:20", 128, {"lr": 1e-4}),
    ("gpt:4-4-128-128-256", 16, {}),
    ("gpt:4-4-128-128-256", 16, {"lr": 0.5, "optimizer": "sgd", "clip": 0.5}),
    ("gpt:4-4-128-128-256", 16, {"clip": 1.0} | SCHEDULE | {"min-lr": 6e-5}),
    ("gpt:4-4-128-128-256", 16, {"lr": 0.5, "optimizer": "sgd", "clip": 0.5} | SCHEDULE | {"min-lr": 0.05}),
    ("mlp:784-128-10", 256, {"precision": "bf16"}), ("gpt:4-4-128-128-256", 16, {"precision": "bf16"}),
)


def own_losses(comparison, case, init):
    """lockstep's first losses as {False: of `single`, True: of `mirrored` on two devices}."""
    model, batch, given = case
    steps = given.get("steps", models.BATCHES)
    words = [word for key, value in given.items() if key != "steps" for word in (f"--{key}", value)]
    files = comparison.options(model, init) + words
    places = {False: (comparison.lockstep, "single", 1), True: (comparison.pair, "mirrored", 2)}
    return {
        paired: lockstep.losses(
            model, batch, steps, files, ("--strategy", strategy, "--devices", devices)
        )
        for paired, (lockstep, strategy, devices) in places.items()
        if paired in {peer.name in runners.PAIRS for peer in comparison.takers(model, given)}
    }


def relative(ours, theirs):
    """Largest relative difference of two lists of losses."""
    if len(ours) != len(theirs):
        raise runners.RunError(f"{len(ours)} losses against {len(theirs)}")
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))


def agree(comparison, seeds, kinds):
    """Differences per model, peer and seed, with the verdict."""
    results = []
    for model, batch, given in models.chosen(CASES, kinds):
        words = ", ".join([f"{model}, batch {batch}", *(f"{key} {value}" for key, value in given.items())])
        runners.say(f"agree: {words}, {seeds} seeds")
        peers = comparison.takers(model, given)
        for peer in peers:
            comparison.build(peer, model, batch, given)
        differences = {peer.name: [] for peer in peers}
        for seed in range(1, seeds + 1):
            init = comparison.initial(model, seed)
            ours = own_losses(comparison, (model, batch, given), init)
            for peer in peers:
                peer.ask(op="load", init=init)
                theirs = peer.ask(op="losses")["losses"]
                own, first = ours[peer.name in runners.PAIRS], FIRST.get(peer.name)
                differences[peer.name].append(relative(own[:first], theirs[:first]))
        results += [judge(model, batch, given, name, values) for name, values in differences.items()]
    return results


def judge(model, batch, given, peer, values):
    """One line of the agreement table."""
    median, largest = statistics.median(values), max(values)
    bound = BF16_BOUNDS.get(peer) or MEDIAN_BOUNDS.get(models.parse_model(model)[0], MEDIAN_BOUND)
    passed = median <= bound and largest <= LARGEST_BOUND  # false for NaN
    return {
        "model": model, "batch": batch, **given, "peer": peer, "largest_per_seed": values,
        "median": median, "largest": largest, "pass": passed,
    }


def table(results):
    """Markdown of the agreement."""
    head = ["model", "batch", "peer", "median over seeds", "largest", "verdict"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for r in results:
        verdict = "agrees" if r["pass"] else "DISAGREES"
        own = "".join(f", --{key} {r[key]}" for key in OWN if key in r)
        lines.append(
            f"| {r['model']}{own} | {r['batch']} | {r['peer']} | {r['median']:.1e} "
            f"| {r['largest']:.1e} | {verdict} |"
        )
    return "\n".join(lines)
