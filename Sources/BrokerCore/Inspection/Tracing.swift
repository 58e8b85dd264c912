import BrokerModel
import Bytes
import MQTTCodec

/// Recording what goes to and from chosen clients, and what becomes of the messages of chosen topics.
///
/// ```
///   order ─► Tracer ◄─ connections that are marked, and topics of `ObservedTopics`
///              └──► records, bounded ─► Effect.traced, one batch at a time ─► tracesTaken()
/// ```
/// A connection that is not traced costs one look at a mark that lies beside what is looked at anyway, for each packet
/// and each write.
struct Tracing {
    let shard: BrokerShard

    /// Hands out what was recorded.
    @inline(never)
    func giveTraces() {
        if let batch = shard.inspection.tracer?.takeBatch(of: shard.index) { shard.effects.append(.traced(batch)) }
    }

    /// Gives the recorded traces, whether or not the last batch has been written down: what another shard records from
    /// now on comes behind them.
    func giveTracesNow() {
        shard.inspection.tracer?.batchTaken()
        giveTraces()
    }

    // MARK: Beginning and ending

    func beginTrace(_ wish: TraceWish) {
        let tracer = shard.inspection.tracer ?? Tracer()
        shard.inspection.tracer = tracer
        endTrace(wish.number)
        shard.inspection.tracer = tracer
        tracer.add(wish)
        switch wish.subject {
        case .topic(let filter): shard.topicMetrics.changeObserved { $0.addTrace(wish.number, filter) }
        case .client(let name): if let connection = shard.sessions.find(name)?.connection?.object { mark(connection) }
        // Those that are there are looked through.
        case .address: break
        }
    }

    /// Looks at some of the connections that are there when a trace of addresses begins.
    ///
    /// - Returns: whether all have been looked at.
    func markConnections(from place: inout Int, _ steps: inout Int) -> Bool {
        while place < shard.connections.slotEnd, steps > 0 {
            steps -= 1
            if let connection = shard.connections.connection(at: place) { markIfTraced(connection) }
            place += 1
        }
        return place >= shard.connections.slotEnd
    }

    /// - Returns: false if there is none.
    @discardableResult
    func endTrace(_ number: Int) -> Bool {
        guard let subject = shard.inspection.tracer?.remove(number) else { return false }
        if case .topic(let filter) = subject { shard.topicMetrics.changeObserved { $0.removeTrace(number, filter) } }
        // What it has recorded comes before the word that it has ended.
        giveTracesNow()
        if shard.inspection.tracer?.isEmpty ?? false { shard.inspection.tracer = nil }
        return true
    }

    /// Marks a connection whose packets somebody wants to see, once it is known whose it is.
    func markIfTraced(_ connection: Connection) {
        guard let tracer = shard.inspection.tracer, !connection.isTraced else { return }
        if tracer.numbers(of: Self.clientIdentifier(of: connection), at: connection.info.address) != 0 { mark(connection) }
    }

    /// Marks a connection whose CONNECT has just come if it is traced, and records that packet too.
    func markIfTraced(_ connection: Connection, connect packet: ConnectPacket) {
        let hidesUserName = hidesUserName(of: connection)
        guard shard.inspection.tracer != nil, hidesUserName || !connection.isTraced else { return }
        markIfTraced(connection)
        guard connection.isTraced else { return }
        var shown = packet
        if hidesUserName { shown.userName = packet.userName?.tokenFingerprint }
        let bytes = ControlPacket.connect(shown).encoded(version: packet.version)
        bytes.withUnsafeBytes { bytes in
            guard case .packet(let firstByte, let header, _) = FrameScan.scan(bytes) else { return }
            recordReceived(firstByte, UnsafeRawBufferPointer(rebasing: bytes[header...]), connection)
        }
    }

    private func hidesUserName(of connection: Connection) -> Bool {
        shard.settings.policy(of: connection.info.listener).hidesUserNames
    }

    private func mark(_ connection: Connection) {
        guard let tracer = shard.inspection.tracer, !connection.isTraced else { return }
        connection.isTraced = true
        let waiting = connection.output.pendingBytes
        tracer.frames[connection.id] = OutgoingFrames(skipping: waiting)
        guard waiting > 0 else { return }
        record(.outputWaits(Self.clientIdentifier(of: connection), connection.info, byteCount: waiting), of: connection)
    }

