#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# demo.sh [OUT]   From text and a checkpoint to tables and figures, in one command on a CPU. OUT: out/demo by default.
# Installs the Debian packages that are missing, builds qkgeom, captures the queries and keys of all heads of the bundled
# language model on the bundled held-out books (8192 tokens each), and looks at the geometry of every head. What an
# earlier run has built or captured is used again.
set -euo pipefail
case ${1-} in
  -h | --help) sed -n '3,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
  -*) echo "demo.sh: unknown option $1 (see --help)" >&2; exit 2 ;;
esac
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$(realpath -m "${1:-$root/out/demo}")
cd "$root"

data=examples/data/kjv-smollm3
bin=build/native/bin
step() { printf '\n[%2d:%02d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }

step "Packages"
bash .ci/install-packages.sh demo

step "Building for this machine's CPU (build/native)"
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
mkdir -p build "$out"
log=build/demo-configure.log
cmake --preset native -DQKGEOM_BUILD_TESTS=OFF -DQKGEOM_BUILD_BENCH=OFF >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
cmake --build --preset native --target heads qkgeom-capture

step "Capturing queries and keys of all heads: 12 books of 8192 tokens"
"$bin/qkgeom-capture" --model "$data/lc-4096-to-8192-step-10" --jsonl "$data/heldout.jsonl" \
  --max-length 8192 --heads all --bucket-size 512 --rate 24 --out "$out/capture" --resume

step "PCA, rotation and plasticity of every head"
"$bin/heads" "$out/capture" --out "$out"

step "Done. The capture itself is in $out/capture; build/native/bin/heads --help tells what else can be asked of it."
