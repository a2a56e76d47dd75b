#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every planted bug (hooks.txt) is detected, and nothing is detected without one: by the gate, or, for
# servers in order of arrival, where the gate compares nothing, by their replay (bench/tests/ps_replay.c). Each line
# of the table is a bug and a configuration of `verify` that shows it; unless thorough, a bug's first line runs, and each
# fourth configuration without a bug. A bug
# without a line fails the test. Races are searched with random pauses, for one seed after another. Prints what detected
# each bug, and after how many steps. No tolerance except the gate's.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
unset LOCKSTEP_PLANT LOCKSTEP_FUZZ LOCKSTEP_FAIL
if [ ! -x "$LOCKSTEP" ] || LOCKSTEP_PLANT='?' "$LOCKSTEP" --version >/dev/null 2>"$dir/bugs"; then
  echo "skipped: $LOCKSTEP is not built with LOCKSTEP_HOOKS; ci/test.sh builds it (preset hooks)"
  exit 77
fi
. "$SOURCE_DIR/bench/tests/ps_replay.sh"
fail() { echo "$1"; exit 1; }
sed -n 's/.*; bugs are: //p' "$dir/bugs" | tr -d ' ' | tr ',' '\n' | sort >"$dir/names"
[ "$(wc -l <"$dir/names")" -ge 12 ] || fail "fewer than 12 bugs: $(cat "$dir/bugs")"

