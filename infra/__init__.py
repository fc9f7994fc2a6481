"""Tools of the project: the wheel builder and the patch series."""

import sys

if sys.version_info < (3, 11):
  sys.exit('error: the tools of this project run on Python 3.11 or newer. A '
           'wheel for an older one is built there with --python, as in '
           '`python3.11 setup.py bdist_wheel --python 3.10`.')
