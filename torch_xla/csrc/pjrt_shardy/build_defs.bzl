"""How the shim is built, for the wheel and, with sanitizers, for the tests."""

_PACKAGE = "//torch_xla/csrc/pjrt_shardy:"

_SOURCES = [
    "answers.c",
    "api.c",
    "attributes.c",
    "callback.c",
    "client_compile.c",
    "compilation.c",
    "errors.c",
    "execute.c",
    "inner_call.c",
    "inner_table.c",
    "internal.h",
    "open.c",
    "readback.c",
]

_EXPORTS = _PACKAGE + "exports.lds"

C_OPTIONS = [
    "-std=c11",
    "-D_DEFAULT_SOURCE",
    "-Wall",
    "-Wextra",
    "-Wmissing-prototypes",
    "-Wstrict-prototypes",
]

def pjrt_shardy_library(name, copts = [], linkopts = [], **kwargs):
    """A shared library of the shim that exports its public functions only.

    Args:
      name: the file to make.
      copts: options for the compiler, after the usual ones.
      linkopts: options for the linker, after the usual ones.
      **kwargs: passed on to cc_binary.
    """
    native.cc_binary(
        name = name,
        srcs = [_PACKAGE + source for source in _SOURCES],
        additional_linker_inputs = [_EXPORTS],
        copts = C_OPTIONS + ["-fvisibility=hidden"] + copts,
        # libdl is named although a new glibc has it in libc: an old one does
        # not, and the loader then has to bring it in.
        linkopts = [
            "-Wl,--build-id=none",
            "-Wl,-soname," + name,
            "-Wl,--version-script=$(location %s)" % _EXPORTS,
            "-Wl,--no-undefined",
            "-Wl,--no-as-needed,-l:libdl.so.2,--as-needed",
        ] + linkopts,
        linkshared = True,
        deps = [_PACKAGE + "headers"],
        **kwargs
    )
