"""A vendor's profile: what it may say, and what is said of a wrong one."""

from pathlib import Path

from small_wheels import LIBRARY, vendor
import infra_project  # Puts the checkout's infra on the path.
from packaging.utils import canonicalize_name
import pytest

from infra.errors import BuildError
from infra.wheel import names
from infra.wheel.requirement import requirement_of
from infra.wheel.profile import Defaults, load_profile, Plugin, Profile

ROOT = infra_project.ROOT
VERSION = 'version = "2.9.0+acme.3"\n'
PLUGIN = '[plugin]\ndevice = "ACME"\n'


@pytest.fixture(name='parse')
def parse_fixture(tmp_path):
  """Parses a profile in a folder with a package, a library and a file."""
  vendor(tmp_path)
  (tmp_path / 'patches').mkdir()
  (tmp_path / 'patches' / 'series.toml').write_text('')

  def parse(text: str) -> Profile:
    path = tmp_path / 'acme.toml'
    path.write_text(text)
    return load_profile(path)

  return parse


def test_a_version_is_enough(parse, tmp_path):
  profile = parse(VERSION)
  assert profile == Profile(
      path=tmp_path / 'acme.toml',
      version='2.9.0+acme.3',
      summary='XLA bridge for PyTorch: 2.9.0+acme.3, built from 2.9.0+shardy.1')
  assert (profile.name, profile.defaults.mode) == ('torch-xla', 'off')


def test_all_keys(parse, tmp_path):
  profile = parse('''
name = "Acme.torch-xla"
version = "2.9.0+acme.3.rc1"
summary = "ACME's"
pythons = ["3.13", "3.10"]
requires = ["acme-tools[a,b]>=1.2,<2 ; python_version < '3.12'", "b @ file:///x"]
series = "patches/series.toml"

[plugin]
device = "ACME2"
package = "acme"
class = "acme:Plugin"
library = "libacme.so"

[defaults]
mode = "v2"
format = "mlir"

[defaults.environment]
ACME_DEVICES = ""
''')
  assert profile == Profile(
      path=tmp_path / 'acme.toml',
      name='Acme.torch-xla',
      version='2.9.0+acme.3.rc1',
      summary="ACME's",
      pythons=('3.13', '3.10'),
      requires=("acme-tools[a,b]>=1.2,<2 ; python_version < '3.12'",
                'b @ file:///x'),
      series='patches/series.toml',
      plugin=Plugin(
          device='ACME2',
          package='acme',
          class_name='acme:Plugin',
          library='libacme.so'),
      defaults=Defaults(
          mode='v2', format='mlir', environment={'ACME_DEVICES': ''}))
  assert profile.file_part == 'acme_torch_xla'
  assert profile.environment == {
      'ACME_DEVICES': '',
      'XLA_STABLEHLO_COMPILE': '1'
  }


@pytest.mark.parametrize('form, value', [('hlo', '0'), ('mlir', '1')])
def test_format_is_a_variable(form, value, parse):
  profile = parse(f'{VERSION}[defaults]\nformat = "{form}"\n')
  assert profile.environment == {'XLA_STABLEHLO_COMPILE': value}


def test_the_examples_profile():
  profile = load_profile(ROOT / 'examples' / 'vendor' / 'acme.toml')
  assert profile.version == '2.9.0+acme.3'


