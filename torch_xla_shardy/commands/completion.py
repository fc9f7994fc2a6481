"""Parses `completion`."""

from __future__ import annotations

from ..parser import Parser

SUMMARY = 'print what completes these commands in a shell'
DESCRIPTION = '''
Prints a script for a shell. In ~/.bashrc: eval "$(torch-xla-shardy completion
bash)". In ~/.zshrc, behind compinit: eval "$(torch-xla-shardy completion zsh)".
'''
IMPLEMENTATION = 'torch_xla_shardy.completion'


def add_options(parser: Parser) -> None:
  parser.add_argument('shell', choices=('bash', 'zsh'), help='which')
