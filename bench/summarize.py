#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Joins the JSON files of one bench run into one result file and prints the table of ratios. Called by bench/run.sh, and
with --gpu by tests/run_gpu.sh, where goals stand beside the results.

The best of all repetitions counts, for us, for the ceilings and for the baseline alike.
"""
import argparse
import glob
import json
import os
import sys

NOT_COUNTERS = {"name", "family_index", "per_family_instance_index", "run_name", "run_type", "repetitions", "repetition_index",
                "threads", "iterations", "real_time", "cpu_time", "time_unit", "aggregate_name", "aggregate_unit"}
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}

# What gpu_bench should reach on an H200: benchmark, counter, whether at least or at most, value, unit, what it is.
GPU_GOALS = (
    ("pairs/pooled/split_bf16/d:128", "pairs_per_s", "at least", 250e9, "pairs/s", "f32-faithful pairs at d = 128"),
    ("pooled_profiles/300_heads", "best_s", "at most", 0.3, "s", "profiles of 300 pooled heads"),
    ("model/same_example/device", "best_s", "at most", 0.15, "s", "a whole model, same-example pairs, from device memory"),
    ("pairs/every_key/split_bf16/d:128", "seconds_of_300_heads", "at most", 60, "s", "300 heads x 16 buckets, every key of 131072"),
)


def plain(name):
    """A benchmark's name without what only tells how it was repeated."""
    drop = ("min_time:", "iterations:", "repeats:", "real_time", "process_time", "manual_time")
    return "/".join(p for p in name.split("/") if not p.startswith(drop))


def read_json(path):
    """Nothing where there is no file; of a list that was cut short, what is complete."""
    if not os.path.exists(path):
        return {}
    with open(path) as f:
        text = f.read()
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(text[:text.rindex("}") + 1] + "]}")


def read_benches(folder):
    """Best repetition of every benchmark by name: seconds and counters."""
    best = {}
    for path in sorted(glob.glob(os.path.join(folder, "*_bench*.json"))):
        for run in read_json(path)["benchmarks"]:
            if run.get("run_type") != "iteration" or "error_occurred" in run:
                continue
            counters = {k: v for k, v in run.items() if k not in NOT_COUNTERS}
            scale = SECONDS[run["time_unit"]]
            entry = {"seconds": run["real_time"] * scale, "cpu_seconds": run["cpu_time"] * scale, **counters}
            name = plain(run["name"])
            if "ceilings" in os.path.basename(path):  # measured before the benchmark ran, which only reports
                entry = counters
            rate = next((k for k in ("pairs_per_s", "flop_per_s", "bytes_per_s", "matrices_per_s") if k in entry), None)
            better = name not in best or (entry[rate] > best[name][rate] if rate else entry["seconds"] < best[name]["seconds"])
            if better:
                best[name] = entry
    return best


def best_gemm(benches, kind, threads):
    rates = {n: b["flop_per_s"] for n, b in benches.items() if n.startswith(kind + "/") and n.endswith(f"threads:{threads}")}
    name = max(rates, key=rates.get)
    return name.split("/")[1], rates[name]


def against_ceilings(benches):
    """Shares of the best GEMM of the whole run, which is at least what a bench saw when it ran."""
    rows = []
    for name, b in benches.items():
        fields = dict(p.split(":", 1) for p in name.split("/") if ":" in p)
        if "d" not in fields or "threads" not in fields:
            continue
        d, threads = int(fields["d"]), fields["threads"]
        if "share_of_gemm" in b:
            kind = "dgemm" if "f64" in name else "sgemm"
            b["share_of_gemm"] = b["pairs_per_s"] * 2 * d / best_gemm(benches, kind, threads)[1]
            rows.append((name, f"{b['pairs_per_s'] / 1e6:8.1f} M pairs/s", f"{b['share_of_gemm']:5.2f} of best {kind} / 2d"))
        elif "share_of_dgemm" in b:
            b["share_of_dgemm"] = b["flop_per_s"] / best_gemm(benches, "dgemm", threads)[1]
            b["share_of_copy"] = b["bytes_per_s"] / benches[f"copy/threads:{threads}"]["bytes_per_s"]
            rows.append((name, f"{b['bytes_per_s'] / 1e9:8.2f} GB/s",
                         f"{b['share_of_dgemm']:5.2f} of best dgemm, {b['share_of_copy']:.3f} of copy"))
        elif "matrices_per_s" in b:
            rows.append((name, f"{b['matrices_per_s']:8.0f} matrices/s", ""))
        elif "pairs_per_s" in b:
            rows.append((name, f"{b['pairs_per_s'] / 1e6:8.1f} M pairs/s", ""))
    return rows


def read_baseline(folder, style):
    """Fastest round of each query model, whatever the number of BLAS threads."""
    rounds = []
    for path in sorted(glob.glob(os.path.join(folder, f"numpy-{style}-*.json"))):
        with open(path) as f:
            rounds.append(json.load(f))
    fastest = {kind: min((r[kind] for r in rounds), key=lambda s: s["median_s_a_head"]) for kind in ("diagonal", "joint")}
    least_cpu = {kind: min(r[kind]["cpu_s_a_head"] for r in rounds) for kind in fastest}
    return {"largest_difference": max(r["largest_difference"] for r in rounds), "fastest": fastest, "least_cpu_s_a_head": least_cpu}


