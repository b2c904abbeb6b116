# SPDX-License-Identifier: MIT
"""`qkgeom COMMAND ...` and `python -m qkgeom COMMAND ...`: becomes the program that the package brings along."""
import os
import pathlib
import sys


def main() -> None:
    """Never returns. Exits with status 2 where the package was built without the programs."""
    program = pathlib.Path(__file__).with_name("bin") / "qkgeom"
    # OpenBLAS would start a thread per core before any command knows whether it needs them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        os.execv(program, ["qkgeom", *sys.argv[1:]])
    except OSError as why:
        print(f"qkgeom: {program}: {why.strerror}; a package that was built with QKGEOM_PYTHON_PROGRAMS=OFF, or on an installed "
              "qkgeom, has no programs", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
