/// Gives topics and filters their subjects, and back: one space for each cluster, so that several clusters can share
/// the same servers.
///
///     martlet.CLUSTER.t.LEVEL.LEVEL …     a topic                    a/b        martlet.CLUSTER.t.a.b
///     martlet.CLUSTER.d.LEVEL …           a topic with $ in front    $x/y       martlet.CLUSTER.d.$x.y
///     martlet.CLUSTER.o                   overflow: the topic is longer than a subject may be, and stands inside
///     martlet.CLUSTER.l.PARTITION         records of the log
///     martlet.CLUSTER.n.NODE.…            messages to a node
///     martlet.CLUSTER.m                   what nodes say of themselves
///     martlet.CLUSTER.q.NODE              what a node is asked for administrators
///     martlet.CLUSTER.r.t.LEVEL.LEVEL …   the retained message of a topic, in a stream
///     martlet.CLUSTER.r.o.HASH            the same of a topic that is too long for a subject: 128 bits stand for it
///
/// A level is a token. Bytes that a token cannot hold (0x00–0x20, 0x7F, `%`, `.`, `*`, `>`) are written %XX; an empty
/// level is a lone `%`. The mapping is reversible, and no two topics have one subject. Topics with `$` stand under
/// another root, because neither `#` nor `+` at the beginning matches them. [MQTT-4.7.2-1 v5]
public struct SubjectSpace: Sendable {
    let topicRoot: [UInt8]
    let dollarRoot: [UInt8]
    /// The subject of topics that are too long for a subject of their own.
    public let overflow: [UInt8]
    private let nodeRoot: [UInt8]
    private let logRoot: [UInt8]
    /// The subject on which nodes send their summaries.
    public let summaries: [UInt8]
    private let questionRoot: [UInt8]
    private let retainedRoot: [UInt8]

    /// - Parameter cluster: the cluster's name; what a token cannot hold of it is escaped.
    public init(cluster: String) {
        var root = Array("martlet.".utf8)
        Self.append(Array(cluster.utf8)[...], to: &root)
        topicRoot = root + Array(".t".utf8)
        dollarRoot = root + Array(".d".utf8)
        overflow = root + Array(".o".utf8)
        nodeRoot = root + Array(".n.".utf8)
        logRoot = root + Array(".l.".utf8)
        summaries = root + Array(".m".utf8)
        questionRoot = root + Array(".q.".utf8)
        retainedRoot = root + Array(".r.".utf8)
    }

    // MARK: Topics

    /// Writes a topic's subject, or `overflow` if that would be too long.
    ///
    /// - Returns: whether the topic can be read from the subject.
    public func write(topic: UnsafeRawBufferPointer, to subject: inout [UInt8]) -> Bool {
        subject.removeAll(keepingCapacity: true)
        subject.append(contentsOf: topic.first == UInt8(ascii: "$") ? dollarRoot : topicRoot)
        Self.append(topic: topic, to: &subject)
        guard subject.count > Limits.subjectBytesMax else { return true }
        subject = overflow
        return false
    }

    /// The subject under which the stream of retained messages has a topic's.
    public func retained(_ topic: UnsafeRawBufferPointer) -> [UInt8] {
        var subject = retainedRoot + [UInt8(ascii: "t")]
        Self.append(topic: topic, to: &subject)
        if subject.count <= Limits.subjectBytesMax { return subject }
        return retainedRoot + Array("o.".utf8) + Self.digest(topic)
    }

    /// 32 hexadecimal digits that stand for bytes, the same on all nodes.
    public static func digest(_ bytes: some Collection<UInt8>) -> [UInt8] {
        // FNV-1a, twice with different beginnings.
        var (high, low): (UInt64, UInt64) = (0xcbf2_9ce4_8422_2325, 0x8422_2325_cbf2_9ce4)
        for byte in bytes {
            high = (high ^ UInt64(byte)) &* 0x100_0000_01b3
            low = (low ^ UInt64(byte)) &* 0x100_0000_01b3
            low ^= low >> 29
        }
        return NodeID(high).token + NodeID(low).token
    }

    /// The subjects of the stream of retained messages.
    public var retainedPattern: [UInt8] { retainedRoot + [UInt8(ascii: ">")] }