# Bug, number of seeds to try (0: no pauses), options.
cat >"$dir/table" <<'TABLE'
average 0 --strategy towers --devices 3
average 0 --strategy towers --devices 3 --reduce exact
average 0 --strategy mirrored --devices 3
average 0 --strategy mirrored --devices 3 --reduce exact
local_scale 0 --strategy towers --devices 3
local_scale 0 --strategy towers --devices 3 --reduce exact
local_scale 0 --strategy mirrored --devices 3
local_scale 0 --strategy mirrored --devices 3 --reduce exact
uneven_share 0 --strategy towers --devices 3
uneven_share 0 --strategy towers --devices 3 --reduce exact
uneven_share 0 --strategy mirrored --devices 3
uneven_share 0 --strategy mirrored --devices 3 --batch 2000 --data synthetic:4000
uneven_share 0 --strategy mirrored --devices 3 --reduce exact
uneven_share 0 --strategy single --devices 1 --reduce exact
replica_seed 0 --strategy towers --devices 3
replica_seed 0 --strategy towers --devices 3 --reduce exact
replica_seed 0 --strategy mirrored --devices 2
replica_seed 0 --strategy mirrored --devices 2 --reduce exact
tree_order 0 --strategy towers --devices 3 --reduce exact
bucket_left_out 0 --strategy mirrored --devices 2
bucket_left_out 0 --strategy mirrored --devices 3 --bucket-bytes 0 --allreduce tree
bucket_left_out 0 --strategy mirrored --devices 3 --reduce exact
bucket_early 0 --strategy mirrored --devices 2
bucket_early 0 --strategy mirrored --devices 3 --bucket-bytes 2KiB --allreduce halving-doubling
slice_element 0 --strategy mirrored --devices 3 --allreduce direct
ring_round 0 --strategy mirrored --devices 3 --allreduce ring
sent_again 0 --strategy mirrored --devices 3 --allreduce ring
sent_again 0 --strategy zero --devices 3 --reduce exact --data synthetic:1050 --epochs 1
ring_round 0 --strategy mirrored --devices 4 --reduce exact
meeting_left_out 20 --strategy mirrored --devices 3 --allreduce direct
shared_once 0 --strategy mirrored --devices 2 --model tied --bucket-bytes 0
shared_once 0 --strategy mirrored --devices 3 --model tied --bucket-bytes 0 --allreduce flat
stale_variables 0 --strategy towers --devices 3
stale_variables 0 --strategy towers --devices 3 --reduce exact
fetched_twice 0 --strategy towers --devices 2
fetched_twice 0 --strategy towers --devices 3 --reduce exact
tower_left_out 0 --strategy towers --devices 3
tower_left_out 0 --strategy towers --devices 2 --reduce exact
done_wait 20 --strategy towers --devices 3 --capture no
done_wait 20 --strategy towers --devices 3 --capture no --reduce exact
ready_wait 20 --strategy towers --devices 3 --capture no
ready_wait 20 --strategy towers --devices 3 --capture no --reduce exact
final_wait 20 --strategy mirrored --cpu-devices 3 --cores-per-device 2 --devices 2 --capture no
final_wait 20 --strategy mirrored --cpu-devices 3 --cores-per-device 2 --devices 3 --capture no --bucket-bytes 2KiB
reduced_wait 20 --strategy mirrored --cpu-devices 3 --cores-per-device 2 --devices 3 --capture no
reduced_wait 20 --strategy mirrored --cpu-devices 3 --cores-per-device 2 --devices 3 --capture no --reduce exact
applied_twice 0 --strategy towers --devices 2
applied_twice 0 --strategy towers --devices 3 --reduce exact
applied_twice 0 --strategy mirrored --devices 2
applied_twice 0 --strategy mirrored --devices 3 --reduce exact
applied_twice 0 --strategy ps --devices 2
applied_twice 0 --strategy ps --ranks 4 --ps-servers 2 --reduce exact
average 0 --strategy ps --devices 3
uneven_share 0 --strategy ps --ranks 4
replica_seed 0 --strategy ps --ranks 3 --ps-colocate yes
tree_order 0 --strategy ps --devices 3 --reduce exact
push_overwrites 0 --strategy ps --devices 2
push_overwrites 0 --strategy ps --ranks 5 --ps-servers 2 --ps-shard variable
push_early 20 --strategy ps --cpu-devices 3 --cores-per-device 2 --devices 2 --capture no
push_early 20 --strategy ps --cpu-devices 4 --cores-per-device 2 --ranks 4 --ps-servers 2 --capture no
pull_wait 20 --strategy ps --cpu-devices 3 --cores-per-device 2 --devices 2 --capture no
pull_wait 20 --strategy ps --cpu-devices 3 --cores-per-device 2 --ranks 3 --capture no --reduce exact
applied_twice 0 --strategy ps --devices 3 --ps-mode async
pull_wait 20 --strategy ps --cpu-devices 3 --cores-per-device 2 --devices 2 --ps-mode async --capture no
push_early 20 --strategy ps --cpu-devices 3 --cores-per-device 2 --devices 2 --ps-mode ssp --capture no
bound_left_out 20 --strategy ps --devices 3 --ps-mode ssp --ps-staleness 0
order_noted 0 --strategy ps --ranks 4 --ps-servers 2 --ps-mode async
raw_evaluated 0 --strategy ps --devices 2 --model cifar10 --data synthetic:60 --batch 8 --steps 2
raw_evaluated 0 --strategy ps --ranks 3 --model cifar10 --data synthetic:60 --batch 8 --steps 2 --reduce exact
part_evaluated 0 --strategy mirrored --devices 3
part_evaluated 0 --strategy zero --zero-stage 3 --devices 2 --reduce exact
mask_left_out 0 --strategy single --devices 1
mask_left_out 0 --strategy mirrored --devices 3
mask_left_out 0 --strategy single --devices 1 --reduce exact
mask_left_out 0 --strategy ps --devices 3 --ps-mode async
decay_by_one 0 --strategy zero --devices 2 --model cifar10 --data synthetic:60 --batch 8 --steps 1
not_turned 0 --strategy single --devices 1 --model cifar10 --data synthetic:60 --batch 8 --steps 1
mean_over_all 0 --strategy ps --devices 3 --ps-backup-workers 1
mean_over_all 0 --strategy ps --ranks 6 --ps-servers 2 --ps-backup-workers 2
late_added 20 --strategy ps --devices 4 --ps-backup-workers 2
state_not_mirrored 0 --strategy mirrored --devices 2
state_not_mirrored 0 --strategy mirrored --devices 3 --reduce exact
update_left_out 0 --strategy mirrored --devices 2 --steps 1
update_left_out 0 --strategy mirrored --devices 3 --steps 1 --reduce exact
update_left_out 0 --strategy mirrored --devices 3 --bucket-bytes 0 --allreduce tree
first_loss 0 --strategy towers --devices 2
first_loss 0 --strategy towers --devices 3 --reduce exact
first_loss 0 --strategy mirrored --devices 2
first_loss 0 --strategy mirrored --devices 3 --reduce exact
local_statistics 0 --strategy towers --devices 3 --model resnet:8 --sync-bn yes --batch 9 --data synthetic:36 --steps 2
local_statistics 0 --strategy mirrored --devices 2 --model resnet:8 --sync-bn yes --batch 9 --data synthetic:36 --steps 2
local_statistics 0 --strategy mirrored --devices 3 --model resnet:8 --sync-bn yes --batch 9 --data synthetic:36 --steps 2 --reduce exact
tail_position 0 --strategy towers --devices 3 --data synthetic:250 --epochs 3
tail_position 0 --strategy mirrored --devices 3 --data synthetic:250 --epochs 3
tail_not_reduced 0 --strategy mirrored --devices 3 --data synthetic:250 --epochs 3
branch_left_out 0 --strategy model-parallel --devices 2 --model twin-lstm:8 --data synthetic:60 --batch 20
branch_left_out 0 --strategy hybrid --devices 4 --model twin-lstm:8 --data synthetic:60 --batch 20 --reduce exact
copy_stale 0 --strategy model-parallel --devices 2 --model twin-lstm:8 --data synthetic:60 --batch 20
copy_stale 0 --strategy hybrid --devices 4 --model twin-lstm:8 --data synthetic:60 --batch 20
stage_stale 0 --strategy pipeline --devices 3
stage_stale 0 --strategy hybrid --devices 4 --hybrid-inner pipeline --reduce exact
micro_left_out 0 --strategy pipeline --devices 2
micro_left_out 0 --strategy hybrid --devices 4 --hybrid-inner pipeline
branch_left_out 0 --strategy pipeline --devices 2 --model gpt:2-2-16-8-64 --data synthetic:60 --batch 16 --pipeline-schedule interleaved
in_flight_one_short 0 --strategy pipeline --devices 2 --pipeline-schedule 1f1b
in_flight_one_short 0 --strategy pipeline --devices 2 --pipeline-schedule interleaved --model mlp:784-20-18-16-10 --reduce exact
border_wait 20 --strategy pipeline --devices 3 --pipeline-schedule 1f1b --capture no
border_wait 20 --strategy hybrid --devices 4 --capture no
place_not_reduced 0 --strategy hybrid --devices 4
place_not_reduced 0 --strategy hybrid --devices 6 --hybrid-replicas 3 --reduce exact
local_scale 0 --strategy hybrid --devices 4
bucket_early 0 --strategy hybrid --devices 4
ring_round 0 --strategy hybrid --devices 6 --hybrid-replicas 3 --allreduce ring
averaged_in_place 0 --strategy local-sgd --devices 3 --local-sgd-every 2
averaged_in_place 0 --strategy local-sgd --devices 2 --steps 2
averaged_in_place 0 --strategy gossip --devices 2
averaged_in_place 0 --strategy gossip --devices 5
average 0 --strategy local-sgd --devices 3 --local-sgd-every 1
average 0 --strategy independent --devices 2
bucket_left_out 0 --strategy local-sgd --devices 3 --bucket-bytes 0 --local-sgd-every 2
share_not_summed 0 --strategy zero --devices 2
share_not_summed 0 --strategy zero --devices 3 --reduce exact --bucket-bytes 0
scatter_early 0 --strategy zero --devices 2
scatter_early 0 --strategy zero --devices 3 --allreduce halving-doubling --bucket-bytes 2KiB
gather_left_out 0 --strategy zero --devices 2
gather_left_out 0 --strategy zero --devices 3 --reduce exact --bucket-bytes 0
gather_stale 0 --strategy zero --devices 2 --allreduce ring
gather_stale 0 --strategy zero --devices 3 --reduce exact --bucket-bytes 0
shared_wait 20 --strategy zero --cpu-devices 3 --cores-per-device 2 --devices 3 --capture no
applied_twice 0 --strategy zero --devices 3 --optimizer adam
update_left_out 0 --strategy zero --devices 2 --steps 1
tail_position 0 --strategy zero --devices 3 --data synthetic:250 --epochs 3
share_not_summed 0 --strategy zero --zero-stage 2 --devices 3 --bucket-bytes 0
scatter_early 0 --strategy zero --zero-stage 3 --devices 2 --bucket-bytes 2KiB
gather_stale 0 --strategy zero --zero-stage 2 --devices 2 --bucket-bytes 0
shared_wait 20 --strategy zero --zero-stage 3 --cpu-devices 3 --cores-per-device 2 --devices 3 --capture no
window_early 20 --strategy zero --zero-stage 3 --cpu-devices 3 --cores-per-device 2 --devices 3 --capture no --bucket-bytes 0
window_not_refilled 0 --strategy zero --zero-stage 3 --devices 2 --bucket-bytes 0
share_stale 0 --strategy zero --zero-stage 3 --devices 2
pieces_left_out 0 --strategy zero --zero-stage 2 --devices 2 --reduce exact
pieces_left_out 0 --strategy zero --zero-stage 3 --devices 3 --reduce exact
last_piece 0 --strategy zero --zero-stage 2 --devices 2 --reduce exact
last_piece 0 --strategy mirrored --devices 2 --reduce exact
tied_twice 0 --strategy zero --devices 3 --model tied --bucket-bytes 0
tied_twice 0 --strategy zero --zero-stage 3 --devices 2 --model tied --reduce exact
update_tail 0 --strategy zero --devices 3
update_tail 0 --strategy zero --zero-stage 3 --devices 2 --reduce exact
zeros_left_out 0 --strategy zero --zero-stage 3 --devices 3 --data synthetic:202 --epochs 2 --bucket-bytes 0
applied_twice 0 --strategy zero --zero-stage 3 --devices 3 --model tied --bucket-bytes 0 --optimizer adam
ring_round 0 --strategy local-sgd --devices 3 --allreduce ring --local-sgd-every 4
bucket_left_out 0 --strategy hybrid --hybrid-inner zero --devices 4 --zero-stage 3 --bucket-bytes 0
share_not_summed 0 --strategy hybrid --hybrid-inner zero --devices 4 --reduce exact
update_left_out 0 --strategy hybrid --hybrid-inner zero --devices 4 --zero-stage 3 --steps 1
share_overlaps 0 --strategy hybrid --devices 4 --hybrid-inner tensor-parallel --hybrid-outer zero --reduce exact --micro-splits 2
foreign_share 0 --strategy zero --devices 3
mean_of_means 0 --strategy mirrored --devices 3
init_by_place 0 --strategy tensor-parallel --devices 2
norm_counts_copies 0 --strategy tensor-parallel --devices 2 --clip 0.01
gather_left_out 0 --strategy hybrid --devices 4 --hybrid-inner pipeline --hybrid-outer zero
norm_of_shard 0 --strategy hybrid --devices 4 --hybrid-inner tensor-parallel --hybrid-outer zero --clip 0.01
window_not_refilled 0 --strategy hybrid --devices 4 --hybrid-inner tensor-parallel --hybrid-outer zero --zero-stage 3 --bucket-bytes 0
outputs_not_summed 0 --strategy tensor-parallel --devices 2
dx_not_summed 0 --strategy hybrid --devices 4 --hybrid-inner tensor-parallel --model mlp:784-16-16-16-10
bias_each_place 0 --strategy tensor-parallel --devices 2
bias_grad_times 0 --strategy tensor-parallel --devices 2
copy_apart 0 --strategy tensor-parallel --devices 2
qkv_contiguous 0 --strategy tensor-parallel --devices 2 --model gpt:1-2-8-8-40 --reduce exact --micro-splits 2
columns_left_out 0 --strategy tensor-parallel --devices 3
declared_too_long 0 --strategy tensor-parallel --devices 2 --model gpt:1-2-8-8-40 --tensor-parallel-sequence yes
norm_partial 0 --strategy tensor-parallel --devices 2 --model gpt:1-2-8-8-40 --tensor-parallel-sequence yes
vocabulary_tail 0 --strategy tensor-parallel --devices 2 --model gpt:1-2-8-8-41
label_local 0 --strategy tensor-parallel --devices 2 --model gpt:1-2-8-8-40
largest_local 0 --strategy tensor-parallel --devices 2 --model gpt:1-2-8-8-40 --reduce exact --micro-splits 2
kv_stale 0 --strategy context-parallel --devices 2 --model gpt:2-2-8-8-40
positions_local 0 --strategy context-parallel --devices 2 --model gpt:1-2-8-8-40
place_weighs_once 0 --strategy context-parallel --devices 2 --model gpt:1-2-8-9-40
bucket_left_out 0 --strategy hybrid --hybrid-inner context-parallel --devices 4 --model gpt:1-2-8-8-40
update_left_out 0 --strategy context-parallel --devices 2 --model gpt:1-2-8-8-40 --steps 1
first_loss 0 --strategy context-parallel --devices 2 --model gpt:1-2-8-8-40
norm_of_shard 0 --strategy zero --devices 3 --clip 0.01
norm_of_shard 0 --strategy pipeline --devices 2 --clip 0.01 --reduce exact
norm_of_shard 0 --strategy ps --ranks 4 --ps-servers 2 --clip 0.01
tied_again 0 --strategy pipeline --devices 2 --model gpt:2-2-8-8-40 --clip 0.01
tied_again 0 --strategy hybrid --devices 4 --hybrid-inner pipeline --model gpt:2-2-8-8-40 --clip 0.01 --reduce exact
norm_of_mean 0 --strategy mirrored --devices 2 --clip 0.01
norm_of_mean 0 --strategy zero --devices 3 --clip 0.01 --reduce exact
clip_late 0 --strategy mirrored --devices 2 --clip 0.01
clip_late 0 --strategy towers --devices 3 --clip 0.01 --reduce exact
lr_stepped_n_times 0 --strategy mirrored --devices 3 --lr-schedule cosine --lr-warmup-steps 3
lr_stepped_n_times 0 --strategy pipeline --devices 2 --lr-schedule linear --reduce exact
lr_stepped_n_times 0 --strategy ps --ranks 3 --lr-schedule linear
lr_warmup_off_by_one 0 --strategy single --devices 1 --lr-warmup-steps 3
lr_warmup_off_by_one 0 --strategy mirrored --devices 2 --lr-warmup-steps 3 --reduce exact
lr_warmup_off_by_one 0 --strategy local-sgd --devices 2 --lr-warmup-steps 3
mask_by_rank 0 --strategy mirrored --devices 2 --dropout 0.3
mask_by_rank 0 --strategy zero --devices 3 --dropout 0.3 --reduce exact
scaled_each_pass 0 --strategy mirrored --devices 3 --gradient-accumulation-steps 4 --steps 2
scaled_each_pass 0 --strategy mirrored --devices 3 --gradient-accumulation-steps 4 --steps 2 --reduce exact
last_piece 0 --strategy mirrored --devices 3 --gradient-accumulation-steps 4 --steps 2
mean_of_means 0 --strategy mirrored --devices 3 --gradient-accumulation-steps 4 --steps 2
sync_first 0 --strategy mirrored --devices 3 --gradient-accumulation-steps 4 --steps 2 --bucket-bytes 0
no_sync_ever 0 --strategy mirrored --devices 3 --gradient-accumulation-steps 4 --steps 2
no_sync_ever 0 --strategy mirrored --devices 3 --gradient-accumulation-steps 4 --steps 2 --reduce exact
each_although_last 0 --strategy mirrored --devices 3 --gradient-accumulation-steps 4 --steps 2
each_although_last 0 --strategy mirrored --devices 3 --gradient-accumulation-steps 4 --steps 2 --reduce exact
zeroed_between 0 --strategy mirrored --devices 3 --gradient-accumulation-steps 4 --steps 2 --gradient-accumulation-exchange each
zeroed_between 0 --strategy zero --zero-stage 2 --devices 3 --gradient-accumulation-steps 4 --steps 2
added_after_allreduce 0 --strategy hybrid --hybrid-inner zero --devices 4 --gradient-accumulation-steps 2 --gradient-accumulation-exchange each --steps 2
loss_of_last_piece 0 --strategy mirrored --devices 3 --gradient-accumulation-steps 4 --steps 2
loss_of_last_piece 0 --strategy mirrored --devices 3 --gradient-accumulation-steps 4 --steps 2 --reduce exact
lr_stepped_n_times 0 --strategy single --devices 1 --gradient-accumulation-steps 4 --steps 2 --lr-schedule linear --dropout 0.3
mask_each_piece 0 --strategy single --devices 1 --gradient-accumulation-steps 4 --steps 2 --lr-schedule linear --dropout 0.3
mask_each_piece 0 --strategy mirrored --devices 2 --dropout 0.3
keep_not_scaled 0 --strategy mirrored --devices 2 --dropout 0.3
backward_unmasked 0 --strategy mirrored --devices 2 --dropout 0.3
mask_redrawn 0 --strategy mirrored --devices 2 --dropout 0.3
dropout_redrawn 0 --strategy single --devices 1 --model gpt:3-2-8-8-40 --batch 16 --recompute full --dropout 0.3
dropout_redrawn 0 --strategy pipeline --devices 2 --model gpt:3-2-8-8-40 --batch 16 --recompute full --dropout 0.3 --reduce exact
averages_twice 0 --strategy mirrored --devices 2 --model resnet:8 --data synthetic:32 --batch 8 --steps 2 --sync-bn yes --recompute full
first_input_for_all 0 --strategy single --devices 1 --model gpt:3-2-8-8-40 --batch 16 --recompute full
first_input_for_all 0 --strategy zero --zero-stage 3 --devices 2 --model gpt:3-2-8-8-40 --batch 16 --recompute full --reduce exact
window_too_early 0 --strategy mirrored --devices 2 --model gpt:3-2-8-8-40 --batch 16 --recompute full --gradient-accumulation-steps 2
loss_twice 0 --strategy single --devices 1 --model gpt:3-2-8-8-40 --batch 16 --recompute full
last_sum_repeated 0 --strategy tensor-parallel --devices 2 --model gpt:3-2-8-8-40 --batch 16 --recompute full
gathered_again 0 --strategy zero --zero-stage 3 --devices 2 --model gpt:3-2-8-8-40 --batch 16 --recompute full --bucket-bytes 0
stale_shared_parameter 0 --strategy zero --zero-stage 3 --devices 2 --model gpt:3-2-8-8-40 --batch 16 --recompute full --bucket-bytes 0
window_of_before 0 --strategy hybrid --devices 4 --hybrid-inner pipeline --hybrid-outer zero --zero-stage 3 --bucket-bytes 0 --steps 2 --model mlp:784-16-16-16-16-10
flying_together 0 --strategy hybrid --devices 4 --hybrid-inner pipeline --hybrid-outer zero --zero-stage 2 --steps 2
flying_together 0 --strategy hybrid --devices 4 --hybrid-inner pipeline --hybrid-outer zero --zero-stage 2 --steps 2 --reduce exact --pipeline-schedule 1f1b
micro_not_summed 0 --strategy hybrid --devices 4 --hybrid-inner pipeline --hybrid-outer zero --zero-stage 2 --steps 2
micro_not_summed 0 --strategy hybrid --devices 8 --hybrid-inner tensor-parallel --hybrid-stages 2 --hybrid-outer zero --zero-stage 3 --steps 2
added_before_use 0 --strategy hybrid --devices 4 --hybrid-inner pipeline --hybrid-outer zero --zero-stage 2 --steps 2 --reduce exact --pipeline-microbatches 2 --model gpt:2-2-8-8-40
copy_not_sent 0 --strategy hybrid --devices 4 --hybrid-inner pipeline --hybrid-outer zero --zero-stage 3 --steps 2 --model gpt:2-2-8-8-40
share_not_summed 0 --strategy hybrid --devices 4 --hybrid-inner pipeline --hybrid-outer zero --zero-stage 3 --steps 2
window_early 20 --strategy hybrid --devices 4 --hybrid-inner pipeline --hybrid-outer zero --zero-stage 3 --steps 2 --bucket-bytes 0 --cpu-devices 4 --cores-per-device 2 --capture no --model mlp:784-16-16-16-16-10
in_flight_one_short 0 --strategy pipeline --devices 2 --pipeline-schedule zb-h1
landings_shared 0 --strategy pipeline --devices 2 --steps 2 --reduce exact --link latency=1us,bandwidth=10GB/s
weights_pass_lost 0 --strategy pipeline --devices 2 --pipeline-schedule zb-h1 --steps 2
weights_pass_lost 0 --strategy hybrid --devices 4 --hybrid-inner pipeline --hybrid-outer zero --pipeline-schedule zb-h2 --steps 2 --reduce exact
weights_pass_twice 0 --strategy pipeline --devices 3 --pipeline-schedule zb-h2 --steps 2
input_freed_before_weights 0 --strategy pipeline --devices 3 --pipeline-schedule zb-h1 --steps 2
input_freed_before_weights 0 --strategy pipeline --devices 2 --pipeline-schedule zb-h2 --steps 2 --reduce exact --model lstm-stack:3 --data synthetic:40 --batch 16
gradient_passed_on 0 --strategy pipeline --devices 2 --pipeline-schedule zb-h1 --steps 2 --model gpt:2-2-8-8-40 --batch 16
shared_weights_twice 0 --strategy pipeline --devices 2 --pipeline-schedule zb-h1 --steps 2 --model tied
tied_head_missed 0 --strategy pipeline --devices 2 --pipeline-schedule zb-h1 --steps 2 --model gpt:2-2-8-8-40 --batch 16
exchange_before_weights 0 --strategy hybrid --devices 4 --hybrid-inner pipeline --pipeline-schedule zb-h1 --steps 2
sum_before_weights 0 --strategy hybrid --devices 4 --hybrid-inner pipeline --hybrid-outer zero --zero-stage 2 --pipeline-schedule zb-h1 --steps 2 --model gpt:2-2-8-8-40 --batch 16
norm_before_weights 0 --strategy pipeline --devices 2 --pipeline-schedule zb-h2 --steps 2 --clip 0.01
chunk_order_reversed 0 --strategy pipeline --devices 2 --pipeline-schedule interleaved --steps 2 --model mlp:784-20-18-16-10
targets_of_piece 0 --strategy mirrored --devices 2 --model gpt:1-2-8-8-40 --lengths ragged
targets_of_piece 0 --strategy pipeline --devices 2 --model gpt:1-2-8-8-40 --lengths ragged
outer_sign 0 --strategy local-sgd --devices 3 --local-sgd-every 2 --local-sgd-outer sgd
outer_sign 0 --strategy local-sgd --devices 3 --local-sgd-every 2 --local-sgd-outer nesterov --local-sgd-wire int8
outer_momentum_local 0 --strategy local-sgd --devices 3 --local-sgd-every 2 --local-sgd-outer nesterov
inner_slots_averaged 0 --strategy local-sgd --devices 3 --local-sgd-every 2 --local-sgd-outer sgd
theta_not_reset 0 --strategy local-sgd --devices 3 --local-sgd-every 2 --local-sgd-outer nesterov
owner_keeps_float 0 --strategy local-sgd --devices 3 --local-sgd-every 2 --local-sgd-outer sgd --local-sgd-wire int8
owner_keeps_float 0 --strategy local-sgd --devices 3 --local-sgd-every 2 --local-sgd-outer nesterov --local-sgd-wire bf16
scale_of_zero_row 0 --strategy local-sgd --devices 3 --local-sgd-every 2 --local-sgd-outer sgd --local-sgd-wire int8
scale_by_rank 0 --strategy local-sgd --devices 3 --local-sgd-every 2 --local-sgd-outer sgd --local-sgd-wire int8
fragment_missed 0 --strategy local-sgd --devices 3 --local-sgd-every 2 --local-sgd-outer nesterov --local-sgd-fragments 2
residual_dropped 0 --strategy local-sgd --devices 3 --local-sgd-every 2 --local-sgd-outer sgd --local-sgd-wire int8
owner_keeps_float 0 --strategy mirrored --devices 3 --steps 2 --gradient-wire bf16
own_not_as_sent 0 --strategy zero --devices 3 --steps 2 --gradient-wire bf16
share_rounded 0 --strategy zero --devices 3 --steps 2 --gradient-wire bf16
partial_sums_rounded 0 --strategy mirrored --devices 3 --steps 2 --gradient-wire bf16
cut_for_wire 0 --strategy mirrored --devices 3 --steps 2 --gradient-wire bf16
wrong_buffer_reduced 0 --strategy mirrored --devices 2 --steps 2 --gradient-accumulation-steps 2 --gradient-accumulation-exchange each --gradient-wire bf16
TABLE
# Bugs in Winograd's kernels show only where these are used: AVX-512, arm64.
"$LOCKSTEP" verify --model cifar10 --data synthetic:60 --batch 8 --steps 1 --warmup 0 --results none --format jsonl \
  >"$dir/row" || fail "cifar10 does not verify"
