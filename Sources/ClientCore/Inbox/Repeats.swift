/// Tells messages that came before from new ones.
///
/// A message that says what its publisher calls it is known by that, however often and from whichever session it comes.
/// One that does not is a repeat if it has DUP set, and the packet identifier and the contents of one that came in the
/// same session. ![MQTT-4.3.2-5 v5] takes it for a new one when its PUBACK was sent; but whether the server has got
/// that is what nobody knows after a cut or a crash.
public struct Repeats: Sendable {
    /// What tells a message from others, so that it is known when it comes again.
    public struct Fingerprint: Hashable, Sendable {
        /// What its publisher calls it; nil if it does not say.
        public var identifier: [UInt8]?
        /// Nil at QoS 0.
        public var packetIdentifier: UInt16?
        /// A checksum of topic and payload, always of the same kind.
        public var contents: UInt64

        public init(identifier: [UInt8]?, packetIdentifier: UInt16?, contents: UInt64) {
            (self.identifier, self.packetIdentifier, self.contents) = (identifier, packetIdentifier, contents)
        }
    }

    /// How many identifiers of publishers are remembered; of the others the oldest is forgotten.
    public let capacity: Int
    private var known: Set<[UInt8]> = []
    /// The identifiers in the order in which they came; a ring once it is full.
    private var order: [[UInt8]] = []
    private var oldest = 0
    private var contents: [UInt16: UInt64] = [:]

    public init(capacity: Int = 10_000) { self.capacity = max(1, capacity) }

    /// Whether a message came before.
    public func contains(_ fingerprint: Fingerprint, duplicate: Bool) -> Bool {
        if let identifier = fingerprint.identifier { return known.contains(identifier) }
        guard duplicate, let packetIdentifier = fingerprint.packetIdentifier else { return false }
        return contents[packetIdentifier] == fingerprint.contents
    }

    /// Remembers a message that is new.
    public mutating func insert(_ fingerprint: Fingerprint) {
        if let packetIdentifier = fingerprint.packetIdentifier { contents[packetIdentifier] = fingerprint.contents }
        guard let identifier = fingerprint.identifier, known.insert(identifier).inserted else { return }
        guard order.count == capacity else { return order.append(identifier) }
        known.remove(order[oldest])
        order[oldest] = identifier
        oldest = (oldest + 1) % capacity
    }

    /// The server has forgotten the session: packet identifiers begin anew.
    public mutating func sessionLost() { contents = [:] }
}

/// How many messages of an inbox nobody has read, by conversation and in all.
public struct UnreadCount: Hashable, Sendable {
    public private(set) var total = 0
    /// Conversations with unread messages.
    public private(set) var conversations: [String: Int] = [:]

    public init() {}

    /// Of one conversation.
    public subscript(conversation: String) -> Int {
        get { conversations[conversation] ?? 0 }
        set {
            total += newValue - self[conversation]
            conversations[conversation] = newValue == 0 ? nil : newValue
        }
    }
}
