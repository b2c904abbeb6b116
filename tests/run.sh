#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# run.sh [--sanitize | --preset NAME] [CTEST ARGUMENTS]
# Installs what is missing, builds the preset (default: tests) and runs its whole suite; e.g. tests/run.sh -R '^stats'.
# CUDA code is compiled for sm_80, with PTX for newer GPUs; CUDAARCHS="80-real;90-real;100" names other architectures,
# QKGEOM_CUDA=OFF leaves it out.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

preset=tests
case ${1-} in
  --sanitize) preset=sanitize; shift ;;
  --preset) preset=${2:?--preset needs a name}; shift 2 ;;
  -h | --help) sed -n '3,6s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
esac

bash .ci/install-packages.sh tests
bash .ci/python-packages.sh "$root/build/python"

# Fresh clones of the same sources share the compiler cache.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
jobs=$(nproc)
settings=(-DQKGEOM_WERROR="${QKGEOM_WERROR:-OFF}" -DQKGEOM_BUILD_TESTS=ON)
[[ $preset == sanitize* || $preset == threads ]] || settings+=(-DQKGEOM_CUDA="${QKGEOM_CUDA:-AUTO}" -DCMAKE_CUDA_ARCHITECTURES="${CUDAARCHS:-80}")
cmake --preset "$preset" "${settings[@]}"
cmake --build --preset "$preset" -j "$jobs"

# One test more than cores: some wait, for processes that end or streams that are late.
[[ $preset != native ]] || exec ctest --test-dir build/native --output-on-failure --no-tests=error -j $((jobs + 1)) "$@"
exec ctest --preset "$preset" -j $((jobs + 1)) "$@"
