internal import MQTTCodec

/// One `topic` line of a bridge: what crosses it, which way, and under which names.
///
///     local topic  = localPrefix  + what the pattern matches
///     remote topic = remotePrefix + what the pattern matches
public struct BridgedTopic: Hashable, Sendable {
    public enum Direction: Sendable {
        case out
        case `in`
        case both
    }

    /// A topic filter without the prefixes; empty where the two prefixes name one topic each.
    public var pattern: String
    public var direction: Direction
    /// 0, 1 or 2.
    public var qos: UInt8
    public var localPrefix: String
    public var remotePrefix: String

    public init(_ pattern: String, _ direction: Direction, qos: UInt8 = 0, localPrefix: String = "", remotePrefix: String = "") {
        self.pattern = pattern
        self.direction = direction
        self.qos = qos
        self.localPrefix = localPrefix
        self.remotePrefix = remotePrefix
    }

    var goesOut: Bool { direction != .in }
    var comesIn: Bool { direction != .out }
}

/// Renames topics for the other end of a bridge.
///
/// The first line that matches decides. As with mosquitto, lines with a prefix go before those without.
struct TopicMap {
    /// What stands before a topic on the side that it comes from, and what takes its place.
    private struct Line {
        let filter: [UInt8]
        let strippedCount: Int
        let prefix: ArraySlice<UInt8>
        /// Whether what follows the prefix is named by the line itself with a $, such as `$SYS/#`.
        let namesDollar: Bool

        init(_ topic: BridgedTopic, from taken: String, to given: String) {
            filter = TopicMap.matched(taken + topic.pattern)
            strippedCount = taken.utf8.count
            prefix = Array(given.utf8)[...]
            namesDollar = topic.pattern.utf8.first == TopicMap.dollar && !topic.pattern.hasPrefix("$share/")
        }
    }

    private static let dollar = UInt8(ascii: "$")

    private let outgoing: [Line]
    private let incoming: [Line]

    init(_ topics: [BridgedTopic]) {
        let ordered = topics.filter(\.hasPrefix) + topics.filter { !$0.hasPrefix }
        outgoing = ordered.filter(\.goesOut).map { Line($0, from: $0.localPrefix, to: $0.remotePrefix) }
        incoming = ordered.filter(\.comesIn).map { Line($0, from: $0.remotePrefix, to: $0.localPrefix) }
    }

    /// The filter without $share/NAME/, which topics do not have.
    private static func matched(_ text: String) -> [UInt8] {
        TopicFilter(text).map { Array($0.matchingBytes) } ?? Array(text.utf8)
    }

    /// A topic as it is called at the other end: `prefix`, and what of the topic is behind its first `strippedCount`
    /// bytes.
    struct Renaming {
        let strippedCount: Int
        let prefix: ArraySlice<UInt8>
        /// Whether the name would begin with a $ that neither the topic nor the line begins with: what the broker there
        /// keeps for itself, such as `$CONTROL/`, is not to be reached by whoever may publish below a prefix here.
        let isReserved: Bool

        /// Calls `body` with the whole name.
        func withName<Result>(of topic: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
            if strippedCount == 0, prefix.isEmpty { return body(topic) }
            return (Array(prefix) + topic[strippedCount...]).withUnsafeBytes(body)
        }
    }

    /// What a topic of this broker is called at the other; nil if it does not cross the bridge.
    func out(_ topic: UnsafeRawBufferPointer) -> Renaming? { Self.renaming(outgoing, topic) }

    /// What a topic of the other broker is called here; nil if it does not cross the bridge.
    func `in`(_ topic: UnsafeRawBufferPointer) -> Renaming? { Self.renaming(incoming, topic) }

    private static func renaming(_ lines: [Line], _ topic: UnsafeRawBufferPointer) -> Renaming? {
        for line in lines where matches(line.filter, topic) {
            if line.strippedCount < topic.count + line.prefix.count, line.strippedCount <= topic.count {
                let isReserved =
                    line.prefix.isEmpty && line.strippedCount > 0 && topic[line.strippedCount] == dollar && !line.namesDollar
                return Renaming(strippedCount: line.strippedCount, prefix: line.prefix, isReserved: isReserved)
            }
            // The prefix a/ before # is a filter that a matches too (4.7.1.2 of the standard), and that is a topic of
            // its own at the other end: the one above the other prefix.
            if line.prefix.count > 1, line.prefix.last == UInt8(ascii: "/") {
                return Renaming(strippedCount: topic.count, prefix: line.prefix.dropLast(), isReserved: false)
            }
        }
        return nil
    }

