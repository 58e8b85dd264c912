public import Bytes
public import MQTTCodec

/// The tables of the store. Each holds rows of a 64-bit key, unique in its table, and a body whose meaning only the
/// core knows.
///
/// Bodies are fields with tags (`FieldCoded`), so that a later version adds some. Those of `message`, `entry`, `flow`,
/// `received` and `relayed`, and the cluster's numbers in `run`, which stand on the way of a message, have each part at
/// its place instead: no byte and no instruction more.
public enum StoreTable: UInt8, CaseIterable, Sendable {
    /// Rows of the whole broker: a `StoredBrokerState`, how it ran last, with the key 1; `StoredLogPositions` with
    /// the keys from 2 on; a `StoredMembership` with the key 128; `StoredDispatches` with those from 129 on; and each
    /// `StoredBan` by a number of its own.
    case broker = 0
    /// A `StoredSession` by its session key.
    case session
    /// A `StoredSubscription` by a number of its own.
    case subscription
    /// A QoS 2 message received and not yet released; see `StoredReceipt`.
    case received
    /// A `StoredMessage` that several entries share, by a number of its own.
    case message
    /// A `StoredEntry`, one message on its way to one session, by a number that grows along each session's queue.
    case entry
    /// A `StoredFlow`: how far an entry has come, by the entry's number.
    case flow
    /// A `StoredMessage` that is retained, by a number of its own.
    case retained
    /// A QoS 2 message that another shard's client sent and that was taken here too, by a number of its own; see
    /// `RelayedReceipt`.
    case relayed

    /// Sessions come before what belongs to them, messages before the entries that share them, and before an entry how
    /// far it has come and whether another shard has it.
    public static let inOrderOfRecovery: [StoreTable] = [
        .broker, .session, .subscription, .received, .message, .flow, .relayed, .entry, .retained,
    ]

    /// What the operator reads.
    public var name: String { self == .broker ? "run" : "\(self)" }
}

extension StoreTable {
    /// Whether a row of this key and body says anything to this broker.
    public func hasMeaning(key: UInt64, body: UnsafeRawBufferPointer) -> Bool {
        switch self {
        case .broker where key == StoredBrokerState.key: StoredBrokerState(decoding: body) != nil
        case .broker where key == StoredMembership.key: StoredMembership(decoding: body) != nil
        case .broker where StoredLogPositions.shard(ofKey: key) != nil: StoredLogPositions(decoding: body) != nil
        case .broker where StoredDispatches.shard(ofKey: key) != nil: StoredDispatches(decoding: body) != nil
        case .broker: StoredBan(decoding: body) != nil
        case .relayed: RelayedReceipt(decoding: body) != nil
        case .session: StoredSession(decoding: body) != nil
        case .subscription: StoredSubscription(decoding: body) != nil
        case .received: StoredReceipt(key: key, body: body) != nil
        case .message: StoredMessage(decoding: body)?.isLegal ?? false
        case .retained: StoredRetained(decoding: body)?.message.isLegal ?? false
        case .entry: StoredEntry(decoding: body)?.isLegal ?? false
        case .flow: StoredFlow(decoding: body) != nil
        }
    }
}

/// How the broker ran when it last wrote to the store.
public struct StoredBrokerState: Equatable, Sendable {
    public static let key: UInt64 = 1

    /// How many shards it had: what belongs to which follows from that.
    public var shardCount: UInt16
    /// Whether it ended in order, with every shard's part done of every QoS 2 message that was received.
    public var hasEnded: Bool

    public init(shardCount: Int, hasEnded: Bool) {
        self.shardCount = UInt16(shardCount)
        self.hasEnded = hasEnded
    }

    /// Reads a row's body; nil if it is not one.
    public init?(decoding body: UnsafeRawBufferPointer) {
        self.init(fields: body)
        guard (1...64).contains(shardCount) else { return nil }
    }

    public func encoded() -> [UInt8] { encodedFields }
}

