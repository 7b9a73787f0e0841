"""The SQL of a step: one query over the views of a pipeline, and nothing else.

Spark runs a command as soon as it gets one: `ADD JAR`, `INSERT OVERWRITE DIRECTORY`, `CREATE VIEW … USING`. Functions
may call Java, or read files. So Spark's own parser reads the text first, and what it may contain is listed here by
name: an operator that a later Spark brings is refused until somebody has looked at it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

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
_WITH_OPTIONS: Final = frozenset({"from_xml", "schema_of_xml", "from_avro", "to_avro", "schema_of_avro"})
_FILE_OPTIONS: Final = frozenset({"rowvalidationxsdpath", "avroschemaurl"})
_XPATH: Final = ("boolean", "double", "float", "int", "long", "number", "short", "string")
_OF_FILES: Final = {
    **dict.fromkeys(("from_protobuf", "to_protobuf"), "a descriptor's file, or a class by its name"),
    **dict.fromkeys(
        ("xpath", *(f"xpath_{kind}" for kind in _XPATH)), "the DTD that a document names, from a file or the network"
    ),
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
    for plan in _plans(parsed):
        _check_operator(plan, files=files)
        for expression in _expressions(plan):
            _check_function(expression, files=files)
    jvm: Any = spark.sparkContext._jvm
    skip = jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    for plan in _plans(state.executePlan(parsed, skip).analyzed()):
        _check_operator(plan, files=files)
        for expression in _expressions(plan):
            if (name := _name(expression)) in _JAVA_CLASSES:
                raise _refused(f"it calls Java by name ({name})")
    _checked.add((sql, files))


def _check_operator(plan: Any, *, files: bool) -> None:
    name = _name(plan)
    if name == "PlanWithUnresolvedIdentifier":
        _check_identifier(plan.identifierExpr())
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


def _check_function(expression: Any, *, files: bool) -> None:
    """Look at a function before Spark resolves it: it computes some of them at once, as in LIMIT and VALUES."""
    kind = _name(expression)
    if kind == "ExpressionWithUnresolvedIdentifier":
        _check_identifier(expression.identifierExpr())
    if kind not in ("UnresolvedFunction", "UnresolvedGenerator", "ExpressionWithUnresolvedIdentifier"):
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
            _check_options(called, argument)


def _check_options(function: str, argument: Any) -> None:
    """Refuse an option that names a file, and one whose name is computed."""
    for node in _nodes(argument):
        name = _name(node)
        if name == "Literal" and str(node.toString()).lower() in _FILE_OPTIONS:
            raise _refused(f"{function} reads a file ({node.toString()})", _ALLOW)
        if name != "Literal" and not (name == "UnresolvedFunction" and _called(node) in ("map", "schema_of_xml")):
            raise _refused(f"an argument of {function} is computed")


def _check_identifier(expression: Any) -> None:
    """Refuse IDENTIFIER with a name that is computed: what it names could not be told, here or by a reader."""
    if _name(expression) != "Literal":
        raise _refused("IDENTIFIER computes a name", "write the name")


def _called(function: Any) -> str:
    """The name of a function as it is written, in lower case and without its catalog."""
    if _name(function) == "ExpressionWithUnresolvedIdentifier":
        return str(function.identifierExpr().toString()).rpartition(".")[2].strip("`").lower()
    if _name(function) == "UnresolvedGenerator":
        return str(function.name().funcName()).lower()
    return str(function.nameParts().last()).lower()


def _plans(plan: Any) -> Iterator[Any]:
    """A plan and all plans in it, those of WITH and of subqueries as well; not those of a pipeline's views."""
    yield plan
    if _name(plan) == "View" and plan.isTempView():
        return  # the rows of a source, of a step before, or of a view that Python code has made
    for child in (*_items(plan.children()), *_items(plan.innerChildren())):
        yield from _plans(child)


def _expressions(plan: Any) -> Iterator[Any]:
    """All expressions of this plan itself."""
    for expression in _items(plan.expressions()):
        yield from _nodes(expression)
    if _name(plan) == "WithWindowDefinition":  # Spark does not count them
        for window in _items(plan.windowDefinitions().values()):
            yield from _nodes(window)


def _nodes(expression: Any) -> Iterator[Any]:
    """An expression and all expressions in it."""
    yield expression
    for child in _items(expression.children()):
        yield from _nodes(child)
    if _name(expression) == "UnresolvedStarExceptOrReplace" and expression.replacements().isDefined():
        for child in _items(expression.replacements().get()):
            yield from _nodes(child)


def _items(sequence: Any) -> Iterator[Any]:
    """The items of a Seq or Set of Scala's."""
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _name(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _refused(reason: str, remedy: str = _REMEDY) -> NoQueryError:
    return NoQueryError(reason, remedy)
