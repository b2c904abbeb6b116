# SPDX-License-Identifier: MIT
# Shared by the scripts of examples/, which source it after `set -euo pipefail`. A script's opening comment is its help.

# step TEXT: prints the time since the start and what comes next.
step() { printf '\n[%2d:%02d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }

# options NAME [OUT]: sets `out`, by default out/NAME of the repository. Prints the script's comment for --help and refuses
# other options.
options() {
  case ${2-} in
    -h | --help) sed -n '3,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "$(basename "$0"): unknown option $2 (see --help)" >&2; exit 2 ;;
  esac
  root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
  out=$(realpath -m "${2:-$root/out/$1}")
}

# prepare COMMAND...: goes to the repository's root, installs missing Debian packages and builds qkgeom with these commands
# for this machine's CPU. Sets `bin`, the folder of the programs, and `data`, the folder of the bundled model.
prepare() {
  local log=build/demo-configure.log
  cd "$root"
  data=examples/data/kjv-smollm3
  bin=build/native/bin

  step "Packages"
  bash .ci/install-packages.sh demo

  step "Building for this machine's CPU (build/native)"
  export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
  mkdir -p build "$out"
  cmake --preset native >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
  cmake --build --preset native --target qkgeom-program "${@/#/qkgeom-}"
}

# evaluate CONDITIONS FOLDER OPTIONS...: runs qkgeom evaluate, unless an earlier run did under these conditions.
evaluate() {
  if cmp -s "$1" "$2/conditions.json"; then echo "$2 has these conditions"; return; fi
  "$bin/qkgeom" evaluate --conditions "$1" --out "$2" "${@:3}"
  cp "$1" "$2/conditions.json"
}

# The bundled model's checkpoints in the order of training.
checkpoints=(stage1-step-40 stage1-step-250 stage1-step-1000 stage2-step-1400 stage3-step-150
             lc-512-to-4096-step-80 lc-4096-to-8192-step-10)

# field FILE NAME: a number of a JSON file with one field per line.
field() { sed -n "s/^ *\"$2\": \([0-9.]*\),\{0,1\}$/\1/p" "$1"; }
