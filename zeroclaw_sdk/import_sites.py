"""Where a source file imports what, read from its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

_CATCHING: Final = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


@dataclass(frozen=True, slots=True)
class ImportSite:
    """One import.

    ``names`` are what ``from module import ...`` asks for and may be modules or attributes. ``lazy``: inside a
    function. ``guarded``: its failure is caught and lived with. ``conditional``: below an ``if`` that only running
    the file could decide.
    """

    module: str
    names: tuple[str, ...]
    line: int
    lazy: bool
    guarded: bool
    conditional: bool


@dataclass(frozen=True, slots=True)
class _Context:
    package: str
    lazy: bool = False
    guarded: bool = False
    conditional: bool = False

    def site(self, module: str, line: int, names: tuple[str, ...] = ()) -> ImportSite:
        return ImportSite(module, names, line, self.lazy, self.guarded, self.conditional)


def import_sites(tree: ast.Module, package: str) -> Iterator[ImportSite]:
    """Every import of a file, also those written as ``importlib.import_module("name")``.

    :param package: the package that relative imports are relative to; empty for a top-level module.
    """
    yield from _walk(tree.body, _Context(package))


def _walk(nodes: Sequence[ast.AST], context: _Context) -> Iterator[ImportSite]:
    for node in nodes:
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    yield context.site(alias.name, node.lineno)
            case ast.ImportFrom(module=module, names=aliases, level=level):
                base = _absolute(module or "", level, context.package)
                if base and base != "__future__":
                    yield context.site(base, node.lineno, tuple(alias.name for alias in aliases))
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                yield from _function(node, context)
            case ast.Try() | ast.TryStar():
                inner = replace(context, guarded=True) if any(map(_forgives, node.handlers)) else context
                yield from _walk(node.body, inner)
                yield from _walk(
                    [*node.handlers, *node.orelse, *node.finalbody], replace(context, conditional=True)
                )
            case ast.With() if any(map(_suppresses, node.items)):
                yield from _walk(node.body, replace(context, guarded=True))
            case ast.If(test=test, body=body, orelse=orelse):
                if not _is_type_checking(test):
                    yield from _walk([test, *body], replace(context, conditional=True))
                yield from _walk(orelse, replace(context, conditional=True))
            case ast.Call() if (named := _dynamic(node)) is not None:
                yield context.site(named, node.lineno)
            case _:
                yield from _walk(list(ast.iter_child_nodes(node)), context)


def _function(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, context: _Context
) -> Iterator[ImportSite]:
    """Decorators and defaults run where the function is defined, the body later."""
    later = node.body if isinstance(node.body, list) else [node.body]
    now = [child for child in ast.iter_child_nodes(node) if child not in later]
    yield from _walk(now, context)
    yield from _walk(later, replace(context, lazy=True, conditional=False))


def _absolute(module: str, level: int, package: str) -> str:
    if not level:
        return module
    parts = package.split(".") if package else []
    kept = parts[: len(parts) - (level - 1)]
    return ".".join([*kept, *([module] if module else [])])


def _dynamic(node: ast.Call) -> str | None:
    match node.func, node.args:
        case (
            (ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__")),
            [ast.Constant(value=str() as name), *_],
        ) if not name.startswith("."):
            return name
        case _:
            return None


def _forgives(handler: ast.ExceptHandler) -> bool:
    """Whether a handler catches a failed import and does not raise again."""
    if any(isinstance(statement, ast.Raise) for statement in handler.body):
        return False
    return handler.type is None or bool(_names(handler.type) & _CATCHING)


def _suppresses(item: ast.withitem) -> bool:
    call = item.context_expr
    if not isinstance(call, ast.Call) or not _names(call.func) & {"suppress"}:
        return False
    return any(_names(argument) & _CATCHING for argument in call.args)


def _is_type_checking(test: ast.expr) -> bool:
    return bool(_names(test) & {"TYPE_CHECKING"}) and not isinstance(test, ast.UnaryOp)


def _names(node: ast.expr) -> set[str]:
    """The last parts of every name in an expression."""
    found: set[str] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            found.add(each.id)
        elif isinstance(each, ast.Attribute):
            found.add(each.attr)
    return found
