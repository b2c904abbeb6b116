#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The page of report: complete, self-contained, with the right verdict, whatever the names of model and documents.
set -uo pipefail
source "$QKGEOM_SOURCE/tests/examples/common.sh"
page() { run report "${@:2}" --out "$work/$1"; } # OUT ARGUMENTS...
fails() { refused "$1" report "${@:2}" --out "$work/x"; }
check() { python3 -B "$QKGEOM_SOURCE/tests/examples/report_check.py" "$1" 2>&1; }
says() { # WORDS OUT: the page passes the check, and its verdict begins with WORDS
  local found
  found=$(check "$work/$2") || bad "$2: $found"
  [[ $found == "$1"* ]] || bad "$2 does not say '$1': $found"
  grep -qF -- "  $1" "$work/stdout" || bad "$2: '$1' is not printed"
}

page below "$golden/long-f32.safetensors" --covariance linear_drift,joint,empirical
says "Met: AP_drop is 0.017" below
page near "$golden/long-f32.safetensors" --covariance joint
says "Cannot be said: AP_drop is 0.085" near
cat >"$work/others.csv" <<'END'
name,score,drop
"steep <i>& high</i>",40,0.2
flat,20,0.05
no score,,0.05
middle,31.5,0.1
END
page above "$golden/long-bf16.safetensors" --covariance joint --score 30 --score-name "It's <b>" --others "$work/others.csv" --others-columns name,drop,score
says "Not met: AP_drop is 0.145" above
page=$work/above/report.html
grep -qE '[0-9.]+ of the [0-9 ]+ tokens of each bucket \(probability [0-9.]+\)' "$page" || bad "no word on how tokens were drawn"
grep -qF 'A score of 30.00 is below the others&#39; median of 31.50; with AP_drop above the target' "$page" || bad "no quadrant in words"
[[ $(grep -o "id=['\"]quadrant-" "$page" | wc -l) -gt 5 ]] || bad "no quadrant as a figure"
grep -qF "&#39;It&#39;\\&#39;&#39;s &lt;b&gt;&#39;" "$page" || bad "the command is not as a shell reads it"
# The notes hold the settings.
page settings "$golden/short-bf16.safetensors" --covariance full --pairs sampled:50 --seed 7 --query-position mean --bucket-size 64 --low 0.2 --bias-scale 5
says "Cannot be said" settings
for words in 'qkgeom</dt><dd>version ' '<dd>full; ' '<dd>8 of 64 tokens' 'sampled:50 (drawn pairs' 'Seed of draws</dt><dd>7<' '<dd>mean<' 'below 0.20 does' 'context in logits -5 to 5,'; do
  grep -qF -- "$words" "$work/settings/report.html" || bad "the notes do not say '$words'"
done

PATH=/nowhere run report "$golden/short-bf16.safetensors" --out "$work/undrawn"
grep -q 'None: gnuplot was not installed' "$work/undrawn/report.html" || bad "a page without figures does not say why"
[[ -z $(find "$work/undrawn" -name '*.svg') ]] || bad "figures without gnuplot"