    /// Whether clients' messages are published there.
    public func isTopics(_ subject: UnsafeRawBufferPointer) -> Bool {
        Self.begins(subject, with: topicRoot) || Self.begins(subject, with: dollarRoot)
            || subject.count == overflow.count && subject.elementsEqual(overflow)
    }

    /// Appends a topic's levels, a separator in front.
    private static func append(topic: UnsafeRawBufferPointer, to subject: inout [UInt8]) {
        subject.append(Self.separator)
        guard !appendAsItStands(topic, to: &subject) else { return }
        var isLevelEmpty = true
        for byte in topic {
            if byte == UInt8(ascii: "/") {
                if isLevelEmpty { subject.append(Self.escape) }
                subject.append(Self.separator)
                isLevelEmpty = true
            } else {
                Self.append(byte, to: &subject)
                isLevelEmpty = false
            }
        }
        if isLevelEmpty { subject.append(Self.escape) }
    }

    /// Appends a topic none of whose bytes has to be escaped, and no empty level; false, and nothing is done, if it is
    /// another one.
    private static func appendAsItStands(_ topic: UnsafeRawBufferPointer, to subject: inout [UInt8]) -> Bool {
        let start = subject.count
        subject.append(contentsOf: topic)
        let isPlain = subject.withUnsafeMutableBytes { bytes in
            var last = separator
            for index in start..<bytes.count {
                switch bytes[index] {
                case UInt8(ascii: "/"):
                    guard last != separator else { return false }
                    bytes[index] = separator
                case let byte where mustBeEscaped(byte): return false
                default: break
                }
                last = bytes[index]
            }
            return last != separator
        }
        if !isPlain { subject.removeLast(topic.count) }
        return isPlain
    }

    /// Reads the topic of a subject; false if it is no topic's.
    public func read(subject: UnsafeRawBufferPointer, topic: inout [UInt8]) -> Bool {
        topic.removeAll(keepingCapacity: true)
        let hasDollar: Bool
        if Self.begins(subject, with: topicRoot) {
            hasDollar = false
        } else if Self.begins(subject, with: dollarRoot) {
            hasDollar = true
        } else {
            return false
        }
        guard subject.count > topicRoot.count + 1 else { return false }
        topic.append(contentsOf: subject[(topicRoot.count + 1)...])
        guard let length = topic.withUnsafeMutableBytes(Self.unescape) else { return false }
        topic.removeLast(topic.count - length)
        return (topic.first == UInt8(ascii: "$")) == hasDollar
    }

    /// Makes levels of tokens, where they stand; how many bytes that are, or nil if an escape is none.
    private static func unescape(_ bytes: UnsafeMutableRawBufferPointer) -> Int? {
        var (position, length) = (0, 0)
        while position < bytes.count {
            let byte = bytes[position]
            position += 1
            switch byte {
            case separator: bytes[length] = UInt8(ascii: "/")
            case escape:
                // A lone one is an empty level.
                guard position < bytes.count, bytes[position] != separator else { continue }
                guard position + 1 < bytes.count, let high = HexadecimalDigit.value(bytes[position]),
                    let low = HexadecimalDigit.value(bytes[position + 1])
                else { return nil }
                bytes[length] = high << 4 | low
                position += 2
            default: bytes[length] = byte
            }
            length += 1
        }
        return length
    }

    // MARK: Filters

    /// The subjects that all topics have which a filter matches: two if it ends in `#`, which matches the parent too;
    /// none where every such topic is too long for a subject, because the overflow subject is always subscribed to.
    ///
    /// - Parameter filter: what is matched, without `$share/NAME/`.
    public func subjects(of filter: some Collection<UInt8>) -> [[UInt8]] {
        var subject = filter.first == UInt8(ascii: "$") ? dollarRoot : topicRoot
        var found: [[UInt8]] = []
        let levels = filter.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        for (index, level) in levels.enumerated() {
            if level.elementsEqual([UInt8(ascii: "#")]) {
                if index > 0 { found.append(subject) }
                found.append(subject + [Self.separator, UInt8(ascii: ">")])
                return found.filter { $0.count <= Limits.subjectBytesMax }
            }
            subject.append(Self.separator)
            if level.elementsEqual([UInt8(ascii: "+")]) {
                subject.append(UInt8(ascii: "*"))
            } else {
                Self.append(level, to: &subject)
            }
        }
        return subject.count <= Limits.subjectBytesMax ? [subject] : []
    }

