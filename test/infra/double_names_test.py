"""Names that are defined twice: what is found, and what is none."""

import sys

import pytest

from infra.errors import BuildError
from infra.patchset.cpp_names import names_twice
from infra.patchset.cpp_names import test_names as cpp_tests
from infra.patchset.meaning import python_names_twice


@pytest.mark.parametrize('text, names', [
    ('def f(): pass\ndef f(): pass', ['f']),
    ('class A:\n  def f(self): pass\n  async def f(self): pass', ['A.f']),
    ('def f():\n  class B: pass\n  class B: pass', ['f.B']),
    ('if 1:\n  def f(): pass\n  def f(): pass', ['<if 1:>f']),
    ('if 1:\n  def f(): pass\nelse:\n  def f(): pass', []),
    ('try:\n  def f(): pass\nexcept E:\n  def f(): pass', []),
    ('class A:\n  def f(self): pass\nclass B:\n  def f(self): pass', []),
    ('class A:\n  @property\n  def f(self): pass\n  @f.setter\n'
     '  def f(self, v): pass', []),
    ('@overload\ndef f(): ...\n@typing.overload\ndef f(): ...\n'
     'def f(): pass', []),
    ('@f.register(int)\ndef _(x): pass\n@f.register\ndef _(x): pass', []),
    ('f = 1\nf = 2\ndef f(): pass', []),
])
def test_python(text, names):
  assert sorted(python_names_twice(text)) == names


@pytest.mark.parametrize('text, names', [
    ('int F(int a) { return a; }\nint F(int b = 2) { return b; }', ['F(int)']),
    ('int F(int a) { return 1; }\nint F(long a) { return 2; }', []),
    ('int F(int a);\nint F(int a);\nint F(int a) { return 1; }', []),
    ('namespace a { void F() {} }\nnamespace b { void F() {} }', []),
    ('namespace a::b {\nvoid F() {}\n}\nnamespace a::b {\nvoid F() {}\n}',
     ['a::b::F()']),
    ('namespace { void F() {} }\nvoid G() { F(); if (1) { F(); } }', []),
    ('void A::F() const {}\nvoid A::F() {}', []),
    ('void A::F() {}\nvoid A::F() {}', ['A::F()']),
    ('class A {\n public:\n  int F();\n private:\n  int x_;\n};\n'
     'int A::F() { return x_; }', []),
    ('struct A : B<int> {\n  int F(int a);\n  int F(int b = 1) { return b; }\n};',
     ['A::F(int) in its class']),
    ('struct A {\n  int x_ = 1;\n  std::vector<int> x_{2};\n};',
     ['A::x_ in its class']),
    ('struct A { struct B { int x; }; struct C { int x; } c; int x; };', []),
    ('A::A(int x)\n    : B({x}, F{1}), y_{x}, z_(x) {\n  y_ = 2;\n}\n'
     'A::A(long x) : y_{x} {}', []),
    ('struct A {\n  A() : x{1} {}\n  A(int y = {}) : x(y) {}\n  int x;\n};',
     []),
    ('template <typename T>\nT F(std::map<T, int> m) { return T(); }\n'
     'template <typename T, int n>\nT F(std::map<T, int> m) { return T(); }',
     []),
    ('bool operator==(A a, A b) { return 1; }\n'
     'bool operator!=(A a, A b) { return 0; }\n'
     'bool operator==(const A& a, A) { return 1; }', []),
    ('bool operator==(A a, A b) { return 1; }\n'
     'bool operator==(A c, A) { return 1; }', ['operator==(A, A)']),
    ('#ifdef X\nvoid F() {}\n#else\nvoid F() {}\n#endif', []),
    ('#if 0\nvoid F() {\n#endif\nvoid F() {}', []),
    ('// void F() {}\n/* void F() {} */\nauto s = R"(void F() {})";\n'
     "char c = '{';\nvoid F() {}", []),
    ('auto f = [](int x) { return x; };\nauto g = [](int x) { return x; };',
     []),
    ('TEST(A, B) {}\nTEST(A, C) {}\nTEST(A, B) {}', ['TEST(A, B)']),
    ('LIBRARY_IMPL(aten, XLA, m) {}\nLIBRARY_IMPL(aten, XLA, m) {}', []),
    ('class TORCH_API A {\n  int x;\n  int x;\n};', ['A::x in its class']),
    ('enum class E { kA, kB };\nenum class G { kA };\nstatic int x = 1;', []),
])
def test_cpp(text, names):
  assert sorted(names_twice(text)) == names


def test_without_the_parser(monkeypatch):
  monkeypatch.setitem(sys.modules, 'tree_sitter', None)
  with pytest.raises(BuildError, match='run this with .venv/bin/python'):
    names_twice('')


def test_tests_of_cpp():
  text = 'TEST(A, B) {}\nTEST_F(Fixture, C) {\n}\n// TEST(A, D)\n'
  assert cpp_tests(text) == ['A.B', 'Fixture.C']
