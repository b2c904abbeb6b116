# SPDX-License-Identifier: MIT
"""capture_check.py SOURCE BIN: captures of small transformers models, beside what qkgeom-capture writes for the same tokens."""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers
from checks import refused
from safetensors.numpy import load_file

import qkgeom

source, programs = map(pathlib.Path, sys.argv[1:])
torch.manual_seed(0)


def small(**changes):
    config = dict(vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
                  num_key_value_heads=2, head_dim=16, max_position_embeddings=512)
    return config | changes


def agree(where, a, b):
    """Two values of JSON are equal, fractions but for their last digits: those of f32 differ by the order of products."""
    if isinstance(a, dict) and isinstance(b, dict):
        assert a.keys() == b.keys(), (where, a.keys() ^ b.keys())
        for n in a:
            agree((*where, n), a[n], b[n])
    elif isinstance(a, list) and isinstance(b, list):
        assert len(a) == len(b), (where, a, b)
        for i, (x, y) in enumerate(zip(a, b)):
            agree((*where, i), x, y)
    else:
        assert a == b or (isinstance(a, float) and np.isclose(a, b, rtol=1e-6, atol=0)), (where, a, b)


def same_manifests(program, package):
    """The manifest of the package has what the program's has, but for what only a folder with the model's files says: hashes,
    ids of documents. Returns the names of the fields."""
    theirs, ours = (json.loads((f / "manifest.json").read_text()) for f in (program, package))
    for m in (theirs, ours):
        for n in ("written_by", "inputs_sha256", "weights_sha256", "bos"):
            m.pop(n, None)
        m["model"].pop("config_sha256", None)
        for shard in m["shards"]:
            shard.pop("sha256", None)
        for document in m["examples"]:
            document.pop("id"), document.pop("labels", None)
    agree((program.name,), theirs, ours)
    return set(theirs) | {n for layer in theirs["layers"] for n, value in layer.items() if value is not None}


models = {
    "grouped": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**small())),
    "multi-head": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**small(num_key_value_heads=4))),
    "windows": lambda: transformers.MistralForCausalLM(transformers.MistralConfig(**small(sliding_window=40))),
}
ids = torch.randint(0, 97, (2, 200))
for name, make in models.items():
    for attention in ("sdpa", "eager"):
        model = make().eval()
        model.set_attn_implementation(attention)
        with torch.inference_mode():
            expected = model(ids).logits
            with qkgeom.capture(model, rate=32, bucket_size=64, keep="both") as cap:
                observed = model(ids).logits
            assert torch.equal(observed, expected), f"{name} {attention}: the capture changed the logits"
            assert torch.equal(model(ids).logits, expected) and model.config._attn_implementation == attention
        # Causal: a later token changes no earlier logits while the capture runs.
        changed = ids.clone()
        changed[:, 150:] = 1
        with torch.inference_mode(), qkgeom.capture(model, keep="samples"):
            assert torch.allclose(model(changed).logits[:, :150], expected[:, :150], atol=1e-4)
        assert cap.layers == [0, 1, 2] and cap.tokens == [200, 200]
        assert cap.moments[1].q[3].total.count == 400
        found = cap.open(covariance=["joint"])
        assert len(found.report()) == 12
        layer = found.manifest["layers"][0]
        assert layer["window"] == (40 if name == "windows" else None), layer
        assert "score_scale" not in found.manifest, "1/sqrt(head_dim) is not the model's own"

model = models["grouped"]().eval()
with qkgeom.capture(model, heads=[(1, 0), (1, 3)], rate=64, bucket_size=64) as cap, torch.inference_mode():
    model(ids)
found = cap.open()
report = found.report()
assert [(h.layer, h.q_head, h.k_head) for h in report] == [(1, 0, 0), (1, 3, 1)]
clouds = qkgeom._qkgeom.plane(found._set, report, 1, 3)["clouds"]
assert [len(c["x"]) for c in clouds] == [report[1].queries, report[1].keys], "the rows can still be read"


def call(**arguments):
    with qkgeom.capture(model) as c, torch.inference_mode():
        model(ids, **arguments)
    return c


def kept(c, layer=1):
    """Rows of the queries by document, with the positions."""
    return {document: (rows, list(positions)) for rows, positions, document in c._layers[layer].kept["q"]}


# Padded tokens are left out, left or right; positions are position_ids, or else columns, by name or by place.
alone = [ids[:1], ids[1:, 60:]]
every = dict(rate=64, bucket_size=64, keep="both", max_length=300)
with qkgeom.capture(model, **every) as cap, torch.inference_mode():
    for one in alone:
        model(one)
