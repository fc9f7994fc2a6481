"""Policies: what they claim, how they are written, and what they mark."""

import dataclasses
import environments
from hypothesis import given, strategies as st
import pathlib

from mlp import Mlp
import numpy as np
from properties import examples
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
from torch_xla.distributed.spmd.policy import (
    applied_to, Boundary, BoundaryError, claims, PatternError, PolicyError,
    PolicyMismatchError, PolicyTextError, ProblemKind, REPLICATED, Rule,
    RuleError, ShardingPolicy)
from torch_xla.distributed.spmd.policy.patterns import literal, matches
from torch_xla.distributed.spmd.policy.rules import axes_of
from torch_xla.shardy.annotate.priority import PriorityError
from torch_xla.shardy.bind import binder

ENVIRONMENT = environments.SHARDY
AXES = {'data': 2, 'model': 4}
POLICY = ShardingPolicy(
    rules=(Rule('up.weight', ('model', None), (1, None)),
           Rule('down.weight', (None, 'model')), Rule('**.bias', REPLICATED),
           Rule('scale', (None,))))


class Pair(torch.nn.Module):
  """Two results, one with a gradient of its own."""

  def forward(self, x):
    return x * 2, x * 3


def stored(t: torch.Tensor) -> str:
  return torch_xla._XLAC._get_xla_sharding_spec(t)


def owned(*shapes_by_names):
  return [(tuple(names.split()), shape) for names, shape in shapes_by_names]


def problems_of(rules, *shapes_by_names, default=None):
  _, problems = claims.claim_tensors(rules, default, owned(*shapes_by_names),
                                     AXES)
  return [(p.kind, p.name) for p in problems]


@pytest.mark.parametrize('pattern, yes, no', [
    ('a.b', ['a.b'], ['a.c', 'xa.b', 'a.bx', 'aXb']),
    ('*', ['a'], ['a.b']),
    ('a.*.w', ['a.0.w', 'a.x1.w'], ['a.w', 'a.0.1.w']),
    ('norm*', ['norm', 'norm1'], ['norm.w']),
    ('l?', ['l1'], ['l', 'l12', 'l.']),
    ('**', ['a', 'a.b.c'], ['']),
    ('**.bias', ['bias', 'a.bias', 'a.b.bias'], ['xbias', 'a.bias.c']),
    ('a.**', ['a', 'a.b', 'a.b.c'], ['ab', 'b.a']),
    ('a.**.w', ['a.w', 'a.b.w', 'a.b.c.w'], ['aw', 'a.b', 'b.a.w']),
    ('a.{up,down}.w', ['a.up.w', 'a.down.w'], ['a.{up,down}.w', 'a.u.w']),
    ('{l*,m?}x', ['lx', 'labx', 'm1x'], ['mx']),
    ('a.{{q,k}_proj,{o}}.w', ['a.q_proj.w', 'a.o.w'], ['a.q.w']),
    ('', [''], ['a']),
    (r'd.a\[\*\]', ['d.a[*]'], ['d.a[0]', r'd.a\[\*\]']),
])
def test_patterns_match_whole_names(pattern, yes, no):
  assert [n for n in yes + no if matches(pattern, n)] == yes


@pytest.mark.parametrize('name', ['d.q[0]', 'd.{x}', 'd.st*r?', 'd.a,b', '\\'])
def test_any_name_has_a_pattern(name):
  """Keys of a ParameterDict are any text without dots."""
  assert matches(literal(name), name)
  assert not matches(literal(name), name.replace('*', 'a') + 'x')


@pytest.mark.parametrize('pattern', [
    'a..b', 'a.', '.a', 'a**', '**.**', 'a.**b', 'a[0]', '{a', 'a}', '{a.b}',
    '{{a}', 3, ['a']
])
def test_malformed_patterns_are_errors(pattern):
  with pytest.raises(PatternError, match='pattern'):
    Rule(pattern, REPLICATED)


