# SPDX-License-Identifier: MIT
"""Reads what `export` wrote as TriAttention, kvpress and DuoAttention do, and holds it against the captured rows."""
import collections
import json
import pathlib
import pickle
import sys
import zipfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "convert"))
from capture_files import SafetensorsWriter, open_capture, open_safetensors, widen  # noqa: E402


class Unpickler(pickle.Unpickler):
    """torch.load in a few lines; where torch is installed, its own is asked as well."""

    def __init__(self, archive, folder):
        super().__init__(archive.open(f"{folder}/data.pkl"))
        self.archive, self.folder = archive, folder

    def find_class(self, module, name):
        known = {("torch._utils", "_rebuild_tensor_v2"): self.tensor, ("torch", "FloatStorage"): np.float32,
                 ("collections", "OrderedDict"): collections.OrderedDict}
        return known[module, name]

    def persistent_load(self, pid):
        kind, dtype, key, device, size = pid
        assert (kind, device) == ("storage", "cpu")
        values = np.frombuffer(self.archive.read(f"{self.folder}/data/{key}"), dtype)
        assert len(values) == size
        return values

    @staticmethod
    def tensor(storage, offset, size, stride, requires_grad, hooks):
        assert stride == (1,) and not requires_grad and not hooks
        return storage[offset : offset + size[0]]


def torch_load(path):
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        folder = archive.namelist()[0].split("/")[0]
        assert archive.read(f"{folder}/version") == b"3\n"
        payload = Unpickler(archive, folder).load()
    try:
        import torch
    except ImportError:
        return payload
    for key, entry in torch.load(path, weights_only=True)["stats"].items():
        for name, values in entry.items():
            assert np.array_equal(values.numpy(), payload["stats"][key][name])
    return payload


def queries(capture):
    """(manifest, layer number -> queries (rows, heads, d) in f64)"""
    manifest, shards = open_capture(capture)
    rows = {}
    for info in manifest["layers"]:
        name = f"layer.{info['layer']}.q"
        rows[info["layer"]] = np.concatenate([widen(*s[name]) for s in shards]).astype(np.float64)
    return manifest, rows


def close(a, b):
    assert np.allclose(a, b, rtol=1e-5, atol=1e-6 * np.abs(b).max()), (a, b)


def triattention(capture, out):
    manifest, rows = queries(capture)
    payload = torch_load(out / "triattention.pt")
    metadata, stats = payload["metadata"], payload["stats"]
    assert metadata["model_config_sha256"] == manifest["model"]["config_sha256"]
    assert metadata["head_dim"] == manifest["model"]["head_dim"]
    expected = [[i["layer"], h] for i in manifest["layers"] if i["rope"] for h in i["query_heads"]]
    assert metadata["sampled_heads"] == expected and len(stats) == len(expected)
    for info in manifest["layers"]:
        if not info["rope"]:
            continue
        rope = info.get("rope_parameters") or manifest["rope"]
        assert metadata["rope_style"] == rope["style"]
        close(metadata["inv_freq"], np.array(rope["inv_freq"]))
        for at, h in enumerate(info["query_heads"]):
            x = rows[info["layer"]][:, at]
            half = x.shape[1] // 2
            z = x[:, ::2] + 1j * x[:, 1::2] if rope["style"] == "interleaved" else x[:, :half] + 1j * x[:, half:]
            found = stats[f"layer{info['layer']:02d}_head{h:02d}"]
            close(found["q_mean_real"], z.mean(0).real)
            close(found["q_mean_imag"], z.mean(0).imag)
            close(found["q_abs_mean"], np.abs(z).mean(0))


def expected_attention(capture, out):
    manifest, rows = queries(capture)
    config = json.loads((out / "config.json").read_text())
    # The arguments of ExpectedAttentionStats.__init__, all of which from_pretrained takes from config.json.
    for name in ("num_layers", "num_heads", "head_dim", "dataset_name", "model_name", "num_samples", "sample_seq_len",
                 "n_sink"):
        assert name in config, name
    assert config["n_sink"] == 4 and config["dataset_name"] == "kjv"
    tensors, metadata = open_safetensors(out / "model.safetensors")
    assert metadata["model_config_sha256"] == manifest["model"]["config_sha256"] and metadata["format"] == "pt"
    assert set(tensors) == {"query_mean", "query_cov"}
    mean, covariance = (tensors[n][1] for n in ("query_mean", "query_cov"))
    assert mean.shape == (config["num_layers"], config["num_heads"], config["head_dim"])
    for layer, x in rows.items():
        close(mean[layer], x.mean(0))
        for h in range(x.shape[1]):
            close(covariance[layer, h], np.cov(x[:, h].T))


