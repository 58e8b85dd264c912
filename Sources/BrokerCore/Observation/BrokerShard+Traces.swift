import BrokerModel
import Bytes
import MQTTCodec

/// Recording what goes to and from chosen clients, and what becomes of the messages of chosen topics.
///
/// ```
///   order ─► Tracer ◄─ connections that are marked, and topics of `ObservedTopics`
///              └──► records, bounded ─► Effect.traced, one batch at a time ─► tracesTaken()
/// ```
/// A connection that is not traced costs one look at a mark that lies beside what is looked at anyway, for each packet and each write.
extension BrokerShard {
    /// The last batch of `Effect.traced` has been written down: another one may follow.
    public func tracesTaken() { tracer?.batchTaken() }

    /// Hands out what was recorded.
    @inline(never)
    func giveTraces() {
        if let batch = tracer?.takeBatch(of: index) { effects.append(.traced(batch)) }
    }

    /// Gives the recorded traces, whether or not the last batch has been written down: what another shard records from
    /// now on comes behind them.
    func giveTracesNow() {
        tracer?.batchTaken()
        giveTraces()
    }

    // MARK: Beginning and ending

    func beginTrace(_ wish: TraceWish) {
        let tracer = tracer ?? Tracer()
        self.tracer = tracer
        endTrace(wish.number)
        self.tracer = tracer
        tracer.add(wish)
        switch wish.subject {
        case .topic(let filter): changeObserved { $0.addTrace(wish.number, filter) }
        case .client(let name): if let connection = sessions.find(name)?.connection?.object { mark(connection) }
        // Those that are there are looked through.
        case .address: break
        }
    }

    /// Looks at some of the connections that are there when a trace of addresses begins.
    ///
    /// - Returns: whether all have been looked at.
    func markConnections(from place: inout Int, _ steps: inout Int) -> Bool {
        while place < connections.slotEnd, steps > 0 {
            steps -= 1
            if let connection = connections.connection(at: place) { markIfTraced(connection) }
            place += 1
        }
        return place >= connections.slotEnd
    }

    /// - Returns: false if there is none.
    @discardableResult
    func endTrace(_ number: Int) -> Bool {
        guard let subject = tracer?.remove(number) else { return false }
        if case .topic(let filter) = subject { changeObserved { $0.removeTrace(number, filter) } }
        // What it has recorded comes before the word that it has ended.
        giveTracesNow()
        if tracer?.isEmpty ?? false { tracer = nil }
        return true
    }

    /// Marks a connection whose packets somebody wants to see, once it is known whose it is.
    func markIfTraced(_ connection: Connection) {
        guard let tracer, !connection.isTraced else { return }
        if tracer.numbers(of: Self.clientIdentifier(of: connection), at: connection.info.address) != 0 { mark(connection) }
    }

    /// Marks a connection whose CONNECT has just come if it is traced, and records that packet too.
    func markIfTraced(_ connection: Connection, connect packet: ConnectPacket) {
        guard tracer != nil, !connection.isTraced else { return }
        markIfTraced(connection)
        guard connection.isTraced else { return }
        let bytes = ControlPacket.connect(packet).encoded(version: packet.version)
        bytes.withUnsafeBytes { bytes in
            guard case .packet(let firstByte, let header, _) = FrameScan.scan(bytes) else { return }
            traceReceived(firstByte, UnsafeRawBufferPointer(rebasing: bytes[header...]), connection)
        }
    }

    private func mark(_ connection: Connection) {
        guard let tracer, !connection.isTraced else { return }
        connection.isTraced = true
        let waiting = connection.output.pendingBytes
        tracer.frames[connection.id] = OutgoingFrames(skipping: waiting)
        guard waiting > 0 else { return }
        record(.outputWaits(Self.clientIdentifier(of: connection), connection.info, byteCount: waiting), of: connection)
    }

    /// The traces of a marked connection; 0, and its mark is taken off, when they have ended.
    private func traces(of connection: Connection) -> UInt8 {
        let numbers = tracer?.numbers(of: Self.clientIdentifier(of: connection), at: connection.info.address) ?? 0
        if numbers == 0 { unmark(connection) }
        return numbers
    }

