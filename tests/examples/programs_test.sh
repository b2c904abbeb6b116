#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The programs on captures that Python wrote: exit status, files, equal results for any number of threads, and one sentence
# with exit status 2 on bad input.
set -uo pipefail
source "$QKGEOM_SOURCE/tests/examples/common.sh"
rows() { echo $(($(wc -l <"$1") - 1)); }

python3 "$QKGEOM_SOURCE/tests/data/make_long_f64.py" "$golden/long-f32.safetensors" "$work/long-f64.safetensors"
for capture in "$golden"/{long-f32,long-bf16,short-bf16}.safetensors "$work/long-f64.safetensors"; do
  name=$(basename "$capture" .safetensors)
  run heads "$capture" --out "$work/$name" --threads 2
  grep -q 'Head classes' "$work/stdout" || bad "heads $name: no summary"
done
[[ $(rows "$work/long-f32/heads.csv") == 5 && $(rows "$work/long-f32/qk.csv") == $((5 * 32)) ]] ||
  bad "long-f32: $(rows "$work/long-f32/heads.csv") heads, $(rows "$work/long-f32/qk.csv") components"

# Figures agree with tables: the scatter has a mark per head (and per entry of its legend: five classes, RoPE, NoPE), the
# heatmap a cell per pair of distances at which a head has at least 30 pairs.
marks() { sed -n "/gnuplot_plot_1\"/,/gnuplot_plot_$3\"/p" "$1" | grep -o "$2" | wc -l; }
[[ $(marks "$work/long-f32/qk_scatter.svg" "<use xlink:href='#gpPt" end) == $((5 + 5 + 2)) ]] ||
  bad "qk_scatter.svg has $(marks "$work/long-f32/qk_scatter.svg" "<use xlink:href='#gpPt" end) marks"
cells=$(awk -F, 'NR > 1 && $6 >= 30 { print $3 "," $4 }' "$work/long-f32/heatmap.csv" | sort -u | wc -l)
[[ $cells -gt 20 && $(marks "$work/long-f32/heatmap.svg" '<polygon' 2) == "$cells" ]] ||
  bad "heatmap.svg has $(marks "$work/long-f32/heatmap.svg" '<polygon' 2) cells, the table $cells"

# Each program writes the same tables as heads, for any number of threads.
run pca "$golden/long-f32.safetensors" --out "$work/pca" --threads 1
wrote "$work/pca" columns.csv notes.csv qk.csv $(both qk_scatter qk_map)
run rotation "$golden/long-f32.safetensors" --out "$work/rotation" --threads 1 --head 3.2
wrote "$work/rotation" columns.csv notes.csv rotated.csv $(both bias_histogram bias_map plane_layer3_head2)
run plasticity "$golden/long-f32.safetensors" --out "$work/plasticity" --threads 1
wrote "$work/plasticity" columns.csv notes.csv profile.csv heatmap.csv bins.csv $(both profile heatmap plasticity_map)
for table in pca/qk rotation/rotated plasticity/profile plasticity/heatmap plasticity/bins; do
  cmp "$work/$table.csv" "$work/long-f32/$(basename $table).csv" || bad "$table.csv depends on the program or the threads"
done

# A look at some heads gives their rows of the whole.
run heads "$golden/long-f32.safetensors" --out "$work/some" --layers 3 --heads 0.5 --details
grep -q ' query heads in 2 layers' "$work/stdout" || bad "heads of some layers: $(head -3 "$work/stdout")"
some=$(awk -F, '$1 == 3 || ($1 == 0 && $2 == 5)' "$work/long-f32/heads.csv")
[[ $(sed 1d "$work/some/heads.csv") == "$some" ]] || bad "heads.csv of some heads: $(cat "$work/some/heads.csv")"
for name in decay later_keys; do [[ -s $work/some/$name.svg ]] || bad "--details draws no $name"; done
for subject in Fit Gap 'Rotation planes' 'Decay theorem' 'Key buckets' 'Pair terms' 'Later keys'; do
  grep -qE "^  $subject: .*[0-9]" "$work/stdout" || bad "--details prints nothing of '$subject'"
