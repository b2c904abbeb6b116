#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""peers.py PEER=PYTHON...   One small job by qkgeom and its peers: q and k, or numbers, of a Llama of 3 layers, 2 documents of 256
tokens. PEER: a name in `lines` below; PYTHON: an interpreter that has it, transformers and PyTorch. Prints for each the lines, what
they give, and CPU seconds of the whole process, the least of ROUNDS [4] by turns (examples/python/README.md has the table)."""
import os, pathlib, resource, subprocess, sys, tempfile

model = """
import torch, transformers
torch.manual_seed(0)
model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=1000, hidden_size=64, intermediate_size=128,
    num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512)).eval()
ids = torch.randint(1000, (2, 256))
"""
lines = {
    "none": ["with torch.no_grad(): found = model(ids).logits.shape"],
    "qkgeom": ["import qkgeom", "with qkgeom.capture(model) as cap: model(ids)", "found = cap.open().heads()"],
    "rope_profiler": ["from rope_profiler import RoPEMonitor", "monitor = RoPEMonitor(model)",
                      "with torch.inference_mode(), monitor.evaluation(), monitor.batch(ids): model(ids)",
                      "found = monitor.last_metrics"],
    "nnsight": ["from nnsight import NNsight", "lm = NNsight(model)", "with torch.no_grad(), lm.trace(ids):",
                "    found = [layer.self_attn.source.apply_rotary_pos_emb_0.output for layer in lm.model.layers].save()"],
    "transformer_lens": ["from transformer_lens.model_bridge.sources import build_bridge_from_module",
                         "bridge = build_bridge_from_module(model, 'LlamaForCausalLM', hf_config=model.config)",
                         "_, found = bridge.run_with_cache(ids)"],
    "kvpress": ["from kvpress.presses.expected_attention_with_stats import patch_rotary_embedding",
                "with torch.no_grad(), patch_rotary_embedding(model) as found: keys = model(ids).past_key_values"],
}
asked = dict(word.split("=", 1) for word in sys.argv[1:])
if not asked or not set(asked) <= set(lines):
    sys.exit(__doc__)
seconds, gave = {peer: [] for peer in asked}, {}
with tempfile.TemporaryDirectory() as folder:
    for _ in range(int(os.environ.get("ROUNDS", "4"))):
        for peer, python in asked.items():
            script = pathlib.Path(folder, "job.py")  # a file, since nnsight reads its caller's source
            script.write_text(model + "\n".join(lines[peer]) + "\nprint(type(found).__name__, len(found))\n")
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            gave[peer] = subprocess.run([python, "-Wignore", script], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds[peer].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
for peer in asked:
    print(f"{peer:16} {len(lines[peer])} lines  {min(seconds[peer]):5.2f} s of CPU  {gave[peer]}")
