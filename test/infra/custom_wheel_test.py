"""What a vendor's profile makes of the wheel."""

import email.parser
import importlib.util
import json
import sys
import zipfile

from infra_project import CONFIG, insert, Project, RUNTIME
import pytest
from small_wheels import (INFO, LIBRARY, OFFICIAL_INFO, PYTHON, read, vendor,
                          vendor_series)

from infra.errors import BuildError
from infra.wheel import pins
from infra.wheel.profile import load_profile


def fields_of(contents: dict[str, bytes], info: str):
  return email.parser.Parser().parsestr(contents[f'{info}/METADATA'].decode())


def test_name_and_metadata(workshop, tmp_path):
  profile = vendor(
      tmp_path,
      name='"Acme.torch-xla"',
      summary='"ACME\'s"',
      requires='["acme-tools>=1.2"]')
  wheel = workshop.build(profile)
  tag = pins.python_tag(PYTHON)
  assert wheel.name == (f'acme_torch_xla-2.9.0+acme.3-{tag}-{tag}-'
                        'manylinux_2_28_x86_64.whl')
  contents = read(wheel)
  info = 'acme_torch_xla-2.9.0+acme.3.dist-info'
  folders = {name.split('/')[0] for name in contents}
  assert {f for f in folders if f.endswith('.dist-info')} == {info}
  fields = fields_of(contents, info)
  assert (fields['Name'], fields['Version'],
          fields['Summary']) == ('Acme.torch-xla', '2.9.0+acme.3', "ACME's")
  needs = fields.get_all('Requires-Dist')
  assert {'protobuf>=5.26,<8', 'acme-tools>=1.2', 'numpy'} <= set(needs)
  assert contents[f'{info}/top_level.txt'].decode().split() == [
      '_XLAC', 'torch_xla', 'torchax', 'torch_xla_shardy', 'acme'
  ]
  scope: dict = {}
  exec(contents['torch_xla/version.py'], scope)
  assert scope['__version__'] == '2.9.0+acme.3'


def test_entry_point_is_added_to_upstreams(workshop, tmp_path):
  contents = read(workshop.build(vendor(tmp_path)))
  theirs = read(workshop.official)[f'{OFFICIAL_INFO}/entry_points.txt']
  ours = contents['torch_xla-2.9.0+acme.3.dist-info/entry_points.txt']
  lines = ours.decode().splitlines()
  assert [
      line for line in lines if line not in theirs.decode().splitlines()
  ] == ['torch-xla-shardy = torch_xla_shardy.main:main', 'acme = acme:Plugin']
  group = lines.index('[torch_xla.plugins]')
  assert lines[group + 1] == 'acme = acme:Plugin'


def test_files_of_the_vendor(workshop, tmp_path):
  profile = vendor(tmp_path)
  (tmp_path / 'acme' / '__pycache__').mkdir()
  (tmp_path / 'acme' / '__pycache__' / 'a.pyc').write_bytes(b'')
  contents = read(workshop.build(profile))
  assert {n for n in contents if n.startswith('acme/')
         } == {'acme/__init__.py', 'acme/libacme.so'}
  assert contents['acme/libacme.so'] == LIBRARY
  assert json.loads(contents['torch_xla/shardy/vendor.json']) == {
      'distribution': 'torch-xla',
      'version': '2.9.0+acme.3',
      'mode': 'shardy',
      'environment': {
          'PJRT_DEVICE': 'ACME'
      },
  }


def test_without_a_profile_there_is_no_trace_of_one(workshop):
  contents = read(workshop.build())
  assert 'torch_xla/shardy/vendor.json' not in contents
  assert b'acme' not in contents[f'{INFO}/entry_points.txt']
  assert contents[f'{INFO}/top_level.txt'].split()[-1] == b'torch_xla_shardy'


