"""Writes the bill of materials of a wheel, in CycloneDX's terms."""

from __future__ import annotations

import json
import uuid

from cyclonedx.model import (ExternalReference, ExternalReferenceType,
                             HashAlgorithm, HashType, Property, XsUri)
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import (Component, ComponentScope, ComponentType,
                                       Pedigree)
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

from infra.wheel import pins
from infra.wheel.bom import BuiltInput, File, Inputs, SeriesInput
from infra.wheel.requirement import names_extra, requirement_of

# CycloneDX asks for a prefix of one's own.
_PREFIX = 'torch_xla_shardy:'


def write_bom(inputs: Inputs) -> str:
  """The bill of materials, the same text for the same inputs."""
  tools = [
      _tool('zlib', inputs.tools.zlib),
      _tool(pins.BOM_LIBRARY, inputs.tools.bom_library),
      _tool(pins.GENERATOR_NAME, pins.VERSION),
  ]
  root, components = _wheel(inputs), _parts(inputs)
  # No time and no chance: the serial number is made from the rest.
  bom = Bom(serial_number=uuid.UUID(int=0), components=components)
  bom.metadata.tools.components.update(tools)
  bom.metadata.component = root
  bom.register_dependency(
      root, [c for c in components if str(c.bom_ref).startswith('requires:')])
  text = make_outputter(bom, OutputFormat.JSON,
                        SchemaVersion.V1_6).output_as_string()
  data = json.loads(text)
  del data['metadata']['timestamp']
  text = json.dumps(data, indent=2, sort_keys=True)
  data['serialNumber'] = uuid.uuid5(uuid.NAMESPACE_URL, text).urn
  return json.dumps(data, indent=2, sort_keys=True) + '\n'


def _wheel(inputs: Inputs) -> Component:
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


def _parts(inputs: Inputs) -> list[Component]:
  """The parts added to the official wheel, and their requirements."""
  return [
      *(_patch(series, place, patch)
        for place, series in enumerate(inputs.series)
        for patch in series.patches),
      *map(_library, inputs.built),
      *map(_vendor_file, inputs.vendor),
      *map(_requirement, inputs.requires),
  ]


def _tool(name: str, version: str) -> Component:
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
