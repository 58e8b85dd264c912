import Bytes
public import MQTTCodec

/// A message as the cluster's log has it, where it lies: the pointers are valid during the call that is given it.
///
///     flags │ [milliseconds left] │ [publisher 8]
///       │ [hops │ [name before 8] │ count │ (node 8 │ group 8 │ member)*]
///       │ topic's length │ topic │ properties' length │ properties │ payload
///
/// Numbers without a size are variable integers. Flags: bits 0–1 QoS, 2 retain, 3 it expires, 4 it has a publisher, 5
/// it says whose turn it is in share groups, 6 it says its name before.
public struct LogMessage {
    public var topic: UnsafeRawBufferPointer
    /// The properties that travel unaltered, as in PUBLISH of MQTT 5.0, without their length.
    public var properties: UnsafeRawBufferPointer
    public var payload: UnsafeRawBufferPointer
    public var qos: QoS
    public var retain: Bool
    /// Milliseconds that are left of its life; nil if it does not expire. Not a point in time, because the nodes'
    /// clocks differ.
    public var millisecondsLeft: UInt64?
    /// Stands for its publisher's Client Identifier, on all nodes alike; 0 for none.
    public var publisher: UInt64 = 0
    /// The share groups' members whose turn it is.
    public var shares: [LoggedShare] = []
    /// How often nodes have passed it on to others. If it is not 0, it is for the shares alone.
    public var hops: UInt8 = 0
    /// Of one that was passed on, to others or to the node's own members: the name that it had in the log before; then
    /// it is for the shares alone. Else none.
    public var nameBefore = MessageName.none

    /// A message of nobody, for all.
    public init(
        topic: UnsafeRawBufferPointer, properties: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer, qos: QoS,
        retain: Bool = false, millisecondsLeft: UInt64? = nil
    ) {
        (self.topic, self.properties, self.payload) = (topic, properties, payload)
        (self.qos, self.retain, self.millisecondsLeft) = (qos, retain, millisecondsLeft)
    }

    /// The message as a body of an entry.
    public var entry: [UInt8] {
        var bytes: [UInt8] = []
        append(to: &bytes)
        return bytes
    }

    /// Reads what `entry` has made; nil if it is something else, or its topic none. The bytes have to live as long as
    /// the message.
    public init?(entry bytes: UnsafeRawBufferPointer) {
        var reader = EnvelopeReader(bytes)
        guard let flags = reader.byte(), flags & 0b1000_0000 == 0, let qos = QoS(rawValue: flags & 3) else { return nil }
        let none = UnsafeRawBufferPointer(start: nil, count: 0)
        self.init(topic: none, properties: none, payload: none, qos: qos, retain: flags & 4 != 0)
        if flags & 8 != 0 {
            guard let left = reader.integer() else { return nil }
            millisecondsLeft = left
        }
        if flags & 16 != 0 {
            guard let key = reader.fixed64(), key != 0 else { return nil }
            publisher = key
        }
        if flags & 32 != 0 {
            guard let hops = reader.byte() else { return nil }
            self.hops = hops
            if flags & 64 != 0 {
                guard let name = reader.fixed64() else { return nil }
                nameBefore = MessageName(rawValue: name)
            }
            guard let shares = Self.readShares(&reader) else { return nil }
            self.shares = shares
        }
        guard let topic = reader.counted(), let properties = reader.counted(), TopicName.isLegal(topic) else { return nil }
        (self.topic, self.properties, payload) = (topic, properties, reader.rest)
    }

    private static func readShares(_ reader: inout EnvelopeReader) -> [LoggedShare]? {
        guard let count = reader.integer() else { return nil }
        var shares: [LoggedShare] = []
        // Each takes bytes, so that a large count ends where these do.
        for _ in 0..<count {
            guard let node = reader.fixed64(), let group = reader.fixed64(), let member = reader.integer() else { return nil }
            shares.append(LoggedShare(node: node, group: group, member: member))
        }
        return shares
    }

    /// How many bytes `append` writes.
    fileprivate var byteCount: Int {
        var count = 1 + topic.count + properties.count + payload.count
        count += VariableInteger.size(of: UInt64(topic.count)) + VariableInteger.size(of: UInt64(properties.count))
        if let millisecondsLeft { count += VariableInteger.size(of: millisecondsLeft) }
        if publisher != 0 { count += 8 }
        guard !shares.isEmpty else { return count }
        count += 1 + (nameBefore == .none ? 0 : 8) + VariableInteger.size(of: UInt64(shares.count))
        return shares.reduce(count) { $0 + 16 + VariableInteger.size(of: $1.member) }
    }