    /// The traces of a marked connection; 0, and its mark is taken off, when they have ended.
    private func traces(of connection: Connection) -> UInt8 {
        let numbers = shard.inspection.tracer?.numbers(of: Self.clientIdentifier(of: connection), at: connection.info.address) ?? 0
        if numbers == 0 { unmark(connection) }
        return numbers
    }

    /// A marked connection is no more, or its traces are not.
    @inline(never)
    func unmark(_ connection: Connection) {
        connection.isTraced = false
        shard.inspection.tracer?.frames[connection.id] = nil
    }

    private static func clientIdentifier(of connection: Connection) -> EncodedString? {
        if let session = connection.session { return session.clientIdentifier }
        return connection.extras?.pendingConnect.flatMap { $0.clientIdentifier.isEmpty ? nil : $0.clientIdentifier }
    }

    private func record(_ event: TraceRecord.Event, of connection: Connection, byteCount: Int = 0) {
        shard.inspection.tracer?.add(event, to: traces(of: connection), at: shard.now, byteCount: byteCount)
    }

    // MARK: Packets

    @inline(never)
    func traceReceived(_ firstByte: UInt8, _ body: UnsafeRawBufferPointer, _ connection: Connection) {
        // A CONNECT whose user name is hidden is recorded when it has been read.
        if firstByte >> 4 == PacketType.connect.rawValue, hidesUserName(of: connection) { return }
        recordReceived(firstByte, body, connection)
    }

    private func recordReceived(_ firstByte: UInt8, _ body: UnsafeRawBufferPointer, _ connection: Connection) {
        let kept = body.prefix(shard.inspection.tracer?.bodyBytesMax ?? 0)
        tracePacket(isFromClient: true, firstByte, body.count, Array(kept), connection)
    }

    /// - Parameter count: how many of the bytes in `slices` the transport has taken.
    @inline(never)
    func traceSent(_ count: Int, _ connection: Connection) {
        guard let tracer = shard.inspection.tracer, traces(of: connection) != 0,
            var frames = tracer.frames.removeValue(forKey: connection.id)
        else { return }
        var (left, position) = (count, 0)
        while left > 0 {
            let part = min(left, shard.output.slices[position].count)
            let bytes = UnsafeRawBufferPointer(start: shard.output.slices[position].base, count: part)
            frames.take(bytes, bodyBytesMax: tracer.bodyBytesMax) { firstByte, length, body in
                tracePacket(isFromClient: false, firstByte, length, Array(body), connection)
            }
            (left, position) = (left - part, position + 1)
        }
        tracer.frames[connection.id] = frames
    }

    private func tracePacket(
        isFromClient: Bool, _ firstByte: UInt8, _ bodyLength: Int, _ body: [UInt8], _ connection: Connection
    ) {
        let packet = TracedPacket(
            isFromClient: isFromClient, clientIdentifier: Self.clientIdentifier(of: connection), info: connection.info,
            version: connection.version, firstByte: firstByte, bodyLength: bodyLength, body: body)
        record(.packet(packet), of: connection, byteCount: body.count)
    }

    @inline(never)
    func traceEnd(of connection: Connection, _ reason: ReasonCode?, _ words: String) {
        record(.ended(Self.clientIdentifier(of: connection), connection.info, reason, words: words), of: connection)
    }

    // MARK: Messages

    /// A message of a traced topic has been published on this shard.
    func tracePublished(_ publication: borrowing Publication, to numbers: UInt8, isUnmatched: Bool) {
        guard let tracer = shard.inspection.tracer else { return }
        let payload = Array(publication.payload.prefix(tracer.payloadBytes(of: numbers)))
        let name = publication.sender?.with { $0.clientIdentifier }
        func add(_ fate: TracedMessage.Fate, _ payload: [UInt8]) {
            let message = TracedMessage(
                fate: fate, topic: Self.traced(publication.topic), clientIdentifier: name, qos: publication.qos,
                retain: publication.retain, packetIdentifier: 0, byteCount: publication.payload.count, payload: payload)
            tracer.add(.message(message), to: numbers, at: shard.now, byteCount: message.topic.count + payload.count)
        }
        add(.published, payload)
        if isUnmatched { add(.unmatched, []) }
    }

