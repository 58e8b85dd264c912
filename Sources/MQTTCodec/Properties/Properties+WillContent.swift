extension Properties {
    /// Reads what `encodedContent` wrote of a will's properties; nil if it is not that.
    public init?(willContent bytes: [UInt8]) {
        let decoded = try? bytes.withUnsafeBytes { block throws(WireError) in
            try Properties.decode(block: block, in: .will, from: .client)
        }
        guard let decoded else { return nil }
        self = decoded
    }
}
