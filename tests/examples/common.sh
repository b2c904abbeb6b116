# SPDX-License-Identifier: MIT
# Shared by the tests of programs, which source it after `set -uo pipefail`, with QKGEOM_BIN and QKGEOM_SOURCE set, in a scratch
# folder. Creates the folder `work`. A test fails if it says `bad`, or if its last command fails.
model=$QKGEOM_SOURCE/examples/data/kjv-smollm3 golden=$QKGEOM_SOURCE/tests/data/golden
export PYTHONPATH=$QKGEOM_SOURCE/tests/examples PYTHONDONTWRITEBYTECODE=1   # written.py
work=$(mktemp -d "$PWD/scratch.XXXXXX")
finish() {
  (($1 == 0)) || bad "ended with status $1"
  rm -rf "$work"
  ((failures == 0)) && echo "$(basename "$0" _test.sh): all as expected"
  exit $((failures > 0))
}
trap 'finish $?' EXIT
# slow_under_asan PROGRAM: ends the test as skipped where the program was built with AddressSanitizer.
slow_under_asan() {
  grep -q __asan_init "$QKGEOM_BIN/qkgeom-$1" || return 0
  echo "Skipped: with AddressSanitizer in the programs, formats_test runs them on less"
  trap - EXIT
  rm -rf "$work"
  exit 77
}
failures=0
bad() { echo "FAILED: $*"; failures=$((failures + 1)); }
# program COMMAND ARGUMENTS...: the command of qkgeom, or the program of that name.
program() { if [[ -x $QKGEOM_BIN/$1 ]]; then "$QKGEOM_BIN/$1" "${@:2}"; else "$QKGEOM_BIN/qkgeom" "$@"; fi; }
run() { program "$@" >"$work/stdout" 2>"$work/stderr" || bad "$*: exit status $?: $(cat "$work/stderr")"; }
# refused WORDS PROGRAM ARGUMENTS...: the program must end with status 2 and one line on stderr that holds WORDS. Progress
# lines, which a slow run prints, are ignored. program_path: the PATH of the program.
refused() {
  local words=$1 status=0
  PATH=${program_path:-$PATH} program "${@:2}" >"$work/stdout" 2>"$work/stderr.all" || status=$?
  grep -vE '\] [0-9]+ %  [0-9]+/' "$work/stderr.all" >"$work/stderr"
  [[ $status == 2 ]] || bad "${*:2}: exit status $status, not 2"
  [[ $(wc -l <"$work/stderr") == 1 ]] || bad "${*:2}: more than one line: $(cat "$work/stderr")"
  grep -qF -- "$words" "$work/stderr" || bad "${*:2}: does not say '$words': $(cat "$work/stderr")"
}
column() { # FILE NAME: prints one column
  awk -F, -v name="$2" 'NR == 1 { for (i = 1; i <= NF; ++i) if ($i == name) at = i; next } { print $at }' "$1"
}
wrote() { # FOLDER NAMES...: FOLDER holds exactly these files, none empty
  local folder=$1
  shift
  [[ $(ls -A "$folder" | sort) == $(printf '%s\n' "$@" | sort) ]] || bad "$folder holds $(ls -A "$folder" | tr '\n' ' ')"
  [[ -z $(find "$folder" -type f -empty) ]] || bad "$folder: empty: $(find "$folder" -type f -empty)"
}
# close X Y: both are numbers, which differ in the ninth digit at most.
close() { awk -v x="$1" -v y="$2" 'BEGIN { d = x - y; exit !(x != "" && y != "" && d * d <= 1e-18 * (1 + y * y)) }'; }
take() { # CHECKPOINT OUT OPTIONS...: a capture of the bundled model's checkpoint and books
  run capture --model "$model/$1" --jsonl "$model/heldout.jsonl" --out "$work/$2" "${@:3}"
}
capture_checkpoint() { # CHECKPOINT LENGTH NAME: some heads, documents of LENGTH tokens
  take "$1" "$3" --examples 4 --max-length "$2" --layers 2,3 --heads 6 --bucket-size $(($2 / 16)) --rate 12
}
both() { for name in "$@"; do echo "$name.svg"; echo "$name.png"; done; } # NAMES...: the files of figures