extension StoredBrokerState: FieldCoded {
    public static let blank = StoredBrokerState(shardCount: 0, hasEnded: false)

    public mutating func code(_ coder: inout some FieldCoder) {
        coder.field(1, &shardCount)
        coder.field(2, &hasEnded, mostly: false)
    }
}

/// A retained message as the store keeps it.
///
///     the message | its origin's fields
///
/// Where the origin is not known the row ends with the message: so it is of messages that mosquitto had from nobody.
public struct StoredRetained: Equatable, Sendable {
    public var message: StoredMessage
    public var origin: StoredOrigin?

    public init(message: StoredMessage, origin: StoredOrigin? = nil) {
        self.message = message
        self.origin = origin
    }

    /// Reads a row's body; nil if it is not one.
    public init?(decoding body: UnsafeRawBufferPointer) {
        var reader = RecordReader(body)
        guard let message = StoredMessage(&reader) else { return nil }
        self.init(message: message)
        if reader.isAtEnd { return }
        guard let origin = StoredOrigin(&reader), reader.isAtEnd else { return nil }
        self.origin = origin
    }

    public func encoded() -> [UInt8] {
        var writer = RecordWriter()
        message.write(to: &writer)
        origin?.write(to: &writer)
        return writer.bytes
    }
}

/// How far a QoS 1 or 2 message has come to its receiver, where the entry itself does not say: its row has the entry's
/// number.
public struct StoredFlow: Equatable, Sendable {
    public enum State: UInt8, Sendable {
        /// PUBLISH may have been sent with this packet identifier.
        case sent = 1
        /// PUBREC came: PUBREL goes out, the message does not.
        case released
    }

    public var state: State
    public var packetIdentifier: UInt16

    package static let size = 3

    public init(state: State, packetIdentifier: UInt16) {
        self.state = state
        self.packetIdentifier = packetIdentifier
    }

    /// Reads a row's body; nil if it is not one.
    public init?(decoding body: UnsafeRawBufferPointer) {
        var reader = RecordReader(body)
        guard let state = reader.read(UInt8.self).flatMap({ State(rawValue: $0) }), let identifier = reader.read(UInt16.self),
            identifier > 0, reader.isAtEnd
        else { return nil }
        self.init(state: state, packetIdentifier: identifier)
    }

    /// `target` has room for `size` bytes.
    package func write(to target: UnsafeMutableRawPointer) {
        target.storeBytes(of: state.rawValue, as: UInt8.self)
        target.storeBytes(of: packetIdentifier, toByteOffset: 1, as: UInt16.self)
    }

    public func encoded() -> [UInt8] {
        var writer = RecordWriter()
        writer.write(state.rawValue)
        writer.write(packetIdentifier)
        return writer.bytes
    }
}

/// A ban as a row of the table `broker`, by a number of its own.
public struct StoredBan: Equatable, Sendable {
    public let ban: Ban

    public init(_ ban: Ban) { self.ban = ban }

    /// Reads a row's body; nil if it is not one.
    public init?(decoding body: UnsafeRawBufferPointer) {
        guard let row = Fields(fields: body), let target = row.target else { return nil }
        ban = Ban(target, by: row.by, reason: row.reason, at: row.at, until: row.until)
    }

    public func encoded() -> [UInt8] { Fields(ban).encodedFields }

    /// What a row says of a ban.
    private struct Fields: FieldCoded {
        var kind = BanKind.client
        var who = ""
        var by = ""
        var reason = ""
        var at: UInt64 = 0
        var until: UInt64?
        /// Of a client as one user comes with it from one address: that, and the user.
        var party: String?
        var user: EncodedString?

        static let blank = Fields()

        init() {}

        init(_ ban: Ban) {
            (kind, who, by, reason) = (ban.target.kind, ban.target.who, ban.by, ban.reason)
            (at, until, party, user) = (ban.at, ban.until, ban.target.scope?.party, ban.target.scope?.user)
        }

