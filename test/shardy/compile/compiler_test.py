"""The compiler's loop: which attempt is made, and what is recorded of it."""

import logging

from fake_backend import FakeCompilation, made_of
import pytest
from torch_xla.shardy.compile.attempt import Attempt, Failure
from torch_xla.shardy.compile.compiler import Compiler
from torch_xla.shardy.compile.ledger import Ledger
from torch_xla.shardy.compile.plan import Plan, Probe, Step
from torch_xla.shardy.compile.record import TensorRecord
from torch_xla.shardy.errors import BackendCompileError, LayoutError
from torch_xla.shardy.hlo import compile_options, messages, op_sharding, protos
from torch_xla.shardy.hlo.array_shape import ArrayShape
from torch_xla.shardy.hlo.compile_options import CompileOptions, Partitioner
from torch_xla.shardy.hlo.compiled_program import CompiledProgram
from torch_xla.shardy.sharding.hlo_sharding import REPLICATED
from torch_xla.shardy.sharding.text import parse_sharding
from torch_xla.shardy.v2.to_v2 import ShardingCounts

_GSPMD = Attempt(b'for gspmd', Partitioner.GSPMD, ShardingCounts(v2=2))
_REFUSED = BackendCompileError(3, 'no such op')


def _shardy(promise=lambda outcome: None, tensors=()) -> Attempt:
  return Attempt(b'for shardy', Partitioner.SHARDY, ShardingCounts(v2=1),
                 tensors, promise)


def _step(attempt: Attempt, **fields) -> Step:
  return Step(lambda tiles: attempt, **fields)


def _plan(*attempts: Attempt, **fields) -> Plan:
  return Plan('the name', tuple(map(_step, attempts)), attempts[0].tensors,
              **fields)


def _compile(plan: Plan, *compilations: FakeCompilation):
  """Has one compiler compile all of them by one plan; the last one's record."""
  ledger = Ledger()
  compiler = Compiler(lambda program, program_format, options: plan, ledger)
  with ledger.collect() as programs:
    for compilation in compilations:
      compiler(compilation)
  assert len(programs) == len(compilations)
  return programs[-1]


def _warnings(caplog) -> list[str]:
  return [r.getMessage() for r in caplog.records if r.levelno > logging.INFO]


def test_an_attempt_that_keeps_its_promise_is_the_last(caplog):
  outcomes = []

  def promise(outcome):
    outcomes.append(outcome)

  compilation = FakeCompilation()
  record = _compile(_plan(_shardy(promise), _GSPMD), compilation)
  (program, options), = compilation.handed_on
  assert program == b'for shardy'
  assert compile_options.read(options) == CompileOptions(
      Partitioner.SHARDY, 1, 8)
  outcome, = outcomes
  assert outcome.options == options
  assert outcome.error is None and outcome.compiled is not None
  assert record.name == 'the name'
  assert record.format == 'hlo'
  assert record.options == CompileOptions(Partitioner.SHARDY, 1, 8)
  assert record.shardings == ShardingCounts(v2=1)
  assert record.collectives == ()
  assert record.note == '' and record.error is None
  assert record.sent == b'sent' and record.handed_on == b'for shardy'
  assert record.options_sent == compilation.options
  assert record.options_handed_on == options
  assert not _warnings(caplog)


def test_after_a_broken_promise_the_next_attempt_is_made(caplog):
  compilation = FakeCompilation(seconds=0.02)
  record = _compile(
      _plan(_shardy(lambda outcome: 'it is laid out anew'), _GSPMD),
      compilation)
  assert [program for program, _ in compilation.handed_on
         ] == [b'for shardy', b'for gspmd']
  assert record.partitioner is Partitioner.GSPMD
  assert record.shardings == ShardingCounts(v2=2)
  assert record.handed_on == b'for gspmd'
  assert record.options_handed_on == compilation.handed_on[1][1]
  assert record.note == 'it is laid out anew: GSPMD partitions'
  assert record.seconds >= 2 * 0.02  # Of both.
  warning, = _warnings(caplog)
  assert warning.startswith(f'{record.note}. ')
  assert 'official wheel' in warning


def test_three_attempts():
  """The note says who partitions in the end, and why not the one before."""
  again = Attempt(b'again', Partitioner.SHARDY, promise=lambda outcome: 'two')
  compilation = FakeCompilation([made_of()] * 3, seconds=0.02)
  record = _compile(
      _plan(_shardy(lambda outcome: 'one'), again, _GSPMD), compilation)
  assert len(compilation.handed_on) == 3
  assert record.note == 'two: GSPMD partitions'
  assert [one.reason for one in record.given_up] == ['one', 'two']
  assert all(one.seconds >= 0.02 for one in record.given_up)


