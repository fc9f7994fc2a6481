"""Writes the bill of materials of a wheel, in CycloneDX's terms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
import json
from pathlib import Path
import re
import uuid

from cyclonedx.model import (ExternalReference, ExternalReferenceType,
                             HashAlgorithm, HashType, Property, XsUri)
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import (Component, ComponentScope, ComponentType,
                                       Pedigree)
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

from infra.patchset import manifest
from infra.wheel import overlay, pins
from infra.wheel.bom import Tools
from infra.wheel.contents import (digest, digest_of_files, LaidSeries, Order,
                                  Origin, Piece)
from infra.wheel.requirement import names_extra, requirement_of

# What the libraries in C are built from: their sources, and how.
_SOURCE_FOLDERS = ('infra/bazel', 'torch_xla/csrc')
_SOURCE_FILES = ('.bazelrc', '.bazelversion', 'BUILD', 'WORKSPACE',
                 'torch_xla/shardy/pjrt_abi.inc')
_COMPILER = re.compile(rb'(?:GCC: \(|clang version )[ -~]+')
# CycloneDX asks for a prefix of one's own.
_PREFIX = 'torch_xla_shardy:'


def write_bom(order: Order, requires: Iterable[str], laid: Sequence[LaidSeries],
              pieces: Mapping[str, Piece], tools: Tools) -> str:
  """The bill of materials, the same text for the same inputs.

  Args:
    order: which wheel.
    requires: what it depends on, as its METADATA say it.
    laid: its series, in the order in which they are applied.
    pieces: what it adds to the official wheel.
    tools: what it is written with.
  """
  root = _wheel(order, pieces)
  needs = [*map(_requirement, requires)]
  # No time and no chance: the serial number is made from the rest.
  bom = Bom(
      serial_number=uuid.UUID(int=0),
      components=[*_patches(order, laid), *_files(order, pieces), *needs])
  bom.metadata.tools.components.update([
      _tool('zlib', tools.zlib),
      _tool(pins.BOM_LIBRARY, tools.bom_library),
      _tool(pins.GENERATOR_NAME, pins.VERSION),
  ])
  bom.metadata.component = root
  bom.register_dependency(root, needs)
  text = make_outputter(bom, OutputFormat.JSON,
                        SchemaVersion.V1_6).output_as_string()
  data = json.loads(text)
  del data['metadata']['timestamp']
  text = json.dumps(data, indent=2, sort_keys=True)
  data['serialNumber'] = uuid.uuid5(uuid.NAMESPACE_URL, text).urn
  return json.dumps(data, indent=2, sort_keys=True) + '\n'


def _wheel(order: Order, pieces: Mapping[str, Piece]) -> Component:
  """The wheel itself, with the official one as its ancestor."""
  name = pins.wheel_name(pins.OFFICIAL_VERSION, order.python)
  ancestor = Component(
      name='torch-xla',
      version=pins.OFFICIAL_VERSION,
      bom_ref=f'official:{name}',
      purl=_purl('torch-xla', pins.OFFICIAL_VERSION, name),
      hashes=[_sha256(order.official)])
  wheel = order.wheel
  ours = {n: p.data for n, p in pieces.items() if p.origin is Origin.OURS}
  return Component(
      name=wheel.name,
      version=wheel.version,
      description=wheel.summary,
      bom_ref='wheel',
      purl=_purl(wheel.name, wheel.version, wheel.wheel_name(order.python)),
      pedigree=Pedigree(
          ancestors=[ancestor],
          notes=f'{name} with patch series applied and files laid beside its '
          'own; all other files are carried over as they are'),
      properties=_properties({
          'python': order.python,
          'overlay.sha256': digest_of_files(ours),
      }))


def _patches(order: Order, laid: Sequence[LaidSeries]) -> Iterator[Component]:
  for place, entry in enumerate(laid):
    series = entry.series
    for patch in entry.patches:
      data = (entry.root / manifest.FOLDER / patch.name).read_bytes()
      yield Component(
          name=patch.name,
          type=ComponentType.FILE,
          bom_ref=f'patch:{series.name}:{patch.name}',
          description=series.description,
          hashes=[_sha256(digest(data))],
          external_references=[
              ExternalReference(
                  type=ExternalReferenceType.ISSUE_TRACKER,
                  url=XsUri(series.bug))
          ],
          properties=_properties({
              'series': series.name,
              'series.place': str(place),
              'from': 'project' if entry.root == order.root else 'vendor',
          }))


def _files(order: Order, pieces: Mapping[str, Piece]) -> Iterator[Component]:
  """The libraries in C, and what a vendor brings."""
  sources = _sources(order.root)
  for name, piece in sorted(pieces.items()):
    if piece.origin is Origin.BUILT:
      yield _file(
          name, piece.data, {
              'from': 'project',
              'sources.sha256': sources,
              'compiler': compiler_of(piece.data),
          })
    if piece.origin is Origin.VENDOR:
      yield _file(name, piece.data, {'from': 'vendor'})
  if order.profile:
    path = order.profile.path
    yield _file(path.name, path.read_bytes(), {'from': 'vendor'})


def _file(name: str, data: bytes, values: Mapping[str, str]) -> Component:
  return Component(
      name=name,
      type=ComponentType.FILE,
      bom_ref=f'file:{name}',
      hashes=[_sha256(digest(data))],
      properties=_properties(values))


def _sources(root: Path) -> str:
  """The digest of the files that the libraries in C are built from."""
  names = [
      name for folder in _SOURCE_FOLDERS
      for name in overlay.files_beneath(root, folder)
  ]
  names += [name for name in _SOURCE_FILES if (root / name).is_file()]
  return digest_of_files({name: (root / name).read_bytes() for name in names})


def compiler_of(library: bytes) -> str:
  """The compilers that a library names."""
  compilers = sorted({text.decode() for text in _COMPILER.findall(library)})
  return ', '.join(compilers) or 'not told'


def _tool(name: str, version: str) -> Component:
  """A program that the wheel was written with."""
  return Component(
      name=name,
      version=version,
      type=ComponentType.APPLICATION,
      bom_ref=f'tool:{name}')


def _requirement(text: str) -> Component:
  requirement = requirement_of(text)
  assert requirement, text
  versions = [*requirement.specifier]
  pin = versions[0] if len(versions) == 1 else None
  is_exact = pin and pin.operator == '==' and not pin.version.endswith('.*')
  version = pin.version if is_exact else None
  optional = names_extra(text)
  return Component(
      name=requirement.name,
      version=version,
      bom_ref=f'requires:{text}',
      purl=_purl(requirement.name, version),
      scope=ComponentScope.OPTIONAL if optional else ComponentScope.REQUIRED,
      properties=_properties({'requirement': text}))


def _purl(name: str,
          version: str | None,
          file: str | None = None) -> PackageURL:
  return PackageURL(
      'pypi',
      name=name,
      version=version,
      qualifiers={'file_name': file} if file else None)


def _sha256(digest: str) -> HashType:
  return HashType(alg=HashAlgorithm.SHA_256, content=digest)


def _properties(values: Mapping[str, str]) -> list[Property]:
  return [Property(name=_PREFIX + n, value=v) for n, v in values.items()]
