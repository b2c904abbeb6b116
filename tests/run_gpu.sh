#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# run_gpu.sh [--deps FILE] [--out FOLDER] [--only STEPS]   on a machine with a GPU: builds what uses one, then the steps smoke (do
#     programs start, cuBLAS, cuSOLVER and cuDNN run? if not, it ends here), tests, benches, example, heads, profile (ncu on the
#     pair kernel), prefill and sanitizer (the small tests under compute-sanitizer's memcheck and racecheck), of which
#     STEPS may name some (tests,benches). Writes bench/results/<gpu>.json; --out: logs and results go there as well. Needs
#     CMake, a CUDA toolkit of at least 12.8, g++ and what FILE, made by --pack, brings, else the system. Nothing is
#     fetched. Ends within TIME_LIMIT [570] seconds on 16 cores: what would take longer is left out and named.
# run_gpu.sh --stage FILE.tar.xz          builds for sm_90 (CUDAARCHS) and CPUs with AVX2, and packs the programs with the
#     libraries they need, all but CUDA's; no GPU is needed. The same programs give the same bytes.
# run_gpu.sh --from FILE.tar.xz [--out FOLDER] [--only STEPS]   the steps, with programs of --stage and no compiler. CUDA's
#     libraries come from /usr/local/cuda or the packages of python3. --dry-run: prints the commands, and runs none on a GPU.
# run_gpu.sh --build-only [--deps FILE]   builds for sm_80, sm_90 and sm_100, and runs what skips without a GPU.
# run_gpu.sh --pack FILE.tar.gz           on a Debian system that can build everything: FILE with the headers and
#     libraries that a build needs besides CUDA, for --deps on a machine that has none of them.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
deps='' out='' pack='' stage='' from='' only=smoke,tests,benches,example,heads,profile,prefill,sanitizer build_only=0 dry_run=0
while (($#)); do
  case $1 in
    --deps) deps=$(realpath "${2:?--deps needs a file}"); shift 2 ;;
    --out) out=$(realpath -m "${2:?--out needs a folder}"); shift 2 ;;
    --only) only=${2:?--only needs names of steps}; shift 2 ;;
    --pack) pack=$(realpath -m "${2:?--pack needs a file}"); shift 2 ;;
    --stage) stage=$(realpath -m "${2:?--stage needs a file}"); shift 2 ;;
    --from) from=$(realpath "${2:?--from needs a file}"); shift 2 ;;
    --dry-run) dry_run=1; shift ;;
    --build-only) build_only=1; shift ;;
    -h | --help) sed -n '3,17s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "run_gpu.sh: unknown argument $1; see --help" >&2; exit 2 ;;
  esac
done
limit=${TIME_LIMIT:-570}
until=$limit  # the end of a step that may not take all that is left
build=$root/build/gpu
programs=(qkgeom_test_gpu gpu_bench library_device qkgeom-capture qkgeom-capture-cuda qkgeom-heads qkgeom-heads-cuda)
step() { echo "== $1 ($SECONDS s)"; }

