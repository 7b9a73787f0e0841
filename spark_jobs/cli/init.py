"""`eos init` and `eos schema`: help to write a spec."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, TypeVar

import typer

from connectors.api import plugins
from connectors.api.entry import Entry, SinkEntry, SourceEntry
from connectors.api.format import FormatEntry
from connectors.api.template import Template
from connectors.spec import json_schema
from eos.errors import SpecError
from spark_jobs.cli.from_topic import Registry, Sampled, look_at
from spark_jobs.cli.options import AsJson, Debug
from spark_jobs.cli.output import out
from spark_jobs.cli.source_keys import with_keys

_SOURCE: Final = "The source's connector; without it the first of this project."
_SINK: Final = "The sink's connector; without it the first of this project."
_NAMED: Final = "Name of the pipeline, its topic and its table (default: orders, or the name of the topic)."
_TOPIC: Final = (
    "A topic that exists: its newest records show the format and the columns. The source's environment variable "
    "has the address."
)
_REGISTRY: Final = "With --from-topic: the address of the schema registry."
_USER: Final = "With --registry: the user; $REGISTRY_PASSWORD has the password."
_SET: Final = (
    "A key of the source in the new spec, such as security.sasl.username=orders; repeat it for each key. A secret is a "
    "reference: 'security.sasl.password=${env:NAME}'."
)
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}")

_NOT_IN_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_MEANING: Final = 60  # characters of a key's description

_TEXT: Final = """\
# <name>: from <source> into <sink>, each record exactly once.
#
<exports><before>#   eos validate <file> && eos doctor <file> && eos run <file>
#
# With `eos schema > eos.schema.json` and the next line without its second #, an editor completes and checks this file.
# # yaml-language-server: $schema=./eos.schema.json
pipeline: "<name>"  # identity: part of transaction ids, witnesses and claim rows; keep it

checkpoint:
  location: ./checkpoints/<name>  # decisions, positions and Spark's state: a local disk; keep it
  interval: 2s  # how often rows become visible; 0s: as fast as possible
  max_records_per_checkpoint: 500000  # bounds memory, transactions and recovery after an outage

# What follows a failure that a restart can cure. Or: {strategy: fixed-delay, attempts: 10, delay: 1s}.
restart: {strategy: exponential-delay, initial_delay: 1s, max_delay: 1min}

sources:
  - name: incoming  # the view that steps read
<source_entry>

# Spark SQL, or `python: module:function` with `from: incoming`. Columns of each record besides its own:
# _key, _topic, _partition, _offset, _timestamp, _headers.
transforms:
  - name: rows
    sql: SELECT <columns> FROM incoming

sinks:
  - name: warehouse
    from: rows
