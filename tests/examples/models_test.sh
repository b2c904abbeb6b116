#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# compare on small captures of two checkpoints: the numbers of dynamics and heads, paired differences of
# models with the same documents, equal results for any number of threads, and one sentence with exit status 2 on bad
# input.
set -uo pipefail
source "$QKGEOM_SOURCE/tests/examples/common.sh"
capture_checkpoint stage1-step-40 128 first
capture_checkpoint stage1-step-250 256 second
ln -s first "$work/again"
captures=("$work/first" "$work/second" "$work/again")
printf 'model,score,other\nfirst,1,\nlater,3,1\nagain,2,5\n' >"$work/scores.csv"
both() {
  run compare "${captures[@]}" --labels first,later,again --families A,B,A --scores "$work/scores.csv" --pair later,first \
    --pair again,first --bins 0,64,128 --precision f64 --out "$@"
}
both "$work/out" --threads 2
both "$work/one" --threads 1
for table in "$work"/out/*.csv; do
  cmp "$table" "$work/one/$(basename "$table")" || bad "$(basename "$table") depends on the threads"
done

# Numbers and errors equal those of dynamics; quintiles equal the means over heads of bins.csv.
run dynamics "${captures[@]:0:2}" --labels first,later --precision f64 --out "$work/dynamics"
for pair in ap_drop:ap_drop_mean ap_drop_error:ap_drop_mean_error abs_r_k_a:r_k_a_mean_abs bias_context:bias_context_mean \
  abs_bias_context_error:bias_context_mean_abs_error share_mixed:share_mixed ap_overall_head_error:ap_overall_mean_head_error; do
  mapfile -t got < <(column "$work/out/models.csv" "${pair%:*}")
  mapfile -t want < <(column "$work/dynamics/trajectory.csv" "${pair#*:}")
  for i in 0 1 2 3 4 5; do close "${got[i]}" "${want[i]}" || bad "${pair%:*} in row $i: ${got[i]}, not ${want[i]}"; done
done
run heads "$work/first" --precision f64 --no-figures --out "$work/heads"
want=$(awk -F, '$3 == "quintile" && $5 == 128 { s += $6; ++n } END { printf "%.12g", s / n }' "$work/heads/bins.csv")
got=$(awk -F, '$1 == "first" && $2 == "all" && $3 == "quintile" && $5 == 128 { print $6 }' "$work/out/positions.csv")
close "$got" "$want" || bad "the last quintile is $got, bins.csv says $want"

# A model less itself is 0 with error 0, since the jackknife leaves the same documents out of both.
awk -F, '$1 == "again" && $7 != "" && ($7 != 0 || ($8 != "" && $8 != 0) || $11 != 1) { e = 1 } $1 == "again" { ++n } END { exit e || n < 100 }' \
  "$work/out/differences.csv" || bad "differences of a model and itself"
awk -F, 'NR > 1 { d = $7 - ($5 - $6); if (d * d > 1e-24 * ($5 * $5 + 1)) e = 1 } END { exit e }' "$work/out/differences.csv" || bad "differences.csv"
awk -F, 'NR > 1 { d = $5 - ($3 - $4); if (d * d > 1e-24 * ($3 * $3 + 1)) e = 1 } END { exit e || NR < 100 }' "$work/out/rope_nope.csv" ||
  bad "rope_nope.csv"
# scores.csv omits the second score: only two models have it.
column "$work/out/scores.csv" score | sort -u | grep -x score >/dev/null && [[ $(column "$work/out/scores.csv" score | sort -u | wc -l) == 1 ]] ||
  bad "scores.csv has $(column "$work/out/scores.csv" score | sort -u)"
awk -F, '$3 == "heads" && $4 == "pooled" && $6 != 18 { e = 1 } END { exit e }' "$work/out/families.csv" ||
  bad "families.csv: $(grep pooled "$work/out/families.csv" | head -1)"

refused "two models are called one" compare "${captures[@]:0:2}" --labels one,one --out "$work/x"
refused "--families names 1" compare "${captures[@]:0:2}" --families A --out "$work/x"
refused "--pair must name two models" compare "${captures[@]:0:2}" --pair first --out "$work/x"
refused "--bins must be ascending" compare "${captures[@]:0:2}" --bins 64,0 --out "$work/x"
refused "none of the models is there" compare "${captures[@]:0:2}" --labels x,y --scores "$work/scores.csv" --out "$work/x"
