#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/data/gguf-tokenizers.json: what llama.cpp makes of the texts of tests/data/tokenizers/texts.json and of others
with the tokenizer of a GGUF file, as a hash of each text's ids: with a small SentencePiece BPE model trained here, whose keys
are written too, with and without the space before a text; and with the vocabulary of tests/data/tokenizers/llama3.json under
every text rule (tokenizer.ggml.pre); and with that of gemma3.json as the kind gemma4. Where a text holds no token that is
matched whole, SentencePiece must give it the same ids.

Usage: make_gguf_tokenizers.py EXAMPLES/data/kjv-smollm3/heldout.jsonl tests/data/tokenizers OUT.json
(needs sentencepiece, gguf, numpy and xllamacpp, which holds llama.cpp)
"""
import importlib.metadata
import io
import json
import pathlib
import re
import sys
import tempfile
import urllib.request

import gguf
import numpy
import sentencepiece
import xllamacpp

CONTROL, DEFINED = ["<|im_start|>", "<|im_end|>"], ["<tool>", "  ", "<tool_call>"]
OTHERS = ["a<tool>b <tool_call>c  d", "<|im_start|>user\nhi<|im_end|>", "<s> x</s>", "<unk>", "<tool", "one  two   three    four", "<0x41>", " lead",
          "aaaaaaaaaaaaaaaa", "the the thethe", "\u2581\u2581x"]
RULES = ["gpt-2", "olmo", "smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "llama-bpe", "llama3", "llama-v3", "falcon3",
         "falcon-h1", "pixtral", "lfm2", "smaug-bpe", "dbrx", "chatglm-bpe", "qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "qwen35",
         "default", "tekken", "gpt-4o", "llama4", "minimax-m2", "deepseek-v3", "hunyuan-dense", "seed-coder", "exaone4", "glm4"]


def trained(corpus):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_writer=model, vocab_size=900, model_type="bpe", byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True,
        character_coverage=0.999, control_symbols=CONTROL, user_defined_symbols=DEFINED, minloglevel=2)
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def type_of(sp, i):
    return (2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 5 if sp.is_unused(i)
            else 4 if sp.id_to_piece(i) in DEFINED else 1)


def write(path, keys):
    """A model of one layer around the tokenizer: llama.cpp loads no tokenizer alone."""
    w = gguf.GGUFWriter(path, "llama")
    for name, n in [("block_count", 1), ("context_length", 64), ("embedding_length", 32), ("feed_forward_length", 32), ("head_count", 1)]:
        getattr(w, "add_" + name)(n)
    w.add_layer_norm_rms_eps(1e-5)
    for key, value in keys.items():
        {str: w.add_string, bool: w.add_bool, int: w.add_uint32, list: w.add_array}[type(value)]("tokenizer.ggml." + key, value)
    sizes = {"token_embd": (len(keys["tokens"]), 32), "output_norm": (32,), "blk.0.attn_norm": (32,), "blk.0.ffn_norm": (32,)}
    sizes |= {"blk.0." + n: (32, 32) for n in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")}
    for name, shape in sizes.items():
        w.add_tensor(name + ".weight", numpy.zeros(shape, numpy.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def ids_of(keys, texts):
    folder = tempfile.TemporaryDirectory()
    path = pathlib.Path(folder.name) / "tokenizer.gguf"
    write(path, keys)
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.warmup, params.n_gpu_layers = 64, False, 0
    params.port = 0
    server = xllamacpp.Server(params)

    def ask(text):
        body = json.dumps({"content": text, "add_special": True, "parse_special": True}).encode()
        request = urllib.request.Request(server.listening_address + "/tokenize", body, {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request))["tokens"]

    return [ask(t) for t in texts]


def bpe_keys(path):
    """Tokens, types and merges of a tokenizer.json."""
    bpe = json.load(open(path, encoding="utf-8"))
    special = {t["content"] for t in bpe["added_tokens"]}
    vocabulary = bpe["model"]["vocab"]
    tokens = sorted(vocabulary, key=vocabulary.get)
    assert list(vocabulary.values()) != [] and [vocabulary[t] for t in tokens] == list(range(len(tokens)))
    return {"tokens": tokens, "token_type": [3 if t in special else 6 if re.fullmatch("<0x..>", t) else 1 for t in tokens],
            "merges": [m if isinstance(m, str) else " ".join(m) for m in bpe["model"]["merges"]]}


def fnv1a(ids):
    h = 0xCBF29CE484222325
    for byte in b"".join(i.to_bytes(4, "little") for i in ids):
        h = (h ^ byte) * 0x100000001B3 % 2**64
    return f"{h:016x}"


def main(corpus, tokenizers, out):
    tokenizers = pathlib.Path(tokenizers)
    books = [json.loads(line)["text"] for line in open(corpus, encoding="utf-8")]
    sp = trained([line for book in books[:4] for line in book.splitlines()])
    n = sp.get_piece_size()
    keys = {"model": "llama", "tokens": [sp.id_to_piece(i) for i in range(n)], "scores": [sp.get_score(i) for i in range(n)],
            "token_type": [type_of(sp, i) for i in range(n)], "bos_token_id": sp.bos_id(), "eos_token_id": sp.eos_id(),
            "unknown_token_id": sp.unk_id()}
    texts = json.load(open(tokenizers / "texts.json", encoding="utf-8")) + OTHERS + [books[5][:4000]]
    with_space = ids_of(keys, texts)
    whole = CONTROL + DEFINED + ["<s>", "</s>", "<unk>"]
    plain = [i for i, t in enumerate(texts) if t and "\0" not in t and not any(w in t for w in whole)]
    for i in plain:
        assert with_space[i] == [keys["bos_token_id"]] + sp.encode(texts[i]), texts[i]
    print(len(plain), "of", len(texts), "texts are held against SentencePiece")
    hashes = {"with_space": with_space, "without_space": ids_of({**keys, "add_space_prefix": False}, texts)}
    llama3 = bpe_keys(tokenizers / "llama3.json")
    for rule in RULES:
        hashes[rule] = ids_of({"model": "gpt2", "pre": rule, **llama3, "bos_token_id": 0, "eos_token_id": 1}, texts)
    hashes["gemma4"] = ids_of({"model": "gemma4", **bpe_keys(tokenizers / "gemma3.json"), "eos_token_id": 1, "bos_token_id": 2,
                               "unknown_token_id": 3, "add_space_prefix": False}, texts)
    result = {"xllamacpp": importlib.metadata.version("xllamacpp"), "keys": keys,
              "others": texts[-len(OTHERS) - 1:], "hashes": {name: [fnv1a(i) for i in ids] for name, ids in hashes.items()}}
    json.dump(result, open(out, "w", encoding="utf-8"), ensure_ascii=True, separators=(",", ":"))


if __name__ == "__main__":
    main(*sys.argv[1:])