def test_an_attempt_that_asks_is_recorded_and_nobody_is_warned(caplog):
  probe = Probe(_attempt('probe'), {0: (8,)})
  record = _compile(_plan(_shardy(), probe=probe), FakeCompilation())
  assert not record.note and not _warnings(caplog)
  one, = record.given_up
  asked = 'asked how it splits 1 results'
  assert (one.partitioner, one.reason) == (Partitioner.SHARDY, asked)
  assert f'\n  attempt before: shardy, {one.seconds:.2f} s: {asked}' in (
      str(record))


def test_the_reason_of_a_plan_is_noted_and_warned_of(caplog):
  record = _compile(_plan(_GSPMD, reason='it is manual'), FakeCompilation())
  assert record.note == 'it is manual: GSPMD partitions'
  assert len(_warnings(caplog)) == 1


def test_what_differs_in_numbers_alone_is_warned_of_once(caplog):
  """Each program has its own note all the same."""
  ledger, numbers = Ledger(), iter(range(5))
  compiler = Compiler(
      lambda program, program_format, options: _plan(
          _GSPMD,
          reason=f'parameter {next(numbers)}, f32[{len(program)},8], is odd'),
      ledger)
  for program in b'a', b'bcd':
    compiler(FakeCompilation(program=program))
  assert [program.note for program in ledger.programs()] == [
      'parameter 0, f32[1,8], is odd: GSPMD partitions',
      'parameter 1, f32[3,8], is odd: GSPMD partitions'
  ]
  assert len(_warnings(caplog)) == 1
  assert 'parameter 0' in _warnings(caplog)[0]


def test_the_error_of_the_only_attempt_is_raised_and_recorded():
  ledger = Ledger()
  compiler = Compiler(lambda *_: _plan(_GSPMD), ledger)
  with pytest.raises(BackendCompileError) as raised:
    compiler(FakeCompilation([_REFUSED]))
  assert raised.value is _REFUSED
  record, = ledger.programs()
  assert record.error == 'no such op'
  assert record.collectives is None
  assert record.partitioner is Partitioner.GSPMD


def test_a_refused_attempt_breaks_its_promise_if_that_says_so():
  outcomes = []

  def promise(outcome):
    outcomes.append(outcome)
    return f'refused ({outcome.error})' if outcome.error else None

  compilation = FakeCompilation([_REFUSED, made_of()])
  record = _compile(_plan(_shardy(promise), _GSPMD), compilation)
  assert outcomes[0].error is _REFUSED and outcomes[0].compiled is None
  assert record.error is None
  assert record.note == 'refused (no such op): GSPMD partitions'
  assert record.handed_on == b'for gspmd'


def test_an_attempt_that_promises_nothing_is_used_as_it_is():
  """Refused or not, so nothing after it is ever tried."""
  compilation = FakeCompilation([_REFUSED, made_of()])
  with pytest.raises(BackendCompileError, match='no such op'):
    _compile(_plan(_GSPMD, _GSPMD), compilation)
  assert len(compilation.handed_on) == 1


@pytest.mark.parametrize('tell', [
    pytest.param(lambda: (b'', 'unheard-of'), id='another format'),
    pytest.param(lambda: (b'\xff', 'hlo'), id='damaged'),
    pytest.param(lambda: (_ for _ in ()).throw(_REFUSED), id='refuses'),
])
def test_a_backend_that_does_not_tell_what_it_made(tell):
  """The promise decides what to make of that."""
  outcomes = []

  def promise(outcome):
    outcomes.append(outcome)

  compilation = FakeCompilation()
  compilation.compiled_program = tell
  record = _compile(_plan(_shardy(promise), _GSPMD), compilation)
  assert outcomes[0].compiled is None and outcomes[0].error is None
  assert record.collectives is None and record.error is None


def _tensor(parameter, instruction: str, opcode: str) -> TensorRecord:
  return TensorRecord(
      parameter=parameter,
      instruction=instruction,
      shape=ArrayShape('f32', (8, 8), 32),
      spec=None,
      priority=None,
      sdy='',
      layout=REPLICATED,
      source=(instruction, opcode))


@pytest.mark.parametrize('partitioner, local', [(Partitioner.SHARDY, (2, 8)),
                                                (Partitioner.GSPMD, None)])
