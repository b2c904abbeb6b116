#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the programs on the files of tests/data/make_hostile.py, and on named pipes in place of files.

Usage: hostile_check.py BIN SOURCE FOLDER

Each run must end as expected: with status 0 and nothing on stderr, or with status 2 and one line there (besides notes) that
holds the given words, no control characters and at most 1000 bytes; within 20 s of computing and with at most 500 MB of
memory; programs with AddressSanitizer get four times both. Writes into FOLDER, prints what is wrong and exits with 1 if
anything is.
"""
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import xml.dom.minidom

BIN, SOURCE, FOLDER = map(pathlib.Path, sys.argv[1:])
MODEL = SOURCE / "examples/data/kjv-smollm3/stage1-step-1000"
CAPTURE = ["capture", "--model", MODEL, "--max-length", "4096", "--threads", "1"]
SLOWER = 4 if b"__asan_init" in (BIN / "qkgeom-capture").read_bytes() else 1
SECONDS, WAIT, MEGABYTES = 20 * SLOWER, 120 * SLOWER, 500 * SLOWER
wrong = []


def run(words, program, *arguments):
    """`words`: part of the sentence with which the program refuses; None: it succeeds."""
    out = tempfile.mkdtemp(dir=FOLDER)
    command = [BIN / "qkgeom", program, *arguments] + ([] if {"--plan", "--out"} & set(arguments) else ["--out", out + "/out"])
    with open(out + "/stderr", "w+b") as errors, open(out + "/stdout", "w+b") as output:
        child = subprocess.Popen(command, stdout=output, stderr=errors, stdin=subprocess.DEVNULL)
        resource.prlimit(child.pid, resource.RLIMIT_CPU, (SECONDS, SECONDS))
        late = threading.Timer(WAIT, child.kill)
        late.start()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        late.cancel()
        errors.seek(0)
        said = errors.read()
        output.seek(0)
        printed = output.read()
    megabytes = usage.ru_maxrss / 1024
    lines = [line for line in said.split(b"\n") if not line.startswith(b"note: ")]
    text = lines[0].decode(errors="replace")
    fault = None
    if child.returncode != (0 if words is None else 2):
        fault = f"status {child.returncode}" + (" (no end)" if child.returncode == -9 else "")
    elif megabytes > MEGABYTES:
        fault = f"{megabytes:.0f} MB"
    elif b"\x1b" in printed or "\u202e".encode() in printed:
        fault = "control characters on stdout"
    elif words is None:
        fault = "words on stderr" if said else None
        for svg in pathlib.Path(out).rglob("*.svg"):
            xml.dom.minidom.parse(str(svg))
    elif len(lines) != 2 or lines[1] or len(lines[0]) > 1000 or any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text):
        fault = "not one clear line"
    elif words not in text:
        fault = f"does not say '{words}'"
    if fault:
        wrong.append(f"{' '.join(map(str, command))}: {fault}: {said[:300]!r}")
    shutil.rmtree(out)


def copy_of(folder, name, **files):
    """A copy of a folder with other files in it; None: a named pipe."""
    copy = FOLDER / name
    shutil.copytree(folder, copy)
    for file, source in files.items():
        path = copy / file
        path.unlink(missing_ok=True)
        os.mkfifo(path) if source is None else shutil.copy(source, path)
    return copy


subprocess.run([sys.executable, "-B", SOURCE / "tests/data/make_hostile.py", FOLDER], check=True)
pipe = FOLDER / "pipe"
os.mkfifo(pipe)

# Captures.
run(None, "heads", FOLDER / "whole.safetensors")
run(None, "heads", FOLDER / "apostrophes.safetensors")
run(None, "pca", FOLDER / "name-that-no-font-has.safetensors")
run(None, "pca", FOLDER / "end-of-cdata-in-name.safetensors")
run(None, "heads", FOLDER / "escapes-in-labels.safetensors", "--group-by", "task", "--no-figures")
run(None, "compare", FOLDER / "escapes-in-family.safetensors", FOLDER / "whole.safetensors", "--no-figures")
for name, words in {
        "nul-in-header": "the header is not valid JSON at byte 984, which is NUL",
        "grid-above-limit": "more than the 4096 allowed",
        "grid-2e22-buckets": "more than the 4096 allowed",
        "grid-65536-buckets": "more than the 4096 allowed",
        "long-name": "model.name must be a string of at most 4096 bytes",
        "unknown-field-last": "not a capture",  # it is whole, but no capture
        "tensor-takes-the-next-ones-fields": 'tensor "x" has no dtype',
        "unknown-dtype": 'tensor "x" has the unknown dtype "F7"',
        "pointer": "pointer.safetensors is a pointer of git-lfs",
        "many-entries": "the header has more than 1000000 entries"}.items():
    run(words, "heads", FOLDER / f"{name}.safetensors")
for name, manifest, words in ("pipe", None, "manifest.json: it is not a file but a pipe"), (
        "values", FOLDER / "many-values.manifest.json", "manifest.json: the JSON has more than 4000000 values"):
    folder = FOLDER / f"capture-{name}"
    folder.mkdir()
    os.mkfifo(folder / "manifest.json") if manifest is None else shutil.copy(manifest, folder / "manifest.json")
    run(words, "heads", folder)

# Models and tokenizers.
documents = ["--jsonl", FOLDER / "letters-a.jsonl"]
for name, words in {
        "model-type-with-controls": "model_type '?[2J??' is not supported",
        "rope-type-with-controls": "rope type '?[31m?' is not supported",
        "fields-of-two-families": "kv_lora_rank does not belong to model_type llama",
        "too-many-layer-types": "layer_types lists 2 layers, but num_hidden_layers is 1",
        "too-few-layer-types": "layer_types must list the 1 layers",
        "nul-after-the-end": "config.json: not valid JSON at byte",
        "experts": "65536 experts in 4096 layers are more than the 400000 allowed",
        "too-large": "config.json is larger than the 1048576 bytes allowed"}.items():
    model = copy_of(MODEL, f"model-{name}", **{"config.json": FOLDER / f"{name}.config.json"})
    run(words, "capture", "--plan", "--model", model)
for name, words in {
        "model-type-with-controls": "model type '?[31m???xxx",
        "12000-steps": "normalizer has more than 64 steps",
        "growing-normalizer": "make more than 100 times the text",
        "one-growing-step": "make more than 100 times the text",
        "growing-pre-tokenizer": "make more than 100 times the text",
        "regex": "it takes too many steps",
        "many-values": "the JSON has more than 4000000 values",
        "many-fields": "the JSON has more than 4000000 values"}.items():
    run(words, *CAPTURE, *documents, "--tokenizer", FOLDER / f"{name}.tokenizer.json")
run("nul-in-a-line.jsonl line 1: not valid JSON at byte 13, which is NUL", *CAPTURE, "--jsonl",
    FOLDER / "nul-in-a-line.jsonl")

experts = copy_of(MODEL, "empty-experts", **{"model.safetensors": FOLDER / "empty-experts.safetensors"})
run("its tensors hold more than 400000 matrices of experts", *CAPTURE[:1], "--model", experts, *documents)

# Named pipes in place of files.
for file in "config.json", "model.safetensors":
    run(f"{file}: it is not a file but a pipe", "capture", *documents, "--model",
        copy_of(MODEL, f"pipe-{file}", **{file: None}))
index = copy_of(MODEL, "pipe-index", **{"model.safetensors.index.json": None})
(index / "model.safetensors").unlink()
run("index.json: it is not a file but a pipe", "capture", *documents, "--model", index)
for option in "--tokenizer", "--heads", "--jsonl":
    rest = [] if option == "--jsonl" else documents
    run("pipe: it is not a file but a pipe", *CAPTURE, *rest, option, pipe)
evaluate = ["evaluate", "--model", MODEL, *documents, "--max-length", "64", "--distances", "50", "--trials", "1"]
for option in "--conditions", "--records":
    run("pipe: it is not a file but a pipe", *evaluate, option, pipe)
run("pipe: it is not a file but a pipe", "report", FOLDER / "whole.safetensors", "--score", "1", "--others", pipe)
out = FOLDER / "capture-under-way"
out.mkdir()
os.mkfifo(out / "progress.json.partial")
run("progress.json.partial is a pipe or a device; remove it", *CAPTURE, *documents, "--out", out)

print("\n".join(wrong) if wrong else "all files are refused in one sentence, or read")
sys.exit(1 if wrong else 0)
