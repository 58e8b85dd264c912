internal import BrokerModel
internal import HTTP
internal import JSON
internal import MQTTCodec

/// The traces that there are, from when they are asked for until the last shard has forgotten them.
final class TraceBook {
    private let broker: any AdministeredBroker
    /// In the order in which they began; some are there only until the shards have ended them.
    private var all: [Trace] = []
    private var lastNumber = 0

    init(_ broker: any AdministeredBroker) { self.broker = broker }

    /// In the order in which they began.
    var known: [Trace] { all.filter { !$0.isForgotten } }

    /// How many streams read them.
    var readerCount: Int { all.reduce(0) { $0 + $1.readerCount() } }

    /// How many of them are of an address.
    func readerCount(of address: String) -> Int { all.reduce(0) { $0 + $1.readerCount(of: address) } }

    // MARK: From beginning to end

    /// Makes a trace, which records when the shards have been told of it.
    ///
    /// - Parameters:
    ///   - now: milliseconds since 1970.
    ///   - until: likewise.
    func make(
        of subject: Trace.Subject, payload: Trace.Payload, payloadLimit: Int, from now: UInt64, until: UInt64
    ) throws(APIError) -> Trace {
        guard let number = freeNumber() else {
            throw APIError(.conflict, "There are \(Limits.tracesMax) traces already, the maximum: delete one.")
        }
        guard let file = broker.makeTraceFile() else {
            throw APIError(.serviceUnavailable, "No file can be created for the trace; the log says why.")
        }
        lastNumber += 1
        let trace = Trace(
            id: "\(lastNumber)", number: number, subject, payload: payload, payloadLimit: payloadLimit, from: now, until: until,
            shards: broker.shardCount, file: file)
        all.append(trace)
        return trace
    }

    /// A place for another trace: one that is free, or that of the trace that ended first.
    private func freeNumber() -> Int? {
        func free() -> Int? { (0..<Limits.tracesMax).first { number in !all.contains { $0.number == number } } }
        if let number = free() { return number }
        guard let oldest = known.first(where: { $0.state != .running && $0.shards.isEmpty }) else { return nil }
        oldest.forget()
        all.removeAll { $0 === oldest }
        return free()
    }

    /// Ends a trace, and forgets what it has recorded.
    func forget(_ trace: Trace) {
        trace.forget()
        if trace.shards.isEmpty { all.removeAll { $0 === trace } }
        settle()
    }

    /// Ends the streams by these rights.
    func endReaders(where isOver: (StreamRight) -> Bool) {
        for trace in all { trace.endReaders { isOver($0) } }
    }

    /// The broker ends.
    func end() { for trace in all { trace.forget() } }

    // MARK: What is recorded

    /// A shard has recorded something: it is written down, and the shard may bring more.
    ///
    /// - Parameter listenerName: the name of a listener, by its place in the configuration.
    func record(_ batch: TraceBatch, at now: Moment, listenerName: @escaping (Int) -> String?) {
        let offset = broker.wallClockOffset
        for trace in all where trace.state == .running {
            let bit = UInt8(1) << UInt8(trace.number)
            trace.add(
                batch.records.filter { $0.traces & bit != 0 && $0.at &+ offset <= trace.until }.map {
                    TraceLine(
                        record: $0, wallClockOffset: offset, payload: trace.payload, payloadLimit: trace.payloadLimit,
                        listener: listenerName
                    ).json
                })
            if !batch.lost.isEmpty {
                trace.addLost(batch.lost[trace.number], TraceLine.lost(batch.lost[trace.number], at: now.wallMilliseconds))
            }
        }
        broker.tracesTaken(by: batch.shard)
        settle()
    }

    /// Ends what has had its time.
    func tick(_ now: Moment) {
        for trace in all {
            if trace.until <= now.wallMilliseconds { trace.end(.ended) }
            trace.tick(now)
        }
        settle()
    }

    /// Has the shards end what has ended here; a trace that is forgotten goes when they have.
    private func settle() {
        for trace in all where trace.state != .running && !trace.isEnding && !trace.shards.isEmpty {
            trace.isEnding = true
            var missing = trace.shards.count
            for shard in trace.shards.sorted() {
                broker.perform(ShardCommand(.endTrace(trace.number)), to: shard) { [self] outcome in
                    // One that had too much to do is told again with the next tick.
                    if outcome != nil { trace.shards.remove(shard) }
                    missing -= 1
                    if missing == 0 { trace.isEnding = false }
                    all.removeAll { $0.isForgotten && $0.shards.isEmpty }
                }
            }
        }
    }
}

/// What is asked about traces of clients, addresses and topics.
struct TraceAnswers {
    private let administration: Administration

    init(_ administration: Administration) { self.administration = administration }

    private var traces: TraceBook { administration.traces }

    private func trace(_ call: Call) throws(APIError) -> Trace {
        guard let trace = traces.known.first(where: { $0.id == call.path["id"] }) else { throw .notFound("trace") }
        return trace
    }

