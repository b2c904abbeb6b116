#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# demo.sh [OUT]   From text and a checkpoint to tables and figures, in one command on a CPU. OUT: out/demo by default.
# Installs missing Debian packages, builds qkgeom, captures the queries and keys of all heads of the bundled language
# model on the bundled held-out books (8192 tokens each), and analyses every head. Reuses what an earlier run built or
# captured.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common/prepare.sh"
options demo "$@"
prepare heads capture

step "Capturing queries and keys of all heads: 12 books of 8192 tokens"
"$bin/qkgeom" capture --model "$data/lc-4096-to-8192-step-10" --jsonl "$data/heldout.jsonl" \
  --max-length 8192 --heads all --bucket-size 512 --rate 24 --out "$out/capture" --resume

step "PCA, rotation and plasticity of every head"
"$bin/qkgeom" heads "$out/capture" --out "$out"

step "Done. The capture itself is in $out/capture; build/native/bin/qkgeom heads --help lists further analyses."
