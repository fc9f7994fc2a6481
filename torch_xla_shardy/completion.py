"""Writes what completes the commands in a shell, from their parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
import re

from . import commands
from .parser import Parser, PROGRAM

_BASH = '''\
_torch_xla_shardy() {
  local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words=
  ((COMP_CWORD == 1)) && command=
  case $command in
%s
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [[ -n $command && $current != -* ]]; then
    local file
    while IFS= read -r file; do
      COMPREPLY+=("$file")
    done < <(compgen -f -- "$current")
  fi
}
complete -o filenames -F _torch_xla_shardy %s
'''
_ZSH = '''\
#compdef %s
_torch_xla_shardy() {
  if ((CURRENT == 2)); then
    local -a commands=(
%s
    )
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT--))
  case $command in
%s
  esac
}
compdef _torch_xla_shardy %s
'''


def run(parser: Parser, options: argparse.Namespace) -> int:
  """Prints the script; returns the exit status."""
  print({'bash': bash, 'zsh': zsh}[options.shell](), end='')
  return 0


def bash() -> str:
  """The script for bash."""
  cases = [f"    '') words='{' '.join([*commands.names(), '--help'])}' ;;"]
  for name in commands.names():
    words = [word for action in _actions(name) for word in _words(action)]
    cases.append(f"    {name}) words='{' '.join(words)}' ;;")
  return _BASH % ('\n'.join(cases), PROGRAM)


def zsh() -> str:
  """The script for zsh."""
  descriptions = [
      f'      {_quoted(f"{name}:{commands.summary(name)}")}'
      for name in commands.names()
  ]
  cases = []
  for name in commands.names():
    specs = [_quoted(spec) for a in _actions(name) for spec in _specs(a)]
    cases.append(f'    {name}) _arguments -S {" ".join(specs)} ;;')
  return _ZSH % (PROGRAM, '\n'.join(descriptions), '\n'.join(cases), PROGRAM)


def _actions(name: str) -> Iterator[argparse.Action]:
  return commands.parser(name).actions()


def _words(action: argparse.Action) -> list[str]:
  """The names of an option, or the values of an argument."""
  return [*action.option_strings] or [*map(str, action.choices or ())]


def _specs(action: argparse.Action) -> Iterator[str]:
  """The specifications for zsh's `_arguments`: '--json[help]:FILE:_files'."""
  values = f'({" ".join(map(str, action.choices))})' if action.choices else (
      '_files')
  if not action.option_strings:
    more = '*' if action.nargs == argparse.REMAINDER else ''
    yield f'{more}:{_plain(action.dest)}:{values}'
    return
  help = _plain((action.help or '') % {'default': action.default})
  names = action.metavar if isinstance(
      action.metavar, tuple) else (action.metavar or action.dest,)
  count = 0 if action.nargs == 0 else len(names)
  values_text = ''.join(f':{_plain(str(n))}:{values}' for n in names[:count])
  again = '*' if '_Append' in type(action).__name__ else ''
  for option in action.option_strings:
    yield f'{again}{option}[{help}]{values_text}'


def _plain(text: str) -> str:
  """The text with a backslash before what `_arguments` reads otherwise."""
  return re.sub(r'([\[\]:\\])', r'\\\1', ' '.join(text.split()))


def _quoted(text: str) -> str:
  return "'" + text.replace("'", "'\\''") + "'"
