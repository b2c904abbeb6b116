#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# all_inline_test.sh OBJECT   Checks that two units which include every header would link: OBJECT, the compiled
# all_headers.cpp, defines no function or variable that is not inline, except its own function.
set -euo pipefail
defined=$(nm -C --defined-only "$1" | awk '$2 ~ /^[A-TX-Z]$/ { print $3 }')   # neither weak nor unique nor local
[[ $defined == "defined_here()" ]] || { echo "defined, and not inline: $defined"; exit 1; }