        mutating func code(_ coder: inout some FieldCoder) {
            coder.field(1, &kind, as: { $0.rawValue }, BanKind.init(rawValue:))
            coder.field(2, &who)
            coder.field(3, &by)
            coder.field(4, &reason)
            coder.field(5, &at)
            coder.field(6, &until)
            coder.field(7, &party)
            coder.field(8, &user, as: { $0.bytes }, { EncodedString($0) })
        }

        /// Nil if there is no such target.
        var target: BanTarget? {
            if let party {
                guard kind == .client, let client = EncodedString(who) else { return nil }
                return BanTarget(client: client, BanScope(user: user, party: party))
            }
            guard user == nil, let target = BanTarget(kind, who), target.who == who else { return nil }
            return target
        }
    }
}

/// The publisher of a retained message, as the store keeps it: by this `check_retain_source` decides whether it is
/// handed out.
public struct StoredOrigin: Hashable, Sendable {
    public var clientIdentifier: EncodedString
    public var userName: EncodedString?
    public var listener: StoredListener

    public init(clientIdentifier: EncodedString, userName: EncodedString?, listener: StoredListener) {
        self.clientIdentifier = clientIdentifier
        self.userName = userName
        self.listener = listener
    }

    /// Reads what is left of a row's body.
    package init?(_ reader: inout RecordReader) {
        guard let origin = reader.take(reader.rest.count).flatMap({ StoredOrigin(fields: $0) }) else { return nil }
        self = origin
    }

    package func write(to writer: inout RecordWriter) { writer.append(encodedFields) }

    package func encoded() -> [UInt8] { encodedFields }
}

extension StoredOrigin: FieldCoded {
    public static let blank = StoredOrigin(clientIdentifier: "", userName: nil, listener: .place(0))

    public mutating func code(_ coder: inout some FieldCoder) {
        coder.field(1, &clientIdentifier, as: { $0.bytes }, { EncodedString($0) })
        coder.field(2, &userName, as: { $0.bytes }, { EncodedString($0) })
        listener.code(name: 3, place: 4, &coder)
    }
}

/// A subscription of a session, as the store keeps it.
public struct StoredSubscription: Equatable, Sendable {
    /// How far the retained messages are that its client is still to get; see `OwedRetained`.
    package enum OwedStage: UInt8, Sendable { case asked = 1, queued }

    /// The session's key.
    public var session: UInt64
    /// The whole filter, `$share/NAME/` included.
    public var filter: TopicFilter
    public var maximumQoS: QoS
    public var noLocal: Bool
    public var retainAsPublished: Bool
    /// The Subscription Identifier, 0 for none.
    public var identifier: UInt32
    package var owed: OwedStage?
    /// Whether its client has not had all that was retained when it subscribed.
    public var lacksRetained: Bool { owed != nil }

    public init(
        session: UInt64, filter: TopicFilter, maximumQoS: QoS, noLocal: Bool = false, retainAsPublished: Bool = false,
        identifier: UInt32 = 0
    ) {
        self.session = session
        self.filter = filter
        self.maximumQoS = maximumQoS
        self.noLocal = noLocal
        self.retainAsPublished = retainAsPublished
        self.identifier = identifier
    }

    package init(session: UInt64, filter: TopicFilter, terms: SubscriptionTerms) {
        self.init(
            session: session, filter: filter, maximumQoS: terms.maximumQoS, noLocal: terms.noLocal,
            retainAsPublished: terms.retainAsPublished, identifier: terms.identifier)
    }

    /// Reads a row's body; nil if it is not one.
    public init?(decoding body: UnsafeRawBufferPointer) {
        self.init(fields: body)
    }

    public func encoded() -> [UInt8] { encodedFields }

    package var terms: SubscriptionTerms {
        get {
            SubscriptionTerms(
                maximumQoS: maximumQoS, noLocal: noLocal, retainAsPublished: retainAsPublished, identifier: identifier)
        }
        set {
            (maximumQoS, noLocal, retainAsPublished) = (newValue.maximumQoS, newValue.noLocal, newValue.retainAsPublished)
            identifier = newValue.identifier
        }
    }
}

