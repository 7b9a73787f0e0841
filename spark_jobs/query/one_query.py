"""The SQL of a step: one query over the views of a pipeline, and nothing else.

Spark runs a command as soon as it gets one: `ADD JAR`, `INSERT OVERWRITE DIRECTORY`, `CREATE VIEW … USING`. Functions
may call Java, or read files. So Spark's own parser reads the text first, and what it may contain is listed here by
name: an operator of a later Spark is refused until this list has it. The check of the parsed text must find every
function: Spark computes constants during analysis, which would read a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from py4j.java_gateway import JavaObject, is_instance_of  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

FILES: Final = "spark.sql.runSQLOnFiles"
"""The setting of Spark's that lets a query read files by their paths."""

_OPERATORS: Final = frozenset(
    {
        *("Project", "Filter", "Aggregate", "Sort", "Distinct", "Deduplicate", "Window", "WithWindowDefinition"),
        *("Generate", "Expand", "Pivot", "Unpivot", "Sample", "Transpose", "BinBy", "DataFrameDropColumns"),
        *("GlobalLimit", "LocalLimit", "LimitAll", "Offset", "Tail", "Union", "Except", "Intersect", "UnionLoop"),
        *("Join", "LateralJoin", "AsOfJoin", "NearestByJoin", "SubqueryAlias", "Subquery", "View"),
        *("WithCTE", "CTERelationDef", "CTERelationRef", "UnionLoopRef", "EventTimeWatermark", "RelationTimeTravel"),
        *("Repartition", "RepartitionByExpression", "RebalancePartitions", "ResolvedHint", "ResolvedInlineTable"),
        *("LocalRelation", "OneRowRelation", "EmptyRelation", "Range"),
        *("UnresolvedRelation", "UnresolvedInlineTable", "UnresolvedTableValuedFunction", "UnresolvedTVFAliases"),
        *("UnresolvedSubqueryColumnAliases", "UnresolvedHaving", "UnresolvedQualify", "UnresolvedWith"),
        *("UnresolvedHint", "UnresolvedDeduplicate", "UnresolvedTranspose", "UnresolvedBinBy"),
        *("UnresolvedEventTimeWatermark", "PlanWithUnresolvedIdentifier", "NamedStreamingRelation", "PipeOperator"),
    }
)
"""Operators of a query, as Spark has parsed it or resolved it."""

_TABLES: Final = frozenset(
    {"LogicalRelation", "LogicalRelationWithTable", "DataSourceV2Relation", "StreamingRelationV2", "HiveTableRelation"}
)
"""Data outside of Spark: a table of a catalog, or files by their path."""

_JAVA: Final = frozenset({"reflect", "java_method", "try_reflect"})
_JAVA_CLASSES: Final = frozenset({"CallMethodViaReflection", "TryReflect"})
_IDENTIFIERS: Final = {
    "ExpressionWithUnresolvedIdentifier": "exprBuilder",
    "PlanWithUnresolvedIdentifier": "planBuilder",
}
"""Nodes of IDENTIFIER(…), and their functions that build the named node."""
_CATALYST: Final = "org.apache.spark.sql.catalyst"
_KINDS: Final = {
    "plan": f"{_CATALYST}.plans.logical.LogicalPlan",
    "expression": f"{_CATALYST}.expressions.Expression",
    "collection": "scala.collection.IterableOnce",  # also of Option and Map
}
_WITH_OPTIONS: Final = frozenset({"from_xml", "schema_of_xml", "from_avro", "to_avro", "schema_of_avro"})
_FILE_OPTIONS: Final = frozenset({"rowvalidationxsdpath", "avroschemaurl"})
_XPATH: Final = ("boolean", "double", "float", "int", "long", "number", "short", "string")
_DTD: Final = "the DTD that a document names, from a file or the network"
_OF_FILES: Final = {
    **dict.fromkeys(("from_protobuf", "to_protobuf"), "a descriptor's file, or a class by its name"),
    **dict.fromkeys(("xpath", *(f"xpath_{kind}" for kind in _XPATH)), _DTD),
}
"""By name, functions that read files, and which files. Measured with Spark 4.3: `xpath_string` fetches the DTD of a
document `<!DOCTYPE a SYSTEM "http://…">`, and `from_xml` does not."""

_REMEDY: Final = "write one query over sources and steps; a step with `python` may do more, and says that it runs code"
_ALLOW: Final = f"read them as a source, or allow it for all: spark.conf: {{{FILES}: true}} (docs/how-to/security.md)"

_checked: set[tuple[str, bool]] = set()
"""Texts that have passed, and whether files were allowed. Invariant: a text in it means the same whenever it is parsed,
since no name in it is computed."""


