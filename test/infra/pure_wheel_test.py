"""Wheels of Python alone, which take files from where the checkout has them."""

from pathlib import Path
import sys
import zipfile

from infra_project import output_of, ROOT
import pytest

from infra import develop
from infra.errors import BuildError
from infra.wheel import __main__ as command
from infra.wheel import pins
from infra.wheel.pure_wheel import build_pure_wheel, files_of, PureWheel
from infra.wheel.tools import TOOLS
from infra.wheel.verify import verify_pure_wheel

WHEEL = PureWheel(
    'torch-xla-tool',
    'A tool.',
    'docs/tool.md', ('numpy',), {
        'torch_xla_tool': 'tool',
        'torch_xla_tool/shared.py': 'torch_xla/shared.py'
    },
    extras={'more': ('jaxlib',)},
    entry_points={'console_scripts': {
        'tool': 'torch_xla_tool.main:main'
    }})


@pytest.fixture(name='root')
def root_fixture(tmp_path) -> Path:
  root = tmp_path / 'checkout'
  for name, text in {
      'tool/__init__.py': '',
      'tool/main.py': 'from .shared import VALUE\n',
      'tool/BUILD': 'py_library()\n',
      'torch_xla/shared.py': 'VALUE = 3\n',
      'docs/tool.md': '# A tool\n',
      'LICENSE': 'BSD\n'
  }.items():
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
  return root


def test_a_wheel_has_files_from_where_the_checkout_has_them(root, tmp_path):
  wheel = build_pure_wheel(root, tmp_path, WHEEL)
  assert wheel.name == f'torch_xla_tool-{pins.VERSION}-py3-none-any.whl'
  with zipfile.ZipFile(wheel) as archive:
    assert archive.namelist() == [
        'torch_xla_tool/__init__.py', 'torch_xla_tool/main.py',
        'torch_xla_tool/shared.py', f'{WHEEL.info}/METADATA',
        f'{WHEEL.info}/WHEEL', f'{WHEEL.info}/entry_points.txt',
        f'{WHEEL.info}/licenses/LICENSE', f'{WHEEL.info}/top_level.txt',
        f'{WHEEL.info}/RECORD'
    ]
    assert archive.read(f'{WHEEL.info}/METADATA').decode() == (
        f'Metadata-Version: 2.4\nName: torch-xla-tool\n'
        f'Version: {pins.VERSION}\nSummary: A tool.\n'
        'License-Expression: BSD-3-Clause\nLicense-File: LICENSE\n'
        'Requires-Python: >=3.10\nRequires-Dist: numpy\nProvides-Extra: more\n'
        'Requires-Dist: jaxlib; extra == "more"\n'
        'Description-Content-Type: text/markdown\n\n# A tool\n')


def test_the_same_checkout_makes_the_same_bytes(root, tmp_path):
  first = build_pure_wheel(root, tmp_path / '1', WHEEL).read_bytes()
  assert build_pure_wheel(root, tmp_path / '2', WHEEL).read_bytes() == first


def test_pip_installs_it_and_links_take_its_place(root, tmp_path):
  wheel = build_pure_wheel(root, tmp_path, WHEEL)
  site = tmp_path / 'site'
  output_of(sys.executable, '-m', 'pip', '--disable-pip-version-check',
            'install', '--no-deps', '--no-index', '--target', site, wheel)
  info = site / f'torch_xla-{pins.VERSION}.dist-info'
  info.mkdir()
  (info / 'RECORD').write_text('')
  (root / 'tool' / 'main.py').rename(root / 'tool' / 'moved.py')
  develop.link(root, site, (), (WHEEL,))
  package = site / 'torch_xla_tool'
  assert not (package / 'main.py').exists()
  assert (package / 'moved.py').readlink() == root / 'tool' / 'moved.py'
  assert (package / 'shared.py').readlink() == root / 'torch_xla' / 'shared.py'
  assert develop.link(root, site, (), (WHEEL,)) == 0


def test_a_source_that_is_missing_is_named(root):
  (root / 'torch_xla' / 'shared.py').unlink()
  with pytest.raises(BuildError, match=r'torch_xla/shared.py is missing'):
    files_of(root, WHEEL)


def test_two_sources_for_one_place_are_named(root):
  (root / 'tool' / 'shared.py').write_text('')
  with pytest.raises(BuildError, match='torch_xla_tool/shared.py'):
    files_of(root, WHEEL)


def test_each_file_of_a_wheel_is_verified(root, tmp_path):
  wheel = build_pure_wheel(root, tmp_path, WHEEL)
  verdict = verify_pure_wheel(root, wheel, WHEEL)
  assert not verdict.problems and len(verdict.members) == 9
  (root / 'torch_xla/shared.py').write_text('VALUE = 4\n')
  (root / 'tool/new.py').write_text('')
  problems = verify_pure_wheel(root, wheel, WHEEL).problems
  assert {*problems} == {
      'torch_xla_tool/new.py', 'torch_xla_tool/shared.py',
      f'{WHEEL.info}/RECORD'
  }
  assert 'is missing' in problems['torch_xla_tool/new.py']
  assert 'the checkout that it was built from' in problems[
      'torch_xla_tool/shared.py']


def test_the_wheels_of_this_checkout_are_verified_by_name(tmp_path, capsys):
  for tool in TOOLS:
    wheel = build_pure_wheel(ROOT, tmp_path, tool)
    assert command.main(['verify', str(wheel)]) == 0
    assert 'are what they should be' in capsys.readouterr().out
