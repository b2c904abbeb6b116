#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# export: each file read back as its tool reads it, and held against numbers that NumPy computes from the captured rows;
# one sentence with exit status 2 where a file cannot be made. Needs python3 with numpy ($QKGEOM_PYTHON, build/python, or
# the one on the path); skipped if there is none. Run with QKGEOM_BIN and QKGEOM_SOURCE set, in a scratch folder.
set -uo pipefail
source "$QKGEOM_SOURCE/tests/common/find_python.sh"
find_python "numpy"
model=$QKGEOM_SOURCE/examples/data/kjv-smollm3
source "$QKGEOM_SOURCE/tests/examples/common.sh"
check() { "$python" -B "$QKGEOM_SOURCE/tests/examples/export_check.py" "$@" >"$work/log" 2>&1 || bad "check $*: $(tail -3 "$work/log")"; }
capture() { # NAME OPTIONS...
  run capture --model "$model/stage2-step-1400" --jsonl "$model/heldout.jsonl" --examples 3 --max-length 64 \
    --bucket-size 8 --sampler all --out "$work/$1" "${@:2}"
}
capture before --pre-rope --skip-first 4
capture after --softmax --statistics-bucket-size 8
capture one --layers 0

run export triattention "$work/before" --out "$work/tri"
check triattention "$work/before" "$work/tri"
run export expected-attention "$work/before" --out "$work/expected" --texts kjv
check expected-attention "$work/before" "$work/expected"
run export duo "$work/after" --sink 4 --recent 16 --out "$work/duo"
check duo "$work/after" "$work/duo"

# Neighbouring coordinates, a part of the head, another embedding in one layer.
check plant interleaved "$work/interleaved.safetensors"
run export triattention "$work/interleaved.safetensors" --out "$work/planes"
check triattention "$work/interleaved.safetensors" "$work/planes"
for odd in partial mixed; do check plant $odd "$work/$odd.safetensors"; done
refused "reads planes of whole heads" export triattention "$work/partial.safetensors" --out "$work/x"
refused "has another rotary embedding" export triattention "$work/mixed.safetensors" --out "$work/x"

refused "from after the rotary embedding" export triattention "$work/after" --out "$work/x"
refused "from after the rotary embedding" export expected-attention "$work/after" --out "$work/x"
refused "layer 1 is not in the capture" export duo "$work/one" --out "$work/x"
refused "no query bucket begins past 64 sink and 256 recent tokens" export duo "$work/after" --out "$work/x"
refused "holds no attention by distance" export duo "$work/before" --out "$work/x"
refused "--recent must be a power of 2" export duo "$work/after" --recent 24 --out "$work/x"
refused "triattention" export no-such-format "$work/before" --out "$work/x"
