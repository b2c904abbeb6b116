#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# summarize.py --gpu on made-up numbers: goals are met, missed or not measured; a later run adds to the file; a benchmark
# that failed is named and makes the exit status 1.
set -euo pipefail
fail() { echo "$1" >&2; exit 1; }
command -v python3 >/dev/null || { echo "python3 is not there"; exit 77; }
summarize() { python3 "$QKGEOM_SOURCE/bench/summarize.py" "$1" result.json --gpu "A card" --command "a test" >out.txt; }

rm -rf first second result.json
mkdir -p first second
cat >first/gpu_bench_pairs.json <<'END'
{"benchmarks": [
 {"name": "pairs/pooled/split_bf16/d:128/iterations:10/manual_time", "run_type": "iteration", "iterations": 10, "real_time": 20.0,
  "cpu_time": 20.0, "time_unit": "ms", "pairs_per_s": 3e11, "share_of_gemm": 0.3, "best_s": 0.018, "heads": 30, "seconds_of_300_heads": 0.18}]}
END
cat >first/gpu_bench_pooled_profiles.json <<'END'
{"benchmarks": [
 {"name": "pooled_profiles/300_heads/iterations:5/manual_time", "run_type": "iteration", "iterations": 5, "real_time": 400.0,
  "cpu_time": 400.0, "time_unit": "ms", "pairs_per_s": 1e11, "best_s": 0.39}]}
END
summarize first || fail "a run without errors must end with status 0"
grep -q '^goal: f32-faithful pairs at d = 128: at least 2.5e+11 pairs/s: 3e+11  met$' out.txt || fail "the goal of pairs was met"
grep -q '^goal: profiles of 300 pooled heads: at most 0.3 s: 0.39  NOT MET$' out.txt || fail "the goal of profiles was missed"
grep -q '^goal: a whole model.*: not measured$' out.txt || fail "no whole model was measured"
grep -q '^pairs/pooled/split_bf16/d:128 .* 18.00 ms *300.0 G pairs/s  0.300 of gemm' out.txt || fail "the table lacks the pairs"

cat >second/prefill.json <<'END'
{"qwen3-0.6b": {"32768": {"transformers": {"tokens_per_s": 100}, "qkgeom_capture_all": {"speed_ratio": 1.2, "memory_ratio": 0.6},
                          "qkgeom_capture_stream": {"speed_ratio": 0.9, "memory_ratio": 0.4}}}}
END
cat >second/gpu_bench_moments.json <<'END'
{"benchmarks": [{"name": "moments/bf16/iterations:10/manual_time", "run_type": "iteration", "error_occurred": true,
                 "error_message": "no memory", "real_time": 0, "cpu_time": 0, "time_unit": "ms"}]}
END
status=0
summarize second || status=$?
((status == 1)) || fail "a benchmark that failed must give status 1, not $status"
grep -q '^FAILED moments/bf16: no memory$' out.txt || fail "the benchmark that failed is not named"
grep -q 'f32-faithful pairs.*  met$' out.txt || fail "what a run did not measure must stay"
grep -q "^goal: prefill of qwen3-0.6b, 32768 tokens: speed over transformers': at least 1: 1.2  met$" out.txt || fail "prefill's speed"
grep -q "^goal: prefill of qwen3-0.6b, 32768 tokens: peak memory over transformers': at most 0.5: 0.4  met$" out.txt || fail "prefill's memory"

rm second/gpu_bench_moments.json
cat >first/gpu_bench_moments.json <<'END'
{"benchmarks": [{"name": "moments/bf16/iterations:10/manual_time", "run_type": "iteration", "iterations": 10, "real_time": 1.0,
                 "cpu_time": 1.0, "time_unit": "ms", "rows_per_s": 1e9, "best_s": 0.001}]}
END
summarize first && summarize second || fail "a run of prefill alone must end with status 0"
! grep -q '^FAILED' out.txt || fail "a benchmark that has run since did not fail"

# A run that was killed leaves half a file.
mkdir -p third
rm -f result.json
cat first/gpu_bench_p*.json | sed '/^{"benchmarks": \[$/d; s/\]}$/,/' >whole.json
{ echo '{"benchmarks": ['; head -c -60 whole.json; } >third/gpu_bench_pairs.json
summarize third || fail "half a file must be read"
grep -q 'f32-faithful pairs.*  met$' out.txt || fail "what was complete of half a file counts"
grep -q '300 pooled heads.* not measured$' out.txt || fail "what was not complete of half a file does not count"
