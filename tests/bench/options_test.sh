#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The benches take --benchmark_min_time and name the kernels that they were compiled with. Run with QKGEOM_BIN set.
set -euo pipefail
fail() { echo "$1" >&2; exit 1; }
[[ -x $QKGEOM_BIN/eigen_bench ]] || { echo "the benches are not built"; exit 77; }
for program in pairs_bench moments_bench eigen_bench tokenizer_bench; do
  [[ -x $QKGEOM_BIN/$program ]] || continue
  ! "$QKGEOM_BIN/$program" --benchmark_list_tests | grep min_time: || fail "$program has a time of its own"
done
"$QKGEOM_BIN/eigen_bench" --benchmark_filter='d:32' --benchmark_min_time=0.001 --benchmark_format=json >out.json 2>said.txt
kernels=$(sed -n 's/^ *"kernels": "\(.*\)",*$/\1/p' out.json)
[[ -n $kernels ]] || fail "the result does not name its kernels: $(cat out.json)"
if [[ $kernels == portable && $(uname -m) == x86_64 ]]; then
  grep -q 'shares of GEMM mislead' said.txt || fail "no note that the kernels are portable ones: $(cat said.txt)"
else
  ! grep -q 'shares of GEMM mislead' said.txt || fail "kernels for this CPU are called portable: $(cat said.txt)"
fi
