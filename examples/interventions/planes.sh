#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# planes.sh [OUT]   Which planes of the rotary embedding does a model need near and far, and does geometry know? Holds still
# every plane, bands of planes and random planes in each of seven checkpoints of the bundled run; predicts grip, reach and
# AP_drop from short documents, and measures the loss near and far in documents of the trained length. Writes OUT/planes.csv.
# OUT: out/planes by default. MODELS [the seven]: folders or GGUF files; TEXTS [the held-out books]: JSON lines, of which the
# first SHORT [4] documents predict and DOCUMENTS [8] others are judged on, cut to LENGTH [that of config.json] tokens; DTYPE
# [f32]; EACH [--each-plane]: empty holds still bands alone. Installs missing Debian packages and builds qkgeom. A quarter of
# an hour on two cores; reuses what an earlier run built, captured or evaluated.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../common/prepare.sh"
options planes "$@"
prepare bands interventions capture evaluate
texts=${TEXTS:-$data/heldout.jsonl} short=${SHORT:-4}
read -ra models <<<"${MODELS:-${checkpoints[*]/#/$data/}}"

for model in "${models[@]}"; do
  name=$(basename "$model" .gguf)
  length=${LENGTH:-$(grep -oP '"max_position_embeddings": *\K[0-9]+' "$model/config.json")}
  step "$name: $length tokens"
  "$bin/qkgeom" capture --model "$model" --jsonl "$texts" --examples "$short" --max-length $((length > 2048 ? 1024 : length / 2)) \
    --dtype "${DTYPE:-f32}" --sampler all --pre-rope --out "$out/$name/short" --resume
  "$bin/qkgeom" bands "$out/$name/short" --context "$length" --conditions --random 2 ${EACH---each-plane} --no-figures --out "$out/$name/bands"
  evaluate "$out/$name/bands/conditions.json" "$out/$name/evaluation" --model "$model" --jsonl "$texts" --skip-examples "$short" \
    --examples "${DOCUMENTS:-8}" --max-length "$length" --dtype "${DTYPE:-f32}"
  "$bin/qkgeom" interventions "$out/$name/evaluation" --table "$out/$name/bands/plane_sets.csv" \
    --columns ap_drop,winner_8,matched_8,reach --out "$out/$name/effects"
done

step "The planes of each model"
python3 - "$out" "${models[@]}" <<'END'
import csv, os, sys
out, models = sys.argv[1], [os.path.basename(m).removesuffix(".gguf") for m in sys.argv[2:]]
rows = lambda path: list(csv.DictReader(open(f"{out}/{path}")))
lines = []
for name in models:
    sets = {r["condition"]: r for r in rows(f"{name}/bands/plane_sets.csv")}
    loss = {(r["ranking"], r["place"]): r for r in rows(f"{name}/effects/effects.csv") if r["measure"] == "loss"}
    agreement = {(r["place"], r["column"]): r for r in rows(f"{name}/effects/agreement.csv") if r["measure"] == "loss"}
    for ranking in dict.fromkeys(k[0] for k in loss):
        s = sets[f"{ranking}/chosen/still"]
        lines.append({"model": name, "planes": ranking, "count": s["planes"], "least_turns": s["least_turns"],
                      "most_turns": s["most_turns"], "predicted_winner_8": s["winner_8"], "predicted_ap_drop": s["ap_drop"]} |
                     {f"loss_{p}{e}": loss[ranking, p][f"chosen{e}"] for p in ("near", "far", "far_less_near") for e in ("", "_error")})
    single = [x for x in lines if x["model"] == name and x["planes"].startswith("plane ")]
    for by, least in (("loss_far_less_near", -1), ("predicted_winner_8", 1), ("predicted_ap_drop", 1)):
        if single:
            x = max(single, key=lambda x: -least * float(x[by]))
            print(f"{name}: most by {by}: {x['planes']} of {len(single)}, {float(x['least_turns']):.3g} turns, {float(x[by]):+.4f}")
    print(name + ": rank correlation with the loss far less near: " + ", ".join(
        f"{c} {float(a['rank_correlation']):+.2f} ± {float(a['rank_correlation_error'] or 'nan'):.2f}" for (p, c), a in agreement.items() if p == "far_less_near"))
with open(f"{out}/planes.csv", "w") as f:
    table = csv.DictWriter(f, lines[0], lineterminator="\n")
    table.writeheader()
    table.writerows(lines)
END
step "Done. docs/mending.md reads these tables."
