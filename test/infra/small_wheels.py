"""Wheels to verify and to damage, made from a small official wheel.

The real one holds an extension module of 305 MB; in the small one that is a few
bytes, so that a wheel is built and verified in a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Callable
import dataclasses
from pathlib import Path
import zipfile

from infra_project import insert, one_patch, Project

from infra.wheel import archive, metadata, official, pins
from infra.wheel.build import build_wheel, running_python
from infra.wheel.profile import FORK, load_profile, Profile
from infra.wheel.verify import Verdict, verify_wheel

PYTHON = running_python()
OFFICIAL_INFO = f'torch_xla-{pins.OFFICIAL_VERSION}.dist-info'
PLUGINS = {
    member: b'\x7fELF, as far as the wheel can tell\0GCC: (Test) 1.0\0'
    for member in pins.PLUGINS
}
# Enough of an ELF file for x86-64, with what a PJRT plugin exports.
LIBRARY = (b'\x7fELF\x02\x01' + bytes(10) + b'\x03\x00\x3e\x00' + bytes(44) +
           b'\0GetPjrtApi\0')
INFO = f'torch_xla-{pins.VERSION}.dist-info'
RECORD = f'{INFO}/RECORD'
OURS = 'torch_xla/shardy/ours.py'
STAMP = (1980, 1, 1, 0, 0, 0)
Contents = dict[str, bytes]


def small_official(wheel: Path, folder: Path) -> Path:
  """The official wheel with a small extension module, under its own name."""
  with zipfile.ZipFile(wheel) as file:
    contents = {
        name: b'\x7fELF, small' if name.endswith('.so') else file.read(name)
        for name in file.namelist()
    }
  set_record(contents, OFFICIAL_INFO)
  target = folder / wheel.name
  archive.write_whole(target, [archive.pack(n, d) for n, d in contents.items()],
                      STAMP)
  return target


def set_record(contents: Contents, info: str) -> None:
  """Makes RECORD right again."""
  record = f'{info}/RECORD'
  rows = [(n, metadata.hash_field(d), len(d))
          for n, d in contents.items()
          if n != record]
  contents[record] = metadata.write_record(rows, record).encode()


def read(wheel: Path) -> Contents:
  with zipfile.ZipFile(wheel) as file:
    return {name: file.read(name) for name in file.namelist()}


@dataclasses.dataclass
class Workshop:
  """Builds and verifies wheels of a throwaway project.

  Attributes:
    official: the small official wheel, in a folder of its own.
  """
  project: Project
  official: Path
  dist: Path

  @classmethod
  def of(cls, folder: Path, official_wheel: Path) -> Workshop:
    """A project with one series and one file, in a folder."""
    project = Project(folder / 'project', official_wheel)
    one_patch(project)
    project.file(OURS)
    return cls(project, official_wheel, folder / 'dist')

  @property
  def _small(self) -> dict:
    return {
        'cache': self.official.parent,
        'pinned': {
            PYTHON: official.sha256(self.official)
        },
    }

  def build(self, profile: Profile = FORK, **options) -> Path:
    options = {
        'built_plugins': PLUGINS,
        'say': lambda line: None
    } | self._small | options
    return build_wheel(
        self.project.root, self.dist, PYTHON, profile=profile, **options)

  def verify(self, wheel: Path, profile: Profile = FORK, **options) -> Verdict:
    options = {'built_plugins': PLUGINS} | self._small | options
    return verify_wheel(self.project.root, wheel, profile=profile, **options)

  def damage(self, wheel: Path, change: Callable[[Contents], None]) -> Path:
    """Writes a wheel anew, as an attacker does who makes RECORD right."""
    contents = read(wheel)
    change(contents)
    info = next(n for n in contents if n.endswith('/RECORD')).split('/')[0]
    set_record(contents, info)
    return self.write(wheel, contents)

  def write(self, wheel: Path, contents: Contents) -> Path:
    members = [archive.pack(name, data) for name, data in contents.items()]
    archive.write_whole(wheel, members, STAMP)
    return wheel


def problems(workshop: Workshop, wheel: Path, **options) -> dict[str, str]:
  """What is wrong, by name; there is something."""
  verdict = workshop.verify(wheel, **options)
  assert 'do not install it' in str(verdict)
  return verdict.problems


def vendor(folder: Path, **keys: str) -> Profile:
  """A vendor's profile with a package and a class, and its files.

  Args:
    folder: gets them.
    keys: further or other top-level lines, `name = value`.
  """
  (folder / 'acme').mkdir(parents=True, exist_ok=True)
  (folder / 'acme' / '__init__.py').write_text('class Plugin:\n  pass\n')
  (folder / 'libacme.so').write_bytes(LIBRARY)
  lines = {'version': '"2.9.0+acme.3"'} | keys
  text = ''.join(f'{key} = {value}\n' for key, value in lines.items())
  path = folder / 'acme.toml'
  path.write_text(f'''{text}
[plugin]
device = "ACME"
package = "acme"
class = "acme:Plugin"
library = "libacme.so"

[defaults]
mode = "shardy"

[defaults.environment]
PJRT_DEVICE = "ACME"
''')
  return load_profile(path)


def vendor_series(project: Project, folder: Path, edit_at: int = 4) -> None:
  """Gives the vendor in `folder` a series that edits the same file as ours."""
  theirs = Project(folder, Path(project._official.filename))
  theirs.patch('acme-line', 'config: add a line of acme',
               'torch_xla/_dynamo/config.py', insert(edit_at, '# acme'),
               project.laid('one', 'wheel', 'torch_xla/_dynamo/config.py'))
