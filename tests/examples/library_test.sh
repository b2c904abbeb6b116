#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The programs of examples/library find what was planted; each is short, uses the library alone and stands in the tutorial.
set -uo pipefail
source "$QKGEOM_SOURCE/tests/examples/common.sh"

cat >"$work/near.py" <<'END'
"""near.py FILE COUNT BOUND PATTERN: PATTERN matches COUNT times; its groups `known` and `found` differ by at most BOUND."""
import re, sys
file, count, bound, pattern = sys.argv[1:]
pairs = [(float(m["known"]), float(m["found"])) for m in re.finditer(pattern, open(file).read(), re.M)]
assert len(pairs) == int(count), f"{len(pairs)} matches of {pattern}, not {count}"
for known, found in pairs:
    assert abs(found - known) <= float(bound), f"found {found}, not {known}"
END
near() { # COUNT BOUND PATTERN, in what the last program printed
  python3 "$work/near.py" "$work/stdout" "$@" || bad "$(cat "$work/stdout")"
}
run library_pca
near 5 0.005 '^ +(?P<known>0\.\d+) +(?P<found>0\.\d+) '                 # queries
near 5 0.005 '^ +0\.\d+ +0\.\d+ +(?P<known>0\.\d+) +(?P<found>0\.\d+) ' # keys
[[ $(sed -nE 's/^ +0\..* ([a-z_]+)$/\1/p' "$work/stdout" | tr '\n' ' ') == \
  "position_dominated q_positional k_positional mixed content_focused " ]] || bad "classes: $(cat "$work/stdout")"
run library_rotation
near 2 0.002 '^ +(?:drift|separation) axis.* (?P<known>1) +(?P<found>\S+)$'
near 2 0.03 '^ +mean query.* (?P<known>[\d.]+) +(?P<found>\S+)$'
near 1 1e-5 '^ +slope.* (?P<known>\S+) +(?P<found>\S+)$'
near 1 2e-5 '^ +bias strength.* (?P<known>\S+) +(?P<found>\S+)$'
near 1 0.15 '^ +bias over.* (?P<known>\S+) +(?P<found>\S+)$'
run library_profile
near 7 0.01 '^ +\d+ to +\d+ +(?P<found>\S+) ± \S+ +(?P<known>\S+)  #+$'
near 1 0.01 '^AP_drop +(?P<found>\S+) ± \S+ known (?P<known>[\d.]+):'
run library_own_pairs
near 4 0.01 '^  [a-z].* (?P<found>\S+) ± \S+ +(?P<known>\S+)$'

for program in "$QKGEOM_SOURCE"/examples/library/*; do
  (($(wc -l <"$program") <= 60)) || bad "$program has more than 60 lines"
  ! grep -E '^ *# *include' "$program" | grep -vE '<[a-z_]+>$|"qkgeom/[^"]+"$' || bad "$program includes more than the library"
  ! grep -E '"qkgeom/.*detail/' "$program" || bad "$program includes what is private"
done
python3 - "$QKGEOM_SOURCE" <<'END' || bad "docs/tutorial.md must hold the programs' text"
import pathlib, sys
source = pathlib.Path(sys.argv[1])
tutorial = (source / "docs/tutorial.md").read_text()
for program in sorted((source / "examples/library").iterdir()):
    text = program.read_text().split("\n", 1)[1]  # without the line of the licence
    fence = "cpp" if program.suffix == ".cpp" else "cuda"
    assert f"```{fence}\n{text}```\n" in tutorial, f"the text of {program.name} differs or is missing"
END