short, unpadded = kept(cap), cap.moments[1]
for left in (True, False):
    padded, mask = ids.clone(), torch.ones_like(ids)
    padded[1] = torch.cat([torch.zeros(60, dtype=ids.dtype), ids[1, 60:]][::1 if left else -1])
    mask[1, :60] = 0
    mask = mask if left else mask.flip(1)
    given = (mask.cumsum(1) - 1).clamp(min=0)
    for call in (lambda: model(padded, mask, given), lambda: model(input_ids=padded, position_ids=given, attention_mask=mask.bool())):
        with torch.inference_mode():
            expected = model(padded, mask, given).logits
            with qkgeom.capture(model, **every) as cap:
                assert torch.equal(call().logits, expected)
        assert cap.tokens == [200, 140] and cap.moments[1].q[0].total.count == 340
        for document, (rows, positions) in kept(cap).items():
            assert positions == short[document][1] and torch.allclose(rows, short[document][0], rtol=1e-4, atol=1e-5), (left, document)
        assert np.allclose(cap.moments[1].k[0].total.xx, unpadded.k[0].total.xx, rtol=1e-3, atol=1e-3)
    with torch.inference_mode(), qkgeom.capture(model, **every) as cap:
        model(padded, mask)
    assert kept(cap)[1][1] == list(range(60, 200) if left else range(140)), "without position_ids the model counts columns"
    assert cap.open(buckets=50).context_length == 300
with torch.inference_mode(), qkgeom.capture(model, **every) as cap:
    model(ids, None, torch.arange(100, 300)[None])
assert kept(cap)[0][1] == list(range(100, 300)) and cap.open(buckets=50).context_length == 300

# generate() gives its prompt; a decoding step is refused with what to do.
with qkgeom.capture(model, **every) as cap:
    model.generate(padded, attention_mask=mask.flip(1), max_new_tokens=1)
    refused(ValueError, ["decoding", "max_new_tokens=1", "model(ids)"], lambda: model.generate(ids[:1], max_new_tokens=3))
assert cap.tokens == [200, 140, 200]


def call(*arguments, **options):
    with qkgeom.capture(model, **options) as c, torch.inference_mode():
        model(*arguments)
    return c


holes, packed = torch.ones_like(ids), torch.arange(200) % 100
holes[1, 50:60] = 0
refused(ValueError, ["attention_mask", "ends"], lambda: call(ids, holes))
refused(ValueError, ["attention_mask", "ends"], lambda: call(ids, torch.zeros_like(ids)))
refused(ValueError, "attention_mask", lambda: call(ids, torch.ones(2, 1, 200, 200)))
refused(ValueError, ["position_ids", "packed"], lambda: call(ids, None, packed[None]))
refused(ValueError, ["position_ids", "0 or more"], lambda: call(ids, None, torch.arange(-1, 199)[None]))
refused(ValueError, "max_length", lambda: call(ids, max_length=10))
with qkgeom.capture(model, keep="moments"), torch.inference_mode():
    model(ids)
    refused(ValueError, "max_length", lambda: model(ids[:, :120]))
refused(ValueError, "keep", lambda: qkgeom.capture(model, keep="all"))
refused(ValueError, "heads", lambda: qkgeom.capture(model, heads=[(0, -1)]))
refused(ValueError, ["heads", "layer 9"], lambda: call(ids, heads=[(0, 0), (9, 0)]))
refused(ValueError, "PreTrainedModel", lambda: qkgeom.capture(torch.nn.Linear(2, 2)).__enter__())
refused(ValueError, "compiled", lambda: qkgeom.capture(torch.compile(model)).__enter__())
with qkgeom.capture(model):
    refused(ValueError, "already", lambda: qkgeom.capture(model).__enter__())


class Elsewhere(torch.nn.Module):
    """Has attention of its own, as TransformerLens has."""

    def __init__(self):
        super().__init__()
        self.config = transformers.LlamaConfig(**small(), attn_implementation="sdpa")

    def set_attn_implementation(self, name):
        self.config._attn_implementation = name

    def forward(self, input_ids):
        return input_ids


def elsewhere():
    with qkgeom.capture(Elsewhere()) as c:
        c._model(ids)


refused(ValueError, "no attention of it went through", elsewhere)

