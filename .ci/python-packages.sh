#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# python-packages.sh FOLDER    An environment in FOLDER with numpy and pyarrow, which the tests of examples/convert need,
# and tokenizers, with which the tokenizers of capture/ are compared; also nanobind, scikit-build-core and mypy, with which
# examples/python is built and checked, and matplotlib, which draws its figures. Optional: without network or pip it says so
# and those tests are skipped. Nothing to do where python3 has all of them. Where nvcc is, also the headers of cuDNN's
# frontend, which come as a package, into build/cudnn-frontend: with them the forward pass on a GPU is built with cuDNN's
# attention.
set -uo pipefail
folder=${1:?python-packages.sh needs a folder}
here=$(dirname "${BASH_SOURCE[0]}")   # *.txt there pin each package's version and hashes
works() { "$1" -c 'import numpy, pyarrow.parquet, tokenizers, nanobind, scikit_build_core, mypy' 2>/dev/null; }
install() { # PYTHON ARGUMENTS...
  timeout 180 "$1" -m pip install -q --disable-pip-version-check --only-binary :all: --retries 1 --timeout 15 --no-deps \
    --require-hashes -r "$here/$2" "${@:3}"
}
frontend() {
  local to=build/cudnn-frontend python=$folder/bin/python
  command -v nvcc >/dev/null && [[ ! -e $to/include/cudnn_frontend.h ]] || return 0
  [[ -x $python ]] || python=python3
  echo "Installing nvidia-cudnn-frontend into $to"
  install "$python" cudnn-frontend.txt --target "$to" >/dev/null 2>&1 && return
  echo "That did not work (no network, or no pip): attention on a GPU will go through cuBLAS" >&2
  rm -rf "$to"
}
trap frontend EXIT
figures() { # matplotlib draws in examples/python; its tests say what they leave out without it
  [[ ! -x $folder/bin/python ]] || "$folder/bin/python" -c 'import matplotlib' 2>/dev/null ||
    install "$folder/bin/python" figure-packages.txt >/dev/null 2>&1 || true
}
if works python3; then exit 0; fi
if works "$folder/bin/python"; then figures; exit 0; fi

echo "Installing numpy, pyarrow, tokenizers, nanobind, scikit-build-core and mypy into ${folder#"$PWD"/}"
# The tokenizers of tests/data/tokenizers were made with this library; nothing is fetched from the hub, so it stands alone.
if ! { python3 -m venv --clear "$folder" &&
  install "$folder/bin/python" python-packages.txt; } >/dev/null 2>&1 || ! works "$folder/bin/python"; then
  echo "That did not work (no network, or no pip): the tests of the converters, of random tokenizers and of examples/python will be skipped" >&2
  rm -rf "$folder"
fi
figures
exit 0
