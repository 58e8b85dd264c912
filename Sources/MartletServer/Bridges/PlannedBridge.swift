import Transports

/// A `connection` section of a file: what it asks for, or why it cannot be run.
struct PlannedBridge: Sendable {
    let name: String
    /// Nil if its certificates, keys or ciphers cannot be used.
    let plan: BridgePlan?
    /// Why not, as sentences without the last full stop.
    let failure: String?

    init(name: String, plan: BridgePlan) { (self.name, self.plan, failure) = (name, plan, nil) }

    init(name: String, failure: TLSFailure) {
        (self.name, plan) = (name, nil)
        self.failure = "\(failure.bridgeOption.map { "\($0): " } ?? "")\(failure.explanation)"
    }
}
