"""A graph on a touch screen: two fingers zoom and move it, one scrolls the page."""

import pytest


@pytest.fixture
def phone(tab):
    """A page with a graph on a touch screen of 390 by 844 pixels, and a free place in the drawing."""
    tab.send("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
    tab.see("/graph?on=example&last=guest", 390)
    tab.send("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1,
             mobile=True)  # fmt: skip
    tab.wait("!!document.querySelector('.pg .node')")
    tab.value("document.querySelector('.pg-frame').scrollIntoView({block: 'center'})")
    tab.at = tab.box(".pg-frame")
    return tab


def touch(tab, kind, *fingers):
    points = [{"x": x, "y": y, "id": i} for i, (x, y) in enumerate(fingers)]
    tab.send("Input.dispatchTouchEvent", type=kind, touchPoints=points)


def shown(tab):
    """Where the drawing is, its zoom, and how far the page is scrolled."""
    return tab.value(
        "(() => { const v = getElement(+document.querySelector('.pg-frame').id.slice(1)).view;"
        " return [v.x, v.y, v.k, scrollY]; })()"
    )


def test_two_fingers_zoom_and_move(phone):
    x, y = phone.at["x"], phone.at["y"]
    _, _, zoom, scrolled = shown(phone)
    touch(phone, "touchStart", (x - 40, y), (x + 40, y))
    for i in range(1, 9):
        touch(phone, "touchMove", (x - 40 - 5 * i, y), (x + 40 + 5 * i, y))
    phone.wait(
        f"getElement(+document.querySelector('.pg-frame').id.slice(1)).view.k > {1.8 * zoom}"
    )
    assert shown(phone)[2:] == pytest.approx([2 * zoom, scrolled], rel=0.01)
    before = shown(phone)
    for i in range(1, 9):
        touch(phone, "touchMove", (x - 80, y + 5 * i), (x + 80, y + 5 * i))
    phone.wait(
        f"getElement(+document.querySelector('.pg-frame').id.slice(1)).view.y > {before[1] + 39}"
    )
    touch(phone, "touchEnd")
    assert shown(phone) == pytest.approx([before[0], before[1] + 40, *before[2:]], abs=1)


def test_one_finger_scrolls_the_page(phone):
    x, y = phone.at["x"] + 100, phone.at["y"] + phone.at["height"] / 2 - 20
    before = shown(phone)
    touch(phone, "touchStart", (x, y))
    for i in range(1, 20):
        touch(phone, "touchMove", (x, y - 10 * i))
    touch(phone, "touchEnd")
    phone.wait(f"scrollY > {before[3] + 100}")
    assert shown(phone)[1:3] == pytest.approx(before[1:3])
