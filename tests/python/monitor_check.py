# SPDX-License-Identifier: MIT
"""monitor_check.py [--overhead]: numbers of the monitor beside those of the model's own attention, a planted head that explodes
found at its step, the same numbers from 1, 2 and 3 processes and under FSDP2, Trainer's callback, under DDP and FSDP2 too; --overhead
measures instead what an observed step costs."""
import csv
import importlib.util
import json
import math
import os
import pathlib
import statistics
import sys
import tempfile
import time
import types
import warnings

import numpy as np
import torch
import torch.distributed.fsdp
import torch.multiprocessing
import transformers
from checks import refused

import qkgeom
from qkgeom._attention import observed_attention

SMALL = dict(vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=16, max_position_embeddings=256)


def llama(**changes):
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL | changes))


def documents(seed, n=6, tokens=128):
    return torch.randint(0, 97, (n, tokens), generator=torch.Generator().manual_seed(seed))


class Seen:
    """Keeps what each layer's attention takes."""

    def __init__(self, by_layer):
        self._take = lambda module, q, k, options: by_layer.update({module.layer_idx: (q, k, options)})
        self._begin = self._refuse = lambda _: None
        self._end = lambda ids, result: None


def check_numbers(name, model):
    """Maxima from all q . k in f64, weights on token 0 from the model's eager attention, the rest from the steps."""
    ids = documents(0, 3)
    model = model.eval()
    model.set_attn_implementation("eager")
    seen = {}
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.q_proj.weight *= 50  # some weights near 1
        weights = model(ids, output_attentions=True).attentions
        with observed_attention(model, Seen(seen)):
            model(ids)
    with qkgeom.Monitor(model.train(), every=1, buckets=4, keys=32) as monitor:
        model(ids)
        rows = monitor.step()
    assert [(r["layer"], r["q_head"]) for r in rows] == [(layer, h) for layer in (0, 1) for h in range(4)]
    at = torch.arange(128)
    position, document = np.tile(at.numpy(), 3), np.repeat(np.arange(3), 128)
    for layer in (0, 1):
        q, k, options = seen[layer]
        distance = at[:, None] - at
        outside = (distance < 0) | (distance >= (options.get("sliding_window") or 128))
        scores = q.double() @ k.double().repeat_interleave(2, 1).transpose(2, 3) * options["scaling"]
        largest = scores.masked_fill(outside, -math.inf).amax((0, 2, 3))
        q, k = (x.transpose(1, 2).reshape(384, x.shape[1], 16).contiguous() for x in (q, k))
        moments = qkgeom.accumulate(q, k, position, document, buckets=32)
        # keys=32 of buckets of 32 tokens: the reservoir holds every key.
        profiles = qkgeom.plasticity_profile(qkgeom.fit_queries(moments, "joint"), q, k, position, document,
                                             window=options.get("sliding_window"))
        planes = qkgeom.planar_rotation(moments, context_length=128)
        for r in rows[4 * layer:4 * layer + 4]:
            h, where = r["q_head"], (name, r)
            assert math.isclose(r["max_logit"], largest[h].item(), rel_tol=1e-5), (where, largest[h])
            assert math.isclose(r["sink_mass"], weights[layer][:, h, :, 0].double().mean().item(), rel_tol=1e-5), where
            assert math.isclose(r["bias_context"], planes[h].bias.context, rel_tol=1e-9), where
            assert np.allclose([r[f"ap_{b}"] for b in range(4)], profiles[h].plasticity, rtol=1e-9, equal_nan=True), where
            assert math.isclose(r["ap_overall"], qkgeom.summarize(profiles[h], 128).overall.value, rel_tol=1e-9), where


def check_chunks():
    config = transformers.Llama4TextConfig(**SMALL, attention_chunk_size=64, no_rope_layers=[1, 0], num_local_experts=2,
                                           intermediate_size_mlp=96, pad_token_id=0)
    model = transformers.Llama4ForCausalLM(config).train()
    for tokens, layers in ((128, {1}), (64, {0, 1})):
        with qkgeom.Monitor(model, every=1) as monitor:
            model(documents(0, 2, tokens))
            assert {r["layer"] for r in monitor.step()} == layers, tokens