    // MARK: The log

    /// The subject on which records of a partition are published.
    public func log(partition: Int) -> [UInt8] { logRoot + Array(String(partition).utf8) }

    // MARK: Nodes

    /// All subjects on which a node gets messages.
    public func nodeMessages(to node: NodeID) -> [UInt8] { nodeRoot + node.token + Array(".>".utf8) }

    /// The subject on which a node gets messages about sessions.
    public func sessions(to node: NodeID) -> [UInt8] { nodeRoot + node.token + Array(".s".utf8) }

    /// The subject on which a node is asked for administrators.
    public func questions(to node: NodeID) -> [UInt8] { questionRoot + node.token }

    /// Where a node is asked to answer a fence.
    func fence(to node: NodeID) -> [UInt8] { nodeRoot + node.token + Array(".f".utf8) }

    /// The subject on which a node that is new on its connection asks another one to answer a fence.
    func arrival(to node: NodeID) -> [UInt8] { nodeRoot + node.token + Array(".j".utf8) }

    /// Where a node gets the answer of another to its fence of this number.
    func answer(to node: NodeID, from other: NodeID, fence: UInt64) -> [UInt8] {
        nodeRoot + node.token + Array(".a.".utf8) + other.token + [Self.separator] + NodeID(fence).token
    }

    /// What kind of message a node's subject names, and which node's it is.
    func nodeMessage(_ subject: UnsafeRawBufferPointer) -> (node: NodeID, nodeMessage: NodeMessage)? {
        guard subject.count > nodeRoot.count, Self.isFront(nodeRoot, of: subject) else { return nil }
        let tokens = subject.dropFirst(nodeRoot.count).split(separator: Self.separator, omittingEmptySubsequences: false)
        guard let node = NodeID(token: tokens[0]) else { return nil }
        if tokens.count == 2, tokens[1].elementsEqual("f".utf8) { return (node, .fence) }
        if tokens.count == 2, tokens[1].elementsEqual("j".utf8) { return (node, .arrival) }
        guard tokens.count == 4, tokens[1].elementsEqual("a".utf8), let other = NodeID(token: tokens[2]),
            let number = NodeID(token: tokens[3])
        else { return nil }
        return (node, .answer(from: other, fence: number.rawValue))
    }

    enum NodeMessage: Equatable {
        case fence
        case arrival
        case answer(from: NodeID, fence: UInt64)
    }

    // MARK: Tokens

    private static let separator = UInt8(ascii: ".")
    private static let escape = UInt8(ascii: "%")

    private static func begins(_ subject: UnsafeRawBufferPointer, with root: [UInt8]) -> Bool {
        subject.count > root.count && subject[root.count] == separator && isFront(root, of: subject)
    }

    /// From behind: all of them begin alike.
    private static func isFront(_ root: [UInt8], of subject: UnsafeRawBufferPointer) -> Bool {
        for index in root.indices.reversed() where subject[index] != root[index] { return false }
        return true
    }

    private static func append(_ level: some Collection<UInt8>, to subject: inout [UInt8]) {
        if level.isEmpty { subject.append(escape) }
        for byte in level { append(byte, to: &subject) }
    }

    @inline(__always)
    private static func append(_ byte: UInt8, to subject: inout [UInt8]) {
        guard mustBeEscaped(byte) else { return subject.append(byte) }
        subject.append(escape)
        subject.append(HexadecimalDigit.digits[Int(byte >> 4)])
        subject.append(HexadecimalDigit.digits[Int(byte & 15)])
    }

    @inline(__always)
    private static func mustBeEscaped(_ byte: UInt8) -> Bool {
        switch byte {
        case 0...0x20, 0x7F, UInt8(ascii: "%"), UInt8(ascii: "."), UInt8(ascii: "*"), UInt8(ascii: ">"): true
        default: false
        }
    }
}

extension Limits {
    /// Bytes of a subject: the servers' control line has 4,096 for the command, the subject, the subject of the answer
    /// and two numbers. Topics whose subject would be longer travel on the overflow subject.
    static let subjectBytesMax = 3500
}
