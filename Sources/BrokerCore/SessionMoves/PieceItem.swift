public import BrokerModel
import MQTTCodec

/// One thing of a session as it stands in a chunk: its kind in a byte, then what the kind has.
///
///     version 1 │ item │ item │ …
///     session       row's length 4 │ a `StoredSession` │ places' length 4 │ `StoredLogPositions`
///     subscription  terms 4 │ filter's length 4 │ filter
///     entry         state 1 │ group 2 │ length 4 │ a row of `StoredEntry` with the message in it
///     receipt       packet identifier 2 │ digest 4
///     steps         epoch 8 │ number 8        what the log says behind that step is news
///     restored      epoch 8        what its client was sent, and how far it has come by that claim, the log says
///     subscriptions epoch 8 │ number 8        up to that step they are in it
///     unsaved       record 8        behind it, in the partition of the session's steps, others may stand in the log
///     owed          `OwedRetained.Stage` 1 │ filter's length 4 │ filter
///     done          length 4 │ `StoredLogPositions`        before these nothing is left to do
enum ChunkItem {
    static let version: UInt8 = 1

    enum Kind: UInt8 {
        case session = 1
        case subscription, entry, receipt, steps, restored, owed, subscriptions, unsaved, done
    }

    /// How far a message has come to its receiver.
    enum EntryState: UInt8 {
        case waiting
        /// PUBLISH may have been sent with its packet identifier.
        case sent
        /// PUBREC came. The message is no more than a name.
        case released
    }

    static func session(_ row: StoredSession, _ places: LogPositions) -> [UInt8] {
        session(encoded: row.encoded(), places: StoredLogPositions(places).encoded())
    }

    /// The item of a session whose row and places were written down apart from each other.
    static func session(encoded row: [UInt8], places: [UInt8]) -> [UInt8] {
        var writer = RecordWriter()
        writer.write(Kind.session.rawValue)
        writer.write(row)
        writer.write(places)
        return writer.bytes
    }

    static func subscription(_ filter: TopicFilter, _ terms: SubscriptionTerms) -> [UInt8] {
        var writer = RecordWriter()
        writer.write(Kind.subscription.rawValue)
        writer.write(terms.bits)
        writer.write(Array(filter.bytes))
        return writer.bytes
    }

    /// The filter of the item that comes next, of a subscription or of what is owed; nil for another item.
    static func filter(_ reader: inout RecordReader) -> TopicFilter? {
        switch reader.read(UInt8.self).flatMap({ Kind(rawValue: $0) }) {
        case .subscription: if reader.read(UInt32.self) == nil { return nil }
        case .owed: if reader.read(UInt8.self) == nil { return nil }
        case .session, .entry, .receipt, .steps, .restored, .subscriptions, .unsaved, .done, nil: return nil
        }
        return reader.readBytes().flatMap { TopicFilter($0) }
    }

    static func owed(_ filter: TopicFilter, _ stage: OwedRetained.Stage) -> [UInt8] {
        var writer = RecordWriter()
        writer.write(Kind.owed.rawValue)
        writer.write(stage.rawValue)
        writer.write(Array(filter.bytes))
        return writer.bytes
    }

    static func receipt(_ receipt: SessionProgress.Receipt) -> [UInt8] {
        var writer = RecordWriter()
        writer.write(Kind.receipt.rawValue)
        writer.write(receipt.packetIdentifier)
        writer.write(receipt.digest)
        return writer.bytes
    }

    static func steps(after place: FlowStep.Place) -> [UInt8] { item(.steps, place.epoch, place.number) }

    /// - Parameter place: of the last step whose subscription is among them.
    static func subscriptions(at place: FlowStep.Place) -> [UInt8] { item(.subscriptions, place.epoch, place.number) }

    /// - Parameter record: the last one behind which subscriptions may stand that are not stored.
    static func unsaved(after record: UInt64) -> [UInt8] { item(.unsaved, record) }