    fileprivate func append(to bytes: inout [UInt8]) {
        bytes.append(
            qos.rawValue | (retain ? 4 : 0) | (millisecondsLeft == nil ? 0 : 8) | (publisher == 0 ? 0 : 16)
                | (shares.isEmpty ? 0 : nameBefore == .none ? 32 : 32 | 64))
        if let millisecondsLeft { VariableInteger.append(millisecondsLeft, to: &bytes) }
        if publisher != 0 { VariableInteger.append(fixed64: publisher, to: &bytes) }
        if !shares.isEmpty {
            bytes.append(hops)
            if nameBefore != .none { VariableInteger.append(fixed64: nameBefore.rawValue, to: &bytes) }
            VariableInteger.append(UInt64(shares.count), to: &bytes)
            for share in shares {
                VariableInteger.append(fixed64: share.node, to: &bytes)
                VariableInteger.append(fixed64: share.group, to: &bytes)
                VariableInteger.append(share.member, to: &bytes)
            }
        }
        VariableInteger.append(counted: topic, to: &bytes)
        VariableInteger.append(counted: properties, to: &bytes)
        bytes.append(contentsOf: payload)
    }
}

/// The entries of which a record of the cluster's log is made: what they say of messages and sessions. What nodes say
/// there of themselves, the cluster's gateway reads.
///
///     kind │ length │ body
public enum LogEntry {
    /// A `LogMessage` that lasting sessions are interested in.
    public static let messageKind: UInt8 = 1
    /// The will of a session's connection: its length │ Client Identifier │ epoch │ number │ `LogMessage`.
    public static let willKind: UInt8 = 2
    /// What has become of a packet identifier of a session, what a share group has dispatched to it, how far it has
    /// come, what its client subscribes to, or that a node takes it up: its length │ Client Identifier │ `FlowStep`.
    public static let stepKind: UInt8 = 3

    /// Appends a message.
    public static func append(_ message: LogMessage, to bytes: inout [UInt8]) {
        bytes.append(messageKind)
        VariableInteger.append(UInt64(message.byteCount), to: &bytes)
        message.append(to: &bytes)
    }

    /// Appends the will that a session's connection had.
    ///
    /// - Parameters:
    ///   - message: as `LogMessage.entry` makes it.
    ///   - name: of the will.
    ///   - session: its Client Identifier.
    ///   - bytes: where to.
    public static func append(will message: [UInt8], _ name: WillName, of session: [UInt8], to bytes: inout [UInt8]) {
        bytes.append(willKind)
        VariableInteger.appendCounted(to: &bytes) { bytes in
            VariableInteger.append(counted: session, to: &bytes)
            VariableInteger.append(name.epoch, to: &bytes)
            VariableInteger.append(name.number, to: &bytes)
            bytes += message
        }
    }

    /// Appends a step of the session with this Client Identifier.
    public static func append(_ step: FlowStep, of session: UnsafeRawBufferPointer, to bytes: inout [UInt8]) {
        bytes.append(stepKind)
        VariableInteger.appendCounted(to: &bytes) { bytes in
            VariableInteger.append(counted: session, to: &bytes)
            append(step, to: &bytes)
        }
    }

    /// epoch │ number │ packet identifier │ kind │ [digest, name 8, progress, subscription, or filter] │ 2 for each
    /// identifier whose flow has ended
    ///
    ///     progress: streams │ partitions │ record of each │ 0, or the record before subscriptions and 1 │ receipts
    ///       │ (packet identifier │ digest)*
    ///     subscription: 1 if it wants retained messages, else 0 │ terms │ filter's length │ filter
    private static func append(_ step: FlowStep, to bytes: inout [UInt8]) {
        VariableInteger.append(step.place.epoch, to: &bytes)
        VariableInteger.append(step.place.number, to: &bytes)
        VariableInteger.append(UInt64(step.packetIdentifier), to: &bytes)
        switch step.kind {
        case .mark: bytes.append(0)
        case .received(let digest):
            bytes.append(1)
            VariableInteger.append(UInt64(digest), to: &bytes)
        case .released: bytes.append(2)
        case .sent(let name):
            bytes.append(3)
            VariableInteger.append(fixed64: name.rawValue, to: &bytes)
        case .acknowledged: bytes.append(4)
        case .dispatched(let name):
            bytes.append(5)
            VariableInteger.append(fixed64: name.rawValue, to: &bytes)
        case .progress(let progress):
            bytes.append(6)
            append(progress, to: &bytes)
        case .subscribed(let subscription):
            bytes += [7, subscription.wantsRetained ? 1 : 0]
            VariableInteger.append(UInt64(subscription.terms), to: &bytes)
            VariableInteger.append(counted: subscription.filter, to: &bytes)
        case .unsubscribed(let filter):
            bytes.append(8)
            VariableInteger.append(counted: filter, to: &bytes)
        }
        for identifier in step.finished { bytes += [UInt8(identifier >> 8), UInt8(identifier & 0xff)] }
    }

