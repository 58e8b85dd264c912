public import MQTTCodec

/// A subscription of a session, as the store keeps it.
///
///     session 8 │ terms 4 │ filter's length 4 │ filter │ `OwedStage` 1, if there is one
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
        var reader = RecordReader(body)
        guard let session = reader.read(UInt64.self), let bits = reader.read(UInt32.self), let bytes = reader.readBytes(),
            let filter = TopicFilter(bytes), let terms = SubscriptionTerms(exactly: bits)
        else { return nil }
        self.init(session: session, filter: filter, terms: terms)
        guard !reader.isAtEnd else { return }
        guard let stage = reader.read(UInt8.self).flatMap({ OwedStage(rawValue: $0) }), reader.isAtEnd else { return nil }
        owed = stage
    }

    public func encoded() -> [UInt8] {
        var writer = RecordWriter()
        writer.write(session)
        writer.write(terms.bits)
        writer.write(Array(filter.bytes))
        if let owed { writer.write(owed.rawValue) }
        return writer.bytes
    }

    package var terms: SubscriptionTerms {
        SubscriptionTerms(
            maximumQoS: maximumQoS, noLocal: noLocal, retainAsPublished: retainAsPublished, identifier: identifier)
    }
}