def test_tensors_are_found_in_the_compiled_program(partitioner, local):
  """Parameters by number; intermediates by a name that Shardy's way keeps."""
  tiled = parse_sharding('{devices=[4,1,2]<=[8] last_tile_dim_replicate}')
  shape = messages.make(
      protos.ShapeProto, element_type=11, dimensions=[2,
                                                      8]).SerializeToString()
  module = messages.make(
      protos.HloModuleProto,
      spmd_parameters_shardings=[op_sharding.to_bytes(tiled)])
  instruction = module.computations.add().instructions.add(
      opcode='add', shape=shape)
  instruction.metadata.op_name = 'sum'
  tensors = (_tensor(0, 'p0', 'parameter'), _tensor(None, 'sum', 'add'))
  record = _compile(
      _plan(Attempt(b'', partitioner, tensors=tensors)),
      FakeCompilation([(module.SerializeToString(), 'hlo')]))
  parameter, intermediate = record.tensors
  assert parameter.compiled == str(tiled)
  assert parameter.local_shape.dims == (2, 8)
  assert intermediate.compiled is None
  assert (None if intermediate.local_shape is None else
          intermediate.local_shape.dims) == local


_TELLS_NOT = BackendCompileError(12, 'not implemented')
# A compiled program that tells of its results' layouts, and one that does not.
_TOLD = CompiledProgram(None, (), (), {})
_SILENT = CompiledProgram(None, None, None, {})


def _attempt(name: str, promise=lambda outcome: None, **fields) -> Attempt:
  fields.setdefault('read', lambda *_: _TOLD)
  return Attempt(name.encode(), Partitioner.SHARDY, promise=promise, **fields)


def _tried(compilation: FakeCompilation) -> list[str]:
  return [program.decode() for program, _ in compilation.handed_on]


class _NeverTells(FakeCompilation):
  """A backend that compiles, and cannot be asked what came of it."""

  def compiled_program(self):
    raise _TELLS_NOT


def test_steps_are_not_worked_out_in_vain():
  compilation = FakeCompilation()
  steps = _step(_attempt('one')), Step(lambda tiles: 1 / 0)
  _compile(Plan('m', steps), compilation)
  assert _tried(compilation) == ['one']


def _told_and_untold(**fields) -> Plan:
  return Plan('the name', (_step(_attempt('told', **fields), reports=True),
                           _step(_attempt('untold', **fields), reports=False)))


def test_a_backend_that_does_not_tell_gets_what_is_for_such(caplog):
  """That is no promise broken: nothing is warned of."""
  compilation = FakeCompilation()
  record = _compile(_told_and_untold(read=lambda *_: _SILENT), compilation)
  assert _tried(compilation) == ['told', 'untold']
  assert record.note == '' and record.error is None
  assert record.handed_on == b'untold'
  assert not _warnings(caplog)
  one, = record.given_up
  assert one.reason == 'the backend does not report its layouts'


def test_a_backend_that_never_tells_is_asked_once():
  """The status that it gives says so: it has no such function."""
  first, second = _NeverTells(), _NeverTells()
  _compile(_told_and_untold(), first, second)
  assert _tried(first) == ['told', 'untold']
  assert _tried(second) == ['untold']


def test_a_backend_that_once_does_not_tell_is_asked_again():
  """Of one program it gives another status, or says nothing of results."""

  class Refuses(FakeCompilation):

    def compiled_program(self):
      raise _REFUSED

  for silent in Refuses(), FakeCompilation():
    again = FakeCompilation()
    compiler_reads = iter([_SILENT, _SILENT, _TOLD])
    _compile(
        _told_and_untold(read=lambda *_: next(compiler_reads)), silent, again)
    assert _tried(silent) == ['told', 'untold']
    assert _tried(again)[0] == 'told'


def test_an_attempt_for_the_silent_is_not_made_for_one_that_tells():
  compilation = FakeCompilation()
  with pytest.raises(LayoutError, match='it is odd'):
    _compile(_told_and_untold(promise=lambda outcome: 'it is odd'), compilation)
  assert _tried(compilation) == ['told']


@pytest.mark.parametrize('made, tried', [
    ([_REFUSED, made_of()], ['one', 'as text']),
    ([made_of(), made_of()], ['one', 'last']),
    ([_REFUSED, _REFUSED, made_of()], ['one', 'as text', 'last']),
])
def test_an_attempt_for_backends_that_refuse(made, tried, caplog):

  def refused(outcome):
    return 'refused' if outcome.error else 'odd'

  def kept(outcome):
    return 'refused' if outcome.error else None

  compilation = FakeCompilation(made)
  record = _compile(
      Plan('m', (_step(_attempt('one', refused)),
                 _step(
                     _attempt('as text', kept),
                     after=Failure.REFUSED,
                     description='in text'), _step(_attempt('last')))),
      compilation)
  assert _tried(compilation) == tried
  how = 'in text' if tried[-1] == 'as text' else 'SHARDY partitions'
  assert record.note.endswith(f': {how}')
  assert ('compiled twice' in _warnings(caplog)[-1]) == (how == 'in text')