    /// - Parameter epoch: by which claim the session was stored.
    static func restored(savedBy epoch: UInt64) -> [UInt8] { item(.restored, epoch) }

    static func done(_ places: LogPositions) -> [UInt8] {
        var writer = RecordWriter()
        writer.write(Kind.done.rawValue)
        writer.write(StoredLogPositions(places).encoded())
        return writer.bytes
    }

    /// What `steps` and `subscriptions` have.
    static func place(_ reader: inout RecordReader) -> FlowStep.Place? {
        guard let epoch = reader.read(UInt64.self), let number = reader.read(UInt64.self) else { return nil }
        return FlowStep.Place(epoch: epoch, number: number)
    }

    private static func item(_ kind: Kind, _ numbers: UInt64...) -> [UInt8] {
        var writer = RecordWriter()
        writer.write(kind.rawValue)
        for number in numbers { writer.write(number) }
        return writer.bytes
    }

    /// - Parameters:
    ///   - header: what the entry's row says; session and group count for this node alone.
    ///   - group: the place of the share group among the session's, from 1 on; 0 for none.
    ///   - message: its parts, as a row has them.
    static func entry(
        _ state: EntryState, _ header: EntryHeader, packetIdentifier: UInt16, group: UInt16, identifiers: [UInt8],
        message: UnsafeRawBufferPointer
    ) -> [UInt8] {
        var header = header
        (header.session, header.group, header.isInline) = (0, 0, true)
        header.packetIdentifier = packetIdentifier
        header.identifiersLength = UInt32(identifiers.count)
        var front = [UInt8](repeating: 0, count: header.size)
        front.withUnsafeMutableBytes { if let base = $0.baseAddress { header.write(to: base) } }
        var writer = RecordWriter()
        writer.write(Kind.entry.rawValue)
        writer.write(state.rawValue)
        writer.write(group)
        writer.write(UInt32(front.count + identifiers.count + message.count))
        writer.append(front)
        writer.append(identifiers)
        writer.append(message)
        return writer.bytes
    }

    /// A flow that waits for PUBCOMP: its message is gone.
    static func released(packetIdentifier: UInt16) -> [UInt8] {
        let header = EntryHeader(session: 0, qos: .exactlyOnce, retain: false, byteCount: 0, group: 0)
        return Publication.withReleased { publication in
            MessageParts(publication, expiresAt: MessageParts.never).bytes.withUnsafeBytes {
                entry(.released, header, packetIdentifier: packetIdentifier, group: 0, identifiers: [], message: $0)
            }
        }
    }
}

extension Publication {
    /// Calls `body` with what stands for a message that waits for PUBCOMP: no more than a name.
    static func withReleased<Result>(_ body: (inout Publication) -> Result) -> Result {
        let name: [UInt8] = [UInt8(ascii: "-")]
        return name.withUnsafeBytes { name in
            let none = UnsafeRawBufferPointer(start: nil, count: 0)
            var publication = Publication(
                topic: name, properties: none, payload: none, qos: .exactlyOnce, retain: false, expiresAt: Message.neverExpires,
                publisher: 0)
            return body(&publication)
        }
    }
}

extension MessageParts {
    /// As they stand in a row.
    var bytes: [UInt8] {
        [UInt8](unsafeUninitializedCapacity: size) { target, count in
            if let base = target.baseAddress { write(to: UnsafeMutableRawPointer(base)) }
            count = size
        }
    }
}

