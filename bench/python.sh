#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# python.sh [NAME]   qkgeom.analyse of the Python package beside the same call in C++, on 10 heads x 16000 rows x 128;
# seconds to import the package, and the size of its wheel. Writes bench/results/NAME.json (NAME: python by default).
# Both are compiled as the preset `release` is. PYTHON: an interpreter with numpy, nanobind and scikit-build-core [the one
# of build/python, else python3]. ROUNDS [5]: how often they take turns. CALLS [3]: calls of a round. THREADS [1].
set -euo pipefail
case ${1-} in
  -h | --help) sed -n '3,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
  -*) echo "python.sh: unknown option $1 (see --help)" >&2; exit 2 ;;
esac
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
name=${1:-python} rounds=${ROUNDS:-5} calls=${CALLS:-3} threads=${THREADS:-1}
python=${PYTHON:-}
[[ -n $python ]] || python=$([[ -x build/python/bin/python ]] && echo "$root/build/python/bin/python" || echo python3)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
command -v ccache >/dev/null && export CMAKE_CXX_COMPILER_LAUNCHER=ccache
cmake --preset release >"$scratch/configure.log" 2>&1 || { cat "$scratch/configure.log" >&2; exit 1; }
cmake --build --preset release --target analyse_call >&2
"$python" -m pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps --no-index -w "$scratch/wheel" \
  -C build-dir="$root/build/bench-python" -C cmake.define.QKGEOM_PYTHON_PROGRAMS=OFF examples/python >&2
"$python" -m pip install -q --disable-pip-version-check --no-deps --no-index --target "$scratch/site" "$scratch"/wheel/*.whl >&2
export PYTHONPATH=$scratch/site OMP_WAIT_POLICY=passive

for ((round = 0; round < rounds; ++round)); do
  build/release/bin/analyse_call "$scratch/rows.safetensors" "$threads" "$calls" >>"$scratch/cpp"
  "$python" bench/baselines/python_call.py "$scratch/rows.safetensors" "$threads" "$calls" >>"$scratch/python"
  "$python" -c 'import time; b = time.perf_counter(), time.process_time(); import qkgeom; print(time.perf_counter() - b[0], time.process_time() - b[1])' >>"$scratch/import"
done

mkdir -p bench/results
"$python" - "$scratch" "bench/results/$name.json" "$(lscpu | sed -n 's/^Model name: *//p')" "$threads" <<'END'
import json, os, pathlib, sys
scratch, target, cpu, threads = sys.argv[1:]
scratch = pathlib.Path(scratch)
rows = {n: [list(map(float, line.split())) for line in open(scratch / n)] for n in ("cpp", "python")}
assert len({r[2] for side in rows.values() for r in side}) == 1, "the two do not give the same number"
result = {"command": "bench/python.sh", "cpu": cpu, "threads": int(threads), "load_average": os.getloadavg()[0]}
for at, unit in ((0, "s"), (1, "cpu_s")):
    for side, values in rows.items():
        result[f"{side}_{unit}"] = min(v[at] for v in values)
    result[f"ratio_{unit}"] = result[f"python_{unit}"] / result[f"cpp_{unit}"]
imports = [list(map(float, line.split())) for line in open(scratch / "import")]
result["import_s"], result["import_cpu_s"] = (min(i[at] for i in imports) for at in (0, 1))
(wheel,) = scratch.glob("wheel/*.whl")
result["wheel"], result["wheel_mb"] = wheel.name, wheel.stat().st_size / 1e6
pathlib.Path(target).write_text(json.dumps(result, indent=1) + "\n")
print("C++ {cpp_s:.3f} s ({cpp_cpu_s:.3f} s of CPU), Python {python_s:.3f} s ({python_cpu_s:.3f} s): x {ratio_s:.3f} ({ratio_cpu_s:.3f})\n"
      "import {import_s:.3f} s, NumPy with it ({import_cpu_s:.3f} s of CPU); {wheel} {wheel_mb:.1f} MB".format(**result))
END
