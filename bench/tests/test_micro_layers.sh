#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `lockstep micro layers` and `micro floor`: a row for each layer and pass of a model, every element equal to the
# reference's, shares of a roof consistent with the times, the sum at the end; the floor of models that are not dense.
# Leaves out the figures, which depend on the machine.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

layer_rows="[x['micro'] for x in rows if x['micro']['op'] == 'layers']"

check_model() { # check_model MODEL BATCH PASSES...: the passes in the order of their rows
    local model=$1 batch=$2
    shift 2
    lockstep_ok micro layers --model "$model" --batch "$batch" --format jsonl
    rows "$model: passes" "[m['shape'].rsplit(' ', 1)[0] for m in $layer_rows][:-1] ==
        '$*'.replace('/f', ' forward').replace('/b', ' backward').replace('%', '/').split(',')"
    rows "$model: rows are sound" "all(m['type'] == 'float' and m['ranks'] == 1 and m['wrong'] == 0 and
        0 < m['time_p10_us'] <= m['time_us'] <= m['time_p90_us'] <= m['time_p99_us'] and
        math.isclose(m['roof_share'], m['roof_us'] / m['time_us'], abs_tol=1e-12) and
        m['roof'] in ('product', 'copy') and m['size_bytes'] == 4 * m['count'] and m['kernel'] and
        (m['gflops'] > 0 if 'gflops' in m else m['roof'] == 'copy') and m['algbw_gbs'] > 0
        for m in $layer_rows[:-1])"
    rows "$model: the sum" "(lambda p, s: math.isclose(s['time_us'], sum(m['time_us'] for m in p)) and
        math.isclose(s['roof_us'], sum(m['roof_us'] for m in p)) and s['roof'] == 'sum')(
        $layer_rows[:-1], $layer_rows[-1])"
}

check_model mlp:20-10-5 16 dense0/f,dense0/b,dense1/f,dense1/b,softmax_cross_entropy0/f
check_model poly 7 polynomial0/f,dense0/f,dense0/b,squared_error0/f
check_model cnn 9 conv0/f,conv0/b,dense0/f,dense0/b,softmax_cross_entropy0/f
check_model cifar10 5 channels_last0/f,conv0/f,conv0/b,max_pool0/f,max_pool0/b,lrn0/f,lrn0/b,\
conv1/f,conv1/b,lrn1/f,lrn1/b,max_pool1/f,max_pool1/b,channels_first0/f,channels_first0/b,\
dense0/f,dense0/b,dense1/f,dense1/b,dense2/f,dense2/b,softmax_cross_entropy0/f
check_model twin-lstm:16 3 lstm0%a/f,lstm0%a/b,lstm0%b/f,lstm0%b/b,concat0/f,concat0/b,dense0/f,\
dense0/b,logistic_loss0/f
check_model lstm-stack:2 2 lstm0/f,lstm0/b,lstm1/f,lstm1/b,dense0/f,dense0/b,logistic_loss0/f
check_model gpt:1-2-16-8-32 3 wte/f,wte/b,wpe/f,wpe/b,h.0.ln_1/f,h.0.ln_1/b,h.0.attn.c_attn/f,h.0.attn.c_attn/b,\
attention0/f,attention0/b,h.0.attn.c_proj/f,h.0.attn.c_proj/b,add0/f,h.0.ln_2/f,h.0.ln_2/b,h.0.mlp.c_fc/f,h.0.mlp.c_fc/b,\
gelu0/f,gelu0/b,h.0.mlp.c_proj/f,h.0.mlp.c_proj/b,add1/f,ln_f/f,ln_f/b,lm_head/f,lm_head/b,softmax_cross_entropy0/f

# The floor: every pass with products, timed as products or as the layer, whichever is faster.
lockstep_ok micro floor --model cifar10 --batch 4 --data synthetic:64 --format jsonl
rows "cifar10: what the floor is the sum of" "[x['micro']['op'] for x in rows].count('layers') == 10 and
    [x['micro']['op'] for x in rows][-3:] == ['optimizer', 'gather', 'floor'] and
    math.isclose(rows[-1]['micro']['time_us'], sum(min(m['time_us'], m['roof_us']) for m in $layer_rows)
        + sum(x['micro']['time_us'] for x in rows[-3:-1]))"

refused() { # refused STATUS WORD ARGUMENTS...
    local status=$1 word=$2
    shift 2
    lockstep "$@"
    expect "exit status $code, $status wanted" [ "$code" = "$status" ]
    expect "not one line that names $word" one_line "$word"
}

lockstep_ok micro layers --model cnn --batch 4
refused 2 --data micro layers --data synthetic
refused 2 --optimizer micro layers --optimizer sgd
refused 2 --sizes micro layers --sizes 4KiB
refused 2 --devices micro layers --devices 2 --cpu-devices 2
refused 2 --batch micro layers --batch 0
finish