# Whole packages, but of Boost only what is included from here, and of OpenBLAS only the shared library.
pack_dependencies() {
  local scratch
  scratch=$(mktemp -d)
  # shellcheck disable=SC2064  # the name is gone when the trap is sprung
  trap "rm -rf '$scratch'" EXIT
  grep -rhoE '#include <boost/[a-z_/0-9]+\.hpp>' "$root"/{include,capture,examples,bench,tests/gpu,tests/backend} | sort -u >"$scratch/boost.cpp"
  # shellcheck disable=SC2046  # Debian's names of shared libraries change with their versions
  {
    dpkg -L libeigen3-dev libfmt-dev libcli11-dev nlohmann-json3-dev libxtensor-dev xtl-dev libicu-dev libbenchmark-dev \
      libgtest-dev libgmock-dev libopenblas-pthread-dev libopenblas0-pthread libgfortran5 libquadmath0 \
      $(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 'libfmt[0-9]*' 'libicu[0-9]*' 'libbenchmark1*' | sed -n 's/^installed //p')
    g++ -std=c++20 -M "$scratch/boost.cpp" | tr ' ' '\n' | grep '^/usr/include/boost/'
    echo /usr/include/boost/version.hpp
  } | grep -E '^/usr/(include|lib|share/(cmake|eigen3))/' | grep -vE '/(lib)?(blas|lapack)[.-]|openblas[a-z0-9.-]*\.a$|libicu(io|test|tu)|libicu[a-z0-9]*\.a$|/icu/|pkgconfig|lib/[^/]*/cmake/openblas' |
    while read -r file; do [[ -d $file && ! -L $file ]] || echo "${file#/}"; done | sort -u >"$scratch/files"
  local folders=(-C / -T "$scratch/files") frontend
  for frontend in "$root/build/cudnn-frontend/include" $(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib") + "/include")'); do
    [[ -e $frontend/cudnn_frontend.h ]] || continue
    mkdir -p "$scratch/usr/include"
    cp -r "$frontend"/cudnn_* "$scratch/usr/include/"
    folders+=(-C "$scratch" usr)
    break
  done
  mkdir -p "$(dirname "$pack")"
  tar -czf "$pack" "${folders[@]}"
  echo "$pack: $(du -m "$pack" | cut -f1) MB, beside $(git -C "$root" ls-files -z | (cd "$root" && du -cm --files0-from=-) | tail -1 | cut -f1) MB of sources"
}
if [[ -n $pack ]]; then
  pack_dependencies
  exit 0
fi

if ((dry_run)); then
  [[ -n $from ]] || { echo "run_gpu.sh: --dry-run is for --from" >&2; exit 2; }
  exec 3>&1
  timeout() { echo "  ${*:2}" >&3; }
  python3() { echo "  python3 $*" >&3; }
  nvidia-smi() { [[ $1 != *compute_cap* ]] || echo 9.0; }
fi

status=0
failed() { status=1; echo "run_gpu.sh: $1"; }
keep() { [[ -z $out ]] || { mkdir -p "$out" && cp "$@" "$out/"; }; }
wanted() { # a step that is asked for, if there is time for it
  [[ ,$only, == *,$1,* ]] || return 1
  ((SECONDS < limit)) || { failed "no time is left for the step $1"; return 1; }
  step "$1"
}
left() { # left SECONDS: those, or what is left of the step, but never none
  local n=$((until - SECONDS > $1 ? $1 : until - SECONDS))
  echo $((n > 1 ? n : 1))
}

# The programs of --stage and their libraries in $build; CUDA's are looked for where its packages put them.
unpack_stage() {
  build=$root/build/gpu-staged
  rm -rf "$build"
  mkdir -p "$build"
  tar -xJf "$from" -C "$build"
  echo "programs of commit $(cat "$build/commit")"
  command python3 "$root/tests/data/make_family_weights.py" "$root/tests/data/families" "$build/tests/families"
  local name found packages
  packages=$(command python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))' || true)/nvidia
  export LD_LIBRARY_PATH=$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  for name in $(ldd "$build"/bin/* | awk '/not found/ { print $1 }' | sort -u); do
    found=$(find -L /usr/local/cuda*/ "$packages" -name "$name" -print -quit 2>/dev/null) || true
    [[ -n $found ]] || { echo "run_gpu.sh: there is no $name on this machine"; exit 1; }
    [[ :$LD_LIBRARY_PATH: == *:${found%/*}:* ]] || LD_LIBRARY_PATH+=:${found%/*}
  done
  ! ldd "$build"/bin/* 2>&1 | grep 'not found' || exit 1   # versions of the C library as well
  ldd "$build/bin/qkgeom-capture-cuda" | awk '/cudnn|cublas\.|cusolver/ { print "  " $1 " is " $3 }'   # a system may have several
}

build_programs() {
  command -v nvcc >/dev/null || PATH=$PATH:/usr/local/cuda/bin
  command -v nvcc >/dev/null || { echo "run_gpu.sh: nvcc is not on the PATH"; exit 1; }
  if ((build_only)); then
    architectures='80-real;90-real;100-real'
  elif [[ -n $stage ]]; then
    architectures=${CUDAARCHS:-90-real}
  else
    command -v nvidia-smi >/dev/null || { echo "skipped: no GPU on this machine"; exit 77; }
    architectures=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)-real
  fi
  # What the host does beside the device counts too.
  local march=native
  [[ -z $stage ]] || march=x86-64-v3
  ((build_only)) && march=x86-64
  mkdir -p "$build"
  options=(-DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS=-march=$march" "-DCMAKE_CUDA_ARCHITECTURES=$architectures"
           -DQKGEOM_CUDA=ON -DCMAKE_CUDA_FLAGS=-lineinfo -DQKGEOM_NATIVE_KERNEL_TESTS=OFF -DQKGEOM_SOURCE_CHECKS=OFF -DQKGEOM_INSTALL=OFF
           -DQKGEOM_TEST_ROOT=../../.. -DQKGEOM_TEST_MADE=../tests)   # they run in build/gpu/bin, or build/gpu-staged/bin of another copy
  if [[ -n $deps ]]; then
    [[ -f $deps ]] || { echo "run_gpu.sh: there is no file $deps; --pack makes one"; exit 2; }
    rm -rf "$build/deps"
    mkdir -p "$build/deps"
    tar -xzf "$deps" -C "$build/deps"
    # Libraries of the pack need others of it: an RPATH, unlike a RUNPATH, is searched for those too.
    libraries=$(find "$build/deps/usr/lib" -maxdepth 2 -name 'libgfortran.so.5' -printf '%h')
    options+=("-DCMAKE_PREFIX_PATH=$build/deps/usr" -DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON   # the pack alone
              "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags,-rpath,$libraries,-rpath-link,$libraries")
  fi

  # What the toolkit lacks of these, from the Python packages of the same CUDA.
  borrow() { # HEADER, headers and libraries by the beginnings of their names
    local toolkit packages found name file
    toolkit=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
    # A header without a library to link to is in the way of none.
    [[ ! -e $toolkit/include/$1 || -z $(find -L "$toolkit" -name "lib$2.so" -print -quit 2>/dev/null) ]] || return 0
    packages=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/nvidia
    found=$(find -L "$packages" -name "$1" 2>/dev/null | head -1) || true
    [[ -n $found ]] || { echo "run_gpu.sh: neither the CUDA toolkit nor Python's packages have $1"; return 0; }
    echo "the CUDA toolkit has no $1: $found is taken, and its library"
    mkdir -p "$build/borrowed/include"
    for name in "${@:2}"; do
      find -L "$packages" -name "$name*.h" -exec ln -sf -t "$build/borrowed/include" {} +
      find -L "$packages" -name "lib$name*.so.*" | while read -r file; do
        ln -sf "$file" "$build/borrowed/"
        ln -sf "$file" "$build/borrowed/$(basename "${file%%.so.*}").so"
      done
    done
    export CPATH=$build/borrowed/include CMAKE_INCLUDE_PATH=$build/borrowed/include
    export CMAKE_LIBRARY_PATH=$build/borrowed LD_LIBRARY_PATH=$build/borrowed
  }
  borrow cublas_v2.h cublas
  borrow cusolverDn.h cusolver cusparse nvJitLink
  borrow cudnn.h cudnn
  borrow nvrtc.h nvrtc

  step "build for $architectures"
  generator=()
  command -v ninja >/dev/null && generator=(-G Ninja)
  cmake -S "$root" -B "$build" "${generator[@]}" "${options[@]}" >"$build/configure.log" 2>&1 ||
    { tail -30 "$build/configure.log"; keep "$build/configure.log"; exit 1; }
  # What does not compile stops nothing else.
  onwards=(-k)
  [[ ${#generator[@]} == 0 ]] || onwards=(-k 0)
  local seconds=3600
  ((build_only)) || [[ -n $stage ]] || seconds=$(left 400)
  timeout "$seconds" cmake --build "$build" -j "$(nproc)" --target "${programs[@]}" -- "${onwards[@]}" >"$build/build.log" 2>&1 ||
    { grep -E -m 40 'error|FAILED|undefined' "$build/build.log" || true; keep "$build/build.log"; failed "the build failed, or took too long"; }
  mkdir -p "$build/bin"
}

stage_programs() {
  local scratch name
  scratch=$(mktemp -d)
  # shellcheck disable=SC2064
  trap "rm -rf '$scratch'" EXIT
  mkdir "$scratch/bin" "$scratch/lib"
  for name in "${programs[@]}"; do strip -o "$scratch/bin/$name" "$build/bin/$name"; done
  # The C and C++ libraries are everywhere, and CUDA's too large.
  ldd "$build"/bin/{qkgeom_test_gpu,gpu_bench,qkgeom-capture-cuda,qkgeom-heads-cuda} | awk '$3 ~ "^/" { print $3 }' | sort -u |
    grep -vE '/lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|cu[a-zA-Z]+|nv[a-zA-Z]+)\.so' | xargs cp -L -t "$scratch/lib"
  git -C "$root" describe --always --dirty >"$scratch/commit"
  tar -C "$scratch" --sort=name --mtime='2000-01-01 00:00Z' --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX \
    -c bin lib commit | xz -9e >"$stage"
  echo "$stage: $(stat -c %s "$stage" | awk '{ printf "%.1f", $1 / 1e6 }') MB"
  (($(stat -c %s "$stage") <= 16000000)) || failed "more than 16 MB"
}

if [[ -n $from ]]; then unpack_stage; else build_programs; fi
if [[ -n $stage ]]; then
  ((status == 0)) && stage_programs
  exit $status
fi
cd "$build/bin"

# A process for each test: after an error of the device, or a hang, the next one starts anew. TEST_JOBS [4] run at a time.
run_tests() { # LOG SECONDS FILTER [COMMAND ...]
  local log=$1 seconds=$2 filter=$3 parts=$build/test-parts suite='' line tests=0 bad=0 left_out=0 status name
  shift 3
  rm -rf "$parts"
  mkdir -p "$parts"
  while read -r line; do
    if [[ $line == *. ]]; then suite=$line; continue; fi
    ((SECONDS < until)) || { left_out=$((left_out + 1)); continue; }
    while (($(jobs -pr | wc -l) >= ${TEST_JOBS:-4})); do wait -n || true; done
    tests=$((tests + 1))
    {
      status=0
      timeout "$(left "$seconds")" "$@" ./qkgeom_test_gpu --gtest_filter="$suite$line" >"$parts/$tests.log" 2>&1 || status=$?
      echo "$status $suite$line" >"$parts/$tests.status"
    } &
  done < <(./qkgeom_test_gpu --gtest_list_tests --gtest_filter="$filter" | grep -v '^Running' | sed 's/ *#.*//; s/^ *//')
  wait
  cat "$parts"/*.log >"$log"
  while read -r status name; do
    ((status == 0)) && continue
    bad=$((bad + 1))
    ((status == 124)) && echo "$name ran out of time" || echo "$name failed with status $status"
  done < <(cat "$parts"/*.status)
  echo "$tests tests, $bad failed, $left_out left out for time"
  ((tests > 0 && bad == 0 && left_out == 0))
}

if ((build_only)); then
  step "what skips"
  ./qkgeom_test_gpu >tests.log || status=1
  tail -3 tests.log
  for program in gpu_bench library_device; do
    code=0
    ./$program || code=$?
    echo "$program: exit status $code"
  done
  for program in qkgeom-capture-cuda qkgeom-heads-cuda; do
    ./$program --help >help.log || status=1
    head -1 help.log
  done
  step "done, status $status"
  exit $status
fi

if wanted smoke; then
  for name in "${programs[@]:2}"; do
    [[ $name == library_device ]] || timeout 30 "./$name" --version >smoke.log 2>&1 || failed "$name does not start: $(tail -1 smoke.log)"
  done
  timeout 30 ./library_device >smoke.log 2>&1 || failed "library_device failed: $(tail -1 smoke.log)"
  run_tests smoke.log 30 'on_gpu.moments_and_components_agree:cudnn_on_gpu.attends_as_blocks_do' || failed "cuBLAS, cuSOLVER or cuDNN failed"
  ((status == 0)) || { tail -40 smoke.log; keep smoke.log; exit 1; }
fi
if wanted tests; then
  run_tests tests.log 60 '*' || failed "tests failed"
  grep -E ' OK |FAILED|Failure|cuDNN' tests.log | sort -u | tail -80 || true
  ! grep -q SKIPPED tests.log || failed "tests were skipped: the programs see no device"
  keep tests.log
fi
results=$build/results
rm -rf "$results"
mkdir -p "$results"
if wanted benches; then
  # A process and a file for each group: what fails or hangs costs its own alone. Groups with a goal come first.
  until=$((SECONDS + 150 < limit ? SECONDS + 150 : limit))
  groups=$(timeout 30 ./gpu_bench --benchmark_list_tests | cut -d/ -f1 | sort -u)
  for group in pairs pooled_profiles model $(grep -vxE 'pairs|pooled_profiles|model' <<<"$groups"); do
    ((SECONDS < until)) || { failed "no time is left for gpu_bench's $group"; continue; }
    timeout "$(left 150)" ./gpu_bench --benchmark_filter="^$group(/|\$)" --benchmark_out="$results/gpu_bench_$group.json" \
      --benchmark_out_format=json >/dev/null 2>"$build/bench.log" || failed "gpu_bench failed at $group: $(tail -1 "$build/bench.log")"
  done
  until=$limit
fi
if wanted example; then
  timeout "$(left 60)" ./library_device || failed "library_device failed"
  data=$root/examples/data/kjv-smollm3
  for device in cuda cpu; do
    rm -rf "$build/softmax-$device"
    timeout "$(left 60)" ./qkgeom-capture --model "$data/lc-4096-to-8192-step-10" --jsonl "$data/heldout.jsonl" --examples 3 \
      --max-length 4096 --bucket-size 512 --rate 64 --softmax --device $device --out "$build/softmax-$device" 2>"$build/$device.log" ||
      failed "capture --softmax with --device $device failed: $(tail -1 "$build/$device.log")"
    timeout "$(left 60)" ./qkgeom-heads "$build/softmax-$device" --no-figures --out "$build/softmax-heads-$device" >"$build/heads.log" 2>&1 ||
      failed "heads of a capture with --softmax failed: $(tail -1 "$build/heads.log")"
  done
  python3 "$root/tests/gpu/compare_tables.py" "$build/softmax-heads-cuda" "$build/softmax-heads-cpu" softmax.csv softmax_distance.csv ||
    failed "what the GPU measures of the softmax is not the CPU's"
fi
if wanted heads; then
  for capture in long-f32 long-bf16; do # captured rows of the bundled model
    for device in cuda cpu; do
      timeout "$(left 60)" ./qkgeom-heads "$root/tests/data/golden/$capture.safetensors" --no-figures --device $device --out "$build/heads-$capture-$device" \
        >"$build/heads.log" 2>&1 || failed "heads with --device $device failed: $(tail -1 "$build/heads.log")"
    done
    echo "$capture"
    python3 "$root/tests/gpu/compare_tables.py" "$build/heads-$capture-cuda" "$build/heads-$capture-cpu" profile.csv heatmap.csv qk.csv rotated.csv ||
      failed "the GPU's heads are not the CPU's"
  done
fi
if wanted profile; then
  if command -v ncu >/dev/null; then
    timeout "$(left 60)" ncu --clock-control none --kernel-name-base demangled --kernel-name regex:pair_tiles --launch-count 1 --set full ./gpu_bench \
      --benchmark_filter='^pairs/pooled/split_bf16/d:128' >ncu.log 2>&1 || failed "ncu failed: $(tail -1 ncu.log)"
    grep -E 'Duration|Registers|Throughput|Occupancy|ERR' ncu.log || true
    keep ncu.log
  else
    echo "ncu is not there: left out"
  fi
fi
if wanted prefill; then
  SECONDS_LEFT=$(left 10000) timeout "$(left 10000)" "$root/bench/prefill.sh" --program ./qkgeom-capture --out "$results/prefill.json" ||
    failed "prefill did not end well"
fi
if wanted sanitizer; then
  # Tests whose names begin with these words work on little data. A tool that slows a test a hundredfold can run them.
  small='*.a_row*:*.factors*:*.equal*:*.in_f64_weights*:*.small*'
  options=(--error-exitcode 9 --report-api-errors no)
  # cuBLAS's own kernels are left out where the tool can.
  help=$(compute-sanitizer --help 2>&1) || true
  [[ $help != *--kernel-regex* ]] || options+=(--kernel-regex kns=qkgeom)
  for tool in memcheck racecheck; do
    command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is not there: left out"; break; }
    until=$((SECONDS + 60 < limit ? SECONDS + 60 : limit))
    run_tests "$tool.log" 60 "$small" compute-sanitizer --tool "$tool" "${options[@]}" || failed "$tool found something, or ran out of time"
    grep 'ERROR SUMMARY\|RACECHECK SUMMARY' "$tool.log" | sort | uniq -c || true
    keep "$tool.log"
    until=$limit
  done
fi
name=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -1)
target=$root/bench/results/$(tr 'A-Z ' 'a-z_' <<<"$name" | tr -cd 'a-z0-9_-').json
if [[ -n $(ls "$results") ]]; then
  step "results: $target"
  python3 "$root/bench/summarize.py" "$results" "$target" --gpu "$name" --command "tests/run_gpu.sh" || failed "a bench failed"
  keep "$target"
fi
step "done, status $status"
exit $status
