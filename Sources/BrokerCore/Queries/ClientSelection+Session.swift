import BrokerModel
import MQTTCodec

extension ClientSelection {
    /// Whether a session is meant.
    func takes(_ session: Session, now: UInt64) -> Bool {
        if let isConnected, (session.connection != nil) != isConnected { return false }
        if let version, session.version != version { return false }
        if let prefix, !session.clientIdentifier.bytes.starts(with: prefix.bytes) { return false }
        if let userName, session.userName != userName { return false }
        if dropsMin > 0, session.drops.total < dropsMin { return false }
        if queuedMin > 0, session.outbox.waiting < queuedMin { return false }
        if lagMillisecondsMin > 0, session.lagMilliseconds(now: now) < lagMillisecondsMin { return false }
        if listener != nil || network != nil {
            guard let info = session.connection?.with({ $0.isLocal ? nil : $0.info }) else { return false }
            if let listener, info.listener != listener { return false }
            if let network, !network.contains(info.address) { return false }
        }
        guard let text else { return true }
        return Self.has(text, in: session.clientIdentifier.bytes) || session.userName.map { Self.has(text, in: $0.bytes) } ?? false
    }

    /// Where a session stands.
    func position(of session: Session, now: UInt64) -> ClientPosition {
        ClientPosition(value: value(of: session, now: now), clientIdentifier: session.clientIdentifier)
    }

    private func value(of session: Session, now: UInt64) -> UInt64 {
        switch order {
        case .clientIdentifier, nil: 0
        case .drops: session.drops.total
        case .queuedMessages: UInt64(session.outbox.waiting)
        case .queuedBytes: UInt64(session.outbox.waitingBytes)
        case .outputBytes: session.connection?.with { UInt64($0.output.pendingBytes) } ?? 0
        case .lag: session.lagMilliseconds(now: now)
        case .receivedRate: session.connection?.with { $0.rates(at: now).received } ?? 0
        case .sentRate: session.connection?.with { $0.rates(at: now).sent } ?? 0
        case .subscriptions: UInt64(session.heldSubscriptions)
        case .connectedAt: session.connection?.with { $0.connectedAt } ?? 0
        }
    }

    /// - Parameter text: folded, not empty.
    private static func has(_ text: [UInt8], in bytes: [UInt8]) -> Bool {
        guard bytes.count >= text.count else { return false }
        return bytes.withUnsafeBufferPointer { bytes in
            text.withUnsafeBufferPointer { text in
                (0...bytes.count - text.count).contains { start in
                    text.indices.allSatisfy { folded(bytes[start + $0]) == text[$0] }
                }
            }
        }
    }
}