if ! grep -q winograd "$dir/row"; then
  echo "left out: not_turned, for this processor has no convolutions by Winograd's method"
  sed -i '/^not_turned/d' "$dir/table" "$dir/names"
fi
[ -n "${LOCKSTEP_THOROUGH:-}" ] || { awk '!seen[$1]++' "$dir/table" >"$dir/first" && mv "$dir/first" "$dir/table"; }
# Bugs that change none of the gate's figures: detected by the row's memory (below).
# Of checkpoints: test_checkpoint_planted.sh; of changes of members: test_elastic_planted.sh; of bf16, with cut_short and slice_grows.
{ cut -d ' ' -f 1 "$dir/table"; echo device_leak; echo heap_leak; echo nothing_freed; echo cut_short; echo slice_grows
  for test in checkpoint elastic bf16; do
    sed -n '/^TABLE$/q; s/^\([a-z0-9_]*\) --.*/\1/p' "$SOURCE_DIR/bench/tests/test_${test}_planted.sh"
  done; } |
  sort -u >"$dir/shown"
diff "$dir/names" "$dir/shown" || fail "bugs (<) and lines of the table (>) are not the same"

# verify OPTIONS: exit status in $code, row in $dir/row. Defaults for what OPTIONS do not set.
verify() {
  local options=" $* "
  [[ $options == *" --model "* ]] || set -- "$@" --model mlp:784-16-16-10
  [[ $options == *" --data "* ]] || set -- "$@" --data synthetic:1000
  [[ $options == *" --batch "* ]] || set -- "$@" --batch 100
  [[ $options == *" --epochs "* || $options == *" --steps "* ]] || set -- "$@" --steps 8
  code=0
  timeout -k 5 150 "$LOCKSTEP" verify "$@" --warmup 0 --results none --format jsonl >"$dir/row" 2>"$dir/err" || code=$?
  cat "$dir/row" >>"$dir/every"
  if [[ $code -eq 0 && $options =~ --ps-(mode|backup-workers) ]]; then
    replay "$@" --warmup 0 --blocks 1 || code=$?
    cp "$replays/said" "$dir/err"
    [ "$code" -ne 11 ] || { code=1; cp "$replays/row" "$dir/row"; } # the run itself detected it
  fi
}

