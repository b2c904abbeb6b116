#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# examples/convert in both directions, and qkgeom's programs on the results. Needs python3 with numpy and pyarrow:
# $QKGEOM_PYTHON, the one that tests/run.sh makes in build/python, or the one on the path; skipped if there is none.
set -uo pipefail
source "$QKGEOM_SOURCE/tests/common/find_python.sh"
find_python "numpy, pyarrow.parquet"

source "$QKGEOM_SOURCE/tests/examples/common.sh"
convert() { # PROGRAM ARGUMENTS...: the converter must succeed
  "$python" -B "$QKGEOM_SOURCE/examples/convert/$1.py" "${@:2}" >"$work/log" 2>&1 || bad "$*: $(cat "$work/log")"
}
refused() { # WORDS PROGRAM ARGUMENTS...: the converter must end with status 2 and one line on stderr that holds WORDS
  local words=$1 status=0
  shift
  "$python" -B "$QKGEOM_SOURCE/examples/convert/$1.py" "${@:2}" >/dev/null 2>"$work/log" || status=$?
  [[ $status == 2 && $(wc -l <"$work/log") == 1 ]] || bad "$*: status $status: $(cat "$work/log")"
  grep -qF -- "$words" "$work/log" || bad "$*: does not say '$words': $(cat "$work/log")"
}
check() { "$python" -B "$QKGEOM_SOURCE/tests/examples/convert_check.py" "$@" || bad "check $*"; }
agree() { # A B NAMES...: both folders hold the same tables
  for table in "${@:3}"; do cmp "$1/$table" "$2/$table" || bad "$table differs"; done
}

# A conversion and its inverse give the same capture, bit for bit.
convert capture_to_parquet "$golden/long-f32.safetensors" "$work/long-f32"
convert parquet_to_capture "$work/long-f32" "$work/long-f32.safetensors"
check same "$golden/long-f32.safetensors" "$work/long-f32.safetensors"
convert capture_to_parquet "$golden/short-bf16.safetensors" "$work/short"
convert parquet_to_capture "$work/short" "$work/short.safetensors" --dtype bf16
check same "$golden/short-bf16.safetensors" "$work/short.safetensors"
[[ -f $work/short/l01h06q/data.parquet && -f $work/short/l01h01k/data.parquet ]] || bad "names: $(ls "$work/short")"

# Programs give the same numbers for bf16 and for its conversion to f32.
convert parquet_to_capture "$work/short" "$work/wide.safetensors"
for capture in "$golden/short-bf16" "$work/wide"; do
  name=$(basename "$capture")
  run pca "$capture.safetensors" --out "$work/pca-$name" --threads 1
  run plasticity "$capture.safetensors" --out "$work/author-$name" --threads 1 --preset attention-plasticity
done
agree "$work/pca-short-bf16" "$work/pca-wide" qk.csv
author=(head_metrics.csv head_bucket_plasticity.csv head_component_weights.csv)
agree "$work/author-short-bf16" "$work/author-wide" "${author[@]}"

# Files of another program: options or the data supply what they lack.
check foreign "$work/short" "$work/foreign"
refused --query-heads parquet_to_capture "$work/foreign" "$work/foreign.safetensors"
[[ ! -e $work/foreign.safetensors ]] || bad "a refused conversion left a file"
convert parquet_to_capture "$work/foreign" "$work/foreign.safetensors" --query-heads 8 --key-heads 2 --model kjv
run plasticity "$work/foreign.safetensors" --out "$work/author-foreign" --threads 1 --preset attention-plasticity
agree "$work/author-short-bf16" "$work/author-foreign" "${author[@]}"

# Documents from the benchmark's parquet, with its counts.
check benchmark "$work/benchmark.parquet"
convert longbench_pro_to_jsonl "$work/benchmark.parquet" "$work/long.jsonl" --lengths 128k,256k
grep -q '128k: 250 documents, 125 English, 256k: 250 documents' "$work/log" || bad "counts: $(cat "$work/log")"
check documents "$work/long.jsonl"
convert longbench_pro_to_jsonl "$work/benchmark.parquet" "$work/prompts.jsonl" --text prompt --lengths 8k
grep -qF '"text": "text 8k 0\n\n\n\nwhy?"' "$work/prompts.jsonl" || bad "prompt: $(head -1 "$work/prompts.jsonl")"
head -c 2000 "$work/long.jsonl" | head -n 3 >"$work/few.jsonl"
refused "token_length" longbench_pro_to_jsonl "$work/few.jsonl" "$work/x.jsonl"
mkdir "$work/twice" && cp "$work/benchmark.parquet" "$work/twice/a.parquet" && cp "$work/benchmark.parquet" "$work/twice/b.parquet"
refused "stands twice" longbench_pro_to_jsonl "$work/twice" "$work/x.jsonl"
sed 's/"labels": {"length": /"token_length": /; s/}}$/}/' "$work/long.jsonl" >"$work/fewer.jsonl"
sed -i 1d "$work/fewer.jsonl"
refused "128k has 249 documents, 124 of them English" longbench_pro_to_jsonl "$work/fewer.jsonl" "$work/x.jsonl" --lengths 128k
refused "--lengths" longbench_pro_to_jsonl "$work/benchmark.parquet" "$work/x.jsonl" --lengths 4k
[[ ! -e $work/x.jsonl ]] || bad "a refused conversion left a file"

# Bad input gives one sentence and status 2.
refused "no such capture" capture_to_parquet "$work/nowhere" "$work/x"
refused "l00h00q" parquet_to_capture "$work/nowhere" "$work/x.safetensors"
refused bf16 parquet_to_capture "$work/long-f32" "$work/x.safetensors" --dtype bf16
refused "key head" parquet_to_capture "$work/foreign" "$work/x.safetensors" --query-heads 64 --key-heads 64
refused "--bucket-size" parquet_to_capture "$work/foreign" "$work/x.safetensors" --query-heads 8 --key-heads 2 --bucket-size 33
refused "--context-length" parquet_to_capture "$work/foreign" "$work/x.safetensors" --query-heads 8 --key-heads 2 --context-length 400
spoiled() { # WHAT WORDS
  rm -rf "$work/spoiled" && cp -r "$work/short" "$work/spoiled"
  check spoil "$work/spoiled" "$1"
  refused "$2" parquet_to_capture "$work/spoiled" "$work/x.safetensors"
}
spoiled missing_column position
spoiled ragged "one length"
spoiled doubles "f32 cannot hold"
rm -rf "$work/spoiled" && cp -r "$work/long-f32" "$work/spoiled"
check spoil "$work/spoiled" short
refused "other ones" parquet_to_capture "$work/spoiled" "$work/x.safetensors"
[[ ! -e $work/x.safetensors ]] || bad "a refused conversion left a file"
