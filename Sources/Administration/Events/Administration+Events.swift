internal import BrokerModel
internal import HTTP
public import JSON

/// Streams of what happens.
extension Administration {
    /// Tells everybody who wants to know that something has happened.
    public func tell(_ kind: EventKind, _ data: JSONObject, at now: Moment) { events.tell(kind, data, now) }

    /// Whether anybody reads the log as it is written.
    public var hasLogReaders: Bool { events.hasLogReaders }

    /// Tells those who read the log of a line.
    public func tell(_ line: AdministeredLogLine, at now: Moment) {
        if events.hasLogReaders { events.tell(Self.logLine(line), now) }
    }

    /// Ends all streams: the broker ends.
    public func end() {
        auditSums(now: .max)
        events.end { _ in true }
        sockets.end { _ in true }
        for trace in traces { trace.forget() }
    }

    func streamEvents(_ call: Call) throws(APIError) {
        let kinds = call.list("types").map { Set($0.compactMap { EventKind(rawValue: $0) }) }
        let reader = EventReader(
            StreamRight(call), address: call.origin.address, kinds: kinds ?? Set(EventKind.allCases).subtracting([.stats]),
            interval: UInt64(call.integer("interval") ?? 1) * 1000, now: call.startedAt)
        try open(reader, call)
    }

    func streamLog(_ call: Call) throws(APIError) {
        try open(EventReader(StreamRight(call), address: call.origin.address, kinds: [], takesLog: true, now: call.startedAt), call)
    }

    private func open(_ reader: EventReader, _ call: Call) throws(APIError) {
        try checkStreams(of: reader.address)
        guard call.request.method != .head else {
            return call.answer(HTTPResponse(.ok, fields: ["Content-Type": "text/event-stream"]))
        }
        // At once, so that the client sees that it is connected.
        reader.stream.write(ServerSentEvent.comment("here"))
        events.add(reader, after: call.request.fields["Last-Event-ID"].flatMap { UInt64($0) })
        call.answer(.events(reader.stream))
    }

    /// Throws if there are as many streams as may be, of all or of an address.
    func checkStreams(of address: String) throws(APIError) {
        let count = traces.reduce(events.count + sockets.count) { $0 + $1.readerCount() }
        let countOfAddress = traces.reduce(events.count(of: address) + sockets.count(of: address)) {
            $0 + $1.readerCount(of: address)
        }
        guard count < Limits.streamsMax, countOfAddress < Limits.streamsPerAddressMax else {
            throw APIError(
                .tooManyRequests, "There are \(count) event streams already.",
                fields: ["Retry-After": String(Limits.retryAfterSeconds)])
        }
    }
}
