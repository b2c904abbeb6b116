#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# all_inline_test.sh OBJECT   Whether two units that include every header would link: OBJECT, all_headers.cpp compiled,
# defines no function and no variable that is not inline, but for its own.
set -euo pipefail
defined=$(nm -C --defined-only "$1" | awk '$2 ~ /^[A-TX-Z]$/ { print $3 }')   # neither weak nor unique nor local
[[ $defined == "defined_here()" ]] || { echo "defined, and not inline: $defined"; exit 1; }
