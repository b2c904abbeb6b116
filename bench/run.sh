#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# run.sh [NAME]   All benches and the NumPy baseline in one run; writes bench/results/NAME.json (NAME: cpu by default) and
# prints a table with ratios. Builds the native preset first, and a Python environment (build/venv) with NumPy and SciPy
# where PYTHON names none. About ten minutes; other programs on the machine make the numbers worse, so let it rest.
# PYTHON: an interpreter with numpy and scipy. ROUNDS [3]: how often the whole model and the baseline take turns.
set -euo pipefail
case ${1-} in
  -h | --help) sed -n '3,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
  -*) echo "run.sh: unknown option $1 (see --help)" >&2; exit 2 ;;
esac
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
name=${1:-cpu}
bin=build/native/bin
programs=(ceilings_bench pairs_bench moments_bench eigen_bench whole_model_bench)

load=$(cut -d' ' -f1 /proc/loadavg)
awk -v load="$load" 'BEGIN { exit !(load > 0.5) }' && echo "run.sh: other programs are running (load $load): the numbers will be too low" >&2

export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
mkdir -p build
cmake --preset native >build/bench-configure.log 2>&1 || { cat build/bench-configure.log >&2; exit 1; }
cmake --build --preset native --target gemm_rates "${programs[@]}"

python=${PYTHON:-}
if [[ -z $python ]]; then
  python=build/venv/bin/python
  [[ -x $python ]] || python3 -m venv build/venv
  "$python" -c 'import numpy, scipy' 2>/dev/null || "$python" -m pip install --quiet --require-hashes --no-deps -r .ci/bench-packages.txt
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for program in ceilings_bench pairs_bench moments_bench eigen_bench; do
  echo "$program" >&2
  "$bin/$program" --benchmark_min_time=1 --benchmark_out="$scratch/$program.json" --benchmark_out_format=json >/dev/null 2>&1
done
"$bin/whole_model_bench" --write "$scratch/rows.safetensors"
for ((round = 0; round < ${ROUNDS:-3}; ++round)); do
  echo "whole_model_bench and the NumPy baseline, round $((round + 1))" >&2
  "$bin/whole_model_bench" --benchmark_out="$scratch/whole_model_bench-$round.json" --benchmark_out_format=json >/dev/null 2>&1
  for blas_threads in $(printf '%s\n' 1 "$(nproc)" | sort -un); do
    for style in plain tuned; do
      OPENBLAS_NUM_THREADS=$blas_threads "$python" bench/baselines/whole_model.py "$scratch/rows.safetensors" --style $style \
        --json "$scratch/numpy-$style-$round-$blas_threads.json" >&2
    done
  done
done
"$bin/ceilings_bench" --benchmark_out="$scratch/ceilings_bench-again.json" --benchmark_out_format=json >/dev/null 2>&1

mkdir -p bench/results
"$python" bench/summarize.py "$scratch" "bench/results/$name.json" --command "bench/run.sh $name" --load "$load" \
  --cpu "$(lscpu | sed -n 's/^Model name: *//p') ($(nproc) cores, $(lscpu | grep -ow -m1 avx512f || lscpu | grep -ow -m1 avx2 || true))"
