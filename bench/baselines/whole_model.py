#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The analysis of bench/whole_model_bench.cpp in vectorised NumPy: what a researcher who cares for speed would write.

    whole_model.py ROWS.safetensors [--style plain|tuned] [--heads 20] [--json FILE]

ROWS is what `whole_model_bench --write` wrote: one layer's rows in bf16 and our answers. Prints seconds a head for the
`diagonal` and the `joint` query model, apart, and the largest difference from our answers; exit status 1 if it is above 1e-5.
OPENBLAS_NUM_THREADS: BLAS threads, as many as there are cores by default.

`plain` is vectorised NumPy as it comes: f64, whole arrays. `tuned` goes as far as NumPy lets one. What makes that fast: f32 GEMMs for pairs and f64 ones for moments on all cores; documents in blocks that stay in the cache;
pair indices, their order and their heatmap cells once a layer, since the heads of a layer share positions; pairs sorted by
the position of their later key, so that the pairs a query bucket admits are a prefix; no array of pairs x buckets beyond
the admissible part.
"""
import argparse
import json
import os
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", str(os.cpu_count()))

import numpy as np
from scipy.special import erfc

# Element type of pairs, and pairs done at a time: 6144 x 128 x 4 bytes of differences stay in the second-level cache.
STYLES = {"plain": (np.float64, 1 << 40), "tuned": (np.float32, 6144)}
REAL, BLOCK = STYLES["tuned"]

STATISTICS = {"best": np.min, "median": np.median, "mean": np.mean}


def read_safetensors(path):
    """Tensors by name; bf16 as uint16."""
    with open(path, "rb") as f:
        size = int.from_bytes(f.read(8), "little")
        header = json.loads(f.read(size))
    data = np.memmap(path, dtype=np.uint8, mode="r", offset=8 + size)
    types = {"BF16": np.uint16, "I32": np.int32, "F32": np.float32, "F64": np.float64}
    meta = header.pop("__metadata__")
    tensors = {}
    for name, t in header.items():
        begin, end = t["data_offsets"]
        tensors[name] = data[begin:end].view(types[t["dtype"]]).reshape(t["shape"])
    return tensors, meta


def to_float(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


class LayerPairs:
    """Pairs of keys of one document, sorted by the position of the later key, and their heatmap cells, once per layer."""

    def __init__(self, position, document, starts, middles, cell):
        order = np.lexsort((position, document))
        position, document = position[order], document[order]
        groups = np.split(np.arange(len(order)), np.flatnonzero(np.diff(document)) + 1)
        first, second = [], []
        for g in groups:
            i, j = np.triu_indices(len(g), 1)
            first.append(g[i])
            second.append(g[j])
        first, second = np.concatenate(first), np.concatenate(second)
        by_later = np.argsort(position[second], kind="stable")
        first, second = first[by_later], second[by_later]
        self.first, self.second = order[first], order[second]
        self.counts = np.searchsorted(position[second], starts)  # pairs that bucket b admits are the first counts[b]
        width = len(starts)
        across = (position[second] - position[first]) // cell
        centre = 0.5 * (position[second].astype(float) + position[first])
        self.cells = [(across[:n] * width + ((tau - centre[:n]) // cell).astype(np.int64)).astype(np.int32)
                      for n, tau in zip(self.counts, middles)]
        count = sum(np.bincount(c, minlength=width * width) for c in self.cells)
        self.heat_count = np.where(count > 0, count, np.nan)


def moments(x, t):
    """Mean, covariance sums and Cov(x, t) sums in f64."""
    mean, mean_t = x.mean(0), t.mean()
    centred, tc = x - mean, t - mean_t
    return len(x), mean, centred.T @ centred, tc @ centred, mean_t, tc @ tc


def pooled(a, b):
    n, gap, gap_t = a[0] + b[0], b[1] - a[1], b[4] - a[4]
    w = a[0] * b[0] / n
    return n, a[1] + gap * b[0] / n, a[2] + b[2] + w * np.outer(gap, gap), a[3] + b[3] + w * gap * gap_t, None, a[5] + b[5] + w * gap_t**2


def pca(q, k, pool):
    values, vectors = np.linalg.eigh(pool[2])
    values, vectors = values[::-1], vectors[:, ::-1]

    def r(side):
        variance = np.einsum("ij,ij->j", vectors, side[2] @ vectors)
        return vectors.T @ side[3] / np.sqrt(variance * side[5])

    r_q, r_k = r(q), r(k)
    sign = np.sign(np.where(np.abs(r_q) >= np.abs(r_k), r_q, r_k))
    return np.stack([values / values.sum(), r_q * sign, r_k * sign])


def rotation(q, k, pool):
    a = pool[3] / np.linalg.norm(pool[3])
    gap = q[1] - k[1]
    b = gap - (gap @ a) * a
    b /= np.linalg.norm(b)
    r = [s[3] @ a / np.sqrt(s[5] * (a @ s[2] @ a)) for s in (q, k)]
    alpha = [s[3] @ a / s[5] for s in (q, k)]
    separation = q[2] / (q[0] - 1) + k[2] / (k[0] - 1) + np.outer(gap, gap)
    share = (a @ pool[2] @ a + b @ pool[2] @ b) / np.trace(pool[2])
    return np.array([*r, *alpha, q[1] @ a, k[1] @ a, q[1] @ b, k[1] @ b, q[1] @ a * alpha[1],
                     b @ separation @ b / np.trace(separation), share])


def householder(beta):
    b = beta / np.linalg.norm(beta)
    u = b.copy()
    u[0] = -(b[1:] @ b[1:]) / (1 + b[0]) if b[0] > 0 else b[0] - 1
    return u / np.linalg.norm(u)


def reflect(x, u):
    return x - np.outer(2 * (x @ u), u)


def query_model(x, t, q, bucket, middles, kind):
    """Reflector, and a mean and a variance (diagonal) or Cholesky factor (joint) for each bucket with two queries or more."""
    beta = q[3] / q[5]
    slope = np.linalg.norm(beta)
    u = householder(beta)
    h = reflect(x, u)
    intercept = h[:, 0].mean() - slope * q[4]
    noise = h[:, 0] - intercept - slope * t
    sigma2 = noise @ noise / (len(x) - 2)
    if kind == "joint":
        h[:, 0] = noise
    order = np.argsort(bucket, kind="stable")
    bounds = np.searchsorted(bucket[order], np.arange(len(middles) + 1))
    h = h[order]
    models = []
    for b, tau in enumerate(middles):
        rows = h[bounds[b]:bounds[b + 1]]
        if len(rows) < 2:
            models.append(None)
            continue
        mean = rows.mean(0)
        if kind == "joint":
            centred = rows - mean
            spread = np.linalg.cholesky(centred.T @ centred / (len(rows) - 1))
        else:
            spread = rows.var(0, ddof=1)
            spread[0] = sigma2
        mean[0] = intercept + slope * tau
        models.append((mean, spread))
    return u, models


def plasticity(m, v):
    e = erfc(np.abs(m) / np.sqrt(2 * v))
    return e * (2 - e)


def profile_diagonal(keys, pairs, models, width):
    """v of all buckets by one GEMM of squared differences and variances, a block of pairs at a time."""
    d = keys.shape[1]
    variance = np.zeros((d, width), REAL)
    mean = np.zeros((d, width), REAL)
    for b, model in enumerate(models):
        if model is not None:
            mean[:, b], variance[:, b] = model
    score = keys @ mean
    sums, heat = np.zeros(width), np.zeros(width * width)
    values = [np.empty(n, REAL) for n in pairs.counts]
    for begin in range(0, pairs.counts[-1], BLOCK):
        i, j = pairs.first[begin:begin + BLOCK], pairs.second[begin:begin + BLOCK]
        difference = keys[j]
        difference -= keys[i]
        np.square(difference, out=difference)
        first = np.searchsorted(pairs.counts, begin, side="right")  # buckets before it admit no pair of this block
        v = variance[:, first:].T @ difference.T
        m = (score[j, first:] - score[i, first:]).T
        for b in range(first, width):
            n = min(pairs.counts[b] - begin, BLOCK)
            values[b][begin:begin + n] = plasticity(m[b - first, :n], v[b - first, :n])
    for b in range(width):
        if models[b] is None or pairs.counts[b] == 0:
            sums[b] = np.nan
            continue
        sums[b] = values[b].mean(dtype=np.float64)
        heat += np.bincount(pairs.cells[b], weights=values[b], minlength=width * width)
    return sums, heat / pairs.heat_count


def profile_joint(keys, pairs, models, width):
    """v = |F'(k_i - k_j)|^2: the keys times the factor first, then differences of rows."""
    sums, heat = np.full(width, np.nan), np.zeros(width * width)
    for b, model in enumerate(models):
        count = pairs.counts[b]
        if model is None or count == 0:
            continue
        scaled = keys @ model[1].astype(REAL)
        score = keys @ model[0].astype(REAL)
        values = np.empty(count, REAL)
        for begin in range(0, count, BLOCK):
            i, j = pairs.first[begin:min(begin + BLOCK, count)], pairs.second[begin:min(begin + BLOCK, count)]
            difference = scaled[j]
            difference -= scaled[i]
            v = np.einsum("ij,ij->i", difference, difference)
            values[begin:begin + len(i)] = plasticity(score[j] - score[i], v)
        sums[b] = values.mean(dtype=np.float64)
        heat += np.bincount(pairs.cells[b], weights=values, minlength=width * width)
    return sums, heat / pairs.heat_count