def test_a_class_is_made_for_a_library_alone(workshop, tmp_path, monkeypatch):
  (tmp_path / 'libacme.so').write_bytes(LIBRARY)
  path = tmp_path / 'acme.toml'
  path.write_text('version = "2.9.0+acme.3"\n[plugin]\ndevice = "ACME"\n'
                  'library = "libacme.so"\n')
  wheel = workshop.build(load_profile(path))
  with zipfile.ZipFile(wheel) as file:
    file.extractall(
        tmp_path / 'installed',
        [n for n in file.namelist() if n.startswith('torch_xla_acme/')])
  entry = read(wheel)['torch_xla-2.9.0+acme.3.dist-info/entry_points.txt']
  assert b'\nacme = torch_xla_acme:Plugin\n' in entry
  made = tmp_path / 'installed' / 'torch_xla_acme' / '__init__.py'
  spec = importlib.util.spec_from_file_location('torch_xla_acme', made)
  module = importlib.util.module_from_spec(spec)
  plugins = type(sys)('torch_xla.experimental.plugins')
  plugins.DevicePlugin = object
  monkeypatch.setitem(sys.modules, plugins.__name__, plugins)
  experimental = type(sys)('torch_xla.experimental')
  experimental.plugins = plugins
  monkeypatch.setitem(sys.modules, experimental.__name__, experimental)
  spec.loader.exec_module(module)
  library = module.Plugin().library_path()
  assert library == str(made.with_name('libacme.so'))
  assert made.with_name('libacme.so').read_bytes() == LIBRARY


def test_same_profile_same_bytes(workshop, tmp_path):
  profile = vendor(tmp_path)
  first = workshop.build(profile).read_bytes()
  workshop.dist = tmp_path / 'again'
  assert workshop.build(profile).read_bytes() == first


# The vendor's own series.


def with_series(tmp_path):
  return vendor(tmp_path / 'vendor', series='"patches/series.toml"')


def test_series_are_applied_after_ours(workshop, tmp_path):
  vendor_series(workshop.project, tmp_path / 'vendor')
  contents = read(workshop.build(with_series(tmp_path)))
  lines = contents[CONFIG].decode().splitlines()
  assert '# ours 1' in lines and '# acme' in lines


def test_series_of_a_vendor_is_merged_with_ours(workshop, tmp_path):
  """The vendor's patch was made on upstream's file, which ours changes."""
  vendor_series(workshop.project, tmp_path / 'vendor')
  workshop.project.patch('two', 'config: add another line', CONFIG,
                         insert(6, '# ours 2'),
                         workshop.project.laid('one', 'wheel', CONFIG))
  lines = read(workshop.build(with_series(tmp_path)))[CONFIG].splitlines()
  assert {b'# acme', b'# ours 1', b'# ours 2'} <= set(lines)


@pytest.mark.parametrize('change, said', [
    (("'acme-line'", "'one'"), 'two series are called one'),
    (("depends_on = []", "depends_on = ['none']"),
     'depends on none, which is not a series listed before'),
    (("config-add-a-line-of-acme", "none"), 'none.patch cannot be read'),
])
def test_series_of_wrong_form(change, said, workshop, tmp_path):
  vendor_series(workshop.project, tmp_path / 'vendor')
  path = tmp_path / 'vendor' / 'patches' / 'series.toml'
  path.write_text(path.read_text().replace(*change))
  with pytest.raises(BuildError, match=f'(?s)/acme.toml: series: .*{said}'):
    workshop.build(with_series(tmp_path))


def test_series_may_depend_on_ours(workshop, tmp_path):
  vendor_series(workshop.project, tmp_path / 'vendor')
  path = tmp_path / 'vendor' / 'patches' / 'series.toml'
  path.write_text(path.read_text().replace('depends_on = []',
                                           "depends_on = ['one']"))
  assert b'# acme' in read(workshop.build(with_series(tmp_path)))[CONFIG]


