"""The layers of the package: each folder, and each module that lies in none.

`shardy/purity_test.py` holds imports to it, and `pictures_test.py` the picture.
"""

from __future__ import annotations

# From the bottom up: what each may import when it is imported, and what else when
# it is called, or for types.
MAY_IMPORT: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    'torch_xla_shardy': ((), ()),
    'errors': ((), ()),
    'warn_once': ((), ()),
    'callers': ((), ()),
    'progress': ((), ()),
    'layers': ((), ()),
    'late_module': ((), ()),
    'tensor_refs': ((), ()),
    'tensor_names': (('tensor_refs',), ()),
    'process_environment': ((), ()),
    'web_page': ((), ()),
    'ended_process': ((), ()),
    'operation_names': ((), ()),
    'gate': (('layers', 'torch_xla_shardy'), ()),
    'mode': (('errors',), ()),
    'vendor_defaults': (('mode',), ()),
    'sharding': ((), ()),
    'hlo': (('sharding',), ()),
    'v2': (('hlo', 'sharding'), ()),
    'annotate': (('sharding',), ()),
    'door': (('errors', 'mode'), ()),
    'compile': (('door', 'errors', 'hlo', 'operation_names', 'warn_once',
                 'sharding', 'v2'), ()),
    'sdy': (('annotate', 'compile', 'hlo', 'sharding'), ()),
    'rewrite': (
        ('annotate', 'compile', 'errors', 'hlo', 'sdy', 'sharding', 'v2'), ()),
    'bind': (('annotate', 'mode', 'warn_once', 'sharding', 'tensor_names',
              'tensor_refs'), ('door',)),
    'stablehlo': (
        ('annotate', 'bind', 'compile', 'door', 'errors', 'hlo', 'late_module',
         'mode', 'rewrite', 'sdy', 'sharding', 'tensor_names', 'v2'), ()),
    'switch': (('errors', 'mode'), ('bind', 'compile', 'door', 'stablehlo')),
    'device_count': (('errors',), ()),
    'shardy': (('device_count', 'errors', 'mode', 'switch'),
               ('compile', 'door', 'stablehlo', 'tensor_names')),
    'cache': (('door', 'errors', 'hlo', 'mode'), ()),
    'doctor': (('compile', 'door', 'ended_process', 'errors', 'hlo', 'mode',
                'process_environment', 'rewrite', 'stablehlo',
                'torch_xla_shardy', 'vendor_defaults'), ()),
    'metrics': ((), ()),
    'policy': (
        ('annotate', 'bind', 'layers', 'mode', 'sharding', 'tensor_names'), ()),
    'script_names': (('bind', 'callers', 'door', 'hlo', 'tensor_names'), ()),
    'explanation': (
        ('annotate', 'bind', 'compile', 'door', 'hlo', 'mode',
         'operation_names', 'script_names', 'stablehlo', 'tensor_names',
         'torch_xla_shardy', 'web_page', 'layers'), ('policy',)),
    'audit': (
        ('annotate', 'bind', 'compile', 'door', 'gate', 'hlo', 'layers', 'mode',
         'policy', 'process_environment', 'sharding', 'tensor_names',
         'torch_xla_shardy', 'web_page'), ('script_names',)),
    'guards': (
        ('callers', 'compile', 'door', 'hlo'), ('explanation', 'stablehlo')),
    'explained_script': (
        ('gate', 'torch_xla_shardy'), ('errors', 'explanation', 'guards')),
    'exported_script': (('torch_xla_shardy',), ('errors', 'explanation',
                                                'shardy', 'stablehlo')),
    '__main__': (('torch_xla_shardy',), ()),
    'aot': (('callers', 'compile', 'door', 'ended_process', 'errors', 'gate',
             'hlo', 'layers', 'mode', 'operation_names', 'process_environment',
             'progress', 'script_names', 'sharding', 'tensor_names',
             'torch_xla_shardy', 'web_page'), ()),
    'suggested_priorities': (
        ('torch_xla_shardy',), ('aot', 'errors', 'explanation', 'gate', 'mode',
                                'stablehlo')),
    'torch_xla_conformance': (
        ('ended_process', 'gate', 'hlo', 'late_module', 'mode', 'sharding',
         'stablehlo', 'torch_xla_shardy', 'web_page'), ('cache', 'door')),
}
