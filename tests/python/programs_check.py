# SPDX-License-Identifier: MIT
"""programs_check.py SOURCE BIN: exports, what-if, bands and grip of the package beside what the programs write, and captures of other
tools' tensors beside analyses of the same rows."""
import csv
import json
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
from checks import refused

import qkgeom

source, programs = map(pathlib.Path, sys.argv[1:])
data = source / "examples/data/kjv-smollm3"


def run(*arguments):
    subprocess.run([programs / "qkgeom", *map(str, arguments)], check=True, capture_output=True)


def same_table(table, file):
    rows = list(csv.DictReader(open(file)))
    assert table.columns == list(rows[0]) and len(table) == len(rows) > 0, file
    for column, values in table.to_dict().items():
        for row, value in zip(rows, values):
            text = row[column]
            assert (text == "") if value is None else (text == value if isinstance(value, str) else float(text) == value), (file, column)


warnings.simplefilter("ignore")
with tempfile.TemporaryDirectory() as scratch:
    here = pathlib.Path(scratch)
    before = here / "before"
    run("capture", "--model", data / "stage2-step-1400", "--jsonl", data / "heldout.jsonl", "--examples", 3, "--max-length", 512, "--bucket-size",
        64, "--rate", 32, "--pre-rope", "--softmax", "--statistics-bucket-size", 32, "--out", before)
    chosen = qkgeom.open_capture(before, heads=[(0, 1), (3, 2)])
    run("what-if", before, "--heads", "0.1,3.2", "--context", 2048, "--no-figures", "--out", here / "what-if")
    found = chosen.what_if(2048)
    for name, table in (("what_if", found.heads), ("self_check", found.self_check), ("stationarity", found.stationarity),
                        ("captured/heads", found.captured.table("heads")), ("predicted/heads", found.predicted.table("heads"))):
        same_table(table, here / f"what-if/{name}.csv")
    assert found.predicted.context_length == 2048 and pickle.loads(pickle.dumps(found)).heads.to_dict() == found.heads.to_dict()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        chosen.what_if(512 * 16, rope_scaling="yarn:4:512")
    assert {w.filename for w in warned} == {__file__} and any("16 times as long" in str(w.message) for w in warned), warned
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    began = time.monotonic()
    refused(KeyboardInterrupt, "", lambda: qkgeom.open_capture(before).bands())
    assert time.monotonic() - began < 1.3, time.monotonic() - began
    run("bands", before, "--heads", "0.1,3.2", "--no-figures", "--out", here / "bands")
    bands = chosen.bands()
    for name, table in (("band_drops", bands.drops), ("planes", bands.planes), ("score_by_distance", bands.scores)):
        same_table(table, here / f"bands/{name}.csv")
    run("capture", "--model", data / "stage2-step-1400", "--jsonl", data / "heldout.jsonl", "--examples", 3, "--max-length", 512, "--heads", "0.1,3.2",
        "--pre-rope", "--sampler", "all", "--out", here / "whole")
    run("grip", here / "whole", "--context", 2048, "--rope-scaling", "linear:2", "--queries", 8, "--no-figures", "--out", here / "grip")
    grip = qkgeom.open_capture(here / "whole").grip(2048, rope_scaling="linear:2", queries=8)
    for name, table in (("grip", grip.grip), ("grip_heads", grip.heads), ("reach", grip.reach), ("stability", grip.stability),
                        ("grip_check", grip.check)):
        same_table(table, here / f"grip/{name}.csv")
    for name, options, own in (("expected-attention", [], {}), ("triattention", [], {}),
                               ("rope-profiler", [], {}), ("duo", ["--sink", 4, "--recent", 16], dict(sink=4, recent=16))):
        run("export", "--for", name, before, "--texts", "kjv", "--out", here / name, *options)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            to = chosen.export(name, here / f"package-{name}", texts="kjv", **own)
        assert [w.filename for w in warned] == ([__file__] if name == "expected-attention" else []), warned
        files = sorted(p.name for p in to.iterdir())
        assert files == sorted(p.name for p in (here / name).iterdir()) and len(files) >= 2, files
        for file in files:
            assert (to / file).read_bytes() == (here / name / file).read_bytes(), (name, file)
    refused(ValueError, ["format", "duo"], lambda: chosen.export("vllm", here / "nothing"))
    refused(ValueError, "recent", lambda: chosen.export("duo", here / "nothing", recent=24))
    assert not (here / "nothing").exists()

    # Tensors of other tools give what analyse gives of the same rows.
    rng = np.random.default_rng(0)
    q, k = {0: rng.normal(size=(3, 4, 96, 8)), 2: rng.normal(size=(3, 4, 96, 8))}, {0: rng.normal(size=(3, 2, 96, 8)), 2: rng.normal(size=(3, 2, 96, 8))}
    at, of = np.tile(np.arange(96), 3), np.repeat(np.arange(3), 96)

    def analysed(layer, **options):
        rows = (x[layer].transpose(0, 2, 1, 3).reshape(-1, x[layer].shape[1], 8) for x in (q, k))
        return qkgeom.analyse(*rows, at, of, layer=layer, **options).table("heads").to_dict()

    def of_layer(capture, layer):
        table = capture.heads().to_dict()
        kept = [i for i, n in enumerate(table["layer"]) if n == layer]
        return {name: [values[i] for i in kept] for name, values in table.items()}

    capture = qkgeom.from_tensors(q, k, score_scale=0.5, window=40)
    assert capture.layers == [0, 2] and capture.context_length == 96
    assert all(of_layer(capture, n) == analysed(n, score_scale=0.5, window=40) for n in (0, 2))
    assert pickle.loads(pickle.dumps(capture)).heads().to_dict() == capture.heads().to_dict()
    assert qkgeom.open_capture(capture._paths).heads().to_dict() == capture.heads().to_dict()
    moved = qkgeom.from_tensors(q[0].transpose(3, 0, 2, 1), k[0].transpose(3, 0, 2, 1), layout="dbth", rope=False, covariance="full")
    assert of_layer(moved, 0) == analysed(0, covariance="full", rope=False)
    one = qkgeom.from_tensors(q[0][0], k[0][0], layout="htd")
    assert one.heads().to_dict() == qkgeom.analyse(q[0][0].transpose(1, 0, 2), k[0][0].transpose(1, 0, 2)).table("heads").to_dict()
    refused(ValueError, ["layout", "bhtt"], lambda: qkgeom.from_tensors(q, k, layout="bhtt"))
    refused(ValueError, ["q has shape (3, 4, 96, 8)", "3 dimensions"], lambda: qkgeom.from_tensors(q[0], k[0], layout="htd"))
    refused(ValueError, ["[0, 2]", "[0]"], lambda: qkgeom.from_tensors(q, k[0]))
    refused(ValueError, "multiple", lambda: qkgeom.from_tensors(q[0][:, :3], k[0]))

    for name, batched in (("rot_", True), ("", False)):
        pick = (lambda x: x.transpose(0, 2, 1, 3)) if batched else (lambda x: x[1].transpose(1, 0, 2))
        cache = {f"blocks.{n}.attn.hook_{name}{side}": pick(x[n]) for side, x in (("q", q), ("k", k)) for n in x}
        cache |= {"blocks.0.attn.hook_v": None, **({"blocks.0.attn.hook_q": None} if name else {})}
        lens = qkgeom.from_transformer_lens(cache)
        assert set(lens.heads()["rope"]) == {bool(name)} and lens.layers == [0, 2]
        assert not batched or of_layer(lens, 2) == analysed(2)
    refused(ValueError, "hook_q", lambda: qkgeom.from_transformer_lens({"blocks.0.attn.hook_v": None}))

    # vLLM-Hook: padded tokens x (heads d) of each request, in BF16 and F32; a prefix that was cached has keys alone.
    lengths, cached = [96, 50, 96], [0, 10, 0]
    tensors, order = {}, []
    for n in q:
        for side, x in (("q", q), ("k", k)):
            flat = x[n].transpose(0, 2, 1, 3).reshape(3, 96, -1).astype(np.float32)
            flat = (flat.view(np.uint32) & 0xFFFF0000).view(np.float32)  # what bf16 holds
            x[n] = flat.reshape(3, 96, -1, 8).transpose(0, 2, 1, 3).astype(float)
            for i, (length, skipped) in enumerate(zip(lengths, cached)):
                first = skipped if side == "q" else 0
                flat[i, :length - first] = flat[i, first:length]
                flat[i, length - first:] = 0
            tensors[f"{n}__{side}"] = flat
        order.append({"key_q": f"{n}__q", "key_k": f"{n}__k", "module_name": f"model.layers.{n}.self_attn.attn", "layer_num": n, "hookq_mode": "all_tokens"})

    def write_hook(folder, kind, **facts):
        folder.mkdir()
        header, body = {}, b""
        for name, x in tensors.items():
            content = (x.view(np.uint32) >> 16).astype("<u2").tobytes() if kind == "BF16" else x.astype("<f4").tobytes()
            header[name] = {"dtype": kind, "shape": x.shape, "data_offsets": [len(body), len(body) + len(content)]}
            body += content
        head = json.dumps(header).encode()
        (folder / "qk.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + body)
        config = {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 32, "head_dim": 8, "attention_multiplier": 8 ** -0.5}
        (folder / "qk.json").write_text(json.dumps({"config": config, "layer_order": order, "batch_size": 3, "hookq_mode": "all_tokens",
                                                    "tp_rank": 0, **facts}))
        return folder

    rows_q = np.concatenate([np.arange(c, n) + 96 * i for i, (n, c) in enumerate(zip(lengths, cached))])
    rows_k = np.concatenate([np.arange(n) + 96 * i for i, n in enumerate(lengths)])
    flat_q, flat_k = (x[2].transpose(0, 2, 1, 3).reshape(-1, x[2].shape[1], 8).astype("f4") for x in (q, k))
    expected = qkgeom.analyse(flat_q[rows_q], flat_k[rows_k], at[rows_q], of[rows_q], key_positions=at[rows_k], key_documents=of[rows_k],
                              context_length=96, layer=2, score_scale=8 ** -0.5).table("heads").to_dict()
    both = dict(q_seq_lens=[n - c for n, c in zip(lengths, cached)], k_seq_lens=lengths)
    for kind in ("BF16", "F32"):
        folder = write_hook(here / f"hook-{kind}", kind, **both)
        assert of_layer(qkgeom.from_vllm_hook(folder / "qk.safetensors"), 2) == expected, kind
    whole = write_hook(here / "hook-whole", "F32", seq_lens=[86, 40, 86])
    assert qkgeom.from_vllm_hook(whole).context_length == 86
    for entry in order:
        tensors[entry["key_q"]] = tensors[entry["key_q"]][:, 20]
        entry["hookq_mode"] = "last_token"
    last = qkgeom.from_vllm_hook(write_hook(here / "hook-last", "F32", seq_lens=lengths))
    assert last.report()[0].queries == 3 and last.report()[0].keys == sum(lengths)
    tensors["0__q"] = tensors["0__q"][:, :16]
    refused(ValueError, ["layers.0", "16 and 16", "one rank's share"], lambda: qkgeom.from_vllm_hook(write_hook(here / "hook-rank", "F32", seq_lens=lengths)))