# Without a bug all is equal, even with pauses where a race is searched.
while read -r _ seeds options; do echo "${seeds/20/1} $options"; done <"$dir/table" | sort -u >"$dir/configurations"
[ -n "${LOCKSTEP_THOROUGH:-}" ] || sed -i -n '1~4p' "$dir/configurations"
while read -r seed options; do
  # shellcheck disable=SC2086
  LOCKSTEP_FUZZ=${seed/0/} verify $options
  [ "$code" -eq 0 ] && continue
  cat "$dir/err"
  cut -c 1-600 "$dir/row"
  fail "nothing is planted, but status $code: seed $seed $options"
done <"$dir/configurations"
echo "$(wc -l <"$dir/configurations") configurations are equal where nothing is planted"

number=0
while read -r bug seeds options; do
  tried=0
  seed=
  code=0
  while [ "$code" -eq 0 ] && [ "$tried" -le "$seeds" ]; do
    tried=$((tried + 1))
    [ "$seeds" -eq 0 ] || seed=$tried
    # shellcheck disable=SC2086
    LOCKSTEP_PLANT=$bug LOCKSTEP_FUZZ=$seed verify $options
    [ "$seeds" -gt 0 ] || break
  done
  number=$((number + 1))
  mv "$dir/row" "$dir/row.$number"
  mv "$dir/err" "$dir/err.$number"
  printf '%s\t%s\t%s\t%s\n' "$bug" "${seed:--}" "$code" "$options"
