#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# qkgeom lists every program that is built, runs it with the same arguments and status, and suggests a name for a typo.
set -uo pipefail
source "$QKGEOM_SOURCE/tests/examples/common.sh"
qkgeom=$QKGEOM_BIN/qkgeom

"$qkgeom" >"$work/help" || bad "no help without a command"
"$qkgeom" --help | cmp - "$work/help" || bad "two kinds of help"
(($(wc -l <"$work/help") <= 36 && $(wc -L <"$work/help") <= 100)) || bad "the help does not fit on one screen"
"$qkgeom" --commands | sort >"$work/commands"
for program in "$QKGEOM_BIN"/qkgeom-*; do basename "$program"; done | sed 's/^qkgeom-//; /-cuda$/d' | sort | diff - "$work/commands" ||
  bad "the list of commands is not that of the programs"
while read -r name; do grep -q "^  $name " "$work/help" || bad "$name is not in the help"; done <"$work/commands"

"$qkgeom" pca --help >"$work/direct"
"$qkgeom" help pca | cmp - "$work/direct" || bad "qkgeom help pca"
grep -q 'CAPTURE' "$work/direct" || bad "qkgeom pca --help: $(cat "$work/direct")"
[[ $("$qkgeom" pca --version) == *" $("$qkgeom" --version), kernels for "* ]] || bad "two versions"
refused "qkgeom pca: " pca "$work/none" --out "$work/out"
refused "there is no command haeds; did you mean heads?" haeds
refused "there is no command plastisity; did you mean plasticity?" plastisity "$work"
refused "there is no command something-else; qkgeom --help lists all" something-else

# A command that is not built is listed and says so.
mkdir "$work/bin"
cp "$qkgeom" "$work/bin"
"$work/bin/qkgeom" | grep -q '^  heads .* (not built)$' || bad "heads seems to be built"
[[ -z $("$work/bin/qkgeom" --commands) ]] || bad "commands that are not built"
QKGEOM_BIN=$work/bin refused "a whole build makes it" heads

# The program that holds all of them gives the same.
all=$QKGEOM_BIN/../examples/all/qkgeom
diff <("$all") "$work/help" && diff <("$all" --commands | sort) "$work/commands" || bad "the program of all commands lacks some"
while read -r name; do
  diff <("$all" "$name" --help) <("$qkgeom" "$name" --help) || bad "$name --help of the program of all commands"
done <"$work/commands"
QKGEOM_BIN=$(dirname "$all") refused "qkgeom pca: " pca "$work/none" --out "$work/out"

# Bash completes commands and options.
source "$QKGEOM_SOURCE/examples/qkgeom/completion.bash"
completed() { # WORDS...: what the last one may become
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  PATH=$QKGEOM_BIN:$PATH _qkgeom
  printf '%s ' "${COMPREPLY[@]}"
}
[[ $(completed qkgeom rot) == "rotation " ]] || bad "completes rot to $(completed qkgeom rot)"
[[ $(completed qkgeom pca --thr) == "--threads " ]] || bad "completes --thr to $(completed qkgeom pca --thr)"
