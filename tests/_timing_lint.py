"""Finds assertions that bound real elapsed or CPU time from above by a constant.

Such an assertion judges the machine. What it may be instead: a count (lines, calls, steps between two yields), a ratio
to reference work that was timed in the same test, a virtual clock, or a `timeout=` that guards against a hang.

The lint reads one module at a time. A value is a *time* if it is what a known clock returned; a *duration* if it is the
difference of two times, or was computed from durations and constants. Both are followed through assignments, through
containers that they are added to, and through functions of the module that return them. What is found is each `assert`,
and each `if` or `while` that raises or fails, in which a duration, or a time, is below a constant, or below a time plus
a constant. A duration that is compared with another duration is a ratio, and right.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

CLOCKS = {
    "time": {
        *("clock_gettime", "clock_gettime_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"),
        *("process_time", "process_time_ns", "thread_time", "thread_time_ns", "time", "time_ns"),
    },
    "os": {"times"},
    "resource": {"getrusage"},
    "timeit": {"timeit", "repeat", "default_timer"},
    "datetime": {"now", "utcnow"},
}
"""The functions that tell real time, by module or class. A clock that is called `clock` may be virtual, and is free."""

LOOPS = {"loop", "get_running_loop()", "get_event_loop()"}
"""What a loop is called, so that its `time()` is known: the last part of the expression."""

DURATIONS = {"timeit", "repeat"}
"""Those of the functions above that return a duration."""

NAMES = {"elapsed", "took", "duration"}
"""Names that are taken for a duration wherever they come from, if nothing else is known of them."""

PASSED_ON = {
    *("abs", "approx", "float", "int", "max", "min", "round", "sorted", "sum", "median", "mean", "fmean", "list"),
    *("create_task", "ensure_future", "gather", "run", "shield", "wait_for"),
}
"""Functions that return, or are awaited for, what their arguments are."""

_WORTH_READING = re.compile("|".join([*(name for names in CLOCKS.values() for name in names), *NAMES]))

TIME, DURATION, CONSTANT = "time", "duration", "constant"


@dataclass(frozen=True, slots=True)
class Finding:
    """An assertion on real time."""

    line: int
    source: str


def find(source: str, helpers: Mapping[str, str] = MappingProxyType({})) -> list[Finding]:
    """Return the assertions of a module that bound real time by a constant.

    Args:
        source: The module.
        helpers: What functions of other modules return, by name; see `returned`.
    """
    if not _WORTH_READING.search(source) and not any(name in source for name in helpers):
        return []
    tree = ast.parse(source)
    module = _Module(tree, helpers)
    found: dict[int, Finding] = {}
    for function in module.functions:
        for node, test, holds in _checks(function):
            if any(module.is_bounded(claim, holds, function) for claim, holds in _claims(test, holds)):
                found[node.lineno] = Finding(node.lineno, ast.unparse(node).splitlines()[0])
    return [found[line] for line in sorted(found)]


def returned(source: str) -> Mapping[str, str]:
    """Return which functions of a module return a time or a duration."""
    return _Module(ast.parse(source), {}).returns if _WORTH_READING.search(source) else {}


def _checks(function: ast.AST) -> Iterator[tuple[ast.stmt, ast.expr, bool]]:
    """Yield what a function checks, and whether it has to hold."""
    for node in _own(function):
        if isinstance(node, ast.Assert):
            yield node, node.test, True
        elif isinstance(node, ast.If | ast.While) and any(map(_fails, node.body)):
            yield node, node.test, False
        elif isinstance(node, ast.If) and any(map(_fails, node.orelse)):
            yield node, node.test, True


def _fails(statement: ast.stmt) -> bool:
    for node in ast.walk(statement):
        if isinstance(node, ast.Raise):
            return True
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in {"fail", "exit", "_exit"}:
            return True
    return False


def _claims(test: ast.expr, holds: bool) -> Iterator[tuple[ast.expr, bool]]:
    """Yield the parts of a condition, and whether they have to hold."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _claims(operand, not holds)
        case ast.BoolOp(values=values):
            for value in values:
                yield from _claims(value, holds)
        case ast.Call(func=ast.Name(id="all" | "any" | "bool"), args=[ast.GeneratorExp(elt=part) | part]):
            yield from _claims(part, holds)
        case _:
            yield test, holds


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """Walk a function, or a module, without the functions in it."""
    for node in ast.iter_child_nodes(function):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _own(node)


