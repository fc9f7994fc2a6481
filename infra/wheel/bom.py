"""Bills of materials of wheels, in CycloneDX's JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
import json
from pathlib import Path
import re
from typing import Any
from urllib.parse import quote
import uuid
import zlib

from packaging.utils import canonicalize_name

from infra.errors import BuildError
from infra.patchset import manifest
from infra.wheel import official, overlay, pins
from infra.wheel.contents import (digest, digest_of_files, LaidSeries, Origin,
                                  Piece)
from infra.wheel.profile import Profile
from infra.wheel.requirement import names_extra, requirement_of

# Where it lies is told by PEP 770.
_MEMBER = re.compile(r'[^/]+\.dist-info/sboms/[^/]+\.cdx\.json')
# What the libraries in C are built from: their sources, and how.
_SOURCE_FOLDERS = ('infra/bazel', 'torch_xla/csrc')
_SOURCE_FILES = ('.bazelrc', '.bazelversion', 'BUILD', 'WORKSPACE',
                 'torch_xla/shardy/pjrt_abi.inc')
_COMPILER = re.compile(rb'(?:GCC: \(|clang version )[ -~]+')
# CycloneDX asks for a prefix of one's own.
_PREFIX = 'torch_xla_shardy:'

_Component = dict[str, Any]


def read_bom(wheel: Path) -> bytes:
  """The bill of materials in a wheel.

  Raises:
    BuildError: it has none, or is no wheel.
  """
  with official.open_wheel(wheel) as archive:
    for name in archive.namelist():
      if _MEMBER.fullmatch(name):
        return archive.read(name)
  raise BuildError(f'{wheel} has no bill of materials: build it again')


def write_bom(root: Path, profile: Profile, python: str, sha256: str,
              requires: Iterable[str], laid: Sequence[LaidSeries],
              pieces: Mapping[str, Piece]) -> str:
  """The bill of materials, the same text for the same inputs.

  Args:
    root: the checkout.
    profile: the wheel's.
    python: that the wheel is for.
    sha256: that of the official wheel.
    requires: what it depends on, as its METADATA say it.
    laid: its series, in the order in which they are applied.
    pieces: what it adds to the official wheel.
  """
  needs = [*map(_requirement, dict.fromkeys(requires))]
  tools = {
      'zlib': zlib.ZLIB_RUNTIME_VERSION,
      pins.GENERATOR_NAME: pins.VERSION
  }.items()
  data = dict(
      bomFormat='CycloneDX',
      specVersion='1.6',
      version=1,
      metadata=dict(
          component=_wheel(profile, python, sha256, pieces),
          tools=dict(components=[
              _component(n, 'application', f'tool:{n}', version=version)
              for n, version in tools
          ])),
      components=[
          *_patches(root, laid), *_files(root, profile, pieces), *needs
      ],
      dependencies=[
          dict(ref='wheel', dependsOn=[need['bom-ref'] for need in needs])
      ])
  # No time and no chance: the serial number is made from the rest.
  text = json.dumps(data, indent=2, sort_keys=True)
  data['serialNumber'] = uuid.uuid5(uuid.NAMESPACE_URL, text).urn
  return json.dumps(data, indent=2, sort_keys=True) + '\n'


def _component(name: str,
               kind: str,
               reference: str,
               sha256: str = '',
               facts: Mapping[str, str] | None = None,
               **fields: Any) -> _Component:
  """A component, with properties of ours in `facts`."""
  if sha256:
    fields['hashes'] = [dict(alg='SHA-256', content=sha256)]
  if facts:
    fields['properties'] = [
        dict(name=_PREFIX + n, value=value) for n, value in facts.items()
    ]
  return {'name': name, 'type': kind, 'bom-ref': reference, **fields}


def _wheel(profile: Profile, python: str, sha256: str,
           pieces: Mapping[str, Piece]) -> _Component:
  """The wheel itself, with the official one as its ancestor."""
  version = pins.OFFICIAL_VERSION
  name = pins.wheel_name(version, python)
  ancestor = _component(
      'torch-xla',
      'library',
      f'official:{name}',
      sha256,
      version=version,
      purl=_purl('torch-xla', version, name))
  ours = {n: p.data for n, p in pieces.items() if p.origin is Origin.OURS}
  return _component(
      profile.name,
      'library',
      'wheel',
      facts={
          'python': python,
          'overlay.sha256': digest_of_files(ours)
      },
      version=profile.version,
      description=profile.summary,
      purl=_purl(profile.name, profile.version, profile.wheel_name(python)),
      pedigree=dict(
          ancestors=[ancestor],
          notes=f'{name} with patch series applied and files laid beside its '
          'own; all other files are carried over as they are'))


def _patches(root: Path, laid: Sequence[LaidSeries]) -> Iterator[_Component]:
  for place, entry in enumerate(laid):
    series = entry.series
    for patch in entry.patches:
      data = (entry.root / manifest.FOLDER / patch.name).read_bytes()
      yield _component(
          patch.name,
          'file',
          f'patch:{series.name}:{patch.name}',
          digest(data), {
              'series': series.name,
              'series.place': str(place),
              'from': 'project' if entry.root == root else 'vendor'
          },
          description=series.description,
          externalReferences=[dict(type='issue-tracker', url=series.bug)])


def _files(root: Path, profile: Profile,
           pieces: Mapping[str, Piece]) -> Iterator[_Component]:
  """The libraries in C, and what a vendor brings."""
  sources = [
      name for folder in _SOURCE_FOLDERS
      for name in overlay.files_beneath(root, folder)
  ]
  sources += [name for name in _SOURCE_FILES if (root / name).is_file()]
  sources_digest = digest_of_files(
      {name: (root / name).read_bytes() for name in sources})
  for name, piece in sorted(pieces.items()):
    if piece.origin is Origin.BUILT:
      compilers = {text.decode() for text in _COMPILER.findall(piece.data)}
      yield _component(
          name, 'file', f'file:{name}', digest(piece.data), {
              'from': 'project',
              'sources.sha256': sources_digest,
              'compiler': ', '.join(sorted(compilers)) or 'not told'
          })
    elif piece.origin is Origin.VENDOR:
      yield _vendors(name, piece.data)
  if profile.path:
    yield _vendors(profile.path.name, profile.path.read_bytes())


def _vendors(name: str, data: bytes) -> _Component:
  return _component(name, 'file', f'file:{name}', digest(data),
                    {'from': 'vendor'})


def _requirement(text: str) -> _Component:
  requirement = requirement_of(text)
  assert requirement, text
  pin = re.fullmatch(r'==([^*,]+)', str(requirement.specifier))
  return _component(
      requirement.name,
      'library',
      f'requires:{text}',
      facts={'requirement': text},
      purl=_purl(requirement.name, pin[1] if pin else ''),
      scope='optional' if names_extra(text) else 'required',
      **(dict(version=pin[1]) if pin else {}))


def _purl(name: str, version: str, file: str = '') -> str:
  """A package URL, by which tools know a distribution."""
  return (f'pkg:pypi/{canonicalize_name(name)}' +
          (f'@{quote(version)}' if version else '') +
          (f'?file_name={quote(file)}' if file else ''))
