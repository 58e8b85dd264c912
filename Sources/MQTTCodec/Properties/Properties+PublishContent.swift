extension Properties {
    /// Reads the properties of a PUBLISH as a server sends them, without their length; nil if the bytes are not that.
    public init?(publishContent bytes: [UInt8]) {
        guard let properties = bytes.withUnsafeBytes({ Properties(publishContent: $0) }) else { return nil }
        self = properties
    }

    /// As above, for bytes where they lie.
    public init?(publishContent bytes: UnsafeRawBufferPointer) {
        do throws(WireError) { self = try Properties.decode(block: bytes, in: .publish, from: .server) } catch { return nil }
    }

    /// Whether bytes are the properties of a message, without their length: those that travel with it, and none of a connection's.
    public static func areOfMessage(_ bytes: UnsafeRawBufferPointer) -> Bool {
        bytes.isEmpty || scanned(bytes).map { $0.keptBackLength == 0 } ?? false
    }

    /// Whether bytes are Subscription Identifiers as they stand among the properties of a PUBLISH, any number of them and nothing else.
    public static func areSubscriptionIdentifiers(_ bytes: UnsafeRawBufferPointer) -> Bool {
        if bytes.isEmpty { return true }
        guard let scan = scanned(bytes), scan.topicAlias == 0, scan.messageExpiryInterval == nil else { return false }
        return scan.keptBackLength == bytes.count
    }

    private static func scanned(_ bytes: UnsafeRawBufferPointer) -> PublishPropertyScan? {
        var scan = PublishPropertyScan()
        do throws(WireError) {
            try scan.scan(bytes, from: .server)
            return scan
        } catch {
            return nil
        }
    }
}