@pytest.mark.parametrize('make, text', [
    (lambda: Rule('', REPLICATED), 'needs a pattern'),
    (lambda: Rule('a', None), 'neither REPLICATED nor'),
    (lambda: Rule('a', 'model'), 'neither REPLICATED nor'),
    (lambda: Rule('a', (0, None)), '0 in spec'),
    (lambda: Rule('a', ('x', ('y', 'x'))), 'twice'),
    (lambda: Rule('a', REPLICATED, (0,)), 'takes no priority'),
    (lambda: Rule('a', REPLICATED, uneven=True), 'leave uneven out'),
    (lambda: Rule('a', ('x',), uneven=1), 'neither True nor False'),
    (lambda: Boundary('a', REPLICATED), 'write the spec out'),
    (lambda: Boundary('a', ('x',), output=True), 'output=True'),
    (lambda: Rule('a', REPLICATED, propagate=True), 'takes no propagate'),
    (lambda: ShardingPolicy(default='model'), 'default'),
])
def test_rules_that_say_nothing_are_errors(make, text):
  with pytest.raises(RuleError, match=text):
    make()


def test_priorities_are_checked_with_the_rule_named():
  with pytest.raises(PriorityError, match="rule 'a.b'.*rank 2"):
    Rule('a.b', ('x', None), (0,))


def test_a_rule_is_written_in_one_way():
  assert Rule('a', [['x'], (), ('x1', 'y')]) == Rule('a',
                                                     ('x', None, ('x1', 'y')))


def test_all_offenders_are_listed_at_once():
  rules = [
      Rule('a', ('model',)),
      Rule('b', ('model',)),
      Rule('c', (('data', 'model'), 'rows')),
      Rule('d', ('data', ('model',))),
      Rule('e', REPLICATED)
  ]
  assert problems_of(rules, ('a', (8, 8)), ('b', (6,)), ('c', (8, 8)),
                     ('d', (3, 6)), ('f', ())) == [
                         (ProblemKind.WRONG_RANK, 'a'),
                         (ProblemKind.NOT_DIVISIBLE, 'b'),
                         (ProblemKind.UNKNOWN_AXIS, 'c'),
                         (ProblemKind.NOT_DIVISIBLE, 'd'),
                         (ProblemKind.NOT_DIVISIBLE, 'd'),
                         (ProblemKind.UNMATCHED, 'f'),
                         (ProblemKind.MATCHES_NOTHING, "rule 'e'"),
                     ]


def test_rules_on_tied_names_have_to_agree():
  tied = ('a.weight b.weight', (8, 8))
  first = Rule('a.weight', ('model', None))
  assert problems_of([first], tied) == []
  assert problems_of([first, Rule('b.weight', ('model', None))], tied) == []
  assert problems_of([first, Rule('b.weight', (None, 'model'))],
                     tied) == [(ProblemKind.CLAIMED_TWICE, 'a.weight')]
  # One name, two rules: an error even if they agree.
  assert problems_of([first, Rule('a.*', ('model', None))],
                     tied) == [(ProblemKind.CLAIMED_TWICE, 'a.weight')]


def test_the_default_replicates_what_no_rule_claims():
  claimed, problems = claims.claim_tensors([Rule('a', ('model',))], REPLICATED,
                                           owned(('a', (8,)), ('b', (3, 5))),
                                           AXES)
  assert not problems
  assert (claimed['a'].spec, claimed['a'].rule) == (('model',), 'a')
  assert (claimed['b'].spec, claimed['b'].rule) == ((None, None), None)


_axis = st.text(min_size=1).filter(lambda s: s != '-')
_entries = st.lists(
    st.none() | _axis | st.lists(_axis, min_size=2, max_size=3).map(tuple),
    max_size=3).map(tuple)
_specs = _entries.filter(lambda spec: len({a for e in spec for a in axes_of(e)})
                         == sum(len(axes_of(e)) for e in spec))


@st.composite
def _said(draw):
  spec = draw(_specs)
  priority = st.lists(
      st.none() | st.integers(0, 9), min_size=len(spec), max_size=len(spec))
  open_dims = st.lists(
      st.none() | st.just(True), min_size=len(spec), max_size=len(spec))
  return (spec, draw(st.none() | priority.map(tuple)),
          draw(st.none() | open_dims.map(tuple)))


