#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# install-packages.sh demo|tests    Debian packages for the demo, or for building and testing everything.
# Says what is missing and installs only that, with apt-get, as root or through sudo. Nothing to do when all is there.
# `a|b`: any of them will do; the first that this release of Debian has is installed.
set -euo pipefail

build=(cmake ninja-build g++ pkg-config libeigen3-dev 'libboost-dev|libboost1.74-dev|libboost-math-dev'
       libxtensor-dev nlohmann-json3-dev libcli11-dev libfmt-dev libicu-dev
       'libopenblas-dev|libopenblas-pthread-dev|libopenblas-serial-dev')
demo=("${build[@]}" 'gnuplot-nox|gnuplot-qt|gnuplot-x11')
tests=("${demo[@]}" libgtest-dev libgmock-dev libbenchmark-dev librandom123-dev libthrust-dev libopenmpi-dev openmpi-bin ccache 'clang-14|clang' 'libc++-14-dev|libc++-dev' 'libc++abi-14-dev|libc++abi-dev' python3 python3-venv python3-dev doxygen)

case ${1-} in
  demo) wanted=("${demo[@]}") ;;
  tests) wanted=("${tests[@]}") ;;
  *) echo "usage: $0 demo|tests" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "Not a Debian system: please see to it that these are there: ${wanted[*]%%|*}" >&2
  exit 0
fi

installed=" $(dpkg-query -W -f '${Package} ${db:Status-Status}\n' | awk '$2 == "installed" { printf "%s ", $1 }')"
missing=()
for package in "${wanted[@]}"; do
  for name in ${package//|/ }; do
    [[ $installed == *" $name "* ]] && continue 2
  done
  missing+=("$package")
done
((${#missing[@]})) || exit 0

root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "This needs root: apt-get install ${missing[*]%%|*}" >&2
    exit 1
  fi
  root=(sudo)
fi
"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq </dev/null
chosen=()
for package in "${missing[@]}"; do
  for name in ${package//|/ } "${package%%|*}"; do
    if apt-cache show "$name" &>/dev/null; then break; fi
  done
  chosen+=("$name")
done
echo "Installing ${#chosen[@]} Debian packages: ${chosen[*]}"
"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${chosen[@]}" \
  </dev/null >/dev/null
