"""The bill of materials in a wheel."""

import hashlib
import json
import zlib

from infra_project import output_of
import pytest
from small_wheels import (LIBRARY, OFFICIAL_INFO, PLUGINS, PYTHON, read, vendor,
                          vendor_series)

from infra.errors import BuildError
from infra.wheel import bom, official, pins
from infra.wheel.contents import digest_of_files
from infra.wheel.bom import read_bom


@pytest.fixture(name='profile')
def profile_fixture(workshop, tmp_path):
  vendor_series(workshop.project, tmp_path / 'vendor')
  return vendor(
      tmp_path / 'vendor',
      series='"patches/series.toml"',
      requires='["numpy", "acme-tools==1.2 ; python_version > \'3\'"]')


def components(bill: dict, kind: str) -> dict[str, dict]:
  """The components whose reference begins so, by the rest of it."""
  return {
      c['bom-ref'].removeprefix(f'{kind}:'): c
      for c in bill['components']
      if c['bom-ref'].startswith(f'{kind}:')
  }


def told(component: dict) -> dict[str, str]:
  """Our properties of a component."""
  return {
      p['name'].removeprefix('torch_xla_shardy:'): p['value']
      for p in component['properties']
  }


def sha256(component: dict) -> str:
  entry, = component['hashes']
  assert entry['alg'] == 'SHA-256'
  return entry['content']


def test_it_is_valid(workshop, profile):
  # To import this takes seconds.
  from cyclonedx.schema import SchemaVersion
  from cyclonedx.validation.json import JsonStrictValidator
  validator = JsonStrictValidator(SchemaVersion.V1_6)
  for wheel in (workshop.build(), workshop.build(profile)):
    text = read_bom(wheel).decode()
    assert validator.validate_str(text) is None
    assert json.loads(text)['specVersion'] == '1.6'
  broken = text.replace('"SHA-256"', '"SHA-257"')
  assert validator.validate_str(broken) is not None


def test_the_wheel_and_its_ancestor(workshop, profile):
  bill = json.loads(read_bom(workshop.build(profile)))
  wheel = bill['metadata']['component']
  assert (wheel['name'], wheel['version']) == ('torch-xla', '2.9.0+acme.3')
  assert wheel['purl'].startswith('pkg:pypi/torch-xla@2.9.0%2Bacme.3?file_name')
  ancestor, = wheel['pedigree']['ancestors']
  assert ancestor['version'] == pins.OFFICIAL_VERSION
  assert sha256(ancestor) == official.sha256(workshop.official)
  ours = {'torch_xla/shardy/ours.py': b'ours = True\n'}
  assert told(wheel) == {
      'python': PYTHON,
      'overlay.sha256': digest_of_files(ours)
  }


def test_patches_of_both(workshop, profile, tmp_path):
  patches = components(json.loads(read_bom(workshop.build(profile))), 'patch')
  assert {
      n: (told(p)['from'], told(p)['series.place']) for n, p in patches.items()
  } == {
      'one:wheel/one/config-add-a-line.patch': ('project', '0'),
      'acme-line:wheel/acme-line/config-add-a-line-of-acme.patch':
          ('vendor', '1'),
  }
  for root, name in ((workshop.project.root, 'one:wheel/one/config-add-a-line'),
                     (tmp_path / 'vendor',
                      'acme-line:wheel/acme-line/config-add-a-line-of-acme')):
    file = root / 'patches' / f'{name.partition(":")[2]}.patch'
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert sha256(patches[f'{name}.patch']) == digest


def test_files_that_were_built_and_those_of_the_vendor(workshop, profile):
  workshop.project.file('torch_xla/csrc/pjrt_shardy/api.c', 'int one;\n')
  workshop.project.file('BUILD', '# Bazel\n')
  files = components(json.loads(read_bom(workshop.build(profile))), 'file')
  assert files.keys() == {
      *PLUGINS, 'acme.toml', 'acme/__init__.py', 'acme/libacme.so',
      'torch_xla/shardy/vendor.json'
  }
  for name, data in PLUGINS.items():
    assert sha256(files[name]) == hashlib.sha256(data).hexdigest()
    assert told(files[name]) == {
        'from':
            'project',
        'compiler':
            'GCC: (Test) 1.0',
        'sources.sha256':
            digest_of_files({
                'BUILD': b'# Bazel\n',
                'torch_xla/csrc/pjrt_shardy/api.c': b'int one;\n'
            })
    }
  assert sha256(files['acme/libacme.so']) == hashlib.sha256(LIBRARY).hexdigest()
  assert told(files['acme.toml']) == {'from': 'vendor'}


def test_what_it_needs(workshop, profile):
  bill = json.loads(read_bom(workshop.build(profile)))
  needs = components(bill, 'requires')
  cpu = needs['xla-cpu-pjrt==0.0.1; extra == "cpu"']
  assert (cpu['version'], cpu['scope']) == ('0.0.1', 'optional')
  tools = needs["acme-tools==1.2 ; python_version > '3'"]
  assert (tools['purl'], tools['scope']) == ('pkg:pypi/acme-tools@1.2',
                                             'required')
  assert 'version' not in needs['protobuf>=5.26,<8']
  info = 'torch_xla-2.9.0+acme.3.dist-info'
  text = read(workshop.build(profile))[f'{info}/METADATA'].decode()
  assert needs.keys() == {
      line.partition(': ')[2]
      for line in text.splitlines()
      if line.startswith('Requires-Dist: ')
  }
  entry = next(d for d in bill['dependencies'] if d['ref'] == 'wheel')
  assert set(entry['dependsOn']) == {f'requires:{n}' for n in needs}


@pytest.mark.parametrize('requirement, scope', [
    ('acme==1; extra=="cpu"', 'optional'),
    ("acme==1; 'cpu' == extra", 'optional'),
    ("acme==1; os_name == 'extra == '", 'required'),
    ('extra==1', 'required'),
])
def test_whether_an_extra_asks_for_it(requirement, scope):
  assert bom._requirement(requirement)['scope'] == scope


def test_tools(workshop):
  bill = json.loads(read_bom(workshop.build()))
  tools = {
      t['name']: t['version'] for t in bill['metadata']['tools']['components']
  }
  assert tools == {
      'zlib': zlib.ZLIB_RUNTIME_VERSION,
      'torch_xla shardy builder': pins.VERSION
  }


def test_same_inputs_same_text_and_other_inputs_another(workshop, profile,
                                                        monkeypatch):
  first = read_bom(workshop.build(profile))
  monkeypatch.setenv('SOURCE_DATE_EPOCH', '1700000000')
  assert read_bom(workshop.build(profile)) == first
  assert 'timestamp' not in json.loads(first)['metadata']
  profile.file('libacme.so').write_bytes(LIBRARY + b'later')
  later = read_bom(workshop.build(profile))
  serials = {json.loads(text)['serialNumber'] for text in (first, later)}
  assert len(serials) == 2


def test_wheel_without_one(workshop):
  with pytest.raises(BuildError, match='has no bill of materials: build it ag'):
    read_bom(workshop.official)
  assert f'{OFFICIAL_INFO}/METADATA' in read(workshop.official)


def test_digest_of_files_is_that_of_what_sha256sum_prints(tmp_path):
  files = {'b/two': b'2\n', 'a': b'1', 'b/one': b''}
  for name, data in files.items():
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(data)
  printed = output_of('sha256sum', *sorted(files), cwd=tmp_path)
  assert digest_of_files(files) == hashlib.sha256(printed.encode()).hexdigest()
