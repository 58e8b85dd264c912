public import BrokerModel
public import MQTTCodec

/// A step on its way into the log.
public struct SessionStep: Sendable {
    public let step: FlowStep
    public let clientIdentifier: EncodedString
    /// What the client's messages carry: what has the same publisher keeps its order.
    public let publisher: UInt64

    /// Whether it comes with a message.
    var isOfMessage: Bool {
        switch step.kind {
        case .received: true
        case .released, .sent, .acknowledged, .dealt, .mark: false
        }
    }

    init(_ step: FlowStep, of session: Session) {
        self.step = step
        (clientIdentifier, publisher) = (session.clientIdentifier, session.publisherKey)
    }
}
