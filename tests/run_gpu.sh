#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# run_gpu.sh [--deps FOLDER] [--out FOLDER]   on a machine with a GPU: builds what needs one, runs its tests, the small ones
#     once more under compute-sanitizer (memcheck, racecheck), the example and the benches -> bench/results/<gpu>.json.
#     Under ten minutes on 16 cores. Needs a CUDA toolkit of at least 12.8 and g++; Eigen 3.4 and GoogleTest are taken from
#     FOLDER, else from the system. Nothing is fetched. --out: logs and results go there as well.
# run_gpu.sh --build-only [--deps FOLDER]     compiles for sm_80, sm_90 and sm_100, and runs what skips without a GPU.
# run_gpu.sh --pack FOLDER                    on a machine that has them: copies Eigen and GoogleTest's sources to FOLDER.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
deps='' out='' pack='' build_only=0
while (($#)); do
  case $1 in
    --deps) deps=$(cd "${2:?--deps needs a folder}" && pwd); shift 2 ;;
    --out) out=${2:?--out needs a folder}; shift 2 ;;
    --pack) pack=${2:?--pack needs a folder}; shift 2 ;;
    --build-only) build_only=1; shift ;;
    -h | --help) sed -n '3,10s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "unknown argument $1; see --help" >&2; exit 2 ;;
  esac
done

first_with() {   # first_with FILE FOLDER... : the first folder that holds FILE
  local file=$1 folder; shift
  for folder in "$@"; do [[ -e $folder/$file ]] && { echo "$folder"; return; }; done
  echo "$file was found in none of: $*" >&2
  return 1
}
eigen=$(first_with Eigen/Core ${deps:+"$deps/eigen3"} /usr/include/eigen3 /usr/local/include/eigen3)
gtest=$(first_with src/gtest-all.cc ${deps:+"$deps/googletest"} /usr/src/googletest/googletest /usr/local/src/googletest)
if [[ -n $pack ]]; then
  mkdir -p "$pack/eigen3" "$pack/googletest"
  cp -r "$eigen/Eigen" "$pack/eigen3/"
  cp -r "$gtest/src" "$pack/googletest/"
  mkdir -p "$pack/googletest/include"
  cp -r "$(first_with gtest/gtest.h "$gtest/include" /usr/include)/gtest" "$pack/googletest/include/"
  du -sh "$pack"
  exit 0
fi

command -v nvcc >/dev/null || PATH=$PATH:/usr/local/cuda/bin
command -v nvcc >/dev/null || { echo "nvcc is not on the PATH"; exit 1; }
toolkit=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
build=$root/build/gpu
mkdir -p "$build"
cd "$build"
if ((build_only)); then
  targets=(-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90 -gencode=arch=compute_100,code=sm_100)
else
  command -v nvidia-smi >/dev/null || { echo "skipped: no GPU on this machine"; exit 77; }
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
  targets=("-gencode=arch=compute_$capability,code=sm_$capability")
fi
includes=("-I$root/include" "-I$root" -isystem "$toolkit/include/cccl" -isystem "$eigen" -isystem "$gtest/include")
host=(g++ -std=c++20 -O2 -DNDEBUG -DQKGEOM_PRECOMPILED "${includes[@]}" -c)
cuda=(nvcc -std=c++20 -O3 -lineinfo -DNDEBUG -DQKGEOM_PRECOMPILED --expt-relaxed-constexpr -diag-suppress=554
      "${targets[@]}" "${includes[@]}" -c)

step() { echo "== $1 ($SECONDS s)"; }
step "build for ${targets[*]}"
pids=()
in_background() { "$@" & pids+=($!); }
in_background "${host[@]}" "$root/cmake/precompiled.cpp" -o precompiled.o
in_background g++ -std=c++17 -O1 -isystem "$gtest/include" -isystem "$gtest" -c "$gtest/src/gtest-all.cc" -o gtest.o
in_background g++ -std=c++17 -O1 -isystem "$gtest/include" -isystem "$gtest" -c "$gtest/src/gtest_main.cc" -o gtest_main.o
for unit in cmake/precompiled_cuda tests/gpu/contexts_test bench/gpu examples/embed_cuda; do
  in_background "${cuda[@]}" "$root/$unit.cu" -o "$(basename "$unit").o"
  ((build_only == 0)) || { wait "${pids[-1]}"; unset 'pids[-1]'; }   # where there is no GPU, cores are few
done
for pid in "${pids[@]}"; do wait "$pid"; done
link() { nvcc -o "$1" "$2.o" precompiled.o precompiled_cuda.o "${@:3}" -lcublas -lcusolver -lpthread; }
link contexts_test contexts_test gtest.o gtest_main.o
link gpu_bench gpu
link embed_cuda embed_cuda

status=0
keep() { [[ -z $out ]] || { mkdir -p "$out" && cp "$@" "$out/"; }; }
step tests
./contexts_test 2>&1 | tee tests.log || status=1
keep tests.log
if ((build_only)); then
  step done
  exit $status
fi

step example
./embed_cuda || status=1

small='on_gpu.a_row*:on_gpu.factors*:on_gpu.equal*:on_gpu.weights*'
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck; do
    step "compute-sanitizer $tool"
    timeout 150 compute-sanitizer --tool "$tool" --error-exitcode 9 ./contexts_test --gtest_filter="$small" \
      >"$tool.log" 2>&1 || { status=1; echo "$tool found something, or ran out of time"; }
    tail -3 "$tool.log"
    keep "$tool.log"
  done
else
  echo "compute-sanitizer is not there: memcheck and racecheck are left out"
fi

step benches
name=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -1 | tr 'A-Z ' 'a-z_' | tr -cd 'a-z0-9_-')
if timeout 200 ./gpu_bench >bench.json; then
  cat bench.json
  cp bench.json "$root/bench/results/$name.json"
  keep "$root/bench/results/$name.json"
else
  status=1
  echo "the benches failed"
fi
step "done, status $status"
exit $status