<sink_entry>
"""

E = TypeVar("E", bound=Entry)


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.")] = Path("pipeline.yaml"),
    name: Annotated[str | None, typer.Option(help=_NAMED, show_default=False)] = None,
    source: Annotated[str | None, typer.Option(help=_SOURCE, metavar="CONNECTOR", show_default=False)] = None,
    form: Annotated[
        str | None, typer.Option("--format", help="Format of a record's value (default: json).", show_default=False)
    ] = None,
    sink: Annotated[str | None, typer.Option(help=_SINK, metavar="CONNECTOR", show_default=False)] = None,
    from_topic: Annotated[str | None, typer.Option(help=_TOPIC, metavar="TOPIC", show_default=False)] = None,
    registry: Annotated[str | None, typer.Option(help=_REGISTRY, metavar="URL", show_default=False)] = None,
    registry_user: Annotated[str | None, typer.Option(help=_USER, metavar="NAME", show_default=False)] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help=_SET, metavar="KEY=VALUE", show_default=False)
    ] = None,
    interactive: Annotated[
        bool, typer.Option("--interactive", "-i", help="Prompt for the name, the connectors and the format.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write a commented spec to start from. Existing files are never overwritten.

    The spec is complete: it reads addresses from environment variables, which its first lines name, and `eos validate`
    accepts it. Change topics, columns and table to yours. `eos connectors` lists sources, sinks and formats. If a
    plugin has no template, the required keys are written with empty values.

    Exit code: 0; 2 if the file exists or cannot be written, or an option is wrong.

    Examples:

        eos init

        eos init clicks.yaml --name clicks --format string --sink sqlite

        eos init --interactive

        KAFKA=localhost:9092 eos init --from-topic orders --registry http://localhost:8081

        eos init --from-topic orders --set security.sasl.username=me --set 'security.sasl.password=${env:PASSWORD}'
    """
    if from_topic is None and (registry or registry_user):
        raise SpecError("a registry without a topic", remedy="add --from-topic TOPIC")
    if from_topic is not None and form is not None:
        raise SpecError("--from-topic and --format", remedy="give one of them: the records show their format")
    if name is None:
        name = "orders" if from_topic is None else _NOT_IN_NAME.sub("-", from_topic)
    if interactive:
        name = typer.prompt("Name of the pipeline, its topic and its table", default=name, err=True)
        source = _chosen("Source", plugins.SOURCES, source or source_template(None)[0])
        if from_topic is None:
            form = _chosen("Format of a record's value", plugins.FORMATS, form or "json")
        sink = _chosen("Sink", plugins.SINKS, sink or sink_template(None)[0])
    if not _NAME.fullmatch(name):
        message = f"{name!r} is not a valid name for a pipeline, a topic and a table"
        raise SpecError(message, remedy="give letters, digits, - and _, beginning with a letter, at most 60")
    shown = str(file) if str(file).isprintable() else "FILE"
    (begin_name, begin), (end_name, end) = source_template(source), sink_template(sink)
    begin = with_keys(begin, settings or ())
    sampled = None
    if from_topic is not None:
        sampled = look_at(from_topic, name, begin, Registry(registry, registry_user), file.parent)
    files = {file: text(shown, name, form or "json", begin, end, from_topic, sampled)}
    if sampled is not None:
        files |= _beside(file, sampled.files)
    _write(files, made_in=file.parent)
    variables = [each.variable for each in (begin, end) if each.variable]
    if as_json:
        facts = {"ok": True, "file": file, "source": begin_name, "sink": end_name, "variables": variables}
        out.facts({**facts, **({"format": sampled.form, "records": sampled.records} if sampled else {})})
    else:
        if sampled is not None:
            out.say(sampled.report(from_topic or ""))
        first = f"Set {' and '.join(variables)}, then run" if variables else "Run"
        out.show(out.text(f"{file} is written. {first}: eos validate {file}", "bold"))


def _chosen(question: str, group: str, default: str) -> str:
    """Prompt for one of the installed plugins of a group. A single plugin needs no prompt."""
    names = list(plugins.installed(group))
    if len(names) == 1:
        return names[0]
    while True:
        answer = str(typer.prompt(f"{question} ({', '.join(names)})", default=default, err=True)).strip()
        if answer in names:
            return answer
        out.say(f"{answer!r} is not one of {', '.join(names)}")


def _beside(file: Path, others: Mapping[str, str]) -> dict[Path, str]:
    """Return the files beside the spec. A file that exists with this content is left out: pipelines share imports."""
    found = {file.parent / name: content for name, content in others.items()}
    return {each: content for each, content in found.items() if not _has(each, content)}


def _has(file: Path, content: str) -> bool:
    try:
        return file.read_text(encoding="utf-8") == content
    except (OSError, UnicodeError):
        return False


def _write(files: Mapping[Path, str], made_in: Path) -> None:
    """Write all files, or none if one exists. Folders are created inside of `made_in`, if it exists."""
    if existing := next(filter(Path.exists, files), None):
        raise _exists(existing)
    for file, content in files.items():
        try:
            if made_in.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8") as opened:
                opened.write(content)
        except FileExistsError:
            raise _exists(file) from None
        except OSError as error:
            raise SpecError(f"{file}: cannot be written: {error.strerror}", remedy="give another path") from None


