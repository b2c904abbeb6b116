#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# heads --details uses the query models of the profile, from rows or from every token, also with few rows; the decay check
# uses --query-position.
set -uo pipefail
source "$QKGEOM_SOURCE/tests/examples/common.sh"
some=(--examples 3 --max-length 512 --layers 1,3 --heads 4 --bucket-size 64 --moments)
take stage1-step-250 many "${some[@]}" --rate 24
run heads "$work/many" --no-figures --out "$work/tokens" --details
run heads "$work/many" --no-figures --out "$work/rows" --details --rows-only
run heads "$work/many" --no-figures --out "$work/mean" --details --query-position mean

# Keys before the second query bucket lie in the first key bucket, so that the table's cell equals the profile's bucket.
for which in tokens rows; do
  profile=$(awk -F, '$3 == 1 && /,diagonal,/ { print $6 }' "$work/$which/profile.csv")
  cells=$(awk -F, 'NR == 1 { for (i = 1; i <= NF; ++i) at[$i] = i; next }
    $at["q_bucket"] == 1 && $at["k_bucket"] == 0 { print $at["plasticity"] }' "$work/$which/bucket_table.csv")
  [[ $(wc -w <<<"$cells") == 4 ]] || bad "$which: cells $cells"
  paste <(echo "$profile") <(echo "$cells") | awk '{ d = $1 - $2; if (d * d > 1e-12) exit 1 }' || bad "$which: $profile are not $cells"
done
for table in complement decay decay_profile bucket_table; do
  cmp -s "$work/tokens/$table.csv" "$work/rows/$table.csv" && bad "$table.csv takes no moments of every token"
done
cmp -s "$work/tokens/fits.csv" "$work/rows/fits.csv" || bad "fits.csv, which is of rows, depends on the moments"
[[ $(column "$work/tokens/decay_profile.csv" tau | sort -un | head -2 | tail -1) == 96 ]] || bad "tau is not a bucket's middle"
column "$work/mean/decay_profile.csv" tau | grep -x 96 >/dev/null && bad "--query-position mean does not reach decay_profile.csv"

# Buckets with fewer than two observed queries have a model but no gap.
take stage1-step-250 few "${some[@]}" --rate 1
run heads "$work/few" --no-figures --out "$work/sparse" --details
column "$work/sparse/gaps.csv" gap | grep . >/dev/null || bad "no bucket has a gap"
column "$work/sparse/gaps.csv" gap | sed 1,4d | grep -x '' >/dev/null || bad "every bucket has a gap"

# Buckets without a query model are gaps in the figures.
take stage1-step-250 log2 --examples 4 --max-length 256 --sampler log2 --heads 2.0,3.0
run heads "$work/log2" --out "$work/gaps" --details
[[ -s $work/gaps/decay.svg ]] || bad "no figure of the decay theorem of log2 buckets"

# PCA and rotation accept moments over any buckets.
take stage1-step-250 grid "${some[@]}" --rate 24 --statistics-bucket-size 100
run rotation "$work/grid" --no-figures --out "$work/of-grid"
run rotation "$work/many" --no-figures --out "$work/of-many"
awk -F, 'NR == FNR { a[FNR] = $0; next } { split(a[FNR], x); for (i = 4; i <= NF && FNR > 1; ++i) { d = x[i] - $i; if (d * d > 1e-16 * (1 + x[i] * x[i])) exit 1 } }' \
  "$work/of-grid/rotated.csv" "$work/of-many/rotated.csv" || bad "rotation of moments over other buckets"
