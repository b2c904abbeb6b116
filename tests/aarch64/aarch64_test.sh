#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The mathematics on another CPU: compiles the library's bodies and the tests of core, stats, geometry, model and plasticity (but
# those that read files) for aarch64, and runs them under qemu-user. Skipped without g++-aarch64-linux-gnu, qemu-user or libgtest-dev.
set -euo pipefail
compiler=aarch64-linux-gnu-g++
emulator=$(command -v qemu-aarch64 || command -v qemu-aarch64-static || true)
gtest=/usr/src/googletest
if ! command -v $compiler >/dev/null || [[ -z $emulator || ! -d $gtest ]]; then
  echo "skipped: needs g++-aarch64-linux-gnu, qemu-user and libgtest-dev"
  exit 77
fi
cd "$QKGEOM_SOURCE"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Headers that are alike on every CPU (Eigen, Boost) come last, behind the compiler's own.
flags=(-std=c++20 -O1 -g0 -w -Wno-psabi -DQKGEOM_PRECOMPILED -DQKGEOM_TEST_DATA="\"$PWD/tests/data\"" -Iinclude -I. -isystem $gtest/googletest/include
  -isystem $gtest/googlemock/include -I$gtest/googletest -I$gtest/googlemock -idirafter /usr/include/eigen3 -idirafter /usr/include)
compile() { nice $compiler "${flags[@]}" -c "$1" -o "$work/$2.o"; }
compile .cmake/precompiled.cpp library
printf '#include "%s"\n' src/gtest-all.cc src/gmock-all.cc src/gtest_main.cc >"$work/gtest.cpp"
compile "$work/gtest.cpp" gtest
for room in core stats geometry model plasticity; do
  { grep -LE 'qkgeom/io/|tests/io/|data_files|compared_contexts' tests/$room/*_test.cpp || true; } | sed 's/.*/#include "&"/' >"$work/$room.cpp"
  compile "$work/$room.cpp" $room
done
$compiler "$work"/*.o -pthread -static -o "$work/tests"
"$emulator" "$work/tests" --gtest_brief=1 >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
tail -n 1 "$work/log"
