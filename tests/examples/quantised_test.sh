#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# qkgeom quantised-keys, evaluate and cache-losses on a small capture: tables within their budget that flip no more than
# uniform types, conditions that name every head, losses equal to those recomputed, and one sentence with exit status 2 on
# bad input.
set -uo pipefail
source "$QKGEOM_SOURCE/tests/examples/common.sh"
checkpoint=$model/stage2-step-1400
documents=(--jsonl "$model/heldout.jsonl" --max-length 256)
run capture --model "$checkpoint" "${documents[@]}" --examples 3 --bucket-size 16 --rate 8 --out "$work/capture"
run quantised-keys "$work/capture" --out "$work/rounded" --budgets 5,5.5
grep -q 'Types by key head' "$work/stdout" || bad "no table of bits"
refused "a power of 2 from 64 to 256 must divide them" quantised-keys "$work/capture" --types q4_0,q4_0_rotated --out "$work/x"
run evaluate --model "$checkpoint" "${documents[@]}" --skip-examples 3 --examples 4 \
  --conditions "$work/rounded/conditions.json" --out "$work/evaluation"
run cache-losses "$work/evaluation" --out "$work/losses"
grep -qE 'table-5 (costs|cannot be told)' "$work/stdout" || bad "no verdict: $(cat "$work/stdout")"

python3 - "$work" <<'END' || bad "tables, conditions or losses"
import collections
from written import *
effects = {(r["layer"], r["k_head"], r["type"]): r for r in rows("rounded/rounded_keys.csv")}
heads = sorted({k[:2] for k in effects})
types = ["q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"]
assert len(heads) == 16 and len(effects) == 16 * len(types), (len(heads), len(effects))
mean = lambda column, t: statistics.mean(float(effects[h + (t,)][column]) for h in heads)
for column in ("flipped", "weighted", "mass", "moved"):
    assert 0 < mean(column, "q8_0") < mean(column, "q5_1") < mean(column, "q4_1") < mean(column, "q4_0") < 0.3, column
for r in effects.values():
    assert all(float(r[c + "_error"]) >= 0 and 0 <= float(r[c]) <= 1 for c in ("flipped", "weighted", "mass", "moved", "ap_overall")), r

# Each table keeps to its budget, has the masses of the effects, and flips no more than the uniform type of as many bits.
bits = {h[2]: float(r["bits"]) for h, r in effects.items()}
tables = collections.defaultdict(list)
for r in rows("rounded/bit_tables.csv"):
    tables[r["budget"]].append(r)
for budget, uniform in (("5", "q4_1"), ("5.5", "q5_0")):
    t = tables[budget]
    assert sorted((r["layer"], r["k_head"]) for r in t) == heads, budget
    assert statistics.mean(float(r["bits"]) for r in t) <= float(budget) and all(bits[r["type"]] == float(r["bits"]) for r in t), t
    assert all(r["mass"] == effects[r["layer"], r["k_head"], r["type"]]["mass"] for r in t), budget
    assert statistics.mean(float(r["mass"]) for r in t) <= mean("mass", uniform), (budget, uniform)
    assert sorted(r["type"] for r in t) == sorted(r["shuffled_type"] for r in t), budget
conditions = {name: {x["head"]: x["keys_as"] for x in changes} for name, changes in conditions_of("rounded").items()}
assert set(conditions) == {"uniform-" + t for t in types} | {f"{k}-{b}" for k in ("table", "shuffled") for b in ("5", "5.5")}, conditions
for r in tables["5"]:
    for q in range(4):
        head = f"{r['layer']}.{4 * int(r['k_head']) + q}"
        assert conditions["table-5"].get(head) == r["type"] and conditions["uniform-q8_0"].get(head) == "q8_0", head

# Differences recomputed from the evaluation's table.
value = losses("evaluation")
compared = {(r["condition"], r["against"]): r for r in rows("losses/cache_losses.csv")}
assert set(compared) == {(c, "none") for c in conditions} | {("table-5", "uniform-q4_1"), ("table-5.5", "uniform-q5_0")} | {
    (f"table-{b}", f"shuffled-{b}") for b in ("5", "5.5")}, sorted(compared)
for (c, against), r in compared.items():
    d = [value[c][k] - value[against][k] for k in value[c]]
    error = standard_error(d)
    assert math.isclose(float(r["difference"]), statistics.mean(d), rel_tol=0, abs_tol=1e-9), (r, d)
    assert math.isclose(float(r["difference_error"]), error, rel_tol=1e-6, abs_tol=1e-9), (r, error)
    assert abs(float(r["high"]) - float(r["low"]) - 2 * 3.182446 * error) <= 1e-4 * error, (r, error)
cost = {t: float(compared[f"uniform-{t}", "none"]["difference"]) for t in ("q4_0", "q8_0")}
assert cost["q4_0"] > 5 * abs(cost["q8_0"]), cost
END

run capture --model "$checkpoint" "${documents[@]}" --examples 1 --pre-rope --out "$work/before"
refused "capture without --pre-rope" quantised-keys "$work/before" --out "$work/x"
refused "a budget of 4 bits is below the 4.5" quantised-keys "$work/capture" --out "$work/x" --budgets 4
refused "--types names q4_0 twice" quantised-keys "$work/capture" --out "$work/x" --types q4_0,q4_0
refused "--types" quantised-keys "$work/capture" --out "$work/x" --types q2_k
sed 's/uniform-q4_0/other/; s/table-5,/table-five,/' "$work/evaluation/condition_loss.csv" >"$work/changed.csv"
mkdir "$work/changed" && mv "$work/changed.csv" "$work/changed/condition_loss.csv"
refused "table-five names no number of bits" cache-losses "$work/changed" --out "$work/x"
grep -E '^(condition|none)' "$work/evaluation/condition_loss.csv" >"$work/changed/condition_loss.csv"
refused "as qkgeom quantised-keys names them" cache-losses "$work/changed" --out "$work/x"
