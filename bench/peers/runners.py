# SPDX-License-Identifier: MIT
"""The processes that compare.py drives: lockstep, once a call, and the peers, which stay.

Every process is bound to its cores with taskset: one, or two for the PAIRS. A peer sleeps on its
stdin while others run.
"""

import contextlib
import json
import os
import pathlib
import select
import subprocess
import sys

import models
import rounds

HERE = pathlib.Path(__file__).resolve().parent

# name: (program, its options, what it is); bench/peers/README.md says more
PEERS = {
    "torch": ("peer_torch.py", "--variant tuned", "PyTorch, fused Adam"),
    "torch-default": ("peer_torch.py", "--variant default", "PyTorch as it comes"),
    "torch-compile": ("peer_torch.py", "--variant compile", "PyTorch, torch.compile"),
    "tensorflow": ("peer_tensorflow.py", "--variant graph", "TensorFlow, tf.function"),
    "tensorflow-xla": ("peer_tensorflow.py", "--variant xla", "TensorFlow, jit_compile=True"),
    "tensorflow-fused": ("peer_tensorflow.py", "--variant fused", "TensorFlow, its LSTM kernel"),
    "jax": ("peer_jax.py", "--variant tuned", "JAX, jit, synchronous dispatch"),
    "jax-default": ("peer_jax.py", "--variant default", "JAX, jit as it comes"),
    "jax-scan": ("peer_jax.py", "--variant scan", "JAX, 20 steps in one call"),
    "llmc": ("peer_llmc.py", "--folder {llmc}", "llm.c, train_gpt2.c"),
}
# those with bfloat16, beside `lockstep --precision bf16`
BF16_PEERS = {
    "torch-rounded": ("peer_torch.py", "--variant rounded", "PyTorch in float32, rounded where Lockstep rounds"),
    "torch-autocast": ("peer_torch.py", "--variant autocast", "PyTorch, torch.autocast"),
    "torch-compile-autocast": ("peer_torch.py", "--variant compile-autocast", "torch.compile, torch.autocast"),
    "tensorflow-bf16": ("peer_tensorflow.py", "--variant bf16", "TensorFlow, tf.function"),
    "tensorflow-xla-bf16": ("peer_tensorflow.py", "--variant xla-bf16", "TensorFlow, jit_compile=True"),
    "jax-bf16": ("peer_jax.py", "--variant bf16", "JAX, jit"),
}
# those that work on two cores; {cores} is their list
PAIRS = {
    "torch-ddp": ("peer_ddp.py", "--cores {cores}", "PyTorch DDP"),
    "torch-threads": ("peer_torch.py", "--threads 2", "PyTorch 2 threads"),
    "tensorflow-mirrored": ("peer_mirrored.py", "", "TensorFlow Mirrored"),
    "tensorflow-threads": ("peer_tensorflow.py", "--threads 2", "TensorFlow 2 threads"),
    "jax-sharded": ("peer_jax.py", "--variant sharded", "JAX 2 devices"),
    "jax-threads": ("peer_jax.py", "--variant threads", "JAX 2 threads"),
}
JUDGES = {"torch-float64": ("peer_torch.py", "--variant float64", "PyTorch in double precision")}
# those on a GPU, bound to no core (gpu.py)
GPU_PEERS = {
    "torch-cuda": ("peer_torch.py", "--device cuda", "PyTorch, eager, fused Adam"),
    "torch-compile-cuda": ("peer_torch.py", "--device cuda --variant compile", "torch.compile"),
    "torch-graph-cuda": ("peer_torch.py", "--device cuda --variant graph", "PyTorch, one graph"),
    "jax-cuda": ("peer_jax.py", "--variant cuda", "JAX, jit"),
}
BF16_GPU_PEERS = {
    "torch-autocast-cuda": ("peer_torch.py", "--device cuda --variant autocast", "PyTorch, torch.autocast"),
    "torch-compile-autocast-cuda": ("peer_torch.py", "--device cuda --variant compile-autocast", "torch.compile, torch.autocast"),
    "jax-bf16-cuda": ("peer_jax.py", "--variant cuda-bf16", "JAX, jit, bfloat16"),
}
MAIN_PEERS = ("torch", "tensorflow", "jax")
MAIN_PAIRS = ("torch-ddp", "tensorflow-mirrored", "jax-sharded")  # data-parallel replicas
ONE_CALL = ("jax-scan",)  # not one call per step: kept out of "fastest peer"
STRIDES = {"jax-scan": models.BATCHES}  # steps of a call
# the others know every model
ONLY_KINDS = {"tensorflow-fused": ("twin-lstm", "lstm-stack"), "llmc": ("gpt",)}
CLIPPERS = ("torch", "jax")  # the beginning of their names
# those that `time` takes; the fastest of a framework's counts
TIMED = (
    "torch", "torch-compile", "tensorflow", "tensorflow-xla", "tensorflow-fused", "jax", "jax-default",
    "llmc",
)

