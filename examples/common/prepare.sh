# SPDX-License-Identifier: MIT
# What the scripts of examples/ share, sourced by them after `set -euo pipefail`; their own comment is their help.
# prepare SCRIPT OUT TARGET...   goes to the repository's root, installs the Debian packages that are missing and builds
# the targets for this machine's CPU. Sets `bin`, the folder of the programs, and `data`, that of the bundled model.

# step TEXT: says what comes next, and after how much time.
step() { printf '\n[%2d:%02d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }

# options SCRIPT ARGUMENT...: prints the script's comment for --help, refuses other options.
options() {
  case ${2-} in
    -h | --help) sed -n '3,/^[^#]/s/^# \{0,1\}//p' "$1"; exit 0 ;;
    -*) echo "$(basename "$1"): unknown option $2 (see --help)" >&2; exit 2 ;;
  esac
}

prepare() {
  local script=$1 out=$2 log=build/demo-configure.log root
  shift 2
  root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
  cd "$root"
  data=examples/data/kjv-smollm3
  bin=build/native/bin

  step "Packages"
  bash .ci/install-packages.sh demo

  step "Building for this machine's CPU (build/native)"
  export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
  mkdir -p build "$out"
  cmake --preset native -DQKGEOM_BUILD_TESTS=OFF -DQKGEOM_BUILD_BENCH=OFF >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
  cmake --build --preset native --target "$@"
}