def head(bits_q, bits_k, t_q, t_k, bucket, middles, pairs, kind):
    keys = to_float(bits_k)
    x, y = to_float(bits_q).astype(np.float64), keys.astype(np.float64)
    q, k = moments(x, t_q), moments(y, t_k)
    pool = pooled(q, k)
    components, axes = pca(q, k, pool), rotation(q, k, pool)
    u, models = query_model(x, t_q, q, bucket, middles, kind)
    centred = reflect(keys - k[1].astype(REAL), u.astype(REAL))
    profile = (profile_joint if kind == "joint" else profile_diagonal)(centred, pairs, models, len(middles))
    return components, axes, *profile


def differences(answer, kind, h, tensors):
    """Largest differences from our answers to head h: absolute, for the rotation's numbers relative. Null must meet null."""
    found = {}
    for name, got in zip(("pca", "rotation", f"profile.{kind}", f"heatmap.{kind}"), answer):
        want = tensors["answer." + name][h]
        got = got.reshape(want.shape)
        gap = np.abs(got / want - 1) if name == "rotation" else np.abs(got - want)
        found[name] = float(np.nanmax(gap)) if np.array_equal(np.isnan(got), np.isnan(want)) else np.inf
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows")
    parser.add_argument("--style", choices=STYLES, default="tuned")
    parser.add_argument("--heads", type=int, default=20, help="heads to time, the layer's heads in turn (default 20)")
    parser.add_argument("--json", help="write the seconds and differences here")
    args = parser.parse_args()
    global REAL, BLOCK
    REAL, BLOCK = STYLES[args.style]
    tensors, meta = read_safetensors(args.rows)
    context, width = int(meta["context"]), int(meta["buckets"])
    cell = context // width
    starts = np.arange(width) * cell
    middles = starts + cell / 2
    t_q, t_k = tensors["q_position"].astype(np.float64), tensors["k_position"].astype(np.float64)
    bucket = tensors["q_position"] // cell
    n_heads = tensors["q"].shape[1]
    start = time.perf_counter()
    pairs = LayerPairs(np.asarray(tensors["k_position"]), np.asarray(tensors["k_example"]), starts, middles, cell)
    result = {"style": args.style, "layer_setup_s": time.perf_counter() - start}
    worst = 0.0
    for kind in ("diagonal", "joint"):
        seconds, cpu, answers = [], [], []
        for n in range(-1, args.heads):  # the first is a warm-up
            h = n % n_heads
            start, start_cpu = time.perf_counter(), time.process_time()
            answer = head(tensors["q"][:, h], tensors["k"][:, h], t_q, t_k, bucket, middles, pairs, kind)
            if n >= 0:
                seconds.append(time.perf_counter() - start)
                cpu.append(time.process_time() - start_cpu)
                answers.append((h, answer))
        for h, answer in answers[:n_heads]:
            found = differences(answer, kind, h, tensors)
            worst = max(worst, *found.values())
            if any(v > 1e-5 for v in found.values()):
                print(f"head {h} {kind}: {found}", file=sys.stderr)
        setup = result["layer_setup_s"] / n_heads
        result[kind] = {"blas_threads": int(os.environ["OPENBLAS_NUM_THREADS"]),
                        **{f"{name}_s_a_head": float(f(seconds)) + setup for name, f in STATISTICS.items()},
                        "cpu_s_a_head": float(np.median(cpu)) + setup}
        print(f"{kind:9s} {result[kind]['median_s_a_head'] * 1e3:7.1f} ms a head (median of {len(seconds)}; best "
              f"{result[kind]['best_s_a_head'] * 1e3:.1f}, CPU {result[kind]['cpu_s_a_head'] * 1e3:.1f}), "
              f"{result[kind]['blas_threads']} BLAS threads")
    result["largest_difference"] = float(worst)
    print(f"largest difference from the C++ answers: {worst:.1e}")
    if args.json:
        with open(args.json, "w") as f:
            json.dump(result, f, indent=1)
    return 0 if worst <= 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
