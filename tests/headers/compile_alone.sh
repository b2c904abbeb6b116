#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# compile_alone.sh [--together] COMPILER INCLUDE_DIR WORK_DIR SYSTEM_INCLUDES(;-separated)
# Compiles each header of INCLUDE_DIR in a unit that holds nothing but this header, twice. Syntax and types only: no
# object file is written, two run at a time. Nothing is compiled again until a header changed. Headers only declare their
# heavy bodies here (QKGEOM_PRECOMPILED): those are headers of their own, compiled like the others.
# Headers named thrust_* are left out: they want Thrust, and the definitions of qkgeom::thrust_cpu.
# --together: one unit that holds all headers, bodies included.
set -euo pipefail
together=0
[[ $1 != --together ]] || { together=1; shift; }
compiler=$1 include=$2 work=$3
flags=(-std=c++20 -fsyntax-only -Wall -Wextra -Wconversion -Wshadow -Werror "-I$include")
((together)) || flags+=(-DQKGEOM_PRECOMPILED)
IFS=';' read -ra system <<<"$4"
for folder in "${system[@]}"; do
  [[ $folder == "$include" || $folder != /* || $folder == /usr/include ]] || flags+=(-isystem "$folder")
done

mkdir -p "$work"
stamp=$({
  "$compiler" --version
  echo "$together" "${flags[@]}"
  cat "$0"
  find "$include" -name '*.hpp' ! -name 'thrust_*' -print0 | sort -z | xargs -0 sha256sum
} | sha256sum)
if [[ -f $work/stamp && $(<"$work/stamp") == "$stamp" ]]; then
  echo "no header changed since they all compiled with $compiler"
  exit 0
fi

if ((together)); then
  find "$include" -name '*.hpp' ! -name 'thrust_*' -printf '#include "%P"\n' | sort >"$work/all.cpp"
  "$compiler" "${flags[@]}" "$work/all.cpp"
else
  check() {
    local header=$1; shift
    local unit; unit=$work/$(echo "$header" | tr '/' '_').cpp
    printf '#include "%s"\n#include "%s"\n' "$header" "$header" >"$unit"
    "$@" "$unit" || { echo "FAILED alone: $header" >&2; return 1; }
  }
  export -f check
  export work
  find "$include" -name '*.hpp' ! -name 'thrust_*' -printf '%P\0' | sort -z |
    xargs -0 -P 2 -I{} bash -c 'check "$@"' _ {} "$compiler" "${flags[@]}"
fi
echo "$(find "$include" -name '*.hpp' ! -name 'thrust_*' | wc -l) headers compile with $compiler"
echo "$stamp" >"$work/stamp"