_patterns = st.text(min_size=1).filter(lambda s: not set(s) & set('.[]{}*'))
_rules = st.builds(lambda p, s, u: Rule(p, *s[:2], u, s[2]), _patterns, _said(),
                   st.booleans()) | st.builds(Rule, _patterns,
                                              st.just(REPLICATED))
_boundaries = st.builds(lambda m, s, o: Boundary(m, *s[:2], o, s[2]), _patterns,
                        _said(),
                        st.none() | st.integers(-3, 3))


@examples(60)
@given(
    st.lists(_rules, max_size=3), st.sampled_from([None, REPLICATED]),
    st.lists(_boundaries, max_size=2))
def test_policies_survive_toml(rules, default, boundaries):
  policy = ShardingPolicy(tuple(rules), default, tuple(boundaries))
  assert ShardingPolicy.from_toml(policy.to_toml()) == policy


def test_the_toml_is_what_people_write(tmp_path):
  text = '''default = "replicated"

[[rule]]
pattern = "**.up.weight"
spec = ["model", "-"]
priority = [0, "-"]

[[boundary]]
module = "blocks.*"
spec = [["data", "expert"], "-"]
output = 1
'''
  policy = ShardingPolicy(
      (Rule('**.up.weight', ('model', None), (0, None)),), REPLICATED,
      (Boundary('blocks.*', (('data', 'expert'), None), output=1),))
  assert policy.to_toml() == text
  path = tmp_path / 'policy.toml'
  path.write_text(text)
  assert ShardingPolicy.load(path) == policy


@pytest.mark.parametrize('text, said', [
    ('rule = ', 'no TOML'),
    ('rules = []', "'rules' is not known"),
    ('[rule]\npattern="a"', r'\[\[rule\]\]'),
    ('[[rule]]\npattern="a"', 'rule 1: spec is missing'),
    ('[[rule]]\nspec=["a"]', 'rule 1: pattern is missing'),
    ('[[rule]]\npattern="a"\nspec=["a"]\nwhy=1', "rule 1: 'why'"),
    ('[[rule]]\npattern="a"\nspec=["a"]\npriority=[-1]', 'rule 1: .*negative'),
    ('[[rule]]\npattern="a"\nspec="model"', 'rule 1: .*neither'),
    ('[[boundary]]\nmodule="a"\nspec="replicated"', 'boundary 1: .*write the'),
    ('default = "sharded"', 'only "replicated"'),
])
def test_wrong_toml_names_the_place(tmp_path, text, said):
  path = tmp_path / 'policy.toml'
  path.write_text(text)
  with pytest.raises(PolicyTextError, match=f'policy.toml: .*{said}'):
    ShardingPolicy.load(path)


def test_an_axis_that_toml_cannot_name():
  with pytest.raises(PolicyTextError, match='cannot be written'):
    ShardingPolicy((Rule('a', ('-',)),)).to_toml()


def test_every_tensor_is_marked_and_named(mesh):
  model = Mlp().to('xla')
  applied = POLICY.apply(model, mesh)
  assert stored(model.up.weight) == (
      '{devices=[4,1,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}')
  assert stored(model.down.weight) == (
      '{devices=[1,4,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}')
  assert binder.annotation_of(model.up.weight).priority == (1, None)
  for t in (model.up.bias, model.down.bias, model.scale):
    assert stored(t) == '{replicated}'
    assert binder.annotation_of(t).partition_spec == ((),)
  with torch_xla.shardy.record() as programs:
    out = model(torch.randn(4, 8).to('xla'))
    torch_xla.sync(wait=True)
  assert out.shape == (4, 8)
  assert {t.name for p in programs for t in p.tensors if t.spec
         } == {'up.weight', 'up.bias', 'down.weight', 'down.bias', 'scale'}
  assert applied_to(model) is applied