# Rows are those of calls that end, each once: after an error within a layer, and beside gradient checkpointing.
with qkgeom.capture(model, **every) as cap:
    def out_of_memory(*_):
        raise RuntimeError("out of memory")

    hook = model.model.layers[1].register_forward_pre_hook(out_of_memory)
    refused(RuntimeError, "out of memory", lambda: model(ids))
    hook.remove()
    model(ids)
    refused(ValueError, "a part of LlamaForCausalLM", lambda: model.model(ids))
assert cap.tokens == [200, 200] and all(len(x.kept["k"]) == 2 for x in cap._layers.values()) and cap.moments[0].q[0].total.count == 400
for reentrant in (True, False):
    trained = models["grouped"]().train()
    with qkgeom.capture(trained, **every, pre_rope=True, softmax=True, loss=True) as cap:
        trained.gradient_checkpointing_enable({"use_reentrant": reentrant})
        trained.enable_input_require_grads()
        trained(ids, labels=ids).loss.backward()
    assert cap.tokens == [200, 200] and all(len(x.kept["k"]) == 2 for x in cap._layers.values()), reentrant
with qkgeom.capture(model):
    twice = model.model.layers[1].register_forward_hook(lambda layer, given, result: layer.self_attn(*given, **again) and None)
    again = dict(position_embeddings=model.model.rotary_emb(torch.zeros(1), torch.arange(200)[None]), attention_mask=None)
    refused(ValueError, "layer 1 ran twice", lambda: model(ids))
    twice.remove()

# A model without a rotary embedding is no RoPE model.
gpt2 = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=97, n_embd=32, n_layer=2, n_head=4, bos_token_id=1,
                                                            eos_token_id=1)).eval()
with torch.inference_mode(), qkgeom.capture(gpt2) as cap:
    gpt2(ids)
manifest = cap.open().manifest
assert [layer["rope"] for layer in manifest["layers"]] == [False, False] and "rope" not in manifest

encoder = transformers.BertModel(transformers.BertConfig(vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=1,
                                                         num_attention_heads=4))
with qkgeom.capture(encoder):
    refused(ValueError, "not causal", lambda: encoder(ids))
model.config._attn_implementation_internal = "flash_attention_2"
refused(ValueError, "flash_attention_2", lambda: qkgeom.capture(model).__enter__())
model.config._attn_implementation_internal = "sdpa"
assert call(ids).layers == [0, 1, 2], "after a refusal the model is as before"

# Moments of documents of several lengths merge where max_length says the context.
with qkgeom.capture(model, keep="moments", bucket_size=64, max_length=300) as cap, torch.inference_mode():
    model(ids)
    model(ids[:, :120])
assert cap.moments[0].q[0].total.count == 2 * 200 + 2 * 120
assert [b.count for b in cap.moments[0].q[0].bucket] == [4 * 64, 2 * 64 + 2 * 56, 2 * 64, 2 * 8, 0]

