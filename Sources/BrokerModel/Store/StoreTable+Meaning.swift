extension StoreTable {
    /// Whether a row of this key and body says anything to this broker.
    public func hasMeaning(key: UInt64, body: UnsafeRawBufferPointer) -> Bool {
        switch self {
        case .run where key == StoredRun.key: StoredRun(decoding: body) != nil
        case .run where key == StoredMembership.key: StoredMembership(decoding: body) != nil
        case .run where StoredLogPlaces.shard(ofKey: key) != nil: StoredLogPlaces(decoding: body) != nil
        case .run where StoredDealing.shard(ofKey: key) != nil: StoredDealing(decoding: body) != nil
        case .run: StoredBan(decoding: body) != nil
        case .relayed: RelayedReceipt(decoding: body) != nil
        case .session: StoredSession(decoding: body) != nil
        case .subscription: StoredSubscription(decoding: body) != nil
        case .received: StoredReceipt(key: key, body: body) != nil
        case .message: StoredMessage(decoding: body)?.isLegal ?? false
        case .retained: StoredRetained(decoding: body)?.message.isLegal ?? false
        case .entry: StoredEntry(decoding: body)?.isLegal ?? false
        case .flow: StoredFlow(decoding: body) != nil
        }
    }
}
