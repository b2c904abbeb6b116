#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compile every header as if it stood alone, and twice. Syntax and types only: no object file is written.

Usage: compile_alone.py COMPILER INCLUDE_DIR WORK_DIR SYSTEM_INCLUDES(;-separated) [THRUST_DEFINITION]
       compile_alone.py --self-test COMPILER - WORK_DIR

A header behind others that it includes anyway sees nothing that it does not see alone, so that a unit holds a chain of
headers, each of which includes the one before; detail/x.hpp with the bodies of x.hpp, which includes it at its end, is
compiled with x.hpp. Bodies that x.hpp leaves out with QKGEOM_PRECOMPILED stand alone too, so that each is read once and
not in all that includes x.hpp. Two units are compiled at a time, and none again until a header changed.
Headers named thrust_* are left out unless THRUST_DEFINITION (e.g. THRUST_DEVICE_SYSTEM=...) says how to compile them,
and so are those named mpi_group unless mpi.h is in one of SYSTEM_INCLUDES.
"""
import concurrent.futures
import hashlib
import pathlib
import re
import subprocess
import sys

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include "([^"]+)"', re.M)
LEFT_OUT = re.compile(r"^#if !defined\(QKGEOM_PRECOMPILED\)\n.*?^#endif", re.M | re.S)


def closures(text):
    """What each header includes, and what that includes, of the headers in `text` (name: contents)."""
    direct = {name: [i for i in INCLUDE.findall(LEFT_OUT.sub("", t)) if i in text] for name, t in text.items()}

    def below(name, seen):
        for i in direct[name]:
            if i not in seen:
                seen.add(i)
                below(i, seen)
        return seen

    return {name: below(name, set()) for name in direct}


def chains(included):
    """Lists that hold every header once, but for bodies; a header includes the one before it, which does not include it."""
    bodies = {b for h in included for b in included[h] if "detail/" in b and "detail/" not in h and h in included[b]}
    left, result = set(included) - bodies, []
    while left:
        chain, size = [], lambda name: (len(included[name]), name)
        candidates = left
        while candidates:
            chain.append(max(candidates, key=size))
            left.remove(chain[-1])
            candidates = {h for h in included[chain[-1]] & left if chain[-1] not in included[h]}
        result.append(chain[::-1])
    return result


def compiles(command, work, headers):
    """Whether a unit of these headers, twice, compiles."""
    unit = work / (headers[-1].replace("/", "_") + ".cpp")
    unit.write_text("".join(f'#include "{h}"\n' for h in headers * 2))
    return subprocess.run(command + [str(unit)], stdin=subprocess.DEVNULL).returncode == 0


def check(command, work, units):
    """The headers that do not compile alone, of the units that do not compile."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        good = list(pool.map(lambda unit: compiles(command, work, unit), units))
    return [[h for h in unit if len(unit) == 1 or not compiles(command, work, [h])]
            for unit, passed in zip(units, good) if not passed]


PLANTED = {
    "base.hpp": "#pragma once\n#include <vector>\nusing numbers = std::vector<int>;\n",
    "good.hpp": '#pragma once\n#include "base.hpp"\nstd::vector<numbers> all();\n',
    "above.hpp": '#pragma once\n#include "good.hpp"\ninline auto first() { return all()[0]; }\n',
    "declares.hpp": '#pragma once\nint f();\n#include "detail/bodies.hpp"\n',
    "detail/bodies.hpp": '#pragma once\n#include "declares.hpp"\ninline int f() { return 1; }\n',
    "heavy.hpp": '#pragma once\nint g();\n#if !defined(QKGEOM_PRECOMPILED)\n#include "detail/heavy.hpp"\n#endif\n',
    "detail/heavy.hpp": '#pragma once\n#include "heavy.hpp"\ninline int g() { return numbers{1}[0]; }\n',
    "lacks_base.hpp": "#pragma once\nnumbers some();\n",
    "lacks_vector.hpp": '#pragma once\n#include "lacks_base.hpp"\n',
    "no_guard.hpp": '#include "base.hpp"\nstruct twice {};\n',
}
PLANTED_FAULTS = {"detail/heavy.hpp", "lacks_base.hpp", "lacks_vector.hpp", "no_guard.hpp"}


def self_test(compiler, work):
    """Exactly the planted headers with a fault are reported, and chains are as their comment says."""
    (work / "detail").mkdir(parents=True, exist_ok=True)
    for name, text in PLANTED.items():
        (work / name).write_text(text)
    included = closures(PLANTED)
    units = chains(included)
    command = [compiler, "-std=c++20", "-fsyntax-only", "-DQKGEOM_PRECOMPILED", f"-I{work}"]
    found = {h for unit in check(command, work, units) for h in unit}
    assert found == PLANTED_FAULTS, found
    assert sorted(h for unit in units for h in unit) == sorted(set(PLANTED) - {"detail/bodies.hpp"}), units
    assert ["base.hpp", "good.hpp", "above.hpp"] in units, units
    for unit in units:
        for below, above in zip(unit, unit[1:]):
            assert below in included[above] and above not in included[below], unit
    print(f"{len(PLANTED_FAULTS)} planted faults found")


def main():
    if sys.argv[1] == "--self-test":
        return self_test(sys.argv[2], pathlib.Path(sys.argv[4]))
    compiler, include, work, system, *thrust = sys.argv[1:]
    include, work = pathlib.Path(include), pathlib.Path(work)
    # clang's -Wconversion would ask for a cast in each subscript; g++'s does not.
    command = [compiler, "-std=c++20", "-fsyntax-only", "-DQKGEOM_PRECOMPILED", "-Wall", "-Wextra", "-Wconversion", "-Wno-sign-conversion",
               "-Wshadow", "-Werror"]
    command += [f"-I{include}"] + [f"-D{d}" for d in thrust if d]
    for folder in system.split(";"):
        if folder.startswith("/") and folder not in (str(include), "/usr/include"):
            command += ["-isystem", folder]
    has_mpi = any((pathlib.Path(folder) / "mpi.h").exists() for folder in system.split(";"))
    text = {str(p.relative_to(include)): p.read_text() for p in sorted(include.rglob("*.hpp"))
            if (any(thrust) or not p.name.startswith("thrust_")) and (has_mpi or p.name != "mpi_group.hpp")}

    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    parts = [version, str(command), pathlib.Path(__file__).read_text(), str(sorted(text.items()))]
    stamp, found = work / "stamp", hashlib.sha256("\n".join(parts).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == found:
        print(f"no header changed since they all compiled with {compiler}")
        return 0
    work.mkdir(parents=True, exist_ok=True)

    failed = check(command, work, chains(closures(text)))
    for header in sum(failed, []):
        print(f"FAILED alone: {header}")
    if not failed:
        print(f"{len(text)} headers compile with {compiler}")
        stamp.write_text(found)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
