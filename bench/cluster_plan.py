#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plans the study of 13 models (capture/job/protocols) on 1, 8 and 64 GPUs: arithmetic of one document, then a simulation of
which GPU captures what and when. No GPU is asked for; every number that a machine decides is an option.

Usage: cluster_plan.py [--documents N] [--flops F] [--storage B] [--spread S] [--moments]

A document of T tokens costs 2 P T operations in the P weights and 2 T^2 L H d in causal attention. A process that begins a
model reads 2 P bytes of weights from storage that all share. A GPU's speed is drawn once, and each document's again.
"""
import argparse
import heapq
import json
import pathlib
import random

# Weights that a token meets, in 1e9, and the size of a head: of the models' configurations.
MODELS = {"llama3.1-8b": (8.0, 128), "llama3.2-11b": (9.8, 128), "llama3.2-1b": (1.24, 64), "llama3.2-3b": (3.2, 128),
          "ministral3-3b": (3.4, 128), "ministral3-8b": (8.5, 128), "ministral3-14b": (13.5, 128), "mistral-v0.2-7b": (7.2, 128),
          "qwen3-0.6b": (0.6, 128), "qwen3-1.7b": (1.7, 128), "qwen3-4b": (4.0, 128), "qwen3-8b": (8.2, 128),
          "qwen3-14b": (14.8, 128)}


def protocols():
    folder = pathlib.Path(__file__).resolve().parent.parent / "capture/job/protocols"
    return [json.loads((folder / f"{name}.json").read_text()) for name in MODELS]


def operations(protocol):
    """Of one document at the protocol's length: in the weights, in attention."""
    weights, d = MODELS[protocol["study"]]
    t = protocol["max_length"]
    return 2e9 * weights * t, 2.0 * t * t * protocol["n_layers"] * protocol["n_query_heads"] * d


def moment_bytes(protocol):
    """Of one block: a covariance per query bucket of each head, and one of its key head."""
    d = MODELS[protocol["study"]][1]
    heads = sum(len(h) for h in protocol["heads"].values())
    return 8 * d * d * heads * (protocol["max_length"] // protocol["bucket_size"] + 2)


class cluster:
    def __init__(self, a, gpus):
        self.a, self.dice = a, random.Random(1)
        self.speed = [a.flops * max(0.5, self.dice.gauss(1, a.spread)) for _ in range(gpus)]

    def document(self, gpu, protocol):
        return sum(operations(protocol)) / self.speed[gpu] * max(0.5, self.dice.gauss(1, self.a.spread))

    def reading(self, protocol, readers):
        """Seconds until each of `readers` has the weights: they share the storage, a GPU's link is 25 GB/s at most."""
        return 2e9 * MODELS[protocol["study"]][0] / min(25e9, self.a.storage / readers)

    def tasks(self):
        """Documents of each task of a model."""
        n = self.a.documents
        blocks = min(n, 10) if self.a.moments else n
        return [(b + 1) * n // blocks - b * n // blocks for b in range(blocks)]

    def in_turn(self, dealt):
        """One model after another on all GPUs; tasks dealt as they go, or cut beforehand. -> end, seconds of work"""
        end = work = 0.0
        for protocol in protocols():
            tasks, gpus = self.tasks(), len(self.speed)
            ranks = min(gpus, len(tasks))
            at = [(end + self.reading(protocol, ranks), g) for g in range(ranks)]
            if dealt:
                for task in tasks:
                    begin, g = heapq.heappop(at)
                    seconds = sum(self.document(g, protocol) for _ in range(task))
                    work += seconds
                    heapq.heappush(at, (begin + seconds, g))
                end = max(t for t, _ in at)
            else:
                last = end
                for begin, g in at:
                    mine = tasks[g * len(tasks) // ranks:(g + 1) * len(tasks) // ranks]
                    seconds = sum(self.document(g, protocol) for _ in range(sum(mine)))
                    work += seconds
                    last = max(last, begin + seconds)
                end = last
        return end, work

    def array(self, parts):
        """A job array of all models' parts, the longest first; a job reads its model's weights. -> end, seconds of work"""
        jobs = []
        for protocol in protocols():
            tasks = self.tasks()
            k = min(parts, len(tasks))
            for p in range(k):
                documents = sum(tasks[p * len(tasks) // k:(p + 1) * len(tasks) // k])
                jobs.append((sum(operations(protocol)) * documents, protocol, documents))
        jobs.sort(key=lambda j: -j[0])
        free, work = [(0.0, g) for g in range(len(self.speed))], 0.0
        for _, protocol, documents in jobs:
            begin, g = heapq.heappop(free)
            seconds = sum(self.document(g, protocol) for _ in range(documents))
            work += seconds
            heapq.heappush(free, (begin + self.reading(protocol, len(self.speed)) + seconds, g))
        return max(t for t, _ in free), work


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--documents", type=int, default=300, help="per model, each as long as the protocol's context")
    p.add_argument("--flops", type=float, default=300e12, help="operations per second of a GPU, sustained")
    p.add_argument("--storage", type=float, default=10e9, help="bytes per second that all processes read together")
    p.add_argument("--spread", type=float, default=0.05, help="standard deviation of speed, of GPUs and of documents")
    p.add_argument("--moments", action="store_true", help="tasks are the ten blocks of moments")
    a = p.parse_args()
    print(f"{'model':16} {'weights':>9} {'attention':>9} {'s/document':>10} {'weights GB':>10} {'moments GB':>10}")
    for s in protocols():
        w, t = operations(s)
        print(f"{s['study']:16} {w:9.2g} {t:9.2g} {(w + t) / a.flops:10.1f} {2 * MODELS[s['study']][0]:10.1f} "
              f"{10 * moment_bytes(s) / 1e9:10.2f}")
    print(f"\n{'GPUs':>4}  {'way':34} {'hours':>7} {'busy':>6}")
    for gpus in (1, 8, 64):
        ways = [("in turn, tasks dealt (mpirun)", lambda c: c.in_turn(True)),
                ("in turn, cut beforehand (--part)", lambda c: c.in_turn(False)),
                ("job array, 8 parts of each model", lambda c: c.array(8)),
                ("job array, 64 parts of each model", lambda c: c.array(64))]
        for name, way in ways:
            end, work = way(cluster(a, gpus))
            print(f"{gpus:4}  {name:34} {end / 3600:7.2f} {work / end / gpus:6.0%}")


if __name__ == "__main__":
    main()