    /// What becomes of a message for one receiver, if its topic is traced.
    func traceFate(
        _ fate: TracedMessage.Fate, _ publication: borrowing some PublishParts & ~Copyable, qos: QoS, retain: Bool,
        packetIdentifier: UInt16 = 0, for session: Session?
    ) {
        guard let tracer = shard.inspection.tracer,
            let numbers = shard.topicMetrics.observed?.observers(of: publication.topic).traces, numbers != 0
        else {
            return
        }
        let message = TracedMessage(
            fate: fate, topic: Self.traced(publication.topic), clientIdentifier: session?.clientIdentifier, qos: qos,
            retain: retain,
            packetIdentifier: packetIdentifier, byteCount: publication.payload.count, payload: [])
        tracer.add(.message(message), to: numbers, at: shard.now, byteCount: message.topic.count)
    }

    /// What a traced client has lost, or anybody of a traced topic.
    func traceDrop(_ reason: DropReason, _ dropped: DroppedMessage, _ client: EncodedString?) {
        guard let tracer = shard.inspection.tracer else { return }
        let numbers =
            (client.map { tracer.numbers(of: $0) } ?? 0) | (shard.topicMetrics.observed?.observers(of: dropped.topic).traces ?? 0)
        let message = TracedMessage(
            fate: .dropped(reason), topic: Self.traced(dropped.topic), clientIdentifier: client, qos: dropped.qos, retain: false,
            packetIdentifier: 0, byteCount: dropped.byteCount, payload: [])
        tracer.add(.message(message), to: numbers, at: shard.now, byteCount: message.topic.count)
    }

    private static func traced(_ topic: UnsafeRawBufferPointer) -> [UInt8] { Array(topic.prefix(Limits.traceTopicBytesMax)) }
}

/// The traces of a shard, and what they have recorded and nobody has taken yet.
///
/// Recording is an append to a list with bounds; whoever writes it down takes it by batches, one after the other, and
/// what comes while there is no room is counted. Invariants: `records.count <= Limits.traceRecordsMax` and
/// `byteCount <= Limits.traceBytesMax`; `frames` has a row for a traced connection only. Belongs to a shard, and is
/// there only while there is a trace.
final class Tracer {
    private(set) var traces: [TraceWish] = []
    /// The packets on their way out, by connection.
    var frames: [ConnectionID: OutgoingFrames] = [:]
    private var records: [TraceRecord] = []
    private var byteCount = 0
    private var lost: [UInt64] = Array(repeating: 0, count: SharedLimits.tracesMax)
    private var hasLost = false
    /// Whether a batch is on its way.
    private var isAway = false

    var isEmpty: Bool { traces.isEmpty }

    /// Bytes of a packet's body that are recorded.
    private(set) var bodyBytesMax = Limits.traceHeadBytesMax

    func add(_ wish: TraceWish) {
        traces.append(wish)
        measure()
    }

    /// - Returns: what it was of; nil if there is none with the number.
    func remove(_ number: Int) -> TraceSubject? {
        guard let place = traces.firstIndex(where: { $0.number == number }) else { return nil }
        defer { measure() }
        return traces.remove(at: place).subject
    }

    private func measure() { bodyBytesMax = Limits.traceHeadBytesMax + (traces.map(\.payloadBytesMax).max() ?? 0) }

    /// The traces of a connection, a bit each.
    func numbers(of client: EncodedString?, at address: String) -> UInt8 {
        var numbers: UInt8 = 0
        for trace in traces {
            let isMeant =
                switch trace.subject {
                case .client(let name): name == client
                case .address(let range): range.contains(address)
                case .topic: false
                }
            if isMeant { numbers |= 1 << UInt8(trace.number) }
        }
        return numbers
    }

    /// The traces of a client, a bit each.
    func numbers(of client: EncodedString) -> UInt8 {
        traces.reduce(0) { $1.subject == .client(client) ? $0 | 1 << UInt8($1.number) : $0 }
    }

    /// Bytes of a payload that some of these traces want.
    func payloadBytes(of numbers: UInt8) -> Int {
        traces.reduce(0) { numbers & 1 << UInt8($1.number) == 0 ? $0 : max($0, $1.payloadBytesMax) }
    }

