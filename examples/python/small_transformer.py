# SPDX-License-Identifier: MIT
"""A small random transformers model, captured while it runs and analysed."""
import sys

try:
    import torch
    import transformers
except ImportError:
    print("skipped: this script needs torch and transformers")
    sys.exit(77)

import qkgeom

torch.manual_seed(0)
config = transformers.LlamaConfig(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                                  num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=1024)
model = transformers.LlamaForCausalLM(config).eval()
with qkgeom.capture(model, rate=32, bucket_size=64) as cap, torch.inference_mode():
    model(torch.randint(0, 256, (4, 1024)))
heads = cap.open().heads()
for layer, head, ap, bias in zip(heads["layer"], heads["q_head"], heads["ap_overall"], heads["bias_context"]):
    print(f"layer {layer} head {head}: plasticity {ap:.3f}, bias over the context {bias:+.3f}")
assert len(heads) == 8
