# SPDX-License-Identifier: MIT
"""The training step in PyTorch's DistributedDataParallel: two processes, one core each, gloo.

Every process is peer_torch.py's tuned step on its half of the batch, its gradients averaged over
the processes while backward runs. Rank 0 serves, starts rank 1 and relays every request to it.
"""

import argparse
import contextlib
import datetime
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # two processes of one machine

import torch  # noqa: E402  (gloo reads the environment)
import torch.distributed as dist  # noqa: E402

import common  # noqa: E402
import peer_torch  # noqa: E402

RANKS = 2
TIMEOUT = datetime.timedelta(seconds=60)  # without the other rank


def replicate(model):
    """A model whose backward averages its gradients over the ranks; one bucket holds them all."""
    return torch.nn.parallel.DistributedDataParallel(
        model, broadcast_buffers=False, gradient_as_bucket_view=True, static_graph=True
    )


def make_build(rank):
    """The build function of one rank, see common.py."""
    build_replica = peer_torch.make_build("tuned", replicate)

    def build(case):
        common.shard(case, rank, RANKS)
        step, reset, _ = build_replica(case)

        def read(loss):
            mean = loss.detach() / RANKS  # of the whole batch, once the ranks' are added
            dist.all_reduce(mean)
            return [mean.item()]

        return step, reset, read

    return build


def start_other(store, cores):
    """Rank 1, which gets its requests on stdin and answers nobody."""
    command = [sys.executable, "-B", __file__, "--store", store, "--cores", cores]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def serve(rank, store, cores, relay=lambda line: None):
    """Serves one rank on its own core."""
    os.sched_setaffinity(0, {int(cores.split(",")[rank])})
    info = peer_torch.prepare("tuned", 1)
    file = dist.FileStore(store, RANKS)
    dist.init_process_group("gloo", store=file, rank=rank, world_size=RANKS, timeout=TIMEOUT)
    common.serve(make_build(rank), lambda: info, relay)
    dist.destroy_process_group()


@contextlib.contextmanager
def ended(process):
    """A process that ends when its stdin does, or is ended: it may wait for this one for ever."""
    try:
        yield process
    finally:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(TIMEOUT.total_seconds())
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main():
    """Without --store this is rank 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cores", required=True, help="comma-separated, one a rank")
    parser.add_argument("--store", help="where the ranks meet; this process is rank 1")
    arguments = parser.parse_args()
    if arguments.store:
        serve(1, arguments.store, arguments.cores)
        return
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="lockstep-ddp-"))
        store = str(pathlib.Path(directory) / "store")
        other = stack.enter_context(ended(start_other(store, arguments.cores)))

        def relay(line):
            other.stdin.write(line)
            other.stdin.flush()

        serve(0, store, arguments.cores, relay)


if __name__ == "__main__":
    main()