    func listTraces(_ call: Call) throws(APIError) {
        administration.answer(call, page: traces.known.map(\.json), cursor: nil, count: traces.known.count)
    }

    func getTrace(_ call: Call) throws(APIError) { call.answer(try trace(call).json) }

    func addTrace(_ call: Call) throws(APIError) {
        let body = try call.body()
        let subject = try Self.subject(body)
        call.target = "\(subject.name) \(subject.text)"
        let payload = Trace.Payload(rawValue: try body.choice("payload", Trace.Payload.allCases.map(\.rawValue)) ?? "none") ?? .none
        let limit = try body.integer("payload_limit", 0...Limits.tracePayloadBytesMax) ?? Limits.tracePayloadBytes
        if payload != .none { try checkPayloads(call) }
        let now = call.startedAt.wallMilliseconds
        let until = try body.time("until") ?? now + Limits.traceMilliseconds
        guard until > now, until <= now + Limits.traceMillisecondsMax else {
            throw .badRequest("until must be a time within the next 24 hours.")
        }
        let trace = try traces.make(of: subject, payload: payload, payloadLimit: limit, from: now, until: until)
        let wish = TraceWish(number: trace.number, subject.subject, payloadBytesMax: payload == .none ? 0 : limit)
        administration.performAtAll(.beginTrace(wish)) { outcomes in
            guard outcomes.allSatisfy({ $0 == .done }) else {
                traces.forget(trace)
                return call.fail(.unavailable)
            }
            call.answer(trace.json, status: .created)
        }
    }

    private static func subject(_ body: RequestBody) throws(APIError) -> Trace.Subject {
        let given = Trace.subjects.filter { body.has($0) }
        guard given.count == 1, let name = given.first else {
            throw .badRequest("A trace needs exactly one of clientid, topic and address.")
        }
        let text = try body.required(name)
        switch name {
        case "clientid":
            guard let client = EncodedString(text) else { throw .badRequest("This is not a valid Client Identifier.") }
            return Trace.Subject(name: name, text: text, subject: .client(client))
        case "topic":
            guard let filter = TopicFilter(text), !filter.isShared else { throw .badRequest("topic is not a topic filter.") }
            return Trace.Subject(name: name, text: text, subject: .topic(filter))
        default:
            guard let range = AddressRange(text) else {
                throw .badRequest("address is neither an IP address nor a network such as 192.0.2.0/24.")
            }
            return Trace.Subject(name: name, text: text, subject: .address(range))
        }
    }

    func removeTrace(_ call: Call) throws(APIError) {
        let trace = try trace(call)
        call.target = "\(trace.id) of \(trace.subject.name) \(trace.subject.text)"
        traces.forget(trace)
        call.answer(HTTPResponse(.noContent))
    }

    func streamTrace(_ call: Call) throws(APIError) {
        let trace = try trace(call)
        if trace.payload != .none { try checkPayloads(call) }
        try administration.checkStreams(of: call.origin.address)
        guard call.request.method != .head else {
            return call.answer(HTTPResponse(.ok, fields: ["Content-Type": "text/event-stream"]))
        }
        let seen = call.request.fields["Last-Event-ID"].flatMap { Int($0) } ?? 0
        let reader = TraceReader(
            trace, .events, from: max(0, seen), StreamRight(call), address: call.origin.address, now: call.startedAt)
        reader.stream.write(ServerSentEvent.comment("here"))
        trace.read(reader)
        call.answer(.events(reader.stream))
    }

    func downloadTrace(_ call: Call) throws(APIError) {
        let trace = try trace(call)
        if trace.payload != .none { try checkPayloads(call) }
        try administration.checkStreams(of: call.origin.address)
        let fields: HTTPFields = [
            "Content-Type": "application/x-ndjson", "Content-Disposition": "attachment; filename=\"trace-\(trace.id).ndjson\"",
        ]
        guard call.request.method != .head else { return call.answer(HTTPResponse(.ok, fields: fields)) }
        let reader = TraceReader(
            trace, .lines(end: trace.byteCount), from: 0, StreamRight(call), address: call.origin.address, now: call.startedAt)
        trace.read(reader)
        call.answer(HTTPResponse(.ok, fields: fields, body: .stream(reader.stream)))
    }

    private func checkPayloads(_ call: Call) throws(APIError) {
        guard administration.maySeePayloads(call.who) else {
            throw APIError(.forbidden, "Payloads are not shown; see martlet_http_payloads.")
        }
    }
}

extension Limits {
    /// How long a trace runs where nothing is said, in milliseconds.
    static let traceMilliseconds: UInt64 = 10 * 60_000

    /// How long a trace may run, in milliseconds: a later end is refused.
    static let traceMillisecondsMax: UInt64 = 24 * 3_600_000

    /// Bytes of a payload that a trace shows where nothing is said.
    static let tracePayloadBytes = 1024

    /// Bytes of a payload that a trace may show: more are refused.
    static let tracePayloadBytesMax = 16_384
}
