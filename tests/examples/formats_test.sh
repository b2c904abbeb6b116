#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# docs/formats.md lists exactly the files that the programs write, docs/columns.md their columns. formats_test.sh --write: writes the columns to docs/columns.md.
set -uo pipefail
page=$QKGEOM_SOURCE/docs/formats.md columns=$QKGEOM_SOURCE/docs/columns.md
source "$QKGEOM_SOURCE/tests/examples/common.sh"

some=(--layers 2,3 --heads 4) few=(--examples 2 --max-length 128 "${some[@]}" --bucket-size 16 --rate 8)
take stage1-step-40 stage1-step-40 "${few[@]}" --label-fields id
take stage1-step-250 stage1-step-250 "${few[@]}"
take stage1-step-40 statistics "${few[@]}" --softmax --loss
take stage1-step-40 untrained "${few[@]}" --untrained 1
take stage1-step-40 empty --examples 1 --max-length 32 --rate 1e-9
"$QKGEOM_BIN/qkgeom" heads "$work/empty" --out "$work/none" >"$work/log" 2>&1 && bad "heads reads rows where there are none"
grep -q 'this capture holds no rows' "$work/log" || bad "heads says of no rows: $(cat "$work/log")"
capture=$work/stage1-step-40
run pca "$capture" --out "$work/pca"
run rotation "$capture" --out "$work/rotation"
run plasticity "$capture" --out "$work/plasticity"
run plasticity "$capture" --out "$work/preset" --preset attention-plasticity
run heads "$capture" --out "$work/heads"
run heads "$capture" --out "$work/details" --details
run heads "$capture" --out "$work/groups" --group-by id
run heads "$capture" --out "$work/contexts" --max-position 64
[[ $(column "$work/contexts/contexts.csv" context_length | sort -u | tr '\n' ' ') == "128 64 " ]] || bad "lengths in contexts.csv"
grep -q '^By the length of the context' "$work/stdout" || bad "heads prints nothing of --max-position"
run heads "$work/statistics" --out "$work/softmax"
grep -q '^What the softmax sees' "$work/stdout" && grep -q '^Loss of the next token' "$work/stdout" || bad "heads prints no softmax, or no loss"
printf 'model,score\nstage1-step-40,1\nstage1-step-250,3\nstatistics,2\n' >"$work/scores.csv"
run compare "$capture" "$work/stage1-step-250" "$work/statistics" "$work/untrained" --scores "$work/scores.csv" --heads --out "$work/models"
take stage1-step-40 before --examples 3 --max-length 64 --pre-rope --softmax
run export --for all "$work/before" --sink 4 --recent 16 --out "$work/exports"
take stage1-step-40 layer --examples 3 --max-length 64 --pre-rope --layers 2
run export --for tria "$work/layer" --out "$work/exports/tria"
run drop-split "$capture" --out "$work/drops"
run what-if "$capture" --context 1024 --out "$work/what_if"
run what-if "$capture" --actual "$capture" --out "$work/actual"
take stage1-step-40 every --examples 3 --max-length 256 "${some[@]}" --sampler all
run grip "$work/every" --context 512 --out "$work/grip"
run grip "$work/every" --near 64 --context 200 --actual "$work/every" --out "$work/grip_actual"
run bands "$capture" --out "$work/bands"
run bands "$capture" --out "$work/each" --each-plane --context 256
run bands "$work/every" --conditions --random 1 --out "$work/planes"
run choose-heads "$capture" --out "$work/choice" --count 1 --random 1
evaluate() { # CONDITIONS OUT OPTIONS...
  run evaluate --model "$model/stage1-step-40" --jsonl "$model/heldout.jsonl" --examples 2 --max-length 64 \
    --conditions "$work/$1/conditions.json" --out "$work/$2" "${@:3}"
}
evaluate choice evaluation --distances 16 --trials 2
run interventions "$work/evaluation" --out "$work/effects"
evaluate planes planes-evaluation --distances 16 --trials 2
run interventions "$work/planes-evaluation" --table "$work/planes/plane_sets.csv" --columns ap_drop,reach --out "$work/agreement"
run quantised-keys "$capture" --out "$work/rounded" --budgets 5 --types q8_0,q4_1,q4_0
evaluate rounded rounded-evaluation
run cache-losses "$work/rounded-evaluation" --out "$work/losses"
printf 'model,ap_drop,score\nother,0.2,3\n' >"$work/others.csv"
run report "$capture" --score 1 --others "$work/others.csv" --out "$work/report"
run dynamics "$capture" "$work/stage1-step-250" --out "$work/dynamics"
described=(pca="$work/pca" rotation="$work/rotation" plasticity="$work/plasticity" heads="$work/heads"
           "heads, captures with --softmax --loss=$work/softmax" "heads --details=$work/details" "heads --group-by LABEL=$work/groups"
           "heads --max-position N,...=$work/contexts"
           grip="$work/grip" "grip --actual CAPTURE=$work/grip_actual" what-if="$work/what_if" "what-if --actual CAPTURE=$work/actual" bands="$work/bands" "bands --each-plane=$work/each"
           "bands --conditions=$work/planes" "interventions --table FILE --columns NAMES=$work/agreement"
           compare="$work/models" "plasticity --preset attention-plasticity=$work/preset"
           "export --for triattention=$work/exports/triattention" "export --for tria=$work/exports/tria"
           "export --for expected-attention=$work/exports/expected-attention" "export --for duo=$work/exports/duo"
           "export --for rope-profiler=$work/exports/rope-profiler"
           drop-split="$work/drops" choose-heads="$work/choice" evaluate="$work/evaluation"
           interventions="$work/effects" quantised-keys="$work/rounded" cache-losses="$work/losses" report="$work/report" dynamics="$work/dynamics")
