"""Every version, hash and requirement that the wheel builder pins."""

# The official release that the fork is laid over, and upstream's tag for it.
PACKAGE = 'torch_xla'
OFFICIAL_VERSION = '2.9.0'
OFFICIAL_TAG = f'v{OFFICIAL_VERSION}'
GLIBC_MINOR = 28
PLATFORM = f'manylinux_2_{GLIBC_MINOR}_x86_64'

# sha256 of the official wheel for each Python that has one.
OFFICIAL_SHA256 = {
    '3.10': 'bc10e297513c5f8e4049488a7eef4646206f7ef3ef57c741c4bf21ed5ada2692',
    '3.11': '13027393e252c7583ac364b02af8f1c0f7c497095b653c14ead82fbbda8549c3',
    '3.12': 'd6b4fbb2704bff08194c170b23dcf6dea562cf3cb53d9951b86667c327b6f5ed',
    '3.13': 'e85ba39f12758a8b3465df28389f6899e31522bc64cc58dd108fbbfeedafb776',
}

# Where this project's files lie in the wheel: in upstream's package, and in that
# of the command, which imports nothing of torch.
COMMAND_PACKAGE = 'torch_xla_shardy'
PACKAGES = (PACKAGE, COMMAND_PACKAGE)
SCRIPTS = {'torch-xla-shardy': f'{COMMAND_PACKAGE}.main:main'}

# What the fork's metadata say. Requirements are in ranges that the suite ran
# with; upstream's own stay as they are.
VERSION = f'{OFFICIAL_VERSION}+shardy.1'
SUMMARY = ('XLA bridge for PyTorch: a fork distribution of the official '
           f'{OFFICIAL_VERSION} with Shardy and V2 shardings')
REQUIRES = ('protobuf>=5.26,<8',)
EXTRAS = {
    'cpu': ('xla-cpu-pjrt==0.0.1',),
    # From what the official wheel's own extra `pallas` pins, so that both can
    # be installed, to the newest that was run.
    'stablehlo': ('jaxlib>=0.7.1,<0.13',),
}
GENERATOR_NAME = 'torch_xla shardy builder'
GENERATOR = f'{GENERATOR_NAME} ({VERSION})'

# The entry points by which torch_xla finds device plugins, and pip commands.
PLUGIN_GROUP = 'torch_xla.plugins'
SCRIPT_GROUP = 'console_scripts'

# The plugins in C, and what mends `_XLAC`, by where the wheel holds them: what
# Bazel builds them from.
PLUGINS = {
    'torch_xla/shardy/libgraph_identity.so': 'torch_xla/csrc/graph_identity',
    'torch_xla/shardy/libpjrt_aot.so': 'torch_xla/csrc/pjrt_aot',
    'torch_xla/shardy/libpjrt_shardy.so': 'torch_xla/csrc/pjrt_shardy',
}


def python_tag(python: str) -> str:
  """The tag of a Python, as in 'cp311'."""
  return 'cp' + python.replace('.', '')


def wheel_name(version: str, python: str, distribution: str = PACKAGE) -> str:
  """The file name of a wheel of torch_xla for `python`, as in '3.11'."""
  tag = python_tag(python)
  return f'{distribution}-{version}-{tag}-{tag}-{PLATFORM}.whl'
