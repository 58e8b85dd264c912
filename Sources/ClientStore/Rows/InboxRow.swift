internal import Bytes
public import ClientCore
public import MQTTCodec
internal import RowStore

/// A message in an inbox, as it is stored.
///
///     key: inbox, conversation, number      body: message's fields
public struct InboxMessage: Hashable, Sendable {
    public var conversation: String
    /// Its number in the conversation: 1 for the first.
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
    /// When it was sent, by its publisher's clock, in milliseconds since 1970; nil where that does not say.
    public var sentAt: UInt64? { publication.hasProperties ? publication.properties.sentAt : nil }

    /// A row of the table `inbox`; nil if it is none of that inbox.
    public init?(_ row: StoreRow, of inbox: String) {
        guard let name = row.key.text(behind: StoreKey(inbox)), let number = row.key.lastNumber else { return nil }
        self.init(String(decoding: name, as: UTF8.self), number, row.body)
    }

    init?(_ conversation: String, _ number: UInt64, _ body: some Collection<UInt8>) {
        guard let stored = StoredPublication(body: body) else { return nil }
        self.init(conversation, number, arrivedAt: stored.arrivedAt, stored.publication)
    }

    var body: [UInt8] {
        var stored = StoredPublication(publication)
        stored.arrivedAt = arrivedAt
        return stored.encodedFields
    }
}

/// What an inbox knows of a conversation.
///
///     key: inbox, conversation      body: fields
struct ConversationRow: Hashable {
    /// The number of its last message, also if that was removed.
    var last: UInt64 = 0
    var readThrough: UInt64 = 0
    /// The inbox's count of arrivals when the last one came.
    var recency: UInt64 = 0
    /// The message that stands for it among the recent ones; 0 while it is to be looked for.
    var shown: UInt64 = 0
    /// Numbers beyond those that were read that are not unread, as they are one's own messages or were removed: they
    /// rise, and have numbers between them.
    private(set) var passed: [ClosedRange<UInt64>] = []

    init() {}

    init?(_ body: [UInt8]) {
        guard let row = ConversationRow(body: body) else { return nil }
        self = row
    }

    var body: [UInt8] { encodedFields }

    /// How many messages nobody has read.
    var unread: Int { Int(clamping: last - min(readThrough, last)) - passed.reduce(0) { $0 + Int(clamping: $1.count) } }

    /// Somebody has read up to a message.
    mutating func read(through number: UInt64) {
        readThrough = max(readThrough, min(number, last))
        passed = passed.compactMap { $0.upperBound <= readThrough ? nil : max($0.lowerBound, readThrough + 1)...$0.upperBound }
        if let first = passed.first, first.lowerBound == readThrough + 1 {
            readThrough = first.upperBound
            passed.removeFirst()
        }
    }

    /// Messages are none that somebody has to read.
    mutating func pass(_ numbers: ClosedRange<UInt64>) {
        guard numbers.upperBound > readThrough else { return }
        var new = max(numbers.lowerBound, readThrough + 1)...numbers.upperBound
        var ranges: [ClosedRange<UInt64>] = []
        for range in passed {
            if range.upperBound + 1 < new.lowerBound || new.upperBound + 1 < range.lowerBound {
                ranges.append(range)
            } else {
                new = min(range.lowerBound, new.lowerBound)...max(range.upperBound, new.upperBound)
            }
        }
        ranges.append(new)
        passed = ranges.sorted { $0.lowerBound < $1.lowerBound }
        // Who has answered so often between unread messages is taken to have read the first of them.
        if passed.count > Limits.passedRangesMax { readThrough = passed[0].lowerBound - 1 }
        read(through: readThrough)
    }
}

extension ConversationRow: FieldCoded {
    static let blank = ConversationRow()

    mutating func code(_ coder: inout some FieldCoder) {
        coder.field(1, &last)
        coder.field(2, &readThrough, mostly: 0)
        coder.field(3, &recency, mostly: 0)
        coder.field(4, &shown, mostly: 0)
        var ranges = passed.isEmpty ? nil : passed
        coder.field(5, &ranges, as: Self.bytes, Self.ranges)
        passed = ranges ?? []
    }

