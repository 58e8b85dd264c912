extension Properties {
    /// Reads the properties of a PUBLISH as a server sends them, without their length; nil if the bytes are not that.
    public init?(publishContent bytes: [UInt8]) {
        let decoded = try? bytes.withUnsafeBytes { block throws(WireError) in
            try Properties.decode(block: block, in: .publish, from: .server)
        }
        guard let decoded else { return nil }
        self = decoded
    }
}
