"""The figures for Prometheus, made anew from the store and the node at every scrape."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from headwater.node.crawler import Status
from headwater.store.values import Summary

TYPE = CONTENT_TYPE_LATEST


def text(summary: Summary, status: Status) -> bytes:
    """The exposition format. Figures of a period are gauges: they cover the present hour and 1 or 24 before it."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(summary, status))
    return generate_latest(registry)


class _Figures(Collector):
    def __init__(self, summary: Summary, status: Status) -> None:
        self._summary = summary
        self._status = status

    def collect(self) -> Iterator[GaugeMetricFamily]:
        summary, status = self._summary, self._status
        feeds = GaugeMetricFamily("headwater_feeds", "Feeds by state; all counts every one.", labels=["state"])
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
            refreshes = GaugeMetricFamily(f"headwater_refreshes_{name}", "Refreshes by ending.", labels=["ending"])
            for ending, count in sorted(period.refreshes.items()):
                refreshes.add_metric([ending], count)
            yield refreshes
            yield GaugeMetricFamily(f"headwater_new_items_{name}", "New items.", value=period.new)
            yield GaugeMetricFamily(f"headwater_updated_items_{name}", "Updated items.", value=period.updated)
            yield GaugeMetricFamily(f"headwater_lost_items_{name}", "Items believed lost.", value=period.lost)
            yield GaugeMetricFamily(f"headwater_received_bytes_{name}", "Bytes received.", value=period.bytes)
        yield GaugeMetricFamily("headwater_fetches_under_way", "Fetches under way.", value=status.under_way)
        yield GaugeMetricFamily(
            "headwater_budget_requests_per_minute", "The budget of requests.", value=status.budget_per_minute
        )
        yield GaugeMetricFamily(
            "headwater_budget_requests_left", "Requests that may leave now.", value=status.budget_left
        )
        yield GaugeMetricFamily(
            "headwater_hosts_held", "Hosts that asked us to stay away for a while.", value=status.held_hosts
        )
