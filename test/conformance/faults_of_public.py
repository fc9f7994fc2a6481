"""Faults of the kinds that public plugins have had; most need no torch."""

from __future__ import annotations

from fault_rows import crashed, failed, Found, Row

ROWS = (
    *(failed('transfer-of-rank', 'transfers.types/S32', text, opcode=rank)
      for rank, text in (('3', 'S32[3, 4, 5]'), ('4', 'S32[2, 3, 4, 3]'),
                         ('6', 'S32[2, 1, 3, 2, 2, 3]'))),
    *(failed(
        'strides-of-width',
        'transfers.strides/transposed',
        f'S{8 * int(width)}[70, 60]: byte_strides',
        'transfers.types/S32',
        opcode=width) for width in '128'),
    *(failed(
        'strides-of-rank',
        f'transfers.strides/{part}',
        'not heeded',
        'transfers.strides/permuted',
        opcode=rank)
      for rank, part in (('4', 'channels_last'), ('5', 'five_ranks'))),
    failed('strides-of-zero', 'transfers.strides/repeated', 'not heeded',
           'transfers.strides/sliced'),
    failed('strides-of-slices', 'transfers.strides/sliced', 'not heeded',
           'transfers.strides/permuted', 'transfers.strides/repeated'),
    failed('strides-for-reading', 'transfers.strides/permuted',
           'heeded when it is read back, and not by a program',
           'transfers.types/S32'),
    failed('copy-of-odd-size', 'transfers.between', '1 of 1 bytes',
           'sizes.copies/1 MiB'),
    failed('copy-of-type', 'transfers.between', 'F16[] from device',
           'sizes.copies/1 MiB'),
    failed('copy-to-memory', 'transfers.between', 'by its memory',
           'sizes.copies/1 MiB'),
    failed('upload-to-first', 'transfers.by_memory', 'is on another device',
           'transfers.types/F32'),
    failed('read-beside', 'transfers.at_once', 'is wrong', 'readback.fresh'),
    *(Row('result-between',
          (Found(f'rounding.nearest/{opcode}_f32',
                 '8193 el'), Found(f'rounding.nearest/{opcode}_bf16', '8193')),
          ('rounding.nearest/multiply_f32', 'readback.alive'), opcode)
      for opcode in ('add', 'divide')),
    # What is wrong of each of these is so of few elements, too.
    *(failed('wrong-op', f'rounding.{part}', 'bytes differ', opcode=opcode)
      for part, opcode in (('nearest/multiply_c64', 'multiply'),
                           ('nearest/s32_to_f32', 'convert'),
                           ('nearest/f32_to_f8e5m2', 'convert'),
                           ('bytes/s32_to_u8', 'convert'))),
    failed(
        'wrong-op',
        'sizes.empty/dot',
        'of empty arrays',
        'sizes.empty/0x4',
        opcode='dot'),
    failed('all-reduce-to-1024', 'groups.told/all-reduce',
           'of 4128 elements it has', 'groups.told/all-gather'),
    failed(
        'all-reduce-to-1024',
        'groups.told/all-reduce',
        'all-reduce of bf16',
        opcode='13'),
    failed('cast-signed', 'rounding.bytes/u8_to_f32', 'F32: 2',
           'rounding.bytes/s8_to_f32', 'rounding.bytes/f32_to_u8'),
    crashed('aborts-on-empty', 'sizes.empty/0x4', 'readback.fresh'),
    failed('pool-of-results', 'readback.alive',
           'which is result 256: a later one has overwritten it',
           'readback.fresh'),
    failed(
        'pool-of-results', 'readback.alive', 'is result 1000', opcode='1000'),
    failed('pool-of-uploads', 'readback.alive', 'which is argument 25',
           'readback.fresh'),
    failed('result-over-argument', 'sizes.results/1 MiB',
           'as an argument after the sum', 'readback.fresh'),
    failed('donation-swaps', 'donation.several', 'takes the place of',
           'donation.real/taken'),
    failed('donation-spoils', 'donation.several', 'which nobody donated beside',
           'donation.real/taken'),
    Row('error-of-second-lost',
        (Found('errors.asynchronous/second',
               'no error'), Found('errors.asynchronous/next', 'no error')),
        ('errors.asynchronous/executed',)),
    failed('error-once', 'errors.asynchronous/awaited_twice', 'no error',
           'errors.asynchronous/read'),
    Row(
        'callback-with-lock',
        tuple(
            Found(f'callbacks.destroys/{part}',
                  'a lock is held while it is called')
            for part in ('result', 'begins')), ('readback.fresh',)),
    failed('compile-by-code', 'shardings.assignment/last',
           'but replica is assigned to', 'caching.names'),
    failed('compile-by-name', 'caching.names', 'multiply gives',
           'caching.reload/same client'),
    failed('loads-on-first', 'loading.devices/another', 'is on device 0',
           'loading.devices/two', 'loading.apart'),
    failed('loads-on-one', 'loading.devices/two', 'is on one device',
           'loading.devices/another', 'loading.apart'),
    failed('writes-behind', 'start.struct_sizes', 'PJRT_Buffer_ToHostBuffer:',
           'readback.fresh'),
    failed('client-leaves-file', 'leaks.behind/files', 'the files that',
           'leaks.behind/processes'),
    failed('compile-leaves-file', 'leaks.behind/files', 'the files that',
           'leaks.behind/threads'),
    failed('client-leaves-thread', 'leaks.behind/threads', 'the threads that',
           'leaks.behind/files'),
    failed('client-leaves-process', 'leaks.behind/processes',
           'the processes that', 'leaks.behind/files'),
    # What earlier findings said wrongly.
    failed(
        'wrong-op',
        'readiness.data/result',
        'it is wrong, and not early',
        opcode='add'),
    failed(
        'nan-op',
        'training.losses/replicated',
        'by nan;',
        'training.specs/annotated',
        opcode='dot'),
)
