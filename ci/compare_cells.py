# SPDX-License-Identifier: MIT
"""The cells of ci/compare-steps.sh: what both programs run. Standard library only.

A line is a command of `lockstep run` (or of `verify`, if it begins so) without the shared options; `{a|b}` means one
cell for each alternative, several of them their product. `mpirun N` before it: under mpirun. A list with commas goes
to one process, and each of its rows is a cell. `@` is a file that both programs write and that is compared, `%` the
file of parameters that LOADED wrote before. Sizes are small: the tasks of a step do not depend on them.
"""

import itertools
import re

# 14 does not divide 45 or 60: sample orders that wrap around, or a last batch of 3, fewer than 4 or 5 replicas.
STEPS = "--data synthetic:60 --batch 14 --steps 3 --warmup 1"
TAIL = "--data synthetic:45 --batch 14 --epochs 2 --warmup 1"
EITHER = "{--data synthetic:60 --steps 3|--data synthetic:45 --epochs 2} --batch 14 --warmup 1"
ONCE = "{--data synthetic:20 --batch 6 --steps 2|--data synthetic:9 --batch 6 --epochs 1} --warmup 0"
MODES = "--reduce {fast|exact} --capture {yes|no}"
EXACT = "--reduce {fast|exact --micro-shards 6}"
MLP = "--model mlp:784-12-10"
DEEP = "--model mlp:12-9-8-7-6-3"
SMALL = "--model {mlp:784-12-10|poly|cnn|twin-lstm:6}"
LARGE = "--model {cifar10|lstm-stack:2|resnet:8}"
SUMS = "{flat|ring|tree|halving-doubling|direct}"
CORES = "--cpu-devices 3 --cores-per-device 2"  # all-reduces and messages on their own queues
HYBRID = "--strategy hybrid --hybrid-inner {model-parallel|pipeline}"

# Writes the file `%`.
LOADED = f"run {MLP} {STEPS} --seed 5 --save %"

