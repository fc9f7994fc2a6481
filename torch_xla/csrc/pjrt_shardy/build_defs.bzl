"""How the plugins are built, for the wheel and, with sanitizers, for tests."""

_PACKAGE = "//torch_xla/csrc/pjrt_shardy:"

# What every plugin needs that stands before another: what inner.h declares.
INNER_SOURCES = [
    _PACKAGE + source
    for source in [
        "errors.c",
        "inner.c",
        "inner.h",
        "load.c",
    ]
]

_SOURCES = [
    _PACKAGE + source
    for source in [
        "answers.c",
            "attributes.c",
        "callback.c",
        "client.c",
        "client_compile.c",
        "compilation.c",
        "execute.c",
        "internal.h",
        "kept.c",
        "open.c",
    "optimized_program.c",
        "profiler.c",
        ]
]

C_OPTIONS = [
    "-std=c11",
    "-D_DEFAULT_SOURCE",
    "-Wall",
    "-Wextra",
    "-Wmissing-prototypes",
    "-Wstrict-prototypes",
]

def shared_library(name, exports, copts = [], linkopts = [], **kwargs):
    """A library of the wheel, which exports what is public.

    Args:
      name: the file to make.
      exports: the linker's script that names what is public.
      copts: options for the compiler, after the usual ones.
      linkopts: options for the linker, after the usual ones.
      **kwargs: passed on to cc_binary.
    """
    native.cc_binary(
        name = name,
        additional_linker_inputs = [exports],
        copts = C_OPTIONS + ["-fvisibility=hidden"] + copts,
        # libdl is named although a new glibc has it in libc: an old one does
        # not, and the loader then has to bring it in.
        linkopts = [
            "-Wl,--build-id=none",
            "-Wl,-soname," + name,
            "-Wl,--version-script=$(location %s)" % exports,
            "-Wl,--no-undefined",
            "-Wl,--no-as-needed,-l:libdl.so.2,--as-needed",
        ] + linkopts,
        linkshared = True,
        **kwargs
    )

def pjrt_shardy_library(name, **kwargs):
    """The shim as a shared library.

    Args:
      name: the file to make.
      **kwargs: passed on to shared_library.
    """
    shared_library(
        name = name,
        srcs = _SOURCES + INNER_SOURCES,
        exports = _PACKAGE + "exports.lds",
        deps = [_PACKAGE + "headers"],
        **kwargs
    )
