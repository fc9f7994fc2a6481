"""What README.md and docs/ say is so: examples run, outputs, names, links.

- All ```python blocks of a page run in one process, in order. It has eight CPU
  devices, and what `<!-- environment: NAME=VALUE ... -->` in the page adds.
- A block under `<!-- output -->` is what the python block before it prints.
- ```console blocks name modules, files and options that exist.
- ```toml blocks are TOML; ```text blocks are free.
"""

import ast
import dataclasses
import functools
from pathlib import Path
import re
import subprocess
import sys

from processes import clean_environment
import pytest

ROOT = Path(__file__).parents[1]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in (ROOT / 'README.md', *sorted((ROOT / 'docs').glob('*.md')))
}
_BLOCK = re.compile(
    r'^(?P<shown><!-- output -->\n)?```(?P<language>\w*)\n'
    r'(?P<text>.*?)^```$', re.DOTALL | re.MULTILINE)
_ENVIRONMENT = re.compile(r'<!-- environment: (.*?) -->')
_SECONDS = re.compile(r'\b\d+(\.\d+)? (ms|s)\b')
# Between the outputs of two blocks.
_SEPARATOR = '-- end of block --\n'
_LANGUAGES = {'python', 'console', 'text', 'toml'}
_PAGE_SECONDS = 240


@dataclasses.dataclass(frozen=True)
class Block:
  """A fenced block of a page.

  Attributes:
    is_output: whether it is what the python block before it prints.
  """
  language: str
  text: str
  is_output: bool


def blocks_of(page: str) -> list[Block]:
  return [
      Block(match['language'], match['text'], match['shown'] is not None)
      for match in _BLOCK.finditer(PAGES[page])
  ]


def outputs_of(page: str, directory: Path) -> list[str]:
  """What each python block of a page prints, all run in one process."""
  scripts = [b.text for b in blocks_of(page) if b.language == 'python']
  script = directory / 'page.py'
  script.write_text(''.join(
      f'{text}\nprint({_SEPARATOR!r}, end="", flush=True)\n'
      for text in scripts))
  variables = {'PJRT_DEVICE': 'CPU', 'CPU_NUM_DEVICES': '8'}
  for names in _ENVIRONMENT.findall(PAGES[page]):
    variables.update(entry.split('=', 1) for entry in names.split())
  done = subprocess.run([sys.executable, script.name],
                        cwd=directory,
                        env=clean_environment(**variables),
                        capture_output=True,
                        text=True,
                        timeout=_PAGE_SECONDS,
                        check=False)
  assert done.returncode == 0, f'{page}:\n{done.stdout}\n{done.stderr}'
  *outputs, rest = done.stdout.split(_SEPARATOR)
  assert (len(outputs), rest) == (len(scripts), ''), done.stdout
  return outputs


def comparable(text: str) -> list[str]:
  """Lines of output less times and trailing spaces."""
  return [
      _SECONDS.sub('# s', line.rstrip()) for line in text.strip().splitlines()
  ]


WITH_PYTHON = [
    page for page in PAGES
    if any(b.language == 'python' for b in blocks_of(page))
]


@pytest.mark.parametrize('page', WITH_PYTHON)
def test_python_runs_and_prints_what_is_shown(page, tmp_path):
  outputs = iter(outputs_of(page, tmp_path))
  output = None
  for block in blocks_of(page):
    if block.language == 'python':
      output = next(outputs)
    elif block.is_output:
      assert output is not None, 'an output without a python block before it'
      assert comparable(output) == comparable(block.text)


@pytest.mark.parametrize('page', PAGES)
def test_no_block_escapes(page):
  assert {b.language for b in blocks_of(page)} <= _LANGUAGES
  fences = re.findall(r'^\s*```', PAGES[page], re.MULTILINE)
  assert len(fences) == 2 * len(blocks_of(page))
  assert PAGES[page].count('<!-- output -->') == sum(
      b.is_output for b in blocks_of(page))


