#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# No object of the CPU depends on a header of CUDA: the build's own record of what each object was compiled from.
set -euo pipefail
build=$(dirname "$QKGEOM_BIN")
if [[ ! -f $build/build.ninja ]] || ! command -v ninja >/dev/null; then
  echo "skipped: only Ninja keeps a record of what objects depend on"
  exit 77
fi
cuda='/(cuda_runtime|cuda_runtime_api|cuda|driver_types|cublas[A-Za-z0-9_]*|cusolver[A-Za-z0-9_]*|cuda_bf16|cuda_fp16|mma)\.h$'
# Prints "OBJECT HEADER" for every header of CUDA in the record on standard input; what nvcc makes (.cu.o, .ptx) and targets *_cuda may.
find_cuda() {
  awk -v cuda="$cuda" '/^[^ ].*: #deps/ { object = $1; sub(/:$/, "", object) }
    /^ / && object !~ /\.cu\.o$|\.ptx$|_cuda\.dir\// && $1 ~ cuda { print object, $1 }'
}
planted=$(printf 'a.cpp.o: #deps 2\n    /x/a.cpp\n    /usr/include/cuda_runtime.h\n\nb.cu.o: #deps 1\n    /x/cuda.h\n\nx_cuda.dir/c.cpp.o: #deps 1\n    /x/cuda.h\n' | find_cuda)
[[ $planted == "a.cpp.o /usr/include/cuda_runtime.h" ]] || { echo "a planted dependency was judged wrongly: $planted"; exit 1; }

ninja -C "$build" -t deps >deps.txt
objects=$(grep -c '#deps' deps.txt || true)
((objects > 0)) || { echo "the build has no record of dependencies"; exit 1; }
found=$(find_cuda <deps.txt)
[[ -z $found ]] || { echo "objects of the CPU that depend on CUDA:"; echo "$found"; exit 1; }
echo "$objects objects, none of the CPU depends on CUDA"