done <"$dir/table" >"$dir/tried"
# What detected each, after how many steps, and what it named, from the rows' reasons.
python3 - "$dir" <<'PYTHON' || fail "some lines of the table are not found with status 1, or 3 by the check of spans"
import json, re, sys
judges = {"oracle": r"^step (\d+): .* in a run on one device with the same order", "reference": r"^step (\d+): .* in training on one device",
          "gradient bound": r"^step (\d+): the gradient differs ", "loss bound": r"^step (\d+): .* when the whole batch is computed in one pass",
          "alone": r"^step (\d+): .*trains one replica at a time", "steps in one run": r"^in one run of (\d+) steps?: ", "evaluation": r"^evaluation after (\d+) steps: ",
          "race check": r"^race: ", "step check": r"^step: ", "span check": r"^span: ", "plain C": r"^kernels: the first gradient of ", "slope": r"^kernels: the first gradient is ",
          "bound": r"^lead: ", "owners": r"^owner: ", "replicas": r"^step (\d+): .* on replica 0\b", "places": r"^step (\d+): .* several devices have", "traffic": r"^traffic: ",
          "learning rate": r"^step (\d+): the learning rate is ", "state": r"^after (\d+) steps, [^:]+: ",
          "finite loss": r"^diverged: the loss is \w+ at step (\d+)"}


