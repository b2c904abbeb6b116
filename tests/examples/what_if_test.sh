#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Long contexts from short captures of the bundled model: what short captures of six books predict for 8192 tokens, held
# against a capture at 8192 tokens of six other books.
set -uo pipefail
source "$QKGEOM_SOURCE/tests/examples/common.sh"
slow_under_asan what-if
checkpoint=$model/lc-4096-to-8192-step-10

capture() { take lc-4096-to-8192-step-10 "$@" --examples 6 --layers 2,3,5 --rate 16; } # OUT OPTIONS...
capture long --skip-examples 6 --max-length 8192

# The intervals, of nine tenths, hold 80 to 100 % of the heads' actual values over all numbers; predictions stand nearer to
# them than the short capture does.
for tokens in 512 2048; do
  capture short-$tokens --max-length 8192 --short $tokens
  run what-if "$work/short-$tokens" --actual "$work/long" --no-figures --out "$work/from-$tokens"
  grep -q 'What if: 8 192 tokens' "$work/stdout" || bad "what-if does not go where --short says: $(cat "$work/stdout")"
  python3 - "$work/from-$tokens" <<'END' || bad "from $tokens: $(cat "$work/from-$tokens/actual.csv")"
from written import *
actual = rows("actual.csv")
assert [r["heads"] for r in actual] == ["24"] * 7
assert 0.8 <= sum(float(r["in_interval"]) for r in actual) / 7
for r in actual:
    assert float(r["in_interval"]) > 0.7 and float(r["correlation"]) > 0.85, r
    assert float(r["correlation"]) > float(r["correlation_captured"]), r
    assert float(r["same_class"]) > 0.85 > float(r["same_class_captured"]), r
END
done
[[ $(head -1 "$work/from-512/self_check.csv") == factor,* && $(wc -l <"$work/from-512/self_check.csv") == 8 ]] ||
  bad "512 tokens check themselves from their half alone: $(cat "$work/from-512/self_check.csv")"

# A capture of rows after the rotation is turned back: the same prediction as from rows before it.
capture short-post --max-length 1024
run what-if "$work/short-post" --context 8192 --no-figures --out "$work/from-post"
capture short-pre --max-length 1024 --pre-rope
run what-if "$work/short-pre" --context 8192 --no-figures --out "$work/from-pre"
python3 - "$work" <<'END' || bad "rows from after the rotation predict something else"
from written import *
for x, y in zip(rows("from-post/what_if.csv"), rows("from-pre/what_if.csv"), strict=True):
    for n in ("ap_overall", "ap_drop", "r_k_a"):
        assert abs(float(x[n]) - float(y[n])) < 2e-4, (x["layer"], x["q_head"], n, x[n], y[n])
END

# Another scaling of the rotary embedding is that of a model that has it: in the first layer what the prediction of rows
# from before the rotation says, and a capture under it.
python3 - "$work/longrope.json" <<'END'
import json, sys
json.dump({"max_position_embeddings": 4096, "original_max_position_embeddings": 512, "rope_scaling": {
    "type": "longrope", "short_factor": [1.0] * 16, "long_factor": [1 + i / 4 for i in range(16)]}}, open(sys.argv[1], "w"))
END
scaled() { # OUT TOKENS OPTIONS...: of a model without scaling, made for 512 tokens
  take stage1-step-1000 "$1" --examples 3 --layers 0 --heads 2 --max-length "$2" --sampler all --dtype f32 "${@:3}"
}
scaled plain 700 --pre-rope
for scaling in dynamic:4 yarn:4:512 "longrope:$work/longrope.json"; do
  rm -rf "$work"/scaled "$work"/actual "$work"/predicted
  scaled scaled 700 --rope-scaling "$scaling"
  run heads "$work/scaled" --no-figures --out "$work/actual"
  run what-if "$work/plain" --rope-scaling "$scaling" --no-figures --out "$work/predicted"
  python3 - "$work" <<'END' || bad "$scaling predicts something else"
from written import *
for x, y in zip(rows("actual/heads.csv"), rows("predicted/predicted/heads.csv"), strict=True):
    for n in ("bias_strength", "mu_q_a", "r_k_a", "score_sd"):
        assert abs(float(x[n]) - float(y[n])) < 2e-5 * (abs(float(x[n])) + 1e-3), (x["q_head"], n, x[n], y[n])
END
done
scaled short 400 --rope-scaling "longrope:$work/longrope.json" --pre-rope
run what-if "$work/short" --context 700 --no-figures --out "$work/longer"
grep -q '3 documents in this context, 0 as captured' "$work/stdout" || bad "no note on long documents: $(cat "$work/stdout")"

# The parts of AP_drop add up to it, in every head and in the means; nothing turns in NoPE layers.
run bands "$work/short-pre" --context 8192 --no-figures --out "$work/bands"
python3 - "$work/bands" <<'END' || bad "bands: $(head -5 "$work/bands/band_drops.csv")"
from written import *
drops = rows("band_drops.csv")
for r in drops:
    parts = [float(r[n]) for n in ("often", "about_once", "hardly", "rest")]
    assert abs(sum(parts) - float(r["drop"])) < 1e-9, r
    assert r["rope"] == "1" or all(abs(p) < 1e-12 for p in parts[:3]), r
assert len({r["rope"] for r in drops}) == 2
share = {}
for r in rows("planes.csv"):
    head = r["layer"], r["q_head"]
    share[head] = share.get(head, 0) + float(r["score_variance_share"])
assert len(share) == 24 and all(abs(s - 1) < 1e-9 for s in share.values())
END

# A look at some heads gives their rows of the whole.
run what-if "$work/short-pre" --context 8192 --heads 3.1,5.0 --no-figures --out "$work/some"
[[ $(wc -l <"$work/some/what_if.csv") == 3 && $(wc -l <"$work/some/stationarity.csv") == 3 ]] || bad "--heads 3.1,5.0"
for number in ap_drop bias_context_logits; do
  cmp <(column "$work/some/what_if.csv" $number) <(paste -d, <(column "$work/from-pre/what_if.csv" layer) \
    <(column "$work/from-pre/what_if.csv" q_head) <(column "$work/from-pre/what_if.csv" $number) |
    awk -F, '$1 == 3 && $2 == 1 || $1 == 5 && $2 == 0 { print $3 }') || bad "$number of some heads"
done

# --plan prices both captures.
run capture --model "$checkpoint" --protocol "$QKGEOM_SOURCE/tests/examples/short_study.json" --short 1024 --examples 4 --plan
grep -Eq '^work .* FLOP/s of products' "$work/stdout" || bad "--plan says no time: $(cat "$work/stdout")"
grep -Eq '^instead of   .* FLOP at 8192 tokens, [0-9.]+ times as much' "$work/stdout" || bad "--plan --short: $(cat "$work/stdout")"
refused 'is not below the 1024 tokens' capture --model "$checkpoint" --plan --max-length 1024 --short 1024
refused 'needs the length that it stands for' capture --model "$checkpoint" --plan --short 1024

# What means in which planes make a dip: shown, and with the observed queries beside the model.
run recovery-planes
grep -Eq '^ +43 +0.39 +90°' "$work/stdout" || bad "recovery-planes: $(cat "$work/stdout")"
