#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# --device cuda replaces a program by the one beside it with -cuda in its name; one sentence states what is missing.
set -uo pipefail
source "$QKGEOM_SOURCE/tests/examples/common.sh"
capture=$golden/long-bf16.safetensors
programs=(heads what-if bands pca rotation plasticity)
built=$QKGEOM_BIN

# Copies, so that no -cuda program lies beside them.
mkdir "$work/bin"
for program in "${programs[@]}"; do cp "$built/qkgeom-$program" "$built/qkgeom" "$work/bin/"; done
QKGEOM_BIN=$work/bin
for program in "${programs[@]}"; do
  refused "--device cuda needs $(realpath "$work")/bin/qkgeom-$program-cuda, which a whole build makes where CUDA 12.8 or newer is" \
    "$program" "$capture" --out "$work/out" --device cuda
done
refused "--device" heads "$capture" --out "$work/out" --device tpu
refused "--device excludes --preset" plasticity "$capture" --out "$work/out" --device cuda --preset attention-plasticity
[[ ! -e $work/out ]] || bad "a refused program made its folder"

# The -cuda program gets the same arguments.
printf '%s\n' '#!/bin/sh' 'printf "%s;" "$@"' 'exit 7' >"$work/bin/qkgeom-heads-cuda"
refused "heads-cuda, which a whole build makes where CUDA 12.8 or newer is: Permission denied" \
  heads "$capture" --out "$work/out" --device cuda
chmod +x "$work/bin/qkgeom-heads-cuda"
status=0
said=$("$work/bin/qkgeom" heads "$capture" --out "$work/a folder" --device cuda --details) || status=$?
[[ $status == 7 && $said == "$capture;--out;$work/a folder;--device;cuda;--details;" ]] || bad "heads-cuda: status $status, '$said'"
run pca "$capture" --out "$work/cpu" --device cpu --threads 1

# If the -cuda programs are built: without a device they give one sentence; without --device cuda they compute on the CPU.
QKGEOM_BIN=$built
if [[ -x $built/qkgeom-heads-cuda ]]; then
  export CUDA_VISIBLE_DEVICES=
  for program in "${programs[@]}"; do
    refused "there is no CUDA device on this machine" "$program-cuda" "$capture" --out "$work/out" --device cuda
  done
  refused "there is no CUDA device on this machine" heads "$capture" --out "$work/out" --device cuda
  [[ ! -e $work/out ]] || bad "a program without a device made its folder"
  run pca-cuda "$capture" --out "$work/same" --threads 1
  cmp "$work/same/qk.csv" "$work/cpu/qk.csv" || bad "pca-cuda on the CPU is not pca"
fi
