# SPDX-License-Identifier: MIT
# Completes the commands of qkgeom, their options, and files.
_qkgeom() {
  local word=${COMP_WORDS[COMP_CWORD]}
  if ((COMP_CWORD == 1)) || [[ $COMP_CWORD == 2 && ${COMP_WORDS[1]} == help ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" --commands 2>/dev/null)" -- "$word")
  elif [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" "${COMP_WORDS[1]}" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+' | sort -u)" -- "$word")
  fi
}
complete -o default -F _qkgeom qkgeom
