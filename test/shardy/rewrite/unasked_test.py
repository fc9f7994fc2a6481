"""What is said of constraints that torch_xla adds by itself."""

import annotated_modules as modules
from printed import assert_printed
import pytest
from torch_xla.shardy.annotate import call_target
from torch_xla.shardy.annotate.annotation import Annotation, UserMesh
from torch_xla.shardy.rewrite import extract, to_sdy, unasked

pytest.importorskip('jaxlib._hlo', reason='needs jaxlib: HLO text')
_MESH = UserMesh.from_devices((2, 4), ('x', 'y'))
_X = 'sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}'
_Y = 'sharding={devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}'
_F, _B = 'f32[8,8]{1,0}', 'bf16[8,8]{1,0}'
_SHARDING = 'custom_call_target="Sharding"'


def _say(axis, *priority) -> Annotation:
  return Annotation.from_spec(_MESH, (axis, None), priority or None)


def _repeated(entry: str) -> dict[str, Annotation]:
  """What is said of each constraint that nobody asked for, by its name."""
  module = modules.module_of(entry)
  taken = extract.extract_annotations(module)
  unasked.repeat(module, taken)
  names = {
      (c.id, i.id): i.name for c in module.computations for i in c.instructions
  }
  return {names[key]: said for key, said in taken.repeated.items()}


_P = f'''
    p = {_F} parameter(0), {_X}
    q = {_F} parameter(1), {_Y}
    n = {_F} parameter(2), {_X}
    b = f32[] custom-call(p, q), {modules.bind(_say(0, 1, None), _say(1, 2, None))}'''


def test_through_casts_and_copies():
  text = _P + f'''
    c = {_B} convert(p), {_X}
    d = {_B} copy(c)
    e = {_B} custom-call(d), {_SHARDING}, {_X}
    f = {_F} convert(e)
    ROOT g = {_F} custom-call(f), {_SHARDING}, {_X}'''
  assert _repeated(text) == dict.fromkeys('ceg', _say(0, 1, None))


@pytest.mark.parametrize('update', [
    f'{_F} multiply(p, n)',
    f'{_F} multiply(n, p)',
    f'{_F} power(p, n)',
    f'{_F} dynamic-update-slice(p, one, at, at)',
    f'{_F} reshape(p)',
])
def test_through_updates(update):
  text = _P + f'''
    one = f32[1,1] constant({{{{1}}}})
    at = s32[] constant(0)
    u = {update}
    ROOT s = {_F} custom-call(u), {_SHARDING}, {_X}'''
  assert _repeated(text) == {'s': _say(0, 1, None)}


def test_not_what_a_pass_holds():
  """Chain 8330: the annotation opened what XLA must not split."""
  text = _P + f"""
    m = {_F} multiply(p, n)
    shardy.7 = {_F} custom-call(m), {_SHARDING}, {_X}
    ROOT s = {_F} custom-call(m), {_SHARDING}, {_X}"""
  assert _repeated(text) == {'s': _say(0, 1, None)}


@pytest.mark.parametrize('is_back', [True, False])
def test_through_views(is_back):
  """There and back, but not turned."""
  text = _P + f'''
    t = {_F} transpose(p), dimensions={{1,0}}
    f = f32[64]{{0}} reshape(t)
    m = f32[64]{{0}} multiply(f, f)
    g = f32[4,16]{{1,0}} reshape(m)
    h = {_F} reshape(g)
    u = {_F} transpose(h), dimensions={{1,0}}
    ROOT s = {_F} custom-call({'u' if is_back else 'h'}), {_SHARDING}, {_X}'''
  assert _repeated(text) == ({'s': _say(0, 1, None)} if is_back else {})


def test_through_a_barrier():
  text = _P + f'''
    t = ({_F}, {_F}) tuple(q, p)
    o = ({_F}, {_F}) opt-barrier(t)
    ROOT g = {_F} get-tuple-element(o), index=1, {_X}'''
  assert _repeated(text) == {'g': _say(0, 1, None)}


@pytest.mark.parametrize(
    'constraint', [
        f'{_F} custom-call(p), {_SHARDING}, {_Y}',
        f'{_F} custom-call(n), {_SHARDING}, {_X}',
        f'{_F} custom-call(t), {_SHARDING}, {_X}',
        f'{_F} custom-call(y), {_SHARDING}, {_X}',
        f'{_F} multiply(p, p)',
    ],
    ids=['moved', 'unmarked', 'transposed', 'moved there and back', 'none'])
def test_of_no_marked_value(constraint):
  text = _P + f'''
    t = {_F} transpose(p), dimensions={{1,0}}
    y = {_F} custom-call(p), {_SHARDING}, {_Y}
    ROOT s = {constraint}'''
  assert _repeated(text) == {}


@pytest.mark.parametrize('of_p, of_n, first', [(1, 2, 1), (2, 1, 1), (0, 0, 0)])
def test_the_first_priority_of_several(of_p, of_n, first):
  text = f'''
    p = {_F} parameter(0), {_X}
    n = {_F} parameter(1), {_X}
    b = f32[] custom-call(p, n), {modules.bind(_say(0, of_p, None),
                                               _say(0, of_n, None))}
    u = {_F} add(p, n)
    ROOT s = {_F} custom-call(u), {_SHARDING}, {_X}'''
  assert _repeated(text) == {'s': _say(0, first, None)}


def test_written():
  """Open where it is used, closed where it is stored; an update has a tag."""
  said = Annotation.from_spec(_MESH, (0, None), (1, 3))
  update = modules.call(call_target.update_target(_say(0, 2, None)))
  module = modules.module_of(f'''
    p = {_F} parameter(0), {_X}
    r = {_F} parameter(1)
    b = f32[] custom-call(p), {modules.bind(said)}
    c = {_F} custom-call(p), {_SHARDING}, {_X}
    t = {_F} custom-call(r), {update}
    u = {_F} custom-call(t), {_SHARDING}, {_X}
    n = {_F} negate(c)
    ROOT o = ({_F}, {_F}, {_F}) tuple(c, n, u)''')
  taken = extract.extract_annotations(module)
  unasked.repeat(module, taken)
  lowering = to_sdy.lower_shardings(module, taken, 8)
  assert set(
      lowering.results) == {0, 2} and not lowering.partially_constrained_results
  assert_printed(
      modules.printed(module), '''\
{xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=4]>}}
ENTRY e (p: f32[8,8], r: f32[8,8]) -> (f32[8,8], f32[8,8], f32[8,8]) {
  b = f32[] constant(0)
  p = F parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate},
      attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{'x'}p1, {}]>"}
  added0 = F custom-call(p), "Sharding", sharding={devices=[2,1,4]<=[8]
      last_tile_dim_replicate},
      attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{'x'}p1,
      {?}p3]>]>"}
  c = F custom-call(added0), "Sharding", sharding={devices=[2,1,4]<=[8]
      last_tile_dim_replicate},
      attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{'x'}p1,
      {?}p3]>]>"}
  added1 = F custom-call(c), "xla.sdy.FuncResultSharding",
      attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{'x'}p1,
      {}]>]>"}
  n = F negate(c)
  r = F parameter(1), attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{},
      {}]>"}
  u = F custom-call(r), "Sharding", sharding={devices=[2,1,4]<=[8]
      last_tile_dim_replicate},
      attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{'x'}p2,
      {}]>]>"}
  added2 = F custom-call(u), "xla.sdy.FuncResultSharding",
      attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{'x'}p2,
      {}]>]>"}
  ROOT o = (F, F, F) tuple(added1, n, added2)
}''')
