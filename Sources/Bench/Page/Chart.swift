/// Lines over one axis, drawn as SVG that takes its colors from the page.
///
///     ┌─────────────── figcaption: title, and what is seen in words
///     │ 50 M ┤
///     │      │  ╱╲__╱╲___ delivered     each line is named where it ends
///     │    0 ┼──┬────┬────┬──
///     └─────── 0 s  1 s  2 s
struct Chart {
    struct Line {
        /// What stands at its end, and in what is told at each point.
        let name: String
        /// Its class in the page's style.
        let look: String
        /// One for each of `places`; nil where there is none.
        let values: [Double?]
    }

    let title: String
    /// What is seen, for whoever does not see it.
    let summary: String
    let across: ChartScale
    let up: ChartScale
    /// Where the points stand on the axis, 0 to 1, rising.
    let places: [Double]
    /// What the points are called, such as `2.25 s`.
    let names: [String]
    let lines: [Line]
    /// A value in words.
    let text: (Double) -> String
    /// Where a line is not joined to the point before.
    var breaks: Set<Int> = []
    /// Parts of the axis that have a name: where each begins.
    var parts: [(place: Double, name: String)] = []
    /// Whether the space below the first line is filled.
    var isFilled = false

    /// The figure with its caption.
    var html: String {
        """
        <figure>
        <figcaption><h2>\(HTML.text(title))</h2><p>\(HTML.text(summary))</p></figcaption>
        <div class="scroll">
        <svg viewBox="0 0 \(Self.width) \(Self.height)" role="img" aria-label="\(HTML.text(title + ". " + summary))">
        \(grid)\(partMarks)\(lines.enumerated().map { drawing($1, isFirst: $0 == 0) }.joined())\(labels)\(targets)</svg></div>
        </figure>

        """
    }

    // MARK: Where things stand

    private static let width = 960
    private static let height = 300
    private static let left = 70.0
    private static let right = 848.0
    private static let top = 22.0
    private static let bottom = 262.0

    private func x(_ place: Double) -> Double { Self.left + place * (Self.right - Self.left) }
    private func y(_ value: Double) -> Double { Self.bottom - max(0, min(1, up.place(value))) * (Self.bottom - Self.top) }
    private func number(_ value: Double) -> String { value.decimalText(digits: 1) }

    // MARK: Parts of the drawing

    private var grid: String {
        let rows = up.ticks.map { tick in
            let height = Self.bottom - tick.place * (Self.bottom - Self.top)
            return rule("grid", from: (Self.left, height), to: (Self.right, height))
                + word(tick.label, at: (Self.left - 10, height + 4), anchor: "end")
        }
        let columns = across.ticks.map { tick in
            rule("mark", from: (x(tick.place), Self.bottom), to: (x(tick.place), Self.bottom + 5))
                + word(tick.label, at: (x(tick.place), Self.bottom + 20), anchor: "middle")
        }
        return (rows + columns).joined()
    }

    private var partMarks: String {
        parts.map { part in
            rule("part", from: (x(part.place), Self.top - 8), to: (x(part.place), Self.bottom))
                + word(part.name, at: (x(part.place) + 6, Self.top), anchor: "start")
        }.joined()
    }

    private func rule(_ look: String, from: (x: Double, y: Double), to: (x: Double, y: Double)) -> String {
        let (start, end) = ("x1=\"\(number(from.x))\" y1=\"\(number(from.y))\"", "x2=\"\(number(to.x))\" y2=\"\(number(to.y))\"")
        return "<line class=\"\(look)\" \(start) \(end)/>\n"
    }

    private func word(_ word: String, at place: (x: Double, y: Double), anchor: String, look: String = "tick") -> String {
        let place = "x=\"\(number(place.x))\" y=\"\(number(place.y))\""
        return "<text class=\"\(look)\" text-anchor=\"\(anchor)\" \(place)>\(HTML.text(word))</text>\n"
    }

    /// Runs of neighbours that have a value.
    private func runs(_ line: Line) -> [[Int]] {
        var runs: [[Int]] = []
        for index in places.indices where line.values[index] != nil {
            if let last = runs.last?.last, last == index - 1, !breaks.contains(index) {
                runs[runs.count - 1].append(index)
            } else {
                runs.append([index])
            }
        }
        return runs
    }

    private func drawing(_ line: Line, isFirst: Bool) -> String {
        runs(line).map { run in
            let points = run.map { "\(number(x(places[$0]))),\(number(y(line.values[$0] ?? 0)))" }
            guard run.count > 1 else {
                let place = points[0].split(separator: ",")
                return "<circle class=\"dot \(line.look)\" cx=\"\(place[0])\" cy=\"\(place[1])\" r=\"3\"/>\n"
            }
            var drawing = ""
            if isFilled, isFirst, let first = run.first, let last = run.last {
                let path =
                    "M\(number(x(places[first]))),\(number(Self.bottom)) L\(points.joined(separator: " L"))"
                    + " L\(number(x(places[last]))),\(number(Self.bottom)) Z"
                drawing = "<path class=\"area \(line.look)\" d=\"\(path)\"/>\n"
            }
            return drawing + "<path class=\"line \(line.look)\" d=\"M\(points.joined(separator: " L"))\"/>\n"
        }.joined()
    }

    /// The names of the lines, behind their ends and apart from each other.
    private var labels: String {
        var ends = lines.compactMap { line -> (line: Line, x: Double, y: Double)? in
            guard let last = line.values.indices.last(where: { line.values[$0] != nil }), let value = line.values[last] else {
                return nil
            }
            return (line, x(places[last]), y(value))
        }
        ends.sort { $0.y < $1.y }
        for index in ends.indices.dropFirst() { ends[index].y = max(ends[index].y, ends[index - 1].y + Self.labelHeight) }
        // What has been pushed below the axis goes up again, and pushes the others.
        var limit = Self.bottom
        for index in ends.indices.reversed() {
            ends[index].y = min(ends[index].y, limit)
            limit = ends[index].y - Self.labelHeight
        }
        return ends.map { end in
            word(end.line.name, at: (end.x + 8, end.y + 4), anchor: "start", look: "name \(end.line.look)")
        }.joined()
    }

    private static let labelHeight = 15.0

    /// What a pointer meets: a strip for each point, which tells the values there.
    private var targets: String {
        places.indices.map { index in
            let from = index == 0 ? 0 : (places[index - 1] + places[index]) / 2
            let to = index + 1 == places.count ? 1 : (places[index] + places[index + 1]) / 2
            let told = lines.compactMap { line in line.values[index].map { "\(line.name): \(text($0))" } }
            return "<g class=\"point\"><rect x=\"\(number(x(from)))\" y=\"\(number(Self.top))\" "
                + "width=\"\(number(max(0, x(to) - x(from))))\" height=\"\(number(Self.bottom - Self.top))\"/>"
                + rule("guide", from: (x(places[index]), Self.top), to: (x(places[index]), Self.bottom))
                + "<title>\(HTML.text(([names[index]] + told).joined(separator: "\n")))</title></g>\n"
        }.joined()
    }
}
