public import BrokerModel
internal import HTTP
internal import JSON
internal import MQTTCodec

/// Traces of clients, addresses and topics.
extension Administration {
    // MARK: What is recorded

    /// A shard has recorded something: it is written down, and the shard may bring more.
    public func record(_ batch: TraceBatch, at now: Moment) {
        let offset = broker.wallClockOffset
        for trace in traces where trace.state == .running {
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
        settleTraces()
    }

    /// Ends what has had its time.
    func tickTraces(_ now: Moment) {
        for trace in traces {
            if trace.until <= now.wallMilliseconds { trace.end(.ended) }
            trace.tick(now)
        }
        settleTraces()
    }

    /// Has the shards end what has ended here; a trace that is forgotten goes when they have.
    private func settleTraces() {
        for trace in traces where trace.state != .running && !trace.isEnding && !trace.shards.isEmpty {
            trace.isEnding = true
            var missing = trace.shards.count
            for shard in trace.shards.sorted() {
                broker.order(ShardOrder(.endTrace(trace.number)), to: shard) { [self] outcome in
                    // One that had too much to do is told again with the next tick.
                    if outcome != nil { trace.shards.remove(shard) }
                    missing -= 1
                    if missing == 0 { trace.isEnding = false }
                    traces.removeAll { $0.isForgotten && $0.shards.isEmpty }
                }
            }
        }
    }

    // MARK: Routes

    private var knownTraces: [Trace] { traces.filter { !$0.isForgotten } }

    private func trace(_ call: Call) throws(APIError) -> Trace {
        guard let trace = knownTraces.first(where: { $0.id == call.path["id"] }) else { throw .notFound("trace") }
        return trace
    }

    func listTraces(_ call: Call) throws(APIError) {
        answer(call, page: knownTraces.map(\.json), cursor: nil, count: knownTraces.count)
    }

    func getTrace(_ call: Call) throws(APIError) { call.answer(try trace(call).json) }

    func addTrace(_ call: Call) throws(APIError) {
        let body = try call.body("clientid", "topic", "address", "until", "payload", "payload_limit")
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
        guard let number = freeTraceNumber() else {
            throw APIError(.conflict, "There are \(Limits.tracesMax) traces already, the maximum: delete one.")
        }
        guard let file = broker.makeTraceFile() else {
            throw APIError(.serviceUnavailable, "No file can be created for the trace; the log says why.")
        }
        lastTraceNumber += 1
        let trace = Trace(
            id: "\(lastTraceNumber)", number: number, subject, payload: payload, payloadLimit: limit, from: now, until: until,
            shards: broker.shardCount, file: file)
        traces.append(trace)
        let wish = TraceWish(number: number, subject.subject, payloadBytesMax: payload == .none ? 0 : limit)
        orderAll(.beginTrace(wish)) { [self] outcomes in
            guard outcomes.allSatisfy({ $0 == .done }) else {
                trace.forget()
                settleTraces()
                return call.fail(.unavailable)
            }
            call.answer(trace.json, status: .created)
        }
    }

    /// A place for another trace: one that is free, or that of the trace that ended first.
    private func freeTraceNumber() -> Int? {
        func free() -> Int? { (0..<Limits.tracesMax).first { number in !traces.contains { $0.number == number } } }
        if let number = free() { return number }
        guard let oldest = knownTraces.first(where: { $0.state != .running && $0.shards.isEmpty }) else { return nil }
        oldest.forget()
        traces.removeAll { $0 === oldest }
        return free()
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
        trace.forget()
        if trace.shards.isEmpty { traces.removeAll { $0 === trace } }
        settleTraces()
        call.answer(HTTPResponse(.noContent))
    }

    func streamTrace(_ call: Call) throws(APIError) {
        let trace = try trace(call)
        if trace.payload != .none { try checkPayloads(call) }
        try checkStreams(of: call.origin.address)
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
        try checkStreams(of: call.origin.address)
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
        guard maySeePayloads(call.who) else {
            throw APIError(.forbidden, "Payloads are not shown; see martlet_http_payloads.")
        }
    }
}