def test_a_policy_that_does_not_fit_marks_nothing(mesh):
  model = Mlp().to('xla')
  policy = ShardingPolicy(
      (Rule('*.weight', ('model', None)), Rule('up.*',
                                               (None, ('data', 'model')))))
  with pytest.raises(PolicyMismatchError) as e:
    policy.apply(model, mesh)
  text = str(e.value)
  assert '4 place(s); nothing was marked' in text
  assert "up.weight: rules '*.weight' and 'up.*' both claim it" in text
  assert 'down.bias: [8]: no rule claims it' in text
  assert "up.bias: spec (None, ('data', 'model')) of rule 'up.*'" in text
  assert [p.name for p in e.value.problems
         ] == ['up.weight', 'up.bias', 'down.bias', 'scale']
  assert [stored(t) for t in model.parameters()] == [''] * 4
  assert applied_to(model) is None


def test_a_model_that_is_not_on_xla(mesh):
  with pytest.raises(PolicyMismatchError, match='up.weight: is on cpu: move'):
    POLICY.apply(Mlp(), mesh)


def test_a_model_that_was_made_on_the_device(mesh):
  model = Mlp(device='xla')
  assert torch_xla._XLAC._check_tensor_need_materialization([model.up.weight
                                                            ])[0]
  POLICY.apply(model, mesh)
  assert binder.annotation_of(model.up.weight) is not None
  assert stored(model.up.weight).startswith('{devices=[4,1,2]')


def test_a_tensor_that_someone_else_sharded(mesh):
  model = Mlp().to('xla')
  xs.mark_sharding(model.up.weight, mesh, ('data', None))
  with pytest.raises(
      PolicyMismatchError, match='up.weight: is sharded.*clear_sharding'):
    POLICY.apply(model, mesh)


def test_a_mesh_without_axis_names():
  with pytest.raises(PolicyError, match='no axis names'):
    POLICY.apply(Mlp().to('xla'), xs.Mesh(np.arange(8), (2, 4)))


def test_models_with_the_same_names_are_told_apart(mesh):
  first, second = Mlp().to('xla'), Mlp().to('xla')
  one, two = POLICY.apply(first, mesh), POLICY.apply(second, mesh)
  assert not {*one.record_names.values()} & {*two.record_names.values()}
  with torch_xla.shardy.record() as programs:
    out = second(torch.randn(36, 8).to('xla'))  # A program of its own.
    torch_xla.sync(wait=True)
  assert out.shape == (36, 8)
  names = {t.name for p in programs for t in p.tensors if t.name}
  assert two.record_names['up.weight'] in names


def constraints(programs, spec):
  return [
      t for p in programs for t in p.tensors
      if t.parameter is None and t.spec == spec
  ]


def test_a_boundary_marks_result_and_gradient(mesh):
  model = Mlp().to('xla')
  policy = ShardingPolicy(POLICY.rules, None, (Boundary('up', ('data', 'model'),
                                                        (2, 3)),))
  applied = policy.apply(model, mesh)
  with torch_xla.shardy.record() as programs:
    model(torch.randn(4, 8).to('xla')).sum().backward()
    torch_xla.sync(wait=True)
  found = constraints(programs, "('data', 'model')")
  assert len(found) == 2  # The result and its gradient.
  assert {(t.shape.dims, t.priority) for t in found} == {((4, 16), (2, 3))}
  applied.remove()
  with torch_xla.shardy.record() as programs:
    model(torch.randn(2, 8).to('xla')).sum().backward()
    torch_xla.sync(wait=True)
  assert programs and not constraints(programs, "('data', 'model')")


def test_a_boundary_on_one_of_several_results(mesh):
  model = Pair()
  ShardingPolicy(boundaries=(Boundary('', (None, 'model'), output=1),)).apply(
      model, mesh)
  with torch_xla.shardy.record() as programs:
    first, second = model(torch.randn(4, 8).to('xla'))
    torch_xla.sync(wait=True)
  assert len(constraints(programs, "(None, 'model')")) == 1
  assert stored(second) == (
      '{devices=[1,4,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}')
  assert 'devices=[1,4' not in stored(first)


