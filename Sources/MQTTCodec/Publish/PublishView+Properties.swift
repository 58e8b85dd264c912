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
        forEachProperty { identifier, start, end in
            guard identifier == .topicAlias || identifier == .messageExpiryInterval || identifier == .subscriptionIdentifier else {
                return
            }
            copyRun(until: start)
            runStart = end
        }
        copyRun(until: properties.count)
    }

    /// The subscription identifiers, for a client that looks up which of its subscriptions the message is for. Allocates.
    public var subscriptionIdentifiers: [UInt32] {
        guard hasSubscriptionIdentifiers else { return [] }
        var identifiers: [UInt32] = []
        forEachProperty { identifier, start, end in
            guard identifier == .subscriptionIdentifier else { return }
            let value = try? VariableByteInteger.read(UnsafeRawBufferPointer(rebasing: properties[(start + 1)..<end]))
            if let value { identifiers.append(UInt32(truncatingIfNeeded: value.value)) }
        }
        return identifiers
    }

    /// Calls `body` with the identifier and the range of each property. The bytes were checked when the view was made.
    @inline(__always)
    private func forEachProperty(_ body: (PropertyIdentifier, _ start: Int, _ end: Int) -> Void) {
        var start = 0
        while start < properties.count, let identifier = PropertyIdentifier(rawValue: properties[start]) {
            let end = endOfProperty(identifier, at: start)
            body(identifier, start, end)
            start = end
        }
    }

    private func endOfProperty(_ identifier: PropertyIdentifier, at start: Int) -> Int {
        switch identifier {
        case .payloadFormatIndicator: start + 2
        case .topicAlias: start + 3
        case .messageExpiryInterval: start + 5
        case .userProperty: endOfText(at: endOfText(at: start + 1))
        case .subscriptionIdentifier: endOfVariableByteInteger(at: start + 1)
        default: endOfText(at: start + 1)  // Content Type, Response Topic, Correlation Data: no other passes the check.
        }
    }

    private func endOfText(at offset: Int) -> Int {
        offset + 2 + Int(UInt16(bigEndian: properties.loadUnaligned(fromByteOffset: offset, as: UInt16.self)))
    }

    private func endOfVariableByteInteger(at offset: Int) -> Int {
        var offset = offset
        while properties[offset] >= 0x80 { offset += 1 }
        return offset + 1
    }
}
