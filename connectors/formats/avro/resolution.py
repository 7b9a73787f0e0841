"""The plan by which the records of one writer's schema become the columns of a reader's.

Source: Apache Avro 1.12 specification, "Schema Resolution". Records match by their fields whatever their names are, as
in Avro's Java; two logical types that differ do not match, since the same number has another meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from connectors.formats.avro.arrow_types import ArrowTypes, not_null, takes_null
from connectors.formats.avro.cursor import ALL, Cursor
from connectors.formats.avro.defaults import encode_default
from connectors.formats.avro.groups import Unreadable
from connectors.formats.avro.nested import ArrayStep, MapStep, MembersStep, MemberStep, RecordStep, UnionStep
from connectors.formats.avro.nodes import (
    MOST_SKIPPED,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Schema,
    Union,
)
from connectors.formats.avro.skipping import Skip, least_bytes, most_parts
from connectors.formats.avro.steps import (
    BooleanStep,
    BytesStep,
    DecimalStep,
    DurationStep,
    EnumStep,
    FloatStep,
    NullStep,
    NumberStep,
    Step,
    TextStep,
    UuidStep,
)
from connectors.formats.plain import VALUE
from connectors.formats.spans import Ints
from eos.errors import SpecError

_PROMOTED: Final = {
    "long": ("int", "long"),
    "float": ("int", "long", "float"),
    "double": ("int", "long", "float", "double"),
    "string": ("string", "bytes"),
    "bytes": ("string", "bytes"),
}
"""By a reader's type, the types of a writer that it can take. Any other type takes its own only."""


_MOST_STEPS: Final = 100_000
"""Pairs of types that are compared. Unions in unions of records can have exponentially many."""


class IncompatibleError(Exception):
    """No value of the writer's schema can be read with the reader's. The text names the field."""


def resolve(writer: Schema, reader: Schema, *, truncate: bool = False) -> RecordStep:
    """Return the plan. `truncate`: cut nanoseconds off instead of refusing them. Pure.

    Raises IncompatibleError, and SpecError if the reader's schema fits no columns.
    """
    try:
        return _Resolver(writer, reader, truncate).root()
    except _EndlessError:
        raise IncompatibleError(f"more than {_MOST_STEPS:,} ways to read the one as the other") from None


def check_defaults(reader: Schema) -> None:
    """Raise SpecError if a default of a reader's schema is not of the type of its field."""
    resolver = _Resolver(reader, reader, truncate=True)
    for record in [each for each in reader.named.values() if isinstance(each, Record)]:
        for each in record.fields:
            if each.has_default:
                resolver.default(each, ())


class _EndlessError(Exception):
    """Two schemas that take too long to compare."""