done

refused 'this layer is not in the capture' heads "$golden/long-f32.safetensors" --out "$work/refused" --layers 77
OMPI_COMM_WORLD_SIZE=2 refused 'a launcher started 2' heads "$golden/long-f32.safetensors" --out "$work/refused"
[[ ! -e $work/refused ]] || bad "a run that is refused leaves its folder"

# Drawn pairs differ from all pairs by about their sampling error and do not depend on the threads; all pairs have a
# sampling error of 0. f64 arithmetic changes values by less than 1e-6, the query's position in its bucket by more.
plasticity() { run plasticity "$golden/long-f32.safetensors" --no-figures --out "$work/$1" --covariance joint "${@:2}"; }
plasticity all
plasticity drawn --pairs sampled:300 --threads 1
grep -q 'Over drawn pairs of keys of a document' "$work/stdout" || bad "the summary does not say that pairs were drawn"
plasticity drawn-2 --pairs sampled:300 --threads 2
cmp "$work/drawn/profile.csv" "$work/drawn-2/profile.csv" || bad "drawn pairs depend on the threads"
plasticity once --pairs per_document
grep -q 'all pairs of keys of a document, every document counting once' "$work/stdout" || bad "documents that count once"
plasticity prefixes --pairs prefix_uniform
cmp -s "$work/once/profile.csv" "$work/prefixes/profile.csv" && bad "--pairs prefix_uniform changes nothing"
plasticity precise --precision f64
plasticity mean --query-position mean
cat >"$work/differences.awk" <<'END'
FNR == 1 { ++file; for (i = 1; i <= NF; ++i) at[$i] = i; next }
$at["plasticity"] == "" { next }
{ key = $at["layer"] "." $at["q_head"] "." $at["q_bucket"]; s = $at["sampling_error"] }
file == 1 { value[key] = $at["plasticity"]; wrong += s == "" || s != 0; next }
{ d = $at["plasticity"] - value[key]; ++n; if (d * d > most) most = d * d; if (s > 0) { squares += d * d / s / s; ++drawn } }
END { printf "%d %d %.3f %g %d\n", n, drawn, drawn ? squares / drawn : 0, sqrt(most), wrong }
END
differ() { # A B CONDITION on n, drawn, z2 (mean square of difference over sampling error), most (largest difference)
  local found
  found=$(awk -F, -f "$work/differences.awk" "$work/$1/profile.csv" "$work/$2/profile.csv")
  awk "{ n = \$1; drawn = \$2; z2 = \$3; most = \$4; exit !(($3) && \$5 == 0) }" <<<"$found" ||
    bad "$1 and $2: n, drawn, z2, most, wrong errors: $found"
}
differ all drawn 'drawn >= 40 && z2 > 0.5 && z2 < 1.7 && most > 0.001'
differ all once 'most > 1e-5'
differ all precise 'n > 40 && drawn == 0 && most > 0 && most < 1e-6'
differ all mean 'n > 40 && most > 1e-6'

