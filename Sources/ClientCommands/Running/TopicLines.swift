/// The picture of `martlet sub -w`: each topic has a line of the terminal, in the order in which they came.
struct TopicLines {
    /// Where a topic's message is written.
    struct Place: Equatable {
        /// Counted from 1.
        let line: Int
        /// Where the cursor waits: below all lines, so that what ends the command is written there.
        let rest: Int
        /// Whether the terminal is cleared first.
        let isFirst: Bool
        /// Whether there is no line for the topic any more.
        let isBeyond: Bool

        /// A printed message with what moves the cursor around it. Of one that has several lines the first is shown.
        func around(_ printed: [UInt8]) -> [UInt8] {
            if isBeyond { return [] }
            let text = printed.prefix { $0 != UInt8(ascii: "\n") }
            let clear = isFirst ? "\u{1B}[H\u{1B}[2J" : ""
            // Without wrapping: what is too long for its line would be written into the next topic's.
            return Array("\(clear)\u{1B}[?7l\u{1B}[\(line);1H".utf8) + text + Array("\u{1B}[K\u{1B}[?7h\u{1B}[\(rest);1H".utf8)
        }
    }

    /// What the terminal has; the last one is the cursor's.
    private let rows: Int
    /// Bytes: of as many topics as the terminal has rows.
    private var lines: [[UInt8]: Int] = [:]

    init(rows: Int) { self.rows = max(2, rows) }

    /// The line of a topic: a new one, if it has none yet and there is room.
    mutating func place(_ topic: some Collection<UInt8>) -> Place {
        let topic = Array(topic)
        let isFirst = lines.isEmpty
        if lines[topic] == nil, lines.count < rows - 1 { lines[topic] = lines.count + 1 }
        let line = lines[topic]
        return Place(line: line ?? rows, rest: lines.count + 1, isFirst: isFirst, isBeyond: line == nil)
    }
}