extension StoredSubscription: FieldCoded {
    public static let blank = StoredSubscription(session: 0, filter: "#", maximumQoS: .atMostOnce)

    public mutating func code(_ coder: inout some FieldCoder) {
        coder.field(1, &session)
        coder.field(2, &filter, as: { Array($0.bytes) }, { TopicFilter($0) })
        coder.field(3, &terms, as: { $0.bits }, SubscriptionTerms.init(exactly:))
        coder.field(4, &owed, as: { $0.rawValue }, OwedStage.init(rawValue:))
    }
}

/// Names a QoS 2 message that a client of another shard has sent, and what came of it here.
///
/// Each shard makes its part of a message durable by itself. So each that took one remembers it until the client has
/// released it: sent again after a crash, the message is taken by the shards that had lost it and by no other.
/// [MQTT-4.3.3-10 v5]
public struct RelayedReceipt: Hashable, Sendable {
    public enum Part: UInt64, Sendable {
        /// It was routed to the shard's subscribers.
        case routed = 0
        /// It was kept as the retained message of its topic.
        case retained = 1
    }

    /// The client's receipt and, in the highest bit, the part.
    private let name: UInt64
    /// Of a message that a share group gave to one of the shard's sessions: stands for the group; else 0.
    public let group: UInt64

    package init(_ receipt: UInt64, _ part: Part, group: UInt64 = 0) {
        name = receipt | part.rawValue << 63
        self.group = group
    }

    /// Reads a row's body; nil if it is not one.
    public init?(decoding body: UnsafeRawBufferPointer) {
        guard let row = Self.decode(body) else { return nil }
        self = row.name
    }

    /// Reads a row's body: what was taken, and the message's digest, nil if that is not known.
    package static func decode(_ body: UnsafeRawBufferPointer) -> (name: RelayedReceipt, digest: UInt64?)? {
        var reader = RecordReader(body)
        guard let value = reader.read(UInt64.self), StoredReceipt(key: value & ~(1 << 63)) != nil else { return nil }
        let name = RelayedReceipt(name: value, group: reader.read(UInt64.self) ?? 0)
        let digest = reader.read(UInt64.self)
        return reader.isAtEnd ? (name, digest) : nil
    }

    private init(name: UInt64, group: UInt64) {
        self.name = name
        self.group = group
    }

    ///     name 8 | group 8, or nothing | digest 8, or nothing
    package func encoded(digest: UInt64? = nil) -> [UInt8] {
        var writer = RecordWriter()
        writer.write(name)
        if group != 0 || digest != nil { writer.write(group) }
        if let digest { writer.write(digest) }
        return writer.bytes
    }

    /// What the client's own shard calls it.
    package var receipt: UInt64 { name & ~(1 << 63) }
    /// What a message of QoS 2 is called, in place of that, which a share group moves from one shard to another: by the
    /// row that it leaves, which goes later than the other shard has it. After a crash between the two it is there
    /// once. `number` is that of an entry.
    package static func receipt(ofEntry number: UInt64) -> UInt64 { 1 << 62 | (number >> 8) << 16 | (number & 0xff + 1) }

    /// The number of that row; nil for a client's message.
    package var entry: UInt64? {
        guard receipt & 1 << 62 != 0 else { return nil }
        return ((receipt & (1 << 62 - 1)) >> 16) << 8 | (UInt64(packetIdentifier) - 1)
    }

    /// The key of the client's session.
    public var session: UInt64 { receipt >> 16 }
    public var packetIdentifier: UInt16 { UInt16(truncatingIfNeeded: receipt) }
    public var part: Part { name >> 63 == 1 ? .retained : .routed }
}