    /// Whether a filter matches a topic, level by level and without a copy: this is on the way of each message.
    static func matches(_ filter: [UInt8], _ topic: UnsafeRawBufferPointer) -> Bool {
        filter.withUnsafeBytes { filter in
            let (slash, one, many) = (UInt8(ascii: "/"), UInt8(ascii: "+"), UInt8(ascii: "#"))
            guard let first = filter.first else { return false }
            if topic.first == UInt8(ascii: "$"), first == one || first == many { return false }
            var (wanted, found) = (0, 0)
            while wanted < filter.count {
                if filter[wanted] == many { return true }
                if filter[wanted] == one {
                    wanted += 1
                    while found < topic.count, topic[found] != slash { found += 1 }
                } else if found < topic.count, filter[wanted] == topic[found] {
                    wanted += 1
                    found += 1
                } else {
                    // a/# matches a.
                    return found == topic.count && wanted + 2 == filter.count && filter[wanted] == slash
                        && filter[wanted + 1] == many
                }
            }
            return found == topic.count
        }
    }
}

extension BridgedTopic {
    fileprivate var hasPrefix: Bool { !localPrefix.isEmpty || !remotePrefix.isEmpty }
}

/// The Topic Aliases that a bridge sets on its connection: the first topics get one each, as many as the other broker
/// allows. [MQTT-3.3.2-9 v5]
struct SentTopicAliases {
    private var aliases: [[UInt8]: UInt16] = [:]
    private let maximum: Int
    /// The topic that came last and its alias: most often a topic comes again at once.
    private var last: (topic: [UInt8], alias: UInt16) = ([], 0)

    init(maximum: UInt16) { self.maximum = min(Int(maximum), Limits.sentAliasesMax) }

    /// The alias of a topic, and whether it is set; nil if it has none and gets none. A shorter topic than its property
    /// is not worth one.
    mutating func alias(for topic: UnsafeRawBufferPointer) -> (number: UInt16, isSet: Bool)? {
        guard maximum > 0, topic.count > 3 else { return nil }
        if last.topic.elementsEqual(topic) { return (last.alias, true) }
        let key = Array(topic)
        if let alias = aliases[key] {
            last = (key, alias)
            return (alias, true)
        }
        return aliases.count < maximum ? (UInt16(aliases.count + 1), false) : nil
    }

    /// Takes note that a packet that sets the alias is written.
    mutating func set(_ alias: UInt16, for topic: UnsafeRawBufferPointer) {
        last = (Array(topic), alias)
        aliases[last.topic] = alias
    }
}

/// A message on its way across a bridge.
extension PublishView {
    /// Writes a message as it is called on the other side of a bridge.
    ///
    /// - Parameters:
    ///   - name: its topic there; empty if `addition` has an alias for it.
    ///   - addition: bytes of properties that it gets on top in MQTT 5.0.
    ///   - version: of the packet, with `qos`, `retain` and `duplicate`.
    ///   - bytesMax: the most that the packet may have.
    ///   - output: where it goes.
    /// - Returns: its bytes; 0 if nothing is written, because there would be more than `bytesMax`, or no such topic.
    func write(
        as name: UnsafeRawBufferPointer, adding addition: [UInt8], version: ProtocolVersion, qos: QoS,
        retain: Bool, duplicate: Bool, bytesMax: Int, into output: inout [UInt8]
    ) -> Int {
        guard name.count <= Int(UInt16.max) else { return 0 }
        let expiryLength = messageExpiryInterval == nil ? 0 : 5
        let propertiesLength = version == .v5 ? forwardedPropertiesLength + addition.count + expiryLength : 0
        let size = PublishHeader.encodedSize(
            version: version, qos: qos, topicLength: name.count, propertiesLength: propertiesLength,
            payloadLength: payload.count)
        guard size <= bytesMax, size <= Self.packetBytesLargest else { return 0 }
        let header = PublishHeader(version: version, qos: qos, retain: retain, duplicate: duplicate)
        withUnsafeTemporaryAllocation(byteCount: size - payload.count, alignment: 1) { head in
            guard let packet = head.baseAddress else { return }
            let offsets = header.write(
                to: packet, topic: name, packetIdentifier: packetIdentifier, propertiesLength: propertiesLength,
                payloadLength: payload.count)
            if version == .v5 {
                var place = packet + offsets.propertiesOffset
                if let interval = messageExpiryInterval {
                    place.storeBytes(of: 0x02, as: UInt8.self)
                    (place + 1).storeBytes(of: interval.bigEndian, as: UInt32.self)
                    place += 5
                }
                copyForwardedProperties(to: place)
                place += forwardedPropertiesLength
                // Behind those of its publisher, whose order stands. [MQTT-3.3.2-18 v5]
                addition.withUnsafeBytes { bytes in
                    if let base = bytes.baseAddress { place.copyMemory(from: base, byteCount: bytes.count) }
                }
            }
            output.append(contentsOf: UnsafeRawBufferPointer(head))
        }
        output.append(contentsOf: payload)
        return size
    }

    /// The most that a packet of MQTT has, in bytes, with its fixed header.
    private static let packetBytesLargest = 268_435_460
}
