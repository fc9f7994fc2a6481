"""The components of a bill of materials, in CycloneDX's terms."""

from __future__ import annotations

import re

from cyclonedx.model import ExternalReference
from cyclonedx.model import ExternalReferenceType
from cyclonedx.model import HashAlgorithm
from cyclonedx.model import HashType
from cyclonedx.model import Property
from cyclonedx.model import XsUri
from cyclonedx.model.component import Component
from cyclonedx.model.component import ComponentScope
from cyclonedx.model.component import ComponentType
from cyclonedx.model.component import Pedigree
from packageurl import PackageURL

from infra.wheel import pins
from infra.wheel.bom import BuiltInput
from infra.wheel.bom import File
from infra.wheel.bom import Inputs
from infra.wheel.bom import SeriesInput
from infra.wheel.requirement import names_extra

# CycloneDX asks for a prefix of one's own.
_PREFIX = 'torch_xla_shardy:'
_REQUIREMENT = re.compile(r'(?P<name>[A-Za-z0-9][\w.-]*)\s*(\[[^]]*\])?\s*'
                          r'(==\s*(?P<version>[\w.+!-]+)\s*(;.*)?$)?')


def wheel(inputs: Inputs) -> Component:
  """The wheel itself, with the official one as its ancestor."""
  name = pins.wheel_name(pins.OFFICIAL_VERSION, inputs.python)
  ancestor = Component(
      name='torch-xla',
      version=pins.OFFICIAL_VERSION,
      bom_ref=f'official:{name}',
      purl=_purl('torch-xla', pins.OFFICIAL_VERSION, name),
      hashes=[_sha256(inputs.official)])
  return Component(
      name=inputs.wheel.name,
      version=inputs.wheel.version,
      description=inputs.wheel.summary,
      bom_ref='wheel',
      purl=_purl(inputs.wheel.name, inputs.wheel.version,
                 inputs.wheel.wheel_name(inputs.python)),
      pedigree=Pedigree(
          ancestors=[ancestor],
          notes=f'{name} with patch series applied and files laid beside its '
          'own; all other files are carried over as they are'),
      properties=[
          _property('python', inputs.python),
          _property('overlay.sha256', inputs.overlay),
      ])


def parts(inputs: Inputs) -> list[Component]:
  """What lies in the wheel besides the official one's, and what it needs."""
  return [
      *(_patch(series, place, patch)
        for place, series in enumerate(inputs.series)
        for patch in series.patches),
      *map(_library, inputs.built),
      *map(_vendor_file, inputs.vendor),
      *map(_requirement, inputs.requires),
  ]


def tool(name: str, version: str) -> Component:
  """A program that the wheel was written with."""
  return Component(
      name=name,
      version=version,
      type=ComponentType.APPLICATION,
      bom_ref=f'tool:{name}')


def _patch(series: SeriesInput, place: int, patch: File) -> Component:
  return Component(
      name=patch.name,
      type=ComponentType.FILE,
      bom_ref=f'patch:{series.name}:{patch.name}',
      description=series.description,
      hashes=[_sha256(patch.sha256)],
      external_references=[
          ExternalReference(
              type=ExternalReferenceType.ISSUE_TRACKER, url=XsUri(series.bug))
      ],
      properties=[
          _property('series', series.name),
          _property('series.place', str(place)),
          _property('from', 'vendor' if series.vendor else 'project'),
      ])


def _library(built: BuiltInput) -> Component:
  return Component(
      name=built.library.name,
      type=ComponentType.FILE,
      bom_ref=f'file:{built.library.name}',
      hashes=[_sha256(built.library.sha256)],
      properties=[
          _property('from', 'project'),
          _property('sources.sha256', built.sources),
          _property('compiler', built.compiler),
      ])


def _vendor_file(file: File) -> Component:
  return Component(
      name=file.name,
      type=ComponentType.FILE,
      bom_ref=f'file:{file.name}',
      hashes=[_sha256(file.sha256)],
      properties=[_property('from', 'vendor')])


def _requirement(text: str) -> Component:
  match = _REQUIREMENT.match(text)
  assert match, text
  optional = names_extra(text)
  return Component(
      name=match['name'],
      version=match['version'],
      bom_ref=f'requires:{text}',
      purl=_purl(match['name'], match['version']),
      scope=ComponentScope.OPTIONAL if optional else ComponentScope.REQUIRED,
      properties=[_property('requirement', text)])


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


def _property(name: str, value: str) -> Property:
  return Property(name=_PREFIX + name, value=value)
