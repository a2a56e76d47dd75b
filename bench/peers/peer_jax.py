# SPDX-License-Identifier: MIT
"""The training step in JAX as one jitted function with donated state, on one CPU thread or a GPU.

Variants: `tuned` (dispatched on the caller's thread; 512-bit vectors where the processor has them),
`default` (neither), `scan` (tuned, BATCHES steps in one call: no dispatch between steps), `threads`
(tuned, with as many threads as the process has cores), `sharded` (tuned, every batch split over
two devices of one thread each; the compiler puts in the all-reduce), `bf16` (tuned, weights and
activations in bfloat16, float32 masters), `cuda` (on a GPU, products in full float32) and `cuda-bf16`.
"""

import argparse
import math
import os
import pathlib

import numpy as np

import common
import models

BETA1, BETA2, EPS = models.ADAM["beta1"], models.ADAM["beta2"], models.ADAM["eps"]


DEVICES = 2  # of variant sharded


def set_flags(variant):
    """Threads and vectors; must run before JAX is imported, which reads the environment."""
    if variant.startswith("cuda"):
        os.environ.setdefault("JAX_PLATFORMS", "cuda")
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # others use the GPU in turns
        return
    flags = [] if variant == "threads" else ["--xla_cpu_multi_thread_eigen=false"]
    given = os.environ.get("XLA_FLAGS", "")
    wide = "avx512f" in pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii") and "max_isa" not in given
    if variant != "default" and wide:
        flags.append("--xla_cpu_prefer_vector_width=512")
    os.environ["XLA_FLAGS"] = " ".join([given, *flags])
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if variant == "sharded":  # with one thread a device their all-reduce can wait for itself
        os.environ["NPROC"] = str(2 * DEVICES)


def make_step(jax, jnp, loss_of, case):
    """(state, x, y) -> (state, loss); state = (weights, m, v, t). Optimizers by hand."""

    def one_minus_power(base, t):  # 1 - base^t without cancellation
        return -jnp.expm1(t * jnp.float32(math.log(base)))

    def adam(weights, m, v, t, gradients):
        rate = case.lr / one_minus_power(BETA1, t)
        inverse = 1 / jnp.sqrt(one_minus_power(BETA2, t))
        m = [BETA1 * a + (1 - BETA1) * g for a, g in zip(m, gradients)]
        v = [BETA2 * a + (1 - BETA2) * g * g for a, g in zip(v, gradients)]
        return [
            w - rate * a / (jnp.sqrt(b) * inverse + EPS) for w, a, b in zip(weights, m, v)
        ], m, v

    def rmsprop(weights, m, v, _, gradients):
        rho, eps = models.RMSPROP["rho"], models.RMSPROP["eps"]
        v = [rho * a + (1 - rho) * g * g for a, g in zip(v, gradients)]
        return [
            w - case.lr * g / (jnp.sqrt(a) + eps) for w, g, a in zip(weights, gradients, v)
        ], m, v

    def adamw(weights, m, v, t, gradients):
        values = models.ADAMW
        beta1, beta2, eps = values["beta1"], values["beta2"], values["eps"]
        rate = case.lr / one_minus_power(beta1, t)
        inverse = 1 / jnp.sqrt(one_minus_power(beta2, t))
        m = [beta1 * a + (1 - beta1) * g for a, g in zip(m, gradients)]
        v = [beta2 * a + (1 - beta2) * g * g for a, g in zip(v, gradients)]
        shrink = [case.lr * values["decay"] if w.ndim > 1 else 0.0 for w in weights]
        return [
            w - rate * a / (jnp.sqrt(b) * inverse + eps) - s * w
            for w, a, b, s in zip(weights, m, v, shrink)
        ], m, v

    def sgd(weights, m, v, _, gradients):
        return [w - case.lr * g for w, g in zip(weights, gradients)], m, v

    def momentum(weights, m, v, _, gradients):
        m = [models.MOMENTUM * a + g for a, g in zip(m, gradients)]
        return [w - case.lr * a for w, a in zip(weights, m)], m, v

    updates = {"adam": adam, "adamw": adamw, "rmsprop": rmsprop, "sgd": sgd, "momentum": momentum}
    update = updates[case.optimizer]

    def step(state, x, y):
        weights, m, v, t = state
        loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
        if case.clip:
            norm = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in gradients))
            gradients = [g * jnp.minimum(1, case.clip / norm) for g in gradients]
        t = t + 1
        weights, m, v = update(weights, m, v, t, gradients)
        return (weights, m, v, t), loss

    return step


def make_scan(jax, step):
    """The same over stacked batches: (state, x[S,...], y[S,...]) -> (state, losses[S])."""
    return lambda state, x, y: jax.lax.scan(lambda s, xy: step(s, *xy), state, (x, y))


def make_places(jax, variant):
    """(puts a batch, puts a state) where the variant's step wants them."""
    if variant != "sharded":
        return jax.device_put, jax.device_put
    mesh = jax.make_mesh((DEVICES,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    copies = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    return (lambda x: jax.device_put(x, rows)), (lambda x: jax.device_put(x, copies))


def make_build(jax, jnp, variant):
    """The build function of one variant, see common.py."""
    import jax_models  # pylint: disable=import-outside-toplevel

    def build(case):
        function = make_step(jax, jnp, jax_models.loss_of(case, variant.endswith("bf16")), case)
        case.batches = jax_models.layout(case)
        put_batch, put_state = make_places(jax, variant)
        if variant == "scan":
            case.stride = len(case.batches)
            case.batches = [tuple(np.stack(part) for part in zip(*case.batches))]
            function = make_scan(jax, function)
        case.batches = [put_batch((jnp.asarray(x), jnp.asarray(y))) for x, y in case.batches]
        compiled = jax.jit(function, donate_argnums=0)
        state = None

        def step(x, y):
            nonlocal state
            state, loss = compiled(state, x, y)
            return loss

        def reset(values):
            nonlocal state
            weights = [jnp.array(value) for value in jax_models.values_of(case, values)]
            zeros = [[jnp.zeros_like(w) for w in weights] for _ in range(2)]
            state = put_state((weights, *zeros, jnp.float32(0)))

        def read(loss):
            jax.block_until_ready(state)
            return np.atleast_1d(np.asarray(loss)).tolist()

        return step, reset, read

    return build


def main():
    """Serves one variant on stdin and stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    variants = ("tuned", "default", "scan", "threads", "sharded", "bf16", "cuda", "cuda-bf16")
    parser.add_argument("--variant", choices=variants, default="tuned")
    variant = parser.parse_args().variant
    set_flags(variant)
    import jax  # pylint: disable=import-outside-toplevel

    jax.config.update("jax_default_matmul_precision", "highest")
    if not variant.startswith("cuda"):
        jax.config.update("jax_cpu_enable_async_dispatch", variant == "default")
    if variant == "sharded":
        jax.config.update("jax_num_cpu_devices", DEVICES)
    common.serve(
        make_build(jax, jax.numpy, variant),
        lambda: {"name": "JAX", "version": jax.__version__},
    )


if __name__ == "__main__":
    main()