# The causes of each drop add up to it; it equals the drop of heads up to the rounding of f32 pairs.
run drop-split "$golden/long-f32.safetensors" --out "$work/drops"
printed=$(grep -oE '(all heads|RoPE layers|NoPE layers) +[0-9]+' "$work/stdout" | tr -s ' ' | paste -sd,)
[[ $printed == "all heads 5,RoPE layers 4,NoPE layers 1" ]] || bad "drop-split prints: $printed"
run heads "$golden/long-f32.safetensors" --out "$work/joint-heads" --covariance joint
sums=$(awk -F, 'NR == 1 { for (i = 1; i <= NF; ++i) at[$i] = i; next }
  { d = $at["drop"] - $at["drift"] - $at["content_mean"] - $at["variance"] - $at["keys"] - $at["rest"]
    if (d * d > 1e-24 || $at["drop"] == "") ++wrong; ++n; if ($at["drop_error"] > 0) ++errors }
  END { print n, wrong + 0, errors }' "$work/drops/drop_split.csv")
[[ $sums == "5 0 5" ]] || bad "drop_split.csv: heads, sums that are off, errors: $sums"
groups=$(cut -d, -f1,2 "$work/drops/drop_means.csv" | paste -sd' ')
[[ $groups == "group,heads all,5 rope,4 nope,1" ]] || bad "drop_means.csv: $groups"
same=$(awk -F, 'FNR == 1 { ++file; delete at; for (i = 1; i <= NF; ++i) at[$i] = i; next }
  file == 1 { drop[$at["layer"] "." $at["q_head"]] = $at["ap_drop"]; next }
  { d = $at["drop"] - drop[$at["layer"] "." $at["q_head"]]; if (d * d < 4e-12) ++n } END { print n + 0 }' \
  "$work/joint-heads/heads.csv" "$work/drops/drop_split.csv")
[[ $same == 5 ]] || bad "drop_split.csv: $same heads have the AP_drop of heads.csv"

# If no head has a value, the summary states why.
run plasticity "$golden/long-f32.safetensors" --out "$work/none" --bucket-size 1000000
grep -q 'None: one query bucket covers the whole context' "$work/stdout" || bad "no word on why there is no plasticity"
run plasticity "$golden/long-f32.safetensors" --out "$work/none" --bucket-edges 0,1,2,3
grep -qE 'None: of 3 query buckets [0-3] hold the two queries .* and [0-3] have a pair' "$work/stdout" ||
  bad "no word on why there is no plasticity in narrow buckets"
run plasticity "$golden/long-f32.safetensors" --out "$work/none" --bucket-edges 512,513
grep -q 'None: of 1 query bucket 0 hold' "$work/stdout" || bad "a bucket without queries is said to be the whole context"
run drop-split "$golden/long-f32.safetensors" --out "$work/none" --bucket-size 1000000
grep -q 'None: no head has plasticity in both fifths' "$work/stdout" || bad "drop-split does not say that there is none"

run heads --help
[[ -s $work/stdout ]] || bad "heads --help says nothing"
for program in heads pca report thesis; do
  run "$program" --version
  grep -qxE "qkgeom $program of qkgeom [0-9]+\.[0-9]+\.[0-9]+, kernels for (AVX|SSE|the least).*" "$work/stdout" || bad "$program --version: $(cat "$work/stdout")"
done
for arguments in --help "$golden/long-f32.safetensors --out $work/full"; do
  status=0
  "$QKGEOM_BIN/qkgeom" pca $arguments >/dev/full 2>"$work/stderr" || status=$?
  [[ $status == 2 && $(cat "$work/stderr") == "qkgeom pca: cannot write all of the standard output"* ]] ||
    bad "pca $arguments on a full disk: status $status, $(cat "$work/stderr")"
done
refused CAPTURE heads
refused --out pca "$golden/long-f32.safetensors"
refused --nonsense pca "$golden/long-f32.safetensors" --out "$work/x" --nonsense
refused nowhere rotation "$work/nowhere" --out "$work/x"
refused manifest.json heads "$work/pca" --out "$work/x"
refused LAYER.HEAD rotation "$golden/long-f32.safetensors" --out "$work/x" --head three
refused "9.9" rotation "$golden/long-f32.safetensors" --out "$work/x" --head 9.9
refused "9.9: this head is not in the capture" heads "$golden/long-f32.safetensors" --out "$work/unwritten" --head 9.9
[[ ! -e $work/unwritten ]] || bad "heads looks for a head after its analysis, or leaves an empty folder"
refused "query model" plasticity "$golden/long-f32.safetensors" --out "$work/x" --covariance empirical
refused --covariance plasticity "$golden/long-f32.safetensors" --out "$work/x" --covariance diagonale
refused "sampled:N" plasticity "$golden/long-f32.safetensors" --out "$work/x" --pairs sampled:1
refused "sampled:N" plasticity "$golden/long-f32.safetensors" --out "$work/x" --pairs some
refused --covariance drop-split "$golden/long-f32.safetensors" --out "$work/x" --covariance joint,diagonal
refused --pairs drop-split "$golden/long-f32.safetensors" --out "$work/x" --pairs sampled:100
refused inv_freq drop-split "$golden/long-f32.safetensors" --out "$work/x" --keys rotation
refused --details heads "$golden/long-f32.safetensors" --out "$work/x" --details --pairs sampled:100
refused --pairs plasticity "$golden/long-f32.safetensors" --out "$work/x" --preset attention-plasticity --pairs all
refused --details heads "$golden/long-f32.safetensors" --out "$work/x" --details --pairs per_document
refused "--layers 9" heads "$golden/long-f32.safetensors" --out "$work/x" --layers 9
refused "--heads 0.9: this head is not" heads "$golden/long-f32.safetensors" --out "$work/x" --heads 0.9
refused --precision plasticity "$golden/long-f32.safetensors" --out "$work/x" --precision f16
refused ascend plasticity "$golden/long-f32.safetensors" --out "$work/x" --bucket-edges 0,512,256
refused "cannot make the folder /dev/null/x" heads "$golden/long-f32.safetensors" --out /dev/null/x
refused "cannot open /proc/.qkgeom" heads "$golden/long-f32.safetensors" --out /proc
head -c 5000 "$golden/long-f32.safetensors" >"$work/short.safetensors"
refused short.safetensors heads "$work/short.safetensors" --out "$work/x"
echo "no capture" >"$work/text.safetensors"
refused text.safetensors heads "$work/text.safetensors" --out "$work/x"

# Tables alone need no gnuplot and are the same; without one the figures are left out, which is said.
PATH=/nowhere run heads "$golden/long-f32.safetensors" --out "$work/undrawn"
grep -q '^qkgeom heads: gnuplot is not installed, so the figures are left out' "$work/stderr" || bad "no word on figures without gnuplot"
PATH=/nowhere run heads "$golden/long-f32.safetensors" --no-figures --out "$work/tables"
grep gnuplot "$work/stderr" && bad "--no-figures speaks of gnuplot"
diff -r "$work/undrawn" "$work/tables" || bad "without gnuplot other tables than with --no-figures"
wrote "$work/tables" $(cd "$work/long-f32" && ls *.csv)
for table in "$work"/tables/*.csv; do cmp "$table" "$work/long-f32/$(basename "$table")" || bad "--no-figures changes $table"; done

# A program that is ended while it draws leaves whole files alone.
mkdir "$work/ending"
printf '#!/bin/sh\n[ -s "$2" ] || exit 0\n%s "$@"\nkill -TERM $PPID\nsleep 1\n' "$(command -v gnuplot)" >"$work/ending/gnuplot"
chmod +x "$work/ending/gnuplot"
{ PATH=$work/ending:$PATH "$QKGEOM_BIN/qkgeom" pca "$golden/long-f32.safetensors" --out "$work/ended"; } >/dev/null 2>&1
[[ $? == 143 ]] || bad "pca was not ended"
ls -A "$work/ended" | grep -E '^\.|svg|png|partial' && bad "pca left a part of a figure"

# Names of models and folders may hold any sign.
LC_ALL=C sed "s/kjv-smollm3/'tis''%d\`xy/" "$golden/long-f32.safetensors" >"$work/named.safetensors"   # as many bytes
run heads "$work/named.safetensors" --out "$work/"$'two\nlines'
grep -q "'tis''%d\`xy" "$work/"$'two\nlines/profile.svg' || bad "the name of a model in a figure"

# A NaN in row 7 of layer.0.k, the first tensor of this file.
header=$(od -An -t u8 -N 8 "$golden/long-f32.safetensors")
cp "$golden/long-f32.safetensors" "$work/nan.safetensors"
printf '\377\377\377\177' | dd of="$work/nan.safetensors" bs=1 seek=$((8 + header + 7 * 2 * 32 * 4)) conv=notrunc 2>/dev/null
refused "layer.0.k row 7" heads "$work/nan.safetensors" --out "$work/x"
PATH=/nowhere run plasticity "$golden/long-f32.safetensors" --out "$work/preset" --preset attention-plasticity   # draws nothing