def check_explosion(folder):
    model = llama().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    given, file = [], folder / "rows.csv"
    with qkgeom.Monitor(model, every=2, to=given.extend) as monitor, qkgeom.Monitor(llama(), to=file) as other:
        for step in range(7):
            if step == 4:  # head 1 of layer 1 explodes
                with torch.no_grad():
                    model.model.layers[1].self_attn.q_proj.weight[16:32] *= 200
            model(documents(step), labels=documents(step)).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            assert len(monitor.step()) == (0 if step % 2 else 8)
        assert not other.step() and not file.exists(), "a model that was not called gives no rows"
    assert model.config._attn_implementation == "sdpa"
    assert [r["step"] for r in given[::8]] == [0, 2, 4, 6]
    largest = {(r["step"], r["layer"], r["q_head"]): r["max_logit"] for r in given}
    jumps = [at for at, x in largest.items() if at[0] > 0 and x > 20 * largest[at[0] - 2, at[1], at[2]]]
    assert jumps == [(4, 1, 1)], jumps


def check_file(folder):
    file = folder / "rows.csv"
    model = llama().train()
    found = []
    for _ in range(2):
        with qkgeom.Monitor(model, every=1, to=file) as monitor:
            model(documents(0))
            found += monitor.step()
    rows = list(csv.DictReader(file.open()))
    assert len(rows) == len(found) == 16
    for row, r in zip(rows, found):
        assert list(row) == list(r) and all((x == "" and math.isnan(r[n])) or float(x) == r[n] for n, x in row.items())
    refused(ValueError, "other columns", lambda: qkgeom.Monitor(model, to=file, buckets=5).__enter__())


def check_training_alone(folder):
    """Evaluation within a step changes no row; what does not fit is counted, and no error leaves the monitor."""
    model = llama()

    def evaluate(tokens):
        model.eval()
        with torch.no_grad():
            model(documents(9, 2, tokens))
        model.train()

    def step(monitor, *between):
        for act in (lambda: model.train()(documents(0)), *between):
            act()
        return monitor.step()

    with qkgeom.Monitor(model, every=1) as monitor:
        rows = step(monitor)
        evaluated = step(monitor, lambda: evaluate(128), lambda: evaluate(48), lambda: model.generate(documents(1)[:1], max_new_tokens=2))
        assert str([r | {"step": 0} for r in evaluated]) == str(rows) and sum(monitor.skipped.values()) == 4, monitor.skipped
    with warnings.catch_warnings(record=True) as warned, qkgeom.Monitor(model, every=1, to=folder / "none" / "rows.csv") as monitor:
        warnings.simplefilter("always")
        fewer = step(monitor, lambda: model(documents(1, 2)))
        assert len(fewer) == 8, "a smaller batch counts"
        left_out = (lambda: model(documents(1, 6, 48)), lambda: model(documents(1, 6, 48)), lambda: model.model(documents(1)),
                    lambda: model(documents(0), position_ids=torch.arange(128)[None] % 64))
        assert str([r | {"step": 0} for r in step(monitor, *left_out)]) == str(rows)
        model.set_attn_implementation("eager")  # behind the monitor's back
        step(monitor)
        model.config._attn_implementation_internal = "flex_attention"
        monitor._unwatch(), step(monitor)
    kinds = ("documents of 48 tokens", "a part of", "position_ids", "FileNotFoundError")
    assert all(sum(k in w for w in monitor.skipped) == 1 for k in kinds), monitor.skipped
    assert monitor.skipped[next(w for w in monitor.skipped if "48 tokens" in w)] == 2
    assert len([w for w in warned if "Monitor" in str(w.message)]) == len(monitor.skipped), "a warning for each kind"
    # Padded documents, and checkpointing: each token once.
    padded, mask = documents(0), torch.ones(6, 128, dtype=torch.long)
    mask[1:, 100:] = 0
    for enabled in (False, True):
        model = llama().train()
        if enabled:
            model.gradient_checkpointing_enable()
        with qkgeom.Monitor(model, every=1) as monitor:
            model(padded, attention_mask=mask, labels=padded).loss.backward()
            assert [sum(d.tokens for d in own) for own in monitor._documents.values()] == [628, 628]
            assert [d.moments.q[0].total.count for d in monitor._documents[1]] == [128, *[100] * 5]
            assert len(monitor.step()) == 8 and not monitor.skipped