check() { python3 -B "$QKGEOM_SOURCE/tests/examples/formats_check.py" "$@"; }
check "$@" "$page" "$columns" "${described[@]}" || bad "docs/formats.md or docs/columns.md"

# Figures have a mark per value: the loss of every bucket; the sinks of each head, of both groups and of equal scores.
marks() { sed -n '/gnuplot_plot_1"/,/gnuplot_plot_end"/p' "$work/softmax/$1.svg" | grep -o "<use xlink:href='#gpPt" | wc -l; }
[[ $(marks loss) == 8 ]] || bad "loss.svg has $(marks loss) marks"
[[ $(marks softmax_first) == $(((4 + 2 + 1) * 8)) ]] || bad "softmax_first.svg has $(marks softmax_first) marks"

# The check finds what the pages lack, what they have too much, and columns.csv without a column.
finds() { # WORDS PAGE SED: the check refuses the pages, of which SED changed PAGE, with WORDS
  cp "$page" "$work/formats.md"
  cp "$columns" "$work/columns.md"
  sed -i "$3" "$work/$2.md"
  [[ $(check "$work/formats.md" "$work/columns.md" "${described[@]}") == *"$1"* ]] || bad "not found: $1"
}
finds '+| `residual_pos_r` |' columns '/^| `residual_pos_r`/d'
finds '-| `r_q_pc9` |' columns 's/^| `q_linear_share` |/| `r_q_pc9` | surplus |\n&/'
finds 'formats_test.sh --write' columns 's/^| `window` | tokens/| `window` | bytes/'
finds 'no section gaps.csv' columns '/^## gaps.csv/,/^## /d'
finds 'no program writes other.csv' columns '/^## gaps.csv/i ## other.csv\nNo table.\n'
finds 'pca draws' formats 's/qk_scatter, qk_map/qk_scatter/'
finds 'pca writes' formats 's/notes.csv, qk.csv/notes.csv/'
sed -i '/^qk.csv,r_k,/d' "$work/pca/columns.csv"
finds 'pca: columns.csv has other columns of qk.csv' formats ''
