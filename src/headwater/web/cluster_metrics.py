"""The figures of a cluster for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from headwater.cluster.status import ClusterStatus


class ClusterCollector(Collector):
    """Members, partitions, buffers and who leads, as of one look."""

    def __init__(self, status: ClusterStatus) -> None:
        self._status = status

    def collect(self) -> Iterator[GaugeMetricFamily]:
        status = self._status
        members = GaugeMetricFamily("headwater_cluster_members", "Processes by role.", labels=["role"])
        roles = [one.role for one in status.members]
        for role in sorted(set(roles)):
            members.add_metric([role], roles.count(role))
        yield members
        led = float(status.leader is not None)
        yield GaugeMetricFamily("headwater_cluster_led", "1 while a controller leads.", value=led)
        held = GaugeMetricFamily("headwater_cluster_partitions", "Partitions held.", labels=["member"])
        for name, partitions in sorted(status.partitions.items()):
            held.add_metric([name], len(partitions))
        yield held
        yield GaugeMetricFamily("headwater_cluster_partitions_unheld", "Held by nobody.", value=status.unheld)
        waiting = GaugeMetricFamily("headwater_cluster_waiting", "Things that wait, by buffer.", labels=["buffer"])
        for name, count in sorted(status.buffers.items()):
            waiting.add_metric([name], count)
        yield waiting
        done = GaugeMetricFamily("headwater_cluster_done", "Since each started.", labels=["member", "what"])
        for one in status.members:
            for what, count in sorted(one.counts.items()):
                done.add_metric([one.name, what], count)
        yield done
        away = GaugeMetricFamily(
            "headwater_cluster_network_away", "1 while a member reaches no server at all.", labels=["member"]
        )
        for one in status.members:
            if one.role in ("terminal", "node"):
                away.add_metric([one.name], float(one.away_since is not None))
        yield away
        aside = status.put_aside
        yield GaugeMetricFamily("headwater_cluster_put_aside", "Messages nobody could deal with.", value=aside)
