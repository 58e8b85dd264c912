extension StoreTable {
    /// Whether a row of this key and body says anything to this broker.
    public func hasMeaning(key: UInt64, body: UnsafeRawBufferPointer) -> Bool {
        switch self {
        case .run: StoredRun(decoding: body) != nil
        case .relayed: RelayedReceipt(decoding: body) != nil
        case .session: StoredSession(decoding: body) != nil
        case .subscription: StoredSubscription(decoding: body) != nil
        case .received: StoredReceipt(key: key, body: body) != nil
        case .message: StoredMessage(decoding: body) != nil
        case .retained: StoredRetained(decoding: body) != nil
        case .entry: StoredEntry(decoding: body) != nil
        case .flow: StoredFlow(decoding: body) != nil
        }
    }
}
