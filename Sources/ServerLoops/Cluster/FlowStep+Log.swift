import BrokerCore
import BrokerModel
package import Cluster
import MQTTCodec

/// The steps of sessions, as the log has them.
extension FlowStep {
    init(_ receipt: LoggedReceipt) {
        self.init(
            receipt.digest.map { .received(digest: $0) } ?? (receipt.packetIdentifier == 0 ? .mark : .released),
            receipt.packetIdentifier,
            at: Place(epoch: receipt.epoch, number: receipt.number))
    }

    init(_ delivery: LoggedDelivery) {
        let name = delivery.name.map { MessageName(rawValue: $0) }
        self.init(
            name.map { delivery.packetIdentifier == 0 ? .dealt($0) : .sent($0) } ?? .acknowledged, delivery.packetIdentifier,
            at: Place(epoch: delivery.epoch, number: delivery.number))
        finished = delivery.finished
    }
}

extension SessionStep {
    /// Calls `body` with the entry of the log, which is valid during the call.
    package func withEntry(_ body: (Bundle.Entry) -> Void) {
        clientIdentifier.bytes.withUnsafeBytes { session in
            switch step.kind {
            case .received(let digest): body(.receipt(session: session, receipt(digest)))
            case .released, .mark: body(.receipt(session: session, receipt(nil)))
            case .sent(let name), .dealt(let name): body(.delivery(session: session, delivery(name.rawValue)))
            case .acknowledged: body(.delivery(session: session, delivery(nil)))
            }
        }
    }

    private func receipt(_ digest: UInt32?) -> LoggedReceipt {
        LoggedReceipt(
            epoch: step.place.epoch, number: step.place.number, packetIdentifier: step.packetIdentifier, digest: digest)
    }

    private func delivery(_ name: UInt64?) -> LoggedDelivery {
        LoggedDelivery(
            epoch: step.place.epoch, number: step.place.number, packetIdentifier: step.packetIdentifier, name: name,
            finished: step.finished)
    }
}
