internal import HTTP
internal import JSON

/// One who reads a trace: all that is there from an offset on, and with `.events` what comes until the trace ends.
///
/// It takes from the file what its stream has room for, so that a slow reader loses nothing and costs no memory.
final class TraceReader {
    enum Form: Equatable {
        /// Server-sent events named `line`, each with the offset behind it as its id; `end` comes last.
        case events
        /// The lines themselves, up to this offset.
        case lines(end: Int)
    }

    let stream = HTTPStream()
    let right: StreamRight
    let address: String
    private weak var trace: Trace?
    private let form: Form
    private var offset: Int
    private var lastWrite: UInt64

    init(_ trace: Trace, _ form: Form, from offset: Int, _ right: StreamRight, address: String, now: Moment) {
        self.right = right
        (self.trace, self.form, self.offset, self.address) = (trace, form, min(offset, trace.byteCount), address)
        lastWrite = now.milliseconds
        stream.onRoom = { [weak self] in self?.pump() }
    }

    func pump() {
        guard let trace else { return stream.finish() }
        let end = if case .lines(let end) = form { end } else { trace.byteCount }
        while stream.isOpen, offset < end {
            let lines = trace.lines(from: offset)
            // What was written cannot be read any more.
            guard !lines.isEmpty else { return stream.finish() }
            for line in lines.split(separator: UInt8(ascii: "\n")) where offset < end {
                let next = offset + line.count + 1
                guard stream.write(written(line, next)) else { return }
                offset = next
            }
        }
        switch form {
        case .lines: stream.finish()
        case .events: if trace.state != .running { finish(trace.state) }
        }
    }

    private func written(_ line: ArraySlice<UInt8>, _ next: Int) -> [UInt8] {
        switch form {
        case .lines: line + [UInt8(ascii: "\n")]
        case .events: ServerSentEvent(id: "\(next)", event: "line", data: String(decoding: line, as: UTF8.self)).bytes
        }
    }

    private func finish(_ state: Trace.State) {
        var object = JSONObject()
        object.set("state", state.rawValue)
        if stream.write(ServerSentEvent(event: "end", data: object.text).bytes) { stream.finish() }
    }

    /// Writes to who has heard nothing for a while: a connection that is dead shows then.
    func keepAlive(_ now: Moment) {
        guard form == .events, now.milliseconds >= lastWrite + Limits.streamSilenceMilliseconds else { return }
        lastWrite = now.milliseconds
        stream.write(ServerSentEvent.comment("still here"))
    }
}
