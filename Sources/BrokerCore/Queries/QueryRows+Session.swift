import BrokerModel
import MQTTCodec

extension SubscriptionRow {
    init(_ session: Session, _ filter: [UInt8], shareName: EncodedString?, _ terms: SubscriptionTerms) {
        // When retained messages go out is nothing that a subscription remembers.
        let options = SubscriptionOptions(
            maximumQoS: terms.maximumQoS, noLocal: terms.noLocal, retainAsPublished: terms.retainAsPublished)
        self.init(
            clientIdentifier: session.clientIdentifier, filter: filter, shareName: shareName, options: options,
            identifier: terms.identifier)
    }
}

extension RetainedRow {
    init(_ message: Message) {
        self.init(
            topic: Array(message.topic), qos: message.qos, payloadBytes: message.payload.count,
            expiresAt: message.expiresAt == Message.neverExpires ? nil : message.expiresAt,
            publisher: message.source?.clientIdentifier)
    }
}
