#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compile the ```cpp blocks of README.md and docs/*.md, and run README.md's programs.

Usage: compile.py [--self-test] SOURCE_DIR WORK_DIR COMPILER INCLUDE_DIRS(;-separated) LINK_OPTIONS...

A block with a `main` is a program. A block that defines functions or types stands by itself. Any other block becomes
the body of a function, with its own #include lines above it; an HTML comment `<!-- prelude: ... -->` right before the
block holds what the reader need not see (the variables that the text speaks of), its #include lines included. A program
runs in SOURCE_DIR and must exit with 0. What stands in examples/library is compiled there. LINK_OPTIONS are the library
qkgeom::compiled and the flags that it was compiled with.
"""
import pathlib
import re
import subprocess
import sys

BLOCK = re.compile(r"(?:^<!-- prelude:(?P<prelude>.*?)-->[ \t]*\n+)?"
                   r"^```cpp[ \t]*\n(?P<code>.*?)^```[ \t]*$", re.M | re.S)
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include.*\n?", re.M)
MAIN = re.compile(r"^(?:int|auto)\s+main\s*\(", re.M)
DEFINITION = re.compile(r"^(?!(?:if|for|while|switch|do|else|try|return)\b)"
                        r"(?:template\b|struct\b|class\b|namespace\b|[^\s=(]+ [^=(\n]*\([^\n]*\) (?:const )?\{)", re.M)


def blocks(page):
    """(line number, code, prelude) of each block of a Markdown page."""
    text = page.read_text()
    for match in BLOCK.finditer(text):
        yield text.count("\n", 0, match.start("code")) + 1, match["code"], match["prelude"] or ""


def unit(page, line, code, prelude):
    """The translation unit of a block; compiler messages name the page and its lines."""
    where = f'#line {line} "{page}"\n'
    if MAIN.search(code) or DEFINITION.search(code):
        return prelude + where + code
    body = INCLUDE.sub("\n", code)                    # an empty line each: the numbers stay right
    includes = "".join(INCLUDE.findall(prelude + "\n" + code))
    return f"{includes}\nvoid snippet();\nvoid snippet() {{\n{INCLUDE.sub('', prelude)}\n{where}{body}}}\n"


def compile_block(compiler, includes, source, output, link):
    command = [compiler, "-std=c++20", "-Wall", "-Wextra", "-Wno-unused-variable", "-Wno-unused-but-set-variable", "-DQKGEOM_PRECOMPILED"]
    command += ["-o", str(output), str(source), *link, "-pthread"] if link else ["-fsyntax-only", str(source)]
    for folder in includes:
        if folder and folder != "/usr/include":
            command += ["-I", folder]
    return subprocess.run(command, stdin=subprocess.DEVNULL).returncode == 0


def check(source, work, compiler, includes, link):
    """Compile (and run) the blocks of all pages; returns the number of blocks and the failures."""
    work.mkdir(parents=True, exist_ok=True)
    readme = source / "README.md"
    examples = [p.read_text() for p in source.glob("examples/library/*.c*")]
    count, failures = 0, []
    for page in ([readme] if readme.exists() else []) + sorted(source.glob("docs/**/*.md")):
        for line, code, prelude in blocks(page):
            count += 1
            if any(e.endswith(code) for e in examples):
                continue
            name = f"{page.stem}_{line}"
            runs = page == readme and MAIN.search(code) is not None
            (work / f"{name}.cpp").write_text(unit(page, line, code, prelude))
            if not compile_block(compiler, includes, work / f"{name}.cpp", work / name, runs and link):
                failures.append(f"{page.relative_to(source)}:{line}: does not compile")
            elif runs and subprocess.run([work / name], cwd=source, stdin=subprocess.DEVNULL, timeout=300).returncode:
                failures.append(f"{page.relative_to(source)}:{line}: does not exit with 0")
    return count, failures


def self_test(work, compiler, includes, link):
    """A page with good and broken blocks: exactly the broken ones are reported."""
    fence = "```"
    (work / "docs").mkdir(parents=True, exist_ok=True)
    (work / "README.md").write_text(
        f"{fence}cpp\nint main() {{ return 0; }}\n{fence}\n{fence}cpp\nint main() {{ return 3; }}\n{fence}\n")
    (work / "docs" / "a.md").write_text(
        f"<!-- prelude:\n#include <string>\nstd::string s; -->\n{fence}cpp\nauto n = s.size();\n{fence}\n"
        f"{fence}sh\nnot c++\n{fence}\n{fence}cpp\nauto n = s.size();\n{fence}\n"
        f"{fence}cpp\n#include <vector>\nstd::vector<int> one(const int& x) {{\n  return {{x}};\n}}\n{fence}\n"
        f"{fence}cpp\n#include <vector>\nfor (int i : std::vector<int>(3)) {{\n  (void)i;\n}}\n{fence}\n")
    count, failures = check(work, work / "units", compiler, includes, link)
    expected = ["README.md:5: does not exit with 0", "docs/a.md:11: does not compile"]
    if (count, failures) == (6, expected):
        return []
    return [f"expected 6 blocks and {expected}, found {count}, {failures}"]


def main():
    arguments = [a for a in sys.argv[1:] if a != "--self-test"]
    source, work = pathlib.Path(arguments[0]).resolve(), pathlib.Path(arguments[1]).resolve()
    compiler, includes, link = arguments[2], arguments[3].split(";"), arguments[4:]
    if "--self-test" in sys.argv:
        failures, count = self_test(work, compiler, includes, link), 6
    else:
        count, failures = check(source, work, compiler, includes, link)
    print("\n".join(failures) or f"{count} blocks compile")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