@pytest.mark.parametrize('page', PAGES)
def test_toml_is_toml(page):
  tomllib = pytest.importorskip('tomllib', reason='needs Python 3.11')
  for block in blocks_of(page):
    if block.language == 'toml':
      tomllib.loads(block.text)


@functools.lru_cache(maxsize=None)
def help_of(module: str, directory: Path) -> str:
  """What `python -m module --help` prints."""
  done = subprocess.run([sys.executable, '-m', module, '--help'],
                        cwd=directory,
                        env=clean_environment(PJRT_DEVICE='CPU'),
                        capture_output=True,
                        text=True,
                        timeout=_PAGE_SECONDS,
                        check=False)
  assert done.returncode == 0, done.stderr
  return done.stdout


def commands_of(page: str) -> list[str]:
  """The commands of a page's console blocks, each on one line."""
  lines = '\n'.join(
      b.text for b in blocks_of(page) if b.language == 'console').replace(
          '\\\n', ' ')
  return [line[2:] for line in lines.splitlines() if line.startswith('$ ')]


@pytest.mark.parametrize('page', [page for page in PAGES if commands_of(page)])
def test_commands_name_what_exists(page, tmp_path_factory):
  for command in commands_of(page):
    own = command.split(' -- ')[0]
    options = re.findall(r'(?<=\s)(--[a-z][\w-]*)', own)
    if module := re.search(r'python -m (torch_xla[\w.]*)', own):
      # Away from the checkout, whose torch_xla/ is only the overlay.
      text = help_of(module[1], tmp_path_factory.getbasetemp())
    elif module := re.search(r'python -m ([\w.]+)', own):
      if module[1] == 'pip':
        continue
      text = (ROOT / (module[1].replace('.', '/') + '.py')).read_text()
    elif script := re.search(r'(?:python|bash) (\S+/\S+|setup\.py)', own):
      text = (ROOT / script[1]).read_text()
    else:
      continue
    assert [o for o in options if o not in text] == [], command


@pytest.mark.parametrize('page', PAGES)
def test_scripts_exist(page):
  scripts = set(
      re.findall(r'\b(?:infra|benchmarks|examples|test)/[\w/]+\.(?:py|sh)',
                 PAGES[page]))
  assert [s for s in scripts if not (ROOT / s).is_file()] == []


def anchors_of(text: str) -> set[str]:
  """What links may name in a page: its headings, as they are turned to ids."""
  headings = re.findall(r'^#+ (.+)$', _BLOCK.sub('', text), re.MULTILINE)
  return {
      re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-')
      for heading in headings
  }


@pytest.mark.parametrize('page', PAGES)
def test_links_resolve(page):
  prose = _BLOCK.sub('', PAGES[page])
  folder = (ROOT / page).parent
  for target in re.findall(r'\]\(([^)\s]+)\)', prose):
    if target.startswith(('https://', 'http://')):
      continue
    name, _, anchor = target.partition('#')
    path = (folder / name).resolve() if name else ROOT / page
    assert path.exists(), target
    if anchor:
      assert anchor in anchors_of(path.read_text()), target


def test_index_lists_all_pages():
  linked = set(re.findall(r'\]\((\w+\.md)\)', PAGES['docs/README.md']))
  pages = {Path(page).name for page in PAGES if page.startswith('docs/')}
  assert linked == pages - {'README.md'}


def messages() -> str:
  """All text of the overlay's string literals; NUL for what is filled in."""
  found = []
  for path in sorted((ROOT / 'torch_xla').rglob('*.py')):
    for node in ast.walk(ast.parse(path.read_text())):
      if isinstance(node, ast.JoinedStr):
        found.append(''.join(
            part.value if isinstance(part, ast.Constant) else '\0'
            for part in node.values))
      elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        found.append(node.value)
  return '\n'.join(found)


def test_messages_in_headings_exist():
  known = messages()
  page = PAGES['docs/troubleshooting.md']
  headings = re.findall(r'^### .*`(.*)`$', page, re.MULTILINE)
  assert len(headings) > 10
  for heading in headings:
    for part in re.split(r'\.\.\.|\W+$', heading):
      assert part.strip(' ,:()') in known, heading
