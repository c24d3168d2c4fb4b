"""From a name to a class, and back: the shipped ones are in the dictionaries below, your own is `package.module:Class`."""

import importlib
import inspect
import sys

from unetkit.blocks.base import Block, Downsample, Upsample
from unetkit.blocks.checks import did_you_mean
from unetkit.blocks.conv import ConvBlock
from unetkit.blocks.modulated import ModulatedBlock
from unetkit.blocks.resample import BilinearConv, MaxPool, NearestConv, StridedConv, TransposedConv
from unetkit.errors import UserError

BLOCKS = {"conv": ConvBlock, "modulated": ModulatedBlock}
DOWNSAMPLERS = {"max_pool": MaxPool, "strided_conv": StridedConv}
UPSAMPLERS = {"transposed_conv": TransposedConv, "nearest_conv": NearestConv, "bilinear_conv": BilinearConv}
KINDS = {"block": (BLOCKS, Block), "down": (DOWNSAMPLERS, Downsample), "up": (UPSAMPLERS, Upsample)}


def find_class(kind: str, name: str | type) -> type:
    """The class that `name` means.

    Args:
        kind: `block`, `down` or `up`.
        name: a shipped name, `package.module:Class`, or a class itself.

    Raises:
        UserError: nothing of that name, or something that is not a subclass of the kind's base.
    """
    known, base = KINDS[kind]
    found = known.get(name) if isinstance(name, str) else name
    if found is None:
        found = import_class(kind, name)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise UserError(f"{kind}: {name!r} is {found!r}, which is not a subclass of unetkit.blocks.{base.__name__}.")
    return found


def import_class(kind: str, name: str):
    module_name, colon, attribute = name.partition(":")
    if not (colon and module_name and attribute):
        known = KINDS[kind][0]
        raise UserError(f"{kind}: {name!r} is neither {', '.join(known)} nor package.module:Class.{did_you_mean(name, known)}")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as missing:
        if not module_name.startswith(missing.name or "\0"):
            raise UserError(f"{kind}: importing {module_name} failed: {missing}") from missing
        raise UserError(f"{kind}: {name!r}: Python finds no module {missing.name!r}. Start in its folder, or install it.") from missing
    except Exception as error:
        raise UserError(f"{kind}: importing {module_name} failed: {type(error).__name__}: {error}") from error
    found = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise UserError(f"{kind}: {name!r}: {module_name} has no {attribute}.{did_you_mean(attribute, vars(module))}")
        found = getattr(found, part)
    return found


def name_of(kind: str, found: type) -> str:
    """The name by which `find_class` finds this class again."""
    for name, shipped in KINDS[kind][0].items():
        if shipped is found:
            return name
    return f"{found.__module__}:{found.__qualname__}"


def refuse_unloaded_code(kind: str, name: str) -> None:
    """Lets a saved model name code only if that code is already loaded: opening a file must not import what the file chooses.

    Raises:
        UserError: saying what to import.
    """
    module_name, colon, _ = name.partition(":")
    if colon and module_name not in sys.modules:
        raise UserError(f"This model uses the {kind} {name!r}, which is code. If you trust it, `import {module_name}` first.")


def accepted_arguments(layer: type) -> set[str]:
    """Names that the constructors of a layer and its bases take, as far as each passes `**` on to the next."""
    names: set[str] = set()
    for cls in layer.__mro__:
        if "__init__" not in vars(cls):
            continue
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
        names |= {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return names
