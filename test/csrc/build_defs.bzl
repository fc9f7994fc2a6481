"""How the drivers are built and run."""

def driver_test(name, libraries, cases, linkopts = [], **kwargs):
    """A driver; as a test it runs cases, and fails where one does.

    Args:
      name: the program to make.
      libraries: what it tests, what that stands before, and no plugin.
      cases: what to run, each as in cases.bzl.
      linkopts: options for the linker, after the usual ones.
      **kwargs: passed on to cc_test.
    """
    native.cc_test(
        name = name,
        size = "small",
        # A shell takes them apart.
        args = ["$(rootpath %s)" % library for library in libraries] +
               ["'%s'" % case for case in cases],
        data = libraries,
        linkopts = [
            "-ldl",
            "-lpthread",
        ] + linkopts,
        **kwargs
    )
