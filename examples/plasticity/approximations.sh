#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# approximations.sh [OUT]   Errors of the approximations on the bundled model and books (8192 tokens each), in one command
# on a CPU: query models against the observed queries and each other, drawn pairs against all, f32 against f64 pair
# arithmetic, bf16 against f32 captures, query positions. OUT: out/approximations by default. Writes
# OUT/approximations.csv, which docs/numerics.md reads. Installs missing Debian packages and builds qkgeom; reuses what an
# earlier run built or captured.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../common/prepare.sh"
options approximations "$@"
prepare heads plasticity capture

step "Capturing queries and keys of all heads, in f32 and in bf16"
for dtype in f32 bf16; do
  "$bin/qkgeom" capture --model "$data/lc-4096-to-8192-step-10" --jsonl "$data/heldout.jsonl" --max-length 8192 \
    --heads all --bucket-size 512 --rate 24 --dtype $dtype --out "$out/capture-$dtype" --resume
done

step "Profiles under every setting"
models=diagonal,full,joint,linear_drift,empirical
analyse() { # PROGRAM NAME ARGUMENTS...: its tables in OUT/NAME
  "$bin/$1" "${@:3}" --out "$out/$2" >"$out/$2.log"
}
analyse heads base "$out/capture-f32" --covariance $models
analyse plasticity f64 "$out/capture-f32" --covariance $models --precision f64
analyse plasticity mean "$out/capture-f32" --covariance $models --query-position mean
analyse plasticity bf16 "$out/capture-bf16" --covariance $models
sizes=(100 1000 10000)
for n in "${sizes[@]}"; do
  analyse plasticity "sampled-$n" "$out/capture-f32" --covariance diagonal,joint --pairs "sampled:$n"
done

table=$out/approximations.csv
echo "approximation,against,group,heads,profile_mean_abs,profile_max,ap_mean,ap_mean_abs,ap_max,drop_mean_abs,drop_max" >"$table"
# compare NAME RUN COVARIANCE AGAINST RUN COVARIANCE GROUP...: differences over heads of the profiles' buckets, of AP over
# the whole context and of AP_drop (first less last fifth), computed from profile.csv as in heads.csv.
compare() {
  local group
  for group in "${@:7}"; do
    awk -F, -v OFS=, -v name="$1" -v a="$3" -v against="$4" -v b="$6" -v group="$group" '
      function size(x) { return x < 0 ? -x : x }
      function mean(s, n) { return n > 0 ? s / n : "" }
      FNR == 1 { ++file; for (i = 1; i <= NF; ++i) at[$i] = i; next }
      file == 1 { rope[$at["layer"] "." $at["q_head"]] = $at["rope"] ? "rope" : "nope"; next }
      $at["end"] > L { L = $at["end"] }
      { head = $at["layer"] "." $at["q_head"]; if (group != "all" && rope[head] != group) next }
      $at["covariance"] != (file == 2 ? a : b) || $at["plasticity"] == "" { next }
      { start[$at["q_bucket"]] = $at["start"]; end[$at["q_bucket"]] = $at["end"]; queries[head, $at["q_bucket"]] = $at["queries"]
        heads[head]; value[file, head, $at["q_bucket"]] = $at["plasticity"] }
      END {
        for (head in heads) {
          split("", sum); split("", weight)
          for (q in start) {
            if (!((2, head, q) in value) || !((3, head, q) in value)) continue
            d = value[2, head, q] - value[3, head, q]; w = queries[head, q]; middle = (start[q] + end[q]) / 2
            all += size(d); ++n; if (size(d) > most) most = size(d)
            sum[0] += w * d; weight[0] += w
            fifth = middle < 0.2 * L ? 1 : middle >= 0.8 * L ? 2 : 3
            sum[fifth] += w * d; weight[fifth] += w
          }
          d = sum[0] / weight[0]; ap += d; ap_size += size(d); if (size(d) > ap_most) ap_most = size(d); ++count
          if (!weight[1] || !weight[2]) continue
          d = sum[1] / weight[1] - sum[2] / weight[2]; drop += size(d); ++drops; if (size(d) > drop_most) drop_most = size(d)
        }
        print name, against, group, count, mean(all, n), most, mean(ap, count), mean(ap_size, count), ap_most, mean(drop, drops), drop_most
      }' "$out/base/heads.csv" "$out/$2/profile.csv" "$out/$5/profile.csv" >>"$table"
  done
}