class Rows(torch.utils.data.Dataset):
    def __init__(self, n, tokens):
        self.n, self.tokens = n, tokens

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        ids = documents(i, 1, self.tokens)[0]
        return dict(input_ids=ids, labels=ids)


class ShardingTrainer(transformers.Trainer):
    """Takes FSDP2 on CPUs too, where accelerate leaves it out."""

    def create_accelerator_and_postprocess(self):
        super().create_accelerator_and_postprocess()
        if self.args.fsdp:
            from accelerate import DistributedType, FullyShardedDataParallelPlugin

            state = self.accelerator.state
            state.distributed_type, state.fsdp_plugin = DistributedType.FSDP, FullyShardedDataParallelPlugin(**self.args.fsdp_plugin_args)
            self.is_fsdp_enabled = True


def train(folder, callback, report_to=(), resume=None, model=None, **options):
    """Trains by transformers' Trainer, for 4 steps of 4 documents unless the options say else."""
    options = dict(max_steps=4, per_device_train_batch_size=4, per_device_eval_batch_size=4, use_cpu=True, save_strategy="no",
                   disable_tqdm=True, logging_strategy="no", report_to=[], run_name="toy") | options
    evaluation = options.pop("evaluation", None)
    arguments = transformers.TrainingArguments(str(folder), eval_strategy="steps" if evaluation else "no", eval_steps=2, **options)
    trainer = ShardingTrainer(model or llama(), arguments, train_dataset=Rows(60, 64), eval_dataset=evaluation, callbacks=[callback])
    arguments.report_to = list(report_to)  # which Trainer itself would look for
    trainer.train(resume_from_checkpoint=resume)


def alike(a, b):
    """Rows are equal but for the rounding of the model's own products over batches of other sizes."""
    return len(a) == len(b) > 0 and all(x.keys() == y.keys() and all(math.isclose(x[n], y[n], rel_tol=1e-3, abs_tol=1e-6) or x[n] != x[n]
                                                                     for n in x) for x, y in zip(a, b))


def on_trainer_rank(rank, ranks, folder):
    """Ends the process itself: a thread of gloo may let go of the last gather's tensors when the interpreter has gone, and abort."""
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29517"}
    for way, options in (("ddp", {}), ("fsdp2", dict(fsdp=True, fsdp_config=dict(activation_checkpointing=True)))):
        rows, model = [], llama()
        train(f"{folder}/{way}-{rank}", qkgeom.TrainerCallback(2, to=rows.extend), model=model, per_device_train_batch_size=1,
              gradient_accumulation_steps=2, ddp_backend="gloo", **options)
        assert isinstance(model, torch.distributed.fsdp.FSDPModule) == (way == "fsdp2")
        pathlib.Path(f"{folder}/{way}-{rank}.json").write_text(json.dumps(rows))
    os._exit(0)


