#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# choose-heads, qkgeom evaluate and interventions on a small capture: sets of heads as documented, effects equal to those
# recomputed from the evaluation's tables, and one sentence with exit status 2 on bad input.
set -uo pipefail
source "$QKGEOM_SOURCE/tests/examples/common.sh"
checkpoint=$model/stage2-step-1400
documents=(--jsonl "$model/heldout.jsonl" --examples 3 --max-length 256)
run capture --model "$checkpoint" "${documents[@]}" --bucket-size 16 --rate 8 --out "$work/capture"
run choose-heads "$work/capture" --out "$work/choice" --count 4 --random 2
run evaluate --model "$checkpoint" "${documents[@]}" --conditions "$work/choice/conditions.json" --distances 50 \
  --trials 4 --out "$work/evaluation"
run interventions "$work/evaluation" --out "$work/effects"
grep -q 'Loss, far tokens' "$work/stdout" || bad "no table of the loss"

# A table of heads ranks by its columns: the first four by "score", two of a layer at most.
{
  echo layer,q_head,score,empty
  for layer in 0 1 2 3; do for head in 0 1 2 3 4 5 6 7; do echo "$layer,$head,$((layer * 10 - head)),"; done; done
} >"$work/table.csv"
run choose-heads "$work/capture" --rankings ap_low --table "$work/table.csv" --columns score --interventions ablate --count 4 --random 1 --out "$work/tabled"
[[ $(grep '^score,0,' "$work/tabled/chosen_heads.csv" | cut -d, -f3,4 | xargs) == "3,0 3,1 2,0 2,1" ]] || bad "heads by a table: $(cat "$work/tabled/chosen_heads.csv")"
[[ $(grep -c '"name"' "$work/tabled/conditions.json") == 4 ]] || bad "conditions of a table"
refused 'no head has a number to be ranked by, empty' choose-heads "$work/capture" --table "$work/table.csv" --columns empty --count 4 --out "$work/none"
refused 'there is no column nothing' choose-heads "$work/capture" --table "$work/table.csv" --columns nothing --count 4 --out "$work/none"
echo 1,1,5, >>"$work/table.csv"
refused 'a head has several rows' choose-heads "$work/capture" --table "$work/table.csv" --columns score --count 4 --out "$work/none"

python3 - "$work" <<'END' || bad "sets of heads or effects"
import collections
from written import *
# Sets of four heads; no head is both chosen and random; chosen and random sets have equally many heads per layer.
sets = collections.defaultdict(list)
for r in rows("choice/chosen_heads.csv"):
    sets[r["ranking"], int(r["random"])].append((int(r["layer"]), int(r["q_head"])))
assert set(sets) == {(name, n) for name in ("ap_low", "ap_high", "drop_high", "bias_high") for n in range(3)}, sorted(sets)
conditions = conditions_of("choice")
assert len(conditions) == 36 and all(len(c) == 4 for c in conditions.values()), len(conditions)
for (ranking, n), heads in sets.items():
    chosen = sets[ranking, 0]
    assert len(set(heads)) == 4 and not (n and set(heads) & set(chosen)), (ranking, n, heads)
    assert collections.Counter(l for l, _ in heads) == collections.Counter(l for l, _ in chosen), (ranking, n, "other layers")
    name = f"{ranking}/" + (f"random-{n}" if n else "chosen")
    for what in ("ablate", "clamp", "clamp_all"):
        assert {c["head"] for c in conditions[f"{name}/{what}"]} == {f"{l}.{h}" for l, h in heads}, f"{name}/{what}: other heads"

# Effects recomputed from the evaluation's tables.
measured = []
for r in rows("evaluation/condition_loss.csv"):
    middle = (float(r["start"]) + float(r["end"])) / 2
    for place in ["all"] + ["near"] * (middle < 51.2) + ["far"] * (middle >= 204.8):
        measured.append(((r["condition"], "loss", place), r["document"], float(r["loss"]), float(r["tokens"])))
for r in rows("evaluation/condition_probes.csv"):
    measured.append(((r["condition"], r["probe"], r["distance"]), r["trial"], float(r["right"]) / float(r["asked"]), float(r["asked"])))
value = means_by(measured)
for name in {k[0] for k in value}:
    near, far = value[name, "loss", "near"], value[name, "loss", "far"]
    value[name, "loss", "far_less_near"] = {u: far[u] - near[u] for u in far}