    fileprivate static func readStep(_ reader: inout EnvelopeReader) -> FlowStep? {
        guard let epoch = reader.integer(), let number = reader.integer(),
            let packetIdentifier = reader.integer().flatMap({ UInt16(exactly: $0) }), let code = reader.byte()
        else { return nil }
        let kind: FlowStep.Kind
        switch code {
        case 0: kind = .mark
        case 1:
            guard let digest = reader.integer().flatMap({ UInt32(exactly: $0) }) else { return nil }
            kind = .received(digest: digest)
        case 2: kind = .released
        case 3, 5:
            guard let name = reader.fixed64().map({ MessageName(rawValue: $0) }) else { return nil }
            kind = code == 3 ? .sent(name) : .dispatched(name)
        case 4: kind = .acknowledged
        case 6:
            guard let progress = readProgress(&reader) else { return nil }
            kind = .progress(progress)
        case 7:
            guard let flag = reader.byte(), flag < 2, let terms = reader.integer().flatMap({ UInt32(exactly: $0) }),
                let filter = reader.counted()
            else { return nil }
            kind = .subscribed(SessionSubscription(filter: Array(filter), terms: terms, wantsRetained: flag == 1))
        case 8:
            guard let filter = reader.counted() else { return nil }
            kind = .unsubscribed(filter: Array(filter))
        default: return nil
        }
        // A mark, what was dispatched and what is of the session have no packet identifier, and all others have one.
        guard (packetIdentifier == 0) == (code == 0 || code >= 5) else { return nil }
        var step = FlowStep(kind, packetIdentifier, at: FlowStep.Place(epoch: epoch, number: number))
        guard step.isOfDelivery || reader.isAtEnd else { return nil }
        while !reader.isAtEnd {
            guard let high = reader.byte(), let low = reader.byte() else { return nil }
            step.finished.append(UInt16(high) << 8 | UInt16(low))
        }
        return step
    }

    // MARK: What is of a session as a whole

    private static func append(_ progress: SessionProgress, to bytes: inout [UInt8]) {
        VariableInteger.append(UInt64(progress.streams), to: &bytes)
        VariableInteger.append(UInt64(progress.sequences.count), to: &bytes)
        for sequence in progress.sequences { VariableInteger.append(sequence, to: &bytes) }
        VariableInteger.append(progress.subscriptionsAfter.map { $0 + 1 } ?? 0, to: &bytes)
        VariableInteger.append(UInt64(progress.receipts.count), to: &bytes)
        for receipt in progress.receipts {
            VariableInteger.append(UInt64(receipt.packetIdentifier), to: &bytes)
            VariableInteger.append(UInt64(receipt.digest), to: &bytes)
        }
    }

    private static func readProgress(_ reader: inout EnvelopeReader) -> SessionProgress? {
        guard let streams = reader.integer().flatMap({ UInt32(exactly: $0) }), let count = reader.integer() else { return nil }
        var progress = SessionProgress(sequences: [], streams: streams)
        // Each takes bytes, so that a large count ends where these do.
        for _ in 0..<count {
            guard let sequence = reader.integer() else { return nil }
            progress.sequences.append(sequence)
        }
        guard let after = reader.integer(), let receiptCount = reader.integer() else { return nil }
        progress.subscriptionsAfter = after == 0 ? nil : after - 1
        for _ in 0..<receiptCount {
            guard let packetIdentifier = reader.integer().flatMap({ UInt16(exactly: $0) }), packetIdentifier > 0,
                let digest = reader.integer().flatMap({ UInt32(exactly: $0) })
            else { return nil }
            progress.receipts.append(SessionProgress.Receipt(packetIdentifier: packetIdentifier, digest: digest))
        }
        return progress
    }
}

/// What the entries of a record say of messages and sessions, by where they lie in the record. It ends where one cannot
/// be read.
public struct LogEntries: Sendable {
    /// In their order.
    public private(set) var messages: [LogRecord.Message] = []
    /// In their order.
    public private(set) var steps: [LogRecord.Step] = []
    /// Whose wills are among the messages, in their order.
    public private(set) var wills: [(session: [UInt8], name: WillName)] = []
    /// Whether all could be read.
    public private(set) var isWhole = true

    /// No entry.
    public init() {}

