public import BrokerModel
import MQTTCodec

/// What of a session the cluster is to store, so that it outlives its node together with that node's disk.
///
///     state: version 1 │ row's length 4 │ a `StoredSession` │ subscriptions, as in a piece
///     places: 0 │ length 4 │ `StoredLogPlaces` │ steps and receipts, as in a piece
///     places of an earlier version: `StoredLogPlaces`
public struct SavedSession: Equatable, Sendable {
    /// The Client Identifier.
    public var identifier: [UInt8]
    /// By which claim the node keeps it.
    public var epoch: UInt64
    /// Names this; 0 if nobody waits for it.
    public var number: UInt64
    /// Seconds that the session is to outlive its connection; `UInt32.max` for ever.
    public var expiryInterval: UInt32
    /// What it is, without its messages; nil if that is as it was, empty if nothing of it is to be taken up any more.
    public var state: [UInt8]?
    /// Places in the log before which the session has nothing left to do, and what of QoS 2 it had received at that time and not released; nil
    /// if they are as they were.
    public var places: [UInt8]?
    /// With a state: the will that is not published yet, and since when the client is away, in milliseconds since 1970; 0 while it is connected.
    public var will: SavedWill?
    public var awaySince: UInt64 = 0

    public init(
        identifier: [UInt8], epoch: UInt64, number: UInt64, expiryInterval: UInt32, state: [UInt8]?, places: [UInt8]? = nil
    ) {
        (self.identifier, self.epoch, self.number) = (identifier, epoch, number)
        (self.expiryInterval, self.state, self.places) = (expiryInterval, state, places)
    }

    /// The one piece in which a session arrives that was stored so; nil for what is no state.
    ///
    /// - Parameters:
    ///   - state: see above.
    ///   - places: see above.
    ///   - isOver: whether its time is over: it ends when it is here, and what share groups have dealt it goes to their other members.
    public static func piece(state: [UInt8], places: [UInt8], isOver: Bool = false) -> SessionPiece? {
        state.withUnsafeBytes { bytes in
            var reader = RecordReader(bytes)
            guard reader.read(UInt8.self) == PieceItem.version, let body = reader.readBytes(),
                var row = body.withUnsafeBytes({ StoredSession(decoding: $0) })
            else { return nil }
            if isOver { (row.isConnected, row.endsAt) = (false, 1) }
            let (places, receipts) = Self.parts(of: places)
            let session = PieceItem.session(encoded: row.encoded(), places: places)
            // Which messages its node had sent to its client, the log says.
            let bytes = [PieceItem.version] + session + Array(reader.rest) + receipts + [PieceItem.Kind.takenUp.rawValue]
            return SessionPiece(number: 0, isLast: true, bytes: bytes)
        }
    }

    /// Whether a session that was stored so is a member of share groups; false for what is no state.
    public static func isMember(state: [UInt8]) -> Bool {
        state.withUnsafeBytes { bytes in
            var reader = RecordReader(bytes)
            guard reader.read(UInt8.self) == PieceItem.version, reader.readBytes() != nil else { return false }
            while let filter = PieceItem.filter(&reader) { if filter.shareName != nil { return true } }
            return false
        }
    }

    static func encoded(_ places: LogPlaces, _ receipts: [[UInt8]]) -> [UInt8] {
        var writer = RecordWriter()
        writer.write(UInt8(0))
        writer.write(StoredLogPlaces(places).encoded())
        for receipt in receipts { writer.append(receipt) }
        return writer.bytes
    }

    /// What an earlier version has written begins with how many places there are.
    private static func parts(of places: [UInt8]) -> (places: [UInt8], receipts: [UInt8]) {
        places.withUnsafeBytes { bytes in
            var reader = RecordReader(bytes)
            guard reader.read(UInt8.self) == 0, let body = reader.readBytes() else { return (places, []) }
            return (body, Array(reader.rest))
        }
    }
}
