import MQTTCodec

/// QoS 1 and 2 messages from the server whose handshake is not complete.
struct IncomingFlow: Sendable {
    enum Verdict {
        /// To be told.
        case new
        /// Told and acknowledged before: to be acknowledged again.
        case repeated
        /// Told before, and its owner has not acknowledged it yet.
        case pending
        /// The server sends more than it was allowed.
        case tooMany
    }

    private enum Step {
        /// Told; its owner has not acknowledged it.
        case told(QoS)
        /// QoS 2: PUBREC is sent, PUBREL has not come.
        case received
    }

    private var steps: [UInt16: Step] = [:]

    mutating func received(_ identifier: UInt16, _ qos: QoS, maximum: Int) -> Verdict {
        switch steps[identifier] {
        case .told: return .pending
        case .received: return .repeated
        case nil: break
        }
        guard steps.count < maximum else { return .tooMany }
        steps[identifier] = .told(qos)
        return .new
    }

    /// Its owner acknowledges or refuses it. Returns whether there is something to answer.
    mutating func acknowledge(_ identifier: UInt16, isRefused: Bool) -> Bool {
        guard case .told(let qos) = steps[identifier] else { return false }
        steps[identifier] = qos == .exactlyOnce && !isRefused ? .received : nil
        return true
    }

    /// PUBREL: the identifier is free. Returns whether it was known.
    mutating func release(_ identifier: UInt16) -> Bool {
        guard case .received = steps[identifier] else { return false }
        steps[identifier] = nil
        return true
    }
}
