extension PublishView {
    /// Copies `forwardedPropertiesLength` bytes: every property that belongs to the message, in order. [MQTT-3.3.2-18 v5]
    ///
    /// One copy when nothing is kept back; else one for each run between the properties that are.
    public func copyForwardedProperties(to memory: UnsafeMutableRawPointer) {
        guard let base = properties.baseAddress else { return }
        if forwardedPropertiesLength == properties.count {
            memory.copyMemory(from: base, byteCount: properties.count)
            return
        }
        var written = 0
        var runStart = 0
        func copyRun(until end: Int) {
            (memory + written).copyMemory(from: base + runStart, byteCount: end - runStart)
            written += end - runStart
        }
        Self.forEachProperty(of: properties) { identifier, start, end in
            guard identifier == .topicAlias || identifier == .messageExpiryInterval || identifier == .subscriptionIdentifier else {
                return
            }
            copyRun(until: start)
            runStart = end
        }
        copyRun(until: properties.count)
    }

    /// The topic in memory of its own; nil if only an alias is given.
    public var topicName: TopicName? { topic.isEmpty ? nil : TopicName(checked: Array(topic)) }

    /// The subscription identifiers, for a client that looks up which of its subscriptions the message is for. Allocates.
    public var subscriptionIdentifiers: [UInt32] {
        guard hasSubscriptionIdentifiers else { return [] }
        var identifiers: [UInt32] = []
        Self.forEachSubscriptionIdentifier(in: properties) { identifiers.append($0) }
        return identifiers
    }

    /// Calls `body` with each subscription identifier among the property bytes of a view, or a copy of them. Allocates nothing.
    public static func forEachSubscriptionIdentifier(in properties: UnsafeRawBufferPointer, _ body: (UInt32) -> Void) {
        forEachProperty(of: properties) { identifier, start, end in
            guard identifier == .subscriptionIdentifier else { return }
            let value = try? VariableByteInteger.read(UnsafeRawBufferPointer(rebasing: properties[(start + 1)..<end]))
            if let value { body(UInt32(truncatingIfNeeded: value.value)) }
        }
    }

    /// The Correlation Data among the property bytes of a view, or a copy of them.
    public static func correlationData(in properties: UnsafeRawBufferPointer) -> [UInt8]? {
        var data: [UInt8]?
        forEachProperty(of: properties) { identifier, start, end in
            // Behind the identifier and a length of two bytes.
            if identifier == .correlationData { data = Array(properties[(start + 3)..<end]) }
        }
        return data
    }

    /// Whether there is a User Property among the property bytes of a view, or a copy of them. Allocates nothing.
    public static func hasUserProperties(in properties: UnsafeRawBufferPointer) -> Bool {
        var hasOne = false
        forEachProperty(of: properties) { identifier, _, _ in hasOne = hasOne || identifier == .userProperty }
        return hasOne
    }

    /// Calls `body` with the name and the value of each User Property among the property bytes of a view, or a copy of them, in order.
    /// Allocates nothing.
    public static func forEachUserProperty(
        in properties: UnsafeRawBufferPointer, _ body: (_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Void
    ) {
        forEachProperty(of: properties) { identifier, start, end in
            guard identifier == .userProperty else { return }
            let middle = endOfText(at: start + 1, of: properties)
            body(
                UnsafeRawBufferPointer(rebasing: properties[(start + 3)..<middle]),
                UnsafeRawBufferPointer(rebasing: properties[(middle + 2)..<end]))
        }
    }

    /// Calls `body` with the identifier and the range of each property. The bytes were checked when the view was made.
    @inline(__always)
    private static func forEachProperty(
        of properties: UnsafeRawBufferPointer, _ body: (PropertyIdentifier, _ start: Int, _ end: Int) -> Void
    ) {
        var start = 0
        while start < properties.count, let identifier = PropertyIdentifier(rawValue: properties[start]) {
            let end = endOfProperty(identifier, at: start, of: properties)
            body(identifier, start, end)
            start = end
        }
    }

    private static func endOfProperty(_ identifier: PropertyIdentifier, at start: Int, of properties: UnsafeRawBufferPointer) -> Int
    {
        switch identifier {
        case .payloadFormatIndicator: start + 2
        case .topicAlias: start + 3
        case .messageExpiryInterval: start + 5
        case .userProperty: endOfText(at: endOfText(at: start + 1, of: properties), of: properties)
        case .subscriptionIdentifier: endOfVariableByteInteger(at: start + 1, of: properties)
        // Content Type, Response Topic, Correlation Data: no other passes the check.
        default: endOfText(at: start + 1, of: properties)
        }
    }

    private static func endOfText(at offset: Int, of properties: UnsafeRawBufferPointer) -> Int {
        offset + 2 + Int(UInt16(bigEndian: properties.loadUnaligned(fromByteOffset: offset, as: UInt16.self)))
    }

    private static func endOfVariableByteInteger(at offset: Int, of properties: UnsafeRawBufferPointer) -> Int {
        var offset = offset
        while properties[offset] >= 0x80 { offset += 1 }
        return offset + 1
    }
}
