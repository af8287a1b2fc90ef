"""Grants partitions to a terminal, in the database's transaction of the caller."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from sqlalchemy import Connection

from headwater.cluster.leases import partitions
from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.transport.wire_messages import Grant, MemberReport
from headwater.store import cluster_leases

read_report = msgspec.json.Decoder(MemberReport).decode


def renew_partitions(
    connection: Connection, report: MemberReport, drained: Mapping[int, int], timing: LeaseTiming
) -> Grant:
    """Record the heartbeat of a terminal and grant it its share of the partitions."""
    now = cluster_leases.record_heartbeat(connection, report.name, report.role, encode_report(report))
    others = [one for one in cluster_leases.list_members(connection, timing.lease) if one.role in (report.role, "node")]
    well = [one for one in others if read_report(one.info).away_since is None]
    if well and report.away_since is not None:  # it reaches no server, and others do
        share = partitions.keep_partitions(connection, report.name, report.keep, drained, timing.lease)
    else:
        share = partitions.share_partitions(connection, report.name, len(well or others), drained, timing.lease)
    leading = cluster_leases.list_leases(connection, "controller")
    epoch = leading[0].epoch if leading else 0
    return Grant(share.partitions, share.surplus, timing.lease, epoch, now, lacking=share.lacking)


def leave_cluster(connection: Connection, name: str, held: Mapping[int, int]) -> None:
    """Release the partitions of a terminal, and remove it from the members."""
    partitions.release_partitions(connection, name, held)
    cluster_leases.remove_member(connection, name)


def encode_report(report: MemberReport) -> str:
    return msgspec.json.encode(report).decode()