@pytest.mark.parametrize('text, said', [
    ('', 'version is missing: add it'),
    ('version = 3\n', 'version: it has to be a text, in quotes'),
    ('version = "2.9.0"', "version: '2.9.0' is not 2.9.0 with a local part"),
    ('version = "2.9.1+acme"', 'version: .* is not 2.9.0'),
    ('version = "2.9.0+Acme_3"', r'version: .*small letters.*"2.9.0\+acme.3"'),
    ('version = "2.9.0+acme.03"', 'version: .* normal form'),
    ('version = "2.9.0+shardy.2"', "version: .* this project's own"),
    ('version = ', 'correct it, it is no TOML'),
    (VERSION + 'verison = "1"',
     'verison: there is no such key; there are name'),
    ('version = "2.9.0+1٣"', 'version: .* normal form'),
    (VERSION + 'requires = ["Torch.XLA==2.9.0"]',
     "requires: 'Torch.XLA==2.9.0' is what this wheel is itself: take it away"),
    (VERSION + 'name = "acme-xla"\nrequires = ["acme_xla>=1"]',
     "requires: 'acme_xla>=1' is what this wheel is itself"),
    (VERSION + 'requires = ["acme; nonsense"]',
     "requires: 'acme; nonsense' is no requirement: .* python_version < '3.12'"
    ),
    (VERSION + '[plugin]\ndevice = "CONFORMANCE"', 'plugin.device: .* none of'),
    (VERSION + '[plugin]\ndevice = "CUDA"', 'plugin.device: .* none of'),
    (VERSION + '[defaults.environment]\nLD_PRELOAD = "a"',
     'LD_PRELOAD: this is read when a process starts, and a wheel sets '
     'variables later, .* take it away'),
    (VERSION + '[defaults.environment]\nPYTHONPATH = "a"',
     'PYTHONPATH: this is read when a process starts'),
    (VERSION + PLUGIN + 'library = "__init__.py"',
     "plugin.library: '__init__.py' is no name of a library"),
    (VERSION + PLUGIN + 'package = "json"\nclass = "json:A"',
     "plugin.package: json is a module of Python's own"),
    (VERSION + PLUGIN + 'library = "' + 'a' * 300 + '.so"',
     'plugin.library: .*File name too long: .*: correct the path'),
    (VERSION + 'requires = ["acme @ file:x"]', "'acme @ file:x' is no requir"),
    (VERSION + 'requires = ["acme; \'gpu\'==extra"]',
     'requires: .* asks for an extra, and a profile adds none: take the marker'
    ),
    (VERSION + 'requires = ["Protobuf<4"]',
     "'Protobuf<4' is beside 'protobuf>=5.26,<8', which the wheel needs anyway"
    ),
    (VERSION + '[defaults.environment]\nOMP_NUM_THREADS = "1"',
     'OMP_NUM_THREADS: this is read when torch is imported, and a wheel sets '
     'variables later, .* take it away, and tell users'),
    (VERSION + PLUGIN +
     'library = "libacme.so"\n[defaults.environment]\nPJRT_DEVICE = "ACNE"',
     "defaults.environment.PJRT_DEVICE: there is no device 'ACNE': write that "
     "of plugin.device, 'ACME'"),
    (VERSION + 'name = "-acme"', 'name: .* is no name of a distribution'),
    (VERSION + 'summary = "a\\nLicense: b"', 'summary: .* one line'),
    (VERSION + 'pythons = "3.11"', 'pythons: it has to be a list of texts'),
    (VERSION + 'pythons = ["3.9"]', "pythons: '3.9' .*choose from 3.10, 3.11"),
    (VERSION + 'pythons = ["3.11", "3.11"]', 'pythons: .* stands there twice'),
    (VERSION + 'requires = [1]', 'requires: it has to be a list of texts'),
    (VERSION + 'requires = ["a b"]', "requires: 'a b' is no requirement"),
    (VERSION + 'requires = ["a\\nName: b"]', 'requires: .* is no requirement'),
    (VERSION + 'series = "series.toml"',
     'series: .* a file patches/series.toml'),
    (VERSION + 'series = "x/patches/series.toml"', 'series: there is no file'),
    (VERSION + 'plugin = "a"', r'plugin: it has to be a table, \[plugin\]'),
    (VERSION + '[plugin]', 'plugin.device is missing: add it'),
    (VERSION + PLUGIN, 'plugin.library is missing'),
    (VERSION + PLUGIN + 'librari = "a"',
     'plugin.librari: there is no such key'),
    (VERSION + PLUGIN + 'library = "no.so"',
     'plugin.library: there is no file .*no.so; paths count from the folder'),
    (VERSION + PLUGIN + 'package = "acme"',
     'package and plugin.class go toget'),
    (VERSION + PLUGIN + 'package = "none"\nclass = "none:A"',
     'plugin.package: there is no file .*none/__init__.py'),
    (VERSION + PLUGIN + 'package = "a-b"\nclass = "a-b:A"', 'plugin.class: '),
    (VERSION + PLUGIN + 'package = "acme"\nclass = "other:A"',
     'plugin.class: .* is no class of plugin.package: write "acme:Class"'),
    (VERSION + '[plugin]\ndevice = "acme"', 'plugin.device: .* capitals'),
    (VERSION + '[plugin]\ndevice = "TPU"', 'plugin.device: .* none of CON'),
    (VERSION + '[defaults]\nmode = "on"', 'defaults.mode: .* off, v2, shardy'),
    (VERSION + '[defaults]\nformat = "x"', 'defaults.format: .* hlo, mlir'),
    (VERSION + '[defaults]\nenv = "x"', 'defaults.env: there is no such key'),
    (VERSION + '[defaults]\nenvironment = 1',
     r'environment: it has to be a table, \[defaults.environment\]'),
    (VERSION + '[defaults.environment]\nA = 1',
     'defaults.environment.A: the value has to be a text, as in "1"'),
    (VERSION + '[defaults.environment]\n"A=B" = "1"', 'no name of a variable'),
    (VERSION + '[defaults.environment]\nXLA_USE_SHARDY = "1"',
     'XLA_USE_SHARDY: write defaults.mode, one of off, v2, shardy'),
    (VERSION + '[defaults.environment]\nXLA_STABLEHLO_COMPILE = "1"',
     'XLA_STABLEHLO_COMPILE: write defaults.format'),
])
def test_what_is_wrong_is_named_with_its_remedy(text, said, parse):
  with pytest.raises(BuildError, match=rf'(?s)^\S*/acme.toml: .*{said}'):
    parse(text)


