"""What README.md and docs/ say is so: examples run, outputs, names, links.

- All ```python blocks of a page run in one process, in order. It has eight CPU
  devices, and what `<!-- environment: NAME=VALUE ... -->` in the page adds.
- A block under `<!-- output -->` is what the block before it prints: a python
  block, or a ```console block, which is then run by bash, in order, in a folder
  with the repository's `examples`. A line `...` stands for any lines; the rest is
  compared without times and the width of columns.
- ```console blocks name modules, files and options that exist.
- ```toml blocks are TOML; ```text blocks are free.
"""

import ast
import dataclasses
import os
from pathlib import Path
import re
import runpy
import subprocess
import sys

import environments
from processes import clean_environment
import pytest
from torch_xla.shardy.rewrite import pipeline
from torch_xla_shardy import commands

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
_LEFT_OUT = '...'
_CPU = environments.DEVICES
_COMMAND_SECONDS = 240


@dataclasses.dataclass(frozen=True)
class Block:
  """A fenced block of a page.

  Attributes:
    is_output: whether it is what the block before it prints.
  """
  language: str
  text: str
  is_output: bool


def blocks_of(page: str) -> list[Block]:
  return [
      Block(match['language'], match['text'], match['shown'] is not None)
      for match in _BLOCK.finditer(PAGES[page])
  ]


def outputs_of(page: str, directory: Path,
               capfd: pytest.CaptureFixture) -> list[str]:
  """What each python block of a page prints, run in this process as a script.
  """
  scripts = [b.text for b in blocks_of(page) if b.language == 'python']
  script = directory / 'page.py'
  script.write_text(''.join(
      f'{text}\nprint({_SEPARATOR!r}, end="", flush=True)\n'
      for text in scripts))
  capfd.readouterr()
  runpy.run_path(str(script), run_name='__main__')
  printed = capfd.readouterr().out
  *outputs, rest = printed.split(_SEPARATOR)
  assert (len(outputs), rest) == (len(scripts), ''), printed
  return outputs


def comparable(text: str) -> list[str]:
  """Lines of output less times and trailing spaces."""
  return [
      _SECONDS.sub('# s', line.rstrip()) for line in text.strip().splitlines()
  ]


def environment_of(page: str) -> dict[str, str]:
  """The variables that a page's python blocks run with."""
  added = ' '.join(_ENVIRONMENT.findall(PAGES[page])).split()
  return {**_CPU, **dict(entry.split('=', 1) for entry in added)}


def marks_of(page: str) -> list[pytest.MarkDecorator]:
  """The marks of an example: a process of its own; core where it is quick."""
  environment = environment_of(page)
  # What Shardy partitions takes longest to compile.
  slow = [pytest.mark.slow] if 'XLA_USE_SHARDY' in environment else []
  return [pytest.mark.environment(**environment), *slow]


@pytest.mark.parametrize('page', [
    pytest.param(page, id=page, marks=marks_of(page))
    for page in PAGES
    if any(b.language == 'python' for b in blocks_of(page))
])
def test_python_runs_and_prints_what_is_shown(page, tmp_path, monkeypatch,
                                              capfd):
  monkeypatch.chdir(tmp_path)
  outputs = iter(outputs_of(page, tmp_path, capfd))
  output = None
  for block in blocks_of(page):
    if block.language == 'python':
      output = next(outputs)
    elif block.language == 'console':
      output = None
    elif block.is_output and output is not None:
      assert shows(block.text, output), output


def sessions_of(page: str) -> list[tuple[str, str]]:
  """The console blocks that have an output: (commands, output) of each."""
  blocks = blocks_of(page)
  return [(before.text, block.text)
          for before, block in zip(blocks, blocks[1:])
          if block.is_output and before.language == 'console']


def shows(shown: str, printed: str) -> bool:
  """Whether `printed` is `shown`, where a line '...' stands for any lines."""
  shown, printed = (''.join(f'{" ".join(line.split())}\n'
                            for line in comparable(text))
                    for text in (shown, printed))
  pattern = ''.join('(?:.*\n)*?' if line == _LEFT_OUT else re.escape(line) +
                    '\n' for line in shown.splitlines())
  return re.fullmatch(pattern, printed) is not None


