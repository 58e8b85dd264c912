internal import CXXHash
public import ClientCore
public import MQTTCodec

/// A message in an inbox, as it is stored.
///
///     key: inbox, conversation, number      body: arrived at 8 | message
public struct InboxMessage: Hashable, Sendable {
    public var conversation: String
    /// Its place in the conversation: 1 for the first.
    public var number: UInt64
    /// Milliseconds since 1970.
    public var arrivedAt: UInt64
    /// As it was published; its QoS is that at which it came.
    public var publication: Publication

    public init(_ conversation: String, _ number: UInt64, arrivedAt: UInt64, _ publication: Publication) {
        (self.conversation, self.number, self.arrivedAt, self.publication) = (conversation, number, arrivedAt, publication)
    }

    public var topic: TopicName { publication.topic }
    public var payload: Payload { publication.payload }
    public var properties: Properties { publication.properties }

    /// A row of the table `inbox`; nil if it is none of that inbox.
    public init?(_ row: StoreRow, of inbox: String) {
        guard let name = row.key.text(behind: StoreKey(inbox)), let number = row.key.lastNumber else { return nil }
        self.init(String(decoding: name, as: UTF8.self), number, row.body)
    }

    init?(_ conversation: String, _ number: UInt64, _ body: some Collection<UInt8>) {
        var reader = RowReader(Array(body))
        guard let arrivedAt = reader.number(UInt64.self), let stored = StoredPublication.read(&reader) else { return nil }
        self.init(conversation, number, arrivedAt: arrivedAt, stored.publication)
    }

    var body: [UInt8] {
        var writer = RowWriter(capacity: 32 + topic.bytes.count + payload.count)
        writer.write(arrivedAt)
        StoredPublication.write(publication, to: &writer)
        return writer.bytes
    }
}

/// What an inbox knows of a conversation.
///
///     key: inbox, conversation      body: last 8 | read through 8 | recency 8
struct ConversationRow: Hashable {
    /// The number of its last message.
    var last: UInt64 = 0
    var readThrough: UInt64 = 0
    /// The inbox's count of arrivals when that came.
    var recency: UInt64 = 0

    init() {}

    init?(_ body: [UInt8]) {
        var reader = RowReader(body)
        guard let last = reader.number(UInt64.self), let readThrough = reader.number(UInt64.self),
            let recency = reader.number(UInt64.self)
        else { return nil }
        (self.last, self.readThrough, self.recency) = (last, readThrough, recency)
    }

    var body: [UInt8] {
        var writer = RowWriter(capacity: 24)
        for number in [last, readThrough, recency] { writer.write(number) }
        return writer.bytes
    }
}

/// The conversation whose last message was the inbox's arrival of that number, and the message.
///
///     key: inbox, recency      body: conversation | number 8 | message's row
public struct RecentRow: Sendable {
    public let last: InboxMessage

    public init?(_ row: StoreRow) {
        var reader = RowReader(row.body)
        guard let name = reader.field(), let number = reader.number(UInt64.self),
            let last = InboxMessage(String(decoding: name, as: UTF8.self), number, reader.rest())
        else { return nil }
        self.last = last
    }

    static func body(_ message: InboxMessage) -> [UInt8] {
        var writer = RowWriter()
        writer.write(message.conversation.utf8)
        writer.write(message.number)
        writer.write(rest: message.body)
        return writer.bytes
    }
}

/// What an inbox remembers of an arrival, so as to know it again.
///
///     key: inbox, arrival's number within the ring      body: arrival 8 | contents 8 | packet identifier 2 | publisher's identifier
struct ArrivalRow {
    let arrival: UInt64
    let mark: Repeats.Mark

    init(_ arrival: UInt64, _ mark: Repeats.Mark) { (self.arrival, self.mark) = (arrival, mark) }

    init?(_ body: [UInt8]) {
        var reader = RowReader(body)
        guard let arrival = reader.number(UInt64.self), let contents = reader.number(UInt64.self),
            let packetIdentifier = reader.number(UInt16.self)
        else { return nil }
        let identifier = Array(reader.rest())
        self.arrival = arrival
        mark = Repeats.Mark(
            identifier: identifier.isEmpty ? nil : identifier, packetIdentifier: packetIdentifier == 0 ? nil : packetIdentifier,
            contents: contents)
    }

    var body: [UInt8] {
        var writer = RowWriter()
        writer.write(arrival)
        writer.write(mark.contents)
        writer.write(mark.packetIdentifier ?? 0)
        writer.write(rest: mark.identifier ?? [])
        return writer.bytes
    }
}

extension Repeats.Mark {
    init(_ message: ReceivedMessage) {
        let identifier = message.hasProperties ? message.properties.messageIdentifier : nil
        let topic = message.topic.bytes.withUnsafeBytes { xxhash_checksum($0.baseAddress, $0.count, 0) }
        let contents = message.payload.withUnsafeBytes { xxhash_checksum($0.baseAddress, $0.count, topic) }
        self.init(
            identifier: identifier.map { Array($0.utf8) }, packetIdentifier: message.token?.packetIdentifier, contents: contents)
    }
}
