#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# python-packages.sh FOLDER    An environment in FOLDER with numpy and pyarrow, which the tests of examples/convert need.
# Optional: without network or pip it says so and those tests are skipped. Nothing to do where python3 has both.
set -uo pipefail
folder=${1:?python-packages.sh needs a folder}
works() { "$1" -c 'import numpy, pyarrow.parquet' 2>/dev/null; }
if works python3 || works "$folder/bin/python"; then exit 0; fi

echo "Installing numpy and pyarrow into ${folder#"$PWD"/}"
if ! { python3 -m venv --clear "$folder" &&
  timeout 180 "$folder/bin/python" -m pip install -q --disable-pip-version-check --only-binary :all: --retries 1 --timeout 15 \
    numpy pyarrow; } >/dev/null 2>&1 || ! works "$folder/bin/python"; then
  echo "That did not work (no network, or no pip): the converters' test will be skipped" >&2
  rm -rf "$folder"
fi
exit 0