@pytest.mark.nightly
@pytest.mark.parametrize('page', [page for page in PAGES if sessions_of(page)])
def test_commands_print_what_is_shown(page, tmp_path):
  for name in ('examples', 'infra', 'setup.py'):
    (tmp_path / name).symlink_to(ROOT / name)
  python = Path(sys.executable).parent
  for session, output in sessions_of(page):
    script = ''.join(line[2:] if line.startswith('$ ') else line
                     for line in session.splitlines(keepends=True))
    done = subprocess.run(['bash', '-c', script],
                          cwd=tmp_path,
                          env=clean_environment(
                              PATH=f'{python}:{os.environ["PATH"]}',
                              PYTHONUNBUFFERED='1'),
                          stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT,
                          text=True,
                          timeout=_COMMAND_SECONDS,
                          check=False)
    assert shows(output, done.stdout), done.stdout


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


def commands_of(page: str) -> list[str]:
  """The commands of a page's console blocks, each on one line."""
  lines = '\n'.join(
      b.text for b in blocks_of(page) if b.language == 'console').replace(
          '\\\n', ' ')
  return [line[2:] for line in lines.splitlines() if line.startswith('$ ')]


@pytest.mark.parametrize('page', [page for page in PAGES if commands_of(page)])
def test_commands_name_what_exists(page):
  for command in commands_of(page):
    # What a page calls train.py is the reader's, and so are its arguments.
    own = command.split(' train.py ')[0]
    options = re.findall(r'(?<=\s)(--[a-z][\w-]*)', own)
    if re.search(r'torch-xla-behaviour\b', own):
      text = (ROOT / 'behaviour/conftest.py').read_text() + '--junitxml'
    elif name := re.search(r'torch-xla-(?:shardy )?(?!shardy)(\w+)', own):
      text = commands.parser(name[1]).format_help()
      for script in re.findall(r'\b(?:examples|benchmarks)/\S+\.py', own):
        text += (ROOT / script).read_text()
    elif module := re.search(r'python -m ([\w.]+)', own):
      if module[1] == 'pip':
        continue
      path = ROOT / module[1].replace('.', '/')
      text = (path / '__main__.py'
              if path.is_dir() else path.with_suffix('.py')).read_text()
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
  linked = set(re.findall(r'\]\(([\w-]+\.md)\)', PAGES['docs/README.md']))
  pages = {Path(page).name for page in PAGES if page.startswith('docs/')}
  assert linked == pages - {'README.md'}


def constants_of(module: ast.Module) -> dict[str, str]:
  """The texts that a module gives names to, by name."""
  pairs = []
  for node in module.body:
    if not isinstance(node, ast.Assign):
      continue
    target, value = node.targets[0], node.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
      pairs += zip(target.elts, value.elts)
    else:
      pairs.append((target, value))
  return {
      target.id: value.value
      for target, value in pairs
      if isinstance(target, ast.Name) and isinstance(value, ast.Constant)
  }


def messages() -> str:
  """All text of the overlay's string literals, and of the patches.

  NUL stands for what is filled in.
  """
  found = [path.read_text() for path in ROOT.glob('patches/**/*.patch')]
  for path in sorted(ROOT.glob('torch_xla*/**/*.py')):
    module = ast.parse(path.read_text())
    constants = constants_of(module)

    def text_of(part: ast.expr) -> str:
      if isinstance(part, ast.Constant):
        return part.value
      return str(constants.get(getattr(part.value, 'id', ''), '\0'))

    for node in ast.walk(module):
      if isinstance(node, ast.JoinedStr):
        found.append(''.join(map(text_of, node.values)))
      elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        found.append(node.value)
  return '\n'.join(found)


def test_messages_that_are_explained_exist():
  known = messages()
  page = PAGES['docs/troubleshooting.md']
  headings = re.findall(r'^(?:###|-) .*`([^`]+)`:?$', page, re.MULTILINE)
  assert len(headings) > 30
  for heading in headings:
    for part in re.split(r'\.\.\.|\W+$', heading):
      assert part.strip(' ,:()') in known, heading


def test_rewrites_are_listed():
  _, section = PAGES['docs/stablehlo.md'].split('## What is rewritten\n')
  optional, always = (
      re.findall(r'^\| `(\w+)` \|', table, re.MULTILINE)
      for table in section.split('\n## ')[0].split('rewrites(self)'))
  assert optional == list(pipeline.FOR_SHARDINGS)
  assert sorted(always) == sorted(pipeline.ALWAYS)
