#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The programs on captures that Python wrote: exit status, files, the same result for any number of threads, and one
# sentence with exit status 2 on bad input. Run with QKGEOM_BIN and QKGEOM_SOURCE set, in a scratch folder.
set -uo pipefail
data=$QKGEOM_SOURCE/tests/data/golden
work=$(mktemp -d "$PWD/programs.XXXXXX")
trap 'rm -rf "$work"' EXIT
failures=0
program_path=$PATH
bad() { echo "FAILED: $*"; failures=$((failures + 1)); }

run() { # PROGRAM ARGUMENTS...: must succeed
  "$QKGEOM_BIN/$1" "${@:2}" >"$work/stdout" 2>"$work/stderr" || bad "$*: exit status $?: $(cat "$work/stderr")"
}
refused() { # WORDS PROGRAM ARGUMENTS...: must end with status 2 and one line on stderr that holds WORDS
  local words=$1 status=0
  shift
  PATH=$program_path "$QKGEOM_BIN/$1" "${@:2}" >"$work/stdout" 2>"$work/stderr" || status=$?
  [[ $status == 2 ]] || bad "$*: exit status $status, not 2"
  [[ $(wc -l <"$work/stderr") == 1 ]] || bad "$*: more than one line: $(cat "$work/stderr")"
  grep -qF -- "$words" "$work/stderr" || bad "$*: does not say '$words': $(cat "$work/stderr")"
}
wrote() { # FOLDER NAMES...: these files and no others, none empty
  local folder=$1
  shift
  [[ $(ls -A "$folder" | sort) == $(printf '%s\n' "$@" | sort) ]] || bad "$folder holds $(ls -A "$folder" | tr '\n' ' ')"
  [[ -z $(find "$folder" -type f -empty) ]] || bad "$folder: empty: $(find "$folder" -type f -empty)"
}
both() { for name in "$@"; do echo "$name.svg"; echo "$name.png"; done; }
rows() { echo $(($(wc -l <"$1") - 1)); }

for capture in long-f32 long-f64 long-bf16 short-bf16; do
  run heads "$data/$capture.safetensors" --out "$work/$capture" --threads 2
  grep -q 'Head classes' "$work/stdout" || bad "heads $capture: no summary"
done
[[ $(rows "$work/long-f32/heads.csv") == 5 && $(rows "$work/long-f32/qk.csv") == $((5 * 32)) ]] ||
  bad "long-f32: $(rows "$work/long-f32/heads.csv") heads, $(rows "$work/long-f32/qk.csv") components"

# Figures show what the tables say: a mark for each head in the scatter (and for its legend: five classes, RoPE, NoPE),
# a cell for each pair of distances at which a head has at least 30 pairs.
marks() { sed -n "/gnuplot_plot_1\"/,/gnuplot_plot_$3\"/p" "$1" | grep -o "$2" | wc -l; }
[[ $(marks "$work/long-f32/qk_scatter.svg" "<use xlink:href='#gpPt" end) == $((5 + 5 + 2)) ]] ||
  bad "qk_scatter.svg has $(marks "$work/long-f32/qk_scatter.svg" "<use xlink:href='#gpPt" end) marks"
cells=$(awk -F, 'NR > 1 && $6 >= 30 { print $3 "," $4 }' "$work/long-f32/heatmap.csv" | sort -u | wc -l)
[[ $cells -gt 20 && $(marks "$work/long-f32/heatmap.svg" '<polygon' 2) == "$cells" ]] ||
  bad "heatmap.svg has $(marks "$work/long-f32/heatmap.svg" '<polygon' 2) cells, the table $cells"

# Each program writes its share of what heads writes, for any number of threads.
run pca "$data/long-f32.safetensors" --out "$work/pca" --threads 1
wrote "$work/pca" qk.csv $(both qk_scatter qk_map)
run rotation "$data/long-f32.safetensors" --out "$work/rotation" --threads 1 --head 3.2
wrote "$work/rotation" rotated.csv $(both bias_histogram bias_map plane_layer3_head2)
run plasticity "$data/long-f32.safetensors" --out "$work/plasticity" --threads 1
wrote "$work/plasticity" profile.csv heatmap.csv bins.csv $(both profile heatmap plasticity_map)
for table in pca/qk rotation/rotated plasticity/profile plasticity/heatmap plasticity/bins; do
  cmp "$work/$table.csv" "$work/long-f32/$(basename $table).csv" || bad "$table.csv depends on the program or the threads"
done

run heads --help
[[ -s $work/stdout ]] || bad "heads --help says nothing"
refused CAPTURE heads
refused --out pca "$data/long-f32.safetensors"
refused --nonsense pca "$data/long-f32.safetensors" --out "$work/x" --nonsense
refused nowhere rotation "$work/nowhere" --out "$work/x"
refused manifest.json heads "$work/pca" --out "$work/x"
refused LAYER.HEAD rotation "$data/long-f32.safetensors" --out "$work/x" --head three
refused "9.9" rotation "$data/long-f32.safetensors" --out "$work/x" --head 9.9
refused "query model" plasticity "$data/long-f32.safetensors" --out "$work/x" --covariance empirical
refused --covariance plasticity "$data/long-f32.safetensors" --out "$work/x" --covariance diagonale
refused ascend plasticity "$data/long-f32.safetensors" --out "$work/x" --bucket-edges 0,512,256
refused --out heads "$data/long-f32.safetensors" --out /dev/null/x
head -c 5000 "$data/long-f32.safetensors" >"$work/short.safetensors"
refused short.safetensors heads "$work/short.safetensors" --out "$work/x"
echo "no capture" >"$work/text.safetensors"
refused text.safetensors heads "$work/text.safetensors" --out "$work/x"
program_path=/nowhere
refused "gnuplot is not installed" pca "$data/long-f32.safetensors" --out "$work/x"
program_path=$PATH

# A NaN in row 7 of layer.0.k, the tensor with which the data of this file begin.
header=$(od -An -t u8 -N 8 "$data/long-f32.safetensors")
cp "$data/long-f32.safetensors" "$work/nan.safetensors"
printf '\377\377\377\177' | dd of="$work/nan.safetensors" bs=1 seek=$((8 + header + 7 * 2 * 32 * 4)) conv=notrunc 2>/dev/null
refused "layer.0.k row 7" heads "$work/nan.safetensors" --out "$work/x"

((failures == 0)) && echo "programs: all as expected"
exit $((failures > 0))
