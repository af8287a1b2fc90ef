"""Renders the Prometheus metrics, from the store and the node, at every scrape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from headwater.cluster.cluster_status import ClusterStatus
from headwater.node.crawl.crawl_status import CrawlStatus
from headwater.node.quality.promises import PromiseReport
from headwater.node.quality.quality_report import QualityReport
from headwater.store.content.refreshes import ActivitySummary


class ClusterCollector(Collector):
    """Collects members, partitions, buffers and the leader, all of one moment."""

    def __init__(self, status: ClusterStatus) -> None:
        self._status = status

    def collect(self) -> Iterator[GaugeMetricFamily]:
        status = self._status
        members = GaugeMetricFamily("headwater_cluster_members", "Processes of the cluster by role.", labels=["role"])
        roles = [one.role for one in status.members]
        for role in sorted(set(roles)):
            members.add_metric([role], roles.count(role))
        yield members
        led = float(status.leader is not None)
        yield GaugeMetricFamily("headwater_cluster_led", "1 while a controller leads.", value=led)
        held = GaugeMetricFamily("headwater_cluster_partitions", "Partitions that a process holds.", labels=["member"])
        for name, partitions in sorted(status.partitions.items()):
            held.add_metric([name], len(partitions))
        yield held
        yield GaugeMetricFamily(
            "headwater_cluster_partitions_unheld", "Partitions that no process holds.", value=status.unheld
        )
        waiting = GaugeMetricFamily("headwater_cluster_waiting", "Entries that wait, by buffer.", labels=["buffer"])
        for name, count in sorted(status.buffers.items()):
            waiting.add_metric([name], count)
        yield waiting
        done = GaugeMetricFamily(
            "headwater_cluster_done", "Work that a process has done since it started.", labels=["member", "what"]
        )
        for one in status.members:
            for what, count in sorted(one.counts.items()):
                done.add_metric([one.name, what], count)
        yield done
        away = GaugeMetricFamily(
            "headwater_cluster_network_away", "1 while a process reaches no server at all.", labels=["member"]
        )
        for one in status.members:
            if one.role in ("terminal", "node"):
                away.add_metric([one.name], float(one.away_since is not None))
        yield away
        aside = status.put_aside
        yield GaugeMetricFamily(
            "headwater_cluster_put_aside", "Messages that could not be processed and were quarantined.", value=aside
        )


CONTENT_TYPE = CONTENT_TYPE_LATEST


def render_metrics(
    summary: ActivitySummary, status: CrawlStatus, quality: QualityReport | None = None, more: Sequence[Collector] = ()
) -> bytes:
    """Return the metrics as text. Figures of a period are gauges: they cover the present hour and 1 or 24 before it."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_ServerCollector(summary, status))
    if quality is not None:
        registry.register(_QualityCollector(quality))
    for collector in more:
        registry.register(collector)
    return generate_latest(registry)


class _ServerCollector(Collector):
    def __init__(self, summary: ActivitySummary, status: CrawlStatus) -> None:
        self._summary = summary
        self._status = status

    def collect(self) -> Iterator[GaugeMetricFamily]:
        summary, status = self._summary, self._status
        feeds = GaugeMetricFamily("headwater_feeds", "Feeds by state; all is their total.", labels=["state"])
        for state, count in (
            ("all", summary.feeds),
            ("paused", summary.paused),
            ("gone", summary.gone),
            ("failing", summary.failing),
            ("never_refreshed", summary.never_refreshed),
        ):
            feeds.add_metric([state], count)
        yield feeds
        yield GaugeMetricFamily("headwater_items", "Items stored.", value=summary.items)
        for name, period in (("hour", summary.hour), ("day", summary.day)):
            refreshes = GaugeMetricFamily(
                f"headwater_refreshes_{name}", f"Refreshes of the {name} by ending.", labels=["ending"]
            )
            for ending, count in sorted(period.refreshes.items()):
                refreshes.add_metric([ending], count)
            yield refreshes
            yield GaugeMetricFamily(f"headwater_new_items_{name}", f"New items of the {name}.", value=period.new)
            yield GaugeMetricFamily(
                f"headwater_updated_items_{name}", f"Changed items of the {name}.", value=period.updated
            )
            yield GaugeMetricFamily(
                f"headwater_lost_items_{name}", f"Items believed lost in the {name}.", value=period.lost
            )
            yield GaugeMetricFamily(
                f"headwater_received_bytes_{name}", f"Bytes received in the {name}.", value=period.bytes
            )
        yield GaugeMetricFamily("headwater_fetches_under_way", "Fetches under way.", value=status.under_way)
        yield GaugeMetricFamily(
            "headwater_budget_requests_per_minute", "The budget: requests per minute.", value=status.budget_per_minute
        )
        yield GaugeMetricFamily(
            "headwater_budget_requests_left", "Requests that may be sent now.", value=status.budget_left
        )
        sent = "Requests sent in the last minute; with a budget below 1, in the time that it gives one request."
        yield GaugeMetricFamily("headwater_spent_requests", sent, value=status.spent)
        yield GaugeMetricFamily("headwater_spent_bytes", "Bytes received in the last minute.", value=status.spent_bytes)
        if status.budget_bytes is not None:
            yield GaugeMetricFamily(
                "headwater_budget_bytes_per_minute", "The budget: bytes per minute.", value=status.budget_bytes
            )
        if status.target_reached is not None:
            yield GaugeMetricFamily(
                "headwater_target_reached", "1 if the target quality is reached.", value=float(status.target_reached)
            )
        yield GaugeMetricFamily(
            "headwater_strategy_failed",
            "1 if a strategy from outside has failed and round robin replaces it.",
            value=float(status.problem is not None),
        )
        yield GaugeMetricFamily(
            "headwater_network_away",
            "1 if no server answers, so that the network of this machine seems to be down.",
            value=float(status.network_away_since is not None),
        )
        yield GaugeMetricFamily("headwater_hosts_held", "Hosts that asked for a pause.", value=status.held_hosts)


