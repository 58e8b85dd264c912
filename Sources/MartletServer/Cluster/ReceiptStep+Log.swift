import BrokerCore
import Cluster
import MQTTCodec

/// The steps of clients that send QoS 2, as the log has them.
extension ReceiptStep {
    init(_ receipt: LoggedReceipt) {
        self.init(
            receipt.digest.map { .received(digest: $0) } ?? (receipt.packetIdentifier == 0 ? .mark : .released),
            receipt.packetIdentifier,
            at: Place(epoch: receipt.epoch, number: receipt.number))
    }
}

extension SessionStep {
    /// Calls `body` with the entry of the log, which is valid during the call.
    func withReceipt(_ body: (Bundle.Entry) -> Void) {
        let digest: UInt32? =
            switch step.kind {
            case .received(let digest): digest
            case .released, .mark: nil
            }
        let receipt = LoggedReceipt(
            epoch: step.place.epoch, number: step.place.number, packetIdentifier: step.packetIdentifier, digest: digest)
        clientIdentifier.bytes.withUnsafeBytes { body(.receipt(session: $0, receipt)) }
    }
}