def against_baselines(benches, baselines):
    rows, ratios = [], {}
    for name, b in benches.items():
        if not name.startswith("whole_model/"):
            continue
        _, kind, threads = name.split("/")
        ours, ours_cpu = b["seconds"] / b["heads"], b["cpu_seconds"] / b["heads"]
        note = f"{ours * 1e3:6.2f} ms a head (CPU {ours_cpu * 1e3:.2f})"
        for style, baseline in baselines.items():
            theirs, theirs_cpu = baseline["fastest"][kind]["median_s_a_head"], baseline["least_cpu_s_a_head"][kind]
            ratios[f"{kind}/{threads}/{style}"] = {"time": theirs / ours, "cpu_time": theirs_cpu / ours_cpu}
            note += f"; {style} NumPy {theirs * 1e3:.1f}: x {theirs / ours:.1f} (CPU x {theirs_cpu / ours_cpu:.1f})"
        rows.append((name, f"{b['seconds']:8.2f} s", note))
    return rows, ratios


def gpu_rows(benches):
    units = (("pairs_per_s", 1e9, "G pairs/s"), ("flop_per_s", 1e12, "TFLOP/s"), ("rows_per_s", 1e6, "M rows/s"),
             ("matrices_per_s", 1, "matrices/s"), ("bytes_per_s", 1e9, "GB/s"))
    for name, b in benches.items():
        rate = next((f"{b[k] / scale:9.1f} {unit}" for k, scale, unit in units if k in b), "")
        seconds = f"{b['best_s'] * 1e3:9.2f} ms" if "best_s" in b else ""
        notes = [f"{b[k]:.3f} of {k[9:]}" for k in b if k.startswith("share_of_")]
        notes += [f"{k[:-2]} {b[k] * 1e3:.1f} ms" for k in b if k.endswith("_s") and k.count("_per_") == 0 and k not in ("best_s", "median_s")]
        notes += [f"{b[k]:.1f} s for 300 heads" for k in ("seconds_of_300_heads",) if b.get("heads", 300) != 300 and k in b]
        yield name, f"{seconds:>12}  {rate:>22}", ", ".join(notes)


def gpu_goals(benches, prefill):
    """(what, goal, value or none, met or none) of every goal."""
    for name, counter, which, goal, unit, what in GPU_GOALS:
        value = benches.get(name, {}).get(counter)
        met = None if value is None else value >= goal if which == "at least" else value <= goal
        yield {"what": what, "goal": f"{which} {goal:g} {unit}", "value": value, "met": met}
    for shape in ("qwen3-0.6b", "llama-3.1-8b", "ministral-3-14b"):
        for tokens in ("32768", "131072"):
            ours = [r for who, r in prefill.get(shape, {}).get(tokens, {}).items() if who != "transformers"]
            for key, which, goal, what in (("speed_ratio", max, 1.0, "speed"), ("memory_ratio", min, 0.5, "peak memory")):
                found = [r[key] for r in ours if r.get(key)]
                value = which(found) if found else None
                met = None if value is None else value >= goal if which is max else value <= goal
                yield {"what": f"prefill of {shape}, {tokens} tokens: {what} over transformers'",
                       "goal": f"{'at least' if which is max else 'at most'} {goal:g}", "value": value, "met": met}


def summarize_gpu(args):
    """What this run did not measure stays as the result file has it. Exit status 1 if a benchmark failed."""
    result = read_json(args.target)
    runs = [r for path in sorted(glob.glob(os.path.join(args.folder, "gpu_bench*.json"))) for r in read_json(path).get("benchmarks", [])]
    errors = {plain(r["name"]): r["error_message"] for r in runs if r.get("error_occurred")}
    result.update(command=args.command, gpu=args.gpu)
    measured = read_benches(args.folder)
    result.setdefault("benchmarks", {}).update(measured)
    result["errors"] = {name: why for name, why in result.get("errors", {}).items() if name not in measured} | errors
    for shape, lengths in read_json(os.path.join(args.folder, "prefill.json")).items():
        result.setdefault("prefill", {}).setdefault(shape, {}).update(lengths)
    result["goals"] = list(gpu_goals(result.get("benchmarks", {}), result.get("prefill", {})))
    print_table(list(gpu_rows(result.get("benchmarks", {}))))
    for g in result["goals"]:
        value = "not measured" if g["value"] is None else f"{g['value']:.4g}  {'met' if g['met'] else 'NOT MET'}"
        print(f"goal: {g['what']}: {g['goal']}: {value}")
    for name, message in errors.items():
        print(f"FAILED {name}: {message}")
    write_result(args.target, result)
    return 1 if errors else 0


def print_table(rows):
    width = max((len(r[0]) for r in rows), default=0)
    for name, rate, note in rows:
        print(f"{name:{width}}  {rate}  {note}".rstrip())


def write_result(target, result):
    with open(target, "w") as f:
        json.dump(result, f, indent=1)
        f.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("target")
    parser.add_argument("--command", required=True)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--cpu")
    where.add_argument("--gpu", help="name of the card, whose gpu_bench*.json and prefill.json FOLDER may hold")
    parser.add_argument("--load", default="nan", help="processes that ran or waited when the run began, as /proc/loadavg has it")
    args = parser.parse_args()
    if args.gpu:
        return summarize_gpu(args)
    benches = read_benches(args.folder)
    baselines = {style: read_baseline(args.folder, style) for style in ("plain", "tuned")}
    rows = [(n, f"{b['flop_per_s'] / 1e9:8.1f} GFLOP/s", "") for n, b in benches.items() if n.startswith(("sgemm/", "dgemm/"))]
    rows += [(n, f"{b['bytes_per_s'] / 1e9:8.1f} GB/s   ", "read + written") for n, b in benches.items() if n.startswith("copy/")]
    rows += against_ceilings(benches)
    whole, ratios = against_baselines(benches, baselines)
    rows += whole
    print_table(rows)
    result = {"command": args.command, "cpu": args.cpu, "load_average_at_the_start": float(args.load),
              "numpy_over_ours": ratios, "numpy": baselines, "benchmarks": benches}
    write_result(args.target, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