BF16_TIMED = tuple(name for name in BF16_PEERS if name != "torch-rounded")

# Large blocks on huge pages, as lockstep has them. And glibc gives large blocks back to the system
# each step unless told not to; PyTorch's LSTM took six times as long.
MALLOC = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "THP_MEM_ALLOC_ENABLE": "1",
    "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(1 << 26),
}

# --isa: keeps every program to an instruction set: oneDNN (Lockstep, PyTorch, TensorFlow), PyTorch's own
# kernels, MKL, what torch.compile generates, XLA (JAX, TensorFlow), and what llm.c is compiled for
ISAS = {
    "avx2": {
        "ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2", "TORCHINDUCTOR_CPP_MARCH": "x86-64-v3",
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2", "LLMC_MARCH": "x86-64-v3",
    },
}


LATE = "no reply within"  # of a peer that was ended


class RunError(Exception):
    """A process could not do what it was asked; the text says which and why."""


class PeerError(RunError):
    """The process is a peer's."""


def say(text):
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


def cores_of(name):
    """How many cores a peer works on."""
    return 2 if name in PAIRS else 1


def bound_to(cores):
    """The start of a command that runs on these cores alone; nothing where there are none."""
    return ["taskset", "-c", ",".join(map(str, cores))] if cores else []


class Peer:
    """One peer process. cores: their numbers, one for each of PEERS, two for each of PAIRS; none:
    it is bound to none. llmc: the folder of llm.c."""

    def __init__(self, name, cores, log_directory, llmc=None):
        program, options, _ = (PEERS | BF16_PEERS | PAIRS | JUDGES | GPU_PEERS | BF16_GPU_PEERS)[name]
        self.name, self.asked = name, None
        self.log = pathlib.Path(log_directory) / f"{name}.log"
        listed = ",".join(map(str, cores))
        command = [*bound_to(cores), sys.executable, "-B", str(HERE / program)]
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [*command, *(word.format(cores=listed, llmc=llmc) for word in options.split())],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                env=os.environ | MALLOC,
            )

    def send(self, **request):
        """Sends one request; receive() waits for its reply."""
        self.asked = request["op"]
        with contextlib.suppress(BrokenPipeError):  # receive() says that it has ended
            print(json.dumps(request), file=self.process.stdin, flush=True)

    def receive(self, seconds=None):
        """Waits for the reply, so long at most: a peer that needs longer is ended."""
        if seconds is not None and not select.select([self.process.stdout], [], [], seconds)[0]:
            self.process.kill()
            self.process.wait()
            raise PeerError(f"{self.name}: {self.asked}: {LATE} {seconds:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            tail = self.log.read_text(encoding="utf-8", errors="replace")[-2000:]
            raise PeerError(f"{self.name}: ended early:\n{tail}")
        reply = json.loads(line)
        if "error" in reply:
            raise PeerError(f"{self.name}: {self.asked}: {reply['error']}")
        return reply

    def ask(self, **request):
        """Sends one request, waits for its reply."""
        self.send(**request)
        return self.receive()

    def close(self):
        """Ends the process."""
        with contextlib.suppress(BrokenPipeError):  # it has ended already
            self.process.stdin.close()
        self.process.wait()


def launcher(processes):
    """mpirun for that many processes of this host; nothing where they are threads."""
    if not processes:
        return []
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", *root, "--oversubscribe", "--bind-to", "none", "-n", str(processes)]


def mean_step(row):
    """A row's mean step in ms: its time over its steps. Workers that go on by themselves have no
    common step: the time in which all of them take a global batch."""
    case = row["case"]
    if case.get("ps_mode", "sync") != "sync":
        return case["batch_global"] / row["time"]["samples_per_s"] * 1e3
    return row["time"]["step_ms"]["mean"]


class Lockstep:
    """The lockstep program, called anew for every measurement."""

    def __init__(self, path, cores):
        self.path = path
        self.program = [*bound_to(cores), os.path.abspath(path)]

    def rows(self, model, *options, processes=0):
        """Runs the cases that the options name, under mpirun where there are processes; returns
        their rows."""
        command = [
            *self.program[:-1], *launcher(processes), self.program[-1], "run", "--model", model,
            "--shuffle", "no", "--results", "none", "--format", "jsonl", *map(str, options),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        if done.returncode != 0 or not lines:
            raise RunError(f"{' '.join(command)}: status {done.returncode}: {done.stderr.strip()}")
        return [json.loads(line) for line in lines]

    def block_rows(self, model, batch, steps, options, place=("--devices", "cpu:0"), *, gated=False,
                   processes=0, apart=False):
        """Rows of a turn's blocks: cases of one block each that differ in a seed, which nothing
        here depends on: the values are loaded, the samples come in the file's order. apart: a command
        for each, for cases that do not fit in memory together."""
        seeds = [str(seed) for seed in range(1, rounds.BLOCKS + 1)]
        gate = () if gated else ("--gate-steps", 0)
        return [row for some in (seeds if apart else [",".join(seeds)]) for row in self.rows(
            model, *place, "--batch", batch, "--steps", steps, "--warmup", steps, "--blocks", 1,
            "--seed", some, *gate, *options, processes=processes,
        )]

    def blocks(self, model, batch, steps, options):
        """The mean step of each block of a turn, in ms."""
        return [mean_step(row) for row in self.block_rows(model, batch, steps, options)]

    def run(self, model, *options, place=("--devices", "cpu:0")):
        """Runs one case, of `single` unless place says where else; returns its row."""
        (row,) = self.rows(model, *place, "--gate-steps", 0, *options)
        return row

    def floor(self, model, batch, files=()):
        """Milliseconds of the parts of a step, each timed alone, added up."""
        command = [
            *self.program, "micro", "floor", "--model", model, "--devices", "cpu:0",
            "--batch", str(batch), "--format", "jsonl", *files,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RunError(f"{' '.join(command)}: status {done.returncode}: {done.stderr.strip()}")
        last = json.loads(done.stdout.splitlines()[-1])["micro"]
        if last["op"] != "floor":
            raise RunError(f"{' '.join(command)}: no floor in its last line")
        return last["time_us"] * 1e-3

    def version(self):
        """What `lockstep --version` prints."""
        done = subprocess.run([self.path, "--version"], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    def save_initial(self, model, seed, path, files=(), place=("--devices", "cpu:0")):
        """Writes the initial values of a seed. files: options that name the data."""
        self.run(model, "--steps", 0, "--warmup", 0, "--seed", seed, "--save", path, *files, place=place)

    def losses(self, model, batch, steps, files, place):
        """The loss of each of the first steps. files: options that name values and data."""
        options = ["--batch", batch, "--steps", steps, "--warmup", 0, "--verbose", *files]
        row = self.run(model, *options, place=place)
        return row["train"]["losses"]
