#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds examples/python into this folder with pip, and checks it: arrays, processes, calls, tables, figures and page, the notebook,
# exports and predictions, captures, the monitor, stubs, the console script; and its source distribution.
# Needs python3 with numpy, pyarrow, nanobind, scikit-build-core and mypy:
# $QKGEOM_PYTHON, the one that tests/run.sh makes in build/python, or the one on the path; skipped if there is none.
# Run with QKGEOM_BIN and QKGEOM_SOURCE set, in a scratch folder.
set -uo pipefail
source "$QKGEOM_SOURCE/tests/common/find_python.sh"
find_python "numpy, pyarrow, nanobind, scikit_build_core, mypy"
if ! "$python" -c 'import sysconfig, os, sys; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'; then
  echo "skipped: the headers of Python are missing (python3-dev)"
  exit 77
fi

command -v ccache >/dev/null && export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$QKGEOM_SOURCE CCACHE_NOHASHDIR=1
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-2} PYTHONDONTWRITEBYTECODE=1
rm -rf site with-device prefix copied tree apart whole complete brought alone
cmake --install "$QKGEOM_BIN/.." --component qkgeom_library --prefix "$PWD/prefix" >install.log 2>&1 || { cat install.log; exit 1; }
# -Og, as the tests are: there is little data. The bodies that are compiled already are linked.
"$python" -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps --no-index --target "$PWD/site" \
  -C build-dir="$PWD/build" -C cmake.build-type=None -C cmake.define.CMAKE_CXX_FLAGS="-Og -DNDEBUG" \
  -C cmake.define.CMAKE_PREFIX_PATH="$PWD/prefix" "$QKGEOM_SOURCE/examples/python" >pip.log 2>&1 || { cat pip.log; exit 1; }
export PYTHONPATH=$PWD/site

failures=0
grep -q "^qkgeom_DIR:.*=$PWD/prefix/" build/CMakeCache.txt || { echo "FAILED: the package is not built on $PWD/prefix"; failures=1; }
# A copy of the folder alone finds the installed package too; the folder among the sources that is told of none uses these.
configured() { # NAME FOLDER SENTENCE ARGUMENTS...: in $PWD/NAME; compiles a unit, by its command alone: ninja would build the library first
  cmake -G Ninja -S "$2" -B "$1" -DCMAKE_BUILD_TYPE=Release -DPython_EXECUTABLE="$python" "${@:4}" >"$1.log" 2>&1 && grep -q "$3" "$1.log" &&
    (cd "$1" && ninja -t commands CMakeFiles/_qkgeom.dir/src/module.cpp.o | tail -1 | bash -e) >>"$1.log" 2>&1 && return
  cat "$1.log"
  echo "FAILED: $2 does not say '$3' and compile"
  failures=$((failures + 1))
}
cp -r "$QKGEOM_SOURCE/examples/python" copied
configured apart copied "qkgeom: the installed package .* of $PWD/prefix" -DCMAKE_PREFIX_PATH="$PWD/prefix"
configured tree "$QKGEOM_SOURCE/examples/python" "qkgeom: the sources of $QKGEOM_SOURCE/" -DQKGEOM_PYTHON_PROGRAMS=OFF
# A source distribution brings the sources along, with the license: all that the programs are built from.
mkdir whole
tar c -C "$QKGEOM_SOURCE" --exclude=examples/data --exclude=__pycache__ CMakeLists.txt LICENSE .cmake include capture examples | tar x -C whole
cp -r whole complete
(cd whole/examples/python && "$python" -c 'import scikit_build_core.build as b, sys; b.build_sdist(sys.argv[1])' "$OLDPWD/brought") >sdist.log 2>&1 &&
  tar xzf brought/qkgeom-*.tar.gz -C brought && rm -r whole || { cat sdist.log; failures=$((failures + 1)); }
rm -r complete/examples/python
diff -r complete brought/qkgeom-*/tree || { echo "FAILED: the source distribution is not complete"; failures=$((failures + 1)); }
configured alone "$(echo "$PWD"/brought/qkgeom-*/)" "qkgeom: the sources of $PWD/brought/qkgeom-.*/tree"
ninja -C alone -t commands all | grep -q 'examples/all/qkgeom ' || { echo "FAILED: it builds no programs"; failures=$((failures + 1)); }
grep -E '\]\((\.|[a-z]+/)' site/qkgeom-*.dist-info/METADATA && { echo "FAILED: a link of README.md leads nowhere on an index page"; failures=$((failures + 1)); }
cmp -s "$QKGEOM_SOURCE/LICENSE" site/qkgeom-*.dist-info/licenses/LICENSE || { echo "FAILED: the package has no LICENSE"; failures=$((failures + 1)); }
# What is missing is said at once, with the packages that have it.
rm -rf incomplete
CXX=/nowhere/c++ cmake -S "$QKGEOM_SOURCE/examples/python" -B incomplete -DCMAKE_IGNORE_PREFIX_PATH=/usr -DPython_EXECUTABLE="$python" \
  >incomplete.log 2>&1
