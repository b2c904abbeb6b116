#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# published.sh [OUT]   Recomputes the thesis from its published tables, in one command: every claim that they decide beside
# the thesis' value, H1 to H8, the tables of chapter 6 and of the notes, figure 6.7. OUT: out/published by default.
# Installs missing Debian packages and builds qkgeom thesis. docs/reproduction.md reads the result.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../common/prepare.sh"
options published "$@"
prepare thesis

step "Claims, hypotheses, tables and figures"
"$bin/qkgeom" thesis examples/thesis/data --out "$out" | tee "$out/summary.txt"

step "Done: $out/summary.txt, $out/claims.csv"
