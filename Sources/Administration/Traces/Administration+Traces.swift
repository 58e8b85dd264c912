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

/// What a shard has recorded, as a line of a trace.
struct TraceLine {
    let record: TraceRecord
    /// Milliseconds since 1970 at the zero of the shard's clock.
    let wallClockOffset: UInt64
    let payload: Trace.Payload
    let payloadLimit: Int
    let listener: (Int) -> String?

    var json: JSONObject {
        var object = begun("packet")
        switch record.event {
        case .packet(let packet):
            describe(packet, in: &object)
        case .message(let message):
            object = begun("message")
            describe(message, in: &object)
        case .ended(let client, let info, let reason, let words):
            object = begun("closed")
            object.set("clientid", orNull: client?.description)
            describe(info, in: &object)
            object.set("reason_code", orNull: reason?.rawValue)
            object.set("reason", words)
        case .outputWaits(let client, let info, let byteCount):
            object = begun("waiting")
            object.set("clientid", orNull: client?.description)
            describe(info, in: &object)
            object.set("bytes", byteCount)
        }
        return object
    }

    private func begun(_ type: String) -> JSONObject { Self.begun(type, at: record.at &+ wallClockOffset) }

    private static func begun(_ type: String, at wallTime: UInt64) -> JSONObject {
        var object = JSONObject()
        object.set("at", Timestamp.text(wallTime))
        object.set("type", type)
        return object
    }

    /// So many lines are missing here.
    static func lost(_ count: UInt64, at wallTime: UInt64) -> JSONObject {
        var object = begun("lost", at: wallTime)
        object.set("count", count)
        return object
    }

    private func describe(_ info: ConnectionInfo, in object: inout JSONObject) {
        object.set("address", info.address)
        object.set("port", info.port)
        object.set("listener", orNull: listener(info.listener))
    }

    // MARK: Packets

    private func describe(_ packet: TracedPacket, in object: inout JSONObject) {
        let type = PacketType(rawValue: packet.firstByte >> 4)
        object.set("direction", packet.isFromClient ? "in" : "out")
        object.set("packet", type?.name ?? "RESERVED")
        object.set("clientid", orNull: packet.clientIdentifier?.description)
        object.set("address", packet.info.address)
        object.set("bytes", packet.bodyLength)
        packet.body.withUnsafeBytes { body in
            if type == .publish {
                describe(publish: body, packet, in: &object)
            } else if packet.body.count == packet.bodyLength, let decoded = decoded(body, packet) {
                describe(decoded, in: &object)
            } else {
                object.set("error", packet.body.count < packet.bodyLength ? "too long to be shown" : "malformed")
            }
        }
    }

    private func decoded(_ body: UnsafeRawBufferPointer, _ packet: TracedPacket) -> ControlPacket? {
        try? ControlPacket.decode(
            firstByte: packet.firstByte, body: body, version: packet.version, from: packet.isFromClient ? .client : .server)
    }

    /// Also if the end of its payload was not recorded.
    private func describe(publish body: UnsafeRawBufferPointer, _ packet: TracedPacket, in object: inout JSONObject) {
        let view: PublishView
        do throws(WireError) {
            view = try PublishView.decode(
                firstByte: packet.firstByte, body: body, version: packet.version, from: packet.isFromClient ? .client : .server)
        } catch {
            return object.set("error", packet.body.count < packet.bodyLength ? "too long to be shown" : "\(error.explanation)")
        }
        object.set("topic", Administration.text(view.topic))
        if view.topicAlias > 0 { object.set("topic_alias", view.topicAlias) }
        if view.qos > .atMostOnce { object.set("packet_id", view.packetIdentifier) }
        object.set("qos", view.qos.rawValue)
        object.set("retain", view.retain)
        object.set("dup", view.duplicate)
        let missing = packet.bodyLength - packet.body.count
        object.set("payload_bytes", view.payload.count + missing)
        // A command may hold a password; behind a Topic Alias alone there may be one.
        guard !view.topic.starts(with: "$CONTROL/".utf8), !(view.topic.isEmpty && packet.isFromClient) else { return }
        show(view.payload, in: &object)
    }