def vendor_patch(workshop, tmp_path, path, edit):
  theirs = Project(tmp_path / 'vendor', workshop.official)
  theirs.patch('acme-line', 'a line of acme', path, edit)
  return with_series(tmp_path)


@pytest.mark.parametrize('path', [
    *(f'{OFFICIAL_INFO}/{name}'
      for name in ('METADATA', 'WHEEL', 'RECORD', 'entry_points.txt')),
    'torch_xla/version.py',
])
def test_patch_of_what_the_builder_writes(path, workshop, tmp_path):
  profile = vendor_patch(workshop, tmp_path, path, insert(1, '# acme'))
  with pytest.raises(BuildError) as raised:
    workshop.build(profile)
  assert (f'patch wheel/acme-line/a-line-of-acme.patch changes {path}, which '
          'the builder writes: take that change away; version, name') in str(
              raised.value)
  assert not workshop.dist.exists()


@pytest.mark.parametrize('line, said', [
    ('acme = (', "line 5: '(' was never closed"),
    ('return 1', "line 5: 'return' outside function"),
])
def test_patch_after_which_a_module_is_no_python(line, said, workshop,
                                                 tmp_path):
  profile = vendor_patch(workshop, tmp_path, RUNTIME, insert(4, line))
  with pytest.raises(BuildError) as raised:
    workshop.build(profile)
  assert (f'{RUNTIME}, as patched by acme-line: a-line-of-acme.patch, is no '
          f'Python: {said}: correct the patch') in str(raised.value)


# Files that cannot be in a wheel.


@pytest.mark.parametrize(
    'library, said', [
        (b'text', 'no shared library for Linux on x86-64'),
        (LIBRARY.replace(b'\x3e',
                         b'\xb7'), 'no shared library for Linux on x86-64'),
        (LIBRARY.replace(b'GetPjrtApi',
                         b'GetOther'), 'does not export GetPjrtApi'),
        (LIBRARY + b'GLIBC_2.38\0', 'needs glibc 2.38'),
    ],
    ids=['text', 'arm', 'no-plugin', 'new-glibc'])
def test_library_that_would_not_load(library, said, workshop, tmp_path):
  profile = vendor(tmp_path)
  profile.file('libacme.so').write_bytes(library)
  with pytest.raises(BuildError, match=f'libacme.so.*{said}'):
    workshop.build(profile)


@pytest.mark.parametrize('data', [LIBRARY.replace(b'\x3e', b'\xb7'), b'text'])
def test_library_of_the_package_for_another_machine(data, workshop, tmp_path):
  profile = vendor(tmp_path)
  (tmp_path / 'acme' / 'libother.so.1').write_bytes(data)
  with pytest.raises(
      BuildError, match='acme/libother.so.1 is no shared library for Linux'):
    workshop.build(profile)


@pytest.mark.parametrize('name', ['torchax', 'torch_xla_shardy'])
def test_package_that_every_wheel_has(name, workshop, tmp_path):
  (tmp_path / name).mkdir()
  (tmp_path / name / '__init__.py').write_text('class A:\n  pass\n')
  path = tmp_path / 'acme.toml'
  path.write_text('version = "2.9.0+acme.3"\n[plugin]\ndevice = "ACME"\n'
                  f'package = "{name}"\nclass = "{name}:A"\n')
  with pytest.raises(BuildError, match=f'every wheel has a package {name}:'):
    workshop.build(load_profile(path))


def test_library_that_the_package_has_too(workshop, tmp_path):
  profile = vendor(tmp_path)
  (tmp_path / 'acme' / 'libacme.so').write_bytes(LIBRARY)
  with pytest.raises(
      BuildError, match='acme/libacme.so is a file of plugin.pa'):
    workshop.build(profile)


def test_file_that_would_take_the_place_of_ours(workshop, tmp_path):
  workshop.project.file('torch_xla/shardy/vendor.json', '{}')
  with pytest.raises(BuildError, match='vendor.json: a file of the profile'):
    workshop.build(vendor(tmp_path))
