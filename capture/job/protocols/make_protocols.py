#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the protocols beside this script: the settings and heads of each capture of the thesis.

Usage: make_protocols.py [--check]
The thesis draws 300 query heads per model: CPython's random.Random(0).sample over all (layer, head) pairs in layer-major
order, so the lists follow from the shapes below. The draw for Llama 3.2 11B includes its eight layers
that attend to images alone, whose heads hold no data. --check compares the files with what would be written.
"""
import argparse
import json
import pathlib
import random
import sys

DOCUMENTS = "viktoroo/longbench-pro-128k-plus"

# name: (model, family, layers, query heads, key heads, longest document, more settings)
MODELS = {
    "llama3.1-8b": ("meta-llama/Llama-3.1-8B", "Llama 3", 32, 32, 8, 131072, {}),
    "llama3.2-1b": ("meta-llama/Llama-3.2-1B", "Llama 3", 16, 32, 8, 131072, {}),
    "llama3.2-3b": ("meta-llama/Llama-3.2-3B", "Llama 3", 28, 24, 8, 131072, {}),
    "llama3.2-11b": ("meta-llama/Llama-3.2-11B-Vision", "Llama 3", 40, 32, 8, 131072, {}),
    "ministral3-3b": ("mistralai/Ministral-3-3B-Base-2512", "Ministral 3", 26, 32, 8, 131072, {}),
    "ministral3-8b": ("mistralai/Ministral-3-8B-Base-2512", "Ministral 3", 34, 32, 8, 131072, {}),
    "ministral3-14b": ("mistralai/Ministral-3-14B-Base-2512", "Ministral 3", 40, 32, 8, 131072, {}),
    "mistral-v0.2-7b": ("mistralai/Mistral-7B-Instruct-v0.2", "Mistral", 32, 32, 8, 32768, {}),
}
QWEN3 = {"0.6b": (28, 16), "1.7b": (28, 16), "4b": (36, 32), "8b": (36, 32), "14b": (40, 40)}
for size, (layers, heads) in QWEN3.items():
    MODELS[f"qwen3-{size}"] = (f"Qwen/Qwen3-{size.upper()}", "Qwen3", layers, heads, 8, 131072,
                               {"rope_scaling": "yarn:4.0:32768"})

# SmolLM3's checkpoints: revision and longest document; the bucket is a sixteenth of it.
SMOLLM3 = {
    "stage1-step-40000": 4096, "stage1-step-1200000": 4096, "stage1-step-2400000": 4096, "stage1-step-3440000": 4096,
    "stage2-step-4200000": 4096, "stage3-step-4720000": 4096,
    "lc-4k-to-32k-step-4000": 32768, "lc-4k-to-32k-step-20000": 32768,
    "lc-32k-to-64k-step-4000": 65536, "lc-32k-to-64k-step-20000": 65536,
}

# Protocols for training runs that the thesis has not captured: the same draw, a bucket a sixteenth of the context.
TEMPLATES = {
    "olmo2-1b-checkpoint": ("allenai/OLMo-2-0425-1B", "OLMo 2", 16, 16, 16, 4096),
    "olmo2-7b-checkpoint": ("allenai/OLMo-2-1124-7B", "OLMo 2", 32, 32, 32, 4096),
    "pythia-410m-checkpoint": ("EleutherAI/pythia-410m-deduped", "Pythia", 24, 16, 16, 2048),
    "pythia-1.4b-checkpoint": ("EleutherAI/pythia-1.4b-deduped", "Pythia", 24, 16, 16, 2048),
    "pythia-6.9b-checkpoint": ("EleutherAI/pythia-6.9b-deduped", "Pythia", 32, 32, 32, 2048),
}


def draw_heads(layers, query_heads, count=300, seed=0):
    pairs = [(layer, head) for layer in range(layers) for head in range(query_heads)]
    chosen = sorted(random.Random(seed).sample(pairs, min(count, len(pairs))))
    return {str(layer): [h for l, h in chosen if l == layer] for layer in sorted({l for l, _ in chosen})}


def protocol(name, model, family, layers, query_heads, key_heads, length, more, revision="main", tokenizer=None,
          bucket=None):
    return {"study": name, "model": model, "revision": revision, "tokenizer": tokenizer or model, "family": family,
            "n_layers": layers, "n_query_heads": query_heads, "n_key_heads": key_heads, "dtype": "bf16",
            "max_length": length, "sampler": "uniform", "bucket_size": bucket or 8192, "rate": 1.0, "seed": 0,
            "pre_rope": False, "include_windowed": False, **more, "documents": DOCUMENTS, "split": "test",
            "text_field": "text", "id_field": "id", "heads": draw_heads(layers, query_heads)}


def all_protocols():
    files = {f"{name}.json": protocol(name, *facts) for name, facts in MODELS.items()}
    for revision, length in SMOLLM3.items():
        name = f"smollm3-{revision}"
        files[f"{name}.json"] = protocol(name, "HuggingFaceTB/SmolLM3-3B-checkpoints", "SmolLM3", 36, 16, 4, length, {},
                                      revision, "HuggingFaceTB/SmolLM3-3B", length // 16)
    for name, (model, family, layers, heads, keys, length) in TEMPLATES.items():
        about = "A template: put the checkpoint's revision in place of main, and a tokenizer of the same model."
        files[f"templates/{name}.json"] = {"about": about,
                                           **protocol(name, model, family, layers, heads, keys, length, {},
                                                   bucket=length // 16)}
    return files


def text_of(fields):
    """One line per field, and one per layer of heads."""
    lines = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in fields.items() if k != "heads"]
    rows = [f"    {json.dumps(layer)}: {json.dumps(heads)}" for layer, heads in fields["heads"].items()]
    return "{\n" + ",\n".join(lines + ['  "heads": {\n' + ",\n".join(rows) + "\n  }"]) + "\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the files, write nothing")
    check = parser.parse_args().check
    folder = pathlib.Path(__file__).parent
    different = []
    for name, fields in all_protocols().items():
        path = folder / name
        if check:
            if not path.exists() or path.read_text() != text_of(fields):
                different.append(name)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text_of(fields))
    if different:
        sys.exit("these files are not what the script writes: " + ", ".join(different))


if __name__ == "__main__":
    main()
