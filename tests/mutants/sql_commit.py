"""Two-phase commit in a database: commits, look-ups of unknown outcomes, and what MariaDB forgets (R7)."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_COMMITTER: Final = "connectors/sql/two_phase/committer.py"
_COMMITTING: Final = "connectors/sql/two_phase/committing.py"
_MYSQL: Final = "connectors/sql/mysql/"
_TESTS: Final = "tests/connectors/sql/test_commit_played.py::"
_PARALLEL: Final = "integration_tests/test_parallel_commits.py::"
_LOOKED_UP: Final = (f"{_TESTS}test_an_unknown_outcome_is_looked_up",)
_MARIADB: Final = (f"{_TESTS}test_h24_mariadb_s_word_for_a_commit_is_checked",)
_REMINDED: Final = (f"{_TESTS}test_h24_a_name_is_given_back_only_to_what_mariadb_holds",)

MUTANTS: Final = (
    Mutant(
        name="a database's commit with an unknown outcome is taken for done",
        rule="R7",
        path=_COMMITTER,
        before="            said = {each for each, answer in answers.items() if answer is None}",
        after="            said = {*answers}",
        caught_by=_LOOKED_UP,
    ),
    Mutant(
        name="an outcome is looked up on the connection that was lost",
        rule="R7",
        path=_COMMITTING,
        before="            connection.close()  # the last commit may or may not have landed: a look-up on another connection decides",
        after="            pass",
        caught_by=_LOOKED_UP,
    ),
    Mutant(
        name="an error that leaves a prepared transaction in doubt stops the commit",
        rule="R7",
        path=_COMMITTING,
        before="(answer.disconnected or answer.in_doubt or answer.lock_wait or answer.rolled_back):",
        after="(answer.disconnected or answer.lock_wait or answer.rolled_back):",
        caught_by=_LOOKED_UP,
    ),
    Mutant(
        name="an error that says nothing of the transaction is looked up as an unknown outcome",
        rule="R7",
        path=_COMMITTER,
        before="            for each in asked:\n                check_known(answers.get(each))\n",
        after="",
        caught_by=(f"{_TESTS}test_an_error_that_says_nothing_of_the_transaction_stops_the_commit",),
    ),
    Mutant(
        name="a commit that is sent behind an error counts as committed",
        rule="R7",
        path=_COMMITTING,
        before="        answers |= zip(left, found, strict=False)",
        after="        answers |= zip(left, [*found, *[None] * len(left)], strict=False)",
        caught_by=(f"{_PARALLEL}test_one_connection_is_cut_in_the_middle",),
    ),
    Mutant(
        name="an error of the first of several commits is taken for the answer to all",
        rule="R7",
        path=_COMMITTING,
        before="        left = left[len(found) :]",
        after="        left = left[_BATCH:]",
        caught_by=(f"{_TESTS}test_of_several_that_are_sent_in_one_piece_one_is_unknown",),
    ),
    Mutant(
        name="the share of a connection that cannot be opened waits",
        rule="docs/reference/sinks.md, Connections",
        path=_COMMITTING,
        before="        return {**answers, **_commit_on(own, [each for each in transactions if each not in answers])}",
        after="        return answers",
        caught_by=(
            f"{_PARALLEL}test_a_database_of_postgresql_without_room_gets_all_commits_over_the_connections_that_there_are",
        ),
    ),
    Mutant(
        name="a connection whose commit was not answered commits on",
        rule="R7",
        path=_COMMITTING,
        before="        if stops(last):\n            break\n",
        after="",
        caught_by=(f"{_TESTS}test_behind_a_commit_that_waited_for_a_lock_none_waits",),
    ),
    Mutant(
        name="connections for commits stay open",
        rule="docs/reference/sinks.md, Connections",
        path=_COMMITTING,
        before="                self._closing.start()",
        after="                pass",
        caught_by=(f"{_PARALLEL}test_connections_are_closed_when_nothing_is_committed",),
    ),
    Mutant(
        name="a commit that MySQL has not run behind an error counts as done",
        rule="R7",
        path=f"{_MYSQL}engine.py",
        before="            return [*[None] * done, of_driver(error)][: len(statements)]",
        after="            return [*[None] * done, of_driver(error), *[None] * len(statements)][: len(statements)]",
        caught_by=(f"{_TESTS}test_of_several_that_are_sent_in_one_piece_the_connection_is_lost",),
    ),
    Mutant(
        name="a commit that PostgreSQL has not answered counts as done",
        rule="R7",
        path="connectors/sql/postgres/engine.py",
        before="            answers.append(server_error(error, closed=self.driver.closed))\n",
        after="            answers += [None] * len(statements)\n",
        caught_by=(f"{_TESTS}test_of_several_that_are_sent_in_one_piece_the_connection_is_lost",),
    ),
    Mutant(
        name="several commits at PostgreSQL are one transaction",
        rule="R7",
        path="connectors/sql/postgres/pipeline.py",
        before="        pgconn.pipeline_sync()  # ends the transaction: otherwise one would hold all statements\n",
        after="        if statement == statements[-1]:\n            for _ in statements:\n                pgconn.pipeline_sync()\n",
        caught_by=(
            f"{_PARALLEL}test_a_transaction_that_may_not_be_committed_stops_the_checkpoint_and_the_others_are_committed_once",
        ),
    ),
    Mutant(
        name="a transaction that the server still lists is taken for lost without a look at its name",
        rule="R7",
        path=_COMMITTER,
        before="            if each in still\n            else self._by_witness(server, each)",
        after="            if False\n            else self._by_witness(server, each)",
        caught_by=_LOOKED_UP,
    ),
    Mutant(
        name="a transaction is lost without a second listing",
        rule="H4",
        path=_COMMITTER,
        before="        if CommitOutcome.LOST in found.values():",
        after="        if False:",
        caught_by=_LOOKED_UP,
    ),
    Mutant(
        name="a transaction without a witness counts as committed",
        rule="R7",
        path=_COMMITTER,
        before="return CommitOutcome.ALREADY_COMMITTED if stands else CommitOutcome.LOST",
        after="return CommitOutcome.ALREADY_COMMITTED",
        caught_by=_LOOKED_UP,
    ),
    Mutant(
        name="a commit under way, which holds the witness, is taken for lost",
        rule="H4",
        path=_COMMITTER,
        before="        if stands is None:\n            if _is_written_again",
        after="        if stands is None and False:\n            if _is_written_again",
        caught_by=_LOOKED_UP,
    ),
    Mutant(
        name="a witness that somebody holds fails the look-up",
        rule="H4",
        path="connectors/sql/tables.py",
        before="    except StatementError as error:\n        if not error.lock_wait:\n            raise\n        return None",
        after="    except StatementError:\n        raise",
        caught_by=_LOOKED_UP,
    ),
    Mutant(
        name="a witness is looked up by a plain read",
        rule="R7",
        path="connectors/sql/tables.py",
        before='    statement = f"SELECT 1 FROM eos_witness WHERE {_WITNESS_KEY} {server.for_share}"',
        after='    statement = f"SELECT 1 FROM eos_witness WHERE {_WITNESS_KEY}"',
        caught_by=_LOOKED_UP,
    ),
    Mutant(
        name="a repair under way is not told from a commit under way",
        rule="R7",
        path=_COMMITTER,
        before="            if _is_written_again(server, transaction):\n                return CommitOutcome.LOST\n",
        after="",
        caught_by=(f"{_TESTS}test_a_repair_under_way_holds_what_it_took_for_lost",),
    ),
    Mutant(
        name="any transaction of a newer epoch is taken for a repair of this one",
        rule="R7",
        path=_COMMITTER,
        before="    same = (mine.incarnation, mine.checkpoint_id, found.sink, found.task)\n"
        "    return same == (then.incarnation, then.checkpoint_id, lost.sink, lost.task) and mine.epoch > then.epoch",
        after="    return mine.epoch > then.epoch",
        caught_by=(f"{_TESTS}test_a_repair_under_way_holds_what_it_took_for_lost",),
    ),
    Mutant(
        name="MariaDB's word for a commit is believed",
        rule="H24",
        path=f"{_MYSQL}server.py",
        before="        return set(committed) - tables.visible_witnesses(self, committed)",
        after="        return ()",
        caught_by=_MARIADB,
    ),
    Mutant(
        name="MariaDB is not reminded of a branch that it has forgotten",
        rule="H24",
        path=f"{_MYSQL}server.py",
        before="            _remind(self, self._url, transaction)",
        after="            return",
        caught_by=_MARIADB,
    ),
    Mutant(
        name="MariaDB is given a name back for what is committed",
        rule="H24",
        path=f"{_MYSQL}server.py",
        before="        if stands is None and any(",
        after="        if any(",
        caught_by=_REMINDED,
    ),
    Mutant(
        name="MariaDB is given a name back that leads to nothing",
        rule="H24",
        path=f"{_MYSQL}server.py",
        before="        if stands is None and any(number == DUPLICATE_KEY for number, _ in second.warnings()):",
        after="        if stands is None:",
        caught_by=_REMINDED,
    ),
    Mutant(
        name="the witnesses of branches that MariaDB forgot are read after they are committed only",
        rule="H24",
        path=f"{_MYSQL}server.py",
        before='    session.execute("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")  # of the next statement\n',
        after="",
        caught_by=(f"{_TESTS}test_h24_branches_that_mariadb_has_forgotten_are_in_the_list",),
    ),
    Mutant(
        name="what is committed while MariaDB is asked for what it forgot counts as forgotten",
        rule="H24",
        path=f"{_MYSQL}server.py",
        before="    return written - listed - tables.witnesses(session, incarnation, sink, checkpoint_id)",
        after="    return written - listed",
        caught_by=(f"{_TESTS}test_h24_branches_that_mariadb_has_forgotten_are_in_the_list",),
    ),
    Mutant(
        name="branches that MariaDB forgot are in no list",
        rule="H24",
        path=_COMMITTER,
        before='            return [*ours, *(Prepared(each, f"{each} (not listed)") for each in forgotten if each not in known)]',
        after="            return ours",
        caught_by=(f"{_TESTS}test_h24_branches_that_mariadb_has_forgotten_are_in_the_list",),
    ),
)