def test_the_last_attempt_that_breaks_its_promise_is_an_error():
  """Never a wrong number: there is nothing after it; the record has it."""
  ledger = Ledger()
  plan = _plan(
      _attempt('one', lambda outcome: 'it is odd', answer=lambda o: 1 / 0))
  compilation = FakeCompilation()
  with pytest.raises(LayoutError) as raised:
    Compiler(lambda *_: plan, ledger)(compilation)
  assert str(
      raised.value).startswith('program the name cannot be used: it is odd. ')
  record, = ledger.programs()
  assert record.error == str(raised.value) and not record.given_up
  assert not compilation.answers


def test_a_refusal_that_breaks_the_last_promise_is_the_backends_error():
  with pytest.raises(BackendCompileError) as raised:
    _compile(
        _plan(_attempt('one', lambda outcome: 'refused')),
        FakeCompilation([_REFUSED]))
  assert raised.value is _REFUSED


def test_what_the_runtime_reads():
  """The answer of the attempt that is used."""
  compilation = FakeCompilation()
  outcomes = []

  def answer(outcome):
    outcomes.append(outcome)
    return b'module {}', 'mlir'

  _compile(
      _plan(
          _attempt(
              'one', lambda outcome: 'odd', answer=lambda o:
              (b'wrong', 'mlir')), _attempt('two', answer=answer)), compilation)
  assert compilation.answers == [(b'module {}', 'mlir')]
  outcome, = outcomes
  assert outcome.compiled is _TOLD and outcome.answer_format == 'hlo'


def test_what_the_runtime_reads_is_the_backends_own():
  """It reads V1, made once for all of its readings."""
  v2, v1 = map(parse_sharding,
               ('{devices=[2,4]<=[8]}', '{devices=[2,4]0,1,2,3,4,5,6,7}'))
  compilation = FakeCompilation([made_of(op_sharding.to_bytes(v2))])
  Compiler(lambda *_: _plan(_GSPMD), Ledger())(compilation)
  assert compilation.answers == [made_of(op_sharding.to_bytes(v1))]


@pytest.mark.parametrize('note, said, expected', [
    ('', 'not checked', 'not checked'),
    ('plain', 'not checked', 'plain; not checked'),
    ('plain', '', 'plain'),
])
def test_the_note_of_an_outcome(caplog, note, said, expected):
  """Warned of once, whatever the program."""
  plan = _plan(_attempt('one', note_of=lambda outcome: said), note=note)
  record = _compile(plan, FakeCompilation(), FakeCompilation())
  assert record.note == expected
  assert _warnings(caplog) == ([said] if said else [])


def test_an_attempt_in_another_format():
  """The record says in which it went out, and how its shardings are said."""
  compilation = FakeCompilation()
  record = _compile(
      _plan(_attempt('one', program_format='mlir', form='sdy')), compilation)
  assert compilation.formats == ['mlir']
  assert (record.format, record.form) == ('mlir', 'sdy')
  assert _compile(_plan(_attempt('one')), FakeCompilation()).format == 'hlo'


def test_an_attempts_own_reader_is_asked_in_the_answers_format():
  asked = []

  def read(*arguments):
    asked.append(arguments)
    return _TOLD

  _compile(
      _plan(_attempt('one', read=read)), FakeCompilation([(b'made', 'mlir')]))
  assert asked == [(b'made', 'mlir', frozenset())]


def test_stages_are_written_to_files(tmp_path, monkeypatch):
  """One that changes nothing has none; what no printer takes is bytes."""
  monkeypatch.setenv('TORCH_XLA_SHARDY_DUMP', str(tmp_path))

  def text_of(program):
    if program != b'sent':
      raise RuntimeError('no program')
    return 'as text'

  compiler = Compiler(
      lambda *_: _plan(_attempt('sent', lambda outcome: 'odd'), _GSPMD),
      Ledger(),
      text_of=text_of)
  compiler(FakeCompilation())
  folder, = tmp_path.iterdir()
  assert sorted(path.name for path in folder.iterdir()) == [
      '00.sent.hlo', '01.answer.hlo.pb', '02.handed_on.hlo.pb',
      '03.answer.hlo.pb'
  ]
  assert (folder / '00.sent.hlo').read_text() == 'as text'
  assert (folder / '02.handed_on.hlo.pb').read_bytes() == b'for gspmd'
