#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# compare --heads: a model against itself changes no head; two checkpoints differ by what the tables of each say, and where
# their embeddings differ by the sum of both parts; the rates are Benjamini and Hochberg's.
set -uo pipefail
source "$QKGEOM_SOURCE/tests/examples/common.sh"
slow_under_asan compare

some=(--examples 5 --max-length 256 --bucket-size 16 --layers 0,3)
take lc-512-to-4096-step-80 base "${some[@]}" --sampler all
take lc-4096-to-8192-step-10 tuned "${some[@]}" --sampler all
take lc-4096-to-8192-step-10 pre "${some[@]}" --sampler all --pre-rope
take lc-4096-to-8192-step-10 drawn "${some[@]}" --rate 8
cp -r "$work/tuned" "$work/same"
run compare "$work/base" "$work/tuned" --heads --context 1024 --covariance joint --no-figures --out "$work/found"
grep -q "Heads of tuned that differ from base's (false discovery rate 5 %)" "$work/stdout" || bad "no table of heads: $(tail -20 "$work/stdout")"
run compare "$work/tuned" "$work/same" --heads --covariance joint --no-figures --out "$work/none"
run compare "$work/base" "$work/pre" --heads --covariance joint --no-figures --out "$work/early"
run compare "$work/base" "$work/drawn" --heads --covariance joint --no-figures --out "$work/few"
run heads "$work/tuned" --covariance joint --no-figures --out "$work/heads"
run what-if "$work/base" --rope-theta 1000000 --covariance joint --no-figures --out "$work/what-if"    # the base of tuned
run grip "$work/tuned" --context 1024 --no-figures --out "$work/grip"
refused 'compares captures of one context' compare "$work/tuned" "$golden/short-bf16.safetensors" --heads --out "$work/x"
refused 'shorter than the captures, 256 tokens' compare "$work/base" "$work/tuned" --heads --context 64 --out "$work/x"
python3 - "$work" <<'END' || bad "compare --heads"
import collections
from written import *
found = rows("found/head_differences.csv")
groups = collections.defaultdict(dict)
for r in found:
    groups[int(r["context"]), r["part"], r["number"]][r["layer"], r["q_head"]] = r
numbers = ["bias_context_logits", "ap_overall", "ap_drop", "winner_1", "winner_8", "matched_1", "matched_8", "reach"]
assert set(groups) == {(n, part, x) for n in (256, 1024) for part in ("total", "frequencies", "statistics") for x in numbers}, set(groups)
assert all(len(g) == 16 for g in groups.values())
for (n, part, x), g in groups.items():
    for h, r in g.items():
        d = number(r["difference"])
        if part == "total" and not math.isnan(d):
            assert math.isclose(d, number(r["value"]) - number(r["less_value"]), abs_tol=1e-12), r
            parts = sum(number(groups[n, p, x][h]["difference"]) for p in ("frequencies", "statistics"))
            assert math.isclose(parts, d, abs_tol=1e-9), (r, parts)
    p = sorted(number(r["p"]) for r in g.values() if r["p"])
    for r in g.values():
        if r["p"]:
            expected = min(len(p) / (i + 1) * p[i] for i in range(len(p)) if p[i] >= number(r["p"]))
            assert math.isclose(number(r["rate"]), min(1, expected), rel_tol=1e-9), r
for r in rows("heads/heads.csv"):
    for x in ("bias_context_logits", "ap_overall", "ap_drop"):
        got = groups[256, "total", x][r["layer"], r["q_head"]]
        assert math.isclose(number(got["value"]), number(r[x]), rel_tol=1e-12) and got["class"] == r["head_class"], (r, got)
for r in rows("what-if/predicted/heads.csv"):
    part = groups[256, "frequencies", "ap_overall"][r["layer"], r["q_head"]]
    assert math.isclose(number(part["value"]), number(r["ap_overall"]), rel_tol=1e-6), (r, part)
    assert r["rope"] == "0" or number(part["difference"]) != 0, part
for r in rows("grip/grip_heads.csv"):
    for x in ("winner_8", "reach"):
        assert math.isclose(number(groups[1024, "total", x][r["layer"], r["q_head"]]["value"]), number(r[x]), rel_tol=1e-9, abs_tol=1e-12), (x, r)
changed = json.load(open(f"{work}/found/changed_heads.json"))
assert {(c["head"], c["number"], c["context"]) for c in changed} == {
    (f"{r['layer']}.{r['q_head']}", r["number"], int(r["context"])) for r in found if r["part"] == "total" and r["rate"] and number(r["rate"]) <= 0.05}
assert len(changed) > 3, len(changed)
# NoPE layers: another base changes nothing there.
assert all(number(r["difference"] or 0) == 0 for (n, part, x), g in groups.items() if part == "frequencies" and x != "reach"
           for r in g.values() if r["layer"] == "3"), "an embedding changed a NoPE head"
none = rows("none/head_differences.csv")
assert len(none) == 16 * 8 and all(number(r["difference"] or 0) == 0 for r in none) and json.load(open(f"{work}/none/changed_heads.json")) == []
# Rows from before the rotation are rotated first; a draw has no grip.
early = {(r["layer"], r["q_head"], r["number"], r["part"]): r for r in rows("early/head_differences.csv")}
for h, r in groups[256, "total", "ap_overall"].items():
    assert math.isclose(number(early[*h, "ap_overall", "total"]["value"]), number(r["value"]), rel_tol=1e-3), r
assert {r["number"] for r in rows("few/head_differences.csv")} == set(numbers[:3])
END
