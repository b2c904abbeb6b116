# SPDX-License-Identifier: MIT
# Markdown as Doxygen reads it: $$ formulas $$ and $formulas$ under its own commands, code left alone. Its line breaks stay.
/^ *```/ { code = !code }
{
  if (code || /^ *```/) { print; next }
  line = $0
  out = ""
  while (match(line, /`[^`]*`|\$\$|\$/)) {
    token = substr(line, RSTART, RLENGTH)
    if (token == "$$") { token = (display = !display) ? "\\f[" : "\\f]" }
    else if (token == "$") { token = "\\f$" }
    out = out substr(line, 1, RSTART - 1) token
    line = substr(line, RSTART + RLENGTH)
  }
  print out line
}
