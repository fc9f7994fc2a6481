"""The pages as a site: it builds, lacks nothing, and fetches nothing."""

import ast
import json
from pathlib import Path
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow
_ROOT = Path(__file__).parents[1]
# What a browser would fetch by itself.
_FETCHED = re.compile(
    r'<(?:script|img|iframe|link)[^>]*(?:src|href)="?https?:|url\(["\']?https?:'
)


def _build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
  return subprocess.run([
      sys.executable, '-m', 'mkdocs', 'build', '--strict', '--config-file',
      str(config), '--site-dir',
      str(site)
  ],
                        capture_output=True,
                        text=True,
                        check=False)


@pytest.fixture(scope='module')
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
  folder = tmp_path_factory.mktemp('site')
  done = _build(_ROOT / 'mkdocs.yml', folder)
  assert done.returncode == 0, done.stderr
  return folder


def _exported(module: str) -> set[str]:
  """The names in a module's `__all__`."""
  path = _ROOT.joinpath(*module.split('.'), '__init__.py')
  for node in ast.parse(path.read_text()).body:
    if isinstance(node, ast.Assign) and ast.unparse(node.targets) == '__all__':
      return set(ast.literal_eval(node.value))
  return set()


def test_the_reference_has_each_public_name_that_is_documented(
    site: Path) -> None:
  pages = sorted((site / 'docs/reference').glob('*.html'))
  assert len(pages) == 8
  for page in pages:
    module = page.stem
    shown = set(
        re.findall(rf'id="{re.escape(module)}\.(\w+)"', page.read_text()))
    undocumented = _exported(module) - shown
    assert undocumented <= {'REPLICATED', 'Compiler', 'Wrapper'}, module
    assert shown, module


def test_the_search_knows_every_page(site: Path) -> None:
  index = json.loads((site / 'search/search_index.json').read_text())
  found = {entry['location'].partition('#')[0] for entry in index['docs']}
  pages = {f'docs/{path.stem}.html' for path in (_ROOT / 'docs').glob('*.md')}
  assert pages - {'docs/README.html'} <= found
  assert {'index.html', 'CONTRIBUTING.html', 'docs/index.html'} <= found


def test_a_page_fetches_nothing_from_elsewhere(site: Path) -> None:
  for path in (*site.rglob('*.html'), *site.rglob('*.css')):
    assert not _FETCHED.search(path.read_text()), path