def judge(row, said):
    if re.search("^replay: ", said, re.M):
        return "replay", "-", "-"
    lines = row.splitlines()
    row = json.loads(lines[0]) if len(lines) == 1 else {"result": {}}
    reason, status = row["result"].get("reason", ""), row["result"].get("status")
    gate = row.get("equivalence", {})
    for judge, pattern in judges.items():
        match = re.match(pattern, reason)
        # A loss that is not finite may also come after the gate, whose first steps passed.
        # A step whose spans are too long does not open.
        if match and status == ("error" if judge == "span check" else "failed") and (judge == "finite loss" or not gate.get("pass")):
            steps = int(match[1]) + (judge not in ("steps in one run", "evaluation")) if match.groups() else gate.get("steps", "-")
            tasks = re.findall(r"task \d+ \(\S+ [a-z ]+: ([a-z]+(?:[ -][a-z]+)*)", reason)
            named = re.search(r"[^ :]+ element \d+|\b(gradient|loss|bytes|outputs)\b", reason)
            return judge, steps, " and ".join(tasks) or (named[0] if named else "-")
    return f"NOT FOUND: {status} {reason[:60]}", "", ""

missed = 0
print(f"{'bug':19} {'found by':14} {'steps':>5}  {'names':34}  seeds  configuration")
for number, line in enumerate(open(sys.argv[1] + "/tried"), 1):
    bug, seed, code, options = line.rstrip("\n").split("\t")
    found, steps, names = judge(*(open(f"{sys.argv[1]}/{name}.{number}").read() for name in ("row", "err")))
    missed += found.startswith("NOT") or int(code) != (3 if found == "span check" else 1)
    print(f"{bug:19} {found:14} {steps:>5}  {names:34}  {seed:>5}  {options}")
