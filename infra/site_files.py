"""The hook of mkdocs.yml that selects the files of the site.

Files keep the places that they have in the checkout, so that a link that holds
on a forge holds in the site: pages of docs/, what else the nav lists, and what
those link to. A page docs/reference/MODULE.md of the nav is made of docstrings.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File
from mkdocs.structure.files import Files

_REFERENCE = 'docs/reference/'
_LINK = re.compile(r'\]\(([^)\s#]+)[^)\s]*\)')
_CODE = re.compile(r'^```.*?^```$', re.DOTALL | re.MULTILINE)


def _listed(nav: Any) -> Iterator[str]:
  """The pages that a nav lists."""
  if isinstance(nav, str):
    yield nav
  elif isinstance(nav, (list, dict)):
    for entry in nav.values() if isinstance(nav, dict) else nav:
      yield from _listed(entry)


def _linked(page: Path, root: Path) -> Iterator[str]:
  """The files of the checkout that a page links to."""
  text = _CODE.sub('', page.read_text(encoding='utf-8'))
  for target in _LINK.findall(text):
    path = (page.parent / target).resolve()
    if path.is_file() and path.is_relative_to(root):
      yield path.relative_to(root).as_posix()


def on_files(files: Files, config: MkDocsConfig) -> Files:
  """Gives each file its place in the checkout, and adds those beyond docs/."""
  root = Path(config.config_file_path).resolve().parent
  names = {name for name in _listed(config.nav) if (root / name).is_file()}
  pages = []
  for file in files:
    if file.src_dir == config.docs_dir:
      names.add(f'docs/{file.src_uri}')
    else:
      pages.append(file)
  for name in sorted(names):
    if name.endswith('.md'):
      names.update(_linked(root / name, root))
  pages += [
      File.generated(config, name, abs_src_path=str(root / name))
      for name in sorted(names)
  ]
  for name in _listed(config.nav):
    if name.startswith(_REFERENCE):
      module = name.removeprefix(_REFERENCE).removesuffix('.md')
      pages.append(File.generated(config, name, content=f'::: {module}\n'))
  return Files(pages)