class PromiseCollector(Collector):
    """Promises of queries and of the server (query ""): whether they are kept, and the quality of the last day."""

    def __init__(self, promises: Sequence[PromiseReport]) -> None:
        self._promises = promises

    def collect(self) -> Iterator[GaugeMetricFamily]:
        kept = GaugeMetricFamily("headwater_promise_kept", "1 if a promise is kept, 0 if not.", labels=["query"])
        for one in self._promises:
            if one.kept is not None:
                kept.add_metric([one.query or ""], float(one.kept))
        yield kept
        for name, meaning in (
            ("items", "Items published in the last day, without losses that were not noticed."),
            ("completeness", "Share of the items of the last day that was fetched."),
            ("freshness", "Mean share of the feeds' windows that was fetched, in the last day."),
            ("delay", "Mean seconds from the publication of an item to its fetch, in the last day."),
            ("in_time", "Share of the items of the last day that came within the promised delay."),
        ):
            family = GaugeMetricFamily(f"headwater_promise_{name}", meaning, labels=["query"])
            for one in self._promises:
                if (figure := getattr(one.day, name)) is not None:
                    family.add_metric([one.query or ""], figure)
            yield family


class BrokenQueriesCollector(Collector):
    """Counts the query feeds that cannot run, or read a source that does not exist."""

    def __init__(self, count: int) -> None:
        self._count = count

    def collect(self) -> Iterator[GaugeMetricFamily]:
        meaning = "Query feeds that cannot run or whose source is missing."
        yield GaugeMetricFamily("headwater_queries_broken", meaning, value=self._count)


class _QualityCollector(Collector):
    """The node's last report, without the figures that it does not know yet."""

    def __init__(self, report: QualityReport) -> None:
        self._report = report

    def collect(self) -> Iterator[GaugeMetricFamily]:
        report = self._report
        for name, meaning, figure in (
            (
                "completeness",
                "Share of the items of the last day that was fetched, by the losses that were noticed.",
                report.completeness,
            ),
            (
                "expected_completeness",
                "Share of the items of the last day that was fetched, with the estimated losses that were not noticed.",
                report.expected_completeness,
            ),
            ("freshness", "Expected share of the feeds' windows that is stored.", report.freshness),
            (
                "lost_items_now",
                "Items that are probably lost at this moment, which the next refreshes will notice.",
                report.lost_now,
            ),
            ("feeds_saturated", "Feeds that have probably lost items since their last refresh.", report.saturated),
            ("price", "The least value of a refresh that is made, in the strategy's unit.", report.price),
            ("quality_reported", "Time of the last quality report, in seconds since 1970.", report.at),
        ):
            if figure is not None:
                yield GaugeMetricFamily(f"headwater_{name}", meaning, value=figure)
        lost = GaugeMetricFamily(
            "headwater_feed_lost_items",
            "Lost items of the feeds that lose most: noticed in the last day, or believed at this moment.",
            labels=["feed", "how"],
        )
        for one in report.losing:
            lost.add_metric([str(one.feed_id), "noticed"], one.lost)
            lost.add_metric([str(one.feed_id), "believed"], one.lost_now)
        yield lost
        for name, stretch in (("hour", report.hour), ("day", report.day)):
            if stretch.delay is None:
                continue
            delay = GaugeMetricFamily(
                f"headwater_delay_seconds_{name}",
                "Seconds from the publication of items to their fetch.",
                labels=["statistic"],
            )
            for statistic in ("mean", "median", "p95"):
                if (seconds := getattr(stretch.delay, statistic)) is not None:
                    delay.add_metric([statistic], seconds)
            yield delay
