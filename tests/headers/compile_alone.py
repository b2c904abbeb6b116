#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compile every header as if it stood alone, and twice. Syntax and types only: no object file is written.

Usage: compile_alone.py [--together] COMPILER INCLUDE_DIR WORK_DIR SYSTEM_INCLUDES(;-separated) [THRUST_DEFINITION]

A header behind others that it includes anyway sees nothing that it does not see alone, so that a unit holds a chain of
headers, each of which includes the one before. Two units are compiled at a time, and none again until a header changed.
Headers named thrust_* are left out unless THRUST_DEFINITION (e.g. THRUST_DEVICE_SYSTEM=...) says how to compile them.
--together: one unit that holds all headers.
"""
import concurrent.futures
import hashlib
import pathlib
import re
import subprocess
import sys

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include "([^"]+)"', re.M)


def closures(text):
    """What each header includes, and what that includes, of the headers in `text` (name: contents)."""
    direct = {name: [i for i in INCLUDE.findall(t) if i in text] for name, t in text.items()}

    def below(name, seen):
        for i in direct[name]:
            if i not in seen:
                seen.add(i)
                below(i, seen)
        return seen

    return {name: below(name, set()) for name in direct}


def chains(included):
    """Lists that hold every header once; a header includes the one before it, which does not include it."""
    left, result = set(included), []
    while left:
        chain, size = [], lambda name: (len(included[name]), name)
        candidates = left
        while candidates:
            chain.append(max(candidates, key=size))
            left.remove(chain[-1])
            candidates = {h for h in included[chain[-1]] & left if chain[-1] not in included[h]}
        result.append(chain[::-1])
    return result


def main():
    together = sys.argv[1] == "--together"
    compiler, include, work, system, *thrust = sys.argv[1 + together:]
    include, work = pathlib.Path(include), pathlib.Path(work)
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
    command += [f"-I{include}"] + [f"-D{d}" for d in thrust if d]
    for folder in system.split(";"):
        if folder.startswith("/") and folder not in (str(include), "/usr/include"):
            command += ["-isystem", folder]
    text = {str(p.relative_to(include)): p.read_text() for p in sorted(include.rglob("*.hpp"))
            if any(thrust) or not p.name.startswith("thrust_")}

    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    parts = [version, str(command), str(together), pathlib.Path(__file__).read_text(), str(sorted(text.items()))]
    stamp, found = work / "stamp", hashlib.sha256("\n".join(parts).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == found:
        print(f"no header changed since they all compiled with {compiler}")
        return 0
    work.mkdir(parents=True, exist_ok=True)

    def compiles(headers):
        unit = work / (headers[-1].replace("/", "_") + ".cpp")
        unit.write_text("".join(f'#include "{h}"\n' for h in headers * 2))
        return subprocess.run(command + [str(unit)], stdin=subprocess.DEVNULL).returncode == 0

    units = [sorted(text)] if together else chains(closures(text))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        failed = [unit for unit, good in zip(units, pool.map(compiles, units)) if not good]
    for unit in failed:
        for header in unit if not together else []:
            if not compiles([header]):
                print(f"FAILED alone: {header}")
    if not failed:
        print(f"{len(text)} headers compile with {compiler}, in {len(units)} units")
        stamp.write_text(found)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
