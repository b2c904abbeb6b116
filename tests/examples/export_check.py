# SPDX-License-Identifier: MIT
"""Reads what `export` wrote as its readers do, and holds it against the captured rows."""
import collections
import json
import pathlib
import pickle
import struct
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


def planes_of(x, rope):
    """(rows, planes) complex: queries or keys (rows, d) in the planes of the embedding."""
    d = rope["rotary_dim"]
    return x[:, :d:2] + 1j * x[:, 1:d:2] if rope["style"] == "interleaved" else x[:, : d // 2] + 1j * x[:, d // 2 : d]


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
            z = planes_of(rows[info["layer"]][:, at], rope)
            found = stats[f"layer{info['layer']:02d}_head{h:02d}"]
            close(found["q_mean_real"], z.mean(0).real)
            close(found["q_mean_imag"], z.mean(0).imag)
            close(found["q_abs_mean"], np.abs(z).mean(0))


def tria(capture, out):
    """Reads the file as TRIA_FORMAT.md of triattention-ggml lays it out."""
    manifest, rows = queries(capture)
    model, rope = manifest["model"], manifest["rope"]
    data = (out / "tria.bin").read_bytes()
    magic, version, layers, heads, key_heads, dim, planes = struct.unpack_from("<7I", data)
    theta, scale = struct.unpack_from("<2f", data, 28)
    assert (magic, version) == (0x54524941, 2) and data[36:64] == bytes(28)
    assert (layers, heads, key_heads) == (model["n_layers"], model["n_query_heads"], model["n_key_heads"])
    assert (dim, planes) == (rope["rotary_dim"], dim // 2) and len(data) == 64 + layers * 4 + layers * heads * planes * 16
    close(theta ** (-2.0 * np.arange(planes) / dim), np.array(rope["inv_freq"]))
    assert scale == np.float32(rope["attention_factor"])
    budgets = np.frombuffer(data, "<f4", layers, 64)
    stats = np.frombuffer(data, "<f4", offset=64 + 4 * layers).reshape(layers, heads, 4, planes)
    raw = {}
    for layer in range(layers):
        if layer not in rows:
            assert not stats[layer].any() and budgets[layer] == 1
            continue
        dominant = []
        for h in range(heads):
            z = planes_of(rows[layer][:, h], rope)
            mrl = np.abs(z.mean(0)) / np.abs(z).mean(0)
            for found, expected in zip(stats[layer, h], (z.mean(0).real, z.mean(0).imag, np.abs(z).mean(0), mrl)):
                close(found, expected)
            dominant.append(mrl[np.argsort(-np.abs(z).mean(0))[:2]].mean())
        raw[layer] = 2 - np.mean(dominant)
    close(budgets[list(raw)], np.array(list(raw.values())) / np.mean(list(raw.values())))
    origin(manifest, out)


def origin(manifest, out):
    facts = json.loads((out / "origin.json").read_text())
    assert facts["model_config_sha256"] == manifest["model"]["config_sha256"] and facts["documents"]


def rope_profiler(capture, out):
    """Reads the heads as MonitorConfig.from_dict does, and computes r_H from all pairs of the captured rows."""
    manifest, shards = open_capture(capture)
    config = json.loads((out / "rope_profiler.json").read_text())
    assert set(config) == {"heads", "head_preset"} and config["head_preset"] is None
    try:
        from rope_profiler import MonitorConfig
        assert MonitorConfig.from_dict(config).heads == {int(l): tuple(h) for l, h in config["heads"].items()}
    except ImportError:
        pass
    rows = [r.split(",") for r in (out / "rope_profiler.csv").read_text().splitlines()]
    assert rows[0] == ["layer", "q_head", "high_share", "high_share_error", "variance", "chosen"]
    rows = [[float(x) for x in r] for r in rows[1:]]
    listed = {(int(layer), h) for layer, heads in config["heads"].items() for h in heads}
    assert listed == {(r[0], r[1]) for r in rows if r[5]} and len(listed) == -(-len(rows) // 20)
    assert min(r[4] for r in rows if r[5]) >= max(r[4] for r in rows if not r[5])
    errors = []
    for layer, head, share, error, _, _ in rows:
        info = next(i for i in manifest["layers"] if i["layer"] == layer)
        rope = info.get("rope_parameters") or manifest["rope"]
        high = np.array(rope["inv_freq"]) >= 40 / manifest["context_length"]
        assert 0 < high.sum() < len(high)
        means = []
        for shard in shards:
            name = f"layer.{int(layer)}."
            q, k = (widen(*shard[name + x]).astype(np.float64) for x in "qk")
            at = {x: (shard[name + x + ".example"][1], shard[name + x + ".position"][1]) for x in "qk"}
            key = int(head) * manifest["model"]["n_key_heads"] // manifest["model"]["n_query_heads"]
            zq, zk = (np.abs(planes_of(x, rope)) ** 2 for x in (q[:, int(head)], k[:, key]))
            for e in np.unique(at["q"][0]):
                of_q, of_k = at["q"][0] == e, at["k"][0] == e
                ratio = np.sqrt((zq[of_q][:, high] @ zk[of_k][:, high].T) / (zq[of_q] @ zk[of_k].T))
                seen = at["k"][1][of_k][None, :] <= at["q"][1][of_q][:, None]
                means.append(np.mean([r[s].mean() for r, s in zip(ratio, seen)]))
        errors.append((share - np.mean(means)) / error)
        assert abs(share - np.mean(means)) < 0.05
    assert abs(np.mean(errors)) < 1, errors
    origin(manifest, out)


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
    """Rows with a mean, of heads whose coordinates turn as neighbours, in part, in two ways, or with scaled frequencies; all
    but the last have a third layer without rows."""
    d, n, random = 8, 50, np.random.default_rng(1)
    rope = {"style": "interleaved" if kind == "interleaved" else "half", "rotary_dim": 4 if kind == "partial" else d,
            "attention_factor": 1.0}
    rope["inv_freq"] = [100.0 ** (-2 * i / d) for i in range(rope["rotary_dim"] // 2)]
    if kind == "scaled":
        rope["inv_freq"][-1] /= 2
    layers = [{"layer": i, "rope": True, "window": None, "query_heads": [0, 1], "key_heads": [0]} for i in range(2)]
    if kind == "mixed":
        layers[1]["rope_parameters"] = dict(rope, inv_freq=[f / 2 for f in rope["inv_freq"]])
    manifest = {"format": "qkgeom-capture", "version": 1, "model": {"name": "planted", "model_type": "planted", "config_sha256": "0" * 64,
                                               "head_dim": d, "n_layers": 2 if kind == "scaled" else 3, "n_query_heads": 2, "n_key_heads": 1},
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
    {"triattention": triattention, "tria": tria, "expected-attention": expected_attention, "duo": duo,
     "rope-profiler": rope_profiler}[sys.argv[1]](sys.argv[2], pathlib.Path(sys.argv[3]))