effects = rows("effects/effects.csv")
assert len(effects) == 4 * 3 * 5, len(effects)
for r in effects:
    what = (r["measure"], r["place"])
    base = value[("none",) + what]
    def shift(kind):
        changed = value[(f"{r['ranking']}/{kind}/{r['intervention']}",) + what]
        return [changed[u] - base[u] for u in sorted(base)]
    chosen, randoms = shift("chosen"), [shift("random-1"), shift("random-2")]
    mean = [statistics.mean(x) for x in zip(*randoms)]
    difference = [a - b for a, b in zip(chosen, mean)]
    want = {"n": len(base), "base": statistics.mean(base.values()), "chosen": statistics.mean(chosen),
            "chosen_error": standard_error(chosen), "random": statistics.mean(mean), "random_error": standard_error(mean),
            "random_spread": statistics.stdev([statistics.mean(x) for x in randoms]),
            "difference": statistics.mean(difference), "difference_error": standard_error(difference)}
    for name, x in want.items():
        assert abs(float(r[name]) - x) <= 1e-9 * max(1, abs(x)), (r, name, x)
assert any(abs(float(r["chosen"])) >= 1e-6 for r in effects if r["measure"] == "loss"), "nothing changes the loss"
END

wrote "$work/effects" columns.csv effects.csv $(both effects_loss effects_probes)
# A part of the rankings gives the sets that all of them give; the plan counts what is run, and writes nothing.
run choose-heads "$work/capture" --out "$work/part" --count 4 --random 2 --rankings bias_high,ap_high
diff <(grep -E '^(ranking|ap_high|bias_high),' "$work/choice/chosen_heads.csv") "$work/part/chosen_heads.csv" ||
  bad "--rankings changes the sets"
refused --rankings choose-heads "$work/capture" --out "$work/x" --rankings ap_middle
run evaluate --model "$checkpoint" "${documents[@]}" --conditions "$work/part/conditions.json" --distances 50 \
  --trials 4 --plan
grep -q '^conditions   19, ' "$work/stdout" || bad "conditions of the plan: $(cat "$work/stdout")"
grep -qE '^each         3 documents and 4 probes, [1-9][0-9]* tokens$' "$work/stdout" || bad "texts of the plan: $(cat "$work/stdout")"
grep -qE '^peak memory  about [0-9.]+ MB' "$work/stdout" || bad "memory of the plan: $(cat "$work/stdout")"
grep -qE '^time         about .* tokens per second' "$work/stdout" || bad "time of the plan: $(cat "$work/stdout")"
refused --out evaluate --model "$checkpoint" "${documents[@]}"
refused --pairs choose-heads "$work/capture" --out "$work/x" --pairs sampled:10
refused --covariance choose-heads "$work/capture" --out "$work/x" --covariance joint,diagonal
run capture --model "$checkpoint" "${documents[@]}" --layers 1-3 --heads 3 --bucket-size 16 --rate 8 --out "$work/single"
refused "of a layer that has one" choose-heads "$work/single" --out "$work/x" --count 3
refused "a quarter of each" choose-heads "$work/capture" --out "$work/x" --count 64
refused condition_loss.csv interventions "$work/capture" --out "$work/x"
refused "no head 9.0" evaluate --model "$checkpoint" "${documents[@]}" --out "$work/x" \
  --conditions <(echo '{"conditions": [{"name": "a", "changes": [{"head": "9.0", "ablate": true}]}]}')
refused "--records needs" evaluate --model "$checkpoint" "${documents[@]}" --out "$work/x" --records "$model/records.json"
refused "nothing to evaluate" evaluate --model "$checkpoint" --out "$work/x"

# choose_restored.py on a model of which two units differ from another: both rankings name them first, and each random set is
# of the chosen layers. Curves over the counts are drawn.
other=$model/stage3-step-150
cat >"$work/two.json" <<'END'
{"conditions": [{"name": "two", "changes": [{"head": "1.5", "restore": "shared_keys"}, {"head": "6.0", "restore": "shared_keys"}]}]}
END
run evaluate --model "$checkpoint" --restore-from "$other" --conditions "$work/two.json" --write "$work/mixed"
for name in stage2-step-1400 mixed; do
  folder=$model/$name
  [[ -d $folder ]] || folder=$work/$name
  run capture --model "$folder" --tokenizer "$model/tokenizer.json" "${documents[@]}" --sampler all --pre-rope --out "$work/all-$name"
  run grip "$work/all-$name" --no-figures --out "$work/grip-$name"
