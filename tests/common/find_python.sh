# SPDX-License-Identifier: MIT
# find_python MODULES: sets `python` to a python3 that imports them all (separated by commas): $QKGEOM_PYTHON, the one that
# tests/run.sh makes in build/python, or the one on the path. Ends the test as skipped if there is none.
find_python() {
  for python in "${QKGEOM_PYTHON:-}" "$QKGEOM_SOURCE/build/python/bin/python" python3 ""; do
    [[ -n $python ]] && "$python" -c "import $1" 2>/dev/null && return
  done
  echo "skipped: neither the python3 that tests/run.sh makes nor the one on the path has $1; QKGEOM_PYTHON names another"
  exit 77
}