def _exists(file: Path) -> SpecError:
    return SpecError(f"{file} exists already", remedy="give another name, or delete it")


def source_template(name: str | None) -> tuple[str, Template]:
    """Return the name and the template of a source's connector; None: the default one. Raises SpecError."""
    return _template(plugins.SOURCES, name, SourceEntry)


def sink_template(name: str | None) -> tuple[str, Template]:
    """Return the name and the template of a sink's connector; None: the default one. Raises SpecError."""
    return _template(plugins.SINKS, name, SinkEntry)


def _template(group: str, name: str | None, base: type[E]) -> tuple[str, Template]:
    if name is not None:
        model = plugins.load(group, name, base)
        return name, model.template or _generated(name, model)
    for each, brought in plugins.installed(group).items():
        if len(brought) == 1 and brought[0].is_built_in:
            found = plugins.load(group, each, base).template
            if found is not None and found.is_default:
                return each, found
    raise SpecError(f"no {plugins.GROUPS[group]} can be the default", remedy="name one: `eos connectors` lists them")


def _generated(name: str, model: type[Entry]) -> Template:
    """Return a template with the required keys of an entry. The connector brings no template."""
    lines = [f"    connector: {name}"]
    for field_name, field in model.model_fields.items():
        key = field.alias or field_name
        if field.is_required() and key not in ("name", "connector", "from"):
            value = next(iter(model.choices_of(field_name)), '""')
            meaning = " ".join((field.description or "").split()).partition(". ")[0].rstrip(".")
            lines.append(f"    {key}: {value}" + (f"  # {meaning[:_MEANING]}" if meaning else ""))
    return Template(title=name, variable="", example="", entry="\n".join(lines), columns="*")


def text(
    file: str,
    name: str,
    form: str,
    source: Template,
    sink: Template,
    topic: str | None = None,
    sampled: Sampled | None = None,
) -> str:
    """Return the spec as text. Raises SpecError.

    Args:
        file: under which it will be stored, for the commands in its comment.
        name: of the pipeline, its topic and its table: letters, digits, `-` and `_`.
        form: the format of the records' values.
        source: where the records come from.
        sink: where the rows go.
        topic: another name of the topic.
        sampled: the format and the columns of its records; None: as in the template of `form`.
    """
    chosen = plugins.load(plugins.FORMATS, form, FormatEntry)
    values = {
        "source_entry": source.entry.rstrip("\n"),
        "sink_entry": sink.entry.rstrip("\n"),
        "name": name,
        "file": file,
        "source": source.title,
        "sink": sink.title,
        "exports": "".join(f"#   export {each.variable}={each.example}\n" for each in (source, sink) if each.variable),
        "before": "".join(f"#   {each}\n" for each in (source.before, sink.before) if each),
        "columns": sampled.columns if sampled else source.columns or chosen.template_columns,
        "format": sampled.yaml if sampled else chosen.template or f"{{type: {form}}}",
        "topic": topic or name,
        "table": name.replace("-", "_"),
    }
    written = _TEXT
    for key, value in values.items():  # the entries first: they have such marks, too
        written = written.replace(f"<{key}>", value)
    return written.replace(": \n", ":\n")


def schema(debug: Debug = False) -> None:
    """Print the JSON Schema of a spec, for completion and checks in an editor.

    An editor with the YAML language server uses it if the spec begins with this line:

        # yaml-language-server: $schema=./eos.schema.json

    The schema covers keys, values and types. Only `eos validate` checks what goes beyond one value: duplicate names,
    steps that read from each other, the values of `${…}`.

    Exit code: 0.

    Examples:

        eos schema > eos.schema.json
    """
    with out.kept():
        found = json_schema()
    out.facts(found)
