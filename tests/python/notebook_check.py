# SPDX-License-Identifier: MIT
"""notebook_check.py SOURCE CAPTURE: the cells of first_look.ipynb run and show what they promise; by Jupyter too where nbclient and
ipykernel are. Without torch and transformers CAPTURE stands in for the model."""
import ast
import importlib.util
import json
import os
import pathlib
import sys

import qkgeom

source, stand_in = (pathlib.Path(a).resolve() for a in sys.argv[1:])
notebook = source / "examples/python/first_look.ipynb"
cells = [c for c in json.loads(notebook.read_text())["cells"] if c["cell_type"] == "code"]
has_torch = all(importlib.util.find_spec(n) for n in ("torch", "transformers"))
os.chdir(notebook.parent)
names, shown = {"qkgeom": qkgeom}, []
for cell in cells:
    text = "".join(cell["source"])
    if "model" in cell["metadata"].get("tags", ()):
        assert len(text.splitlines()) == 10, "your model, ten lines"
        if not has_torch:
            print("left out: the cell of the model, this python3 has no torch and transformers; a capture of the program stands in")
            text = f"capture = qkgeom.open_capture({str(stand_in)!r})\ncapture.report()"
    *body, last = ast.parse(text).body
    exec(compile(ast.Module(body, []), notebook.name, "exec"), names)
    shown.append(eval(compile(ast.Expression(last.value), notebook.name, "eval"), names))
report, *figures = shown
assert "<table" in report._repr_html_() and len(figures) == 5
for figure in figures:
    assert figure._repr_png_()[:4] == b"\x89PNG"
capture = names["capture"]
assert "<table" in capture._repr_html_() and capture.model in capture._repr_html_()

if has_torch and all(importlib.util.find_spec(n) for n in ("nbclient", "nbformat", "ipykernel")):
    import nbclient
    import nbformat

    ran = nbformat.read(notebook, 4)
    nbclient.NotebookClient(ran, timeout=300).execute()
    kinds = [set().union(*(o["data"] for o in c["outputs"] if "data" in o)) for c in ran.cells if c.cell_type == "code"]
    assert "text/html" in kinds[0] and all("image/png" in k for k in kinds[1:]), kinds
else:
    print("left out: the notebook in Jupyter, nbclient, ipykernel or torch are not here")
