#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# export: each file read back as its tool reads it, and held against numbers that NumPy computes from the captured rows;
# one sentence with exit status 2 where a file cannot be made. Needs python3 with numpy ($QKGEOM_PYTHON, build/python, or
# the one on the path); skipped if there is none.
set -uo pipefail
source "$QKGEOM_SOURCE/tests/common/find_python.sh"
find_python "numpy"
source "$QKGEOM_SOURCE/tests/examples/common.sh"
check() { "$python" -B "$QKGEOM_SOURCE/tests/examples/export_check.py" "$@" >"$work/log" 2>&1 || bad "check $*: $(tail -3 "$work/log")"; }
capture() { # NAME OPTIONS...
  take stage2-step-1400 "$1" --examples 3 --max-length 64 --bucket-size 8 --sampler all "${@:2}"
}
capture before --pre-rope --skip-first 4
capture after --softmax --statistics-bucket-size 8
capture one --layers 0

run export --for triattention "$work/before" --out "$work/tri"
check triattention "$work/before" "$work/tri"
run export --for expected-attention "$work/before" --out "$work/expected" --texts kjv
check expected-attention "$work/before" "$work/expected"
run export --for duo "$work/after" --sink 4 --recent 16 --out "$work/duo"
check duo "$work/after" "$work/duo"
run export --for rope-profiler "$work/before" --least-turn 40 --out "$work/profiled"
check rope-profiler "$work/before" "$work/profiled"

# Neighbouring coordinates, a part of the head, another embedding in one layer, frequencies without a base.
for kind in interleaved partial mixed scaled; do check plant $kind "$work/$kind.safetensors"; done
run export --for triattention "$work/interleaved.safetensors" --out "$work/planes"
check triattention "$work/interleaved.safetensors" "$work/planes"
refused "reads planes of whole heads" export --for triattention "$work/partial.safetensors" --out "$work/x"
refused "has another rotary embedding" export --for triattention "$work/mixed.safetensors" --out "$work/x"
for kind in interleaved partial; do
  run export --for tria "$work/$kind.safetensors" --out "$work/tria-$kind"
  check tria "$work/$kind.safetensors" "$work/tria-$kind"
done
grep -q "the capture lacks layers 2: they are zeros" "$work/stderr" || bad "tria says of a layer without rows: $(cat "$work/stderr")"
refused "scales its rotary frequencies" export --for tria "$work/scaled.safetensors" --out "$work/x"
refused "has no rotary embedding, but a TRIA file" export --for tria "$work/before" --out "$work/x"
refused "by their variance over documents; this capture has 1" export --for rope-profiler "$work/partial.safetensors" --out "$work/x"

run export --for all "$work/before" --out "$work/all"
wrote "$work/all" triattention expected-attention rope-profiler
cmp -s "$work/all/triattention/triattention.pt" "$work/tri/triattention.pt" || bad "all writes another triattention.pt"
for name in tria duo; do grep -q "^note: no $name: " "$work/stderr" || bad "all does not say why there is no $name"; done
"$QKGEOM_BIN/qkgeom" export --for all "$work/one" --out "$work/x" 2>"$work/stderr" && bad "all writes nothing and succeeds"
grep -q "these captures allow none of the formats" "$work/stderr" || bad "all says of nothing: $(cat "$work/stderr")"
mkdir -p "$work/unwritable/triattention/triattention.pt"
refused "cannot write $work/unwritable/triattention/triattention.pt: it is a folder" export --for all "$work/before" --out "$work/unwritable"

refused "from after the rotary embedding" export --for triattention "$work/after" --out "$work/x"
refused "from after the rotary embedding" export --for expected-attention "$work/after" --out "$work/x"
refused "layer 1 is not in the capture" export --for duo "$work/one" --out "$work/x"
refused "no query bucket begins past 64 sink and 256 recent tokens" export --for duo "$work/after" --out "$work/x"
refused "holds no attention by distance" export --for duo "$work/before" --out "$work/x"
refused "--recent must be a power of 2" export --for duo "$work/after" --recent 24 --out "$work/x"
refused "triattention" export --for no-such-format "$work/before" --out "$work/x"
