"""The chart: for each row a bar for each broker, how many times mosquitto it is, on a logarithmic scale."""
import math
from xml.sax.saxutils import escape

_PLOT, _RIGHT, _TOP, _BOTTOM = 600, 60, 76, 22
_BAR, _GAP, _ROW_MIN = 11, 12, 26
# What a letter of the titles takes, on the safe side: SVG cannot ask.
_LETTER = 6.7
_DARK, _MIDDLE, _LIGHT = "#212529", "#495057", "#e9ecef"
_COLORS = {"floor": "#9aa5b1", "martlet, 1 loop": "#d9480f", "martlet, 2 loops": "#f59f00", "nats-server": "#1c7ed6"}
_OTHER = ["#2f9e44", "#7048e8", "#0c8599"]
_BASE = "mosquitto"


def draw(brokers, rows, medians):
    """The chart as SVG. Rows that mosquitto has no figure for are left out."""
    bars = [(row, _ratios(brokers, row, medians)) for row in rows]
    bars = [(row, ratios) for row, ratios in bars if ratios]
    names = [broker.name for broker in brokers if broker.name != _BASE]
    left = 26 + max([len(row.title) for row, _ in bars], default=30) * _LETTER
    width = left + _PLOT + _RIGHT
    height = _TOP + sum(_row_height(ratios) + _GAP for _, ratios in bars) + _BOTTOM
    scale = _Scale([ratio for _, ratios in bars for _, ratio in ratios], left)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width:.0f}" height="{height}" fill="#ffffff"/>',
        f'<text x="16" y="22" font-size="15" font-weight="bold" fill="{_DARK}">How many times mosquitto</text>',
        f'<text x="16" y="40" font-size="11" fill="{_MIDDLE}">logarithmic; longer is better</text>',
    ]
    parts += _legend(names, left)
    parts += _grid(scale, height)
    top = _TOP
    for row, ratios in bars:
        parts += _row(row, ratios, names, scale, top)
        top += _row_height(ratios) + _GAP
    return "\n".join([*parts, "</svg>"]) + "\n"


class _Scale:
    """Where a ratio is, from left to right."""

    def __init__(self, ratios, left):
        self.low, self.high, self.left = min(0.5, *ratios, 0.5), max(2.0, *ratios, 2.0), left

    def __call__(self, ratio):
        return self.left + _PLOT * math.log(ratio / self.low) / math.log(self.high / self.low)

    def marks(self):
        for exponent in range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1):
            for factor in (1, 2, 5):
                if self.low <= factor * 10.0**exponent <= self.high:
                    yield factor * 10.0**exponent


def _ratios(brokers, row, medians):
    figure = row.figures[0]
    base = medians[row.name].get(_BASE, {}).get(figure.key)
    ratios = []
    for broker in brokers:
        value = medians[row.name].get(broker.name, {}).get(figure.key)
        if base and value and value > 0 and broker.name != _BASE:
            ratios.append((broker.name, value / base if figure.more_is_better else base / value))
    return ratios


def _row_height(ratios):
    return max(len(ratios) * _BAR, _ROW_MIN)


def _row(row, ratios, names, scale, top):
    """The row's title, what is compared in it, and its bars."""
    middle = top + _row_height(ratios) / 2
    right = scale.left - 10
    parts = [
        f'<text x="{right:.1f}" y="{middle - 1:.1f}" text-anchor="end" fill="{_DARK}">{escape(row.title)}</text>',
        f'<text x="{right:.1f}" y="{middle + 11:.1f}" text-anchor="end" font-size="10" fill="{_MIDDLE}">'
        f"{escape(row.figures[0].label)}</text>",
    ]
    y = middle - len(ratios) * _BAR / 2
    for name, ratio in ratios:
        start, end = sorted((scale(1.0), scale(ratio)))
        parts.append(
            f'<rect x="{start:.1f}" y="{y:.1f}" width="{max(end - start, 1):.1f}" height="{_BAR - 1}" '
            f'fill="{_color(name, names)}"/>')
        text = f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.2g}" if ratio >= 10 else f"{ratio:.2f}"
        parts.append(f'<text x="{end + 4:.1f}" y="{y + _BAR - 2:.1f}" font-size="10" fill="{_MIDDLE}">{text}</text>')
        y += _BAR
    return parts


def _legend(names, left):
    parts = []
    for name in names:
        parts.append(f'<rect x="{left:.1f}" y="12" width="12" height="12" fill="{_color(name, names)}"/>')
        parts.append(f'<text x="{left + 18:.1f}" y="22" fill="{_DARK}">{escape(name)}</text>')
        left += 40 + len(name) * _LETTER
    return parts


def _grid(scale, height):
    parts = []
    for value in scale.marks():
        x, color = scale(value), _MIDDLE if value == 1 else _LIGHT
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 12}" y2="{height - _BOTTOM}" stroke="{color}"/>')
        for y in (_TOP - 17, height - 8):
            parts.append(f'<text x="{x:.1f}" y="{y}" font-size="10" text-anchor="middle" fill="{_MIDDLE}">{value:g}</text>')
    parts.append(
        f'<text x="{scale(1.0):.1f}" y="{_TOP - 30}" font-size="10" text-anchor="middle" fill="{_MIDDLE}">{_BASE}</text>')
    return parts


def _color(name, names):
    return _COLORS.get(name) or _OTHER[names.index(name) % len(_OTHER)]