sys.exit(missed > 0)
PYTHON
# A timed run also compares an epoch's last batch, which comes after the compared steps, and at the end replicas that
# were not compared before. Bug, beginning of its reason, options.
while IFS='|' read -r bug reason options; do
  for plant in '' $bug; do
    code=0
    # shellcheck disable=SC2086
    LOCKSTEP_PLANT=$plant timeout -k 5 150 "$LOCKSTEP" run --model mlp:784-16-16-10 --batch 100 --warmup 0 --results none \
      --format jsonl $options >"$dir/row" 2>"$dir/err" || code=$?
    python3 - "$dir/row" "$code" "${plant:+$reason}" <<'PYTHON' || { cat "$dir/err"; fail "$plant: $options"; }
import json, re, sys
row, code, reason = json.loads(open(sys.argv[1]).read()), int(sys.argv[2]), sys.argv[3]
found = row["result"].get("reason", "")
good = code == 1 and re.match(reason, found) and "time" not in row if reason else code == 0
tail = row["case"].get("epochs") and not reason
sys.exit(0 if good and (not tail or row["equivalence"]["steps"] == 4) else f"{code}: {found}; {row['equivalence']}")
PYTHON
  done
  echo "$bug: found in a timed run, $options"
done <<'RUNS'
tail_not_reduced|step 10: .* with the same order of additions|--strategy mirrored --devices 2 --data synthetic:1050 --epochs 1 --gate-steps 3
tail_not_reduced|step 10: .* training on one device|--strategy hybrid --devices 4 --data synthetic:1050 --epochs 2 --gate-steps 3 --reduce exact
update_left_out|after 8 steps: .* on replica 1, but .* on replica 0|--strategy mirrored --devices 2 --data synthetic:1000 --steps 8 --gate-steps 0
update_left_out|after 8 steps: .* several devices have, is .* on device 3, but |--strategy hybrid --hybrid-inner zero --devices 4 --zero-stage 3 --data synthetic:1000 --steps 8 --gate-steps 0
update_left_out|after 8 steps: .* on replica 2, but .* on replica 0|--strategy mirrored --ranks 3 --data synthetic:1000 --steps 8 --gate-steps 0
RUNS
# A leak of 64 bytes per step shows in growth_per_step: on the devices (plus the host's record of each piece) and on
# the host's heap (plus malloc's header); without a leak there is no growth. One block only: memory that a session
# frees at its end, like any free piece, hides some later leaks, up to 7 of a size: so there are more steps than that,
# and half of 64 is enough.
while read -r options; do
  for plant in '' device_leak heap_leak; do
    # shellcheck disable=SC2086
    LOCKSTEP_PLANT=$plant timeout -k 5 150 "$LOCKSTEP" run --data synthetic:1000 --batch 32 --results none --gate-steps 0 \
      --blocks 1 --format jsonl $options >"$dir/row" 2>"$dir/err" || { cat "$dir/err"; fail "$plant: $options"; }
    python3 -c 'import json, sys
