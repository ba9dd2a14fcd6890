# complete.zsh SCRIPT OUTPUT LINE: the words that SCRIPT completes behind LINE in an interactive zsh, a line each in OUTPUT. The shell runs
# in a pseudo-terminal (zsh/zpty) and sees the key that completes; every word on offer passes compadd.
if [[ -z $inner ]]; then
  zmodload zsh/zpty || exit 3
  export inner=yes script=$1 output=$2
  : > $output
  zpty shell 'zsh -f -i'
  zpty -w shell "source ${(q)0:A}"
  while zpty -r shell line; do [[ $line == *READY* ]] && break; done
  zpty -w -n shell "$3"$'\t'
  while zpty -r shell line; do :; done
  return 0
fi

autoload -Uz compinit && compinit -u -D
source $script
zstyle ':completion:*' completer _complete
compadd() {
  # -O, -A and -D ask what would be added.
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
    builtin compadd "$@"
    return
  fi
  local -a offered
  builtin compadd -A offered "$@"
  local word
  for word in $offered; do print -r -- "$IPREFIX$word" >> $output; done
  builtin compadd "$@"
}
finish() { exit }
comppostfuncs=(finish)
bindkey '^I' complete-word
print RE''ADY
