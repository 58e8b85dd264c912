import BrokerModel
import MQTTCodec

/// What an order has found among rows that were read for it.
struct FoundRows {
    /// Entries whose topics match, by number.
    private(set) var matching: Set<UInt64> = []
    /// The numbers of rows that are missing or damaged, among them such as have gone since they were asked for.
    private(set) var unreadable: Set<UInt64> = []

    mutating func look(through answer: StoreRows, _ filter: TopicFilter) {
        let rows = answer.request.rows
        for (index, row) in rows.enumerated() where row.table == .entry {
            let isShared = index + 1 < rows.count && rows[index + 1].table == .message
            switch Self.matches(filter, answer.bodies[index], isShared ? answer.bodies[index + 1] : nil) {
            case true?: matching.insert(row.key)
            case false?: break
            case nil: unreadable.insert(row.key)
            }
        }
    }

    /// Whether the topic of an entry matches; nil if its rows do not say.
    private static func matches(_ filter: TopicFilter, _ body: [UInt8]?, _ shared: [UInt8]?) -> Bool? {
        body?.withUnsafeBytes { bytes in
            var reader = RecordReader(bytes)
            guard let header = EntryHeader(&reader), reader.take(Int(header.identifiersLength)) != nil else { return nil }
            if header.isInline { return MessageParts(&reader).map { filter.matches($0.topic) } }
            return shared?.withUnsafeBytes { message in
                var reader = RecordReader(message)
                return MessageParts(&reader).map { filter.matches($0.topic) }
            }
        }
    }
}
