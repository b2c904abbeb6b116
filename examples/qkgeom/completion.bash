# SPDX-License-Identifier: MIT
# Completes the commands of qkgeom, their options, and files.
_qkgeom() {
  local word=${COMP_WORDS[COMP_CWORD]}
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "$(qkgeom --commands)" -- "$word")
  elif [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(qkgeom "${COMP_WORDS[1]}" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+' | sort -u)" -- "$word")
  fi
}
complete -o default -F _qkgeom qkgeom
