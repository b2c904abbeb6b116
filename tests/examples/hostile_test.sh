#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Files that are made to crash a program, to take its memory or its time.
set -uo pipefail
source "$QKGEOM_SOURCE/tests/examples/common.sh"
python3 -B "$QKGEOM_SOURCE/tests/examples/hostile_check.py" "$QKGEOM_BIN" "$QKGEOM_SOURCE" "$work" || bad "see above"
exit $((failures > 0))
