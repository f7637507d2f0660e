"""`llmstream map`: one request to a model for each row of a file.

`rows.py` reads the input, `estimate.py` counts it, `progress.py` shows the progress; the run itself is
`llmstream/mapping`.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from llmstream.batches.apis import api_of
from llmstream.cli.arguments import REASONING_HELP, count, decimal, effort, natural, read_schema, shard
from llmstream.cli.config import MODEL_HELP, checked_model, default_model
from llmstream.cli.errors import SUCCESS
from llmstream.cli.keys import api_key_for
from llmstream.cli.map.job import Job, execute
from llmstream.cli.map.progress import Survey, amount, answer_tokens, estimate_lines, surveyed
from llmstream.cli.map.rows import FORMATS, Source
from llmstream.cli.terminal import print_message, typed
from llmstream.errors import InvalidRequest
from llmstream.mapping.row import Template
from llmstream.streams.model import Model

__all__ = ["configure", "run"]

_CONCURRENCY: Final = 100
# Dollars above which a terminal is asked before the first request.
_ASKED_ABOVE: Final = 1.0

_EPILOG: Final = """\
INPUT has one row on each line: JSON lines (.jsonl), CSV (.csv, .tsv), or lines of text; - is standard
input. {{column}} in the prompt stands for a column of the row, {{text}} for a line of text; single
braces are plain text. Without --prompt, the column "prompt" or "messages" is the prompt.

Each output line has the row's columns, the column "answer", and below "llmstream" tokens, cost and
error. The output is the checkpoint: run the same command again, and it continues where it stopped,
after Ctrl-C, a crash or a full disk. A row that fails is a line with its error; --retry-failed
sends those again. Rate limits fail no row: requests wait, and fewer are sent at once. At the end
the lines are sorted by row.

exit status: 0 all rows answered, 2 usage error, 3 some rows failed, 75 paused (--max-cost, a used-up
quota, a full disk), 130 interrupted (Ctrl-C), 141 the reader of the pipe closed it

examples:
  llmstream map cities.txt -m sim:demo --prompt "Where is {{text}}?"    no key, no network
  llmstream map a.csv -o b.csv --prompt "Rate: {{review}}" --schema "score int"
  llmstream map a.jsonl -m anthropic:claude-haiku-4-5 -o b.jsonl --dry-run
  llmstream map a.jsonl -m anthropic:claude-haiku-4-5 -o b.jsonl --max-cost 20
  llmstream map a.jsonl -m anthropic:claude-haiku-4-5 -o b.jsonl --batch
  llmstream map a.jsonl -m sim:demo -o b.3.jsonl --shard 3/16           on each of 16 machines
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("input", metavar="INPUT", help="file of rows; - is standard input")
    add("-m", "--model", metavar="PROVIDER:MODEL", help=MODEL_HELP)
    add(
        "-o",
        "--output",
        metavar="FILE",
        help="JSON lines, or CSV if it ends in .csv (default: standard output)",
    )
    add("--prompt", metavar="TEMPLATE", help="prompt of each row, with {{column}}")
    add("--prompt-file", metavar="FILE", help="file with that template")
    add("--format", choices=FORMATS, help="format of INPUT (default: by its name)")
    add("--limit", type=count, metavar="N", help="only the first N rows, to try it")
    _add_request_options(parser)
    _add_run_options(parser)


def _add_request_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-s", "--system", metavar="TEXT", help="system prompt")
    add("--schema", metavar="SCHEMA", help="structured answers: a JSON schema's file, or 'name, age int'")
    add("--max-tokens", metavar="N", type=count, help="maximum length of an answer, in tokens")
    add("--temperature", metavar="T", type=decimal, help="sampling temperature")
    add("--reasoning", metavar="EFFORT", type=effort, help=REASONING_HELP)
    add("--base-url", metavar="URL", help="base URL of the API, in place of the provider's")
    add(
        "--fallback",
        metavar="PROVIDER:MODEL",
        action="append",
        default=[],
        help="model to ask where the first fails; repeatable",
    )
    add("--retries", metavar="N", type=natural, default=2, help="retries of a failed request (default: 2)")


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-c",
        "--concurrency",
        metavar="N",
        type=count,
        default=_CONCURRENCY,
        help=f"most requests at once (default: {_CONCURRENCY}); it begins with 8 and follows the limits",
    )
    add("--rpm", metavar="N", type=count, help="most requests per minute")
    add("--tpm", metavar="N", type=count, help="most tokens per minute")
    add("--max-cost", metavar="DOLLARS", type=decimal, help="start no more requests at this cost")
    add("--batch", action="store_true", help="by the vendor's batch API: half the price, within a day")
    add(
        "--finish-online",
        action="store_true",
        help="with --batch: send what it left out as requests",
    )
    add(
        "--poll",
        metavar="S",
        type=decimal,
        default=60.0,
        help="with --batch: seconds between status requests",
    )
    add("--shard", type=shard, metavar="I/N", help="only every N-th row, from the I-th; one file each")
    add("--dry-run", action="store_true", help="print rows, tokens and cost, and send nothing")
    add("-y", "--yes", action="store_true", help="do not ask for confirmation")
    add("--retry-failed", action="store_true", help="send the failed rows of the output again")
    add("--as-done", dest="ordered", action="store_false", help="leave the lines in the order of the answers")
    add("--no-dedupe", dest="dedupe", action="store_false", help="send the same prompt again for each row")
    add("-q", "--quiet", action="store_true", help="no progress and no summary")
    add("--json", action="store_true", help="summary as JSON on standard output (with -o)")
    add("--no-color", dest="color", action="store_false", help="disable colours (also: NO_COLOR=1)")