row = json.load(open(sys.argv[1]))
growth = row["memory"]["growth_per_step"]
print(f"{sys.argv[2] or chr(45):12} {growth:g} bytes a step", row["case"]["strategy"])
sys.exit(not (32 <= growth <= 192 if sys.argv[2] else growth == 0))' "$dir/row" "$plant" || fail "$plant: $options"
  done
  [[ -n ${LOCKSTEP_THOROUGH:-} || $options != *ps* ]] || break
done <<'GROWTH'
--model mlp --strategy single --steps 40
--model mlp --strategy ps --ranks 3 --steps 40
--model mlp --strategy mirrored --devices 2 --epochs 2 --warmup 2
--model cnn --strategy towers --devices 2 --steps 12
GROWTH
# Memory beside the window shows in what the allocator counts.
for plant in '' nothing_freed; do
  LOCKSTEP_PLANT=$plant timeout -k 5 150 "$LOCKSTEP" run --model gpt:3-2-8-8-40 --data synthetic:64 --batch 16 --steps 2 \
    --recompute full --results none --gate-steps 0 --blocks 1 --format jsonl >"$dir/row" 2>"$dir/err" || fail "$plant: run"
  python3 -c 'import json, sys
device = json.load(open(sys.argv[1]))["memory"]["devices"][0]
more = device["activations"] - device["formula"]["activations"]
print(f"{sys.argv[2] or chr(45):12} {more} bytes of activations above the formula")
sys.exit((more > 0) != bool(sys.argv[2]))' "$dir/row" "$plant" || fail "$plant: memory"
done
# An unknown name is refused, in one line.
code=0
LOCKSTEP_PLANT=averag "$LOCKSTEP" list strategies >"$dir/out" 2>"$dir/err" || code=$?
[ "$code" -eq 2 ] && [ "$(wc -l <"$dir/err")" -eq 1 ] && [ ! -s "$dir/out" ] || fail "a wrong name is not refused"
echo "$(wc -l <"$dir/names") bugs are found, in $(wc -l <"$dir/table") configurations"
python3 -B "$(dirname "$0")/../../bench/tests/check_rows.py" "$dir/every" # including rows of failed runs