# The same tokens, seed and draw through qkgeom capture.
data = source / "examples/data/kjv-smollm3"
with tempfile.TemporaryDirectory() as scratch:
    here = pathlib.Path(scratch)
    folder = data / "lc-4096-to-8192-step-10"
    texts = [json.loads(line)["text"] for line in open(data / "heldout.jsonl")][:2]
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(data / "tokenizer.json"))
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    for name, options, more in (
            ("post", [], {}),
            ("pre", ["--pre-rope", "--softmax", "--softmax-queries", "64", "--loss"], dict(pre_rope=True, softmax=True, loss=True))):
        ours, theirs = here / f"{name}-package", here / f"{name}-program"
        subprocess.run([programs / "qkgeom-capture", "--model", folder, "--jsonl", data / "heldout.jsonl", "--max-length", "700",
                        "--examples", "2", "--heads", "all", "--bucket-size", "64", "--rate", "16", "--dtype", "f32", "--seed",
                        "3", "--out", theirs, *options], check=True, capture_output=True)
        with qkgeom.capture(model, rate=16, bucket_size=64, seed=3, max_length=700, **more) as cap, torch.inference_mode():
            for text in texts:
                model(torch.tensor([tokenizer(text).input_ids[:700]]), use_cache=False)
        cap.write(ours)
        one, two = (load_file(next(f.glob("shard-*"))) for f in (theirs, ours))
        names = sorted(n for n in two)
        assert names and all(n in one for n in names)
        assert [n for n in one if "attention" in n or "loss" in n] == [n for n in two if "attention" in n or "loss" in n]
        for n in names:
            if n.endswith((".position", ".example", ".count")):
                assert np.array_equal(one[n], two[n]), n
            else:
                assert one[n].shape == two[n].shape
                # The bound of tests/capture/forward for f32: 1e-4 of the norm of transformers' rows.
                assert np.linalg.norm(one[n] - two[n]) <= 1e-4 * np.linalg.norm(two[n]), (n, np.linalg.norm(one[n] - two[n]))
        same_manifests(theirs, ours)
    # What such a capture is for, from the capture itself and from the program's.
    program = qkgeom.open_capture(theirs)
    for format in ("expected-attention", "triattention", "duo"):
        assert list(cap.export(format, here / format, sink=4, recent=64).glob("*.*"))
    mine, other = (np.array([c.what_if(1400).heads["ap_overall"], c.bands().drops["drop"]]) for c in (cap, program))
    assert mine.shape == (2, 64) and np.allclose(mine, other, atol=1e-4), abs(mine - other).max()

    # Every family, and with each way to scale an embedding documents on both sides of the tokens where the scaling acts, and of
    # those that the model was made for.
    letters = "abcdefghijklmnopqrstuvwxyz"
    tokenizer = {"version": "1.0", "added_tokens": [], "normalizer": None, "post_processor": None, "decoder": None,
                 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
                 "model": {"type": "BPE", "vocab": {c: i + 3 for i, c in enumerate(letters)}, "merges": []}}
    (here / "tokenizer.json").write_text(json.dumps(tokenizer))
    (here / "text.txt").write_text(6 * letters)
    tokens = torch.tensor([[letters.index(c) + 3 for c in 6 * letters]])
    told, without = set(), set()
    lengths = {"llama-dynamic": (156, 1300), "llama-linear": (156, 1300), "llama4-text": (60, 156, 1300), "ministral3": (156, 300),
               "phi3": (60, 156)}
    subprocess.run([sys.executable, source / "tests/data/make_family_weights.py", source / "tests/data/families", here / "families"],
                   check=True)
    for family, length in [(f.name, n) for f in sorted((here / "families").iterdir()) for n in lengths.get(f.name, (156,))]:
        folder, name = here / "families" / family, f"{family}-{length}"
        by_program = [programs / "qkgeom-capture", "--model", folder, "--tokenizer", here, "--no-bos", "--text", here / "text.txt",
                      "--include-windowed", "--max-length", str(length), "--dtype", "f32", "--rate", "24", "--bucket-size", "512"]
        subprocess.run([*by_program, "--out", here / name], check=True, capture_output=True)
        config = transformers.AutoConfig.from_pretrained(folder)
        kind = getattr(transformers, config.architectures[0])
        model = kind.from_pretrained(folder, dtype=torch.float32).eval()
        with torch.inference_mode(), qkgeom.capture(model, bucket_size=512, max_length=length, name=family) as cap:
            model(tokens[:, :length], use_cache=False)
        cap.write(here / f"{name}-package")
        told |= same_manifests(here / name, here / f"{name}-package")
        if family == "deepseek-v3.2":  # a query sees 40 keys, not all 156
            with qkgeom.capture(model, softmax=True):
                refused(ValueError, "that an indexer chooses", lambda: model(tokens))
            with qkgeom.Monitor(model.train(), every=1) as monitor:
                model(tokens)
                assert not monitor.step() and "indexer chooses" in next(iter(monitor.skipped)), monitor.skipped
            model.eval()
        # From before the rotary embedding, the same rows as the program's.
        try:
            with torch.inference_mode(), qkgeom.capture(model, pre_rope=True, bucket_size=512, max_length=length, name=family) as cap:
                model(tokens[:, :length], use_cache=False)
        except ValueError as why:
            assert "pre_rope" in str(why), (family, why)
            without.add(family)
            continue
        subprocess.run([*by_program, "--pre-rope", "--out", here / f"{name}-pre"], check=True, capture_output=True)
        cap.write(here / f"{name}-pre-package")
        one, two = (load_file(next((here / f"{name}-pre{end}").glob("shard-*"))) for end in ("", "-package"))
        for n in two:
            assert one[n].shape == two[n].shape and np.linalg.norm(one[n] - two[n]) <= 1e-4 * np.linalg.norm(two[n]) + 1e-12, (family, n)
        same_manifests(here / f"{name}-pre", here / f"{name}-pre-package")
    # Parts of heads that rotate apart, and queries that grow without a rotation.
    assert without == {"mistral4", "deepseek-v3", "deepseek-v3-direct", "deepseek-v3.2", "glm-5", "llama4-text",
                       "llama4-without-norm"}, without
    assert told >= {"score_scale", "score_softcap", "window", "rope", "rope_parameters", "query_growth", "model_context", "head_parts", "sinks"}, told
