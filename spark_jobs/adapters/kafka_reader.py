"""The reader of `eos_kafka`: as that of a pipeline's source, in a query where sources have no names."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from eos.errors import IdentityError, OffsetOutOfRangeError
from spark_jobs.adapters.kafka_start import FORMAT, Begun
from spark_jobs.query.pacing.turns import Turns
from spark_jobs.query.source import SourceReader
from spark_jobs.query.source_offset import SourceOffset, topic_of

if TYPE_CHECKING:
    from connectors.api.contracts import Source
    from connectors.kafka.source import KafkaSource


class KafkaQueryReader(SourceReader):
    """Its offsets carry the id that is kept at `location`."""

    def __init__(self, source: KafkaSource, begun: Begun, turns: Turns) -> None:
        super().__init__(cast("Source", source), begun.point, turns, token="")
        self._name, self._location, self._reads = begun.source_id, begun.location, source.reads

    def _check_own(self, offset: SourceOffset) -> None:
        """See SourceReader. Offsets of before there were ids are taken where they are of this source's topics."""
        for topic, identity in offset.began.identities.items():
            if self._began.identities.get(topic, identity) != identity:  # stored since, as it was then
                message = f"topic {topic} was deleted and made again since the query began to read it"
                raise OffsetOutOfRangeError(message, remedy="begin anew, with other folders for it and the checkpoint")
        topics = sorted({topic_of(split) for split in offset.ends})
        if offset.source == self._name or (offset.source == FORMAT and all(map(self._reads, topics))):
            return
        message = (
            f"Spark takes the offsets of another eos_kafka source ({', '.join(topics)}) for those of the one whose "
            f"first offsets are at {self._location}"
        )
        remedy = (
            "the query names its sources in another order than before: change it back; where the folder was lost or "
            "exchanged, restore it from a backup; or begin anew, with other folders for it and the query's checkpoint"
        )
        raise IdentityError(message, remedy=remedy)