    /// Reads entries that stand one behind the other.
    ///
    /// - Parameters:
    ///   - record: from its begin on.
    ///   - offset: where they begin.
    ///   - others: gets each of another kind, with its body; returns whether it is one.
    public mutating func read(
        _ record: UnsafeRawBufferPointer, from offset: Int, others: (UInt8, UnsafeRawBufferPointer) -> Bool = { _, _ in false }
    ) {
        var reader = EnvelopeReader(UnsafeRawBufferPointer(rebasing: record[offset...]))
        while !reader.isAtEnd {
            guard let kind = reader.byte(), let body = reader.counted() else {
                isWhole = false
                return
            }
            let isRead: Void? =
                switch kind {
                case LogEntry.messageKind: LogMessage(entry: body).map { add($0, in: record) }
                case LogEntry.willKind: readWill(body, in: record)
                case LogEntry.stepKind: readStep(body, in: record)
                default: others(kind, body) ? () : nil
                }
            if isRead == nil { isWhole = false }
        }
    }

    private mutating func add(_ message: LogMessage, isWill: Bool = false, in record: UnsafeRawBufferPointer) {
        guard isWhole else { return }
        var added = LogRecord.Message(
            topic: record.place(of: message.topic), properties: record.place(of: message.properties),
            payload: record.place(of: message.payload), qos: message.qos, retain: message.retain)
        (added.millisecondsLeft, added.publisher, added.isWill) = (message.millisecondsLeft, message.publisher, isWill)
        (added.shares, added.hops, added.nameBefore) = (message.shares, message.hops, message.nameBefore)
        messages.append(added)
    }

    private mutating func readWill(_ body: UnsafeRawBufferPointer, in record: UnsafeRawBufferPointer) -> Void? {
        var reader = EnvelopeReader(body)
        guard let session = reader.counted(), let epoch = reader.integer(), let number = reader.integer(),
            let message = LogMessage(entry: reader.rest)
        else { return nil }
        if isWhole { wills.append((Array(session), WillName(epoch: epoch, number: number))) }
        return add(message, isWill: true, in: record)
    }

    private mutating func readStep(_ body: UnsafeRawBufferPointer, in record: UnsafeRawBufferPointer) -> Void? {
        var reader = EnvelopeReader(body)
        guard let session = reader.counted(), let step = LogEntry.readStep(&reader) else { return nil }
        if isWhole { steps.append(LogRecord.Step(step, of: record.place(of: session))) }
        return ()
    }
}

extension UnsafeRawBufferPointer {
    /// Where a part of these bytes stands.
    fileprivate func place(of part: UnsafeRawBufferPointer) -> Range<Int> {
        guard let base = baseAddress, let start = part.baseAddress else { return 0..<0 }
        return (start - base)..<(start - base + part.count)
    }
}

/// What a shard puts into the cluster's log at the end of a turn: entries as they will stand there, so that whoever
/// speaks to the servers only puts them one behind the other.
///
///     client ── PUBLISH ──► LogBatch, on its shard ──► LogWriter ──► a record
public struct LogBatch: Sendable {
    /// Entries that stand together in one record.
    public struct Part: Sendable {
        /// The partition of the log, from 0.
        public let partition: Int
        /// Whose they are: what has the same publisher keeps its order.
        public let publisher: UInt64
        /// Whether they are a message, and what it says of a packet identifier; else a step alone.
        public let isOfMessage: Bool
        /// Where they stand.
        fileprivate let bytes: Range<Int>
    }

    private var bytes: [UInt8] = []
    /// In their order.
    public private(set) var parts: [Part] = []
    /// How many of them say how far a session has come.
    public private(set) var progressCount = 0

    /// Nothing.
    public init() {}

    /// Whether nothing is to be logged.
    public var isEmpty: Bool { parts.isEmpty }

    /// How many bytes all entries have.
    public var byteCount: Int { bytes.count }

    /// The bytes of a part.
    public func entries(of part: Part) -> ArraySlice<UInt8> { bytes[part.bytes] }

    /// Adds a message; `step` is what it says of its packet identifier, of the session with that Client Identifier.
    package mutating func append(_ message: LogMessage, _ step: (step: FlowStep, session: EncodedString)?, partition: Int) {
        let start = bytes.count
        LogEntry.append(message, to: &bytes)
        if let step { step.session.bytes.withUnsafeBytes { LogEntry.append(step.step, of: $0, to: &bytes) } }
        parts.append(
            Part(partition: partition, publisher: message.publisher, isOfMessage: true, bytes: start..<bytes.count))
    }

    /// Adds a step of a session, which comes without a message.
    package mutating func append(_ step: FlowStep, of session: EncodedString, publisher: UInt64, partition: Int) {
        let start = bytes.count
        session.bytes.withUnsafeBytes { LogEntry.append(step, of: $0, to: &bytes) }
        if step.progress != nil { progressCount += 1 }
        parts.append(Part(partition: partition, publisher: publisher, isOfMessage: false, bytes: start..<bytes.count))
    }
}