class _Resolver:
    def __init__(self, writer: Schema, reader: Schema, truncate: bool) -> None:
        self._writer = writer
        self._reader = reader
        self._truncate = truncate
        self._types = ArrowTypes(reader)
        self._skipped = self._steps = 0

    def root(self) -> RecordStep:
        columns = list(self._types.columns())
        written, read = self._writer.follow(self._writer.root), self._reader.follow(self._reader.root)
        if isinstance(written, Record) and isinstance(read, Record):
            return self._record(written, read, "", ())
        return RecordStep([(self._step(written, read, VALUE, ()), 0)], [], columns)

    def _step(self, writer: Node, reader: Node, what: str, inside: Sequence[str]) -> Step:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise _EndlessError
        written, read = self._writer.follow(writer), self._reader.follow(reader)
        if isinstance(written, Union):
            return self._from_union(written, read, what, inside)
        if isinstance(read, Union):
            return self._into_union(written, read, what, inside)
        match written, read:
            case Record(), Record():
                return self._record(written, read, what, inside)
            case Array(), Array():
                least = least_bytes(self._writer, written.items)
                item = self._step(written.items, read.items, f"{what}[]", inside)
                return ArrayStep(what, item, least, self._types.type(read, inside))
            case Map(), Map():
                least = 1 + least_bytes(self._writer, written.values)
                value = self._step(written.values, read.values, f"{what}{{}}", inside)
                return MapStep(what, value, least, self._types.type(read, inside))
            case Enum(), Enum() if _same_name(written, read):
                return _enum(written, read, what)
            case Fixed(), Fixed() if _same_name(written, read) and written.size == read.size:
                self._check_logical(written, read, what)
                return _fixed(read, what, self._types.type(read, inside))
            case Primitive(), Primitive() if written.type in _PROMOTED.get(read.type, (read.type,)):
                self._check_logical(written, read, what)
                return self._primitive(written, read, what, inside)
        raise IncompatibleError(f"{what}: written as {_words(written)}, and read as {_words(read)}")

    def _record(self, written: Record, read: Record, what: str, inside: Sequence[str]) -> RecordStep:
        fields = self._types.fields(read, inside)
        within = [*inside, read.name]
        parts: list[tuple[Step, int] | Skip] = []
        matching = _Matching(read.fields)
        for each in written.fields:
            path = f"{what}.{each.name}" if what else each.name
            at = matching.take(each.name)
            if at is None:
                self._skipped += most_parts(self._writer, each.type)
                if self._skipped > MOST_SKIPPED:
                    message = f"{path}: the fields that are skipped up to here have more than {MOST_SKIPPED:,} parts"
                    raise IncompatibleError(message)
                parts.append(Skip(path, self._writer, each.type))
            else:
                parts.append((self._step(each.type, read.fields[at].type, path, within), at))
        missing = [(at, each) for at, each in enumerate(read.fields) if at not in matching.taken]
        return RecordStep(parts, [(self.default(each, within), at) for at, each in missing], fields)

    def default(self, field: Field, inside: Sequence[str]) -> pa.Scalar:
        """Return the value of a field that the writer's schema lacks. Raises SpecError if its type cannot hold it."""
        if not field.has_default:
            raise IncompatibleError(f"{field.name}: the writer's schema lacks it, and the reader's has no default")
        content = encode_default(self._reader, field.type, field.default)
        step = _Resolver(self._reader, self._reader, self._truncate)._step(field.type, field.type, field.name, inside)
        cursor = Cursor(pa.array([content], pa.binary()))
        value = step.read(cursor, ALL)[0]
        cursor.finish()
        if cursor.faults:
            raise SpecError(f"the Avro default of {cursor.faults[0]}", remedy="correct the default in the schema")
        return value

    def _from_union(self, written: Union, read: Node, what: str, inside: Sequence[str]) -> Step:
        """Branch by branch: a branch that cannot be read is a fault of the records that have it."""
        kind, types = self._types.type(read, inside), not_null(read)
        steps: list[Step | Unreadable] = []
        members: list[int | None] = []
        for branch in written.branches:
            member: int | None = None
            try:
                if self._writer.follow(branch) == _NULL and takes_null(read):
                    steps.append(NullStep(kind))
                else:
                    member = self._choice(branch, types, what, inside)
                    steps.append(self._step(branch, types[member], what, inside))
            except IncompatibleError as error:
                steps.append(Unreadable(str(error)))
            members.append(member)
        if all(isinstance(step, Unreadable) for step in steps):
            raise IncompatibleError("; ".join(step.reason for step in steps if isinstance(step, Unreadable)))
        if len(types) == 1:
            return UnionStep(what, steps, kind)
        return MembersStep(what, steps, members, list(kind))

    def _into_union(self, written: Node, read: Union, what: str, inside: Sequence[str]) -> Step:
        if written == _NULL and takes_null(read):
            return NullStep(self._types.type(read, inside))
        types = not_null(read)
        member = self._choice(written, types, what, inside)
        step = self._step(written, types[member], what, inside)
        return step if len(types) == 1 else MemberStep(step, member, list(self._types.type(read, inside)))

    def _choice(self, writer: Node, types: Sequence[Node], what: str, inside: Sequence[str]) -> int:
        """Return the number of the type that takes the writer's: one of the same name if possible, else the first."""
        if len(types) == 1:
            return 0
        written = self._writer.follow(writer)
        readers = [self._reader.follow(each) for each in types]
        for at in sorted(range(len(readers)), key=lambda at: not _is_same(written, readers[at])):
            try:
                self._step(written, readers[at], what, inside)
            except IncompatibleError:
                continue
            return at
        raise IncompatibleError(f"{what}: written as {_words(written)}, which no type of the reader's union takes")

    def _check_logical(self, written: Primitive | Fixed, read: Primitive | Fixed, what: str) -> None:
        before, after = written.logical, read.logical
        if before and after and (before, written.scale) != (after, read.scale):
            message = f"{what}: written as {_words(written)}, and read as {_words(read)}"
            raise IncompatibleError(message)

    def _primitive(self, written: Primitive, read: Primitive, what: str, inside: Sequence[str]) -> Step:
        kind = self._types.type(read, inside)
        match read.type:
            case "null":
                return NullStep(kind)
            case "boolean":
                return BooleanStep(what)
            case "float" | "double" if written.type in ("float", "double"):
                return FloatStep(what, "<f4" if written.type == "float" else "<f8", kind)
            case "float" | "double":
                return NumberStep(what, kind, *_RANGE[written.type], _Cast(kind))
            case "bytes" if read.logical == "decimal":
                return DecimalStep(what, kind)
            case "bytes":
                return BytesStep(what)
            case "string":
                return TextStep(what)
        return self._number(written, read, what, kind)

    def _number(self, written: Primitive, read: Primitive, what: str, kind: pa.DataType) -> Step:
        low, high = _RANGE[written.type]
        unit = read.logical.rpartition("-")[2]
        if read.logical in ("time-millis", "time-micros"):
            return NumberStep(what, kind, 0, _DAY_S * _PER_S[unit] - 1, _Time(unit))
        if unit == "millis":
            return NumberStep(what, kind, -(_MOST // 1_000), _MOST // 1_000, _Scaled(kind, times=1_000))
        if unit == "nanos":
            return NumberStep(what, kind, low, high, _Scaled(kind, over=1_000), 1 if self._truncate else 1_000)
        return NumberStep(what, kind, low, high, _Scaled(kind))


_NULL: Final = Primitive("null")
_DAY_S: Final = 86_400
_PER_S: Final = {"millis": 1_000, "micros": 1_000_000}
_MOST: Final = 2**63 - 1
_RANGE: Final = {"int": (-(2**31), 2**31 - 1), "long": (-_MOST - 1, _MOST)}


class _Scaled:
    """Numbers as a column of `kind`, multiplied or divided before (towards the past)."""

    def __init__(self, kind: pa.DataType, *, times: int = 1, over: int = 1) -> None:
        self._kind = kind
        self._times = times
        self._over = over

    def __call__(self, values: Ints) -> pa.Array:
        values = values * self._times if self._times > 1 else values // self._over if self._over > 1 else values
        narrow = self._kind in (pa.int32(), pa.date32())
        return pa.array(values.astype("i4") if narrow else values).view(self._kind)


class _Cast:
    """Whole numbers as floating-point numbers: a promotion of Avro's, which rounds."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind

    def __call__(self, values: Ints) -> pa.Array:
        return pa.array(values.astype("f4" if self._kind == pa.float32() else "f8"))


class _Time:
    """Times of day as the text that a column of type TIME takes: 13:05:00.250000."""

    def __init__(self, unit: str) -> None:
        self._per_s = _PER_S[unit]

    def __call__(self, values: Ints) -> pa.Array:
        micros = values * (_PER_S["micros"] // self._per_s)
        return pa.array(micros).view(pa.time64("us")).cast(pa.string())


def _enum(written: Enum, read: Enum, what: str) -> EnumStep:
    known = frozenset(read.symbols)
    symbols = [symbol if symbol in known else read.default for symbol in written.symbols]
    return EnumStep(what, symbols, written.symbols)


def _fixed(read: Fixed, what: str, kind: pa.DataType) -> Step:
    match read.logical:
        case "decimal":
            return DecimalStep(what, kind, read.size)
        case "uuid":
            return UuidStep(what)
        case "duration":
            return DurationStep(what)
    return BytesStep(what, read.size)


class _Matching:
    """The fields of a reader's record, as fields of a writer's take them."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self.taken: set[int] = set()
        self._named: dict[str, list[int]] = {}
        self._aliases: dict[str, list[int]] = {}
        for at, each in enumerate(fields):
            self._named.setdefault(each.name, []).append(at)
            for alias in each.aliases:
                self._aliases.setdefault(alias, []).append(at)

    def take(self, name: str) -> int | None:
        """Return the number of the field for one of the writer's: of its name, or with its name as an alias."""
        for at in [*self._named.get(name, []), *self._aliases.get(name, [])]:
            if at not in self.taken:
                self.taken.add(at)
                return at
        return None


def _same_name(written: Enum | Fixed, read: Enum | Fixed) -> bool:
    """Whether two named types are the same one, without regard to namespaces."""
    return _simple(written.name) == _simple(read.name) or written.name in read.aliases


def _is_same(written: Node, read: Node) -> bool:
    if isinstance(written, Record | Enum | Fixed) and isinstance(read, Record | Enum | Fixed):
        return type(written) is type(read) and (written.name == read.name or written.name in read.aliases)
    if isinstance(written, Primitive) and isinstance(read, Primitive):
        return written.type == read.type
    return type(written) is type(read)


def _simple(name: str) -> str:
    return name.rpartition(".")[2]


def _words(node: Node) -> str:
    match node:
        case Primitive() | Fixed() if node.logical == "decimal":
            return f"decimal({node.precision}, {node.scale})"
        case Primitive():
            return node.logical or node.type
        case Record() | Enum() | Fixed():
            return f"{type(node).__name__.lower()} {node.name}"
    return type(node).__name__.lower()