    /// Ranges as they stand in a field: each with its first and its last number, 8 bytes each.
    private static func bytes(_ ranges: [ClosedRange<UInt64>]) -> [UInt8] {
        var writer = RowWriter(capacity: 16 * ranges.count)
        for range in ranges {
            writer.write(range.lowerBound)
            writer.write(range.upperBound)
        }
        return writer.bytes
    }

    private static func ranges(_ bytes: [UInt8]) -> [ClosedRange<UInt64>]? {
        var reader = RowReader(bytes)
        var ranges: [ClosedRange<UInt64>] = []
        while let first = reader.number(UInt64.self), let last = reader.number(UInt64.self) {
            guard first <= last else { return nil }
            ranges.append(first...last)
        }
        return reader.rest().isEmpty ? ranges : nil
    }
}

/// What became of one's own message in an inbox.
///
///     key: inbox, conversation, number      body: fields
public struct OwnMessageRow: Hashable, Sendable {
    public enum State: Hashable, Sendable {
        /// It waits or is on its way: its number in the outbox, and its bytes there.
        case open(UInt64, byteCount: Int)
        case acknowledged
        case expired
        /// The server refused it: why, and in its own words where it has any.
        case refused(ReasonCode, String?)
        case queueFull
        case cancelled
        /// It could not be sent: why.
        case failed(String)
    }

    public var state: State

    public init(_ state: State) { self.state = state }

    /// A row of the table `own`; nil if it is none.
    public init?(_ row: StoreRow) {
        guard let fields = Fields(body: row.body) else { return nil }
        switch fields.kind {
        case 0: state = .open(fields.number, byteCount: Int(clamping: fields.byteCount))
        case 1: state = .acknowledged
        case 2: state = .expired
        case 3: state = .refused(ReasonCode(rawValue: fields.reason), fields.words)
        case 4: state = .queueFull
        case 5: state = .cancelled
        default: state = .failed(fields.words ?? "")
        }
    }

    public func put(_ inbox: String, _ conversation: String, _ number: UInt64) -> StoreChange {
        var fields = Fields()
        switch state {
        case .open(let number, let bytes): (fields.number, fields.byteCount) = (number, UInt64(clamping: bytes))
        case .acknowledged: fields.kind = 1
        case .expired: fields.kind = 2
        case .refused(let code, let text): (fields.kind, fields.reason, fields.words) = (3, code.rawValue, text)
        case .queueFull: fields.kind = 4
        case .cancelled: fields.kind = 5
        case .failed(let text): (fields.kind, fields.words) = (6, text)
        }
        return .put(.own, StoreKey(inbox).text(conversation).number(number), fields.encodedFields)
    }

    /// What a row says of a message.
    private struct Fields: FieldCoded {
        var kind: UInt8 = 0
        var reason: UInt8 = 0
        /// In the outbox, and the bytes there.
        var number: UInt64 = 0
        var byteCount: UInt64 = 0
        var words: String?

        static let blank = Fields()

        mutating func code(_ coder: inout some FieldCoder) {
            coder.field(1, &kind)
            coder.field(2, &reason, mostly: 0)
            coder.field(3, &number, mostly: 0)
            coder.field(4, &byteCount, mostly: 0)
            coder.field(5, &words)
        }
    }

    /// Asks for a conversation's messages with these numbers.
    public static func query(_ inbox: String, _ conversation: String, _ numbers: ClosedRange<UInt64>) -> StoreQuery {
        let key = StoreKey(inbox).text(conversation)
        return StoreQuery(
            .own, from: key.number(numbers.lowerBound),
            to: numbers.upperBound == .max ? key.end : key.number(numbers.upperBound + 1))
    }
}

/// A message of an inbox by its age: the oldest are removed first when there are too many.
///
///     key: inbox, arrived at 8, conversation, number      body: bytes in the table `inbox`, a field
///     key: inbox, the greatest number                     body: messages and bytes of all, fields (`InboxTotals`)
struct KeptRow {
    let arrivedAt: UInt64
    let conversation: String
    let number: UInt64
    let byteCount: Int