done
python3 -B "$QKGEOM_SOURCE/examples/interventions/choose_restored.py" "$checkpoint" "$work/mixed" "$work/grip-stage2-step-1400" \
  "$work/grip-mixed" "$work/mend" --counts 1,2 --random 3 || bad "choose_restored.py"
python3 - "$work" <<'END' || bad "conditions of choose_restored.py"
from written import *
conditions = {name: [x["head"] for x in changes] for name, changes in conditions_of("mend").items()}
scores = {f"{r['layer']}.{r['q_head']}": r for r in rows("mend/restored_heads.csv")}
grip = lambda name: rows(f"grip-{name}/grip_heads.csv")
assert conditions["weights-2/chosen/restore"] == ["1.4", "6.0"], conditions
for head, r in scores.items():
    assert (float(r["weights"]) > 0) == (head in ("1.4", "6.0")), (head, r)
    layer, key = (int(x) for x in (r["layer"], r["k_head"]))
    falls = [float(o["winner_8"]) + float(o["matched_8"]) + float(o["reach"]) / 512 - float(n["winner_8"]) -
             float(n["matched_8"]) - float(n["reach"]) / 512
             for o, n in zip(grip("stage2-step-1400"), grip("mixed")) if (int(o["layer"]), int(o["k_head"])) == (layer, key)]
    assert len(falls) == 4 and abs(math.fsum(falls) / 4 - float(r["geometry"])) <= 1e-12, (head, r, falls)
best = sorted(scores, key=lambda h: -float(scores[h]["geometry"]))[:2]
assert conditions["geometry-2/chosen/restore"] == sorted(best) and conditions["geometry-1/chosen/restore"] == best[:1], best
for ranking in ("geometry-2", "weights-2"):
    layers = [h[0] for h in conditions[f"{ranking}/chosen/restore"]]
    drawn = {k: tuple(v) for k, v in conditions.items() if k.startswith(f"{ranking}/random-")}
    assert all([h[0] for h in heads] == layers for heads in drawn.values()), (ranking, "random heads of other layers", drawn)
    assert len(set(drawn.values())) == len(drawn) == min(3, 2 ** len(set(layers)) if len(set(layers)) == 2 else 1), (ranking, drawn)
assert sum("/random-" not in k for k in conditions) == 2 * 2 + 1 + 16, sorted(conditions)
END
run evaluate --model "$checkpoint" --restore-from "$other" --jsonl "$model/heldout.jsonl" --examples 2 --max-length 64 \
  --conditions "$work/mend/conditions.json" --out "$work/mended"
run interventions "$work/mended" --out "$work/mended-effects"
wrote "$work/mended-effects" columns.csv effects.csv $(both effects_loss effects_by_count)

# Planes held still: each set's planes in every RoPE head, the predictions of grip and what-if on a capture whose manifest says
# that these planes stand still, and their agreement with the changes of the loss.
run bands "$work/all-stage2-step-1400" --context 384 --conditions --each-plane --random 2 --no-figures --out "$work/planes"
run evaluate --model "$checkpoint" "${documents[@]}" --conditions "$work/planes/conditions.json" --out "$work/still"
run interventions "$work/still" --table "$work/planes/plane_sets.csv" --columns ap_drop,reach --no-figures --out "$work/still-effects"
grep -q 'rank correlation over 37 conditions' "$work/stdout" || bad "no agreement: $(tail -8 "$work/stdout")"
for name in none often "plane 9"; do
  cp -r "$work/all-stage2-step-1400" "$work/of $name"
  python3 - "$work" "$name" <<'END'
from written import *
name = sys.argv[2]
path = f"{work}/of {name}/manifest.json"
manifest = json.load(open(path))
for change in conditions_of("planes").get(f"{name}/chosen/still", [])[:1]:
    for plane in change["rope"]["still"]:
        manifest["rope"]["inv_freq"][plane] = 0
json.dump(manifest, open(path, "w"))
END
  run grip "$work/of $name" --context 384 --no-figures --out "$work/grip of $name"
  run what-if "$work/of $name" --context 384 --covariance joint --no-figures --out "$work/drop of $name"
