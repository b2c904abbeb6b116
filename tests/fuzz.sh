#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# fuzz.sh SECONDS [READER...]
# Gives damaged files to the readers of untrusted files (tests/fuzz/READER_fuzz.cpp; default: all), each for SECONDS, with
# AddressSanitizer and UndefinedBehaviorSanitizer. With clang, libFuzzer drives them; else the suite's own mutator, with a
# seed of its own per run. Inputs that libFuzzer finds worth keeping lie in build/fuzz/found/READER.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
seconds=${1:?usage: fuzz.sh SECONDS [READER...]}
shift
cd "$root"
settings=(-DQKGEOM_BUILD_TESTS=ON -DQKGEOM_CUDA=OFF)
if clang=$(command -v clang++); then
  settings+=(-DCMAKE_CXX_COMPILER="$clang" -DQKGEOM_LIBFUZZER=ON
    -DCMAKE_CXX_FLAGS="-O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all")
fi
cmake --preset sanitize -B build/fuzz "${settings[@]}"
cmake --build build/fuzz --target fuzz
readers=("$@")
if ((${#readers[@]} == 0)); then
  for file in tests/fuzz/*_fuzz.cpp; do
    name=${file##*/}
    readers+=("${name%_fuzz.cpp}")
  done
fi
for reader in "${readers[@]}"; do
  found=build/fuzz/found/$reader
  mkdir -p "$found"
  program=$root/build/fuzz/bin/qkgeom_${reader}_fuzz corpus=$root/tests/fuzz/corpus/$reader
  echo "== $reader"
  if [[ -n ${clang-} ]]; then
    (cd "$found" && "$program" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=20 -print_final_stats=1 . "$corpus")
  else
    (cd "$found" && "$program" "$corpus" "$seconds" "$RANDOM")
  fi
done