# Names from a capture appear as text, even if they look like markup. A single file holds its manifest in its header.
cat >"$work/rename.py" <<'END'
import json, struct, sys
source, target, name, document = sys.argv[1:]
data = open(source, "rb").read()
(size,) = struct.unpack("<Q", data[:8])
header = json.loads(data[8:8 + size])
manifest = json.loads(header["__metadata__"]["qkgeom"])
manifest["model"]["name"] = name
manifest["examples"] = [{"index": i, "id": document, "tokens": 8192} for i in range(3)]
manifest["revision"] = manifest["written_by"] = manifest["bold"] = document
header["__metadata__"]["qkgeom"] = json.dumps(manifest)
text = json.dumps(header).encode()
text += b" " * (-len(text) % 64)
open(target, "wb").write(struct.pack("<Q", len(text)) + text + data[8 + size:])
END
name="</title><script>alert('1')</script>]]>\"&: {x}" document="--><img src='x' onerror=alert(2)> é"
python3 -B "$work/rename.py" "$golden/long-f32.safetensors" "$work/named.safetensors" "$name" "$document" || bad "rename.py"
page named "$work/named.safetensors" --covariance diagonal
says "Cannot be said" named
[[ $(grep -o '<script' "$work/named/report.html" | wc -l) == 2 ]] || bad "a name became a script"
python3 -B - "$work/named/report.html" "$name" "$document" <<'END' || bad "a name does not read as it was given"
import sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
h1 = "".join(next(root.iter("h1")).itertext())
cells = ["".join(e.itertext()) for e in root.iter("th")]
texts = ["".join(e.itertext()) for e in root.iter("text")]
sys.exit(not (h1.startswith(sys.argv[2]) and sys.argv[3] in cells and any(sys.argv[2] in t for t in texts)))
END

# Several captures of one model make one report, which names each.
fails "differs from that of" "$golden/long-f32.safetensors" "$work/named.safetensors"
cp "$golden/long-f32.safetensors" "$work/again.safetensors"
page twice "$golden/long-f32.safetensors" "$work/again.safetensors" --covariance diagonal
says "Met" twice
[[ $(grep -c '<h3>Capture ' "$work/twice/report.html") == 2 ]] || bad "not both captures are named"

# The check finds faults.
finds() { # WORDS SED: the check refuses the page changed by SED, with WORDS
  rm -rf "$work/changed"
  cp -r "$work/below" "$work/changed"
  sed -i "$2" "$work/changed/report.html"
  cmp -s "$work/below/report.html" "$work/changed/report.html" && bad "$2 changes nothing"
  [[ $(check "$work/changed") == *"$1"* ]] || bad "not found: $1"
}
finds "ids given twice" 's/id="qk_scatter-gpDot"/id="profile-gpDot"/; s/id=.qk_scatter-gpDot./id="profile-gpDot"/'
finds "<img>" 's/<main>/<main><img src="x.png"\/>/'
finds "rows" '/<th scope="row" class="words" data-value="1">/d'
finds "AP_drop" 's/Met: AP_drop is/Not met: AP_drop is/'
finds "the map has" 's/<a href="#head-[0-9.]*" style/<a href="#notes" style/'
finds "profile of" 's/"profiles":{"\([a-z_]*\)":\[\[\([0-9.]*\),0/"profiles":{"\1":[[\2,9/'

# A browser, where there is one, opens the head that the address names, wide and narrow.
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
head=$(grep -o 'href="#head-[0-9.]*' "$work/below/report.html" | tail -1)
for width in 1300 420; do
  [[ -n $browser ]] || { echo "no browser here: the page's script did not run"; break; }
  "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/browser" --window-size=$width,900 --dump-dom \
    "file://$(realpath "$work/below/report.html")#view-${head#*head-}" >"$work/dom" 2>/dev/null || bad "the browser ended with $?"
  grep -q "<h2>Head ${head#*head-}</h2>" "$work/dom" || bad "at $width px ${head#*head-} does not open"
  [[ $(grep -o '<svg viewBox="0 0 420 270"' "$work/dom" | wc -l) == 3 ]] || bad "at $width px it lacks a picture"
done

fails --others "$golden/long-f32.safetensors" --score 3
fails "is not the capture of an untrained model" "$golden/long-f32.safetensors" --untrained "$golden/long-f32.safetensors"
fails --score "$golden/long-f32.safetensors" --others "$work/others.csv"
fails "no column model; --others-columns names those of model, AP_drop and score among name, score, drop" "$golden/long-f32.safetensors" --score 3 --others "$work/others.csv"
fails --others-columns "$golden/long-f32.safetensors" --score 3 --others "$work/others.csv" --others-columns name,drop
fails --bias-scale "$golden/long-f32.safetensors" --bias-scale 0