def run(arguments: argparse.Namespace) -> int:
    """Sends a request for each row; returns the exit status."""
    source = Source(arguments.input, arguments.format, arguments.limit, arguments.shard)
    schema = read_schema(arguments.schema) if arguments.schema is not None else None
    job = Job(
        source=source,
        spec=_model(arguments),
        template=_template(arguments),
        schema=schema,
        options=_options(arguments, schema),
        arguments=arguments,
    )
    _check_output(arguments)
    _check_batch(arguments, job.spec)
    survey = None
    # Standard input can be read only once, by the run.
    if not source.is_stdin:
        with closing(source.rows()) as rows:
            survey = surveyed(rows, job.prompt_of)
        _check_survey(survey, arguments.input)
    elif arguments.dry_run:
        raise InvalidRequest("--dry-run reads the input to its end; name a file instead of standard input.")
    _check_template(job.template)
    if survey is not None and not _agreed(job, survey):
        return SUCCESS
    Model(job.spec).provider.key(
        api_key_for(job.spec)
    )  # a missing key is reported before the output is opened
    return execute(job, survey)


def _agreed(job: Job, survey: Survey) -> bool:
    """Prints the estimate; asks above a dollar on a terminal; returns whether to continue."""
    arguments = job.arguments
    stored = job.stored_rows()
    answer = answer_tokens(arguments.max_tokens)
    share = max(0, survey.rows - stored) / max(1, survey.rows)
    cost = survey.cost(job.price(), job.spec, share=share, overhead=job.overhead, answer=answer)
    if cost is not None and arguments.batch:
        cost *= job.batch_api().price_share
    lines = estimate_lines(survey, job.spec, stored=stored, overhead=job.overhead, answer=answer, cost=cost)
    if arguments.dry_run:
        print("\n".join(lines), flush=True)
        return False
    asked = not arguments.yes and sys.stdin.isatty() and sys.stderr.isatty()
    if cost is None or cost <= _ASKED_ABOVE or not asked:
        if share and not arguments.quiet:
            print_message("; ".join(lines[:-1]))  # without the first prompt
        return True
    print("\n".join(lines), file=sys.stderr)
    print(f"This costs about {amount(cost)}. Continue? [y/N] ", end="", file=sys.stderr, flush=True)
    try:
        typed_line = sys.stdin.readline()
    except KeyboardInterrupt:
        print(file=sys.stderr)  # ends the line of the question
        raise
    if typed_line.strip().lower() in ("y", "yes"):
        return True
    print_message("nothing was sent")
    return False


def _model(arguments: argparse.Namespace) -> str:
    spec = arguments.model or default_model()
    if not spec:
        raise InvalidRequest(
            "no model given. Pass -m provider:model, or choose one with `llmstream models default`. "
            "-m sim:demo needs no key."
        )
    for other in arguments.fallback:
        checked_model(other)
    return checked_model(spec)


def _template(arguments: argparse.Namespace) -> str | None:
    if arguments.prompt is not None and arguments.prompt_file is not None:
        raise InvalidRequest("--prompt and --prompt-file are the same option. Pass one of them.")
    if arguments.prompt_file is None:
        return None if arguments.prompt is None else typed(arguments.prompt)
    try:
        return Path(arguments.prompt_file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"cannot read {arguments.prompt_file}: {error}. Check the path.") from None


def _options(arguments: argparse.Namespace, schema: dict[str, Any] | None) -> dict[str, Any]:
    given = {
        "instructions": None if arguments.system is None else typed(arguments.system),
        "output": schema,
        "max_output_tokens": arguments.max_tokens,
        "temperature": arguments.temperature,
        "reasoning": arguments.reasoning,
    }
    return {name: value for name, value in given.items() if value is not None}


def _check_output(arguments: argparse.Namespace) -> None:
    """raises: InvalidRequest for options that contradict each other"""
    output, source = arguments.output, arguments.input
    if output in (None, "-"):
        if arguments.retry_failed:
            raise InvalidRequest("--retry-failed needs -o FILE, the output with the rows that failed.")
        if arguments.json:
            raise InvalidRequest("--json needs -o FILE, because the answers go to standard output.")
    elif (
        source != "-"
        and os.path.exists(output)
        and os.path.exists(source)
        and os.path.samefile(output, source)
    ):
        raise InvalidRequest(f"{output} is the input. Name another output.")


def _check_batch(arguments: argparse.Namespace, spec: str) -> None:
    """raises: InvalidRequest for options that a batch cannot obey; Unsupported for a model without batches"""
    if not arguments.batch:
        if arguments.finish_online:
            raise InvalidRequest("--finish-online needs --batch.")
        return
    if arguments.output in (None, "-"):
        raise InvalidRequest("--batch needs -o FILE: the batch is recorded beside it until it is over.")
    if arguments.max_cost is not None:
        raise InvalidRequest(
            "--max-cost cannot stop a batch, which is billed as a unit. --dry-run shows its cost; "
            "--limit submits fewer rows."
        )
    for name, given in (("fallback", arguments.fallback), ("rpm", arguments.rpm), ("tpm", arguments.tpm)):
        if given:
            raise InvalidRequest(f"--{name} cannot be combined with --batch. Leave it out.")
    api_of(Model(spec).provider)


def _check_template(template: str | None) -> None:
    """raises: InvalidRequest if each row would send the same request"""
    if template is not None and not Template(template).columns:
        raise InvalidRequest(
            "the prompt has no {{column}}, so all requests would be equal. Write {{text}} for a line of text."
        )


def _check_survey(survey: Survey, name: str) -> None:
    """raises: InvalidRequest if there is nothing to ask"""
    if not survey.rows:
        raise InvalidRequest(f"{name} has no rows.")
    if survey.bad == survey.rows:
        raise InvalidRequest(f"{name}: no row can be sent: {survey.problem}")
