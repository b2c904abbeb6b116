#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# heads --group-by: the documents of a label's value give the same tables as a capture of them alone, and groups.csv holds
# the means of these tables.
set -uo pipefail
source "$QKGEOM_SOURCE/tests/examples/common.sh"
# Captures keep every token, so that a document's rows do not depend on other documents.
capture() { # TEXTS OUT OPTIONS...
  run capture --model "$model/stage1-step-250" --jsonl "$1" --max-length 128 --layers 2,3 --heads 4 --bucket-size 16 \
    --rate 16 --out "$work/$2" "${@:3}"
}
head -4 "$model/heldout.jsonl" | sed '1s/^{/{"kind": "a b", /; 3s/^{/{"kind": "a b", /; 2s/^{/{"kind": 7, /; 4s/^{/{"kind": 7, /' \
  >"$work/all.jsonl"
sed -n '1p; 3p' "$work/all.jsonl" >"$work/some.jsonl"
capture "$work/all.jsonl" all --label-fields kind,id --moments
capture "$work/some.jsonl" some --label-fields kind --moments # so that both have one shard per document
run heads "$work/all" --no-figures --out "$work/out" --group-by kind
grep -q '^By kind: ' "$work/stdout" && grep -q 'of the captured rows alone' "$work/stdout" || bad "no summary by kind"
run heads "$work/some" --no-figures --out "$work/alone" --refit-errors --rows-only
[[ $(ls -d "$work"/out/*/ | xargs -n1 basename | tr '\n' ' ') == "kind=7 kind=a_b " ]] || bad "folders: $(ls "$work/out")"
for table in "$work"/alone/*.csv; do
  cmp "$table" "$work/out/kind=a_b/$(basename "$table")" || bad "$(basename "$table") is not that of the documents alone"
done
cmp -s "$work/out/heads.csv" "$work/out/kind=a_b/heads.csv" && bad "a group has the tables of all documents"

# groups.csv: values, numbers of documents, means of the groups' tables; the two differences are negatives of each other.
[[ $(column "$work/out/groups.csv" value | uniq | tr '\n' ' ') == "7 a b " ]] || bad "values in groups.csv"
[[ $(column "$work/out/groups.csv" documents | sort -u) == 2 ]] || bad "documents in groups.csv"
for name in ap_drop bias_context; do
  mean=$(column "$work/out/kind=a_b/heads.csv" $name | awk '{ s += $1 } END { printf "%.12g", s / NR }')
  got=($(column "$work/out/groups.csv" $name)) rest=($(column "$work/out/groups.csv" ${name}_less_rest))
  close "${got[3]}" "$mean" || bad "$name of a b is ${got[3]}, its heads say $mean"
  close "${rest[3]}" "$(awk -v x="${got[3]}" -v y="${got[0]}" 'BEGIN { printf "%.12g", x - y }')" || bad "$name less the rest's"
done

# A warning if the same texts are given twice.
cp -r "$work/some" "$work/again"
run pca "$work/some" "$work/again" --no-figures --out "$work/twice"
grep -q 'some and .*/again are of the same texts' "$work/stdout" || bad "the same texts twice are not noted"

# The manifest may list documents in any order. A value without rows is left out and named.
cp -r "$work/all" "$work/turned"
python3 -B - "$work/turned/manifest.json" <<'EOF' || bad "the manifest could not be turned"
import json, sys
m = json.load(open(sys.argv[1]))
m["examples"].reverse()
json.dump(m, open(sys.argv[1], "w"))
EOF
run heads "$work/turned" --no-figures --out "$work/turned-out" --group-by kind
cmp "$work/out/groups.csv" "$work/turned-out/groups.csv" || bad "groups depend on the manifest's order"
{ cat "$work/all.jsonl"; echo '{"text": "Amen", "kind": "tiny", "id": "t"}'; } >"$work/more.jsonl"
capture "$work/more.jsonl" more --label-fields kind --skip-first 20
run heads "$work/more" --no-figures --out "$work/more-out" --group-by kind
grep -q 'left out: tiny: no queries in layer 2' "$work/stdout" || bad "a value without rows: $(grep 'left out' "$work/stdout")"
[[ $(column "$work/more-out/groups.csv" value | uniq | tr '\n' ' ') == "7 a b " ]] || bad "values in groups.csv beside one without rows"
column "$work/more-out/groups.csv" ap_overall_less_rest | grep -x '' >/dev/null && bad "no difference beside a value without rows"

refused "no document of the captures has this label, but there are id, kind" heads "$work/all" --group-by language --out "$work/x"
refused "all documents have the value a b" heads "$work/some" --group-by kind --out "$work/x"