def check_trainer(folder):
    """The callback of Hugging Face's Trainer: its rows do not depend on evaluation, whose last batch is smaller or whose documents are
    shorter, nor on how a step is cut into calls and ranks; what they become."""
    if importlib.util.find_spec("accelerate") is None:
        print("left out: transformers' Trainer, accelerate is not here")
        return
    found, scalars = [], []
    for evaluation in (None, Rows(6, 64), Rows(8, 48)):
        rows = []
        callback = qkgeom.TrainerCallback(2, to=rows.extend, scalars=lambda step, of: scalars.append((step, of)))
        train(folder, callback, evaluation=evaluation)
        found.append(rows)
        assert len(rows) == 16 and sum(callback.skipped.values()) == (4 if evaluation else 0), callback.skipped
    whole = found[0]
    assert str(whole) == str(found[1]) == str(found[2]) and [r["step"] for r in whole[::8]] == [0, 2]
    assert [step for step, _ in scalars] == [0, 2] * 3 and len(scalars[0][1]) == 2 * 5
    of_layer = whole[4:8]
    assert scalars[0][1]["qkgeom/layer_1/max_logit"] == max(r["max_logit"] for r in of_layer)
    assert math.isclose(scalars[0][1]["qkgeom/layer_1/bias_context"], sum(abs(r["bias_context"]) for r in of_layer) / 4)
    assert math.isclose(scalars[0][1]["qkgeom/layer_1/plasticity"], sum(r["ap_overall"] for r in of_layer) / 4)
    # Gradient accumulation and checkpointing: each document once.
    for options in (dict(per_device_train_batch_size=2, gradient_accumulation_steps=2), dict(gradient_checkpointing=True),
                    dict(per_device_train_batch_size=1, gradient_accumulation_steps=4, gradient_checkpointing=True)):
        rows = []
        train(folder, qkgeom.TrainerCallback(2, to=rows.extend), **options)
        assert alike(rows, whole), options
    # A file names the run, and steps go on where a training resumes.
    file = folder / "trainer.csv"
    train(folder / "saved", qkgeom.TrainerCallback(1, to=file), max_steps=2, save_strategy="steps", save_steps=2)
    train(folder / "saved", qkgeom.TrainerCallback(1, to=file), resume=True, save_strategy="steps", save_steps=2)
    rows = list(csv.DictReader(file.open()))
    assert [r["step"] for r in rows[::8]] == ["0", "1", "2", "3"] and {r["run"] for r in rows} == {"toy"} and list(rows[0])[0] == "run"
    assert all(math.isclose(float(r["max_logit"]), w["max_logit"], rel_tol=1e-3) for r, w in zip(rows[16:24], whole[8:]))
    # Ranks of DDP and of FSDP2, each with half of a step's documents, in two calls.
    torch.multiprocessing.start_processes(on_trainer_rank, (2, str(folder)), 2, start_method="spawn")
    for way in ("ddp", "fsdp2"):
        first, second = (json.loads((folder / f"{way}-{r}.json").read_text()) for r in (0, 1))
        assert alike(first, whole) and second == [], way
    # Weights & Biases and TensorBoard, where the Trainer reports to them.
    logged, real = [], sys.modules.get("wandb")
    sys.modules["wandb"] = types.SimpleNamespace(run=object(), log=logged.append)
    train(folder, qkgeom.TrainerCallback(2), report_to=["wandb"])
    train(folder, qkgeom.TrainerCallback(2))
    sys.modules["wandb"] = real
    assert [x.pop("train/global_step") for x in logged] == [0, 2] and logged[0] == scalars[0][1]
    if importlib.util.find_spec("tensorboard") is None:
        print("left out: scalars in TensorBoard, it is not here")
        return
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(folder / "board", qkgeom.TrainerCallback(2), report_to=["tensorboard"])
    events = EventAccumulator(str(folder / "board/runs/qkgeom"))
    events.Reload()
    assert sorted(events.Tags()["scalars"]) == sorted(scalars[0][1])
    for name, value in scalars[0][1].items():
        assert [(e.step, math.isclose(e.value, x, rel_tol=1e-6)) for e, x in zip(events.Scalars(name), (value, scalars[1][1][name]))] == [(0, True), (2, True)]