    init?(_ row: StoreRow, of inbox: String) {
        let prefix = StoreKey(inbox).bytes.count
        var reader = RowReader(Array(row.key.bytes.dropFirst(prefix)))
        guard let arrivedAt = reader.number(UInt64.self), arrivedAt < .max, let number = row.key.lastNumber,
            let byteCount = NumberRow.number(row.body)
        else { return nil }
        let rest = Array(reader.rest())
        guard rest.count >= 9 else { return nil }
        conversation = String(decoding: rest.dropLast(9), as: UTF8.self)
        (self.arrivedAt, self.number, self.byteCount) = (arrivedAt, number, Int(clamping: byteCount))
    }

    static func key(_ inbox: StoreKey, _ arrivedAt: UInt64, _ conversation: String, _ number: UInt64) -> StoreKey {
        inbox.number(arrivedAt).text(conversation).number(number)
    }
}

/// The conversation whose last message was the inbox's arrival of that number, and the message.
///
///     key: inbox, recency      body: fields
public struct RecentRow: Sendable {
    public let last: InboxMessage

    public init?(_ row: StoreRow) {
        guard let fields = Fields(body: row.body), let last = InboxMessage(fields.conversation, fields.number, fields.message)
        else {
            return nil
        }
        self.last = last
    }

    static func body(_ message: InboxMessage) -> [UInt8] {
        Fields(conversation: message.conversation, number: message.number, message: message.body).encodedFields
    }

    /// What a row says; the message as its own row has it.
    private struct Fields: FieldCoded {
        var conversation = ""
        var number: UInt64 = 0
        var message: [UInt8] = []

        static let blank = Fields()

        mutating func code(_ coder: inout some FieldCoder) {
            coder.field(1, &conversation, mostly: "")
            coder.field(2, &number)
            coder.field(3, &message)
        }
    }
}

/// What an inbox remembers of an arrival, so as to know it again.
///
///     key: inbox, arrival's number within the ring      body: fields
struct ArrivalRow: FieldCoded {
    private(set) var arrival: UInt64
    private(set) var fingerprint: Repeats.Fingerprint

    init(_ arrival: UInt64, _ fingerprint: Repeats.Fingerprint) { (self.arrival, self.fingerprint) = (arrival, fingerprint) }

    static let blank = ArrivalRow(0, Repeats.Fingerprint(identifier: nil, packetIdentifier: nil, contents: 0))

    mutating func code(_ coder: inout some FieldCoder) {
        coder.field(1, &arrival)
        coder.field(2, &fingerprint.contents)
        coder.field(3, &fingerprint.packetIdentifier)
        coder.field(4, &fingerprint.identifier)
    }
}

/// How many messages an inbox has, and their bytes.
struct InboxTotals: FieldCoded {
    var count: UInt64 = 0
    var byteCount: UInt64 = 0

    static let blank = InboxTotals()

    mutating func code(_ coder: inout some FieldCoder) {
        coder.field(1, &count)
        coder.field(2, &byteCount)
    }
}

extension Repeats.Fingerprint {
    init(_ message: ReceivedMessage) {
        let identifier = message.hasProperties ? message.properties.messageIdentifier : nil
        self.init(
            identifier: identifier.map { Array($0.utf8) }, packetIdentifier: message.token?.packetIdentifier,
            contents: Self.contents(message.topic, message.payload))
    }

    /// Of a message that is about to leave, as it will be known when it comes.
    init(_ publication: Publication) {
        self.init(
            identifier: publication.properties.messageIdentifier.map { Array($0.utf8) }, packetIdentifier: nil,
            contents: Self.contents(publication.topic, publication.payload))
    }

    private static func contents(_ topic: TopicName, _ payload: Payload) -> UInt64 {
        let topic = topic.bytes.withUnsafeBytes { RowChecksum.hash($0, seed: 0) }
        return payload.withUnsafeBytes { RowChecksum.hash($0, seed: topic) }
    }
}

extension Limits {
    /// Ranges of one's own and of removed messages between a conversation's unread ones. Who answers once more is taken
    /// to have read what is before the first of them.
    static let passedRangesMax = 100
}