class _Module:
    def __init__(self, tree: ast.Module, helpers: Mapping[str, str]) -> None:
        self._modules: dict[str, str] = {}  # what a module is called here: its name
        self._clocks: dict[str, str] = {}  # what a function is called here: its own name
        self._parents: dict[ast.AST, ast.AST] = {}
        self.returns: dict[str, str] = {}  # the functions of this module that return a time or a duration
        self._helpers = helpers
        self._by_name: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self._kinds: dict[tuple[ast.AST, str], str] = {}
        self.functions: list[ast.AST] = [tree]
        self._read(tree, tree)
        # Names and functions depend on each other: until nothing is learnt any more.
        while self._learn():
            pass

    def _read(self, node: ast.AST, function: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                self._modules |= {alias.asname or alias.name: alias.name for alias in child.names}
            elif isinstance(child, ast.ImportFrom):
                names = CLOCKS.get(child.module or "", set())
                self._clocks |= {alias.asname or alias.name: alias.name for alias in child.names if alias.name in names}
                self._modules |= {
                    alias.asname or alias.name: alias.name for alias in child.names if alias.name in CLOCKS
                }
            inner = function
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                self._parents[child] = function
                self.functions.append(child)
                self._by_name[child.name] = child
                inner = child
            self._read(child, inner)

    def _learn(self) -> bool:
        before = len(self._kinds), len(self.returns)
        for function in self.functions:
            for node in _own(function):
                self._learn_from(node, function)
        return before != (len(self._kinds), len(self.returns))

    def _learn_from(self, node: ast.AST, function: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, value, function)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, value, function)
            case ast.AugAssign(target=target, value=value):
                self._assign(target, value, function)
            case ast.NamedExpr(target=target, value=value):
                self._assign(target, value, function)
            case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
                self._assign(target, value, function)
            case ast.comprehension(target=target, iter=value):
                self._assign(target, value, function)
            case ast.Call(func=ast.Name(id=name), args=args) if name in self._by_name:
                self._pass(args, self._by_name[name], function)
            case ast.Call(func=ast.Attribute(value=owner, attr="append" | "add" | "put_nowait" | "insert"), args=args):
                for value in args:
                    self._assign(owner, value, function)
            case ast.Return(value=ast.expr() as value) | ast.Yield(value=ast.expr() as value):
                kind = self.kind(value, function)
                if kind in {TIME, DURATION} and isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    self.returns.setdefault(function.name, kind)
            case _:
                pass

    def _assign(self, target: ast.expr, value: ast.expr, function: ast.AST) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            values = value.elts if isinstance(value, ast.Tuple | ast.List) else [value] * len(target.elts)
            for each, part in zip(target.elts, values, strict=False):
                self._assign(each, part, function)
            return
        kind = self.kind(value, function)
        name = _name(target)
        if kind in {TIME, DURATION} and name:
            # A name is followed by whatever it has been; a duration says more than a time.
            where = self._home(name, function)
            if kind == DURATION or (where, name) not in self._kinds:
                self._kinds[where, name] = kind

    def _pass(self, args: list[ast.expr], called: ast.FunctionDef | ast.AsyncFunctionDef, function: ast.AST) -> None:
        """Follow arguments into a function, and what it adds to a container that it is given out of it."""
        for parameter, value in zip(called.args.args, args, strict=False):
            kind, inside = self.kind(value, function), self._kinds.get((called, parameter.arg))
            if kind in {TIME, DURATION}:
                self._kinds.setdefault((called, parameter.arg), kind)
            name = _name(value)
            if inside and name:
                self._kinds.setdefault((self._home(name, function), name), inside)

    def _home(self, name: str, function: ast.AST) -> ast.AST:
        """Return the function in which a name is known, from inside out."""
        where: ast.AST | None = function
        while where is not None:
            if (where, name) in self._kinds:
                return where
            where = self._parents.get(where)
        # What is added to from an inner function belongs to the outer one that made it.
        where = function
        while where is not None:
            if any(_binds(node, name) for node in _own(where)):
                return where
            where = self._parents.get(where)
        return function

    def is_bounded(self, claim: ast.expr, holds: bool, function: ast.AST) -> bool:
        """Return whether what is claimed has a duration on its lesser side, and a constant on the other."""
        if isinstance(claim, ast.Call) and ast.unparse(claim.func).rpartition(".")[2] == "isclose":
            return holds and {DURATION, CONSTANT} <= {self.kind(each, function) for each in claim.args}
        if not isinstance(claim, ast.Compare):
            return False
        sides = [claim.left, *claim.comparators]
        return any(
            self._is_over(*((left, right) if lesser is left else (right, left)), function)
            for left, operator, right in zip(sides, claim.ops, sides[1:], strict=False)
            for lesser in _lesser(left, operator, right, holds)
        )

    def _is_over(self, lesser: ast.expr, greater: ast.expr, function: ast.AST) -> bool:
        kind, other = self.kind(lesser, function), self.kind(greater, function)
        if kind == DURATION:
            return other == CONSTANT
        # `assert monotonic() < deadline`
        return kind == TIME and other in {TIME, CONSTANT} and not isinstance(greater, ast.Call)

    def kind(self, node: ast.expr, function: ast.AST) -> str | None:
        """Return what an expression stands for: a time, a duration, a constant, or something else."""
        match node:
            case ast.Constant(value=int() | float()):
                return CONSTANT
            case ast.UnaryOp(operand=operand):
                return self.kind(operand, function)
            case ast.BinOp(left=left, op=operator, right=right):
                return self._sum(self.kind(left, function), operator, self.kind(right, function))
            case ast.Call():
                return self._call(node, function)
            case ast.Await(value=value) | ast.Starred(value=value) | ast.NamedExpr(value=value):
                return self.kind(value, function)
            case ast.Subscript(value=value):
                return self.kind(value, function)
            case ast.IfExp(body=body, orelse=orelse):
                return self._any([body, orelse], function)
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
                return self._any(elements, function)
            case ast.ListComp(elt=value) | ast.GeneratorExp(elt=value) | ast.SetComp(elt=value):
                return self.kind(value, function)
            case ast.Name() | ast.Attribute():
                return self._named(node, function)
            case _:
                return None

    def _named(self, node: ast.Name | ast.Attribute, function: ast.AST) -> str | None:
        name = _name(node)
        where: ast.AST | None = function
        while where is not None:
            if (where, name) in self._kinds:
                return self._kinds[where, name]
            where = self._parents.get(where)
        if isinstance(node, ast.Attribute) and _is_part(node):
            return self.kind(node.value, function)
        if name.rpartition(".")[2] in NAMES:
            return DURATION
        if isinstance(node, ast.Attribute):
            return CONSTANT if node.attr.isupper() else None
        # A name in capitals, a parameter or a local that no clock had a part in is as good as a constant.
        return CONSTANT

    def _any(self, nodes: Iterable[ast.expr], function: ast.AST) -> str | None:
        kinds = {self.kind(node, function) for node in nodes}
        return next((kind for kind in (DURATION, TIME, CONSTANT) if kind in kinds), None)

    def _sum(self, left: str | None, operator: ast.operator, right: str | None) -> str | None:
        kinds = {left, right}
        if isinstance(operator, ast.Sub) and kinds == {TIME}:
            return DURATION
        if DURATION in kinds and isinstance(operator, ast.Div | ast.FloorDiv) and right == DURATION:
            return None  # a ratio
        if TIME in kinds and kinds <= {TIME, CONSTANT, DURATION}:
            return TIME if isinstance(operator, ast.Add | ast.Sub) else DURATION
        if DURATION in kinds:
            return DURATION
        return CONSTANT if kinds == {CONSTANT} else None

    def _call(self, node: ast.Call, function: ast.AST) -> str | None:
        name = ast.unparse(node.func)
        owner, _, last = name.rpartition(".")
        clock = self._clock(owner, last)
        if clock:
            return DURATION if clock in DURATIONS else TIME
        if last in self.returns or last in self._helpers:
            return self.returns.get(last) or self._helpers[last]
        if last in PASSED_ON:
            return self._any(node.args, function)
        if last == "total_seconds" and isinstance(node.func, ast.Attribute):
            return self.kind(node.func.value, function)
        if last == "timedelta":
            return CONSTANT
        return None

    def _clock(self, owner: str, last: str) -> str | None:
        if not owner:
            return self._clocks.get(last)
        place = owner.rpartition(".")[2]
        module = self._modules.get(owner, self._modules.get(place, place))
        if last in CLOCKS.get(module.rpartition(".")[2], set()):
            return last
        return last if last == "time" and place.lstrip("_") in LOOPS else None


def _lesser(left: ast.expr, operator: ast.cmpop, right: ast.expr, holds: bool) -> list[ast.expr]:
    """Return the side, or the sides, that a comparison bounds from above."""
    match operator, holds:
        case (ast.Lt() | ast.LtE(), True) | (ast.Gt() | ast.GtE(), False):
            return [left]
        case (ast.Gt() | ast.GtE(), True) | (ast.Lt() | ast.LtE(), False):
            return [right]
        case (ast.Eq() | ast.In(), True) | (ast.NotEq() | ast.NotIn(), False):
            return [left, right]
        case _:
            return []


def _binds(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.arg):
        return node.arg == name
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name


def _name(node: ast.AST) -> str:
    """Return what a name or an attribute is called, a container for what is in it."""
    while isinstance(node, ast.Subscript | ast.Starred):
        node = node.value
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""


def _is_part(node: ast.Attribute) -> bool:
    # os.times().user, getrusage().ru_utime
    return node.attr in {"user", "system", "children_user", "children_system", "ru_utime", "ru_stime"}
