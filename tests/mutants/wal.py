"""Segments of the write-ahead log, and the folder that they wait in."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        name="a segment is acknowledged before its bytes are synced",
        rule="R5",
        path="wal/local.py",
        before="""            file.sync()
            file.close()
""",
        after="""            file.close()
""",
        caught_by=("tests/project/test_power_cut.py::test_a_segment_of_the_log",),
    ),
    Mutant(
        name="a segment is acknowledged before its name is synced",
        rule="R5",
        path="wal/local.py",
        before="""            self._files.sync_folder(self._target.parent)
        except FileExistsError""",
        after="""            pass
        except FileExistsError""",
        caught_by=("tests/project/test_power_cut.py::test_a_segment_of_the_log",),
    ),
    Mutant(
        name="a segment gets its name before its bytes are synced",
        rule="R5",
        path="wal/local.py",
        before="""            file.sync()
            file.close()
            self._files.link(self._partial, self._target)
""",
        after="""            self._files.link(self._partial, self._target)
            file.sync()
            file.close()
""",
        caught_by=("tests/wal/test_crash.py::test_every_call_may_fail_and_the_power_may_go",),
    ),
    Mutant(
        name="a log on a network filesystem is taken",
        rule="H21",
        path="wal/local.py",
        before="""        if files is None:
            refuse_network_filesystem(folder)
""",
        after="",
        caught_by=("tests/wal/test_storage.py::test_h21_a_log_on_a_network_filesystem_is_refused",),
    ),
    Mutant(
        name="what is unfinished is listed as a segment",
        rule="R5",
        path="wal/local.py",
        before='for entry in self._list(folder) if not entry.startswith("."))',
        after="for entry in self._list(folder))",
        caught_by=("tests/wal/test_contract.py::TestStorage::test_an_object_appears_whole_when_published",),
    ),
    Mutant(
        name="a sweep ends the writers of all segments of a folder",
        rule="R5",
        path="wal/storage.py",
        before="""            if match and match["name"] in of_folder:
""",
        after="""            if match and of_folder:
""",
        caught_by=("tests/wal/test_storage.py::test_a_sweep_spares_names_that_only_begin_alike",),
    ),
    Mutant(
        name="a folder that cannot be listed is taken for an empty one",
        rule="R7",
        path="wal/local.py",
        before="""        except OSError as error:
            raise _failed("list", path, error) from error
""",
        after="""        except OSError:
            return ()
""",
        caught_by=("tests/wal/test_storage.py::test_an_unusable_folder_is_one_clear_error",),
    ),
    Mutant(
        name="a segment is written over one of the same name",
        rule="H8",
        path="wal/local.py",
        before="""        os.link(source, target)
""",
        after="""        os.replace(source, target)
""",
        caught_by=("tests/wal/test_contract.py::TestStorage::test_no_object_is_written_twice",),
    ),
    Mutant(
        name="a sync returns before Python has written its buffer",
        rule="R5",
        path="wal/local.py",
        before="""        self._file.flush()
        os.fsync""",
        after="        os.fsync",
        caught_by=("tests/project/test_power_cut.py::test_a_segment_of_the_log",),
    ),
    Mutant(
        name="a link to a network filesystem is not followed",
        rule="H21",
        path="wal/filesystem.py",
        before="""    place = path.resolve()
""",
        after="""    place = path.absolute()
""",
        caught_by=("tests/wal/test_storage.py::test_symbolic_links_are_followed",),
    ),
    Mutant(
        name="of two mounts on one point the hidden one counts",
        rule="H21",
        path="wal/filesystem.py",
        before="len(mount.parts) >= best[0]",
        after="len(mount.parts) > best[0]",
        caught_by=("tests/wal/test_storage.py::test_the_filesystem_of_a_path",),
    ),
    Mutant(
        name="NFS 4 is taken for a local disk",
        rule="H21",
        path="wal/filesystem.py",
        before="ncp(fs)?|nfs4?|",
        after="ncp(fs)?|nfs|",
        caught_by=("tests/wal/test_storage.py::test_network_filesystems",),
    ),
    Mutant(
        name="the mount above a path counts, and not the nearest one",
        rule="H21",
        path="wal/filesystem.py",
        before="len(mount.parts) >= best[0]",
        after="len(mount.parts) <= best[0]",
        caught_by=("tests/wal/test_storage.py::test_symbolic_links_are_followed",),
    ),
    Mutant(
        name="a footer that is damaged is believed",
        rule="R5",
        path="wal/segment.py",
        before="""    if zlib.crc32(text) != crc:
""",
        after="""    if not text:
""",
        caught_by=("tests/wal/test_segment.py::test_a_number_in_the_footer_is_damage",),
    ),
    Mutant(
        name="bytes between the rows and the footer are not noticed",
        rule="R5",
        path="wal/segment.py",
        before="""    if footer.content_bytes != start:
""",
        after="""    if footer.content_bytes > start:
""",
        caught_by=("tests/wal/test_segment.py::test_bytes_between_rows_and_footer_are_damage",),
    ),
    Mutant(
        name="a segment of a newer format is read",
        rule="docs/explanation/protocol.md, Formats",
        path="wal/segment.py",
        before="""        if fields["format"] != FORMAT:
""",
        after="""        if not fields["format"]:
""",
        caught_by=("tests/wal/test_segment.py::test_a_newer_format_is_refused_as_such",),
    ),
    Mutant(
        name="a segment of another layout is called damaged",
        rule="docs/explanation/protocol.md, Formats",
        path="wal/segment.py",
        before="""    if begin.startswith(_NAME) and begin != MAGIC:
""",
        after="""    if begin.startswith(MAGIC) and begin != MAGIC:
""",
        caught_by=(
            "tests/wal/test_segment.py::test_the_layout_of_another_version_is_refused_as_that_and_not_as_damage",
        ),
    ),
    Mutant(
        name="another whole segment is taken for the acknowledged one",
        rule="H8",
        path="wal/segment.py",
        before="""        if (footer.rows, footer.content_bytes, footer.sha256) != (ref.rows, ref.bytes, ref.sha256):
""",
        after="""        if footer.rows != ref.rows:
""",
        caught_by=("tests/wal/test_segment.py::test_another_whole_segment_is_not_taken_for_it",),
    ),
    Mutant(
        name="rows that are damaged are given out",
        rule="R5",
        path="wal/segment.py",
        before="""        _verify_content(file, footer, place)
""",
        after="",
        caught_by=("tests/wal/test_segment.py::test_a_byte_of_a_value_is_damage",),
    ),
    Mutant(
        name="a writer goes on behind bytes that were lost",
        rule="R5",
        path="wal/segment.py",
        before="""            self._failure = error
            raise
""",
        after="""            raise
""",
        caught_by=("tests/wal/test_segment.py::test_a_writer_that_lost_bytes_cannot_seal",),
    ),
    Mutant(
        name="a missing segment is an outage",
        rule="R7",
        path="wal/segment.py",
        before="""    except ObjectMissingError as error:
        message = f"segment {_place(storage, name)} is missing"
""",
        after="""    except MemoryError as error:
        message = f"segment {_place(storage, name)} is missing"
""",
        caught_by=("tests/wal/test_segment.py::test_a_missing_segment_is_named",),
    ),
    Mutant(
        name="the name of a segment may leave the log's folder",
        rule="R5",
        path="wal/storage.py",
        before="_NAME.fullmatch(name) is None",
        after="_NAME.match(name) is None",
        caught_by=("tests/wal/test_contract.py::TestStorage::test_a_bad_name_is_refused_by_every_call",),
    ),
    Mutant(
        name="a folder that cannot be synced is passed over",
        rule="R5",
        path="wal/durable.py",
        before="""    if errors:
        raise errors[0]
""",
        after="",
        caught_by=("tests/wal/test_durable.py::test_who_cannot_be_synced_is_told",),
    ),
    Mutant(
        name="a log on another machine's disk is taken for the driver's",
        rule="R5",
        path="connectors/log/place.py",
        before="""        return self.place.exists() and Sight.of(self.place) == self
""",
        after="""        return self.place.exists()
""",
        caught_by=("tests/connectors/log/test_place.py::test_a_folder_of_the_same_name_on_another_machine_is_refused",),
    ),
    Mutant(
        name="the driver sends tasks no sight of its log",
        rule="R5",
        path="connectors/log/place.py",
        before="return self if isinstance(self.at, ObjectAddress) else replace(self, seen=Sight.of(_existing(self.at)))",
        after="return self",
        caught_by=(
            "tests/connectors/log/test_place.py::test_a_folder_that_is_not_there_yet_is_known_by_the_one_above_it",
        ),
    ),
)