    /// A marked connection is no more, or its traces are not.
    @inline(never)
    func unmark(_ connection: Connection) {
        connection.isTraced = false
        tracer?.frames[connection.id] = nil
    }

    private static func clientIdentifier(of connection: Connection) -> EncodedString? {
        if let session = connection.session { return session.clientIdentifier }
        return connection.extras?.pendingConnect.flatMap { $0.clientIdentifier.isEmpty ? nil : $0.clientIdentifier }
    }

    private func record(_ event: TraceRecord.Event, of connection: Connection, byteCount: Int = 0) {
        tracer?.add(event, to: traces(of: connection), at: now, byteCount: byteCount)
    }

    // MARK: Packets

    @inline(never)
    func traceReceived(_ firstByte: UInt8, _ body: UnsafeRawBufferPointer, _ connection: Connection) {
        let kept = body.prefix(tracer?.bodyBytesMax ?? 0)
        tracePacket(isFromClient: true, firstByte, body.count, Array(kept), connection)
    }

    /// - Parameter count: how many of the bytes in `slices` the transport has taken.
    @inline(never)
    func traceSent(_ count: Int, _ connection: Connection) {
        guard let tracer, traces(of: connection) != 0, var frames = tracer.frames.removeValue(forKey: connection.id) else { return }
        var (left, position) = (count, 0)
        while left > 0 {
            let part = min(left, slices[position].count)
            let bytes = UnsafeRawBufferPointer(start: slices[position].base, count: part)
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
        guard let tracer else { return }
        let payload = Array(publication.payload.prefix(tracer.payloadBytes(of: numbers)))
        let name = publisherName(publication.publisher)
        func add(_ fate: TracedMessage.Fate, _ payload: [UInt8]) {
            let message = TracedMessage(
                fate: fate, topic: Self.traced(publication.topic), clientIdentifier: name, qos: publication.qos,
                retain: publication.retain, packetIdentifier: 0, byteCount: publication.payload.count, payload: payload)
            tracer.add(.message(message), to: numbers, at: now, byteCount: message.topic.count + payload.count)
        }
        add(.published, payload)
        if isUnmatched { add(.unmatched, []) }
    }

    /// Whoever sends a packet just now, or whose will it is.
    private func publisherName(_ key: UInt64) -> EncodedString? {
        if key == 0 { return nil }
        if let session = connections.find(receivingFrom)?.session, session.publisherKey == key { return session.clientIdentifier }
        return tracer?.publishing.flatMap { $0.key == key ? $0.name : nil }
    }

    /// What becomes of a message for one receiver, if its topic is traced.
    func traceFate(
        _ fate: TracedMessage.Fate, _ publication: borrowing some PublishParts & ~Copyable, qos: QoS, retain: Bool,
        packetIdentifier: UInt16 = 0, for session: Session?
    ) {
        guard let tracer, let numbers = observed?.observers(of: publication.topic).traces, numbers != 0 else { return }
        let message = TracedMessage(
            fate: fate, topic: Self.traced(publication.topic), clientIdentifier: session?.clientIdentifier, qos: qos,
            retain: retain,
            packetIdentifier: packetIdentifier, byteCount: publication.payload.count, payload: [])
        tracer.add(.message(message), to: numbers, at: now, byteCount: message.topic.count)
    }

    /// What a traced client has lost, or anybody of a traced topic.
    func traceDrop(_ reason: DropReason, _ dropped: DroppedMessage, _ client: EncodedString?) {
        guard let tracer else { return }
        let numbers = (client.map { tracer.numbers(of: $0) } ?? 0) | (observed?.observers(of: dropped.topic).traces ?? 0)
        let message = TracedMessage(
            fate: .dropped(reason), topic: Self.traced(dropped.topic), clientIdentifier: client, qos: dropped.qos, retain: false,
            packetIdentifier: 0, byteCount: dropped.byteCount, payload: [])
        tracer.add(.message(message), to: numbers, at: now, byteCount: message.topic.count)
    }

    private static func traced(_ topic: UnsafeRawBufferPointer) -> [UInt8] { Array(topic.prefix(Limits.traceTopicBytesMax)) }
}
