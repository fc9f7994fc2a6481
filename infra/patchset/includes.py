"""Merges #include lines, which upstream has sorted anew from 2.10 on."""

from pathlib import Path
import re
import subprocess

from infra.patchset.style import find_clang_format

_CONFLICT = re.compile(
    r'<<<<<<< .*\n((?:.*\n)*?)\|{7} .*\n((?:.*\n)*?)=======\n((?:.*\n)*?)'
    r'>>>>>>> .*\n')


def merge(tree: Path, path: str) -> bool:
  """Resolves the conflicts of a file where they are of #include lines alone.

  Args:
    tree: a work tree, with upstream's .clang-format.
    path: of a file with git's markers in the style diff3.

  Returns:
    Whether all of its conflicts are resolved; if not, the file is unchanged.
  """
  file = tree / path
  text = file.read_text(encoding='utf-8')
  conflicts = _CONFLICT.findall(text)
  lines = [line for c in conflicts for side in c for line in side.splitlines()]
  if not conflicts or any(
      line and not line.startswith('#include ') for line in lines):
    return False
  text = _CONFLICT.sub(_merged, text)
  file.write_text(text, encoding='utf-8')
  last = max(number for number, line in enumerate(text.splitlines(), 1)
             if line.startswith('#include '))
  subprocess.run([
      find_clang_format(), '--style=file', f'--lines=1:{last}', '-i',
      str(file)
  ],
                 cwd=tree,
                 check=True)
  return True


def _merged(conflict: re.Match[str]) -> str:
  ours, base, theirs = (side.splitlines(True) for side in conflict.groups())
  removed = {line for line in base if line not in theirs}
  added = [line for line in theirs if line not in base]
  return ''.join([line for line in ours if line not in removed] + added)