grep -q "sudo apt install g++ .*libeigen3-dev libboost-dev nlohmann-json3-dev libcli11-dev libfmt-dev libicu-dev libopenblas-dev$" incomplete.log ||
  { cat incomplete.log; echo "FAILED: a build without its packages does not list them"; failures=$((failures + 1)); }
check() { # FILE ARGUMENTS...
  "$python" "$QKGEOM_SOURCE/tests/python/$1" "${@:2}" || { echo "FAILED: $1"; failures=$((failures + 1)); }
}
golden=$QKGEOM_SOURCE/tests/data/golden
data=$QKGEOM_SOURCE/examples/data/kjv-smollm3
rm -rf statistics by-script
"$QKGEOM_BIN/qkgeom" capture --model "$data/stage1-step-40" --jsonl "$data/heldout.jsonl" --examples 3 --max-length 256 \
  --heads all --softmax --loss --out statistics >capture.log 2>&1 || { cat capture.log; failures=$((failures + 1)); }
# The console script runs the program of a wheel, where the package has it.
status=0
"$python" site/bin/qkgeom --help 2>script.log || status=$?
[[ $status == 2 ]] && grep -q 'has no programs' script.log || { cat script.log; echo "FAILED: a package without programs"; failures=$((failures + 1)); }
ln -s "$QKGEOM_BIN/../examples/all" site/qkgeom/bin
"$python" site/bin/qkgeom capture --model "$data/stage1-step-40" --jsonl "$data/heldout.jsonl" --examples 3 --max-length 256 \
  --heads all --softmax --loss --out by-script >capture.log 2>&1 && diff -r statistics by-script &&
  diff <("$python" -m qkgeom --commands) <("$QKGEOM_BIN/qkgeom" --commands) ||
  { cat capture.log; echo "FAILED: the console script"; failures=$((failures + 1)); }
for capture in "$golden/short-bf16.safetensors" "$golden/long-f32.safetensors" statistics; do
  name=$(basename "$capture" .safetensors)
  "$QKGEOM_BIN/qkgeom" heads "$capture" --out "heads-$name" >/dev/null 2>heads.log || { cat heads.log; failures=$((failures + 1)); }
done
check arrays_check.py
check processes_check.py
check calls_check.py "$golden" .
emulated=$QKGEOM_BIN/emulated_cuda/_qkgeom_cuda.so   # what a build with CUDA has beside the module, for a device of the host's
if [[ -e $emulated ]]; then
  cp -r site with-device
  cp "$emulated" with-device/qkgeom/
  PYTHONPATH=$PWD/with-device check cuda_check.py "$PWD/with-device/qkgeom/_qkgeom_cuda.so"
else
  echo "left out: tensors on a CUDA device, $emulated was not built"
fi
check programs_check.py "$QKGEOM_SOURCE" "$QKGEOM_BIN"
check plots_check.py "$QKGEOM_SOURCE" "$golden" .
if "$python" -c 'import matplotlib' 2>/dev/null; then check notebook_check.py "$QKGEOM_SOURCE" statistics; else echo "left out: the notebook, matplotlib is not here"; fi
typed() { # ARGUMENTS...
  "$python" -m mypy --config-file "$QKGEOM_SOURCE/tests/python/mypy.ini" --cache-dir mypy "$@" >mypy.log 2>&1 || { cat mypy.log; failures=$((failures + 1)); }
}
typed -p qkgeom
typed "$QKGEOM_SOURCE/tests/python/typed_use.py"
if pyright=$(PATH=$(dirname "$python"):$PATH command -v pyright); then
  "$pyright" --pythonpath "$python" "$QKGEOM_SOURCE/tests/python/typed_use.py" >pyright.log 2>&1 || { cat pyright.log; failures=$((failures + 1)); }
else
  echo "left out: what pyright says of typed_use.py, it is not here (pip install pyright)"
fi
script() { # NAME; one that lacks something says so and ends with 77
  "$python" "$QKGEOM_SOURCE/examples/python/$1" >script.log 2>&1
  case $? in
    0) ;;
    77) echo "$1: $(tail -n 1 script.log)" ;;
    *) cat script.log; failures=$((failures + 1)) ;;
  esac
}
script planted_head.py
if "$python" -c 'import torch, transformers, safetensors' 2>/dev/null; then
  check capture_check.py "$QKGEOM_SOURCE" "$QKGEOM_BIN"
  check monitor_check.py
  script small_transformer.py
  script real_model.py
else
  echo "left out: captures and monitors of transformers' models, this python3 has no torch and transformers"
fi
exit $((failures > 0))
