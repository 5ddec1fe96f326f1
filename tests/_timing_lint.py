"""Finds assertions that bound real elapsed or CPU time from above by a constant.

Such an assertion judges the machine. What it may be instead: a count (lines, calls, steps between two yields), a ratio
to reference work that was timed in the same test, a virtual clock, or a `timeout=` that guards against a hang.

The lint reads one module at a time. A value is a *time* if it is what a known clock returned; a *duration* if it is the
difference of two times, or was computed from durations and constants; a *rate* if it is something by a duration. All
are followed through assignments, attributes, containers that they are added to, and functions of the module that return
them; a function is taken for what it returns. What is found is each `assert`, and each `if` or loop that raises or
fails, in which a duration, or a time, is below a constant, or below a time plus a constant, or a rate above a constant.
What such a comparison made true is followed as well: a name, a list of what was too long, a function. A script in a
string is read if it imports something. A duration that is compared with another duration is a ratio, and right.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from textwrap import dedent
from types import MappingProxyType

CLOCKS = {
    "time": {
        *("clock_gettime", "clock_gettime_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"),
        *("process_time", "process_time_ns", "thread_time", "thread_time_ns", "time", "time_ns"),
    },
    "os": {"times"},
    "resource": {"getrusage"},
    "timeit": {"timeit", "repeat", "default_timer"},
    "datetime": {"now", "today", "utcnow"},
    "anyio": {"current_time"},
}
"""The functions that tell real time, by module or class. A clock that is called `clock` may be virtual, and is free."""

LOOPS = {"loop", "event_loop", "get_running_loop()", "get_event_loop()"}
"""What a loop is called, so that its `time()` is known: the last part of the expression."""

DURATIONS = {"timeit", "repeat"}
"""Those of the functions above that return a duration."""

NAMES = {"elapsed", "took", "duration"}
"""Names that are taken for a duration wherever they come from, if nothing else is known of them."""

LIMITS = {"at_most", "budget", "limit", "threshold"}
"""What attributes are called that are taken for a constant, if nothing else is known of them."""

PASSED_ON = {
    *("abs", "approx", "float", "int", "max", "min", "round", "sorted", "sum", "median", "mean", "fmean", "list"),
    *("enumerate", "next", "nlargest", "pairwise", "partial", "percentile", "quantiles", "reversed", "tuple", "zip"),
    *("create_task", "ensure_future", "gather", "run", "shield", "wait_for"),
}
"""Functions that return, or are awaited for, what their arguments are."""

CALLING = {"map", "run_in_executor", "submit", "to_thread"}
"""Functions that return, or are awaited for, what a function among their arguments returns."""

TAKEN_OUT = {"copy", "get", "get_nowait", "items", "pop", "popleft", "result", "values"}
PUT_IN = {"add", "append", "appendleft", "extend", "insert", "put", "put_nowait", "set_result"}
"""Methods of what holds values, by which they come out and go in."""

TESTING = {"all", "any", "bool", "len", "list", "sorted", "sum"}
"""Functions that return whether, or how often, something is true."""

_WORTH_READING = re.compile("|".join([*(name for names in CLOCKS.values() for name in names), *NAMES]))

_SCRIPT = re.compile(r"^\s*(import|from) (.|\n)*\b(assert|if|while|for)\b", re.MULTILINE)

TIME, DURATION, RATE, CONSTANT = "time", "duration", "rate", "constant"
REAL = {TIME, DURATION, RATE}


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
            if module.is_bounded(test, holds, function):
                found[node.lineno] = Finding(node.lineno, ast.unparse(node).splitlines()[0])
    for text in ast.walk(tree):
        if isinstance(text, ast.Constant) and isinstance(text.value, str) and _SCRIPT.search(text.value):
            with suppress(SyntaxError, ValueError):  # prose, or another language
                for finding in find(dedent(text.value), helpers):
                    line = text.lineno + finding.line - 1
                    found[line] = Finding(line, finding.source)
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
        elif isinstance(node, ast.If | ast.While) and any(map(_fails, node.orelse)):
            yield node, node.test, True
        elif isinstance(node, ast.For | ast.AsyncFor) and any(map(_fails, node.orelse)):
            # What has to hold once, so that the loop is left before it fails.
            for inner in _own(node):
                if isinstance(inner, ast.If) and any(isinstance(each, ast.Break) for each in inner.body):
                    yield node, inner.test, True


def _fails(statement: ast.stmt) -> bool:
    for node in ast.walk(statement):
        if isinstance(node, ast.Raise):
            return True
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in {"fail", "exit", "_exit"}:
            return True
    return False


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
        self._attributes: dict[str, str] = {}  # those that any object of this module was given
        self._bounded: set[tuple[ast.AST, str, bool]] = set()  # names that bound real time by being true, or false
        self._verdicts: set[tuple[str, bool]] = set()  # functions that do so by what they return
        self._properties: set[str] = set()
        self.functions: list[ast.AST] = [tree]
        self._read(tree, tree)
        self._nodes = {function: [*_own(function)] for function in self.functions}
        self._bound_in = {function: _bound_in(nodes) for function, nodes in self._nodes.items()}
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
                if any(ast.unparse(each).endswith("property") for each in child.decorator_list):
                    self._properties.add(child.name)
                self._parents[child] = function
                self.functions.append(child)
                self._by_name[child.name] = child
                inner = child
            self._read(child, inner)

    def _learn(self) -> bool:
        before = self._learnt()
        for function in self.functions:
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                self._default(function)
            for node in self._nodes[function]:
                self._learn_from(node, function)
        return before != self._learnt()

    def _learnt(self) -> list[int]:
        learnt = self._kinds, self._attributes, self.returns, self._bounded, self._verdicts
        return [len(each) for each in learnt]

    def _default(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        arguments = function.args
        defaults = [
            *zip(reversed(arguments.args), reversed(arguments.defaults), strict=False),
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        ]
        for parameter, value in defaults:
            kind = self.kind(value, self._parents[function]) if value is not None else None
            if kind in REAL:
                self._kinds.setdefault((function, parameter.arg), kind)

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
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                self._assign(target, value, function)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in self._by_name:
                self._pass(node, self._by_name[name], function)
            case ast.Call(func=ast.Attribute(value=owner, attr=name), args=args) if name in PUT_IN:
                for value in args:
                    self._assign(owner, value, function)
            case ast.Call(func=ast.Name(id=name), keywords=keywords) if name[:1].isupper():
                for keyword in keywords:
                    kind = self.kind(keyword.value, function)
                    if keyword.arg and kind in REAL:
                        self._attributes.setdefault(keyword.arg, kind)
            case ast.If(test=test, body=body):
                for holds in (True, False):
                    if self.is_bounded(test, holds, function):
                        self._learn_from_if(body, holds, function)
            case ast.Return(value=ast.expr() as value) | ast.Yield(value=ast.expr() as value):
                self._return(value, function)
            case _:
                pass

    def _learn_from_if(self, body: list[ast.stmt], holds: bool, function: ast.AST) -> None:
        """Follow what is noted where a condition is true that bounds real time by being true, or false."""
        for node in body:
            match node:
                case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="append" | "add"))):
                    self._bound(owner, holds, function)
                case ast.Assign(targets=[target], value=ast.Constant(value=bool() as value)):
                    self._bound(target, holds if value else not holds, function)
                case ast.Return(value=ast.Constant(value=str() as text)) if text:
                    self._verdict(function, holds)
                case _:
                    pass

    def _bound(self, target: ast.expr, holds: bool, function: ast.AST) -> None:
        name = _name(target)
        if name:
            self._bounded.add((self._home(name, function), name, holds))

    def _verdict(self, function: ast.AST, holds: bool) -> None:
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            self._verdicts.add((function.name, holds))

    def _return(self, value: ast.expr, function: ast.AST) -> None:
        kind = self.kind(value, function)
        if isinstance(value, ast.Name) and value.id in self._by_name:
            kind = self.returns.get(value.id)
        # What is called as a clock is told by who owns it: there may be a virtual one beside it.
        if kind in REAL and isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_clock(function):
            self.returns.setdefault(function.name, kind)
        for holds in (True, False):
            if self.is_bounded(value, holds, function):
                self._verdict(function, holds)

    def _assign(self, target: ast.expr, value: ast.expr, function: ast.AST) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            values = [value] * len(target.elts)
            match value:
                case ast.Tuple(elts=elements) | ast.List(elts=elements):
                    values = elements
                case ast.Call(func=ast.Name(id="zip"), args=elements):
                    values = elements
                case ast.Call(func=ast.Name(id="enumerate"), args=[each, *_]):
                    values = [ast.Constant(0), each]
                case _:
                    pass
            for each, part in zip(target.elts, values, strict=False):
                self._assign(each, part, function)
            return
        kind = self.kind(value, function)
        name = _name(target)
        if kind in REAL and name:
            # A name is followed by whatever it has been; a duration says more than a time.
            where = self._home(name, function)
            if kind != TIME or (where, name) not in self._kinds:
                self._kinds[where, name] = kind
            if isinstance(target, ast.Attribute):
                self._attributes.setdefault(target.attr, kind)
        for holds in (True, False):
            if self.is_bounded(value, holds, function):
                self._bound(target, holds, function)

    def _pass(self, call: ast.Call, called: ast.FunctionDef | ast.AsyncFunctionDef, function: ast.AST) -> None:
        """Follow arguments into a function, and what it adds to a container that it is given out of it."""
        names = [parameter.arg for parameter in called.args.args]
        if isinstance(call.func, ast.Attribute) and names[:1] == ["self"]:
            names = names[1:]
        given = [*zip(names, call.args, strict=False), *((each.arg, each.value) for each in call.keywords if each.arg)]
        for parameter, value in given:
            kind, inside = self.kind(value, function), self._kinds.get((called, parameter))
            if kind in REAL:
                self._kinds.setdefault((called, parameter), kind)
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
            if name in self._bound_in[where]:
                return where
            where = self._parents.get(where)
        return function

    def is_bounded(self, claim: ast.expr, holds: bool, function: ast.AST) -> bool:
        """Return whether real time is bounded by a constant if what is claimed is true, or false."""
        parts: list[ast.expr] = []  # those of which one is enough
        match claim:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.is_bounded(operand, not holds, function)
            case ast.Compare(left=left, ops=operators, comparators=others):
                sides = [left, *others]
                return any(
                    self._is_over(*((left, right) if lesser is left else (right, left)), function)
                    for left, operator, right in zip(sides, operators, sides[1:], strict=False)
                    for lesser in _lesser(left, operator, right, holds)
                )
            case ast.Call(func=func, args=args):
                name = ast.unparse(func).rpartition(".")[2]
                if name == "isclose":
                    return holds and {DURATION, CONSTANT} <= {self.kind(each, function) for each in args}
                if (name, holds) in self._verdicts:
                    return True
                parts = args if name in TESTING else []
            case ast.BoolOp(values=values) | ast.List(elts=values) | ast.Tuple(elts=values):
                parts = values
            case ast.ListComp(elt=value, generators=loops) | ast.GeneratorExp(elt=value, generators=loops):
                parts = [value, *(condition for loop in loops for condition in loop.ifs)]
            case ast.Await(value=value) | ast.NamedExpr(value=value):
                parts = [value]
            case ast.IfExp(test=test, orelse=ast.Constant(value=value)) if not value:
                parts = [test]
            case ast.Name() | ast.Attribute() | ast.Subscript():
                name = _name(claim)
                return (self._home(name, function), name, holds) in self._bounded
            case _:
                pass
        return any(self.is_bounded(part, holds, function) for part in parts)

    def _is_over(self, lesser: ast.expr, greater: ast.expr, function: ast.AST) -> bool:
        kind, other = self.kind(lesser, function), self.kind(greater, function)
        # How many were too slow, or quick enough.
        if (other == CONSTANT or _is_empty(greater)) and self.is_bounded(lesser, False, function):
            return True
        if kind == CONSTANT and (other == RATE or self.is_bounded(greater, True, function)):
            return True
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
            case ast.Dict(values=elements):
                return self._any(elements, function)
            case ast.ListComp(elt=value) | ast.GeneratorExp(elt=value) | ast.SetComp(elt=value):
                return self.kind(value, function)
            case ast.DictComp(value=value) | ast.Lambda(body=value):
                return self.kind(value, function)
            case ast.Name() | ast.Attribute():
                return self._named(node, function)
            case _:
                return None

    def _known(self, node: ast.Name | ast.Attribute, function: ast.AST) -> str | None:
        name = _name(node)
        where: ast.AST | None = function
        while where is not None:
            if (where, name) in self._kinds:
                return self._kinds[where, name]
            where = self._parents.get(where)
        owner, _, last = name.rpartition(".")
        clock = self._clock(owner, last)
        if clock:
            return DURATION if clock in DURATIONS else TIME
        if isinstance(node, ast.Attribute):
            return self._attributes.get(last) or (self.returns.get(last) if last in self._properties else None)
        return None

    def _named(self, node: ast.Name | ast.Attribute, function: ast.AST) -> str | None:
        name = _name(node)
        known = self._known(node, function)
        if known:
            return known
        if isinstance(node, ast.Attribute) and _is_part(node):
            return self.kind(node.value, function)
        if isinstance(node, ast.Attribute) and node.attr in {"seconds", "microseconds"}:
            return DURATION if self.kind(node.value, function) == DURATION else None
        if name.rpartition(".")[2] in NAMES:
            return DURATION
        if isinstance(node, ast.Attribute):
            return CONSTANT if node.attr.isupper() or node.attr in LIMITS else None
        # A name in capitals, a parameter or a local that no clock had a part in is as good as a constant.
        return CONSTANT

    def _any(self, nodes: Iterable[ast.expr], function: ast.AST) -> str | None:
        kinds = {self.kind(node, function) for node in nodes}
        return next((kind for kind in (DURATION, RATE, TIME, CONSTANT) if kind in kinds), None)

    def _sum(self, left: str | None, operator: ast.operator, right: str | None) -> str | None:
        kinds = {left, right}
        if isinstance(operator, ast.Sub) and kinds == {TIME}:
            return DURATION
        if DURATION in kinds and isinstance(operator, ast.Div | ast.FloorDiv) and right == DURATION:
            return None if left == DURATION else RATE  # a ratio, or something by a duration
        if RATE in kinds:
            if isinstance(operator, ast.Div) and right == RATE:
                return DURATION if left == CONSTANT else None
            return RATE if kinds <= {RATE, CONSTANT, None} else None
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
        if last in self.returns:
            return self.returns[last]
        if last in self._helpers and last not in self._by_name:
            return self._helpers[last]
        if last in PASSED_ON:
            return self._any(node.args, function)
        if last in CALLING:
            return next((self.returns[name] for name in map(_name, node.args) if name in self.returns), None)
        if last in TAKEN_OUT and isinstance(node.func, ast.Attribute):
            kind = self.kind(node.func.value, function)
            return kind if kind in REAL else None
        if isinstance(node.func, ast.Name | ast.Attribute):
            kind = self._known(node.func, function)  # another name of a clock, or a function that a function returned
            if kind:
                return kind
        if last == "total_seconds" and isinstance(node.func, ast.Attribute):
            return self.kind(node.func.value, function)
        if last in {"range", "timedelta"}:
            return CONSTANT
        return None

    def _clock(self, owner: str, last: str) -> str | None:
        if not owner:
            return self._clocks.get(last)
        if last in DURATIONS and "Timer(" in owner:
            return last
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


def _bound_in(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that a function makes."""
    made: set[str] = set()
    outer: set[str] = set()
    for node in nodes:
        match node:
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                made.add(name)
            case ast.Nonlocal(names=names) | ast.Global(names=names):
                outer.update(names)
            case _:
                pass
    return made - outer


def _is_clock(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(function.name in names for names in CLOCKS.values())


def _is_empty(node: ast.expr) -> bool:
    return isinstance(node, ast.List) and not node.elts


def _name(node: ast.AST) -> str:
    """Return what a name or an attribute is called, a container for what is in it."""
    while isinstance(node, ast.Subscript | ast.Starred):
        node = node.value
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""


def _is_part(node: ast.Attribute) -> bool:
    # os.times().user, getrusage().ru_utime
    return node.attr in {"user", "system", "children_user", "children_system", "ru_utime", "ru_stime"}
