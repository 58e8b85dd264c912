public import ClientCore
public import MQTTCodec

/// A message that waits to be sent, as it is stored.
///
///     key: number      body: expires at 8 | message
public struct OutboxMessage: Hashable, Sendable {
    /// Its place in the outbox.
    public var number: UInt64
    public var publication: Publication
    /// When it is too old, in milliseconds since 1970; nil for never.
    public var expiresAt: UInt64?

    public init(_ number: UInt64, _ publication: Publication, expiresAt: UInt64? = nil) {
        (self.number, self.publication, self.expiresAt) = (number, publication, expiresAt)
    }

    /// A row of the table `outbox`; nil if it is none.
    public init?(_ row: StoreRow) {
        var reader = RowReader(row.body)
        guard let number = row.key.lastNumber, let expiresAt = reader.number(UInt64.self),
            let stored = StoredPublication.read(&reader)
        else { return nil }
        self.init(number, stored.publication, expiresAt: expiresAt == .max ? nil : expiresAt)
    }

    var row: StoreRow {
        var writer = RowWriter(capacity: 32 + publication.topic.bytes.count + publication.payload.count)
        writer.write(expiresAt ?? UInt64.max)
        StoredPublication.write(publication, to: &writer)
        return StoreRow(StoreKey(number), writer.bytes)
    }

    /// What all receivers know the message by, however often it comes; nil if it was not given any.
    public var identifier: String? { publication.properties.messageIdentifier }

    /// The message as it is to be sent now: what is left of its time is its Message Expiry Interval, and at least a second.
    public func publication(at now: UInt64) -> Publication { publication.aged(to: now, expiresAt: expiresAt ?? .max) }
}

extension Properties {
    /// The name of the User Property that says when an inbox sent a message, in milliseconds since 1970.
    public static let sentAtName: EncodedString = "sent-at"

    /// When a message was sent, by its publisher's clock, in milliseconds since 1970; nil where it does not say.
    public var sentAt: UInt64? {
        get { userProperties.first { $0.name == Self.sentAtName }.flatMap { UInt64($0.value.description) } }
        set {
            userProperties.removeAll { $0.name == Self.sentAtName }
            if let value = newValue.flatMap({ EncodedString("\($0)") }) {
                userProperties.append(UserProperty(name: Self.sentAtName, value: value))
            }
        }
    }

    /// The name of the User Property that all messages from an outbox have: their publisher's own identifier for the message.
    public static let messageIdentifierName: EncodedString = "message-id"

    /// What the publisher knows the message by; nil where it does not say.
    public var messageIdentifier: String? {
        get { userProperties.first { $0.name == Self.messageIdentifierName }?.value.description }
        set {
            userProperties.removeAll { $0.name == Self.messageIdentifierName }
            if let value = newValue.flatMap({ EncodedString($0) }) {
                userProperties.append(UserProperty(name: Self.messageIdentifierName, value: value))
            }
        }
    }
}
