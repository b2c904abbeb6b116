#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check every #include of include/, capture/, examples/, bench/ and tests/ against rooms.txt, and that no code names what
stands in the `detail` namespace of another room.

Usage: check.py SOURCE_DIR     exit status 1 and one line a violation, else one line of summary
       check.py --self-test    plants violations in a scratch folder and expects each to be found
"""
import pathlib
import re
import sys
import tempfile

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.M)
BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.S)
PAGE_ROW = re.compile(r"^\| `([\w/]+)/` \|.*\| ([^|\n]*) \|$", re.M)
SUFFIXES = {".hpp", ".cpp", ".cuh", ".cu", ".h"}
PLATFORM = re.compile(r"^(sys/|linux/|immintrin\.h$|x86intrin\.h$|cpuid\.h$|unistd\.h$|fcntl\.h$|sched\.h$|"
                      r"pthread\.h$|signal\.h$|poll\.h$|dlfcn\.h$|dirent\.h$|errno\.h$)")
THIRD_PARTY = {"Eigen": "Eigen", "unsupported": "Eigen", "boost": "boost", "xtensor": "xtensor", "xtl": "xtensor",
               "nlohmann": "nlohmann", "thrust": "Thrust", "mpi.h": "MPI"}
DETAIL = r"(?:\w+::)*detail"
DETAIL_NAMESPACE = re.compile(rf"^namespace {DETAIL}(?:::(\w+))?\b[^\n{{]*\{{\n(.*?)^\}}  // namespace {DETAIL}\b", re.M | re.S)
DETAIL_USE = re.compile(r"(?:(?<![\w:])|(?<=qkgeom::)|(?<=examples::))detail::(\w+)")
DEFINED = re.compile(r"^(?:struct|class|enum class|enum|concept|using|namespace) (\w+)|(\w+)(?:<[^()\n]*>)?\("
                     r"|(\w+)(?:\[[^\n]*\])?(?: =|\{|;)")
COMMENT = re.compile(r"//(?! namespace)[^\n]*")
CUDA = re.compile(r"^(cuda|cublas|cusolver|mma)[A-Za-z0-9_]*\.h$")


def read_rows(path):
    """rooms.txt -> (room -> rooms it may include, room -> third parties it may include), as written."""
    rooms, third = {}, {}
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            room, may, parties = re.split(r" {2,}", line.strip())
            rooms[room] = set(may.split()) - {"-"}
            third[room] = set(parties.split()) - {"-"}
    for room in rooms:
        for other in rooms[room] - {"*"}:
            if other not in rooms:
                raise SystemExit(f"rooms.txt: {room} may include {other}, which is no room of the table")
    return rooms, third


def read_table(path):
    """The same, where a room also may include itself and what its rooms may include."""
    rooms, third = read_rows(path)

    def closure(room, seen):
        for other in rooms.get(room, ()):
            if other not in seen:
                seen.add(other)
                closure(other, seen)
        return seen

    return {room: closure(room, set()) | {room} for room in rooms}, third


def innermost(parts, rooms):
    """The row for a file in this folder: of the folder itself, or of the nearest folder around it."""
    for end in range(len(parts), 0, -1):
        if "/".join(parts[:end]) in rooms:
            return "/".join(parts[:end])
    return "/".join(parts[:1])


def room_of(relative, rooms):
    """The room a source file belongs to, or None where only the rules for everyone hold (examples, bench, tests)."""
    parts = relative.parts
    if parts[0] == "include":
        return innermost(parts[2:-1], rooms) if len(parts) > 3 else "top"
    if parts[0] == "capture":
        return innermost(parts[:-1], rooms)
    return None


def project_violation(relative, room, header, rooms):
    """Why a file must not include this header of the project, or None."""
    parts = header.split("/")
    outside = relative.parts[0] in ("examples", "bench")
    if relative.parts[0] == "include" and not header.startswith("qkgeom/"):
        return 'a header is named from include/: "qkgeom/room/file.hpp"'
    if ".." in parts:
        return "no path goes upward"
    if header.startswith("capture/"):
        own_tests = [("tests", room) for room in ("capture", "emulated_cuda", "fuzz", "gpu")]
        if relative.parts[0] == "bench" or relative.parts[:2] in own_tests:
            return None
        if relative.parts[0] != "capture":
            return "nothing uses capture/ but its own tests and benches"
        target = innermost(parts[:-1], rooms)
    elif parts[0] != "qkgeom" or len(parts) < 3:
        return None
    else:
        target = innermost(parts[1:-1], rooms)
    if target not in rooms:
        return f"{target} is no room of rooms.txt"
    if "detail" in parts[2:-1]:
        own = relative.parts[1] if relative.parts[0] == "tests" else (room or "").split("/")[0]
        if own != parts[1]:
            return f"detail/ stays inside {parts[1]}"
        if relative.parts[0] == "tests":
            return None
    if outside or room in (None, "top") or "*" in rooms[room] or target in rooms[room]:
        return None
    return f"{room} may include {', '.join(sorted(rooms[room] - {room})) or 'no other room'}"


def system_violation(room, header, third):
    """Why a file of include/ must not include <header>, or None."""
    if "*" in third.get(room, ()):
        return None
    if "/" not in header and "." not in header:
        return None                                   # the standard library
    if PLATFORM.match(header):
        name = "platform"
    elif CUDA.match(header):
        name = "CUDA"
    else:
        name = THIRD_PARTY.get(header.split("/")[0], header)
    if header.startswith("boost/math/") or name in third.get(room, ()):
        return None
    return f"{room} may include {', '.join(sorted(third.get(room, ()))) or 'no third party'} besides Boost.Math"


def owner_of(relative):
    """What owns the `detail` names that a file may use: a room of include/ (of its tests too), capture, examples, bench."""
    parts = relative.parts
    return parts[1] if parts[0] == "tests" and len(parts) > 2 else parts[2] if parts[0] == "include" else parts[0]


def defined_names(text):
    """Names that a text defines in a namespace `detail`: those of lines that start a declaration."""
    names = set()
    for inner, body in DETAIL_NAMESPACE.findall(text):
        names.add(inner)
        for line in body.splitlines():
            if line[:1].isalpha():
                names.update(name for match in DEFINED.findall(line[:line.find("{") + 1] or line) for name in match)
    return names


def detail_violations(texts):
    """Uses of detail::NAME where the file's owner defines no such name; `texts`: file -> its text without comments."""
    defined, found = {}, []
    for relative, text in texts.items():
        defined.setdefault(owner_of(relative), set()).update(defined_names(text))
    for relative, text in texts.items():
        for match in DETAIL_USE.finditer(text):
            if match[1] not in defined[owner_of(relative)]:
                line = text.count("\n", 0, match.start()) + 1
                found.append(f"{relative}:{line}: names detail::{match[1]}, which {owner_of(relative)} does not define")
    return found