    /// Passwords and data of an authentication are nobody's business.
    private func describe(_ packet: ControlPacket, in object: inout JSONObject) {
        switch packet {
        case .connect(let connect):
            object.set("proto_ver", connect.version.rawValue)
            object.set("clean_start", connect.cleanStart)
            object.set("keepalive_s", connect.keepAliveSeconds)
            object.set("username", orNull: connect.userName?.description)
            object.set("session_expiry_s", orNull: connect.properties.sessionExpiryInterval)
            if let will = connect.will {
                object.set("will_topic", "\(will.topic)")
                object.set("will_qos", will.qos.rawValue)
                object.set("will_bytes", will.payload.count)
            }
        case .connack(let connack):
            object.set("session_present", connack.sessionPresent)
            object.set(
                "reason_code", connack.reasonCode == .success ? UInt8(connack.returnCode.rawValue) : connack.reasonCode.rawValue)
            if let words = connack.properties.reasonString { object.set("reason", "\(words)") }
        case .acknowledgement(let acknowledgement):
            object.set("packet_id", acknowledgement.packetIdentifier)
            object.set("reason_code", acknowledgement.reasonCode.rawValue)
            if let words = acknowledgement.properties.reasonString { object.set("reason", "\(words)") }
        case .subscribe(let subscribe):
            object.set("packet_id", subscribe.packetIdentifier)
            object.set("filters", subscribe.subscriptions.map { "\($0.filter)" })
            object.set("qos", subscribe.subscriptions.map(\.options.maximumQoS.rawValue))
        case .suback(let suback):
            object.set("packet_id", suback.packetIdentifier)
            object.set("reason_codes", suback.reasonCodes.map(\.rawValue))
        case .unsubscribe(let unsubscribe):
            object.set("packet_id", unsubscribe.packetIdentifier)
            object.set("filters", unsubscribe.filters.map { "\($0)" })
        case .unsuback(let unsuback):
            object.set("packet_id", unsuback.packetIdentifier)
            object.set("reason_codes", unsuback.reasonCodes.map(\.rawValue))
        case .disconnect(let disconnect):
            object.set("reason_code", disconnect.reasonCode.rawValue)
            if let words = disconnect.properties.reasonString { object.set("reason", "\(words)") }
        case .auth(let auth):
            object.set("reason_code", auth.reasonCode.rawValue)
            object.set("method", orNull: auth.properties.authenticationMethod?.description)
        case .pingreq, .pingresp, .publish: return
        }
    }

    // MARK: Messages

    private func describe(_ message: TracedMessage, in object: inout JSONObject) {
        object.set("what", message.fate.word)
        if case .dropped(let reason) = message.fate { object.set("reason", reason.label) }
        object.set("clientid", orNull: message.clientIdentifier?.description)
        object.set("topic", Administration.text(message.topic))
        object.set("qos", message.qos.rawValue)
        object.set("retain", message.retain)
        if message.packetIdentifier > 0 { object.set("packet_id", message.packetIdentifier) }
        object.set("payload_bytes", message.byteCount)
        if message.fate == .published { message.payload.withUnsafeBytes { show($0, in: &object) } }
    }

    private func show(_ bytes: UnsafeRawBufferPointer, in object: inout JSONObject) {
        let shown = bytes.prefix(payloadLimit)
        switch payload {
        case .none: return
        case .text: object.set("payload", String(decoding: shown, as: UTF8.self))
        case .hex: object.set("payload", shown.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined())
        }
    }
}

extension TracedMessage.Fate {
    fileprivate var word: String {
        switch self {
        case .published: "published"
        case .unmatched: "unmatched"
        case .sent: "sent"
        case .queued: "queued"
        case .missed: "missed"
        case .own: "own"
        case .dropped: "dropped"
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
