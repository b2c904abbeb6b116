#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# heads, pca, rotation and plasticity under mpirun: any number of processes writes the bytes of one, prints what it prints,
# and refuses what it refuses, once. Other programs refuse to be several.
set -uo pipefail
data=$QKGEOM_SOURCE/tests/data/golden/long-f32.safetensors
[[ $(ldd "$QKGEOM_BIN/heads") == *libmpi* ]] || { echo "heads was built without MPI"; exit 77; }
# A machine with few cores, no second between the signals that end ranks, and Open MPI's permission where the tests run as root.
export OMPI_MCA_odls_base_sigkill_timeout=0 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_ALLOW_RUN_AS_ROOT=1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 LSAN_OPTIONS=detect_leaks=0
launcher=${QKGEOM_MPIEXEC:-mpirun}
source "$QKGEOM_SOURCE/tests/examples/common.sh"
# together N PROGRAM ARGUMENTS...: PROGRAM by N processes.
together() { "$launcher" -n "$1" "$QKGEOM_BIN/$2" "${@:3}" --threads 1 >"$work/stdout" 2>"$work/stderr"; }
# said OUT: standard output without the folder, and without colours, which Open MPI's ranks print as on a terminal.
said() { sed "s|$1|OUT|; s/\x1b\[[0-9;]*m//g; s/\r\$//" "$work/stdout"; }
# same "N..." PROGRAM ARGUMENTS...: so many processes write the files of one and print the same.
same() {
  local n out=$work/one
  run "${@:2}" --out "$out" --threads 2
  said "$out" >"$work/said"
  for n in $1; do
    together "$n" "${@:2}" --out "$out-$n" || bad "$n processes, ${*:2}: exit status $?: $(cat "$work/stderr")"
    said "$out-$n" | diff "$work/said" - || bad "$n processes print something else: ${*:2}"
    diff -r "$out" "$out-$n" || bad "$n processes write something else: ${*:2}"
  done
  rm -r "$out"*
}
same "1 2 3" heads "$data" --refit-errors
same 2 heads "$data" --no-figures --layers 3 --heads 0.5 --details --max-position 1000,2000
same 2 pca "$data"
same 3 rotation "$data" --head 3.2
same 2 plasticity "$data" --no-figures --covariance joint --pairs prefix_uniform
same 2 plasticity "$data" --preset attention-plasticity

status=0
together 3 heads "$data" --out "$work/refused" --layers 77 || status=$?
[[ $status == 2 ]] || bad "a layer that is not there: exit status $status"
[[ $(grep -c 'this layer is not in the capture' "$work/stderr") == 1 ]] || bad "three processes say: $(cat "$work/stderr")"
[[ ! -e $work/refused ]] || bad "a run that is refused leaves its folder"

status=0
together 2 drop_split "$data" --out "$work/refused" || status=$?
[[ $status == 2 ]] || bad "two processes of drop_split: exit status $status"
grep -q 'a launcher started 2' "$work/stderr" || bad "two processes of drop_split say: $(cat "$work/stderr")"
[[ ! -e $work/refused ]] || bad "two processes of drop_split leave a folder"
