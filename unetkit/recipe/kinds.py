"""What each key takes, derived once from the schema's annotations.

The reader, the JSON Schema and the table of keys all walk these kinds, so that none of them can know a key that another
does not. `str(kind)` is how an error says what was expected.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from unetkit.recipe.declare import REQUIRED, Short, Tagged
from unetkit.recipe.problems import join
from unetkit.recipe.schema import Recipe


@dataclass(frozen=True)
class Null:
    def __str__(self) -> str:
        return "null"


@dataclass(frozen=True)
class Boolean:
    def __str__(self) -> str:
        return "true or false"


@dataclass(frozen=True)
class Number:
    """A number within its bounds; where `whole`, 16, 16.0 and 1e5 are such numbers and 2.5 is not."""

    whole: bool
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def __str__(self) -> str:
        bounds = (("of at least", self.least), ("above", self.above), ("at most", self.most), ("below", self.below))
        said = [f"{word} {bound:.12g}" for word, bound in bounds if bound is not None]
        return " ".join(["a whole number" if self.whole else "a number", " and ".join(said)]).strip()

    def holds(self, number: float) -> bool:
        return not (
            (self.least is not None and number < self.least)
            or (self.most is not None and number > self.most)
            or (self.above is not None and number <= self.above)
            or (self.below is not None and number >= self.below)
        )


@dataclass(frozen=True)
class Text:
    """Text that is not empty and matches `pattern`, where there is one, from end to end."""

    pattern: str | None = None
    wanted: str = "text"

    def __str__(self) -> str:
        return self.wanted


@dataclass(frozen=True)
class Choice:
    values: tuple[str | int, ...]

    def __str__(self) -> str:
        return f"one of {', '.join(map(str, self.values))}" if len(self.values) > 1 else str(self.values[0])

    @property
    def is_switch(self) -> bool:
        """Whether YAML's own on and off (which it reads as true and false) are among the words."""
        return {"on", "off"} <= set(self.values)


@dataclass(frozen=True)
class Sequence:
    item: Kind
    length: int | None = None

    def __str__(self) -> str:
        return f"a list{'' if self.length is None else f' of {self.length}'}, each {self.item}"


@dataclass(frozen=True)
class Arguments:
    """Keyword arguments of the user's own class: any plain values under names that are text."""

    def __str__(self) -> str:
        return "a section of arguments"


@dataclass(frozen=True)
class Key:
    """One key of a section. `default()` makes its default; `required` keys have none."""

    name: str
    kind: Kind
    required: bool
    default: Callable[[], Any]
    help: str


@dataclass(frozen=True)
class Section:
    """A section of the recipe; where `short` names a key, a bare value of that key stands for the entire section."""

    cls: type[Any]
    keys: Mapping[str, Key]
    short: str | None = None

    def __str__(self) -> str:
        section = f"a section of {', '.join(self.keys)}"
        return f"{self.keys[self.short].kind} ({self.short}), or {section}" if self.short else section


@dataclass(frozen=True)
class Variants:
    """Sections told apart by the value of key `by`; a bare word is short for the section with that value."""

    by: str
    sections: Mapping[str, Section]

    def __str__(self) -> str:
        return f"one of {', '.join(self.sections)}, or a section whose `{self.by}` is one of them"


@dataclass(frozen=True)
class Either:
    options: tuple[Kind, ...]

    def __str__(self) -> str:
        return ", or ".join(map(str, self.options))


Kind = Null | Boolean | Number | Text | Choice | Sequence | Arguments | Section | Variants | Either


def section_of(cls: type[Any], short: str | None = None) -> Section:
    """The section that dataclass `cls` describes."""
    annotations = typing.get_type_hints(cls, include_extras=True)
    keys = {field.name: _key(field, annotations[field.name]) for field in dataclasses.fields(cls)}
    return Section(cls, types.MappingProxyType(keys), short)


@functools.cache
def root() -> Section:
    """The whole recipe."""
    return section_of(Recipe)


def about_section(section: Section) -> str:
    """What the docstring of the section's dataclass says, in one line."""
    return " ".join((section.cls.__doc__ or "").split())


def _key(field: dataclasses.Field[Any], annotation: Any) -> Key:
    factory = field.default_factory
    default = factory if factory is not REQUIRED else lambda: field.default
    required = factory is REQUIRED and field.default is REQUIRED
    kind = _kind(annotation, field.metadata)
    about = field.metadata.get("help") or (about_section(kind) if isinstance(kind, Section) else "")
    return Key(field.name, kind, required, default, about)


def _kind(annotation: Any, metadata: Mapping[str, Any]) -> Kind:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        base, mark = args
        if isinstance(mark, Short):
            return section_of(base, mark.to)
        return Variants(mark.by, types.MappingProxyType({_tag(cls, mark): section_of(cls) for cls in get_args(base) or (base,)}))
    if origin is Literal:
        return Choice(args)
    if origin in (Union, types.UnionType):
        return Either(tuple(_kind(arg, metadata) for arg in args))
    if origin is tuple:
        return Sequence(_kind(args[0], metadata), None if args[-1] is Ellipsis else len(args))
    if origin is dict:
        return Arguments()
    if dataclasses.is_dataclass(annotation):
        return section_of(typing.cast(type[Any], annotation))
    if annotation is str:
        return Text(metadata.get("pattern"), metadata.get("form", "text"))
    if annotation in (int, float):
        bounds = {name: metadata[name] for name in ("least", "most", "above", "below") if name in metadata}
        return Number(whole=annotation is int, **bounds)
    return Boolean() if annotation is bool else Null()


def _tag(cls: type[Any], mark: Tagged) -> str:
    return str(next(field.default for field in dataclasses.fields(cls) if field.name == mark.by))


@dataclass(frozen=True)
class KeyPath:
    """One key of the whole recipe: the path of its section (items as `levels[]`), and in which variant of it, if it has any."""

    section: str
    variant: str | None
    key: Key

    @property
    def path(self) -> str:
        return join(self.section, self.key.name)


@functools.cache
def every_key() -> tuple[KeyPath, ...]:
    """All keys at every level, section by section, outermost first."""
    return tuple(_walk(root(), "", None))


def _walk(kind: Kind, path: str, variant: str | None) -> Iterator[KeyPath]:
    if isinstance(kind, Section):
        yield from (KeyPath(path, variant, key) for key in kind.keys.values())
        for key in kind.keys.values():
            yield from _walk(key.kind, join(path, key.name), None)
    elif isinstance(kind, Variants):
        for name, section in kind.sections.items():
            yield from _walk(section, path, name)
    elif isinstance(kind, Sequence):
        yield from _walk(kind.item, f"{path}[]", None)
    elif isinstance(kind, Either):
        for option in kind.options:
            yield from _walk(option, path, None)