@pytest.mark.parametrize('boundary, text', [
    (Boundary('', ('data', None)), 'is a tuple of 2 and no tensor'),
    (Boundary('', ('data', None), output=2), 'no result 2 in a tuple of 2'),
    (Boundary('', ('data',), output=0), '1 entries, the result is'),
])
def test_a_boundary_that_does_not_fit_its_result(mesh, boundary, text):
  model = Pair()
  ShardingPolicy(boundaries=(boundary,)).apply(model, mesh)
  with pytest.raises(BoundaryError, match=text):
    model(torch.randn(4, 8).to('xla'))


def test_boundaries_that_do_not_fit_the_model(mesh):
  model = Mlp().to('xla')
  with pytest.raises(PolicyMismatchError) as e:
    ShardingPolicy(POLICY.rules, None,
                   (Boundary('up', ('data', None)), Boundary('u*', ('x', None)),
                    Boundary('none', ('data',)))).apply(model, mesh)
  assert [(p.kind, p.name) for p in e.value.problems] == [
      (ProblemKind.CLAIMED_TWICE, 'up'),
      (ProblemKind.UNKNOWN_AXIS, "boundary 'u*'"),
      (ProblemKind.MATCHES_NOTHING, "boundary 'none'"),
  ]


def test_a_pattern_that_is_near_a_name(mesh):
  model = torch.nn.Sequential(Mlp(), Mlp()).to('xla')
  with pytest.raises(PolicyMismatchError) as e:
    ShardingPolicy(
        default=REPLICATED,
        boundaries=(Boundary('*.upp', ('data', None)),)).apply(model, mesh)
  assert "no module has such a name (near it: '1.up', '0.up')" in str(e.value)


@pytest.mark.parametrize('compiled', [False, True])
def test_a_boundary_of_a_model_that_is_marked_already(mesh, compiled):
  """Open dimensions of what a module gives, and of its gradient."""
  torch.manual_seed(0)
  model, x = Mlp(), torch.randn(4, 8)
  expected = model(x).detach()
  model = model.to('xla')
  xs.mark_sharding(model.up.weight, mesh, ('model', None))
  policy = dataclasses.replace(
      ShardingPolicy.capture(model, mesh),
      boundaries=(Boundary('up', ('data', None), propagate=(False, True)),))
  policy.apply(model, mesh)
  step = torch.compile(model, backend='openxla') if compiled else model
  with torch_xla.shardy.record() as programs, torch.set_grad_enabled(
      not compiled):
    out = step(x.to('xla'))
    if not compiled:
      out.sum().backward()
    torch_xla.sync(wait=True)
  found = constraints(programs, "('data', None)")
  assert [t.sdy for t in found
         ] == ['#sdy.sharding_per_value<[<@mesh, [{"data"}, {?}]>]>'
              ] * (1 if compiled else 2)
  # Nobody else splits its columns: the weight does.
  assert {t.local_shape.dims for t in found} == {(2, 4)}
  torch.testing.assert_close(out.detach().cpu(), expected)


def test_a_policy_can_be_applied_again(mesh):
  model = Mlp().to('xla')
  policy = ShardingPolicy(POLICY.rules, None, (Boundary('up',
                                                        ('data', 'model')),))
  policy.apply(model, mesh)
  again = policy.apply(model, mesh)
  assert applied_to(model) is again
  with torch_xla.shardy.record() as programs:
    out = model(torch.randn(4, 8).to('xla'))
    torch_xla.sync(wait=True)
  assert out.shape == (4, 8)
  # The first hook is gone.
  assert len(constraints(programs, "('data', 'model')")) == 1


@pytest.mark.parametrize('name', ['gpt2', 'llama'])
def test_the_policies_of_the_examples(name):
  policy = ShardingPolicy.load(
      pathlib.Path(__file__).parents[4] / f'examples/{name}.toml')
  assert len(policy.rules) == 2 and policy.default is REPLICATED
