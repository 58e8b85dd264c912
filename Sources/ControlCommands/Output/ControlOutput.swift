internal import JSON
internal import Platform

/// Where a command writes.
public struct ControlOutput {
    /// Columns of the terminal; nil where it is none.
    public var width: Int?
    /// Programs read it: what the API has answered, as it is.
    public var isJSON: Bool
    private let write: (String) -> Void
    private let remark: (String) -> Void

    /// - `remark`: takes what is said beside the answer, which programs that read the answer do not want.
    /// - `write`: takes lines with their ends.
    public init(
        width: Int?, isJSON: Bool, remark: @escaping (String) -> Void = { _ in }, write: @escaping (String) -> Void
    ) {
        (self.width, self.isJSON, self.remark, self.write) = (width, isJSON, remark, write)
    }

    /// Says something beside the answer.
    func note(_ line: String) { remark(TerminalText.line(line)) }

    func say(_ line: String) { write(line + "\n") }

    /// A line of which others have written a part.
    func sayForeign(_ line: String) { write(TerminalText.line(line) + "\n") }

    func show(_ table: TextTable, orSay nothing: String) {
        if table.rows.isEmpty { say(nothing) } else { table.lines(width: width).forEach(say) }
    }

    func show(_ facts: FactList) { facts.lines(width: width).forEach(say) }

    /// JSON as it came; on a terminal what would do something to it is escaped, which is the same JSON.
    func put(_ json: some Sequence<UInt8>) {
        let bytes = Array(json)
        say(String(decoding: width == nil ? bytes : TerminalText.json(bytes), as: UTF8.self))
    }
}
