#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# dynamics on small captures of two checkpoints: its files, the numbers of heads, equal results for any number of
# threads, and one sentence with exit status 2 on bad input.
set -uo pipefail
source "$QKGEOM_SOURCE/tests/examples/common.sh"
fails() { refused "$1" dynamics "${@:2}"; }

capture_checkpoint stage1-step-40 256 first
capture_checkpoint stage1-step-250 512 second
a=$work/first b=$work/second
printf 'checkpoint,heldout_loss\nlater,2.5\nnever,1\n' >"$work/loss.csv"
run dynamics "$a" "$b" --out "$work/out" --labels first,later --loss "$work/loss.csv" --threads 2 --precision f64
grep -q 'Change of log mean |bias|' "$work/stdout" || bad "no summary"
grep -q '^Steps to another rotary embedding or context' "$work/stdout" || bad "prints no split by embedding"
wrote "$work/out" columns.csv notes.csv trajectory.csv transitions.csv bias_split.csv embedding_split.csv $(both bias_token bias_context bias_in_sd \
  bias_factors correlation class_shares plasticity ap_drop)

# Means over heads equal those of heads.csv. In f64: f32 pairs round differently beside a heatmap.
run heads "$a" --no-figures --out "$work/heads" --threads 2 --precision f64
for name in alpha_k bias_context score_sd ap_drop r_k_pc0; do
  mean=$(column "$work/heads/heads.csv" $name | awk '{ s += $1 } END { printf "%.12g", s / NR }')
  absolute=$(column "$work/heads/heads.csv" $name | awk '{ s += $1 < 0 ? -$1 : $1 } END { printf "%.12g", s / NR }')
  for pair in "${name}_mean $mean" "${name}_mean_abs $absolute"; do
    set -- $pair
    got=$(column "$work/out/trajectory.csv" "$1" | head -1)
    awk -v x="$got" -v y="$2" 'BEGIN { d = x - y; exit !(d * d <= 1e-20 * y * y) }' || bad "$1 is $got, heads.csv says $2"
  done
done
[[ $(column "$work/out/trajectory.csv" heldout_loss | sort -u | tr '\n' ' ') == " 2.5 " ]] || bad "held-out losses"
[[ $(column "$work/out/trajectory.csv" group | sort | uniq -c | tr -s ' \n' ' ') == " 2 all 2 nope 2 rope " ]] ||
  bad "groups: $(column "$work/out/trajectory.csv" group | tr '\n' ' ')"

# transitions.csv holds every head.
total=$(awk -F, '$3 == "all" { n += $6 } END { print n }' "$work/out/transitions.csv")
[[ $total == $(($(wc -l <"$work/heads/heads.csv") - 1)) ]] || bad "$total heads in transitions.csv"

# What another context changes by itself and what was learned add up to the change; here the contexts differ.
paste -d' ' <(column "$work/out/embedding_split.csv" change) <(column "$work/out/embedding_split.csv" embedding) \
  <(column "$work/out/embedding_split.csv" learned) |
  awk '{ d = $1 - $2 - $3; if (d * d > 1e-24) { print "parts do not add up:", $0; e = 1 } if ($2 != 0) n += 1 }
    END { exit e || NR != 33 || n < 15 }' || bad "embedding_split.csv: $(cat "$work/out/embedding_split.csv")"

run dynamics "$a" "$b" --out "$work/one" --labels first,later --loss "$work/loss.csv" --threads 1 --precision f64
for table in trajectory transitions bias_split embedding_split; do
  cmp "$work/out/$table.csv" "$work/one/$table.csv" || bad "$table.csv depends on the threads"
done

run dynamics --help
fails CAPTURE "$a" --out "$work/x"
fails --out "$a" "$b"
fails "names 3 checkpoints" "$a" "$b" --out "$work/x" --labels one,two,three
fails "two checkpoints are called one" "$a" "$b" --out "$work/x" --labels one,one
fails "other heads" "$a" "$golden/long-f32.safetensors" --out "$work/x"
fails nowhere "$a" "$work/nowhere" --out "$work/x"
fails "no column heldout_loss" "$a" "$b" --out "$work/x" --loss <(printf 'checkpoint,loss\nfirst,1\n')
printf 'checkpoint,heldout_loss\nelsewhere,2\n' >"$work/other.csv"
fails "none of the checkpoints" "$a" "$b" --out "$work/x" --loss "$work/other.csv"
printf 'checkpoint,heldout_loss\nfirst,2\nfirst,3\n' >"$work/twice.csv"
fails "is there twice" "$a" "$b" --out "$work/x" --loss "$work/twice.csv"
printf 'checkpoint,heldout_loss\nfirst,low\n' >"$work/word.csv"
fails "must be a number" "$a" "$b" --out "$work/x" --loss "$work/word.csv"
fails --blocks "$a" "$b" --out "$work/x" --blocks 1
