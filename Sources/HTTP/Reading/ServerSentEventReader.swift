/// Takes the bytes of a stream of events and gives the events, as HTML, section 9.2.6, reads them. Comments are passed over.
public struct ServerSentEventReader {
    private var line: [UInt8] = []
    /// A carriage return was the last byte: a line feed behind it belongs to it.
    private var endsWithReturn = false
    private var isFirstLine = true
    private var event: String?
    private var data: [UInt8]?
    private var id: String?

    public init() {}

    /// The events that end in these bytes. Throws when one is longer than `Limits.eventBytesMax`.
    public mutating func take(_ bytes: some Sequence<UInt8>) throws(HTTPResponseError) -> [ServerSentEvent] {
        var events: [ServerSentEvent] = []
        for byte in bytes {
            defer { endsWithReturn = byte == 0x0D }
            switch byte {
            case 0x0A where endsWithReturn: continue
            case 0x0A, 0x0D:
                if let event = endLine() { events.append(event) }
            default:
                guard line.count + (data?.count ?? 0) < Limits.eventBytesMax else {
                    throw HTTPResponseError("has an event of more than \(Limits.eventBytesMax) bytes")
                }
                line.append(byte)
            }
        }
        return events
    }

    private mutating func endLine() -> ServerSentEvent? {
        defer {
            line.removeAll(keepingCapacity: true)
            isFirstLine = false
        }
        if isFirstLine, line.starts(with: [0xEF, 0xBB, 0xBF]) { line.removeFirst(3) }
        guard !line.isEmpty else { return dispatch() }
        let colon = line.firstIndex(of: UInt8(ascii: ":")) ?? line.endIndex
        var value = line[colon...].dropFirst()
        if value.first == 0x20 { value = value.dropFirst() }
        switch String(decoding: line[..<colon], as: UTF8.self) {
        case "event": event = String(decoding: value, as: UTF8.self)
        case "data": data = data.map { $0 + [0x0A] + value } ?? Array(value)
        case "id" where !value.contains(0): id = String(decoding: value, as: UTF8.self)
        default: break
        }
        return nil
    }

    /// An event without data is none.
    private mutating func dispatch() -> ServerSentEvent? {
        defer { (event, data) = (nil, nil) }
        return data.map { ServerSentEvent(id: id, event: event, data: String(decoding: $0, as: UTF8.self)) }
    }
}