def violations(source):
    rooms, third = read_table(source / "tests" / "include_rules" / "rooms.txt")
    found, texts = [], {}
    for top in ("include", "capture", "examples", "bench", "tests"):
        for path in sorted((source / top).rglob("*")):
            relative = path.relative_to(source)
            if path.suffix not in SUFFIXES or {"data", "tree"} & set(relative.parts):  # examples/python/tree: copies for an sdist
                continue
            room = room_of(relative, rooms)
            text = path.read_text()
            if top == "include" and room != "top" and room not in rooms:
                found.append(f"{relative}: {room} is no room of rooms.txt")
                continue
            text = BLOCK_COMMENT.sub(lambda m: "\n" * m.group().count("\n"), text)
            texts[relative] = COMMENT.sub("", text)
            for match in INCLUDE.finditer(text):
                quoted, angle = match.groups()
                header = quoted or angle
                if quoted or header.startswith(("qkgeom/", "capture/")):
                    why = project_violation(relative, room, header, rooms)
                else:
                    why = system_violation(room, header, third) if top == "include" and room != "top" else None
                if why:
                    line = text.count("\n", 0, match.start()) + 1
                    found.append(f"{relative}:{line}: includes {header}: {why}")
    return found + detail_violations(texts), len(texts)


def check_page(source):
    """The table of docs/architecture.md says what rooms.txt says, row by row, so that the page cannot go stale."""
    page = source / "docs" / "architecture.md"
    if not page.exists():
        return []
    direct, _ = read_rows(source / "tests" / "include_rules" / "rooms.txt")
    said = {room: set(re.findall(r"[\w/]+", may)) for room, may in PAGE_ROW.findall(page.read_text())}
    rooms = {room for room in direct if room != "capture"}
    return [f"docs/architecture.md: the row of {room}/ is not that of rooms.txt"
            for room in sorted(rooms | set(said)) if said.get(room) != direct.get(room)]