    func add(_ event: TraceRecord.Event, to numbers: UInt8, at now: UInt64, byteCount: Int) {
        guard numbers != 0 else { return }
        guard !hasLost, records.count < Limits.traceRecordsMax, self.byteCount + byteCount <= Limits.traceBytesMax else {
            hasLost = true
            for number in 0..<SharedLimits.tracesMax where numbers & 1 << UInt8(number) != 0 { lost[number] += 1 }
            return
        }
        self.byteCount += byteCount
        records.append(TraceRecord(traces: numbers, at: now, event: event))
    }

    /// What there is, if the last batch was taken.
    func takeBatch(of shard: Int) -> TraceBatch? {
        guard !isAway, !records.isEmpty || hasLost else { return nil }
        defer {
            records = []
            byteCount = 0
            if hasLost { lost = Array(repeating: 0, count: SharedLimits.tracesMax) }
            hasLost = false
            isAway = true
        }
        return TraceBatch(shard: shard, records: records, lost: hasLost ? lost : [])
    }

    /// The last batch has been written down.
    func batchTaken() { isAway = false }

    /// Traps where the invariants do not hold.
    func checkInvariants() {
        precondition(records.count <= Limits.traceRecordsMax && byteCount <= Limits.traceBytesMax, "a trace has outgrown its room")
    }
}

/// Finds the packets in what is written to a connection, however it is cut.
///
/// `head` holds the first bytes of the packet that is being written: its fixed header and as much of its body as is
/// wanted.
struct OutgoingFrames {
    /// Bytes that are written before the first packet begins that is looked at.
    private var skipped: Int
    private var head: [UInt8] = []
    /// How many bytes of the packet have been written.
    private var seen = 0
    /// The lengths of its fixed header and of all of it; 0 before they are known.
    private var headerLength = 0
    private var length = 0

    init(skipping byteCount: Int) { skipped = byteCount }

    /// - Parameters:
    ///   - bodyBytesMax: how many bytes of a body are kept.
    ///   - body: gets each packet that is complete: the first byte, the length of the body, and its first bytes.
    mutating func take(_ bytes: UnsafeRawBufferPointer, bodyBytesMax: Int, _ body: (UInt8, Int, ArraySlice<UInt8>) -> Void) {
        var place = min(skipped, bytes.count)
        skipped -= place
        while place < bytes.count {
            if length == 0 {
                head.append(bytes[place])
                (place, seen) = (place + 1, seen + 1)
                guard case .packet(_, let header, let rest) = head.withUnsafeBytes(FrameScan.scan) else { continue }
                (headerLength, length) = (header, header + rest)
            }
            let count = min(length - seen, bytes.count - place)
            let kept = min(count, max(0, headerLength + bodyBytesMax - head.count))
            head.append(contentsOf: bytes[place..<place + kept])
            (place, seen) = (place + count, seen + count)
            guard seen == length else { return }
            body(head[0], length - headerLength, head[headerLength...])
            head.removeAll(keepingCapacity: head.capacity <= Limits.traceHeadBytesMax)
            (seen, headerLength, length) = (0, 0, 0)
        }
    }
}

extension Tracer: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { shard.inspection.tracer != nil }
    static func step(_ shard: BrokerShard) { shard.tracing.giveTraces() }
    /// Never: records of a turn are handed out in the same turn, or when the batch before them has been taken.
    static func deadline(_ shard: BrokerShard) -> UInt64? { nil }
}

extension Limits {
    /// Bytes of a packet besides its payload in a trace: the rest is left out.
    static let traceHeadBytesMax = 2048

    /// Bytes of a topic in a trace's line about a message: the rest is left out.
    static let traceTopicBytesMax = 1024

    /// Records of traces that wait to be taken: more are counted as lost. Bytes: `traceBytesMax`.
    static let traceRecordsMax = 4096

    /// Bytes of packets and topics in these records: more are counted as lost.
    static let traceBytesMax = 1 << 20
}

extension BrokerShard {
    /// The last batch of `Effect.traced` has been written down: another one may follow.
    public func tracesTaken() { inspection.tracer?.batchTaken() }
}
