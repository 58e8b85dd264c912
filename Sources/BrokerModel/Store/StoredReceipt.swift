/// A QoS 2 message that a session sent and has not released: the key names it, the body tells what else must be known when it is sent
/// again after a crash. [MQTT-4.3.3-10 v5]
///
///     digest 8, or nothing | 1 byte, or nothing | what each share group has chosen 16 …
///     epoch 8 | number 8 | 1 byte | the same      where sessions are a cluster's: the step of its log
///
/// The byte stands where all of the message's parts were done by the shard that received it, so that they are in the store with this row.
public struct StoredReceipt: Equatable, Sendable {
    /// The session's key.
    public var session: UInt64
    public var packetIdentifier: UInt16
    /// Of topic, RETAIN and payload; nil for a message that an earlier version received.
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
