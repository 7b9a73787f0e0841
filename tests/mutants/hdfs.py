"""A register and a storage in HDFS: one rename, which compares and replaces."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_STORE: Final = "integration_tests/test_hdfs_store.py::"

MUTANTS: Final = (
    Mutant(
        name="a swap deletes values that a marker may still name",
        rule="H40",
        path="wal/hdfs_objects.py",
        before="""if each["value"] != value and each["number"] <= value[:20]]""",
        after="""if each["value"] != value]""",
        caught_by=(
            "tests/model/test_register.py::test_no_value_is_lost_and_each_driver_is_right_about_its_swap",
            f"{_STORE}test_what_killed_drivers_have_left_is_deleted_by_the_next",
        ),
    ),
    Mutant(
        name="a swap replaces the value that it finds",
        rule="H40",
        path="wal/hdfs_objects.py",
        before="""rename(f"{name}/current-{expected.e_tag}", f""",
        after="""rename(f"{name}/current-{self._marker(name)}", f""",
        caught_by=(f"{_STORE}test_the_doctor_proves_the_promises_and_leaves_nothing",),
    ),
    Mutant(
        name="a segment in HDFS is renamed over another one",
        rule="H20",
        path="wal/hdfs_storage.py",
        before="""            self._client.rename(partial, name)
""",
        after="""            self._client.rename(partial, name, overwrite=True)
""",
        caught_by=(f"{_STORE}TestStorage::test_no_object_is_written_twice",),
    ),
    Mutant(
        name="a publish without an answer is not looked up in HDFS",
        rule="H20",
        path="wal/hdfs_storage.py",
        before="""            if not error.retriable or not holds_in_doubt(self, name, content, error):
""",
        after="""            if error:
""",
        caught_by=(f"{_STORE}test_a_publish_without_an_answer_is_looked_up",),
    ),
)
