#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The lines of Python in docs/capture.md make a reference, as they stand there, with which `qkgeom capture --check` agrees, and
# with which another checkpoint does not. Needs python3 with torch and transformers ($QKGEOM_PYTHON, or the one on the path);
# skipped if there is none. Run with QKGEOM_BIN and QKGEOM_SOURCE set, in a scratch folder.
set -uo pipefail
source "$QKGEOM_SOURCE/tests/common/find_python.sh"
find_python "torch, transformers, safetensors"
source "$QKGEOM_SOURCE/tests/examples/common.sh"

cd "$work"
sed -n '/^## Is it right for my model/,/^## /p' "$QKGEOM_SOURCE/docs/capture.md" | sed -n '/^```python$/,/^```$/{/^```/!p}' >lines.py
grep -q from_pretrained lines.py || bad "docs/capture.md has no lines of Python below 'Is it right for my model?'"
data=$QKGEOM_SOURCE/examples/data/kjv-smollm3
checkpoint() { # FOLDER STEP
  mkdir "$1" && cp "$data/stage1-step-$2"/{config.json,model.safetensors} "$data/tokenizer.json" "$1"
}
checkpoint MODEL 250
checkpoint other 40
HF_HUB_OFFLINE=1 "$python" -B lines.py >log 2>&1 || bad "the lines of docs/capture.md: $(cat log)"
run capture --model MODEL --check reference.safetensors
grep -q '^All layers agree$' stdout || bad "$(cat stdout)"
[[ $(grep -cE '^ +[0-7] ' stdout) == 8 ]] || bad "not all eight layers: $(cat stdout)"
"$QKGEOM_BIN/qkgeom" capture --model other --check reference.safetensors >stdout 2>stderr
[[ $? == 1 ]] && grep -q '^Layer 0 is the first that disagrees' stdout || bad "another checkpoint: $(cat stdout stderr)"