def on_rank(rank, ranks, folder, sharded):
    """Each rank gives its share of 6 documents: one per call in step 0, all in one call in step 1. sharded: FSDP2."""
    torch.set_num_threads(1)
    if ranks > 1:
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting-{ranks}-{sharded}", rank=rank, world_size=ranks)
    model, share = llama(attn_implementation="eager").train(), 6 // ranks
    if sharded:
        mesh = torch.distributed.init_device_mesh("cpu", (ranks,))
        for part in (*(layer.self_attn for layer in model.model.layers), *model.model.layers, model):
            torch.distributed.fsdp.fully_shard(part, mesh=mesh)
        with qkgeom.capture(model, pre_rope=True) as cap:
            model(documents(0)[:1])
        assert cap.open().heads().columns
    with qkgeom.Monitor(model, every=1, keys=8, to=f"{folder}/rows-{ranks}-{sharded}.csv") as monitor:
        for first in range(rank, 6, ranks):
            model(documents(0)[first:first + 1])
        assert len(monitor.step()) == (8 if rank == 0 else 0)
        model(documents(0)[rank * share:(rank + 1) * share])
        monitor.step()
        if rank != 1 and not sharded:  # a rank without a training call, and one of other lengths
            model(documents(0, 2, 128 - rank))
        assert len(monitor.step()) == (8 if rank == 0 and not sharded else 0) and (not monitor.skipped or rank == 0 and ranks == 3)
    os._exit(0)  # as on_trainer_rank


def check_ranks(folder):
    tables = []
    for ranks, sharded in ((1, False), (2, False), (3, False), (2, True)):
        torch.multiprocessing.start_processes(on_rank, (ranks, str(folder), sharded), ranks, start_method="spawn")
        tables.append(list(csv.DictReader((folder / f"rows-{ranks}-{sharded}.csv").open())))
    assert len(tables[0]) == 24
    for table in tables:
        assert table[:8] == tables[0][:8], "the numbers depend on the number of ranks"
        # The model's own products over batches of other sizes may round otherwise: f32, as in tests/capture/forward.
        for a, b in zip(tables[0][8:16], table[8:16], strict=True):
            assert all(a[n] == b[n] or math.isclose(float(a[n]), float(b[n]), rel_tol=1e-4) for n in a), (a, b)


def overhead():
    """Seconds of this process' threads, so that other processes matter little."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=512, hidden_size=256, intermediate_size=512, num_hidden_layers=4,
                                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512)
    model = transformers.LlamaForCausalLM(config).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    took = {True: [], False: []}
    with qkgeom.Monitor(model, every=3) as monitor:
        for step in range(3 * 12):
            x = torch.randint(0, 512, (4, 512))
            began = time.process_time()
            model(x, labels=x).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            watched = bool(monitor.step())
            took[watched].append(time.process_time() - began)
    plain, watched = (statistics.median(took[w][2:]) for w in (False, True))
    print(f"a step {plain:.2f} s, an observed one {watched:.2f} s of CPU: {100 * (watched - plain) / (100 * plain):.1f} % more with every=100")


if __name__ == "__main__":
    if "--overhead" in sys.argv:
        overhead()
        sys.exit()
    check_numbers("llama", llama())
    torch.manual_seed(0)
    check_numbers("windows and a soft cap", transformers.Gemma2ForCausalLM(transformers.Gemma2Config(
        **SMALL, sliding_window=40, attn_logit_softcapping=2.0, query_pre_attn_scalar=16)))
    check_numbers("sinks", transformers.GptOssForCausalLM(transformers.GptOssConfig(
        **SMALL, sliding_window=40, num_local_experts=2, num_experts_per_tok=1, rope_parameters={"rope_type": "default", "rope_theta": 1e4})))
    check_chunks()
    with tempfile.TemporaryDirectory() as scratch:
        check_explosion(pathlib.Path(scratch))
        check_file(pathlib.Path(scratch))
        check_training_alone(pathlib.Path(scratch))
        check_trainer(pathlib.Path(scratch))
        check_ranks(pathlib.Path(scratch))