class NoQueryError(Exception):
    """A text is more than one query. Its words are for people, as is `remedy`."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"the sql is not one query: {reason}")
        self.remedy = remedy


def check_query(spark: SparkSession, sql: str) -> None:
    """Refuse SQL that is not one query. Runs nothing of it. Called before each use; only the first one costs.

    Raises NoQueryError; AnalysisException and ParseException where Spark does not understand it.
    """
    files = str(spark.conf.get(FILES, "true")).lower() == "true"
    if (sql, files) in _checked:
        return
    state = spark._jsparkSession.sessionState()
    parsed = state.sqlParser().parsePlan(sql)
    for node, kind in _nodes(spark, parsed):
        if kind == "plan":
            _check_operator(node, files=files)
        else:
            _check_function(spark, node, files=files)
    jvm: Any = spark.sparkContext._jvm
    skip = jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    for node, kind in _nodes(spark, state.executePlan(parsed, skip).analyzed()):
        if kind == "plan":
            _check_operator(node, files=files)
        else:
            _check_resolved(node, files=files)
    _checked.add((sql, files))


def _check_operator(plan: Any, *, files: bool) -> None:
    name = _name(plan)
    if name in _TABLES:
        if not files and not _is_named(plan):
            raise _refused("it reads files by their path", _ALLOW)
    elif name not in _OPERATORS:
        raise _refused(f"{name} is more than a query")


def _is_named(relation: Any) -> bool:
    """Whether a catalog has it as a table: whoever made the catalog known to Spark has chosen what is in it."""
    match _name(relation):
        case "LogicalRelation" | "LogicalRelationWithTable":
            return bool(relation.catalogTable().isDefined())
        case "HiveTableRelation":
            return True
    return bool(relation.catalog().isDefined() and relation.identifier().isDefined())


def _check_function(spark: SparkSession, expression: Any, *, files: bool) -> None:
    """Check a function before Spark resolves it: Spark computes some at once, as in LIMIT, VALUES and PIVOT."""
    if _name(expression) not in ("UnresolvedFunction", "UnresolvedGenerator"):
        return
    called = _called(expression)
    if called in _JAVA:
        raise _refused(f"it calls Java by name ({called})")
    if files:
        return
    if called in _OF_FILES:
        raise _refused(f"{called} reads {_OF_FILES[called]}", _ALLOW)
    if called in _WITH_OPTIONS:
        for argument in list(_items(expression.children()))[1:]:
            _check_options(spark, called, argument)


def _check_resolved(expression: Any, *, files: bool) -> None:
    """Check an expression by its class: the body of a SQL function, or of a catalog's view, is known only here."""
    name = _name(expression)
    if name in _JAVA_CLASSES:
        raise _refused(f"it calls Java by name ({name})")
    if files:
        return
    if name.startswith("XPath"):
        raise _refused(f"{expression.prettyName()} reads {_DTD}", _ALLOW)
    if name in ("XmlToStructs", "SchemaOfXml"):
        for option in _items(expression.options().keys()):
            if option.lower() in _FILE_OPTIONS:
                raise _refused(f"{expression.prettyName()} reads a file ({option})", _ALLOW)


def _check_options(spark: SparkSession, function: str, argument: Any) -> None:
    """Refuse an option that names a file, and one whose name is computed."""
    for node, _ in _nodes(spark, argument):
        name = _name(node)
        if name == "Literal" and str(node.toString()).lower() in _FILE_OPTIONS:
            raise _refused(f"{function} reads a file ({node.toString()})", _ALLOW)
        if name != "Literal" and not (name == "UnresolvedFunction" and _called(node) in ("map", "schema_of_xml")):
            raise _refused(f"an argument of {function} is computed")


def _called(function: Any) -> str:
    """The name of a function as it is written, in lower case and without its catalog."""
    if _name(function) == "UnresolvedGenerator":
        return str(function.name().funcName()).lower()
    return str(function.nameParts().last()).lower()


def _nodes(spark: SparkSession, root: Any) -> Iterator[tuple[Any, str]]:
    """Yield each plan and each expression in `root` with its kind, but not the insides of a pipeline's views.

    Reads every field of a node: Spark's `children` leave out named windows and the columns that `|> SET` replaces.
    """
    pending = [root]
    while pending:
        node = pending.pop()
        kind = _kind(spark, node)
        if not kind:
            continue
        parts = []
        if kind in ("plan", "expression"):
            yield node, kind
            name = _name(node)
            if name in _TABLES or (name == "View" and node.isTempView()):
                continue  # the rows of a source, of a step before, or of a view that Python code has made
            if name in _IDENTIFIERS:
                parts.append(_identified(spark, node))
        parts += _items(node if kind == "collection" else node.productIterator())
        pending += reversed(parts)


_kinds: dict[str, str] = {}
"""Kinds of nodes by their Java classes; empty for other classes."""


def _kind(spark: SparkSession, value: Any) -> str:
    """Return a key of `_KINDS`, "tuple", or an empty text for a value without nodes."""
    if not isinstance(value, JavaObject):
        return ""
    name = str(value.getClass().getName())
    if name not in _kinds:
        gateway = spark.sparkContext._gateway
        kinds = (kind for kind, base in _KINDS.items() if is_instance_of(gateway, value, base))
        _kinds[name] = "tuple" if name.startswith("scala.Tuple") else next(kinds, "")
    return _kinds[name]


def _identified(spark: SparkSession, node: Any) -> Any:
    """Return the node that IDENTIFIER names. Only this node has the arguments of a table function.

    Refuses a computed name, which neither this check nor a reader can know.
    """
    name = node.identifierExpr()
    if _name(name) != "Literal":
        raise _refused("IDENTIFIER computes a name", "write the name")
    jvm: Any = spark.sparkContext._jvm
    parser = jvm.org.apache.spark.sql.catalyst.parser.CatalystSqlParser()  # the parser that Spark uses here
    parts = parser.parseMultipartIdentifier(name.toString())
    return getattr(node, _IDENTIFIERS[_name(node)])().apply(parts, node.children())


def _items(sequence: Any) -> Iterator[Any]:
    """The items of a collection or an iterator of Scala's."""
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _name(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _refused(reason: str, remedy: str = _REMEDY) -> NoQueryError:
    return NoQueryError(reason, remedy)
