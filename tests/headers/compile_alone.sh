#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# compile_alone.sh [--together] COMPILER INCLUDE_DIR WORK_DIR SYSTEM_INCLUDES(;-separated) [THRUST_DEFINITION]
# Compiles each header of INCLUDE_DIR in a unit that holds nothing but this header, twice. Syntax and types only: no
# object file is written, two run at a time. Nothing is compiled again until a header changed.
# Headers named thrust_* are left out unless THRUST_DEFINITION (e.g. THRUST_DEVICE_SYSTEM=...) says how to compile them.
# --together: one unit that holds all headers.
set -euo pipefail
together=0
[[ $1 != --together ]] || { together=1; shift; }
compiler=$1 include=$2 work=$3
flags=(-std=c++20 -fsyntax-only -Wall -Wextra -Wconversion -Wshadow -Werror "-I$include")
all=(find "$include" -name '*.hpp')
if [[ -n ${5-} ]]; then flags+=("-D$5"); else all+=('!' -name 'thrust_*'); fi
IFS=';' read -ra system <<<"$4"
for folder in "${system[@]}"; do
  [[ $folder == "$include" || $folder != /* || $folder == /usr/include ]] || flags+=(-isystem "$folder")
done

mkdir -p "$work"
stamp=$({
  "$compiler" --version
  echo "$together" "${flags[@]}"
  cat "$0"
  "${all[@]}" -print0 | sort -z | xargs -0 sha256sum
} | sha256sum)
if [[ -f $work/stamp && $(<"$work/stamp") == "$stamp" ]]; then
  echo "no header changed since they all compiled with $compiler"
  exit 0
fi

if ((together)); then
  "${all[@]}" -printf '#include "%P"\n' | sort >"$work/all.cpp"
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
  "${all[@]}" -printf '%P\0' | sort -z |
    xargs -0 -P 2 -I{} bash -c 'check "$@"' _ {} "$compiler" "${flags[@]}"
fi
echo "$("${all[@]}" | wc -l) headers compile with $compiler"
echo "$stamp" >"$work/stamp"
