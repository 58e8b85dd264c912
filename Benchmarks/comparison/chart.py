"""The chart: for each row a bar for each broker, how many times mosquitto it is, on a logarithmic scale."""
import math
from xml.sax.saxutils import escape

_WIDTH, _LEFT, _RIGHT, _TOP = 960, 310, 70, 64
_BAR, _GAP = 11, 12
_COLORS = {"floor": "#9aa5b1", "martlet, 1 loop": "#d9480f", "martlet, 2 loops": "#f59f00", "nats-server": "#1c7ed6"}
_OTHER = ["#2f9e44", "#7048e8", "#0c8599"]
_BASE = "mosquitto"


def draw(brokers, rows, medians):
    """The chart as SVG. Rows that mosquitto has no figure for are left out."""
    bars = [(row, _ratios(brokers, row, medians)) for row in rows]
    bars = [(row, ratios) for row, ratios in bars if ratios]
    names = [broker.name for broker in brokers if broker.name != _BASE]
    values = [ratio for _, ratios in bars for _, ratio in ratios] or [1]
    low, high = min(0.5, *values), max(2.0, *values)
    height = _TOP + sum(len(ratios) * _BAR + _GAP for _, ratios in bars) + 16

    def x(ratio):
        span = _WIDTH - _LEFT - _RIGHT
        return _LEFT + span * (math.log(ratio) - math.log(low)) / (math.log(high) - math.log(low))

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        '<text x="16" y="22" font-size="15" font-weight="bold">How many times mosquitto (logarithmic)</text>',
    ]
    parts += _legend(names)
    parts += _grid(x, low, high, height)
    y = _TOP
    for row, ratios in bars:
        middle = y + len(ratios) * _BAR / 2 + 4
        parts.append(f'<text x="{_LEFT - 10}" y="{middle:.1f}" text-anchor="end">{escape(row.title)}</text>')
        for name, ratio in ratios:
            left, right = sorted((x(1.0), x(ratio)))
            parts.append(
                f'<rect x="{left:.1f}" y="{y}" width="{max(right - left, 1):.1f}" height="{_BAR - 1}" '
                f'fill="{_color(name, names)}"/>')
            parts.append(f'<text x="{right + 4:.1f}" y="{y + _BAR - 2}" font-size="10" fill="#495057">{ratio:.3g}</text>')
            y += _BAR
        y += _GAP
    return "\n".join(parts + ["</svg>", ""])


def _ratios(brokers, row, medians):
    figure = row.figures[0]
    base = medians[row.name].get(_BASE, {}).get(figure.key)
    ratios = []
    for broker in brokers:
        value = medians[row.name].get(broker.name, {}).get(figure.key)
        if base and value and value > 0 and broker.name != _BASE:
            ratios.append((broker.name, value / base if figure.more_is_better else base / value))
    return ratios


def _legend(names):
    parts = []
    for index, name in enumerate(names):
        left = _LEFT + index * 150
        parts.append(f'<rect x="{left}" y="34" width="12" height="12" fill="{_color(name, names)}"/>')
        parts.append(f'<text x="{left + 18}" y="44">{escape(name)}</text>')
    return parts


def _grid(x, low, high, height):
    parts = []
    for exponent in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        for factor in (1, 2, 5):
            value = factor * 10.0**exponent
            if low <= value <= high:
                color = "#495057" if value == 1 else "#e9ecef"
                parts.append(f'<line x1="{x(value):.1f}" x2="{x(value):.1f}" y1="{_TOP - 6}" y2="{height - 12}" stroke="{color}"/>')
                parts.append(f'<text x="{x(value):.1f}" y="{height - 1}" font-size="10" text-anchor="middle" fill="#495057">{value:g}</text>')
    return parts


def _color(name, names):
    return _COLORS.get(name) or _OTHER[names.index(name) % len(_OTHER)]