def duo(capture, out):
    manifest, shards = open_capture(capture)
    scores = np.clip(np.loadtxt(out / "full_attention_heads.tsv", dtype=float, delimiter="\t"), 0, 1)
    config = json.loads((out / "config.json").read_text())
    assert (config["sink_size"], config["recent_size"]) == (4, 16)
    model = manifest["model"]
    assert scores.shape == (model["n_layers"], model["n_key_heads"])
    # Attention weights from all rows, to neither the first 4 nor the last 16 tokens, of queries from position 24 on.
    for info in manifest["layers"]:
        name = f"layer.{info['layer']}."
        mass, count = np.zeros(model["n_query_heads"]), 0
        for shard in shards:
            q, k = (widen(*shard[name + x]).astype(np.float64) for x in "qk")
            document = shard[name + "q.example"][1]
            for e in np.unique(document):
                count += max(0, (document == e).sum() - 24)
                for h in range(model["n_query_heads"]):
                    own = k[document == e, h * model["n_key_heads"] // model["n_query_heads"]]
                    logits = q[document == e, h] @ own.T / np.sqrt(model["head_dim"])
                    t = np.arange(len(own))
                    logits[t[None, :] > t[:, None]] = -np.inf
                    weight = np.exp(logits - logits.max(1, keepdims=True))
                    weight /= weight.sum(1, keepdims=True)
                    far = (t[:, None] - t[None, :] >= 16) & (t[None, :] >= 4)
                    mass[h] += (weight * far)[24:].sum()
        close(scores[info["layer"]], (mass / count).reshape(model["n_key_heads"], -1).max(1))
    rows = (out / "duo_heads.csv").read_text().splitlines()[1:]
    for row in rows:
        layer, k_head, score, error, low, high = row.split(",")
        assert float(score) == scores[int(layer), int(k_head)]
        assert 0 < float(error) and float(low) < float(score) < float(high)


def plant(kind, path):
    """Rows with a mean, of a head whose coordinates turn as neighbours, in part, or in two ways."""
    d, n, random = 8, 50, np.random.default_rng(1)
    rope = {"style": "interleaved" if kind == "interleaved" else "half", "rotary_dim": 4 if kind == "partial" else d,
            "attention_factor": 1.0}
    rope["inv_freq"] = [100.0 ** (-2 * i / d) for i in range(rope["rotary_dim"] // 2)]
    layers = [{"layer": i, "rope": True, "window": None, "query_heads": [0, 1], "key_heads": [0]} for i in range(2)]
    if kind == "mixed":
        layers[1]["rope_parameters"] = dict(rope, inv_freq=[f / 2 for f in rope["inv_freq"]])
    manifest = {"format": "qkgeom-capture", "version": 1, "model": {"name": "planted", "model_type": "planted", "config_sha256": "0" * 64,
                                               "head_dim": d, "n_layers": 2, "n_query_heads": 2, "n_key_heads": 1},
                "context_length": n, "bucket": {"kind": "uniform", "size": 10}, "rate": 10.0, "rope_stage": "pre",
                "seed": 0, "layers": layers, "rope": rope}
    shapes, arrays = {}, {}
    for i in range(2):
        for side, heads in (("q", 2), ("k", 1)):
            arrays[f"layer.{i}.{side}"] = random.normal(0.7, 1, (n, heads, d))
            shapes[f"layer.{i}.{side}"] = ("F32", (n, heads, d))
            for what, values in (("position", np.arange(n)), ("example", np.zeros(n))):
                arrays[f"layer.{i}.{side}.{what}"] = values
                shapes[f"layer.{i}.{side}.{what}"] = ("I32", (n,))
    with SafetensorsWriter(path, shapes, manifest) as writer:
        for name, array in arrays.items():
            writer.add(name, array)


if sys.argv[1] == "plant":
    plant(*sys.argv[2:])
else:
    {"triattention": triattention, "expected-attention": expected_attention, "duo": duo}[sys.argv[1]](
        sys.argv[2], pathlib.Path(sys.argv[3]))
