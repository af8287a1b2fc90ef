"""The benchmark of publishing runs at its small size and measures what it says."""

from __future__ import annotations

import pytest

from bench import _publish_servers, publish


@pytest.mark.timeout(300)
def test_the_small_run_compares_with_starlette_and_nginx_and_times_the_way_of_items(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = publish.main(small=True)
    expected = {"headwater", "bare Starlette"} | ({"nginx, a file"} if _publish_servers.NGINX else set())
    assert set(found["rates"]) == expected
    assert all(rate > 0 for kinds in found["rates"].values() for rate in kinds.values())
    assert found["held"] == 200
    assert found["items_per_second"] > 0
    assert {name: len(seconds) > 0 for name, seconds in found["delays"].items()} == {
        "feed": True,
        "live stream": True,
        "web hook": True,
        "feed, pushed": True,
    }
    assert "nginx" in capsys.readouterr().out
