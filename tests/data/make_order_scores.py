#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes order-scores.json: the scores of the public function of rope-profiler 0.1.0 for small drawn rows.

Needs Python below 3.13 and: pip install rope-profiler==0.1.0 torch. Usage: make_order_scores.py > order-scores.json
Each case has rows q (queries, d) and k (keys, d) of one head, all of whose keys come in triplets (query, key, key) and
pairs (query, key); scores enumerate every distance of the window.
"""
import json
import random

import torch
from rope_profiler.scores import score_activations

CASES = [  # window, layout, rotary channels, frequencies, scale of the embedding, channels
    (64, "split_half", 8, [1.0, 0.1, 0.01, 0.001], 1.0, 8),
    (1000, "interleaved", 6, [1.0, 0.03, 0.0004], 1.0, 8),
    (4096, "split_half", 4, [0.5, 1e-5], 1.3, 4),
]
draws, result = random.Random(1), []
for window, layout, rotary, omega, rope_scale, d in CASES:
    q, k = ([[round(draws.gauss(0.4, 1), 3) for _ in range(d)] for _ in range(n)] for n in (2, 4))
    pairs = [(i, j) for i in range(2) for j in range(4)]
    triplets = [(i, j, j + 1) for i in range(2) for j in range(3)]
    found = score_activations(torch.tensor([q], dtype=torch.float64), torch.tensor([k], dtype=torch.float64), [0], pairs,
                              triplets, omega, window, layout=layout, rotary_dim=rotary, rope_scale=rope_scale,
                              distance_samples=None)
    result.append({"window": window, "style": "interleaved" if layout == "interleaved" else "half", "inv_freq": omega,
                   "attention_factor": rope_scale, "d": d, "q": q, "k": k, "semantic": found.semantic_by_head.item(),
                   "positional": found.positional_by_head.item()})
print("[\n" + ",\n".join(json.dumps(r) for r in result) + "\n]")
