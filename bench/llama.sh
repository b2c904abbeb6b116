#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# llama.sh LLAMA_BENCH GGUF [PROGRAM]
# qkgeom capture of all heads, rows written, beside the prefill of llama.cpp's own bench on the same files, taking turns: GGUF
# (examples/real_model.sh fetches SmolLM2-135M in Q4_1) as it is, and as llama-quantize, which lies beside LLAMA_BENCH, makes
# it F32, BF16 and Q8_0. Ours computes in f32 from F32, else in bf16. Prints CPU seconds of whole programs, reading of the model
# included, which other programs on the machine disturb less than the clock, and their peak memory; writes
# bench/results/llama-MODEL.json. PROGRAM [build/native/bin/qkgeom-capture]; TOKENS ["2048 8192"] of a document, two of 2048
# or one longer; ROUNDS [2]; THREADS [1]; ARGUMENTS ["-fa 0", the faster of its two ways of attention]: more of llama-bench's.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1-} in
  -h | --help) sed -n '3,9s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
esac
(($# >= 2)) || { sed -n '3,9s/^# //p' "${BASH_SOURCE[0]}" >&2; exit 2; }
program=${3:-$root/build/native/bin/qkgeom-capture}
[[ -x $program ]] || { echo "$program is not there: cmake --preset native && cmake --build --preset native" >&2; exit 2; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 - "$root" "$scratch" "$(realpath "$1")" "$(realpath "$2")" "$(realpath "$program")" <<'END'
import json, os, shutil, subprocess, sys
from pathlib import Path
root, scratch, bench, gguf, program = map(Path, sys.argv[1:])
threads = os.environ.get("THREADS", "1")
files = {kind: scratch / f"{kind}.gguf" for kind in ("F32", "BF16", "Q8_0")}
for kind, file in files.items():
    subprocess.run([bench.with_name("llama-quantize"), "--allow-requantize", gguf, file, kind], check=True, capture_output=True)
files[gguf.stem.rsplit(".", 1)[-1]] = gguf
text = "\n".join(json.loads(line)["text"] for line in open(root / "examples/data/kjv-smollm3/heldout.jsonl"))

def run(*command):
    """Runs a program; returns its output, CPU seconds and peak memory in MB."""
    with open(scratch / "out", "w+") as out, open(scratch / "log", "w+") as log:
        child = subprocess.Popen([str(word) for word in command], stdout=out, stderr=log)
        _, status, used = os.wait4(child.pid, 0)
        if status:
            sys.exit(f"{command[0]} failed: {log.seek(0) or log.read()}")
        return out.seek(0) or out.read(), {"cpu_s": used.ru_utime + used.ru_stime, "peak_rss_mb": used.ru_maxrss * 1024 / 1e6}

version, _ = run(program, "--version")
result = {"command": "bench/llama.sh", "qkgeom": version.strip(), "threads": int(threads), "load_average": os.getloadavg()[0]}
for tokens in map(int, os.environ.get("TOKENS", "2048 8192").split()):
    documents = max(1, 4096 // tokens)
    with open(scratch / "documents.jsonl", "w") as out:
        for i in range(documents):
            out.write(json.dumps({"id": str(i), "text": text[16 * tokens * i:16 * tokens * (i + 1)]}) + "\n")
    rounds = {kind: [] for kind in files}
    for _ in range(int(os.environ.get("ROUNDS", "2"))):
        for kind, file in files.items():
            said, theirs = run(bench, "-m", file, "-p", tokens, "-n", 0, "-r", documents, "--no-warmup", "-t", threads, "-o", "json",
                               *os.environ.get("ARGUMENTS", "-fa 0").split())
            shutil.rmtree(scratch / "capture", ignore_errors=True)
            done, ours = run(program, "--model", file, "--jsonl", scratch / "documents.jsonl", "--out", scratch / "capture",
                             "--heads", "all", "--bucket-size", 512, "--rate", 24, "--max-length", tokens, "--threads", threads,
                             "--dtype", "f32" if kind == "F32" else "bf16")
            if f"{documents} documents, {documents * tokens} tokens" not in done:
                sys.exit(f"a document is shorter than {tokens} tokens: {done}")
            rounds[kind].append((ours, theirs))
    result |= {"cpu": json.loads(said)[0]["cpu_info"], "llama_cpp": json.loads(said)[0]["build_commit"]}
    for kind, pairs in rounds.items():
        ours, theirs = ({key: min(p[side][key] for p in pairs) for key in ("cpu_s", "peak_rss_mb")} for side in (0, 1))
        result[f"{kind}-{tokens}"] = {
            "tokens": documents * tokens, "qkgeom_capture": ours, "llama_bench": theirs, "cpu_ratio": theirs["cpu_s"] / ours["cpu_s"],
            "cpu_ratio_of_each_round": [t["cpu_s"] / o["cpu_s"] for o, t in pairs]}
        print("%-5s %d x %d tokens  qkgeom capture %6.1f s of CPU, %4.0f MB   llama-bench %6.1f s, %4.0f MB   x %.2f" % (
            kind, documents, tokens, *ours.values(), *theirs.values(), theirs["cpu_s"] / ours["cpu_s"]), flush=True)
(root / f"bench/results/llama-{gguf.stem}.json").write_text(json.dumps(result, indent=1) + "\n")
END