/// What of a session the cluster is to store, so that it outlives its node together with that node's disk.
///
///     state: version 1 │ row's length 4 │ a `StoredSession` │ subscriptions, as in a chunk, and up to which step
///     places: length 4 │ `StoredLogPositions` │ steps, unsaved subscriptions and receipts, as in a chunk
public struct SavedSession: Equatable, Sendable {
    /// The Client Identifier.
    public var identifier: [UInt8]
    /// By which claim the node keeps it.
    public var epoch: UInt64
    /// Names this; 0 if nobody waits for it.
    public var number: UInt64
    /// Seconds that the session is to outlive its connection; `UInt32.max` for ever.
    public var expiryInterval: UInt32
    /// What it is, without its messages; nil if that is as it was, empty if nothing of it is to be restored any more.
    public var state: [UInt8]?
    /// Places in the log before which the session has nothing left to do, and what of QoS 2 it had received at that
    /// time and not released; nil if they are as they were.
    public var places: [UInt8]?
    /// With a state: the will that is not published yet, and since when the client is away, in milliseconds since 1970;
    /// 0 while it is connected.
    public var will: SavedWill?
    public var awaySince: UInt64 = 0

    public init(
        identifier: [UInt8], epoch: UInt64, number: UInt64, expiryInterval: UInt32, state: [UInt8]?, places: [UInt8]? = nil
    ) {
        (self.identifier, self.epoch, self.number) = (identifier, epoch, number)
        (self.expiryInterval, self.state, self.places) = (expiryInterval, state, places)
    }

    /// The one chunk in which a session arrives that was stored so; nil for what is no state, or has no places.
    ///
    /// - Parameters:
    ///   - state: see above.
    ///   - places: see above.
    ///   - epoch: by which claim it was stored.
    ///   - isOver: whether its time is over: it ends when it is here, and what share groups have dispatched to it goes
    ///     to their other members.
    public static func piece(state: [UInt8], places: [UInt8], epoch: UInt64, isOver: Bool = false) -> SessionChunk? {
        state.withUnsafeBytes { bytes in
            var reader = RecordReader(bytes)
            guard reader.read(UInt8.self) == ChunkItem.version, let body = reader.readBytes(),
                var row = body.withUnsafeBytes({ StoredSession(decoding: $0) })
            else { return nil }
            if isOver { (row.isConnected, row.endsAt) = (false, 1) }
            guard let (places, receipts) = Self.parts(of: places) else { return nil }
            let session = ChunkItem.session(encoded: row.encoded(), places: places)
            // Which messages its node had sent to its client, the log says.
            let bytes = [ChunkItem.version] + session + Array(reader.rest) + receipts + ChunkItem.restored(savedBy: epoch)
            return SessionChunk(number: 0, isLast: true, bytes: bytes)
        }
    }

    /// Whether a session that was stored so is a member of share groups; false for what is no state.
    public static func isMember(state: [UInt8]) -> Bool {
        state.withUnsafeBytes { bytes in
            var reader = RecordReader(bytes)
            guard reader.read(UInt8.self) == ChunkItem.version, reader.readBytes() != nil else { return false }
            while let filter = ChunkItem.filter(&reader) { if filter.shareName != nil { return true } }
            return false
        }
    }

    static func encoded(_ places: LogPositions, _ receipts: [[UInt8]]) -> [UInt8] {
        var writer = RecordWriter()
        writer.write(StoredLogPositions(places).encoded())
        for receipt in receipts { writer.append(receipt) }
        return writer.bytes
    }

    static func parts(of places: [UInt8]) -> (places: [UInt8], receipts: [UInt8])? {
        places.withUnsafeBytes { bytes in
            var reader = RecordReader(bytes)
            return reader.readBytes().map { ($0, Array(reader.rest)) }
        }
    }
}

/// A part of a session on its way from the node that kept it to the one that does.
public struct SessionChunk: Equatable, Sendable {
    /// From 0 on.
    public var number: Int
    public var isLast: Bool
    /// At most 256 KiB, or one message. Of the first chunk nothing, if there is nothing of the session.
    public var bytes: [UInt8]

    /// By which claim the node that gives it has kept it; 0 for none.
    public var epoch: UInt64

    public init(number: Int, isLast: Bool, bytes: [UInt8], epoch: UInt64 = 0) {
        (self.number, self.isLast, self.bytes, self.epoch) = (number, isLast, bytes, epoch)
    }
}