step "Differences over the query heads"
observed=(base empirical_unbiased)
for model in diagonal full joint linear_drift; do
  compare "$model" base $model "observed queries" "${observed[@]}" all rope nope
done
compare "diagonal" base diagonal joint base joint all rope nope
compare "full" base full joint base joint all rope nope
compare "plug-in" base empirical "unbiased" "${observed[@]}" all
for model in diagonal joint; do
  for n in "${sizes[@]}"; do compare "sampled:$n $model" "sampled-$n" $model "all pairs" base $model all; done
  compare "f32 pairs $model" base $model "f64 pairs" f64 $model all
  compare "bf16 capture $model" bf16 $model "f32 capture" base $model all
  compare "tau at the mean $model" mean $model "at the middle" base $model all
done
compare "bf16 capture observed" bf16 empirical_unbiased "f32 capture" "${observed[@]}" all
awk -F, '{ printf "  %-24s %-17s %-5s %5s", $1, $2, $3, $4
           for (i = 5; i <= NF; ++i) printf NR == 1 ? " %16s" : " %16.2g", $i
           print "" }' "$table"

step "Difference of drawn pairs from all pairs, in sampling errors"
for n in "${sizes[@]}"; do
  for model in diagonal joint; do
    awk -F, -v n="$n" -v model=$model '
      FNR == 1 { ++file; for (i = 1; i <= NF; ++i) at[$i] = i; next }
      $at["covariance"] != model || $at["plasticity"] == "" { next }
      { key = $at["layer"] "." $at["q_head"] "." $at["q_bucket"] }
      file == 1 { all[key] = $at["plasticity"]; error += $at["standard_error"]; ++known; next }
      $at["sampling_error"] > 0 { z = ($at["plasticity"] - all[key]) / $at["sampling_error"]
                                  square += z * z; sampling += $at["sampling_error"]; ++drawn }
      END { printf "  sampled:%-6s %-9s root mean square %.3f over %d buckets; sampling error %.2g, over documents %.2g\n",
                   n, model, sqrt(square / drawn), drawn, sampling / drawn, error / known }' \
      "$out/base/profile.csv" "$out/sampled-$n/profile.csv"
  done
done

step "AP by the width of the query buckets: mean over heads, joint model and observed queries"
for width in 256 512 1024 2048; do
  analyse plasticity "width-$width" "$out/capture-f32" --covariance joint,empirical --bucket-size "$width"
  awk -F, -v width="$width" '
    FNR == 1 { ++file; for (i = 1; i <= NF; ++i) at[$i] = i; next }
    file == 1 { rope[$at["layer"] "." $at["q_head"]] = $at["rope"] ? "rope" : "nope"; next }
    $at["plasticity"] == "" || $at["covariance"] == "empirical" { next }
    { head = $at["layer"] "." $at["q_head"] " " $at["covariance"]; group[head] = rope[$at["layer"] "." $at["q_head"]] " " $at["covariance"]
      sum[head] += $at["queries"] * $at["plasticity"]; weight[head] += $at["queries"] }
    END { for (head in sum) { ap[group[head]] += sum[head] / weight[head]; ++heads[group[head]] }
          printf "  %5d tokens  ", width
          split("rope joint,rope empirical_unbiased,nope joint,nope empirical_unbiased", names, ",")
          for (i = 1; i <= 4; ++i) if (heads[names[i]]) printf "  %s %.3f", names[i], ap[names[i]] / heads[names[i]]
          print "" }' "$out/base/heads.csv" "$out/width-$width/profile.csv"
done

step "For comparison: a standard error over documents, mean over heads"
awk -F, 'NR == 1 { for (i = 1; i <= NF; ++i) at[$i] = i; next }
         { ap += $at["ap_overall_error"]; drop += $at["ap_drop_error"]; ++n }
         END { printf "  AP %.2g, AP_drop %.2g\n", ap / n, drop / n }' "$out/base/heads.csv"
step "Done: $table"
