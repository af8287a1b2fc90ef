"""The demo lists the backlog of a cluster that does not come to rest, and keeps its logs."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster_in_process import streams_at

from headwater.cluster.demo.audit import RunAudit
from headwater.cluster.demo.demo import DemoPlan, _keep_logs, _make_verdict, _wait_until_idle
from headwater.cluster.demo.servers import NatsServer, nats_server
from headwater.cluster.transport.nats_streams import STORER_CONSUMER, StreamBacklog, list_backlog
from headwater.errors import ClusterError
from headwater.store.store import Store

CLEAN = RunAudit(5, 5, 5, 0, 0, 0, 0, 0, 0, 1, 9)


async def test_what_is_left_is_told_by_stream_and_consumer(nats: NatsServer, prefix: str) -> None:
    async with streams_at(nats.url, prefix, "us") as streams:
        assert await list_backlog(streams) == []
        for subject in ("jobs.7.1", "jobs.7.2", "jobs.255.3", "res.7", "res.7", "res.7"):
            await streams.context.publish(streams.full_subject(subject), b"something")
        storer = await streams.context.pull_subscribe_bind(STORER_CONSUMER, streams.stream_name("RESULTS"))
        first, *_ = await storer.fetch(3)
        await first.nak()
        [_] = await storer.fetch(1)
        await streams.context.publish(streams.full_subject("res.7"), b"something")
        assert await list_backlog(streams) == [
            StreamBacklog("JOBS", None, 3),
            StreamBacklog("JOBS", "p007", 0, pending=2),
            StreamBacklog("JOBS", "p255", 0, pending=1),
            StreamBacklog("RESULTS", None, 4),
            StreamBacklog("RESULTS", STORER_CONSUMER, 0, pending=1, ack_pending=3, redelivered=1),
        ]


async def test_a_run_that_does_not_come_to_rest_says_what_is_left_and_where_the_logs_are(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.cluster.demo.demo.MAX_WAIT", 1.5)
    with nats_server(tmp_path) as broker:
        async with streams_at(broker.url, "", "us") as streams:
            await streams.context.publish("res.7", b"that no storer takes")
            what = await _wait_until_idle(store, broker)
    assert [str(one) for one in what] == [
        "RESULTS: 1 messages",
        "RESULTS storers: 1 pending, 0 ack pending, 0 redelivered",
    ]
    verdict = _make_verdict(CLEAN, what, 3, 9.0, tmp_path / "logs")
    assert not verdict.ok
    assert "RESULTS storers: 1 pending" in verdict.sentence
    assert verdict.sentence.endswith(f"Logs: {tmp_path / 'logs'}.")
    assert _make_verdict(CLEAN, (), 3, 9.0, None).ok


def test_logs_are_kept_with_those_of_the_servers(tmp_path: Path) -> None:
    plan, folder = DemoPlan(1, False, 5.0, 1, 1, tmp_path / "a" / "b"), tmp_path / "run"
    (folder / "nats").mkdir(parents=True)
    (folder / "nats" / "nats.log").write_text("NATS has said this")
    with _keep_logs(plan, folder) as logs:
        (logs / "storer.log").write_text("a storer has said this")
    assert (tmp_path / "a" / "b" / "storer.log").read_text() == "a storer has said this"
    assert (tmp_path / "a" / "b" / "nats.log").read_text() == "NATS has said this"


def test_a_place_for_logs_that_is_no_folder_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ClusterError, match="The logs cannot be kept in"),
        _keep_logs(DemoPlan(1, False, 5.0, 1, 1, tmp_path / "file"), tmp_path),
    ):
        pass
