"""Members of a contract that a plugin's class lacks, for example because it was written for another version.

A class may inherit from the contract, a Protocol. A method that it does not define then does nothing and returns None:
rows would be lost without an error.
"""

from __future__ import annotations

from typing import Final, TypeVar

from eos.errors import SpecError

_REMEDY: Final = (
    "correct the plugin, or install a version of it for this eos: docs/reference/api.md describes each member"
)
_SHOWN: Final = 5  # members in a message
_ABSENT: Final = object()

T = TypeVar("T")


def require_members(value: T, contract: type, where: str) -> T:
    """Return the value if it has all members of the contract. Messages begin with `where`, the part and the call.

    Called once for each source, sink, committer and writer. Does not block. Raises SpecError.
    """
    kind = type(value)
    lacking = [name for name in _missing(kind, contract) if not _is_of_instance(value, name)]
    if lacking:
        names = ", ".join(lacking[:_SHOWN]) + (f" and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else "")
        message = f"{where} returned a {kind.__qualname__}, not a {contract.__name__}: it lacks {names}"
        raise SpecError(message, remedy=_REMEDY)
    return value


def _missing(kind: type, contract: type) -> tuple[str, ...]:
    """Return the members of the contract that the class lacks or inherits from it, in alphabetical order."""
    declared = vars(contract)
    names = sorted(name for name in {*declared, *contract.__annotations__} if not name.startswith("_"))
    return tuple(name for name in names if _is_missing(getattr(kind, name, _ABSENT), declared.get(name)))


def _is_missing(found: object, declared: object) -> bool:
    return found is _ABSENT or (found is declared and declared is not None)


def _is_of_instance(value: object, name: str) -> bool:
    """Return whether the instance has what its class lacks: an attribute set in `__init__`, or by `__getattr__`."""
    return name in getattr(value, "__dict__", ()) or (not hasattr(type(value), name) and hasattr(value, name))