/// A QoS 2 message that a session sent and has not released: the key names it, the body tells what else must be known
/// when it is sent again after a crash. [MQTT-4.3.3-10 v5]
///
///     digest 8, or nothing | 1 byte, or nothing | what each share group has chosen 16 …
///     epoch 8 | number 8 | 1 byte | the same      where sessions are a cluster's: the step of its log
///
/// The byte stands where all of the message's parts were done by the shard that received it, so that they are in the
/// store with this row.
public struct StoredReceipt: Equatable, Sendable {
    /// The session's key.
    public var session: UInt64
    public var packetIdentifier: UInt16
    /// Of topic, RETAIN and payload; nil for a message that mosquitto has received.
    public var digest: UInt64?
    /// Whether other shards may have parts of it.
    public var hasParts: Bool
    /// What share groups have chosen for it.
    public var choices: [GroupChoice]
    /// Of the step in a cluster's log; nil for none. A receipt with one has no digest.
    public var place: FlowStep.Place?

    public init(
        session: UInt64, packetIdentifier: UInt16, digest: UInt64? = nil, hasParts: Bool = false, choices: [GroupChoice] = []
    ) {
        self.session = session
        self.packetIdentifier = packetIdentifier
        self.digest = digest
        self.hasParts = hasParts
        self.choices = choices
    }

    /// Reads a row's key; nil if no identifier is in it.
    public init?(key: UInt64) {
        self.init(session: key >> 16, packetIdentifier: UInt16(truncatingIfNeeded: key))
        if packetIdentifier == 0 { return nil }
    }

    /// Reads a row; nil if it is not one.
    public init?(key: UInt64, body: UnsafeRawBufferPointer) {
        self.init(key: key)
        var reader = RecordReader(body)
        let rest = body.count % GroupChoice.size
        if rest == 8 || rest == 9 {
            digest = reader.read(UInt64.self)
            hasParts = rest == 8
        }
        if rest == 1, body.count > 16, let epoch = reader.read(UInt64.self), let number = reader.read(UInt64.self) {
            place = FlowStep.Place(epoch: epoch, number: number)
        }
        if rest == 9 || place != nil, reader.read(UInt8.self) != 0 { return nil }
        guard let choices = GroupChoice.all(in: reader.rest) else { return nil }
        self.choices = choices
    }

    public var key: UInt64 { session << 16 | UInt64(packetIdentifier) }

    public func encodedBody() -> [UInt8] {
        var writer = RecordWriter()
        if let place {
            writer.write(place.epoch)
            writer.write(place.number)
            writer.write(UInt8(0))
        } else if let digest {
            writer.write(digest)
            if !hasParts { writer.write(UInt8(0)) }
        }
        writer.append(GroupChoice.encode(choices))
        return writer.bytes
    }
}

/// To which member a share group has given a QoS 2 message that its sender has not released.
///
/// It stands in the row of the receipt, on the disk before the member's shard hears of the message: sent again after a
/// crash, the message goes to the same member, which takes it once. [MQTT-4.3.3-10 v5]
public struct GroupChoice: Equatable, Sendable {
    package static let size = 16

    /// Stands for the group's name and filter.
    public let group: UInt64
    /// The key of the member's session.
    public let session: UInt64

    /// Reads any number of them; nil if that is not what the bytes are.
    package static func all(in body: UnsafeRawBufferPointer) -> [GroupChoice]? {
        guard body.count % size == 0 else { return nil }
        var reader = RecordReader(body)
        var choices: [GroupChoice] = []
        while let group = reader.read(UInt64.self), let session = reader.read(UInt64.self) {
            choices.append(GroupChoice(group: group, session: session))
        }
        return choices
    }

    package static func encode(_ choices: [GroupChoice]) -> [UInt8] {
        var writer = RecordWriter()
        for choice in choices {
            writer.write(choice.group)
            writer.write(choice.session)
        }
        return writer.bytes
    }

    package init(
        group: UInt64, session: UInt64
    ) {
        self.group = group
        self.session = session
    }
}