CELLS = f"""
# Models x strategies x devices x modes x capture x tails
{SMALL} {EITHER} --strategy single {MODES}
{SMALL} {EITHER} --strategy independent --devices {{2|3}} --capture {{yes|no}}
{SMALL} {EITHER} --strategy towers --devices {{2|5}} {MODES}
{SMALL} {EITHER} --strategy mirrored --devices {{2|5}} {MODES}
{SMALL} {EITHER} --strategy ps --devices {{2|5}} {MODES}
--model {{mlp:784-12-10|twin-lstm:6}} {EITHER} --strategy towers,mirrored,ps,independent --devices 1,3,4 {EXACT}
{DEEP} {EITHER} --strategy model-parallel,pipeline --devices 1,2,3,4,5 {MODES}
--model {{cnn|twin-lstm:6}} {EITHER} --strategy {{model-parallel|pipeline}} --devices {{2|3}} {MODES}
--model {{mlp:784-12-10|twin-lstm:6}} {EITHER} {HYBRID} --devices 4 {MODES}
{LARGE} {ONCE} --strategy single {EXACT}
{LARGE} {ONCE} --strategy {{towers|mirrored|ps}} --devices 2 {EXACT}
{LARGE} {ONCE} --strategy {{model-parallel|pipeline}} --devices 2 {EXACT}
{LARGE} {ONCE} {HYBRID} --devices 4 {EXACT}
{LARGE} {ONCE} --strategy {{towers|mirrored|ps|pipeline}} --devices 3 --capture no --save @
--model resnet:20 {ONCE} --strategy {{mirrored --devices 2 --bucket-bytes 0|pipeline --devices 3}} --capture no

# mirrored: algorithms, buckets, on one queue or two, on devices ordered by events, on ranks
{DEEP} {EITHER} --strategy mirrored --devices {{2|3|4|5}} --allreduce {SUMS} --bucket-bytes {{auto|0|256}}
{DEEP} {EITHER} --strategy mirrored --devices {{3|4}} --allreduce {SUMS} --bucket-bytes {{auto|0}} --capture no
{DEEP} {TAIL} --strategy mirrored --devices {{2|3}} {CORES} --allreduce {SUMS} --bucket-bytes {{0|256}} --capture {{yes|no}}
--model mlp:784-40-20-10 {EITHER} --strategy mirrored --devices {{2|3}} {CORES} {MODES}
{DEEP} {EITHER} --strategy mirrored --devices {{2|5}} --comm device --allreduce {SUMS} --bucket-bytes {{auto|0}}
{DEEP} {TAIL} --strategy mirrored --devices 3 {CORES} --comm device --allreduce {SUMS} --bucket-bytes 256 --capture {{yes|no}}
{DEEP} {EITHER} --strategy mirrored --devices {{2|3}} {CORES} --comm device {MODES}
{DEEP} {EITHER} --strategy mirrored --devices 4 --comm device {MODES}
{DEEP} {TAIL} --strategy mirrored --ranks {{2|3}} --devices {{1|2}} --allreduce {{auto|hierarchical|ring|direct}}
{DEEP} {EITHER} --strategy {{mirrored|independent}} --ranks 2 --devices 2 --capture {{yes|no}}
{MLP} {EITHER} --strategy mirrored --ranks {{2|4}} --devices 1 --reduce exact --micro-shards {{1|3|16}}
--model poly {STEPS} --strategy {{mirrored|towers}} --devices 14 {MODES}
--model poly --data synthetic:60 --batch 32 --steps 2 --strategy {{mirrored|towers}} --devices 32 {EXACT}

# towers: staged, not colocated, variables elsewhere
{MLP} {EITHER} --strategy towers --devices {{2|3}} --towers-staged {{yes|no}} --colocate-gradients {{yes|no}} {MODES}
{MLP} {EITHER} --strategy towers --devices {{cpu:1|cpu:1+cpu:2}} --cpu-devices 3 --towers-staged {{yes|no}} --colocate-gradients {{yes|no}} {EXACT}
--model {{poly|twin-lstm:6|cnn}} {TAIL} --strategy towers --devices 3 --towers-staged {{yes|no}} --colocate-gradients {{yes|no}} {EXACT}
{MLP} {EITHER} --strategy towers --devices {{2|5}} --variable-device /cpu:1 --towers-staged {{yes|no}} --colocate-gradients {{yes|no}}
{LARGE} {ONCE} --strategy towers --devices 2 --towers-staged {{yes --colocate-gradients yes|no --colocate-gradients no}}
--model twin-lstm:6 {STEPS} --strategy towers --devices 2 {CORES} --towers-staged yes {MODES}

# ps: one process, ranks, several servers, colocated or not, both kinds of shards; order of arrival
{MLP} {EITHER} --strategy ps --devices {{1|3|4}} {MODES}
{MLP} {TAIL} --strategy ps --devices {{2|3}} --variable-device /cpu:1 {EXACT}
{MLP} {EITHER} --strategy ps --devices {{2|4}} --comm device {MODES}
{MLP} {EITHER} --strategy ps --ranks {{2|3}} {MODES}
{DEEP} {EITHER} --strategy ps --ranks {{4|5}} --ps-servers {{1|2}} --ps-shard {{bytes|variable}} --ps-colocate {{yes|no}} {EXACT}
--model {{poly|cnn|twin-lstm:6}} {TAIL} --strategy ps --ranks 3 --ps-servers 2 --ps-colocate {{yes|no}} {EXACT}
--model mlp:784-300-40-10 {TAIL} --strategy ps --devices {{2|3}} {CORES} {MODES}
{LARGE} {ONCE} --strategy ps --ranks 3 --ps-servers 2 --ps-shard {{bytes|variable}} --save @
{MLP} {STEPS} --strategy ps --ps-mode {{async|ssp}} --devices {{1|2|4}} --capture {{yes|no}}
{MLP} {TAIL} --strategy ps --ps-mode {{async|ssp --ps-staleness 0|ssp --ps-staleness 1}} --ranks {{2|3|5}} --capture {{yes|no}}
{MLP} {EITHER} --strategy ps --ps-mode {{async|ssp}} --ranks 4 --ps-servers 2 --ps-colocate {{yes|no}} --ps-shard {{bytes|variable}}
{MLP} {EITHER} --strategy ps --ps-backup-workers {{1|2}} {{--devices 4|--ranks 5|--ranks 5 --ps-servers 2|--ranks 4 --ps-colocate yes}}
--model {{cifar10|resnet:8}} {ONCE} --strategy ps --ps-mode {{async|ssp}} --devices 2

# A divided model: places, micro-batches, schedules, replicas
{DEEP} {EITHER} --strategy model-parallel --devices 3 --model-parallel-place dense0=cpu:2,dense1=cpu:0,dense2=cpu:1,dense3=cpu:2 --cpu-devices 3 {MODES}
--model twin-lstm:6 {TAIL} --strategy model-parallel --devices {{2|3|4}} {MODES}
{DEEP} {EITHER} --strategy pipeline --devices {{2|3|5}} --pipeline-microbatches {{1|2|3|8}} --pipeline-schedule {{gpipe|1f1b}}
{DEEP} {TAIL} --strategy pipeline --devices {{2|4}} --pipeline-microbatches {{2|5}} --pipeline-schedule {{gpipe|1f1b}} {MODES}
{DEEP} {EITHER} --strategy {{pipeline|model-parallel}} --ranks {{2|3}} --devices {{1|2}} {EXACT}
{DEEP} {EITHER} --strategy pipeline --devices 2 --pipeline-microbatches {{2|4|8}} --pipeline-schedule interleaved --pipeline-chunks 2
--model {{cnn|twin-lstm:6|lstm-stack:3}} {TAIL} --strategy pipeline --devices 3 --pipeline-schedule {{1f1b|zb-h1}} --pipeline-microbatches {{2|4}} {EXACT}
{DEEP} {EITHER} --strategy {{pipeline|hybrid --hybrid-inner pipeline --hybrid-outer zero}} --devices 4 --pipeline-schedule {{zb-h1|zb-h2}} {MODES}
{DEEP} {EITHER} {HYBRID} --devices 6 --hybrid-replicas {{1|2|3|6}} {EXACT}
{DEEP} {TAIL} {HYBRID} --devices {{4|6}} --allreduce {SUMS} --bucket-bytes {{auto|0}}
{DEEP} {EITHER} --strategy hybrid --hybrid-inner pipeline --devices 4 --pipeline-schedule {{gpipe|1f1b}} --pipeline-microbatches {{1|3}} {MODES}
{DEEP} {EITHER} {HYBRID} --ranks {{2|4}} --devices {{1|2}} --hybrid-replicas {{1|2}} --reduce {{fast|exact}}
{DEEP} {EITHER} --strategy hybrid --hybrid-inner model-parallel --hybrid-outer {{mirrored|zero}} --devices 4 --gradient-accumulation-steps 3 --gradient-accumulation-exchange {{last|each}} {EXACT}
{DEEP} {EITHER} --strategy hybrid --hybrid-inner pipeline --hybrid-outer zero --zero-stage {{2|3}} --devices 4 --bucket-bytes 0 --pipeline-schedule {{gpipe|1f1b|zb-h1|zb-h2}} {EXACT}
{DEEP} {TAIL} {HYBRID} --devices 4 --cpu-devices 4 --cores-per-device 2 --bucket-bytes {{auto|0}} --capture {{yes|no}}
{DEEP} {TAIL} {HYBRID} --devices 4 --comm device {MODES}

# Variables in shares, layers and positions divided
{MLP} {EITHER} --strategy zero --devices {{2|3}} --zero-stage {{1|2|3}} --bucket-bytes {{auto|256}} {MODES}
{MLP} {TAIL} --strategy zero --devices 3 --zero-stage 3 {{--zero-reshard no|--zero-windows 3}} {EXACT}
{DEEP} {TAIL} --strategy tensor-parallel --devices {{2|3}} --reduce {{fast|exact --micro-splits 3}}
--model gpt:2-2-8-4-16 {ONCE} --strategy {{tensor-parallel|tensor-parallel --tensor-parallel-sequence yes|context-parallel|zero}} --devices 2

# Replicas that average parameters: periods, tails, algorithms, buckets, on one queue or two, on ranks
{SMALL} {EITHER} --strategy local-sgd --devices {{2|3}} --local-sgd-every {{1|2}} --capture {{yes|no}}
{SMALL} {EITHER} --strategy gossip --devices {{2|3|5}} --capture {{yes|no}}
{DEEP} {TAIL} --strategy {{local-sgd --local-sgd-every 2 --bucket-bytes {{auto|0|256}}|gossip}} --devices 3 --optimizer {{sgd|adam}}
{DEEP} {TAIL} --strategy local-sgd --local-sgd-every 2 --devices {{3|4}} --allreduce {SUMS}
{DEEP} {TAIL} --strategy {{local-sgd --local-sgd-every 2|gossip}} --devices 2 {{{CORES}|--comm device|--clip 0.1|--link latency=100us|--inject delay=1:1ms}}
{MLP} {TAIL} --strategy {{local-sgd --local-sgd-every 3|gossip}} --ranks 3 --devices {{1|2}}
mpirun {{2|3}} {MLP} {TAIL} --strategy {{local-sgd --local-sgd-every 2|gossip}} --capture yes,no

# Links, faults
{MLP} {EITHER} --strategy {{mirrored|towers|ps|pipeline|model-parallel}} --devices 2 --link {{latency=100us|latency=50us,bandwidth=1GB/s}} {EXACT}
{MLP} {TAIL} --strategy mirrored --devices 3 --allreduce {SUMS} --link latency=100us,bandwidth=1GB/s --capture {{yes|no}}
{MLP} {TAIL} --strategy towers --devices 3 --towers-staged {{yes|no}} --colocate-gradients {{yes|no}} --link bandwidth=1GB/s
{DEEP} {TAIL} {HYBRID} --devices 4 --link latency=100us --reduce {{fast|exact}}
{MLP} {TAIL} --strategy ps --ranks 4 --ps-servers 2 --ps-mode {{sync|async}} --link latency=100us
{MLP} {STEPS} --strategy mirrored --devices 2 {{{CORES}|--comm device}} --link latency=100us,bandwidth=1GB/s --reduce {{fast|exact}}
{MLP} {STEPS} --strategy {{single|towers --devices 2|mirrored --devices 2|ps --devices 2|pipeline --devices 2|model-parallel --devices 2|hybrid --devices 4}} --inject bitflip={{0:0|0:2}} {EXACT}
{MLP} {STEPS} --strategy {{towers|mirrored|ps}} --devices 3 --inject bitflip={{2:1|1:3}} {MODES}
{MLP} {TAIL} --strategy {{towers --colocate-gradients no|mirrored|ps}} --devices 3 --inject {{bitflip=1:3|delay=1:1ms}}
{MLP} {STEPS} --strategy {{pipeline|model-parallel|hybrid --hybrid-replicas 2}} --devices 2 --inject {{bitflip=1:1|delay=1:1ms}}
{MLP} {STEPS} --strategy ps {{--devices 3|--ranks 3}} --ps-mode {{sync|async|ssp}} --inject delay=1:1ms

# Batch statistics, averages, weight decay, optimizers
--model resnet:8 {ONCE} --sync-bn yes --strategy {{towers|mirrored|ps}} --devices {{2|3}} {EXACT}
--model resnet:8 {ONCE} --sync-bn {{yes|no}} --strategy hybrid --devices 4 {EXACT} --save @
--model resnet:8 {ONCE} --sync-bn yes --strategy mirrored --devices 2 {{--comm device|--capture no|--ranks 2|{CORES}}}
--model cifar10 --data synthetic:20 --batch 6 --epochs 2 --warmup 0 --strategy {{single|towers --devices 2|mirrored --devices 2|ps --devices 2|hybrid --devices 4}} --augment {{yes|no}} --save @
{MLP} {TAIL} --lr-schedule {{linear|cosine|wsd}} --lr-warmup-steps 2 --strategy {{single|mirrored --devices 2|ps --ranks 3}}
{MLP} {TAIL} --optimizer {{sgd|momentum:0.9|adam|rmsprop}} --lr 0.01 --strategy {{single|towers --devices 3|mirrored --devices 3|ps --ranks 3|pipeline --devices 2|hybrid --devices 4}}

# The training loop: blocks, targets, files, orders, scaling, no steps, no gate
{MLP} {STEPS} --blocks 3 --strategy {{single|independent --devices 2|towers --devices 2 --towers-staged yes|mirrored --devices 3|ps --devices 2|pipeline --devices 2|hybrid --devices 4}} {EXACT}
--model cifar10 --data synthetic:20 --batch 6 --steps 3 --warmup 0 --blocks 3 --strategy {{mirrored|ps|towers}} --devices 2
{MLP} {TAIL} --load % --save @ --strategy {{single|independent --devices 2|towers --devices 2|mirrored --devices 3|ps --ranks 3 --ps-servers 2|model-parallel --devices 2|pipeline --devices 2|hybrid --devices 4}} {EXACT}
{MLP} --data synthetic:60 --batch 14 --strategy {{single|towers --devices 2|mirrored --devices 2|ps --devices 2|pipeline --devices 2|hybrid --devices 4}} {{--steps 0 --warmup 0|--steps 1 --warmup 0|--steps 2 --gate-steps 0|--steps 12 --warmup 4 --gate-steps 1}}
{MLP} --data synthetic:60 --batch 14 --strategy {{single|towers --devices 2|mirrored --devices 2|ps --devices 2|pipeline --devices 2}} {{--steps 4 --shuffle no|--steps 4 --scaling weak|--epochs 3 --shuffle no|--steps 20 --target loss=2|--epochs 3 --target accuracy=0.2|--steps 4 --baseline yes|--steps 4 --seed 7|--steps 4 --memory fraction=0.01}}
{MLP} --data synthetic:10 --batch 20 {{--epochs 2 --warmup 0|--epochs 3 --warmup 2}} --strategy {{single|towers --devices 3|mirrored --devices 3|ps --devices 2|pipeline --devices 2|hybrid --devices 4}}
--model poly --data synthetic:15 --batch 8 --epochs 2 --warmup 0 --strategy {{towers|mirrored|ps}} --devices 5 {MODES}
verify {MLP} --data synthetic:100 --batch 30 --steps 12 --warmup 0 --strategy single,towers,mirrored,ps,pipeline,hybrid --devices 1,2,4 --reduce fast,exact
verify --model poly,cnn,twin-lstm:6 --data synthetic:45 --batch 14 --epochs 1 --warmup 0 --strategy single,towers,mirrored,ps --devices 1,3 --reduce fast,exact
{MLP} {STEPS} --strategy {{mirrored|towers|ps|pipeline}} --devices 2 --log-placement yes

# Processes
mpirun {{2|4}} {MLP} {TAIL} --strategy mirrored,independent,ps --reduce fast,exact --capture yes,no
mpirun {{2|3|4}} {DEEP} {TAIL} --strategy mirrored --bucket-bytes auto,0 --allreduce auto,flat,ring,tree,halving-doubling,direct,hierarchical,library
mpirun 2 {DEEP} {TAIL} --strategy mirrored --devices 2 --bucket-bytes auto,0 --allreduce flat,ring,direct,hierarchical --capture yes,no
mpirun 2 {MLP} {STEPS} --strategy mirrored --devices {{1|2}} {CORES} --reduce fast,exact --capture yes,no
mpirun {{2|3|4}} {DEEP} {EITHER} --strategy pipeline,model-parallel --reduce fast,exact --capture yes,no
mpirun 2 {DEEP} {TAIL} --strategy pipeline --devices 2 --pipeline-schedule gpipe,1f1b --pipeline-microbatches 2,5 --reduce fast,exact
mpirun {{2|4}} {DEEP} {EITHER} {HYBRID} --devices 2 --hybrid-replicas 1,2,4 --reduce fast,exact
mpirun 4 {DEEP} {TAIL} {HYBRID} --hybrid-replicas 2 --allreduce auto,ring,hierarchical --bucket-bytes auto,0
mpirun {{3|4}} {DEEP} {EITHER} --strategy ps --ps-servers 1,2 --ps-shard bytes,variable --ps-colocate yes,no --reduce fast,exact
mpirun {{2|4}} {MLP} {TAIL} --strategy ps --ps-mode async,ssp --ps-colocate yes,no
mpirun 4 {MLP} {TAIL} --strategy ps --ps-backup-workers 1 --ps-colocate yes,no
mpirun 2 --model twin-lstm:6,cnn {TAIL} --strategy mirrored,ps,model-parallel,pipeline --reduce fast,exact
mpirun 2 --model cifar10 {ONCE} --strategy {{mirrored|ps --ps-colocate yes|pipeline}} --reduce fast,exact
mpirun 2 --model resnet:8 {ONCE} --strategy mirrored --sync-bn yes,no --reduce fast,exact
mpirun 4 --model resnet:8 {ONCE} --strategy mirrored --sync-bn yes --save @
mpirun 2 {MLP} {STEPS} --strategy mirrored,ps,pipeline --link latency=100us --reduce fast,exact
mpirun 2 {MLP} {STEPS} --strategy {{mirrored|ps|pipeline}} --inject bitflip=0:2,bitflip=1:1,delay=1:1ms
mpirun 2 {MLP} {TAIL} --load % --save @ --strategy {{mirrored|ps|pipeline|model-parallel}} --reduce {{fast|exact}}
mpirun 2 {MLP} {STEPS} --blocks 2 --strategy mirrored,ps,pipeline --reduce fast,exact

# Refusals: the same line, the same status
--strategy single --devices 2
--strategy {{local-sgd|gossip}} --devices 2 --reduce exact
--strategy gossip --devices 2 --local-sgd-every 2
--strategy single --ranks 2
--strategy towers --ranks 2 --devices 1
--strategy {{towers|mirrored|ps}} --devices 4 --batch 3
--strategy {{independent --reduce exact|mirrored --devices 2 --reduce exact --bucket-bytes 0|mirrored --devices 2 --reduce exact --allreduce ring}}
--strategy {{mirrored --devices 2 --towers-staged yes|towers --devices 2 --allreduce ring|single --ps-mode async|ps --devices 2 --ps-staleness 3}}
--strategy {{hybrid --devices 3|hybrid --devices 4 --hybrid-replicas 3|mirrored --devices 2 --hybrid-replicas 2}}
--model poly --strategy {{model-parallel|pipeline}} --devices 2
{MLP} --strategy {{pipeline|model-parallel}} --devices 5
{MLP} --strategy pipeline --devices 2 --batch 3 --data synthetic:60 --steps 2 --pipeline-microbatches {{4|0}}
{MLP} --strategy model-parallel --devices 2 --model-parallel-place {{dense0=cpu:7|dense9=cpu:0|dense0}}
--strategy ps --ranks 3 --ps-servers {{3|0}}
--strategy ps --devices 2 --ps-mode {{async|ssp}} {{--reduce exact|--comm device|--ps-backup-workers 1}}
--strategy ps --devices 2 --ps-backup-workers 2
--strategy {{towers|ps}} --devices 2 --variable-device /cpu:99
--strategy mirrored --devices 2 --inject {{bitflip=2:1|bitflip=0:99|delay=5:1ms}}
--strategy {{mirrored|towers|ps|pipeline}} --devices 2 --comm {{device|nccl|mpi}} --model poly --data synthetic:60 --batch 14 --steps 2 --warmup 1
--strategy {{mirrored|towers}} --devices cpu:0+cpu:0
--strategy {{nothing|mirrored --allreduce library --devices 2 --model poly --steps 2}}
--model poly --strategy {{towers|mirrored}} --devices 3 --data synthetic:50 --batch 48 --epochs 1 --warmup 0 --inject bitflip=0:1
mpirun 2 {{--strategy single|--strategy towers|--strategy ps --ps-servers 2|--strategy mirrored --ranks 2|--strategy ps --ps-colocate yes --ps-backup-workers 2}} --model poly --steps 2
mpirun 3 --strategy {{hybrid --devices 1|hybrid --devices 2 --hybrid-replicas 2|pipeline}} --model mlp:784-16-10 --data synthetic:50 --steps 2
"""


def expand(line):
    """Every choice of alternatives {a|b}; braces may be nested."""
    inner = re.search(r"\{([^{}]*)\}", line)
    if not inner:
        return [" ".join(line.split())]
    head, tail = line[: inner.start()], line[inner.end() :]
    return list(itertools.chain.from_iterable(expand(head + way + tail) for way in inner[1].split("|")))


def cells(quick=False):
    """Distinct commands in order. Quick: one of each line, at varying positions of its product; large models rarely."""
    commands = []
    for number, line in enumerate(line for line in CELLS.splitlines() if line and not line.startswith("#")):
        ways = expand(line)
        if quick:
            large = re.search("resnet|cifar10|lstm-stack", line)
            ways = [] if large and number % 3 else [ways[number * 7 % len(ways)]]
        commands += ways
    return list(dict.fromkeys(commands))
