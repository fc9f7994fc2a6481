"""How the compile-only plugin is built."""

load(
    "//torch_xla/csrc/pjrt_shardy:build_defs.bzl",
    "INNER_SOURCES",
    "shared_library",
)

_PACKAGE = "//torch_xla/csrc/pjrt_aot:"

_SOURCES = [
    "buffers.c",
    "calls.c",
    "client.c",
    "compile.c",
    "devices.c",
    "events.c",
    "executables.c",
    "execute.c",
    "internal.h",
    "open.c",
    "programs.c",
    "steps.c",
    "table.c",
    "transfers.c",
    "world.c",
]

def pjrt_aot_library(name, more_srcs = [], **kwargs):
    """The plugin as a shared library.

    Args:
      name: the file to make.
      more_srcs: sources beside its own.
      **kwargs: passed on to shared_library.
    """
    shared_library(
        name = name,
        srcs = [_PACKAGE + source for source in _SOURCES] +
               INNER_SOURCES + more_srcs,
        exports = _PACKAGE + "exports.lds",
        deps = [
            _PACKAGE + "headers",
            "//torch_xla/csrc/pjrt_shardy:headers",
        ],
        **kwargs
    )