done
python3 - "$work" <<'END' || bad "sets of planes or their effects"
from written import *
conditions = conditions_of("planes")
sets = {r["condition"]: r for r in rows("planes/plane_sets.csv")}
turns = [10000 ** (-p / 16) * 384 / (2 * math.pi) for p in range(16)]
bands = {"often": [p for p in range(16) if turns[p] >= 4], "hardly": [p for p in range(16) if turns[p] < 0.25]}
bands["about_once"] = [p for p in range(16) if p not in bands["often"] + bands["hardly"]]
want = bands | {f"slowest-{n}": list(range(16 - n, 16)) for n in (1, 2, 4, 8)} | {f"plane {p}": [p] for p in range(16)}
names = [f"{r}/chosen/still" for r in want] + [f"{r}/random-{n}/still" for r in want if r[:5] != "plane" for n in (1, 2)]
assert sorted(conditions) == sorted(sets) == sorted(names), sorted(conditions)
rotating = sorted(f"{l}.{h}" for l in (0, 1, 2, 4, 5, 6) for h in range(8))
for name, changes in conditions.items():
    wanted, planes = want[name.split("/")[0]], {tuple(c["rope"]["still"]) for c in changes}
    assert sorted(c["head"] for c in changes) == rotating, name
    assert len(planes) == 1 and len(set(*planes)) == len(wanted) and ("/chosen" not in name or list(*planes) == wanted), (name, planes)
for r in want:
    drawn = [tuple(c[0]["rope"]["still"]) for name, c in conditions.items() if name.startswith(r + "/")]
    assert len(set(drawn)) == len(drawn), (r, drawn)

def mean(path, column, which=lambda r: r["rope"] == "1"):
    return statistics.mean(float(r[column]) for r in rows(path) if which(r))
for name in ("often", "plane 9"):
    r = sets[f"{name}/chosen/still"]
    for column, table in (("winner_8", "grip_heads.csv"), ("matched_8", "grip_heads.csv"), ("reach", "grip_heads.csv")):
        change = mean(f"grip of {name}/{table}", column) - mean(f"grip of none/{table}", column)
        assert abs(float(r[column]) - change) <= 2e-4 * max(1, abs(change)), (name, column, r, change)
    change = mean(f"drop of {name}/predicted/heads.csv", "ap_drop") - mean("drop of none/predicted/heads.csv", "ap_drop")
    assert abs(float(r["ap_drop"]) - change) <= 1e-5, (name, r, change)
    assert abs(float(r["winner_8"])) > 3 * float(r["winner_8_error"]) > 0, (name, "grip does not change", r)

def ranks(x):
    order = sorted(x)
    return [(order.index(v) + len(order) - order[::-1].index(v) - 1) / 2 for v in x]
loss = losses("still")
change = {c: statistics.mean(x - loss["none"][d] for d, x in v.items()) for c, v in loss.items()}
for r in rows("still-effects/agreement.csv"):
    if (r["measure"], r["place"]) == ("loss", "all"):
        x, y = ranks([float(s[r["column"]]) for s in sets.values()]), ranks([change[c] for c in sets])
        want = statistics.correlation(x, y)
        assert abs(float(r["rank_correlation"]) - want) <= 1e-9 and 0 < float(r["rank_correlation_error"]) < 1, (r, want)
assert abs(change["slowest-2/chosen/still"]) <= 1e-3 and change["often/chosen/still"] >= 0.1, change
three = sorted(sets, key=change.get)[::18]
with open(f"{work}/three.csv", "w") as table:
    csv.writer(table).writerows([("condition", "rank"), *zip(three, range(3))])
END
wrote "$work/still-effects" columns.csv effects.csv agreement.csv
run interventions "$work/still" --table "$work/three.csv" --columns rank --no-figures --out "$work/of-three"
grep -qE '^loss,all,rank,3,(1|0\.9{12}[0-9]*),$' "$work/of-three/agreement.csv" || bad "an error of ranks that no document changes: $(cat "$work/of-three/agreement.csv")"
with_table() { refused "$1" interventions "$work/still" --table "$2" --columns ap_drop --out "$work/x"; }
sed '$p' "$work/planes/plane_sets.csv" >"$work/twice.csv"
with_table 'a condition has several rows' "$work/twice.csv"
sed '$s/^plane 15/plane 16/' "$work/planes/plane_sets.csv" >"$work/other.csv"
with_table 'has no condition plane 16/chosen/still' "$work/other.csv"
refused 'lacks the key at position' bands "$work/capture" --conditions --out "$work/x"
refused '--random: must be at least 0, not -1 (see --help)' bands "$work/capture" --random -1 --out "$work/x"
