# SPDX-License-Identifier: MIT
"""real_model.py [TEXT]: a real model, captured by transformers on a text and analysed. QKGEOM_REAL_MODEL names its GGUF file
(docs/real-model.md); TEXT is a file, else docs/formats.md."""
import os
import pathlib
import sys

if "QKGEOM_REAL_MODEL" not in os.environ:
    print("skipped: QKGEOM_REAL_MODEL does not name a GGUF file (docs/real-model.md)")
    sys.exit(77)
try:
    import accelerate  # noqa: F401: transformers reads GGUF files with these two
    import gguf  # noqa: F401
    import torch
    import transformers
except ImportError as e:
    print(f"skipped: this script needs torch, transformers, gguf and accelerate ({e})")
    sys.exit(77)

import qkgeom

file = pathlib.Path(os.environ["QKGEOM_REAL_MODEL"])
text = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2] / "docs/formats.md"
tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
model = transformers.AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32).eval()
ids = tokenizer(text.read_text(), return_tensors="pt").input_ids[:, :2048]
with qkgeom.capture(model, rate=32, bucket_size=128) as cap, torch.inference_mode():
    model(ids, use_cache=False)
heads = cap.open().heads()
ranked = sorted(zip(heads["ap_overall"], heads["layer"], heads["q_head"]))
print(f"{len(ranked)} heads over {ids.shape[1]} tokens, {sum(b > 0 for b in heads['bias_context'])} with a bias towards later "
      "keys; the least and the most plastic:")
for ap, layer, head in (*ranked[:3], *ranked[-3:]):
    print(f"  layer {layer} head {head}: {ap:.3f}")