@pytest.mark.parametrize('plugin, device', [
    (PLUGIN + 'library = "libacme.so"\n', 'CPU'),
    (PLUGIN + 'library = "libacme.so"\n', 'ACME'),
    ('', 'OF_A_DEPENDENCY'),
])
def test_devices_that_there_can_be(plugin, device, parse):
  text = f'{VERSION}{plugin}[defaults.environment]\nPJRT_DEVICE = "{device}"\n'
  assert parse(text).environment == {'PJRT_DEVICE': device}


def test_a_profile_that_is_not_there(tmp_path):
  with pytest.raises(BuildError, match='acme.toml: cannot be read: .*No such'):
    load_profile(tmp_path / 'acme.toml')


def test_paths_count_from_the_profile(tmp_path, monkeypatch):
  monkeypatch.chdir(ROOT)
  profile = vendor(tmp_path / 'somewhere')
  assert profile.file(profile.plugin.library).read_bytes() == LIBRARY
  assert load_profile(Path(profile.path)) == profile


def test_a_profile_that_begins_with_a_byte_order_mark(tmp_path):
  path = tmp_path / 'acme.toml'
  path.write_text('\ufeff' + VERSION, encoding='utf-8')
  assert load_profile(path).version == '2.9.0+acme.3'


@pytest.mark.parametrize('requirement', [
    'acme_tools[a, b-c] >= 1.2, < 2',
    "Acme.Tools @ file:///x ; os_name == 'posix'",
    "acme-tools; python_version in '3.10 3.11' or 'x' not in platform_release",
])
def test_requirements_that_pip_takes(requirement):
  assert canonicalize_name(requirement_of(requirement).name) == 'acme-tools'


@pytest.mark.parametrize('requirement', [
    'acme>=1.*', 'acme @ nonsense', 'acme @ file:x', 'acme; nonsense',
    "acme; 'a' == 'b'", "acme; os_name ~= 'posix'",
    "acme @ file:///x ; nonsense", "acme; os_name == 'é'"
])
def test_requirements_that_pip_refuses(requirement):
  assert requirement_of(requirement) is None


@pytest.mark.parametrize('name, said', [
    ('torch', 'is a package that torch_xla needs'),
    ('class', 'is a keyword'),
    ('json', "is a module of Python's own"),
    ('Acme', 'small letters'),
    ('acmé', 'small letters'),
    ('__init__', 'begins as the names do that Python keeps'),
    ('test', "is a module of Python's own"),
    ('sitecustomize', "is a module of Python's own"),
    ('acme', None),
    ('torch_acme', None),
])
def test_names_of_packages(name, said):
  why = names.wrong_package(name)
  assert why is said is None or said in why


@pytest.mark.parametrize(
    'judge, right, wrong', [
        (names.wrong_library, ['libacme.so', 'pjrt_c++-2.so.1.20'], [
            'a"""b.so', 'a\\x.so', 'a\nb.so', 'a,b.so', 'ä.so', '__init__.py',
            'acme'
        ]),
        (names.wrong_variable,
         ['ACME_DEVICES', 'PJRT_DEVICE', 'PYTORCH_DEBUG', 'TZ_ACME'], [
             'PYTHONHASHSEED', 'PYTHON_GIL', 'LD_LIBRARY_PATH',
             'MALLOC_ARENA_MAX', 'GLIBC_TUNABLES', 'MKL_NUM_THREADS',
             'KMP_AFFINITY', 'LC_ALL', 'LANG', 'TZ'
         ]),
    ],
    ids=['libraries', 'variables'])
def test_names(judge, right, wrong):
  assert [name for name in right + wrong if judge(name) is None] == right