PLANTED = {   # file -> (text, what the message must contain; None: must pass)
    "include/qkgeom/core/a.hpp": ("#include <vector>\n#include <boost/math/constants/constants.hpp>\n", None),
    "include/qkgeom/core/up.hpp": ('#include "qkgeom/stats/m.hpp"\n', "core may include no other room"),
    "include/qkgeom/core/eigen.hpp": ("#include <Eigen/Core>\n", "platform besides Boost.Math"),
    "include/qkgeom/stats/m.hpp": (
        '#include "qkgeom/core/a.hpp"\n/* #include <Eigen/Core> */\n// #include <fmt/core.h>\n', None),
    "include/qkgeom/stats/asio.hpp": ("#include <boost/asio.hpp>\n", "no third party"),
    "include/qkgeom/geometry/b.hpp": ('#include "qkgeom/backend/cpu.hpp"\n', "geometry may include context, core, linalg, stats"),
    "include/qkgeom/geometry/d.hpp": ('#  include "qkgeom/stats/detail/x.hpp"\n', "detail/ stays inside stats"),
    "include/qkgeom/geometry/r.hpp": ('#include "../core/a.hpp"\n', "named from include/"),
    "include/qkgeom/plasticity/p.hpp": ('#include "qkgeom/core/a.hpp"\n#include "qkgeom/stats/m.hpp"\n', None),
    "include/qkgeom/backend/cpu.hpp": (
        '#include <qkgeom/linalg/e.hpp>\n#include "qkgeom/backend/detail/cpu/p.hpp"\n#include <sched.h>\n', None),
    "include/qkgeom/backend/json.hpp": ("#include <nlohmann/json.hpp>\n", "CUDA, platform"),
    "include/qkgeom/backend/detail/tiles/t.hpp": (
        '#include "qkgeom/backend/detail/thrust/x.hpp"\n', "backend/detail/tiles may include"),
    "include/qkgeom/backend/detail/cuda/card.cuh": ("#include <cuda_runtime.h>\n#include <thrust/sort.h>\n", None),
    "include/qkgeom/stats/card.hpp": ("#include <cuda_runtime_api.h>\n", "no third party"),
    "include/qkgeom/model/sort.hpp": ("#include <thrust/sort.h>\n", "no third party"),
    "include/qkgeom/io/c.hpp": ('#include "capture/forward.hpp"\n', "named from include/"),
    "include/qkgeom/odd/o.hpp": ("", "odd is no room"),
    "capture/forward/f.cpp": (
        '#include <cblas.h>\n#include "capture/model/m.hpp"\n#include "qkgeom/io/c.hpp"\n', None),
    "capture/forward/up.cpp": ('#include "capture/job/run_capture.hpp"\n', "capture/forward may include capture/forward/attention"),
    "capture/job/pca.cpp": ('#include "qkgeom/geometry/pca.hpp"\n', "capture/job may include capture/forward"),
    "capture/main.cpp": ('#include "qkgeom/report/analyse.hpp"\n', None),
    "examples/e.cpp": ('#include "capture/f.hpp"\n', "nothing uses capture/"),
    "examples/f.cpp": ('#include "qkgeom/report/detail/x.hpp"\n', "detail/ stays inside report"),
    "tests/stats/t.cpp": ('#include "qkgeom/stats/detail/x.hpp"\n#include "qkgeom/report/a.hpp"\n', None),
    "include/qkgeom/stats/names.hpp": (
        "namespace qkgeom::detail {\ninline double half(double x) {\n  return x / 2;\n}\n}  // namespace qkgeom::detail\n"
        "// detail::other\ninline double quarter(double x) { return detail::half(detail::half(x)); }\n", None),
    "include/qkgeom/model/names.hpp": ("inline double same(double x) { return 2 * detail::half(x); }\n",
                                       "names detail::half, which model does not define"),
    "include/qkgeom/stats/calls.hpp": (
        "namespace qkgeom::detail {\ninline double sixth(double x) { return third(x) / 2; }\n}  // namespace qkgeom::detail\n"
        "inline double twelfth(double x) { return detail::third(x) / 4; }\n", "names detail::third, which stats does not"),
    "examples/names.cpp": ("double x = qkgeom::detail::half(2);\n", "which examples does not define"),
    "tests/stats/names.cpp": ("double x = detail::half(2);\n", None),
    "tests/model/names.cpp": ("double x = detail::half(2);\n", "which model does not define"),
    "tests/stats/u.cpp": ('#include "qkgeom/io/detail/x.hpp"\n', "detail/ stays inside io"),
}


def self_test():
    table = pathlib.Path(__file__).with_name("rooms.txt").read_text()
    with tempfile.TemporaryDirectory() as name:
        source = pathlib.Path(name)
        for file, (text, _) in {**PLANTED, "tests/include_rules/rooms.txt": (table, None)}.items():
            (source / file).parent.mkdir(parents=True, exist_ok=True)
            (source / file).write_text(text)
        found, _ = violations(source)
        rows, _ = read_rows(source / "tests" / "include_rules" / "rooms.txt")
        lines = [f"| `{room}/` | things | {', '.join(sorted(may)) or '-'} |" for room, may in rows.items() if room != "capture"]
        (source / "docs").mkdir()
        (source / "docs" / "architecture.md").write_text("\n".join(lines))
        right = check_page(source)
        (source / "docs" / "architecture.md").write_text("\n".join(lines[1:]).replace("| stats |", "| core |", 1))
        wrong = check_page(source)
    failures = []
    if right or [line.split()[4] for line in wrong] != ["core/", "geometry/"]:
        failures.append(f"docs/architecture.md: found {right} in a right page, {wrong} in a wrong one")
    for file, (_, expected) in PLANTED.items():
        mine = [line for line in found if line.startswith(file)]
        if len(mine) != (expected is not None) or (expected and expected not in mine[0]):
            failures.append(f"{file}: expected {expected!r}, found {mine}")
    return failures


def main():
    if sys.argv[1:] == ["--self-test"]:
        failures = self_test()
        print("\n".join(failures) or f"{len(PLANTED)} planted files judged as they should be")
        return bool(failures)
    source = pathlib.Path(sys.argv[1])
    found, files = violations(source)
    found += check_page(source)
    print("\n".join(found) or f"{files} files follow tests/include_rules/rooms.txt")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
